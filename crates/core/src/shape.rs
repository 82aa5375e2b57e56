//! How the fields of records, commands and queries are read from JSON, written to it and checked.

use crate::json::read::{Fields, elements, wrong_kind};
use crate::json::scan::{Kind, Raw};
use crate::json::write::{self, Object};
use crate::{AnswerForm, EndStatus, Error, Execution, Id, Order, Payload, Principal, Result, Status, Text, Time};

/// The greatest number of values in a list that filters.
pub const MAX_LIST_VALUES: usize = 100_000;

/// The size limit of one payload or text unless the store is opened with another, in bytes.
pub const DEFAULT_MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// The size limit of one request in the JSON form, in bytes.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// The limits that a store was opened with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of one payload or text.
    pub max_payload_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_payload_bytes: DEFAULT_MAX_PAYLOAD_BYTES }
    }
}

/// A set of fields with a JSON form.
pub(crate) trait Shape: Sized {
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
    fn write(&self, object: &mut Object<'_>);
    fn check(&self, limits: &Limits) -> Result<()>;

    fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(512);
        self.append_json(&mut out);
        write::into_string(out)
    }

    fn append_json(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        self.write(&mut object);
        object.end();
    }

    fn of_value(field: &str, raw: &Raw<'_>) -> Result<Self> {
        let mut fields = Fields::of_value(field, raw)?;
        let read = Self::read(&mut fields).map_err(|e| e.under(field))?;
        fields.finish().map_err(|e| e.under(field))?;
        Ok(read)
    }
}

/// The type of one field.
pub(crate) trait Field: Sized {
    fn read(fields: &mut Fields<'_>, name: &str) -> Result<Self>;
    fn write(&self, object: &mut Object<'_>, name: &str);
    fn check(&self, name: &str, limits: &Limits) -> Result<()>;
}

/// A value that a field holds, required or optional.
trait Value: Sized {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self>;
    fn put(&self, object: &mut Object<'_>, name: &str);
    fn check(&self, _name: &str, _limits: &Limits) -> Result<()> {
        Ok(())
    }
}

macro_rules! fields_of {
    ($take:ident: $($value:ty),*) => {$(
        impl Field for $value {
            fn read(fields: &mut Fields<'_>, name: &str) -> Result<Self> {
                match fields.take(name) {
                    Some(raw) => Value::of(&raw, name),
                    None => Err(Error::invalid(name, "is required")),
                }
            }
            fn write(&self, object: &mut Object<'_>, name: &str) {
                self.put(object, name);
            }
            fn check(&self, name: &str, limits: &Limits) -> Result<()> {
                Value::check(self, name, limits)
            }
        }
        impl Field for Option<$value> {
            fn read(fields: &mut Fields<'_>, name: &str) -> Result<Self> {
                fields.$take(name).map(|raw| Value::of(&raw, name)).transpose()
            }
            fn write(&self, object: &mut Object<'_>, name: &str) {
                if let Some(value) = self {
                    value.put(object, name);
                }
            }
            fn check(&self, name: &str, limits: &Limits) -> Result<()> {
                self.as_ref().map_or(Ok(()), |value| Value::check(value, name, limits))
            }
        }
    )*};
}

fields_of!(take_unless_null: Id, Text, Time, u32, u64, bool, String, Status, EndStatus, AnswerForm, Order, Execution, Principal,
           Vec<Id>, Vec<Status>, Vec<EndStatus>);
// Of a payload, null is a value.
fields_of!(take: Payload);

impl Value for Id {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        text(raw, name).map(|text| Id::from(&*text))
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.str(name, self);
    }
    fn check(&self, name: &str, _limits: &Limits) -> Result<()> {
        Id::check(self, name)
    }
}

impl Value for Text {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        text(raw, name).map(|text| Text::from(&*text))
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.str(name, self);
    }
    fn check(&self, name: &str, limits: &Limits) -> Result<()> {
        within_limit(self.len(), name, limits)
    }
}

/// A cursor, which is judged where it is used.
impl Value for String {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        text(raw, name).map(std::borrow::Cow::into_owned)
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.str(name, self);
    }
}

impl Value for Payload {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        Payload::from_raw(name, raw)
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.raw(name, self.as_json());
    }
    fn check(&self, name: &str, limits: &Limits) -> Result<()> {
        within_limit(self.as_json().len(), name, limits)
    }
}

impl Value for Time {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        let text = text(raw, name)?;
        text.parse().map_err(|_| Error::invalid(name, "not a time such as 2026-03-01T09:30:00Z, of the years 0001 to 9999"))
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.time(name, *self);
    }
}

impl Value for bool {
    fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
        match raw.kind {
            Kind::Bool(value) => Ok(value),
            _ => Err(wrong_kind(name, "true or false", raw)),
        }
    }
    fn put(&self, object: &mut Object<'_>, name: &str) {
        object.bool(name, *self);
    }
}

macro_rules! integer {
    ($($integer:ty),*) => {$(
        impl Value for $integer {
            fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
                let value = raw.as_integer().ok_or_else(|| wrong_kind(name, "an integer in digits", raw))?;
                value.try_into().map_err(|_| Error::invalid(name, "out of range"))
            }
            fn put(&self, object: &mut Object<'_>, name: &str) {
                object.u64(name, u64::from(*self));
            }
        }
    )*};
}
integer!(u32, u64);

macro_rules! words {
    ($($word:ty: $wanted:literal;)*) => {$(
        impl Value for $word {
            fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
                raw.as_text().and_then(|text| <$word>::from_name(&text))
                    .ok_or_else(|| Error::invalid(name, concat!("not one of ", $wanted)))
            }
            fn put(&self, object: &mut Object<'_>, name: &str) {
                object.str(name, self.as_str());
            }
        }
    )*};
}
words! {
    Status: "queued, running, waiting, succeeded, failed, cancelled";
    EndStatus: "succeeded, failed, cancelled";
    AnswerForm: "record, state";
    Order: "asc, desc";
}

macro_rules! objects {
    ($($object:ty),*) => {$(
        impl Value for $object {
            fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
                Shape::of_value(name, raw)
            }
            fn put(&self, object: &mut Object<'_>, name: &str) {
                object.nested(name, |nested| Shape::write(self, nested));
            }
            fn check(&self, name: &str, limits: &Limits) -> Result<()> {
                Shape::check(self, limits).map_err(|e| e.under(name))
            }
        }
    )*};
}
objects!(Execution, Principal);

macro_rules! lists {
    ($($item:ty: $as_str:path;)*) => {$(
        impl Value for Vec<$item> {
            fn of(raw: &Raw<'_>, name: &str) -> Result<Self> {
                elements(name, raw)?.iter().map(|element| <$item as Value>::of(element, name)).collect()
            }
            fn put(&self, object: &mut Object<'_>, name: &str) {
                object.list(name, self, |out, item| write::string(out, $as_str(item)));
            }
            fn check(&self, name: &str, limits: &Limits) -> Result<()> {
                if self.len() > MAX_LIST_VALUES {
                    return Err(Error::invalid(name, format_args!("at most {MAX_LIST_VALUES} values, not {}", self.len())));
                }
                self.iter().try_for_each(|item| Value::check(item, name, limits))
            }
        }
    )*};
}
lists! {
    Id: Id::as_ref;
    Status: status_name;
    EndStatus: end_status_name;
}

fn status_name(status: &Status) -> &'static str {
    status.as_str()
}

fn end_status_name(status: &EndStatus) -> &'static str {
    status.as_str()
}

fn text<'a>(raw: &Raw<'a>, name: &str) -> Result<std::borrow::Cow<'a, str>> {
    raw.as_text().ok_or_else(|| wrong_kind(name, "a string", raw))
}

fn within_limit(size_bytes: usize, name: &str, limits: &Limits) -> Result<()> {
    if size_bytes > limits.max_payload_bytes {
        return Err(Error::too_large(name, size_bytes, limits.max_payload_bytes));
    }
    Ok(())
}

/// Implements [`Shape`] for a struct from the table of its fields and their JSON names.
macro_rules! shape {
    ($name:ident { $($field:ident: $type:ty = $json:literal),* $(,)? } $(where $rules:expr)?) => {
        #[allow(unused_variables, reason = "an operation may have no fields at all")]
        impl $crate::shape::Shape for $name {
            fn read(fields: &mut $crate::json::read::Fields<'_>) -> $crate::Result<Self> {
                Ok($name { $($field: $crate::shape::Field::read(fields, $json)?),* })
            }
            fn write(&self, object: &mut $crate::json::write::Object<'_>) {
                $($crate::shape::Field::write(&self.$field, object, $json);)*
            }
            fn check(&self, limits: &$crate::Limits) -> $crate::Result<()> {
                $($crate::shape::Field::check(&self.$field, $json, limits)?;)*
                $($rules(self)?;)?
                Ok(())
            }
        }
    };
}
pub(crate) use shape;

//! Payloads: JSON values that are kept byte for byte.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::scan::{Raw, Scanner};
use crate::{Error, Result};

/// One JSON value as text, kept byte for byte: key order, duplicate keys, number spelling, escapes and white space
/// inside. Only a raw line break between tokens becomes a space, so that a record is always one line.
///
/// ```
/// let payload = runledger_core::Payload::from_json(r#" {"price": 1.0} "#)?;
/// assert_eq!(payload.as_json(), r#"{"price": 1.0}"#);
/// # Ok::<(), runledger_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Checks JSON text and takes it as a payload.
    ///
    /// # Errors
    /// `invalid_input` when the text is no JSON, is nested more than 127 deep, has the escape of a lone surrogate or a
    /// number that no double can hold. The size limit is the store's, and is checked when a command is executed.
    pub fn from_json(json: impl AsRef<str>) -> Result<Payload> {
        let raw = Scanner::only_value(json.as_ref())
            .map_err(|e| Error::invalid("payload", format_args!("not JSON: {} at byte {}", e.why, e.at)))?;
        Payload::from_raw("payload", &raw)
    }

    /// The JSON form of any serialisable value.
    ///
    /// # Errors
    /// `invalid_input` when the value can't be written as JSON, or is none that [`Payload::from_json`] takes.
    ///
    /// ```
    /// let payload = runledger_core::Payload::from_value(&[1, 2])?;
    /// assert_eq!(payload.as_json(), "[1,2]");
    /// # Ok::<(), runledger_core::Error>(())
    /// ```
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<Payload> {
        let json = serde_json::to_string(value).map_err(|e| Error::invalid("payload", e))?;
        Payload::from_json(json)
    }

    pub(crate) fn from_raw(field: &str, raw: &Raw<'_>) -> Result<Payload> {
        if let Some(fault) = raw.fault {
            return Err(Error::invalid(field, fault));
        }
        if raw.has_line_break {
            return Ok(Payload(raw.text.replace(['\n', '\r'], " ").into()));
        }
        Ok(Payload(raw.text.into()))
    }

    /// Takes text that a store holds, which was checked when it was written and is covered by a checksum.
    pub fn from_stored(json: impl Into<Arc<str>>) -> Payload {
        Payload(json.into())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Reads the value.
    ///
    /// # Errors
    /// `invalid_input` when the value is none of the wanted type.
    ///
    /// ```
    /// let payload = runledger_core::Payload::from_json("[1,2]")?;
    /// assert_eq!(payload.to_value::<Vec<u32>>()?, [1, 2]);
    /// # Ok::<(), runledger_core::Error>(())
    /// ```
    pub fn to_value<T: for<'de> Deserialize<'de>>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|e| Error::invalid("payload", e))
    }
}

impl From<Payload> for Arc<str> {
    fn from(payload: Payload) -> Self {
        payload.0
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serialize_json(self.0.to_string(), serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Payload::from_json(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// Hands JSON text through serde as it is (byte for byte with serde_json).
pub(crate) fn serialize_json<S: Serializer>(json: String, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serde_json::value::RawValue::from_string(json).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

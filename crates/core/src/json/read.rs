//! Reads the objects of the JSON form: every field once, none unknown, every error naming its field.

use std::borrow::Cow;

use super::scan::{Kind, NotJson, Raw, Scanner};
use crate::{Error, Result};

/// The members of one object, each to be taken by name; what is left over is unknown.
pub(crate) struct Fields<'a> {
    members: Vec<(Cow<'a, str>, Option<Raw<'a>>)>,
}

impl<'a> Fields<'a> {
    /// Reads the object that the whole text is.
    pub(crate) fn of_text(text: &'a str) -> Result<Fields<'a>> {
        let start = text.trim_start_matches([' ', '\t', '\n', '\r']);
        if !start.starts_with('{') {
            let raw = Scanner::only_value(text).map_err(not_json)?;
            return Err(Error::new(crate::Code::InvalidInput, format!("a request is an object, not {}", name(raw.kind))));
        }
        let mut scanner = Scanner::new(text);
        let members = Fields::scan(&mut scanner).map_err(not_json)?;
        Fields::without_repeats(members)
    }

    /// Reads a value that must be an object.
    pub(crate) fn of_value(field: &str, raw: &Raw<'a>) -> Result<Fields<'a>> {
        if raw.kind != Kind::Object {
            return Err(wrong_kind(field, "an object", raw));
        }
        let members = Fields::scan(&mut Scanner::new(raw.text)).map_err(not_json)?;
        Fields::without_repeats(members).map_err(|e| e.under(field))
    }

    fn scan(scanner: &mut Scanner<'a>) -> std::result::Result<Vec<(Raw<'a>, Raw<'a>)>, NotJson> {
        let mut members = Vec::with_capacity(12);
        scanner.skip_space();
        scanner.need(b'{', "an object was expected")?;
        scanner.skip_space();
        if !scanner.take(b'}') {
            loop {
                let key = scanner.string_value()?;
                scanner.skip_space();
                scanner.need(b':', "a colon was expected")?;
                scanner.skip_space();
                members.push((key, scanner.value()?));
                scanner.skip_space();
                if !scanner.take(b',') {
                    break;
                }
                scanner.skip_space();
            }
            scanner.need(b'}', "a comma or a closing bracket was expected")?;
        }
        scanner.end()?;
        Ok(members)
    }

    fn without_repeats(raw_members: Vec<(Raw<'a>, Raw<'a>)>) -> Result<Fields<'a>> {
        let mut members: Vec<(Cow<'a, str>, Option<Raw<'a>>)> = Vec::with_capacity(raw_members.len());
        for (key, value) in raw_members {
            let Some(key) = key.as_text() else {
                return Err(Error::invalid(key.text, "a member's name that is no Unicode text"));
            };
            members.push((key, Some(value)));
        }
        // A handful of members is compared directly; a request with thousands of unknown ones must not cost their square.
        if members.len() <= 24 {
            for (index, (key, _)) in members.iter().enumerate() {
                if members[..index].iter().any(|(earlier, _)| earlier == key) {
                    return Err(Error::invalid(key.as_ref(), "given twice"));
                }
            }
        } else {
            let mut seen = std::collections::HashSet::new();
            if let Some((key, _)) = members.iter().find(|(key, _)| !seen.insert(key)) {
                return Err(Error::invalid(key.as_ref(), "given twice"));
            }
        }
        Ok(Fields { members })
    }

    /// Takes a member out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Raw<'a>> {
        self.members.iter_mut().find(|(key, _)| key == name).and_then(|(_, value)| value.take())
    }

    /// Takes a member out; null counts as absent.
    pub(crate) fn take_unless_null(&mut self, name: &str) -> Option<Raw<'a>> {
        self.take(name).filter(|raw| raw.kind != Kind::Null)
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.members.iter().find(|(_, value)| value.is_some()) {
            Some((key, _)) => Err(Error::invalid(key.as_ref(), "there is no such field")),
            None => Ok(()),
        }
    }
}

/// The elements of a value that must be an array.
pub(crate) fn elements<'a>(field: &str, raw: &Raw<'a>) -> Result<Vec<Raw<'a>>> {
    if raw.kind != Kind::Array {
        return Err(wrong_kind(field, "an array", raw));
    }
    let scan = || {
        let mut scanner = Scanner::new(raw.text);
        let mut values = Vec::new();
        scanner.need(b'[', "an array was expected")?;
        scanner.skip_space();
        while !scanner.take(b']') {
            values.push(scanner.value()?);
            scanner.skip_space();
            if scanner.take(b',') {
                scanner.skip_space();
            }
        }
        Ok(values)
    };
    scan().map_err(not_json)
}

pub(crate) fn not_json(e: NotJson) -> Error {
    Error::new(crate::Code::InvalidInput, format!("not JSON: {} at byte {}", e.why, e.at))
}

pub(crate) fn wrong_kind(field: &str, wanted: &str, raw: &Raw<'_>) -> Error {
    match raw.fault {
        Some(fault) if raw.kind == Kind::String => Error::invalid(field, fault),
        _ => Error::invalid(field, format_args!("{wanted} was expected, not {}", name(raw.kind))),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "an object",
        Kind::Array => "an array",
        Kind::String => "a string",
        Kind::Number => "a number",
        Kind::Bool(_) => "true or false",
        Kind::Null => "null",
    }
}

//! The text of an answer, and the parts of it that a program asks for.
//!
//! Parts are found when they are asked for, and what was found is kept: a page of a thousand runs of which one field each is
//! read is looked through once.

use std::ffi::c_char;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use runledger::{Code, Error, Result, Time};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A text for C: its bytes, and a NUL behind them.
#[derive(Debug)]
pub(crate) struct Terminated(Box<[u8]>);

impl Terminated {
    pub(crate) fn new(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        Terminated(bytes.into_boxed_slice())
    }

    /// Its length without the NUL, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[..self.len()]).expect("it was made of a str")
    }
}

/// One value in a text.
#[derive(Debug)]
struct Node {
    place: Range<usize>,
    children: OnceLock<Children>,
    /// The value of a string, without its quotes and escapes.
    text: OnceLock<Terminated>,
    raw: OnceLock<Terminated>,
}

#[derive(Debug)]
enum Children {
    None,
    Elements(Vec<Node>),
    Members(Vec<(String, Node)>),
}

impl Node {
    fn at(place: Range<usize>) -> Self {
        Node { place, children: OnceLock::new(), text: OnceLock::new(), raw: OnceLock::new() }
    }

    fn json<'a>(&self, whole: &'a str) -> &'a str {
        &whole[self.place.clone()]
    }

    fn children(&self, whole: &str) -> &Children {
        self.children.get_or_init(|| self.look(whole).unwrap_or(Children::None))
    }

    fn look(&self, whole: &str) -> Option<Children> {
        let json = self.json(whole);
        let node = |raw: &RawValue| {
            let start = raw.get().as_ptr() as usize - whole.as_ptr() as usize;
            Node::at(start..start + raw.get().len())
        };
        match json.as_bytes().first()? {
            b'[' => {
                let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
                Some(Children::Elements(elements.into_iter().map(node).collect()))
            }
            b'{' => {
                let Members(members) = serde_json::from_str(json).ok()?;
                Some(Children::Members(members.into_iter().map(|(name, raw)| (name, node(raw))).collect()))
            }
            _ => None,
        }
    }

    fn child(&self, whole: &str, step: &str) -> Option<&Node> {
        match self.children(whole) {
            Children::None => None,
            Children::Elements(elements) => elements.get(index(step)?),
            // Of a name that is there twice the last counts, as for most readers.
            Children::Members(members) => members.iter().rev().find(|(name, _)| name == step).map(|(_, node)| node),
        }
    }
}

/// The index that a step of a pointer is: digits, without a zero before them.
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || !step.starts_with('0');
    if plain && step.bytes().all(|byte| byte.is_ascii_digit()) { step.parse().ok() } else { None }
}

/// The members of an object in their order, repeated names too.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A JSON text with its parts.
#[derive(Debug)]
pub(crate) struct Json {
    text: Terminated,
    root: Node,
}

impl Json {
    pub(crate) fn new(text: &str) -> Self {
        Json { text: Terminated::new(text), root: Node::at(0..text.len()) }
    }

    pub(crate) fn text(&self) -> &Terminated {
        &self.text
    }

    /// The value at a JSON Pointer (RFC 6901): "" is the whole, "/runs/0/id" the id of the first run.
    fn find(&self, pointer: &str) -> Result<&Node> {
        if pointer.is_empty() {
            return Ok(&self.root);
        }
        let tokens = pointer.strip_prefix('/').ok_or_else(|| Error::invalid("pointer", "begins with /, or is empty"))?;
        let mut node = &self.root;
        for step in tokens.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            let found = node.child(self.text.as_str(), &step);
            node = found.ok_or_else(|| Error::new(Code::NotFound, "there is no such value"))?;
        }
        Ok(node)
    }

    fn json_at(&self, pointer: &str) -> Result<&str> {
        Ok(self.find(pointer)?.json(self.text.as_str()))
    }

    /// The value of a string.
    pub(crate) fn str_at(&self, pointer: &str) -> Result<&Terminated> {
        let node = self.find(pointer)?;
        if let Some(text) = node.text.get() {
            return Ok(text);
        }
        let text: String = serde_json::from_str(node.json(self.text.as_str())).map_err(|_| not("a string"))?;
        Ok(node.text.get_or_init(|| Terminated::new(&text)))
    }

    /// The JSON text of a value, as it stands.
    pub(crate) fn raw_at(&self, pointer: &str) -> Result<&Terminated> {
        let node = self.find(pointer)?;
        Ok(node.raw.get_or_init(|| Terminated::new(node.json(self.text.as_str()))))
    }

    pub(crate) fn i64_at(&self, pointer: &str) -> Result<i64> {
        serde_json::from_str(self.json_at(pointer)?).map_err(|_| not("an integer of 64 bits"))
    }

    pub(crate) fn bool_at(&self, pointer: &str) -> Result<bool> {
        serde_json::from_str(self.json_at(pointer)?).map_err(|_| not("true or false"))
    }

    pub(crate) fn time_at(&self, pointer: &str) -> Result<Time> {
        let text: String = serde_json::from_str(self.json_at(pointer)?).map_err(|_| not("a time"))?;
        text.parse().map_err(|_| not("a time"))
    }

    /// How many elements or members a value has.
    pub(crate) fn len_at(&self, pointer: &str) -> Result<usize> {
        match self.find(pointer)?.children(self.text.as_str()) {
            Children::None => Err(not("an array or object")),
            Children::Elements(elements) => Ok(elements.len()),
            Children::Members(members) => Ok(members.len()),
        }
    }
}

fn not(wanted: &str) -> Error {
    Error::invalid("pointer", format_args!("the value there is not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> Json {
        Json::new(
            r#"{"runs":[{"id":"a\u0000\"b","n":-7,"t":"2026-03-01T09:30:00.000001Z","ok":true},{"x":{}}],"a/b":{"~":[ 1, 2 ]},"k":1,"k":2}"#,
        )
    }

    fn code<T: fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code()
    }

    #[test]
    fn values_are_found_by_their_pointer() {
        let json = json();
        assert_eq!(json.str_at("/runs/0/id").unwrap().as_str(), "a\0\"b");
        assert_eq!(json.i64_at("/runs/0/n").unwrap(), -7);
        assert_eq!(json.time_at("/runs/0/t").unwrap().unix_us(), 1_772_357_400_000_001);
        assert!(json.bool_at("/runs/0/ok").unwrap());
        assert_eq!(json.raw_at("/a~1b/~0").unwrap().as_str(), "[ 1, 2 ]");
        assert_eq!(json.i64_at("/k").unwrap(), 2);
        assert_eq!(["", "/runs", "/runs/1", "/runs/1/x"].map(|pointer| json.len_at(pointer).unwrap()), [4, 2, 1, 0]);
        assert_eq!(json.raw_at("").unwrap().as_str(), json.text().as_str());
    }

    #[test]
    fn what_is_not_there_is_not_found_and_what_is_of_another_kind_is_invalid() {
        let json = json();
        for pointer in ["/none", "/runs/2", "/runs/-1", "/runs/00", "/runs/1e0", "/runs/-", "/k/x", "/", "/runs/0/id/x"] {
            assert_eq!(code(json.raw_at(pointer)), Code::NotFound, "{pointer}");
        }
        assert_eq!(code(json.raw_at("runs")), Code::InvalidInput);
        for pointer in ["/runs", "/k", "/runs/0/ok"] {
            assert_eq!(code(json.str_at(pointer)), Code::InvalidInput, "{pointer}");
            assert_eq!(code(json.time_at(pointer)), Code::InvalidInput, "{pointer}");
        }
        assert_eq!(code(json.time_at("/runs/0/id")), Code::InvalidInput);
        assert_eq!(code(json.i64_at("/runs/0/id")), Code::InvalidInput);
        assert_eq!(code(json.bool_at("/k")), Code::InvalidInput);
        assert_eq!(code(json.len_at("/k")), Code::InvalidInput);
    }

    #[test]
    fn a_text_that_is_not_one_value_has_no_parts() {
        let json = Json::new("{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(code(json.raw_at("/a")), Code::NotFound);
        assert_eq!(code(json.len_at("")), Code::InvalidInput);
    }
}

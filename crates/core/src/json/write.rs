//! Writes JSON straight into a buffer.

use crate::Time;

/// The text of a buffer that only this module has written.
pub(crate) fn into_string(out: Vec<u8>) -> String {
    String::from_utf8(out).expect("every part written is UTF-8: member names, numbers, checked payloads, escaped text")
}

pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can be written to a vector");
}

/// An object that is being written.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Object { out, is_empty: true }
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }

    /// The buffer, where the value of member `name` must be written next. Names are JSON text as they are.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(crate) fn str(&mut self, name: &str, text: &str) {
        string(self.member(name), text);
    }

    pub(crate) fn raw(&mut self, name: &str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn u64(&mut self, name: &str, value: u64) {
        self.raw(name, &value.to_string());
    }

    pub(crate) fn bool(&mut self, name: &str, value: bool) {
        self.raw(name, if value { "true" } else { "false" });
    }

    pub(crate) fn time(&mut self, name: &str, time: Time) {
        let mut text = [0; 27];
        time.write(&mut text);
        let out = self.member(name);
        out.push(b'"');
        out.extend_from_slice(&text);
        out.push(b'"');
    }

    pub(crate) fn nested(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::new(self.member(name));
        write(&mut object);
        object.end();
    }

    pub(crate) fn list<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
        let out = self.member(name);
        out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write(out, item);
        }
        out.push(b']');
    }
}

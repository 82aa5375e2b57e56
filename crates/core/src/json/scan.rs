//! The one place where JSON text is judged: its grammar, and what a payload may not hold.

use std::borrow::Cow;

/// The deepest nesting of arrays and objects in a payload, counted from its outermost bracket. It is what the
/// common readers can read back (serde_json stops at 128).
pub(crate) const MAX_DEPTH: usize = 127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool(bool),
    Null,
}

/// One JSON value as it stands in the text, without the white space around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Why this is well-formed JSON that a payload or text must not be, since not every reader could read it back.
    pub(crate) fault: Option<&'static str>,
    /// Whether a raw LF or CR stands between tokens.
    pub(crate) has_line_break: bool,
}

/// The text is no JSON: why, and at which byte.
#[derive(Debug)]
pub(crate) struct NotJson {
    pub(crate) why: &'static str,
    pub(crate) at: usize,
}

type Scan<T> = Result<T, NotJson>;

pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    fault: Option<&'static str>,
    has_line_break: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Scanner { text, at: 0, fault: None, has_line_break: false }
    }

    /// The one value that the whole text is.
    pub(crate) fn only_value(text: &'a str) -> Scan<Raw<'a>> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        let value = scanner.value()?;
        scanner.end()?;
        Ok(value)
    }

    pub(crate) fn end(&mut self) -> Scan<()> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { self.wrong("more text after the value") }
    }

    pub(crate) fn skip_space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.has_line_break |= matches!(byte, b'\n' | b'\r');
            self.at += 1;
        }
    }

    /// Takes `byte` if it comes next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn need(&mut self, byte: u8, why: &'static str) -> Scan<()> {
        if self.take(byte) { Ok(()) } else { self.wrong(why) }
    }

    pub(crate) fn wrong<T>(&self, why: &'static str) -> Scan<T> {
        Err(NotJson { why, at: self.at })
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The string that starts here.
    pub(crate) fn string_value(&mut self) -> Scan<Raw<'a>> {
        if self.peek() == Some(b'"') { self.value() } else { self.wrong("a string was expected") }
    }

    /// Takes the value that starts here. It does not recurse, so that no depth can exhaust the stack.
    pub(crate) fn value(&mut self) -> Scan<Raw<'a>> {
        let start = self.at;
        (self.fault, self.has_line_break) = (None, false);
        let kind = match self.peek() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            _ => self.scalar()?,
        };
        if matches!(kind, Kind::Object | Kind::Array) {
            self.containers()?;
        }
        let text = &self.text[start..self.at];
        Ok(Raw { kind, text, fault: self.fault, has_line_break: self.has_line_break })
    }

    /// Takes the container that starts here, with all that is in it.
    fn containers(&mut self) -> Scan<()> {
        let mut open = Brackets::default();
        loop {
            // A value is expected here.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    self.at += 1;
                    open.push(bracket == b'{');
                    if open.depth > MAX_DEPTH {
                        self.fault = Some("nested more than 127 deep");
                    }
                    self.skip_space();
                    if !self.take(if bracket == b'{' { b'}' } else { b']' }) {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    open.pop();
                }
                _ => {
                    self.scalar()?;
                }
            }
            // A value has ended: close what it ends, until another value follows.
            loop {
                let Some(in_object) = open.last() else { return Ok(()) };
                self.skip_space();
                if self.take(b',') {
                    self.skip_space();
                    if in_object {
                        self.key()?;
                    }
                    break;
                }
                self.need(if in_object { b'}' } else { b']' }, "a comma or a closing bracket was expected")?;
                open.pop();
            }
        }
    }

    fn key(&mut self) -> Scan<()> {
        if self.peek() != Some(b'"') {
            return self.wrong("a member's name was expected");
        }
        self.string()?;
        self.skip_space();
        self.need(b':', "a colon was expected")?;
        self.skip_space();
        Ok(())
    }

    fn scalar(&mut self) -> Scan<Kind> {
        match self.peek() {
            Some(b'"') => self.string().map(|()| Kind::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
            Some(b't') => self.word("true", Kind::Bool(true)),
            Some(b'f') => self.word("false", Kind::Bool(false)),
            Some(b'n') => self.word("null", Kind::Null),
            _ => self.wrong("a value was expected"),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Scan<Kind> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.wrong("a value was expected");
        }
        self.at += word.len();
        Ok(kind)
    }

    fn string(&mut self) -> Scan<()> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            // Most of a payload is text in strings: eight bytes at a time.
            while let Some(eight) = bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>())
                && !ends_plain_text(u64::from_le_bytes(*eight))
            {
                self.at += 8;
            }
            while bytes.get(self.at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.wrong("a raw control character stands in a string"),
                None => return self.wrong("a string has no end"),
            }
        }
    }

    fn escape(&mut self) -> Scan<()> {
        const LONE: &str = "has the escape of a lone surrogate";
        match self.text.as_bytes().get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unit()? {
                0xD800..=0xDBFF => {
                    let next_is_escape = self.text.as_bytes()[self.at..].starts_with(b"\\u");
                    let before = self.at;
                    if !next_is_escape || !(0xDC00..=0xDFFF).contains(&self.unit()?) {
                        self.fault = Some(LONE);
                        self.at = before;
                    }
                }
                0xDC00..=0xDFFF => self.fault = Some(LONE),
                _ => {}
            },
            _ => return self.wrong("an escape that JSON does not have"),
        }
        Ok(())
    }

    /// The code unit of the `\uXXXX` that starts here.
    fn unit(&mut self) -> Scan<u32> {
        let hex = self.text.as_bytes().get(self.at + 2..self.at + 6).unwrap_or_default();
        let mut unit = 0;
        for byte in hex {
            let Some(digit) = char::from(*byte).to_digit(16) else { return self.wrong("an escape that JSON does not have") };
            unit = unit * 16 + digit;
        }
        if hex.len() != 4 {
            return self.wrong("an escape that JSON does not have");
        }
        self.at += 6;
        Ok(unit)
    }

    fn number(&mut self) -> Scan<()> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.some_digits()?;
        }
        if self.take(b'.') {
            self.some_digits()?;
        }
        let mut has_exponent = false;
        if self.take(b'e') || self.take(b'E') {
            has_exponent = true;
            let _signed = self.take(b'+') || self.take(b'-');
            self.some_digits()?;
        }
        // Without an exponent it takes more than 308 digits to pass the greatest double.
        if has_exponent || self.at - start > 308 {
            let text = &self.text[start..self.at];
            if text.parse::<f64>().is_ok_and(f64::is_infinite) {
                self.fault = Some("has a number that no double can hold");
            }
        }
        Ok(())
    }

    fn some_digits(&mut self) -> Scan<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.wrong("a digit was expected") } else { Ok(()) }
    }
}

/// Whether a quote, a backslash or a control character is among eight bytes.
fn ends_plain_text(eight: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES << 7;
    // The top bit of a byte is set where the byte, without one itself, was smaller than what is taken from it.
    let below = |bytes: u64, least: u64| bytes.wrapping_sub(ONES * least) & !bytes;
    let is = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    (below(eight, 0x20) | is(b'"') | is(b'\\')) & TOPS != 0
}

/// The brackets that are open: a bit each, true for an object. The first 128 need no allocation.
#[derive(Default)]
struct Brackets {
    depth: usize,
    first: u128,
    rest: Vec<bool>,
}

impl Brackets {
    fn push(&mut self, is_object: bool) {
        if self.depth < 128 {
            let bit = 1 << self.depth;
            self.first = if is_object { self.first | bit } else { self.first & !bit };
        } else {
            self.rest.push(is_object);
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.rest.pop();
    }

    fn last(&self) -> Option<bool> {
        let top = self.depth.checked_sub(1)?;
        Some(self.rest.last().copied().unwrap_or(self.first >> (top & 127) & 1 == 1))
    }
}

impl<'a> Raw<'a> {
    /// The text of a string value, unescaped; `None` when it is no string, or none that Unicode text can be.
    pub(crate) fn as_text(&self) -> Option<Cow<'a, str>> {
        if self.kind != Kind::String || self.fault.is_some() {
            return None;
        }
        let inside = &self.text[1..self.text.len() - 1];
        if !inside.contains('\\') {
            return Some(Cow::Borrowed(inside));
        }
        serde_json::from_str::<String>(self.text).ok().map(Cow::Owned)
    }

    /// An integer: digits with an optional minus, and neither a fraction nor an exponent nor `-0`.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        let plain = self.kind == Kind::Number && self.text != "-0" && !self.text.contains(['.', 'e', 'E']);
        if plain { self.text.parse().ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<&'static str> {
        Scanner::only_value(text).unwrap().fault
    }

    #[test]
    fn takes_what_json_is_and_nothing_else() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        for text in ["{}", " [1 , -0.0,\t3e+2 ]", r#"{"a":{"b":[null,true,false]},"a":""}"#, r#""\u00e9\/😀""#, "1e-400", &deep] {
            assert!(Scanner::only_value(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "nul",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "[1,]",
            "[1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "'a'",
            "\"",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\u12G4""#,
            r#""\u12""#,
            "1 2",
            "NaN",
            "\u{feff}1",
            "\u{a0}1",
            "[",
            &deep[1..],
        ] {
            assert!(Scanner::only_value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn marks_what_a_reader_could_not_read_back() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(fault(&nested(127)), None);
        assert!(fault(&nested(128)).is_some());
        assert!(fault(&("{\"a\":".repeat(128) + "1" + &"}".repeat(128))).is_some());
        for text in [r#""\ud800""#, r#"{"\udc00":1}"#, r#""\ud800\ud800\udc00""#, "1e400", "[-1e999]", &"9".repeat(400)] {
            assert!(fault(text).is_some(), "{text}");
        }
        for text in [r#""\ud83d\ude00""#, "1.7976931348623157e308", &"9".repeat(308), "[[],[],{}]"] {
            assert_eq!(fault(text), None, "{text}");
        }
    }
}

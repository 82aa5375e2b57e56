//! Lines of bytes, none of which can take more memory than its limit.

use std::io::{self, BufRead, ErrorKind};

/// A line without its LF.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It was over the limit, and is gone.
    TooLong {
        /// How long it was.
        size_bytes: usize,
    },
}

/// Reads the lines of an input. A last line needs no LF.
pub(crate) struct Lines<R> {
    input: R,
    limit_bytes: usize,
    line: Vec<u8>,
}

/// What is kept between lines; a longer line gives its memory back.
const KEPT_BYTES: usize = 1024 * 1024;

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, limit_bytes: usize) -> Self {
        Lines { input, limit_bytes, line: Vec::new() }
    }

    /// The next line; `None` at the end of the input.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        self.line.shrink_to(KEPT_BYTES);
        let mut size_bytes = 0;
        let mut is_begun = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            is_begun |= !available.is_empty();
            let end = available.iter().position(|byte| *byte == b'\n');
            let is_last = end.is_some() || available.is_empty();
            let part = &available[..end.unwrap_or(available.len())];
            size_bytes += part.len();
            if size_bytes <= self.limit_bytes {
                self.line.extend_from_slice(part);
            } else {
                self.line = Vec::new();
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if is_last {
                return Ok(is_begun.then(|| self.finished(size_bytes)));
            }
        }
    }

    fn finished(&self, size_bytes: usize) -> Line<'_> {
        if size_bytes <= self.limit_bytes { Line::Whole(&self.line) } else { Line::TooLong { size_bytes } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn lines(input: &str, limit_bytes: usize) -> Vec<Result<String, usize>> {
        // A buffer of three bytes, so that lines and buffers end in every possible way.
        let mut lines = Lines::new(BufReader::with_capacity(3, input.as_bytes()), limit_bytes);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push(match line {
                Line::Whole(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
                Line::TooLong { size_bytes } => Err(size_bytes),
            });
        }
        read
    }

    #[test]
    fn every_line_is_read_the_empty_and_the_unended_too() {
        let whole = |texts: &[&str]| texts.iter().map(|text| Ok((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(lines("", 9), whole(&[]));
        assert_eq!(lines("\n", 9), whole(&[""]));
        assert_eq!(lines("\n\nab", 9), whole(&["", "", "ab"]));
        assert_eq!(lines("abc\nabcdef\n", 9), whole(&["abc", "abcdef"]));
    }

    #[test]
    fn a_line_over_the_limit_tells_its_size_and_the_next_is_read() {
        assert_eq!(lines("123456\n12345\n1234567", 5), [Err(6), Ok("12345".into()), Err(7)]);
        assert_eq!(lines("1234567890\n\n1", 5), [Err(10), Ok(String::new()), Ok("1".into())]);
    }
}

//! Text that others wrote, made fit for a terminal.
//!
//! Identifiers and error texts may hold any character. One that moves the cursor, changes colours, renames the window or
//! turns the direction of writing round must never reach a terminal as it is.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a terminal could be made to do something by this character, or nothing of it could be seen.
fn is_unsafe(c: char) -> bool {
    // Two joiners are left: many scripts can't be written without them.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn is_written_from_the_right(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// The text on one line, with what is unsafe written as `\u{…}`. Text from right to left is isolated, so that it does not
/// turn round what stands beside it.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_from_the_right = text.chars().any(is_written_from_the_right);
    if !is_from_the_right && !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    if is_from_the_right {
        safe.push('\u{2068}');
    }
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    if is_from_the_right {
        safe.push('\u{2069}');
    }
    safe.into()
}

/// JSON with what is unsafe escaped in its strings, the only place where such characters can stand. The value is the same.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    // Between tokens a tab may stand, and is harmless.
    let must_go = |c: char| is_unsafe(c) && c != '\t';
    if !json.chars().any(must_go) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if must_go(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

/// The beginning of a safe text that is at most `columns` wide.
pub(crate) fn clipped(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return text.into();
    }
    let mut width = 0;
    let mut clipped = String::new();
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width >= columns {
            break;
        }
        clipped.push(c);
    }
    clipped.push('…');
    if text.ends_with('\u{2069}') {
        clipped.push('\u{2069}');
    }
    clipped.into()
}

/// A safe text filled up with spaces, or clipped, to exactly `columns`.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    let clipped = clipped(text, columns);
    let missing = columns.saturating_sub(clipped.width());
    format!("{clipped}{}", " ".repeat(missing))
}

/// A size in bytes.
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    let (mut value, mut unit) = (size as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// "1 run", "2 runs".
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// How many records there are of each kind.
pub(crate) fn records(runs: u64, nodes: u64, agents: u64) -> String {
    format!("{}, {} and {}", counted(runs, "run"), counted(nodes, "node run"), counted(agents, "agent run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown_as_it_is() {
        for hostile in ["\x1b[2J", "\x1b]0;owned\x07", "\u{9b}31m", "a\rb", "a\nb", "\u{7f}", "\u{202e}gpj.exe", "\u{2067}x", "\u{200b}"] {
            let safe = shown(hostile);
            assert!(!safe.chars().any(is_unsafe) && safe.contains("\\u{"), "{safe:?}");
        }
        assert_eq!(shown("\x1b[31m"), "\\u{1b}[31m");
        assert_eq!(shown("plain é 漢字 👩‍💻"), "plain é 漢字 👩‍💻");
    }

    #[test]
    fn text_from_the_right_is_isolated() {
        assert_eq!(shown("שלום"), "\u{2068}שלום\u{2069}");
        assert_eq!(clipped(&shown("שלום שלום"), 5).chars().last(), Some('\u{2069}'));
    }

    #[test]
    fn safe_json_has_the_same_value() {
        let json = "{\"a\":\"\u{9b}\u{202e}\u{e0001}\u{7f}é\",\t\"b\":1}";
        let safe = safe_json(json);
        assert!(!safe.chars().any(|c| is_unsafe(c) && c != '\t'));
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&safe), value(json));
    }

    #[test]
    fn what_is_fitted_has_exactly_its_width() {
        for text in ["", "abc", "a long text", "漢字漢字漢字"] {
            for columns in [1, 4, 6, 20] {
                assert_eq!(fitted(text, columns).width(), columns, "{text} in {columns}");
            }
        }
        assert_eq!(clipped("abcdef", 4), "abc…");
    }
}

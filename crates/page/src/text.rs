//! How texts and numbers are written on a page.

/// A text as it must stand in HTML, between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // HTML has no way to write it.
            '\0' => out.push('\u{2400}'),
            other => out.push(other),
        }
    }
    out
}

/// A number with about three digits that say something.
pub fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        let mut digits = format!("{value:.0}");
        let mut place = digits.len() as i32 - 3;
        while place > i32::from(digits.starts_with('-')) {
            digits.insert(place as usize, ',');
            place -= 3;
        }
        digits
    } else if value.abs() >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_is_left_in_a_text() {
        assert_eq!(escape("<a b=\"c\" d='e'>&\0é"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{2400}é");
    }

    #[test]
    fn numbers_are_short() {
        let written: Vec<String> = [1_234_567.0, -12_345.0, 999.4, 12.34, 0.055, 0.0, 10.0].into_iter().map(number).collect();
        assert_eq!(written, ["1,234,567", "-12,345", "999", "12.3", "0.06", "0", "10"]);
    }
}

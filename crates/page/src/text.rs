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
    } else if value.abs() >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A number of bytes, in the unit that suits it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
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
        let written: Vec<String> = [1_234_567.0, -12_345.0, 999.4, 12.34, 0.055, 0.0].into_iter().map(number).collect();
        assert_eq!(written, ["1,234,567", "-12,345", "999", "12.3", "0.06", "0"]);
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let written: Vec<String> = [0, 1023, 1024, 1_572_864, u64::MAX].into_iter().map(bytes).collect();
        assert_eq!(written, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "16777216.0 TiB"]);
    }
}

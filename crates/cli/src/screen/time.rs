//! Times as people read them, and the times that they write.

use std::str::FromStr;

use chrono::{DateTime, Local, Utc};
use runledger::Time;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// The instant on the clock of this place, to the second.
pub(crate) fn local(time: Time) -> String {
    // Every Time is within chrono's range.
    let utc = DateTime::<Utc>::from_timestamp_micros(time.unix_us()).unwrap_or_default();
    utc.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// The instant here, and how far off it is.
pub(crate) fn local_and_ago(time: Time, now: Time) -> String {
    format!("{} ({})", local(time), ago(time, now))
}

/// How far off an instant is: "3h ago", "in 20s".
pub(crate) fn ago(time: Time, now: Time) -> String {
    let us = us_between(time, now);
    match us {
        ..0 => format!("in {}", coarse(-us)),
        0.. => format!("{} ago", coarse(us)),
    }
}

/// Microseconds from one instant to another.
pub(crate) fn us_between(from: Time, to: Time) -> i64 {
    to.unix_us().saturating_sub(from.unix_us())
}

fn coarse(us: i64) -> String {
    match us {
        ..MINUTE_US => format!("{}s", us / SECOND_US),
        MINUTE_US..HOUR_US => format!("{}m", us / MINUTE_US),
        HOUR_US..DAY_US => format!("{}h", us / HOUR_US),
        _ => format!("{}d", us / DAY_US),
    }
}

/// How long something took.
pub(crate) fn span(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.saturating_abs();
    let text = match us {
        ..SECOND_US => format!("{}ms", us / 1000),
        SECOND_US..MINUTE_US => format!("{:.1}s", (us / 100_000) as f64 / 10.0),
        MINUTE_US..HOUR_US => format!("{}m {:02}s", us / MINUTE_US, us % MINUTE_US / SECOND_US),
        HOUR_US..DAY_US => format!("{}h {:02}m", us / HOUR_US, us % HOUR_US / MINUTE_US),
        _ => format!("{}d {:02}h", us / DAY_US, us % DAY_US / HOUR_US),
    };
    format!("{sign}{text}")
}

/// A span that was given: 90s, 2h, 1d 12h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// How long, in microseconds.
    pub(crate) us: i64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let duration = humantime::parse_duration(text).map_err(|error| format!("no span such as 90s, 2h or 1d 12h: {error}"))?;
        Ok(Span { us: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) })
    }
}

/// An instant that was given: how long ago it is, or the time itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So many microseconds before now.
    Ago(i64),
    /// This instant.
    At(Time),
}

impl When {
    pub(crate) fn time(self, now: Time) -> Time {
        match self {
            When::Ago(us) => now.plus_us(us.saturating_neg()),
            When::At(time) => time,
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if let Ok(time) = text.parse() {
            return Ok(When::At(time));
        }
        let span: Span = text.parse().map_err(|_| "neither a span such as 2h nor a time such as 2026-03-01T09:30:00Z".to_owned())?;
        Ok(When::Ago(span.us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (us, text) in [
            (0, "0ms"),
            (1_500, "1ms"),
            (12_345_678, "12.3s"),
            (59_999_999, "59.9s"),
            (200 * SECOND_US, "3m 20s"),
            (125 * MINUTE_US, "2h 05m"),
            (76 * HOUR_US, "3d 04h"),
            (-5 * SECOND_US, "-5.0s"),
        ] {
            assert_eq!(span(us), text);
        }
        assert_eq!("1d 12h".parse(), Ok(Span { us: 36 * HOUR_US }));
        assert!("soon".parse::<Span>().is_err());
    }

    #[test]
    fn an_instant_is_a_span_ago_or_a_time() {
        let now: Time = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!("2h".parse::<When>().unwrap().time(now).to_string(), "2026-03-01T10:00:00.000000Z");
        assert_eq!("2026-02-01T00:00:00+01:00".parse::<When>().unwrap().time(now).to_string(), "2026-01-31T23:00:00.000000Z");
        assert!("yesterday".parse::<When>().is_err());
        // Longer ago than time goes back.
        assert_eq!("9000years".parse::<When>().unwrap().time(now), Time::MIN);
    }

    #[test]
    fn ages_are_coarse() {
        let now: Time = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(ago(now.plus_seconds(-7300), now), "2h ago");
        assert_eq!(ago(now.plus_seconds(90), now), "in 1m");
        assert_eq!(ago(now, now), "0s ago");
    }
}

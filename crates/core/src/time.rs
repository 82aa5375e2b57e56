//! Instants in microseconds, and the clock they come from when a caller gives none.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike, Utc};

use crate::{Error, Result};

/// An instant in microseconds, from year 0001 to 9999.
///
/// It is read from RFC 3339 with any offset and up to 9 fraction digits, which are cut (never rounded up) to
/// microseconds, and written in UTC with exactly six, so that text order is time order.
///
/// ```
/// use runledger_core::Time;
/// let time: Time = "2026-03-01T11:30:00.0000019+02:00".parse()?;
/// assert_eq!(time.to_string(), "2026-03-01T09:30:00.000001Z");
/// # Ok::<(), runledger_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

const US_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

impl Time {
    /// The first instant of year 0001.
    pub const MIN: Time = Time(-62_135_596_800_000_000);
    /// The last microsecond of year 9999.
    pub const MAX: Time = Time(253_402_300_799_999_999);

    /// The instant that is `us` microseconds after 1970-01-01T00:00:00Z, if it is in the years 0001 to 9999.
    pub const fn from_unix_us(us: i64) -> Option<Time> {
        if us < Time::MIN.0 || us > Time::MAX.0 { None } else { Some(Time(us)) }
    }

    /// Microseconds since 1970-01-01T00:00:00Z; negative before it.
    pub const fn unix_us(self) -> i64 {
        self.0
    }

    /// This instant moved by `us` microseconds, held within the years 0001 to 9999.
    #[must_use]
    pub const fn plus_us(self, us: i64) -> Time {
        let moved = self.0.saturating_add(us);
        if moved < Time::MIN.0 {
            Time::MIN
        } else if moved > Time::MAX.0 {
            Time::MAX
        } else {
            Time(moved)
        }
    }

    /// This instant moved by whole seconds, held within the years 0001 to 9999.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Time {
        self.plus_us(seconds.saturating_mul(US_PER_SECOND))
    }

    /// The 27 characters of the written form, such as `2026-03-01T09:30:00.000000Z`.
    pub(crate) fn write(self, out: &mut [u8; 27]) {
        // Every Time is within chrono's range; the fallback can't be reached and keeps this free of a panic.
        let when = DateTime::<Utc>::from_timestamp_micros(self.0).unwrap_or_default().naive_utc();
        out.copy_from_slice(b"0000-00-00T00:00:00.000000Z");
        let mut put = |at: usize, digits: usize, mut value: u32| {
            for place in (at..at + digits).rev() {
                out[place] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(0, 4, when.year().unsigned_abs());
        put(5, 2, when.month());
        put(8, 2, when.day());
        put(11, 2, when.hour());
        put(14, 2, when.minute());
        put(17, 2, when.second());
        put(20, 6, when.and_utc().timestamp_subsec_micros());
    }

    fn parse(text: &str) -> Option<Time> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 || !text.is_ascii() {
            return None;
        }
        let number = |from: usize, to: usize| digits(bytes.get(from..to)?);
        let is = |at: usize, allowed: &[u8]| bytes.get(at).is_some_and(|byte| allowed.contains(byte));
        if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) {
            return None;
        }
        // The calendar repeats every 400 years: a local year 0000 may be an instant of year 0001 in UTC.
        let date = NaiveDate::from_ymd_opt(number(0, 4)? as i32 + 400, number(5, 7)?, number(8, 10)?)?;
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let clock = date.and_hms_opt(hour, minute, second)?;
        let (fraction_us, zone) = fraction(&bytes[19..])?;
        let offset_seconds = offset(zone)?;
        let seconds = seconds_400_years_earlier(clock) - offset_seconds;
        Time::from_unix_us(seconds * US_PER_SECOND + fraction_us)
    }
}

fn seconds_400_years_earlier(clock: NaiveDateTime) -> i64 {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    clock.and_utc().timestamp() - DAYS_IN_400_YEARS * SECONDS_PER_DAY
}

fn digits(bytes: &[u8]) -> Option<u32> {
    bytes.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0')))
}

/// Microseconds of an optional fraction of 1 to 9 digits, and what follows it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(after_dot) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let count = after_dot.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=9).contains(&count) {
        return None;
    }
    let kept = count.min(6);
    let value = i64::from(digits(&after_dot[..kept])?);
    Some((value * 10_i64.pow(6 - kept as u32), &after_dot[count..]))
}

/// Seconds east of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = i64::from(hours * 3600 + minutes * 60);
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

impl FromStr for Time {
    type Err = Error;

    /// # Errors
    /// `invalid_input` when the text is no RFC 3339 time of the years 0001 to 9999.
    fn from_str(text: &str) -> Result<Time> {
        Time::parse(text).ok_or_else(|| Error::invalid("time", "not a time such as 2026-03-01T09:30:00Z"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 27];
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<std::time::SystemTime> for Time {
    /// Rounded down to microseconds, and held within the years 0001 to 9999.
    fn from(time: std::time::SystemTime) -> Time {
        let us = DateTime::<Utc>::from(time).timestamp_micros();
        Time::MIN.plus_us(us.saturating_sub(Time::MIN.0))
    }
}

/// Where a store takes a time that the caller did not give.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Time;

    /// Whether this is the system's own clock, for which a database server may put its own: that of all its clients.
    fn is_system(&self) -> bool {
        false
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        std::time::SystemTime::now().into()
    }

    fn is_system(&self) -> bool {
        true
    }
}

/// A clock that moves only when it is told to, for tests.
///
/// ```
/// use runledger_core::{Clock, ManualClock, Time};
/// let clock = ManualClock::new("2026-01-05T10:00:00Z".parse()?);
/// clock.advance_us(1_500_000);
/// assert_eq!(clock.now().to_string(), "2026-01-05T10:00:01.500000Z");
/// # Ok::<(), runledger_core::Error>(())
/// ```
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Time) -> Self {
        ManualClock(AtomicI64::new(start.0))
    }

    /// Sets the clock, forwards or back.
    pub fn set(&self, time: Time) {
        self.0.store(time.0, Ordering::SeqCst);
    }

    /// Moves the clock by `us` microseconds.
    pub fn advance_us(&self, us: i64) {
        self.set(self.now().plus_us(us));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }

    fn is_system(&self) -> bool {
        (**self).is_system()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_allowed_form_and_writes_one() {
        for (text, want) in [
            ("2026-01-15T23:00:00+05:30", "2026-01-15T17:30:00.000000Z"),
            ("2026-01-15t23:00:00z", "2026-01-15T23:00:00.000000Z"),
            ("2026-01-15T23:00:00.1-23:59", "2026-01-16T22:59:00.100000Z"),
            ("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"),
            ("0000-12-31T23:59:59-00:01", "0001-01-01T00:00:59.000000Z"),
            ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
        ] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), want);
        }
    }

    #[test]
    fn refuses_what_is_no_instant_of_the_range() {
        for text in [
            "",
            "now",
            "2026-01-05",
            "2026-01-05T10:00:00",
            "2026-01-05 10:00:00Z",
            "2026-01-05T10:00:60Z",
            "2026-01-05T24:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-01-05T10:00:00.Z",
            "2026-01-05T10:00:00.0123456789Z",
            "2026-01-05T10:00:00+24:00",
            "2026-01-05T10:00:00+0100",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00Z",
            "٢026-01-05T10:00:00Z",
            "2026-1-5T10:00:00Z0",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_what_they_say() {
        assert_eq!(Time::MIN.to_string(), "0001-01-01T00:00:00.000000Z");
        assert_eq!(Time::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(Time::from_unix_us(Time::MAX.0 + 1), None);
    }
}

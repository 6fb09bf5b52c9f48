//! Times, as agents read them.
//!
//! Owns: ISO 8601, UTC, milliseconds. Must not: ask what time it is.

use std::fmt;

use nix::sys::stat::FileStat;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

/// When the content was last changed.
pub(crate) fn modified(stat: &FileStat) -> String {
    Time::new(stat.st_mtime, stat.st_mtime_nsec).to_string()
}

/// A time, that is text once it is written.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    seconds: i64,
    nanoseconds: i64,
}

impl Time {
    /// Since 1970.
    pub(crate) fn new(seconds: i64, nanoseconds: i64) -> Time {
        Time { seconds, nanoseconds }
    }

    /// Its text.
    pub(crate) fn iso(self) -> [u8; 24] {
        iso(self.seconds, self.nanoseconds)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(text(&self.iso()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text(&self.iso()))
    }
}

/// Digits and marks, as text.
fn text(iso: &[u8; 24]) -> &str {
    std::str::from_utf8(iso).unwrap_or_default()
}

/// Seconds and nanoseconds since 1970; a time outside of the years 0 to 9999 is 1970.
fn iso(seconds: i64, nanoseconds: i64) -> [u8; 24] {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let time = time.filter(|time| (0..=9999).contains(&time.year()));
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.date().to_calendar_date();
    let (hour, minute, second) = time.time().as_hms();
    let milliseconds = nanoseconds.clamp(0, 999_999_999) / 1_000_000;
    // By hand: there is one for each entry of a listing, and formatting takes longer than stat.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut digits = |places: std::ops::Range<usize>, mut number: u32| {
        for place in text.get_mut(places).unwrap_or_default().iter_mut().rev() {
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
    };
    digits(0..4, u32::try_from(year).unwrap_or(0));
    digits(5..7, u32::from(u8::from(month)));
    digits(8..10, u32::from(day));
    digits(11..13, u32::from(hour));
    digits(14..16, u32::from(minute));
    digits(17..19, u32::from(second));
    digits(20..23, u32::try_from(milliseconds).unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(seconds: i64, nanoseconds: i64) -> String {
        Time { seconds, nanoseconds }.to_string()
    }

    #[test]
    fn a_time_is_iso_8601_with_milliseconds() {
        assert_eq!(said(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(said(1_709_209_845, 123_999_999), "2024-02-29T12:30:45.123Z");
        assert_eq!(said(-1, 5_000_000), "1969-12-31T23:59:59.005Z");
        assert_eq!(said(i64::MAX, 0), "1970-01-01T00:00:00.000Z");
    }
}

//! Times, as agents read them.
//!
//! Owns: ISO 8601, UTC, milliseconds. Must not: ask what time it is.

use std::fmt;
use std::ops::Range;

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

/// Texts of times, one after the other. Many files of a directory are of the same second, and to
/// find the date takes longest.
#[derive(Debug, Default)]
pub(crate) struct Iso {
    seconds: Option<i64>,
    text: [u8; 24],
}

impl Iso {
    /// The text of that one.
    pub(crate) fn of(&mut self, time: Time) -> &[u8; 24] {
        if self.seconds == Some(time.seconds) {
            put(&mut self.text, MILLISECONDS, milliseconds(time.nanoseconds));
        } else {
            (self.seconds, self.text) = (Some(time.seconds), time.iso());
        }
        &self.text
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
    // By hand: there is one for each entry of a listing, and formatting takes longer than stat.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put(&mut text, 0..4, u32::try_from(year).unwrap_or(0));
    put(&mut text, 5..7, u32::from(u8::from(month)));
    put(&mut text, 8..10, u32::from(day));
    put(&mut text, 11..13, u32::from(hour));
    put(&mut text, 14..16, u32::from(minute));
    put(&mut text, 17..19, u32::from(second));
    put(&mut text, MILLISECONDS, milliseconds(nanoseconds));
    text
}

/// Where they are in the text.
const MILLISECONDS: Range<usize> = 20..23;

fn milliseconds(nanoseconds: i64) -> u32 {
    u32::try_from(nanoseconds.clamp(0, 999_999_999) / 1_000_000).unwrap_or(0)
}

/// Puts a number's last digits there.
fn put(text: &mut [u8; 24], places: Range<usize>, mut number: u32) {
    for place in text.get_mut(places).unwrap_or_default().iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
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

    #[test]
    fn texts_one_after_the_other_are_each_their_own() {
        let mut iso = Iso::default();
        for (seconds, nanoseconds) in [
            (0, 0),
            (0, 999_000_000),
            (0, 5_000_000),
            (-1, 5_000_000),
            (-1, 0),
            (1_709_209_845, 1),
            (0, 0),
        ] {
            let time = Time::new(seconds, nanoseconds);
            assert_eq!(text(iso.of(time)), time.to_string());
        }
    }
}

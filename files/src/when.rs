//! Times, as agents read them.
//!
//! Owns: ISO 8601, UTC, milliseconds. Must not: ask what time it is.

use nix::sys::stat::FileStat;
use time::OffsetDateTime;

/// When the content was last changed.
pub(crate) fn modified(stat: &FileStat) -> String {
    iso(stat.st_mtime, stat.st_mtime_nsec)
}

/// Seconds and nanoseconds since 1970; a time outside of the years 0 to 9999 is 1970.
fn iso(seconds: i64, nanoseconds: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let time = time.filter(|time| (0..=9999).contains(&time.year()));
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, milliseconds) = (time.date(), nanoseconds.clamp(0, 999_999_999) / 1_000_000);
    let year = u32::try_from(date.year()).unwrap_or(0);
    let pairs = [
        ('-', u32::from(u8::from(date.month()))),
        ('-', u32::from(date.day())),
        ('T', u32::from(time.hour())),
        (':', u32::from(time.minute())),
        (':', u32::from(time.second())),
    ];
    // By hand: there is one for each entry of a listing, and formatting takes longer than stat.
    let mut text = String::with_capacity(24);
    let mut digits = |before: Option<char>, number: u32, first: u32| {
        text.extend(before);
        let mut place = first;
        while place > 0 {
            text.extend(char::from_digit(number / place % 10, 10));
            place /= 10;
        }
    };
    digits(None, year, 1000);
    pairs.into_iter().for_each(|(before, number)| digits(Some(before), number, 10));
    digits(Some('.'), u32::try_from(milliseconds).unwrap_or(0), 100);
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_iso_8601_with_milliseconds() {
        assert_eq!(iso(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(1_709_209_845, 123_999_999), "2024-02-29T12:30:45.123Z");
        assert_eq!(iso(-1, 5_000_000), "1969-12-31T23:59:59.005Z");
        assert_eq!(iso(i64::MAX, 0), "1970-01-01T00:00:00.000Z");
    }
}

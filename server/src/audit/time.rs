//! Wall-clock times as RFC 3339 in UTC, to the microsecond, and back.
//!
//! Owns: the calendar. Must not: ask what time it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::json::digits;

/// Days in a cycle of 400 years.
const ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: u64 = 719_468;

/// Writes a time as a JSON string; one before 1970 is 1970.
pub(super) fn write(out: &mut Vec<u8>, time: SystemTime) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    out.push(b'"');
    for (value, width, behind) in [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (second / 3600, 2, b':'),
        (second / 60 % 60, 2, b':'),
        (second % 60, 2, b'.'),
        (u64::from(since.subsec_micros()), 6, b'Z'),
    ] {
        digits(out, value, width);
        out.push(behind);
    }
    out.push(b'"');
}

/// A time as text.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let mut out = Vec::new();
    write(&mut out, time);
    let text = String::from_utf8(out).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// Year, month and day of a day since 1970-01-01. Years begin in March, so that
/// a leap day is the last of one (Howard Hinnant, "chrono-compatible low-level
/// date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(TO_1970);
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (year, month + 3) } else { (year.saturating_add(1), month - 9) };
    (era.saturating_mul(400).saturating_add(year), month, of_month)
}

/// Days from 1970-01-01; `None` before it.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, year) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = year * 365 + year / 4 - year / 100 + of_year;
    (era * ERA + of_era).checked_sub(TO_1970)
}

/// Reads RFC 3339, with any offset and any decimals of a second; a date alone is
/// its midnight in UTC.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let number =
        |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let (date, clock) = match text.split_once(['T', 't', ' ']) {
        Some((date, clock)) => (date, clock),
        None => (text, "00:00:00Z"),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let at = clock.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = clock.split_at_checked(at)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let seconds = match clock.split(':').collect::<Vec<_>>().as_slice() {
        [hour, minute, second] if [hour, minute, second].iter().all(|text| text.len() == 2) => {
            let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
            // A leap second is the one after it.
            (hour < 24 && minute < 60 && second <= 60)
                .then_some(hour * 3600 + minute * 60 + second)?
        }
        _ => return None,
    };
    let nanos = number(fraction).and_then(|_| format!("{fraction:0<9}").get(..9)?.parse().ok())?;
    let local = Duration::new(days(year, month, day)? * 86_400 + seconds, nanos);
    let since = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => local,
        (sign, offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = Duration::from_secs(hours * 3600 + minutes * 60);
            if sign == "+" { local.checked_sub(offset)? } else { local.checked_add(offset)? }
        }
    };
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(seconds: u64, micros: u32) -> String {
        let mut out = Vec::new();
        write(&mut out, UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        String::from_utf8(out).unwrap().trim_matches('"').to_owned()
    }

    #[test]
    fn known_times_are_written_as_known() {
        for (seconds, micros, text) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, 999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199, 0, "2024-02-29T23:59:59.000000Z"),
            (1_709_251_200, 0, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_399, 0, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(written(seconds, micros), text);
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in (0..2_000_000).step_by(13).chain(0..40_000) {
            let text = written(day * 86_400 + day % 86_400, 123_456);
            let back = parse(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(back, UNIX_EPOCH + Duration::new(day * 86_400 + day % 86_400, 123_456_000));
            if text.starts_with("9999-12-3") {
                break;
            }
        }
    }

    #[test]
    fn other_spellings_are_read_and_nonsense_is_not() {
        let seconds = |text| {
            let time = parse(text)?;
            Some(time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64())
        };
        assert_eq!(seconds("1970-01-02"), Some(86_400.0));
        assert_eq!(seconds("1970-01-01T01:00:00+01:00"), Some(0.0));
        assert_eq!(seconds("1970-01-01 00:00:00.5z"), Some(0.5));
        assert_eq!(seconds("1970-01-01T00:00:00-00:30"), Some(1800.0));
        for bad in [
            "",
            "1969-12-31",
            "2024-02-30",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-01-01T25:00:00Z",
            "2024-01-01T00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+1",
            "2024-01-01T00:00:00é",
            "+024-01-01",
            "1970-01-01T00:00:00+01:00",
            "2024-01-01T00:00:00Zjunk",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

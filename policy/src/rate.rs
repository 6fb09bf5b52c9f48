//! How often something may be done: `60/minute`, `60/minute, burst 10`.
//!
//! Owns: the notation. Must not: count anything, or know the time.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// So many in each period, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: NonZeroU32,
    period: Period,
    burst: NonZeroU32,
}

/// In what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
}

const PERIODS: [Period; 3] = [Period::Second, Period::Minute, Period::Hour];

/// More is no limit that anybody would notice.
const MOST: u32 = 100_000;

/// What is not a rate; says how one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "COUNT/PERIOD, as \"60/minute\" or \"60/minute, burst 10\": at least 1 and at most {MOST}, each second, minute or hour"
)]
pub struct NotARate;

impl Period {
    const fn name(self) -> &'static str {
        match self {
            Period::Second => "second",
            Period::Minute => "minute",
            Period::Hour => "hour",
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Period::Second => 1,
            Period::Minute => 60,
            Period::Hour => 3_600,
        }
    }
}

impl Rate {
    /// After how long one more is allowed, when all at once were used up.
    pub fn interval(self) -> Duration {
        Duration::from_secs(self.period.seconds()) / self.count.get()
    }

    /// How many may be done at once.
    pub fn burst(self) -> NonZeroU32 {
        self.burst
    }

    /// How many, of what: `60 calls a minute`.
    pub fn in_words(self, what: &str) -> String {
        let article = if self.period == Period::Hour { "an" } else { "a" };
        let plural = if self.count.get() == 1 { "" } else { "s" };
        format!("{} {what}{plural} {article} {}", self.count, self.period.name())
    }
}

/// A number without a sign, without zeros before it, within the bound.
fn number(text: &str) -> Option<NonZeroU32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let number: NonZeroU32 = text.parse().ok()?;
    (plain && number.get() <= MOST).then_some(number)
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Rate, NotARate> {
        let (rate, burst) = match text.split_once(", burst ") {
            Some((rate, burst)) => (rate, Some(number(burst).ok_or(NotARate)?)),
            None => (text, None),
        };
        let (count, period) = rate.split_once('/').ok_or(NotARate)?;
        let count = number(count).ok_or(NotARate)?;
        let period = PERIODS.into_iter().find(|known| known.name() == period).ok_or(NotARate)?;
        Ok(Rate { count, period, burst: burst.unwrap_or(count) })
    }
}

/// As it was written.
impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.count, self.period.name())?;
        if self.burst != self.count {
            write!(formatter, ", burst {}", self.burst)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        for (text, interval, burst, words) in [
            ("60/minute", 1_000, 60, "60 calls a minute"),
            ("60/minute, burst 10", 1_000, 10, "60 calls a minute"),
            ("1/hour", 3_600_000, 1, "1 call an hour"),
            ("5/second, burst 100000", 200, 100_000, "5 calls a second"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.interval(), Duration::from_millis(interval), "{text}");
            assert_eq!(rate.burst().get(), burst, "{text}");
            assert_eq!(rate.in_words("call"), words);
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "",
            "60",
            "/minute",
            "0/minute",
            "-1/minute",
            "+1/minute",
            "06/minute",
            "1.5/minute",
            "100001/minute",
            "99999999999/minute",
            "60/minutes",
            "60/Minute",
            "60 /minute",
            "60/minute ",
            "60/day",
            "60/minute,burst 10",
            "60/minute, burst",
            "60/minute, burst 0",
            "60/minute, burst 5, burst 6",
            "60/minute burst 10",
        ] {
            assert_eq!(text.parse::<Rate>(), Err(NotARate), "{text:?}");
        }
    }
}

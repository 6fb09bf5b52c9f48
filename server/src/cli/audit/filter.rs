//! Which lines are shown.

use std::time::{Duration, SystemTime};

use clap::ArgMatches;
use serde::Deserialize;

use crate::audit::parse_time;

/// What a line has to say to be shown; an empty list takes all.
#[derive(Debug, Default)]
pub(super) struct Filter {
    tools: Vec<String>,
    decisions: Vec<String>,
    rules: Vec<String>,
    ended: Vec<String>,
    call: Option<String>,
    since: Option<SystemTime>,
    until: Option<SystemTime>,
}

/// What is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Members {
    time: String,
    tool: serde_json::Value,
    decision: Option<String>,
    rule: Option<String>,
    ended: String,
    call_id: Option<String>,
}

impl Filter {
    /// As the arguments say it; else what is wrong with them.
    pub(super) fn new(arguments: &ArgMatches, now: SystemTime) -> Result<Filter, String> {
        let list = |name: &str| -> Vec<String> {
            arguments.get_many(name).map(|values| values.cloned().collect()).unwrap_or_default()
        };
        let time = |name: &str| -> Result<Option<SystemTime>, String> {
            let Some(text) = arguments.get_one::<String>(name) else { return Ok(None) };
            let time = ago(text, now).or_else(|| parse_time(text));
            time.map(Some).ok_or_else(|| {
                format!(
                    "--{name} {} is no time: write 2026-11-22T08:00:00Z, or 90s, 30m, 1h, 2d for so long ago",
                    text.escape_default()
                )
            })
        };
        Ok(Filter {
            tools: list("tool"),
            decisions: list("decision"),
            rules: list("rule"),
            ended: list("ended"),
            call: arguments.get_one::<String>("call").cloned(),
            since: time("since")?,
            until: time("until")?,
        })
    }

    /// Whether a line is shown. One that cannot be read is, where nothing is
    /// asked of it: somebody should see it.
    pub(super) fn takes(&self, line: &[u8]) -> bool {
        if self.takes_all() {
            return true;
        }
        let Ok(members) = serde_json::from_slice::<Members>(line) else { return false };
        let one_of = |wanted: &[String], found: Option<&str>| {
            wanted.is_empty() || found.is_some_and(|found| wanted.iter().any(|text| text == found))
        };
        let time = || parse_time(&members.time);
        one_of(&self.tools, members.tool.as_str())
            && one_of(&self.decisions, members.decision.as_deref())
            && one_of(&self.rules, members.rule.as_deref())
            && one_of(&self.ended, Some(&members.ended))
            && self.call.as_ref().is_none_or(|call| members.call_id.as_ref() == Some(call))
            && self.since.is_none_or(|since| time().is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time().is_some_and(|time| time <= until))
    }

    fn takes_all(&self) -> bool {
        let lists = [&self.tools, &self.decisions, &self.rules, &self.ended];
        lists.iter().all(|list| list.is_empty())
            && self.call.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }
}

/// `90s`, `30m`, `1h`, `2d`, `1w` before now.
fn ago(text: &str, now: SystemTime) -> Option<SystemTime> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    now.checked_sub(Duration::from_secs(number.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(words: &[&str]) -> Result<Filter, String> {
        let words = std::iter::once(&"audit").chain(words);
        let matches = super::super::command().try_get_matches_from(words).unwrap();
        let now = parse_time("2026-11-22T10:00:00Z").unwrap();
        Filter::new(&matches, now)
    }

    #[test]
    fn every_condition_has_to_be_met() {
        let line = br#"{"time":"2026-11-22T09:30:00.500000Z","tool":"git","decision":"deny","rule":"r","ended":"refused","call_id":"a-1"}"#;
        let takes = |words: &[&str]| filter(words).unwrap().takes(line);
        for words in [
            &[][..],
            &["--tool", "git"],
            &["--tool", "gh,git"],
            &["--tool", "gh", "--tool", "git", "--decision", "deny", "--rule", "r"],
            &["--ended", "refused", "--call", "a-1"],
            &["--since", "1h", "--until", "20m"],
            &["--since", "2026-11-22T09:30:00.5Z", "--until", "2026-11-22T09:30:00.5Z"],
            &["--since", "2026-11-22"],
        ] {
            assert!(takes(words), "{words:?}");
        }
        for words in [
            &["--tool", "gi"][..],
            &["--decision", "allow"],
            &["--tool", "git", "--rule", "s"],
            &["--ended", "exited"],
            &["--call", "a-10"],
            &["--since", "29m"],
            &["--until", "31m"],
        ] {
            assert!(!takes(words), "{words:?}");
        }
        assert!(filter(&[]).unwrap().takes(b"nonsense"));
        assert!(!filter(&["--tool", "git"]).unwrap().takes(b"nonsense"));
        for wrong in ["yesterday", "1", "h", "-1h", "99999999999999999999d", "1y"] {
            let words = [format!("--since={wrong}")];
            assert!(filter(&[&words[0]]).unwrap_err().contains("is no time"), "{wrong}");
        }
    }
}

//! `approvals`, `approve`, `deny`, `revoke`: an operator's side of the calls that
//! wait.
//!
//! What is shown of a call was escaped by the server. Must not: ask for an answer
//! itself; each is a command of its own, so that none is given by a stray key.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::{Value, json};

use super::ask::{exchange, list as values, text};
use super::{complain, say};
use crate::audit::BY_HTTP;
use crate::config::Config;

/// Seconds of a minute, an hour, a day.
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
/// The longest that an approval stands.
const LONGEST: u64 = 30 * 86_400;

/// What waits and what stands, once or again and again.
pub(super) fn list(config: &Config, arguments: &ArgMatches) -> ExitCode {
    let (watch, as_json) = (arguments.get_flag("watch"), arguments.get_flag("json"));
    let Some(mut answer) = question(config, &json!({ "op": "approvals" })) else {
        return ExitCode::from(1);
    };
    if !watch {
        show(&answer, as_json);
        return ExitCode::SUCCESS;
    }
    let mut known = BTreeSet::new();
    loop {
        let waiting = values(&answer, "waiting");
        for asked in waiting.iter().filter(|asked| !known.contains(text(asked, "id"))) {
            if as_json {
                say(&asked.to_string());
            } else {
                show_asked(asked);
            }
        }
        known = waiting.iter().map(|asked| text(asked, "id").to_owned()).collect();
        let after = answer.get("generation").cloned().unwrap_or(Value::Null);
        answer = match question(config, &json!({ "op": "approvals", "after": after })) {
            Some(answer) => answer,
            None => return ExitCode::from(1),
        };
    }
}

/// Says yes or no, or takes a yes back.
pub(super) fn answer(config: &Config, verb: &str, arguments: &ArgMatches) -> ExitCode {
    let given = |name: &str| arguments.try_get_one::<String>(name).ok().flatten();
    let for_seconds = match given("for") {
        Some(lasts) => match seconds(lasts) {
            Some(seconds) => Some(seconds),
            None => {
                complain(&format!("--for {lasts:?} is no time: write 30m, 1h or 2d, at most 30d"));
                return ExitCode::from(2);
            }
        },
        None => None,
    };
    let (approval, reason) = (given("id"), given("reason"));
    let unseen = arguments.try_get_one::<bool>("unseen").ok().flatten().copied().unwrap_or(false);
    let object = json!({
        "op": verb, "approval": approval, "for_seconds": for_seconds, "unseen": unseen,
        "reason": reason,
    });
    match question(config, &object) {
        Some(answer) => {
            say(text(&answer, "told"));
            ExitCode::SUCCESS
        }
        None => ExitCode::from(1),
    }
}

/// The server's answer; where there is none, why not is told.
fn question(config: &Config, object: &Value) -> Option<Value> {
    let socket = &config.control_socket;
    match exchange(socket, object) {
        Ok(answer) => match answer.get("error").and_then(Value::as_str) {
            Some(error) => {
                complain(error);
                None
            }
            None => Some(answer),
        },
        Err(error) => {
            complain(&format!(
                "no server answers at {}: {error}; start `tool-server serve`, or set TOOL_CONTROL_SOCKET (or STATE_DIR)",
                socket.display()
            ));
            None
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let (_, each) = UNITS.iter().find(|(letter, _)| *letter == unit)?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = count.checked_mul(*each)?;
    (1..=LONGEST).contains(&seconds).then_some(seconds)
}

fn by(uid: u64) -> String {
    if uid == u64::from(BY_HTTP) { "an operator by HTTP".to_owned() } else { format!("uid {uid}") }
}

fn show(answer: &Value, as_json: bool) {
    if as_json {
        return say(&answer.to_string());
    }
    let (waiting, standing) = (values(answer, "waiting"), values(answer, "standing"));
    waiting.iter().for_each(show_asked);
    for grant in standing {
        say(&format!(
            "standing {}: rule {} of {} in {}{}, for {}, {} s left, by {}",
            text(grant, "id"),
            text(grant, "rule"),
            text(grant, "tool"),
            text(grant, "repository"),
            gate(grant),
            text(grant, "caller"),
            number(grant, "left_seconds"),
            by(number(grant, "by_uid")),
        ));
    }
    if waiting.is_empty() && standing.is_empty() {
        say("nothing waits, nothing stands");
    }
}

/// By which gate it stands, where it is for requests.
fn gate(grant: &Value) -> String {
    match text(grant, "gate") {
        "" => String::new(),
        gate => format!(" ({gate})"),
    }
}

fn show_asked(asked: &Value) {
    let id = text(asked, "id");
    let waits = if asked.get("waits").and_then(Value::as_bool) == Some(true) {
        format!("waits since {} s", number(asked, "since_seconds"))
    } else {
        "its caller has left; an answer holds for the same call for ten minutes".to_owned()
    };
    say(&format!("{id}: {} ({waits})", text(asked, "tool")));
    say(&format!("  rule:       {} ({})", text(asked, "rule"), text(asked, "at")));
    say(&format!("  reason:     {}", text(asked, "reason")));
    say(&format!("  caller:     {}", text(asked, "peer")));
    say(&format!("  directory:  {}", text(asked, "directory")));
    if text(asked, "repository") != text(asked, "directory") {
        say(&format!("  repository: {}", text(asked, "repository")));
    }
    say(&format!("  program:    {}", text(asked, "program")));
    // The server has escaped quotes too: a word cannot end early.
    let words = values(asked, "argv").iter().map(|word| word.as_str().unwrap_or_default());
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    say(&format!("  argv:       {}", words.join(" ")));
    let omitted = number(asked, "argv_omitted_bytes");
    if omitted > 0 {
        say(&format!("              AND {omitted} BYTES OF ARGUMENTS THAT ARE NOT SHOWN"));
    }
    for line in values(asked, "wire") {
        say(&format!("  request:    {}", line.as_str().unwrap_or_default()));
    }
    for fact in values(asked, "facts") {
        say(&format!("  fact:       {}", fact.as_str().unwrap_or_default()));
    }
    let omitted = number(asked, "facts_omitted_bytes");
    if omitted > 0 {
        say(&format!("              AND {omitted} BYTES OF FACTS OR REQUESTS THAT ARE NOT SHOWN"));
    }
    for rule in values(asked, "also") {
        say(&format!("  also asks:  {}", rule.as_str().unwrap_or_default()));
    }
    say(&format!("  answer:     tool-server approve {id}, or tool-server deny {id} --reason TEXT"));
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_with_their_unit_or_not_at_all() {
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("30m"), Some(1800));
        assert_eq!(seconds("1h"), Some(3600));
        assert_eq!(seconds("2d"), Some(172_800));
        for bad in ["", "1", "h", "0h", "-1h", "1.5h", "31d", "1w", "99999999999999999999h", "1é"]
        {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}

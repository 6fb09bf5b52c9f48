//! A line of the audit as people read it: one row, nothing that a terminal would
//! act on.

use serde_json::Value;
use tool_protocol::base64;

/// What the columns are.
pub(super) const HEADING: &str = "TIME (UTC)           TOOL       DECIDED                  ENDED                     TOOK  DIRECTORY                       CALL";

/// Columns of the command line.
const CALL: usize = 100;

/// A row; `None`: it is no line of the audit.
pub(super) fn row(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let member = |name: &str| value.get(name).unwrap_or(&Value::Null);
    let time = member("time").as_str()?.get(..19)?.replace('T', " ");
    if let Some(lost) = member("lost").as_u64() {
        return Some(format!("{}  {lost} calls could not be recorded", plain(&time)));
    }
    let kind = member("kind").as_str();
    let decided = match (text(member("decision")), text(member("rule"))) {
        (decision, rule) if decision.is_empty() && rule.is_empty() => "-".to_owned(),
        (decision, rule) => format!("{decision} {rule}"),
    };
    let directory = match member("directory") {
        Value::Null => text(member("cwd")),
        directory => text(directory),
    };
    if let Some(kind) = kind {
        return Some(request(&value, kind, &plain(&time), &decided));
    }
    let words: Vec<String> = member("argv").as_array()?.iter().map(word).collect();
    Some(format!(
        "{}  {:<10} {:<24} {:<22} {:>7}  {:<31} {}",
        plain(&time),
        beginning(&text(member("tool")), 10),
        beginning(&decided, 24),
        beginning(&ended(&value), 22),
        took(member("duration_ms")),
        end(&directory, 31),
        beginning(&words.join(" "), CALL),
    ))
}

/// A request that a call made at its gate.
fn request(value: &Value, kind: &str, time: &str, decided: &str) -> String {
    let member = |name: &str| value.get(name).unwrap_or(&Value::Null);
    let number = |name: &str| member(name).as_u64().unwrap_or(0);
    let (ended, host, request) = match kind {
        "wire_more" => {
            let (reads, refused) = (number("reads"), number("refused"));
            let told = format!("and {reads} more requests that read, {refused} that were refused");
            ("wire", String::new(), told)
        }
        _ => {
            let passed = member("passed").as_bool() == Some(true);
            let ended = if passed { "wire passed" } else { "wire refused" };
            (ended, text(member("host")), text(member("request")))
        }
    };
    format!(
        "{time}  {:<10} {:<24} {ended:<22} {:>7}  {:<31} {}",
        beginning(&text(member("tool")), 10),
        beginning(decided, 24),
        "-",
        end(&host, 31),
        beginning(&request, CALL),
    )
}

fn ended(value: &Value) -> String {
    let member = |name: &str| value.get(name).unwrap_or(&Value::Null);
    let how = text(member("ended"));
    match (how.as_str(), member("exit_code"), member("code")) {
        ("exited", Value::Number(code), _) => format!("exit {code}"),
        ("signaled", _, _) => format!("SIG{}", text(member("signal"))),
        ("refused" | "not_started", _, Value::String(code)) => format!("{how} {}", plain(code)),
        _ => how,
    }
}

fn took(duration: &Value) -> String {
    match duration.as_f64() {
        None => "-".to_owned(),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.0} s", ms / 1000.0),
    }
}

/// A string in any of its forms, as printable ASCII.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Object(members) => {
            if let Some(encoded) = members.get("b64").and_then(Value::as_str) {
                let mut bytes = encoded.as_bytes().to_vec();
                let length = base64::decode_in_place(&mut bytes).unwrap_or_default();
                return bytes.get(..length).unwrap_or_default().escape_ascii().to_string();
            }
            match members.get("begins") {
                Some(beginning) => format!("{}...", text(beginning)),
                None => "...".to_owned(),
            }
        }
        _ => String::new(),
    }
}

fn plain(text: &str) -> String {
    let show = |character: char| match character {
        ' '..='~' if character != '\\' => character.to_string(),
        _ => character.escape_default().to_string(),
    };
    text.chars().map(show).collect()
}

/// A word of a command line, quoted where a shell would need it.
fn word(value: &Value) -> String {
    let text = text(value);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-~^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// ASCII, so that a column is a byte.
fn beginning(text: &str, most: usize) -> String {
    match text.get(..most.saturating_sub(3)) {
        Some(beginning) if text.len() > most => format!("{beginning}..."),
        _ => text.to_owned(),
    }
}

fn end(text: &str, most: usize) -> String {
    match text.get(text.len().saturating_sub(most.saturating_sub(3))..) {
        Some(end) if text.len() > most => format!("...{end}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_short_and_of_printable_ascii() {
        let long = "x".repeat(5000);
        let line = serde_json::json!({
            "time": "2026-11-22T09:30:00.500000Z", "tool": "git\u{1b}[2J", "argv": [
                "git", "two words", "\u{1b}[31m\u{202e}é\n", {"b64": "/wA="}, "", "a\"b", {"begins": "y", "bytes": 9},
                {"omitted": true}, long,
            ],
            "cwd": format!("/w/{long}\u{9b}"), "directory": null, "decision": "deny", "rule": "push-force",
            "ended": "refused", "code": "denied", "duration_ms": null, "prev": "0",
        });
        let row = row(line.to_string().as_bytes()).unwrap();
        assert!(row.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{row}");
        assert!(row.len() < 230, "{row}");
        for shown in [
            "2026-11-22 09:30:00  ",
            "deny push-force",
            "refused denied",
            r#"git "two words" "\u{1b}[31m\u{202e}\u{e9}\n""#,
            r#""\xff\x00" "" "a\"b" y... ..."#,
        ] {
            assert!(row.contains(shown), "{shown} is not in {row}");
        }
        assert_eq!(super::row(b"nonsense"), None);
        assert_eq!(super::row(b"{}"), None);
    }

    #[test]
    fn a_request_is_a_row_too() {
        let line = serde_json::json!({
            "time": "2026-11-22T09:30:00.500000Z", "kind": "wire", "tool": "git", "host": "github.com",
            "request": "push to o/r: main\u{9b}", "decision": "ask", "rule": "protected", "passed": false,
        });
        let row = row(line.to_string().as_bytes()).unwrap();
        for shown in ["ask protected", "wire refused", "github.com", r"push to o/r: main\u{9b}"] {
            assert!(row.contains(shown), "{shown} is not in {row}");
        }
        let more = br#"{"time":"2026-11-22T09:30:00.500000Z","kind":"wire_more","tool":"npm","reads":7,"refused":0}"#;
        assert!(super::row(more).unwrap().contains("7 more requests that read, 0"));
    }

    #[test]
    fn how_a_call_ended_is_told_in_few_words() {
        for (line, shown) in [
            (r#"{"ended":"exited","exit_code":3}"#, "exit 3"),
            (r#"{"ended":"signaled","exit_code":143,"signal":"TERM"}"#, "SIGTERM"),
            (r#"{"ended":"interrupted","code":null}"#, "interrupted"),
            (r#"{"ended":"not_started","code":"not_installed"}"#, "not_started not_installed"),
        ] {
            assert_eq!(ended(&serde_json::from_str(line).unwrap()), shown);
        }
        let times = [
            serde_json::json!(0.4),
            serde_json::json!(12.6),
            serde_json::json!(75_000.0),
            Value::Null,
        ];
        assert_eq!(times.map(|time| took(&time)), ["0 ms", "13 ms", "75 s", "-"]);
    }
}

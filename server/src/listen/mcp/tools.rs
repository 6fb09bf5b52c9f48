//! Definitions and results, as MCP has them.
//!
//! Owns: what of an observation is text for a model, what a picture or sound, and what is
//! structured. Must not: know a tool: the form of an output says how it reads best.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Tool};
use serde_json::{Value, json};

use super::media;
use super::way::{Listed, Seen, Wrong, version_of};

/// The member of `_meta` that has the error for programs.
pub(super) const ERROR: &str = "tool-server/error";
/// And what the server's log calls the call.
const CALL: &str = "tool-server/call";

/// A list as the broker gives it.
pub(super) fn definitions(list: &Value) -> Result<Listed, String> {
    let version = version_of(list);
    let bad = |error| format!("a definition that MCP does not know: {error}");
    let tools: Vec<Tool> = serde_json::from_value(list.clone()).map_err(bad)?;
    Ok(Listed { tools, version })
}

/// The answer to a call; for a tool that there is not, an error of the protocol.
pub(super) fn result(seen: Seen) -> Result<CallToolResult, ErrorData> {
    let Seen { tool, output, error, duration_ms, call_id } = seen;
    let mut meta = MetaObject::new();
    if let Some(call_id) = call_id {
        meta.insert(CALL.to_owned(), json!({"id": call_id, "duration_ms": duration_ms}));
    }
    let mut content = Vec::new();
    if let Some(error) = &error {
        if error.code == "UNKNOWN_TOOL" {
            return Err(ErrorData::invalid_params(error.message.clone(), None));
        }
        content.push(ContentBlock::text(in_words(error)));
        let Wrong { code, message, rule, hint } = error;
        let said = json!({"code": code, "message": message, "rule": rule, "hint": hint});
        meta.insert(ERROR.to_owned(), said);
    }
    let output = output.map(|output| match media::of(&output) {
        Some(shown) => {
            content.push(shown.block());
            shown.rest(&output)
        }
        None => output,
    });
    if let Some(output) = &output {
        content.push(ContentBlock::text(text(&tool, output)));
    }
    let mut result = match error {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    result.structured_content = output;
    result.meta = Some(meta).filter(|meta| !meta.is_empty());
    Ok(result)
}

/// `CODE: what is wrong [rule] what to do instead`
pub(super) fn in_words(error: &Wrong) -> String {
    let mut words = format!("{}: {}", error.code, error.message);
    // The broker's own words name it already.
    if let Some(rule) = error.rule.as_ref().filter(|_| !words.contains("[rule ")) {
        words += &format!(" [{rule}]");
    }
    if let Some(hint) = &error.hint {
        words += &format!(" {hint}");
    }
    words
}

/// How an output reads best: a text file as it is, a program as on a terminal, all else as
/// JSON.
fn text(tool: &str, output: &Value) -> String {
    let string = |name: &str| output.get(name).and_then(Value::as_str);
    let plain = |name: &str| string(name) == Some("utf-8");
    match (tool, string("content")) {
        ("read_file", Some(content)) if plain("encoding") && !is_partial(output) => {
            return content.to_owned();
        }
        _ => {}
    }
    let exit = output.get("exit_code").and_then(Value::as_u64);
    if let (Some(stdout), Some(stderr), Some(exit)) = (string("stdout"), string("stderr"), exit)
        && plain("stdout_encoding")
        && plain("stderr_encoding")
    {
        return program(stdout, stderr, exit, string("signal"), output);
    }
    output.to_string()
}

/// Whether a model has to know more than the content, to read on.
fn is_partial(output: &Value) -> bool {
    ["truncated", "changed"].iter().any(|name| output.get(name) == Some(&Value::Bool(true)))
}

fn program(stdout: &str, stderr: &str, exit: u64, signal: Option<&str>, all: &Value) -> String {
    let mut text = stdout.to_owned();
    if !stderr.is_empty() {
        line(&mut text, "[stderr]\n");
        text += stderr;
    }
    if all.get("timed_out") == Some(&Value::Bool(true)) {
        line(&mut text, "[ended: it ran too long]");
    } else if let Some(signal) = signal {
        line(&mut text, &format!("[ended by SIG{signal}]"));
    } else if exit != 0 || text.is_empty() {
        line(&mut text, &format!("[exit code {exit}]"));
    }
    text
}

fn line(text: &mut String, said: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    *text += said;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(stdout: &str, stderr: &str, exit: u64, more: Value) -> String {
        let mut output = json!({
            "stdout": stdout, "stderr": stderr, "exit_code": exit,
            "stdout_encoding": "utf-8", "stderr_encoding": "utf-8", "timed_out": false,
        });
        for (name, value) in more.as_object().unwrap() {
            output[name] = value.clone();
        }
        text("git", &output)
    }

    #[test]
    fn a_program_reads_as_on_a_terminal_and_says_how_it_ended() {
        assert_eq!(ran("a\n", "", 0, json!({})), "a\n");
        assert_eq!(ran("", "", 0, json!({})), "[exit code 0]");
        assert_eq!(ran("a", "b\n", 1, json!({})), "a\n[stderr]\nb\n[exit code 1]");
        assert_eq!(ran("a", "", 137, json!({"signal": "KILL"})), "a\n[ended by SIGKILL]");
        assert_eq!(ran("", "", 124, json!({"timed_out": true})), "[ended: it ran too long]");
        assert!(ran("/w==", "", 0, json!({"stdout_encoding": "base64"})).starts_with('{'));
    }

    #[test]
    fn a_file_reads_as_it_is_unless_there_is_more_to_know() {
        let read = |truncated: bool| {
            let output = json!({"content": "a\n", "encoding": "utf-8", "truncated": truncated});
            text("read_file", &output)
        };
        assert_eq!(read(false), "a\n");
        assert!(read(true).contains("\"truncated\":true"));
    }

    #[test]
    fn a_refusal_says_its_code_its_rule_and_what_to_do() {
        let wrong = |rule: Option<&str>, hint: Option<&str>| Wrong {
            code: "DENIED".to_owned(),
            message: "git: no".to_owned(),
            rule: rule.map(str::to_owned),
            hint: hint.map(str::to_owned),
        };
        assert_eq!(in_words(&wrong(None, None)), "DENIED: git: no");
        assert_eq!(
            in_words(&wrong(Some("push"), Some("push elsewhere"))),
            "DENIED: git: no [push] push elsewhere"
        );
    }
}

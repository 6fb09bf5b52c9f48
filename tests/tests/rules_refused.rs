//! What the shipped rules stop: each line of tests/rules/refused is refused or
//! asked about by the rule that it names, before anything runs.

use std::path::Path;

use tool_broker_tests::rules::{Refused, Seen, Stand, Way};

/// A rule as a definition has it.
struct Rule {
    line: usize,
    reason: String,
    instead: String,
}

/// The rule of that id; for `default` and `unread` their tables.
fn rule(definition: &Path, id: &str) -> Option<Rule> {
    let text = std::fs::read_to_string(definition).expect("the definition");
    let parsed: toml::Table = toml::from_str(&text).expect("TOML");
    let named = |table: &&toml::Value| table.get("id").and_then(toml::Value::as_str) == Some(id);
    let table = match parsed.get("rule").and_then(toml::Value::as_array) {
        Some(rules) => rules.iter().find(named).or(parsed.get(id)),
        None => parsed.get(id),
    }?;
    let said = |name: &str| table.get(name).and_then(toml::Value::as_str).unwrap_or("").to_owned();
    let wanted = [format!("id = \"{id}\""), format!("[{id}]")];
    let at = text.lines().position(|line| wanted.iter().any(|wanted| line == wanted))?;
    // A rule is said to be where its [[rule]] stands.
    let line = if text.lines().nth(at) == Some(&wanted[1]) { at + 1 } else { at };
    Some(Rule { line, reason: said("reason"), instead: said("instead") })
}

/// Whether a request that reached the host only reads.
fn reads(seen: &Seen) -> bool {
    let query = seen.body.contains("\"query\":\"query") || seen.body.contains("\"query\":\"{");
    seen.line.starts_with("GET ") || seen.line.starts_with("HEAD ") || query
}

#[track_caller]
fn refused(folder: &str, tool: &str, least: usize) {
    let table = Refused::of(tool);
    assert!(table.line.len() >= least, "{} lines", table.line.len());
    let test = format!("what_{tool}_is_not_to_do");
    let Some(mut stand) = Stand::start_in(folder, tool, &test, &[]) else { return };
    let mut wrong = Vec::new();
    for line in &table.line {
        stand.prepare(&table.prepare, &line.state);
        let before = stand.state();
        let result = stand.run(Way::Rules, &table.directory, &line.call);
        let mut complain = |what: String| wrong.push(format!("{}: {what}", line.call));
        if before != result.state {
            complain("something changed".to_owned());
        }
        if line.is == "wire" {
            let changes: Vec<_> = result.seen.iter().filter(|seen| !reads(seen)).collect();
            if !changes.is_empty() {
                complain(format!("it sent {changes:?}"));
            }
            // curl takes a refusal for an answer.
            if result.outcome.code() == Some(0) && tool != "curl" {
                complain(format!("is to fail: {:?}", result.outcome));
            }
            continue;
        }
        if !result.seen.is_empty() {
            complain(format!("it asked {:?}", result.seen));
        }
        let said = result.outcome.err();
        if result.outcome.code() != Some(126) || !result.outcome.stdout.is_empty() {
            complain(format!("is to be refused: {:?}", result.outcome));
            continue;
        }
        let Some(rule) = rule(&stand.definition(), &line.rule) else {
            complain(format!("there is no rule {}", line.rule));
            continue;
        };
        let at = format!("[rule {}, {}:{}]", line.rule, stand.definition().display(), rule.line);
        let asked = said.contains("held, nothing has run");
        let parts = [at, rule.reason, format!("instead: {}", rule.instead)];
        // What stands for {value} is the call's.
        let parts = parts.iter().flat_map(|part| part.split("{value}"));
        for part in parts.filter(|part| !said.contains(*part)) {
            complain(format!("is not told {part:?}: {said}"));
        }
        if asked != (line.is == "ask") {
            complain(format!("is to be {}: {said}", line.is));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.line.len(), wrong.join("\n"));
}

#[test]
fn what_git_is_not_to_do() {
    refused("tools.d", "git", 30);
}

#[test]
fn what_gh_is_not_to_do() {
    refused("tools.d", "gh", 30);
}

#[test]
fn what_npm_is_not_to_do() {
    refused("tools.d", "npm", 15);
}

#[test]
fn what_curl_is_not_to_do() {
    refused("tools.d", "curl", 15);
}

#[test]
fn what_a_shell_is_not_to_do() {
    refused("docs/examples", "sh", 10);
}

//! The definitions that ship, those of the catalog, and those of docs/examples: each is taken, so its
//! own examples come out; each rule has an example that it answers, and one near
//! by that it does not.

#![allow(clippy::unwrap_used, reason = "here a panic is how a test fails")]

use std::fs;
use std::path::{Path, PathBuf};

use tool_policy::Definition;

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all: Vec<PathBuf> = ["tools.d", "catalog", "docs/examples"]
        .into_iter()
        .flat_map(|dir| fs::read_dir(root.join(dir)).into_iter().flatten())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    all
}

#[test]
fn the_shipped_definitions_come_out_as_their_examples_say() {
    let mut failed = Vec::new();
    for folder in folders() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(folder.join("tool.toml")).unwrap();
        let grammar = fs::read_to_string(folder.join("grammar.toml")).ok();
        if let Err(error) = Definition::from_toml(&name, &text, grammar.as_deref()) {
            failed.push(format!("{name} {:?}:{}: {error}", error.place, error.line));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The `[[rule]]` and `[[example]]` blocks of a definition, in their order:
/// the id of a rule, or the rule that an example names.
fn blocks(text: &str) -> Vec<(bool, String)> {
    let mut all: Vec<(bool, String)> = Vec::new();
    for line in text.lines() {
        match line {
            "[[rule]]" => all.push((true, String::new())),
            "[[example]]" => all.push((false, String::new())),
            line => {
                let value = line.strip_prefix("id = ").or(line.strip_prefix("rule = "));
                if let (Some(value), Some(last)) = (value, all.last_mut()) {
                    last.1 = value.trim_matches('"').to_owned();
                }
            }
        }
    }
    all
}

#[test]
fn each_shipped_rule_has_an_example_and_a_near_miss() {
    for folder in folders() {
        let text = fs::read_to_string(folder.join("tool.toml")).unwrap();
        let (mut answered, mut missed) = (true, true);
        let mut last = String::new();
        for (is_rule, id) in blocks(&text).into_iter().chain([(true, String::new())]) {
            if !is_rule {
                answered |= id == last;
                missed |= id != last;
                continue;
            }
            assert!(answered && missed, "{}: {last}", folder.display());
            (answered, missed, last) = (false, false, id);
        }
    }
}

#[test]
fn each_shipped_rule_that_stops_says_what_to_do_instead() {
    for folder in folders() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(folder.join("tool.toml")).unwrap();
        let grammar = fs::read_to_string(folder.join("grammar.toml")).ok();
        let definition = Definition::from_toml(&name, &text, grammar.as_deref()).unwrap();
        for rule in definition.policy.rules() {
            let stops = rule.decision != tool_policy::Decision::Allow;
            assert!(!stops || rule.instead.is_some(), "{name}: {}", rule.id);
        }
    }
}

#[test]
fn the_document_lists_the_shipped_rules_with_their_decisions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let document = fs::read_to_string(root.join("docs/tools.md")).unwrap();
    for folder in folders().iter().filter(|folder| folder.parent() == Some(&root.join("tools.d"))) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let section = document.split(&format!("\n### {name}\n")).nth(1).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let text = fs::read_to_string(folder.join("tool.toml")).unwrap();
        let grammar = fs::read_to_string(folder.join("grammar.toml")).ok();
        let definition = Definition::from_toml(&name, &text, grammar.as_deref()).unwrap();
        let mut listed = Vec::new();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let mut cells = row.split(" | ");
            let ids = cells.next().unwrap().trim_start_matches("| ").split(", ");
            let decision = cells.next().unwrap();
            listed.extend(ids.map(|id| format!("{} {decision}", id.trim_matches('`'))));
        }
        let rules = definition.policy.rules().iter();
        let mut wanted: Vec<String> =
            rules.map(|rule| format!("{} {}", rule.id, rule.decision)).collect();
        wanted.sort();
        listed.sort();
        assert_eq!(listed, wanted, "{name}");
    }
}

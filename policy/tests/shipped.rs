//! The definitions that ship, those of the catalog, and those of docs/examples: each is taken, so its
//! own examples come out; each rule has an example that it answers, and one near
//! by that it does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "here a panic is how a test fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tool_policy::facts::Observed;
use tool_policy::{Decision, Definition, Scene};

/// The tools of the server's own that run commands.
const AGENT: [(&str, &str); 2] = [
    ("run_command", include_str!("../../server/src/registry/builtin/run_command.toml")),
    ("run_shell", include_str!("../../server/src/registry/builtin/run_shell.toml")),
];

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
    let own = AGENT.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let of_folders = folders().into_iter().map(|folder| {
        (folder.display().to_string(), fs::read_to_string(folder.join("tool.toml")).unwrap())
    });
    for (name, text) in of_folders.chain(own) {
        let (mut answered, mut missed) = (true, true);
        let mut last = String::new();
        for (is_rule, id) in blocks(&text).into_iter().chain([(true, String::new())]) {
            if !is_rule {
                answered |= id == last;
                missed |= id != last;
                continue;
            }
            assert!(answered && missed, "{name}: {last}");
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
            let stops = rule.decision != Decision::Allow;
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

#[test]
fn the_tools_that_run_commands_come_out_as_their_examples_say() {
    for (name, text) in AGENT {
        let definition = match Definition::from_toml(name, text, None) {
            Ok(definition) => definition,
            Err(error) => {
                let near: Vec<&str> = text.lines().skip(error.line).take(2).collect();
                panic!("{name}:{}: {error}: {}", error.line, near.join(" "));
            }
        };
        assert_eq!(definition.timeout, Some(Duration::from_secs(300)), "{name}");
        assert!(definition.warnings.is_empty(), "{name}: {:?}", definition.warnings);
        for rule in definition.policy.rules() {
            assert!(rule.instead.is_some(), "{name}: {}", rule.id);
        }
    }
}

#[test]
fn what_agents_must_not_run_is_found_however_it_is_spelled() {
    let (name, text) = AGENT[1];
    let policy = Definition::from_toml(name, text, None).unwrap().policy;
    let (observed, roots) = (Observed::default(), [b"/workspace".to_vec()]);
    let scene = Scene { directory: b"/workspace", roots: &roots, observed: &observed };
    let mut count = 0;
    for row in include_str!("commands.txt").lines().filter(|row| !row.starts_with('#')) {
        let (rule, line) = row.split_once('\t').unwrap();
        let line = line.replace("\\n", "\n");
        let verdict = policy.judge(&[b"sh", b"-c", line.as_bytes()], &scene);
        assert_eq!(verdict.rule.as_str(), rule, "{line}");
        let decision = if rule == "default" { Decision::Allow } else { Decision::Deny };
        assert_eq!(verdict.decision, decision, "{line}");
        count += 1;
    }
    assert!(count > 150, "{count}");
}

/// An operator's own definition takes lines of several commands by leaving one rule out.
#[test]
fn without_the_rule_chain_lines_of_several_commands_run() {
    let (name, text) = AGENT[1];
    let (before, _) = text.split_once("[[rule]]\nid = \"chain\"").unwrap();
    let policy = Definition::from_toml(name, before, None).unwrap().policy;
    let (observed, roots) = (Observed::default(), [b"/workspace".to_vec()]);
    let scene = Scene { directory: b"/workspace", roots: &roots, observed: &observed };
    let rule = |line: &str| {
        policy.judge(&[b"sh", b"-c", line.as_bytes()], &scene).rule.as_str().to_owned()
    };
    assert_eq!(rule("cd src && make; ls"), "default");
    assert_eq!(rule("cd src && curl x; ls"), "network");
    // Where a line goes to other directories, a relative path may be any.
    assert_eq!(rule("cd / && rm -rf etc"), "remove-outside");
}

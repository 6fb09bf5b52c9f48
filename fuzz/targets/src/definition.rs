//! Definitions: `tool.toml` with `grammar.toml`, and `tool.json`.
//!
//! A definition that is taken keeps what its members promise; one that is not is
//! told of by a line that is there. What is taken is taken again, the same.

use std::time::Duration;

use tool_policy::Definition;
use tool_policy::definition::{LIMITS, Place};
use tool_policy::facts::Observed;

use crate::case::find;
use crate::grammar::is_told;

/// Where a grammar begins that lies beside a definition.
const BESIDE: &[u8] = b"\n=== grammar.toml\n";

/// A `tool.toml`, and what is behind [`BESIDE`] as a `grammar.toml`.
pub fn definition_toml(data: &[u8]) {
    let (text, grammar) = match find(data, BESIDE) {
        Some(at) => (&data[..at], Some(&data[at + BESIDE.len()..])),
        None => (data, None),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let grammar = grammar.map(std::str::from_utf8).transpose();
    let Ok(grammar) = grammar else { return };
    for tool in ["git", "tool"] {
        let loaded = Definition::from_toml(tool, text, grammar);
        assert_eq!(loaded, Definition::from_toml(tool, text, grammar));
        match loaded {
            Ok(definition) => {
                keeps(&definition);
                // A comment changes nothing.
                let more = format!("# first\n{text}");
                let again = Definition::from_toml(tool, &more, grammar).expect("a definition");
                same_but_lines(&definition, &again);
            }
            Err(error) => {
                let of = if error.place == Place::Grammar { grammar } else { Some(text) };
                is_told(&error, of.expect("a file that is there"));
            }
        }
    }
}

/// A `tool.json`.
pub fn definition_json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let loaded = Definition::from_json(text);
    assert_eq!(loaded, Definition::from_json(text));
    match loaded {
        Ok(definition) => {
            keeps(&definition);
            assert!(matches!(
                serde_json::from_str(text),
                Ok(serde_json::Value::Object(members)) if members.len() < 1000
            ));
            // It has no member that would restrict.
            assert!(definition.env.is_none() && definition.limits.is_empty());
            let observed = Observed::default();
            let scene = tool_policy::Scene { directory: b"/", roots: &[], observed: &observed };
            let verdict = definition.policy.judge(&[b"push"], &scene);
            assert_eq!(verdict.decision, tool_policy::Decision::Allow);
        }
        Err(error) => is_told(&error, text),
    }
}

fn keeps(definition: &Definition) {
    if let Some(binary) = &definition.binary {
        let text = binary.to_str().expect("UTF-8");
        assert!(binary.is_absolute() && !text.contains('\0') && !text.ends_with('/'));
    }
    if let Some(timeout) = definition.timeout {
        assert!(!timeout.is_zero() && timeout <= Duration::from_secs(7 * 24 * 3600));
    }
    assert_ne!(definition.concurrent, Some(0));
    for (name, _) in &definition.limits {
        let times = definition.limits.iter().filter(|(other, _)| other == name).count();
        assert!(LIMITS.contains(name) && times == 1);
    }
    for (name, value) in definition.env.iter().flat_map(|env| &env.set) {
        assert!(!name.is_empty() && !name.contains(['=', '\0']) && !name.starts_with("TOOL_"));
        assert!(!value.contains('\0'));
    }
}

fn same_but_lines(one: &Definition, other: &Definition) {
    let parts = |of: &Definition| {
        (of.binary.clone(), of.timeout, of.concurrent, of.stream, of.description.clone())
    };
    assert_eq!(parts(one), parts(other));
    assert_eq!((&one.env, &one.limits), (&other.env, &other.limits));
    let observed = Observed::default();
    let roots = [b"/workspace".to_vec()];
    let scene = tool_policy::Scene { directory: b"/workspace", roots: &roots, observed: &observed };
    let calls: [&[&[u8]]; 3] = [&[], &[b"push", b"--force"], &[b"--none"]];
    for args in calls {
        let (one, other) = (one.policy.judge(args, &scene), other.policy.judge(args, &scene));
        assert_eq!(
            (one.decision, one.would, &one.rule),
            (other.decision, other.would, &other.rule)
        );
        assert_eq!(one.facts, other.facts);
    }
}

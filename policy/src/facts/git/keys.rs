//! Configuration that a call sets or removes.

use super::MANY;
use crate::facts::{Text, Value, options};
use crate::grammar::CommandLine;

/// The keys, in small letters.
pub(super) fn set(line: &CommandLine<'_>) -> Value {
    if too_many(line) {
        return Value::Unknown;
    }
    let mut keys = Vec::new();
    for setting in options::global_values(line, &["-c", "--config-env"]) {
        keys.push(key(before_equals(setting)));
    }
    let operand = |index: usize| line.operands.get(index).copied();
    match line.subcommand.as_slice() {
        ["clone", ..] => {
            keys.extend(
                options::own_values(line, &["--config"]).map(|said| key(before_equals(said))),
            );
        }
        ["config", "set" | "unset", ..] => keys.extend(operand(0).map(key)),
        ["config", "rename-section" | "remove-section", ..] => {
            keys.extend(line.operands.iter().map(|section| below(section)));
        }
        ["config", "edit", ..] => return Value::Unknown,
        ["config"] => match classic(line) {
            Some(more) => keys.extend(more),
            None => return Value::Unknown,
        },
        ["remote", verb, ..] => {
            let (count, members): (usize, &[&[u8]]) = match *verb {
                "add" | "remove" => (1, &[b"url", b"fetch"]),
                "set-url" => (1, &[b"url"]),
                "set-branches" => (1, &[b"fetch"]),
                "rename" => (2, &[b"url", b"fetch"]),
                _ => (0, &[]),
            };
            for name in line.operands.iter().take(count) {
                let full = |member: &&[u8]| key(&[b"remote.", *name, b".", *member].concat());
                keys.extend(members.iter().map(full));
            }
        }
        _ => {}
    }
    Value::Texts(keys)
}

/// The same, but for what `-c` only switches off, or says as it is anyway.
pub(super) fn effective(line: &CommandLine<'_>) -> Value {
    let Value::Texts(keys) = set(line) else { return Value::Unknown };
    // Those of the tool's own options come first, in their order.
    let by_options = line.options.iter().filter(|given| {
        let is = |name| given.option.spellings().any(|known| known == name);
        let holds = given.option.global() && !given.negated && given.value.is_some();
        holds && (is("-c") || is("--config-env"))
    });
    let mut idle = by_options.map(|given| {
        let plain = given.option.spellings().any(|known| known == "-c");
        plain && given.value.is_some_and(is_idle)
    });
    let kept = keys.into_iter().filter(|_| !idle.next().unwrap_or(false));
    Value::Texts(kept.collect())
}

/// `key=value` that runs nothing, and sends nothing elsewhere.
fn is_idle(said: &[u8]) -> bool {
    let Some(at) = said.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (said.get(..at).unwrap_or_default(), said.get(at + 1..).unwrap_or_default());
    let switch = [b"false".as_slice(), b"no", b"off", b"0", b"true", b"yes", b"on", b"1"];
    match key.to_ascii_lowercase().as_slice() {
        b"diff.external" | b"credential.helper" => value.is_empty(),
        b"core.hookspath" => value == b"/dev/null",
        b"core.fsmonitor" => switch.iter().take(4).any(|word| *word == value),
        // How an explicit branch is pushed without it.
        b"push.default" => is_usual(value),
        key if key.starts_with(b"pager.") => switch.contains(&value),
        _ => false,
    }
}

/// The ways of a push that change the branch of the same name, and no other.
fn is_usual(value: &[u8]) -> bool {
    matches!(value, b"simple" | b"current")
}

/// What `-c push.default` says, where it is plain.
pub(super) fn push_default<'a>(line: &CommandLine<'a>) -> Option<&'a [u8]> {
    let said = options::global_values(line, &["-c"]).filter_map(|said| {
        let at = said.iter().position(|byte| *byte == b'=')?;
        let key = said.get(..at)?;
        key.eq_ignore_ascii_case(b"push.default").then_some(said.get(at + 1..)?)
    });
    said.last().filter(|value| is_usual(value))
}

/// What is set to what, `key=value`.
pub(super) fn settings(line: &CommandLine<'_>) -> Value {
    if too_many(line) {
        return Value::Unknown;
    }
    let both = |name: &[u8], value: &[u8]| {
        Text::new([&name.to_ascii_lowercase(), b"=".as_slice(), value].concat())
    };
    let split = |said: &[u8]| {
        let at = said.iter().position(|byte| *byte == b'=')?;
        Some(both(said.get(..at)?, said.get(at + 1..)?))
    };
    let mut all: Vec<Text<'static>> =
        options::global_values(line, &["-c"]).filter_map(split).collect();
    // The value is in the environment.
    all.extend(
        options::global_values(line, &["--config-env"])
            .map(|said| both(before_equals(said), b"*").open()),
    );
    match line.subcommand.as_slice() {
        ["clone", ..] => all.extend(options::own_values(line, &["--config"]).filter_map(split)),
        ["config", "edit", ..] => return Value::Unknown,
        ["config", "set", ..] => all.extend(pair(line).map(|(name, value)| both(name, value))),
        ["config"] => match classic(line) {
            Some(keys) if keys.is_empty() => {}
            Some(_) => all.extend(pair(line).map(|(name, value)| both(name, value))),
            None => return Value::Unknown,
        },
        _ => {}
    }
    Value::Texts(all)
}

/// Whether there are more than are told one by one.
fn too_many(line: &CommandLine<'_>) -> bool {
    let own = matches!(line.subcommand.as_slice(), ["clone", ..]);
    let given = options::global_values(line, &["-c", "--config-env"])
        .chain(options::own_values(line, &["--config"]).filter(|_| own));
    let sections = matches!(line.subcommand.first(), Some(&"config"));
    given.count() > MANY || sections && line.operands.len() > MANY
}

fn pair<'a>(line: &CommandLine<'a>) -> Option<(&'a [u8], &'a [u8])> {
    Some((*line.operands.first()?, *line.operands.get(1)?))
}

/// `git config` without a verb. `None`: any key may be set.
fn classic(line: &CommandLine<'_>) -> Option<Vec<Text<'static>>> {
    let given = |spellings: &[&str]| options::any_own(line, spellings);
    if given(&["--edit"]) {
        return None;
    }
    let reads = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "--get-color",
        "--get-colorbool",
    ];
    if given(&reads) {
        return Some(Vec::new());
    }
    if given(&["--rename-section", "--remove-section"]) {
        return Some(line.operands.iter().map(|section| below(section)).collect());
    }
    let writes = given(&["--add", "--replace-all", "--unset", "--unset-all"]);
    let set = line.operands.first().filter(|_| writes || line.operands.len() > 1);
    Some(set.map(|name| key(name)).into_iter().collect())
}

fn before_equals(setting: &[u8]) -> &[u8] {
    setting.split(|byte| *byte == b'=').next().unwrap_or_default()
}

fn key(name: &[u8]) -> Text<'static> {
    Text::new(name.to_ascii_lowercase()).folded()
}

/// Every key of a section.
fn below(section: &[u8]) -> Text<'static> {
    Text::new([&section.to_ascii_lowercase(), b".*".as_slice()].concat()).folded().open()
}

//! Where a call of git goes.

use super::observed::{Config, Observed, Remote};
use super::{none, one};
use crate::facts::{Text, Value, options};
use crate::grammar::CommandLine;

/// A remote's name, as given or as the branch has it, and its addresses.
pub(super) struct Names {
    pub(super) name: Value,
    pub(super) url: Value,
}

pub(super) fn of(line: &CommandLine<'_>, observed: &Observed) -> Names {
    let operand = |index: usize| line.operands.get(index).copied();
    let only = |url: Option<&[u8]>| Names { name: none(), url: url.map_or_else(none, one) };
    match line.subcommand.as_slice() {
        ["push", ..] => named(push_name(line, observed), observed, true),
        ["fetch" | "pull", ..] if options::any_own(line, &["--all", "--multiple"]) => {
            Names { name: Value::Unknown, url: Value::Unknown }
        }
        ["fetch" | "pull" | "ls-remote", ..] => {
            let name = operand(0).map(<[u8]>::to_vec);
            named(name.or_else(|| fetch_name(observed)), observed, false)
        }
        ["clone", ..] | ["submodule", "add", ..] => only(operand(0)),
        ["remote" | "submodule", "set-url", ..] | ["remote", "add", ..] => only(operand(1)),
        _ => Names { name: none(), url: none() },
    }
}

/// The remote that a push goes to.
pub(super) fn push_name(line: &CommandLine<'_>, observed: &Observed) -> Option<Vec<u8>> {
    let said = line.operands.first().copied();
    if let Some(said) = said.or_else(|| options::own_values(line, &["--repo"]).last()) {
        return Some(said.to_vec());
    }
    let config = observed.config.as_ref()?;
    let branch = config.branches.get(observed.head.as_deref()?);
    branch
        .and_then(|branch| branch.push_remote.clone())
        .or_else(|| config.remote_push_default.clone())
        .or_else(|| branch.and_then(|branch| branch.remote.clone()))
        .or_else(|| usual(config))
}

fn fetch_name(observed: &Observed) -> Option<Vec<u8>> {
    let config = observed.config.as_ref()?;
    let branch = config.branches.get(observed.head.as_deref()?);
    branch.and_then(|branch| branch.remote.clone()).or_else(|| usual(config))
}

/// The only remote, else origin. Older versions take origin all the same.
fn usual(config: &Config) -> Option<Vec<u8>> {
    let mut names = config.remotes.keys();
    match (names.next(), names.next()) {
        (None, _) => Some(b"origin".to_vec()),
        (Some(only), None) if only == b"origin" => Some(only.clone()),
        (Some(_), None) => None,
        (Some(_), Some(_)) => Some(b"origin".to_vec()),
    }
}

fn named(name: Option<Vec<u8>>, observed: &Observed, push: bool) -> Names {
    let Some(name) = name else { return Names { name: Value::Unknown, url: Value::Unknown } };
    let url = match &observed.config {
        // Any name may be a remote's, also one that looks like an address.
        None => Value::Unknown,
        Some(config) if config.rewrites => Value::Unknown,
        Some(config) => addresses(config.remotes.get(&name), &name, push),
    };
    Names { name: one(&name), url }
}

fn addresses(remote: Option<&Remote>, name: &[u8], push: bool) -> Value {
    let urls = match remote {
        Some(remote) if push && !remote.push_urls.is_empty() => &remote.push_urls,
        Some(remote) => &remote.urls,
        None => return one(name),
    };
    match urls.is_empty() {
        true => one(name),
        false => Value::Texts(urls.iter().map(|url| Text::new(url.clone())).collect()),
    }
}

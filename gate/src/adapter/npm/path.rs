//! What a method and a path of a registry mean.
//!
//! Owns: the list of what registries have. What is not in it does not pass. Must
//! not: read bodies; of `PUT /NAME` nobody can say from outside which versions of the
//! package change, so all of it is one change.

use hyper::Method;

use super::reads;
use crate::refusal::Refusal;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning {
    /// What it changes; nothing where it reads.
    pub(super) change: Option<&'static str>,
    /// NAME or @SCOPE/NAME.
    pub(super) package: Option<String>,
}

impl Meaning {
    /// As npm calls it.
    pub(super) fn subcommand(&self) -> &'static [&'static str] {
        match self.change {
            Some("publish") => &["publish"],
            Some("unpublish") => &["unpublish"],
            Some("dist-tag") => &["dist-tag"],
            _ => &[],
        }
    }
}

/// The path, with the slash of a scope in plain sight.
pub(super) fn plain(path: &str) -> String {
    path.replace("%2f", "/")
}

/// Reads a path that is normal but for `%2f` in names.
pub(super) fn read(method: &Method, path: &str) -> Result<Meaning, Refusal> {
    match listed(method, path) {
        Err(_) if crate::weaken::is("gate-registry") => Ok(Meaning { change: None, package: None }),
        read => read,
    }
}

fn listed(method: &Method, path: &str) -> Result<Meaning, Refusal> {
    let unknown = || Refusal::Unlisted(format!("{method} {path} is nothing that a registry has"));
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        let meaning = Meaning { change: None, package: None };
        return if reads(method) { Ok(meaning) } else { Err(unknown()) };
    }
    let segments: Vec<&str> = path.split('/').collect();
    let (package, change) = match segments.as_slice() {
        ["-", rest @ ..] => special(method, rest)?,
        rest => {
            let (package, rest) = package(rest).ok_or_else(unknown)?;
            (Some(package), of_package(method, rest))
        }
    };
    match change {
        Change::Nothing => Ok(Meaning { change: None, package }),
        Change::This(change) => Ok(Meaning { change: Some(change), package }),
        Change::Unknown => Err(unknown()),
    }
}

/// What a request changes.
enum Change {
    Nothing,
    This(&'static str),
    Unknown,
}

/// A read, or this change.
fn or(method: &Method, change: &'static str) -> Change {
    match method {
        method if reads(method) => Change::Nothing,
        &Method::PUT | &Method::POST | &Method::DELETE => Change::This(change),
        _ => Change::Unknown,
    }
}

/// The package at the beginning, and what follows it.
fn package<'a, 'b>(segments: &'a [&'b str]) -> Option<(String, &'a [&'b str])> {
    let (first, rest) = segments.split_first()?;
    let (name, rest) = match (first.strip_prefix('@'), rest.split_first()) {
        (Some(_), _) if first.contains("%2f") => (plain(first), rest),
        (Some(_), Some((name, rest))) => (format!("{first}/{name}"), rest),
        (Some(_), None) => return None,
        (None, _) => ((*first).to_owned(), rest),
    };
    let scoped = name.strip_prefix('@').map(|name| name.split_once('/'));
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!'()*".contains(&byte);
        !part.is_empty() && part.bytes().all(plain)
    };
    let known = match scoped {
        Some(Some((scope, name))) => part(scope) && part(name),
        Some(None) => false,
        None => part(&name) && !name.starts_with(['.', '_']),
    };
    known.then_some((name, rest))
}

fn of_package(method: &Method, rest: &[&str]) -> Change {
    match (method, rest) {
        (method, []) => match method {
            &Method::PUT => Change::This("publish"),
            method if reads(method) => Change::Nothing,
            _ => Change::Unknown,
        },
        // The archive; older registries have the scope in its name again.
        (method, ["-", _] | ["-", _, _]) if reads(method) => Change::Nothing,
        (&Method::PUT, ["-rev", _]) => Change::This("edit"),
        (&Method::DELETE, ["-rev", _] | ["-", _, "-rev", _] | ["-", _, _, "-rev", _]) => {
            Change::This("unpublish")
        }
        // A version or a tag.
        (method, [version]) if reads(method) && !version.starts_with('-') => Change::Nothing,
        _ => Change::Unknown,
    }
}

/// What stands behind `/-/`.
fn special(method: &Method, segments: &[&str]) -> Result<(Option<String>, Change), Refusal> {
    let token = || {
        Err(Refusal::Unlisted(
            "this would hand out a token, and tools have none: the gate adds the one that the \
             definition names"
                .to_owned(),
        ))
    };
    let change = match (method, segments) {
        (method, ["ping" | "whoami" | "all"] | ["v1", "search"]) if reads(method) => {
            Change::Nothing
        }
        // What is known of the packages that are named.
        (&Method::POST, ["npm", "v1", "security", "advisories", "bulk"])
        | (&Method::POST, ["npm", "v1", "security", "audits"])
        | (&Method::POST, ["npm", "v1", "security", "audits", "quick"]) => Change::Nothing,
        (method, ["npm", "v1", "keys" | "attestations", ..] | ["_view", _]) if reads(method) => {
            Change::Nothing
        }
        (_, ["v1", "login" | "done", ..]) => return token(),
        (method, ["user", name]) if name.starts_with("org.couchdb.user:") => match reads(method) {
            true => Change::Nothing,
            false => return token(),
        },
        (method, ["user", name, ..]) if name.starts_with("org.couchdb.user:") && !reads(method) => {
            return token();
        }
        (&Method::POST, ["npm", "v1", "tokens", ..]) => return token(),
        (method, ["npm", "v1", "tokens", ..]) => or(method, "token"),
        (&Method::DELETE, ["user", "token", _]) => Change::This("token"),
        (method, ["npm", "v1", "user"]) => or(method, "profile"),
        (method, ["npm", "v1", "hooks", ..]) => or(method, "hook"),
        (method, ["org", _, "team", ..] | ["team", ..]) => or(method, "team"),
        (method, ["org", ..]) => or(method, "org"),
        (method, ["user", _, "package"]) if reads(method) => Change::Nothing,
        (method, ["package", rest @ ..]) => {
            let Some((package, rest)) = package(rest) else { return Ok((None, Change::Unknown)) };
            let change = match rest {
                ["dist-tags"] | ["dist-tags", _] => or(method, "dist-tag"),
                ["access" | "visibility" | "collaborators" | "trust", ..] => or(method, "access"),
                _ => Change::Unknown,
            };
            return Ok((Some(package), change));
        }
        _ => Change::Unknown,
    };
    Ok((None, change))
}

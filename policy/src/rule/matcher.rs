//! What a value has to be.
//!
//! Owns: a matcher that was read, and its answer about one value. Must not:
//! decide what follows from an answer that is "it cannot be known".

use super::{address, path};
use crate::facts::Text;
use crate::pattern::Pattern;
use crate::scene::Scene;
use crate::truth::Truth;

/// What is asked of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Matcher {
    /// Any of these.
    Any(Vec<Matcher>),
    /// Each of these.
    All(Vec<Matcher>),
    /// It looks so.
    Pattern(Pattern),
    /// It is this.
    Exact(Vec<u8>),
    /// As a path, it is this or lies beneath it.
    Beneath(Root),
    /// As an address, it leads there.
    Address(AddressTest),
    /// It does not meet this.
    Not(Box<Matcher>),
}

/// What a path is to lie beneath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Root {
    /// This directory.
    Path(Vec<u8>),
    /// The call's directory.
    Directory,
    /// Any workspace root.
    Roots,
}

/// Where an address is to lead; what is unset does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressTest {
    pub(crate) host: Vec<Pattern>,
    pub(crate) scheme: Option<Vec<Pattern>>,
    pub(crate) port: Option<Vec<u16>>,
}

impl Matcher {
    /// What is known of `value`.
    pub(crate) fn test(&self, value: &Text<'_>, scene: &Scene<'_>) -> Truth {
        match self {
            Matcher::Any(all) => Truth::any(all.iter().map(|one| one.test(value, scene))),
            Matcher::All(all) => Truth::all(all.iter().map(|one| one.test(value, scene))),
            Matcher::Pattern(pattern) => looks(pattern, value),
            Matcher::Exact(wanted) => is(wanted, value),
            Matcher::Not(other) => other.test(value, scene).not(),
            // Its files lie where the pattern for them does.
            Matcher::Beneath(root) if value.is_files() => match root.test(value.bytes(), scene) {
                Truth::Yes => Truth::Yes,
                _ => Truth::Unknown,
            },
            _ if value.is_open() => Truth::Unknown,
            Matcher::Beneath(root) => root.test(value.bytes(), scene),
            Matcher::Address(test) => test.test(value.bytes()),
        }
    }
}

fn looks(pattern: &Pattern, value: &Text<'_>) -> Truth {
    let meets = |name: &[u8]| match value.is_folded() {
        true => pattern.matches_folded(name),
        false => pattern.matches(name),
    };
    // A pattern whose `*` takes the value's own `*` takes all that it stands for.
    if (!value.is_open() || pattern.takes_stars()) && value.names().any(meets) {
        return Truth::Yes;
    }
    may_be(&pattern.beginning(), value)
}

fn is(wanted: &[u8], value: &Text<'_>) -> Truth {
    let same = |name: &[u8]| match value.is_folded() {
        true => name.eq_ignore_ascii_case(wanted),
        false => name == wanted,
    };
    if !value.is_open() && value.names().any(same) { Truth::Yes } else { may_be(wanted, value) }
}

/// Whether a value that stands for many may be one that begins so.
fn may_be(beginning: &[u8], value: &Text<'_>) -> Truth {
    if !value.is_open() {
        return Truth::No;
    }
    let meets = |name: &[u8]| {
        let fixed = name.split(|byte| *byte == b'*').next().unwrap_or_default();
        let both = fixed.iter().zip(beginning);
        both.clone().all(|(left, right)| left.eq_ignore_ascii_case(right))
    };
    if value.names().any(meets) { Truth::Unknown } else { Truth::No }
}

impl Root {
    fn test(&self, path: &[u8], scene: &Scene<'_>) -> Truth {
        let beneath = |root: &[u8]| path::is_beneath(path, scene.directory, root);
        match self {
            Root::Path(root) => beneath(root),
            Root::Directory if scene.directory.is_empty() => Truth::Unknown,
            Root::Directory => beneath(scene.directory),
            Root::Roots => Truth::any(scene.roots.iter().map(|root| beneath(root))),
        }
    }
}

impl AddressTest {
    fn test(&self, word: &[u8]) -> Truth {
        let Some(address) = address::parse(word) else { return Truth::No };
        let text = |patterns: &[Pattern], known: &Option<String>| match known {
            None => Truth::Unknown,
            Some(text) => {
                Truth::from(patterns.iter().any(|one| one.matches_folded(text.as_bytes())))
            }
        };
        let port = |ports: &[u16]| match address.port {
            None => Truth::Unknown,
            Some(port) => Truth::from(ports.contains(&port)),
        };
        Truth::all([
            text(&self.host, &address.host),
            self.scheme.as_deref().map_or(Truth::Yes, |schemes| text(schemes, &address.scheme)),
            self.port.as_deref().map_or(Truth::Yes, port),
        ])
    }
}

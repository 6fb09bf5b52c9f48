//! What is known of git's requests where they are in plain sight.
//!
//! Owns: the same names of facts as for a command line, so that one rule is about
//! both. Facts that a request says nothing of are not among them.

use super::refs::Refs;
use crate::facts::{Facts, Text, Value};

/// A request to this repository that changes no ref; `folded`: letters of both sizes
/// name one repository there.
pub fn asked(host: &str, repository: &str, folded: bool) -> Facts {
    Facts::new(about(host, repository, folded))
}

fn about(host: &str, repository: &str, folded: bool) -> Vec<(&'static str, Value)> {
    vec![
        ("url", url(host, repository, folded)),
        ("repository", self::repository(repository, folded)),
    ]
}

/// What all refs of a push have in common: the repository, and the words of `push -o`,
/// which go with the whole of it.
pub fn pushed(host: &str, repository: &str, folded: bool, options: &[Vec<u8>]) -> Facts {
    let options = options.iter().map(|option| Text::new(option.clone())).collect();
    let mut known = about(host, repository, folded);
    known.push(("push_option", Value::Texts(options)));
    Facts::new(known)
}

/// What a push does to one ref.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The ref's full name.
    pub name: &'a [u8],
    /// It is to go.
    pub delete: bool,
    /// Commits of it may be dropped.
    pub force: bool,
}

/// One ref that the push changes.
pub fn changed(push: &Facts, change: Change<'_>) -> Facts {
    let mut refs = Refs::default();
    refs.name(change.name);
    push.with(vec![
        ("ref", Value::Texts(refs.names)),
        ("force", Value::Flag(change.force)),
        ("delete", Value::Flag(change.delete)),
        ("tags", Value::Texts(refs.tags)),
        ("unclear", Value::Flag(refs.unknown)),
    ])
}

fn repository(name: &str, folded: bool) -> Value {
    let text = Text::new(name.as_bytes().to_vec());
    Value::Texts(vec![if folded { text.folded() } else { text }])
}

/// The address of a repository by every name that people give it.
fn url(host: &str, repository: &str, folded: bool) -> Value {
    let mut text = Text::new(format!("https://{host}/{repository}").into_bytes());
    for ending in ["", ".git"] {
        for beginning in ["https://", "http://", "ssh://git@"] {
            text = text.or(format!("{beginning}{host}/{repository}{ending}"));
        }
        text = text.or(format!("git@{host}:{repository}{ending}"));
    }
    Value::Texts(vec![if folded { text.folded() } else { text }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: &Value) -> Vec<String> {
        let Value::Texts(texts) = value else { return Vec::new() };
        texts.iter().flat_map(Text::names).map(|name| name.escape_ascii().to_string()).collect()
    }

    #[test]
    fn a_request_is_told_by_the_names_that_a_command_line_has() {
        let change = Change { name: b"refs/heads/main", delete: false, force: true };
        let facts = changed(&pushed("github.com", "o/r", true, &[]), change);
        assert_eq!(names(facts.get("ref")), ["main", "refs/heads/main"]);
        assert_eq!(facts.get("force"), &Value::Flag(true));
        assert_eq!(facts.get("delete"), &Value::Flag(false));
        assert!(facts.get("tags").is_nothing());
        assert!(facts.get("push_option").is_nothing());
        let options = [b"ci.skip".to_vec(), b"topic=x".to_vec()];
        let change = Change { name: b"refs/tags/v1", delete: true, force: false };
        let facts = changed(&pushed("github.com", "o/r", true, &options), change);
        assert_eq!(names(facts.get("tags")), ["v1"]);
        assert_eq!(names(facts.get("push_option")), ["ci.skip", "topic=x"]);
        for url in ["https://github.com/o/r", "git@github.com:o/r.git", "ssh://git@github.com/o/r"]
        {
            assert!(names(facts.get("url")).iter().any(|name| name == url), "{url}");
        }
        for name in ["url", "repository", "push_option", "ref", "force", "tags", "unclear"] {
            assert_eq!(facts.iter().filter(|(known, _)| *known == name).count(), 1, "{name}");
        }
        let asked = asked("github.com", "o/r", true);
        assert_eq!(asked.iter().count(), 2, "of a fetch no more is known");
    }

    #[test]
    fn what_the_refs_of_a_push_have_in_common_is_in_memory_once() {
        let push = pushed("github.com", "o/r", true, &[b"ci.skip".to_vec()]);
        let of = |name| changed(&push, Change { name, delete: false, force: false });
        let (one, other) = (of(b"refs/heads/a"), of(b"refs/heads/b"));
        for name in ["url", "repository", "push_option"] {
            assert!(!one.get(name).is_nothing());
            assert!(std::ptr::eq(one.get(name), other.get(name)), "{name}");
        }
        assert!(std::ptr::eq(one.get("ref"), one.clone().get("ref")), "a copy is the same");
        assert_ne!(one, other);
    }
}

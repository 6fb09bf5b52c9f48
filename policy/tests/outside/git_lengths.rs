//! How much is told of a call of git, for arguments of any length.

use tool_policy::facts::{Observed, Value, Wants};
use tool_policy::{Definition, Policy};

use crate::support::{judge_words, repository};

fn git() -> Policy {
    let grammar = include_str!("../../../tools.d/git/grammar.toml");
    Definition::from_toml("git", "default = \"allow\"", Some(grammar)).expect("git").policy
}

/// The bytes of all facts, and the facts that are not known.
fn told(words: &[&[u8]]) -> (usize, Vec<&'static str>) {
    let verdict =
        judge_words(&git(), words, &repository("topic", "[remote \"origin\"]\nurl = x\n"));
    assert_ne!(verdict.rule.as_str(), "unread", "{:?}", verdict.reason);
    let names = |value: &Value| match value {
        Value::Texts(texts) => texts.iter().flat_map(|text| text.names().map(<[u8]>::len)).sum(),
        _ => 0,
    };
    let bytes = verdict.facts.iter().map(|(_, value)| names(value)).sum();
    let unknown = verdict.facts.iter().filter(|(_, value)| **value == Value::Unknown);
    (bytes, unknown.map(|(name, _)| name).collect())
}

fn many<'a>(
    head: &[&'a [u8]],
    count: usize,
    each: &[&'a [u8]],
    tail: &[&'a [u8]],
) -> Vec<&'a [u8]> {
    let each = std::iter::repeat_n(each, count).flatten();
    head.iter().chain(each).chain(tail).copied().collect()
}

#[test]
fn the_facts_of_a_long_call_are_not_longer_than_the_call() {
    let deep = vec![b'x'; 100];
    let wide = vec![b'x'; 100_000];
    let output: Vec<&[u8]> = many(&[b"log"], 20_000, &[b"--output=a"], &[]);
    let calls: [Vec<&[u8]>; 9] = [
        many(&[], 2_000, &[b"-C", &deep], &output),
        many(&[], 30, &[b"-C", &deep], &output),
        many(&[], 30, &[b"-C", &deep], &many(&[b"log"], 900, &[b"--output=a"], &[])),
        many(&[b"-C", &wide], 50_000, &[b"--git-dir", b"x"], &[b"status"]),
        many(&[b"-C", b"sub"], 50_000, &[b"--git-dir", b"x"], &[b"status"]),
        many(&[], 50_000, &[b"-c", b"a.b=c"], &[b"status"]),
        many(&[b"push", b"origin"], 50_000, &[b"x"], &[]),
        many(&[b"push", &wide], 20_000, &[b"x"], &[]),
        many(&[b"clone"], 50_000, &[b"-c", b"a.b=c"], &[b"x"]),
    ];
    for words in calls {
        let length: usize = words.iter().map(|word| word.len()).sum();
        let (bytes, _) = told(&words);
        // What is put before a path is bounded.
        assert!(bytes <= 4 * length + 256 * 1024, "{bytes} of {length}");
    }
}

#[test]
fn what_is_too_long_or_too_much_is_not_known() {
    let unknown = |words: &[&[u8]]| told(words).1;
    let path = vec![b'x'; 4_096];
    assert_eq!(unknown(&[b"-C", &path, b"status"]), Vec::<&str>::new());
    assert_eq!(unknown(&[b"-C", &path, b"-C", b"x", b"status"]), ["directories", "writes"]);
    assert_eq!(unknown(&[b"-C", &path, b"-C", b"/x", b"status"]), Vec::<&str>::new());
    let chained = |count: usize| unknown(&many(&[], count, &[b"-C", b"."], &[b"status"]));
    assert_eq!(chained(256), Vec::<&str>::new());
    assert_eq!(chained(257), ["directories", "writes"]);
    let settings = |count: usize| unknown(&many(&[], count, &[b"-c", b"a.b=c"], &[b"status"]));
    assert_eq!(settings(1_024), Vec::<&str>::new());
    assert_eq!(settings(1_025), ["config", "configures", "setting"]);
    let outputs = |count: usize| unknown(&many(&[b"log"], count, &[b"--output=x"], &[]));
    assert_eq!(outputs(1_024), Vec::<&str>::new());
    assert_eq!(outputs(1_025), ["writes"]);
    let specs = |count: usize| unknown(&many(&[b"push", b"origin"], count, &[b"x"], &[]));
    assert_eq!(specs(1_023), Vec::<&str>::new());
    assert_eq!(specs(1_024), ["ref", "force", "delete", "tags"]);
    // Nothing is looked at where it is not known where that is.
    let far = many(&[], 257, &[b"-C", b"."], &[b"push"]);
    assert_eq!(git().wants(&far), Wants::Nothing);
    let verdict = judge_words(&git(), &far, &Observed::default());
    assert_eq!(verdict.facts.get("unclear"), &Value::Flag(true));
}

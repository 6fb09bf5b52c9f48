//! Requests of GraphQL, as the gate understands and rewrites them.
//!
//! What is sent is read a second time here, by words alone: an operation has the kind
//! and the fields that were decided on, and there is no other operation beside it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tool_gate::adapter::github::graphql;

/// The body of a request; as it is, and as the document of one.
pub fn graphql(data: &[u8]) {
    request(data);
    if let Ok(query) = std::str::from_utf8(data) {
        request(serde_json::json!({ "query": query }).to_string().as_bytes());
    }
}

fn request(body: &[u8]) {
    let Ok(asked) = graphql::read(body) else { return };
    let whole: Value = serde_json::from_slice(body).expect("what was taken is JSON");
    assert!(whole["query"].is_string());
    drop((asked.repositories(), asked.events()));
    let shown = asked.shown("github.com");
    assert!(!shown.chars().any(char::is_control), "{shown:?}");

    let sent = asked.body();
    let again = graphql::read(&sent).expect("what is sent is taken");
    assert_eq!(sent, again.body(), "written anew it changes");
    assert_eq!((asked.kind(), asked.fields()), (again.kind(), again.fields()));
    assert_eq!(asked.repositories(), again.repositories());

    let sent: Value = serde_json::from_slice(&sent).expect("what is sent is JSON");
    let words = words(sent["query"].as_str().expect("a document"));
    let (operations, fragments) = definitions(&words);
    assert_eq!(operations.len(), 1, "one operation is sent: {words:?}");
    let (kind, selection) = operations[0];
    assert_eq!(kind, asked.kind());
    let mut fields = BTreeSet::new();
    collect(selection, &fragments, &mut BTreeSet::new(), &mut fields);
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), asked.fields(), "{words:?}");
}

/// The words between blanks; a string is one word.
fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            None => rest.find(' ').unwrap_or(rest.len()),
            Some(inner) => {
                let mut escaped = false;
                let close = inner.bytes().position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                close.expect("the end of a string") + 2
            }
        };
        found.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(' ');
    }
    found
}

/// What stands between the bracket here and its end, and what follows.
fn bracketed<'a, 'b>(words: &'a [&'b str]) -> (&'a [&'b str], &'a [&'b str]) {
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&words[1..at], &words[at + 1..]);
        }
    }
    panic!("a bracket that does not end: {words:?}");
}

type Operations<'a, 'b> = Vec<(&'b str, &'a [&'b str])>;
type Fragments<'a, 'b> = BTreeMap<&'b str, &'a [&'b str]>;

fn definitions<'a, 'b>(words: &'a [&'b str]) -> (Operations<'a, 'b>, Fragments<'a, 'b>) {
    let (mut operations, mut fragments) = (Vec::new(), BTreeMap::new());
    let mut rest = words;
    while let Some((first, _)) = rest.split_first() {
        let head = rest;
        // Arguments of variables and directives stand before the selection.
        while rest[0] != "{" {
            rest = if rest[0] == "(" { bracketed(rest).1 } else { &rest[1..] };
        }
        let (selection, after) = bracketed(rest);
        match *first {
            "fragment" => drop(fragments.insert(head[1], selection)),
            "{" => operations.push(("query", selection)),
            kind => operations.push((kind, selection)),
        }
        rest = after;
    }
    (operations, fragments)
}

fn collect<'a, 'b>(
    selection: &'a [&'b str],
    fragments: &Fragments<'a, 'b>,
    seen: &mut BTreeSet<&'b str>,
    fields: &mut BTreeSet<&'b str>,
) {
    let mut rest = selection;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match *first {
            "..." if !matches!(rest.first(), Some(&"on" | &"@" | &"{")) => {
                let name = rest[0];
                rest = &rest[1..];
                if seen.insert(name) {
                    collect(fragments[name], fragments, seen, fields);
                }
            }
            "..." => {
                while rest[0] != "{" {
                    rest = if rest[0] == "(" { bracketed(rest).1 } else { &rest[1..] };
                }
                let (inner, after) = bracketed(rest);
                collect(inner, fragments, seen, fields);
                rest = after;
            }
            // A directive of what stood before.
            "@" => rest = &rest[1..],
            "(" => {
                // One before the word that was taken: its arguments.
                rest = bracketed(&selection[selection.len() - rest.len() - 1..]).1;
            }
            "{" => rest = bracketed(&selection[selection.len() - rest.len() - 1..]).1,
            // An alias.
            _ if rest.first() == Some(&":") => {
                fields.insert(rest[1]);
                rest = &rest[2..];
            }
            field => drop(fields.insert(field)),
        }
    }
}

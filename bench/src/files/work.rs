//! What is compared: the same work for each server.

use std::path::Path;

use serde_json::{Value, json};

use crate::AT_ONCE;

/// The same work of both: a tool and its input, by the number of the call.
pub struct Work {
    pub name: &'static str,
    pub rounds: usize,
    pub ours: fn(&Path, usize) -> (&'static str, Value),
    pub theirs: fn(&Path, usize) -> (&'static str, Value),
}

pub fn at(root: &Path, name: &str) -> String {
    root.join(name).display().to_string()
}

pub const ALL: &[Work] = &[
    Work {
        name: "read 1 KiB",
        rounds: 1000,
        ours: |root, _| ("read_file", json!({"path": at(root, "small/1k.txt")})),
        theirs: |root, _| ("read_text_file", json!({"path": at(root, "small/1k.txt")})),
    },
    Work {
        name: "read 512 KiB",
        rounds: 100,
        ours: |root, _| ("read_file", json!({"path": at(root, "small/512k.txt")})),
        theirs: |root, _| ("read_text_file", json!({"path": at(root, "small/512k.txt")})),
    },
    Work {
        name: "edit a line of 1 KiB",
        rounds: 300,
        ours: |root, call| {
            let (old, new) = words(call);
            let path = at(root, &format!("small/ours{}.txt", call % AT_ONCE));
            ("edit_file", json!({"path": path, "old_text": old, "new_text": new}))
        },
        theirs: |root, call| {
            let (old, new) = words(call);
            let path = at(root, &format!("small/theirs{}.txt", call % AT_ONCE));
            ("edit_file", json!({"path": path, "edits": [{"oldText": old, "newText": new}]}))
        },
    },
    Work {
        name: "list 100 files with sizes",
        rounds: 300,
        ours: |root, _| ("list_directory", json!({"path": at(root, "tree/pkg000/mod0")})),
        theirs: |root, _| {
            ("list_directory_with_sizes", json!({"path": at(root, "tree/pkg000/mod0")}))
        },
    },
    Work {
        name: "find names like *77.md in 100,000 files",
        rounds: 7,
        ours: |root, _| {
            let path = at(root, "tree");
            let input =
                json!({"pattern": "*77.md", "by": "name", "path": path, "max_results": 10_000});
            ("search_files", input)
        },
        theirs: |root, _| {
            ("search_files", json!({"pattern": "**/*77.md", "path": at(root, "tree")}))
        },
    },
];

/// What is there, and what is to be there: each file in turn from one to the other.
fn words(call: usize) -> (&'static str, &'static str) {
    if (call / AT_ONCE).is_multiple_of(2) { ("alpha", "bravo") } else { ("bravo", "alpha") }
}

/// Searches of the broker's and of ripgrep's.
pub const SEARCHES: &[(&str, &[&str], &str)] = &[
    (
        "a text, few results",
        &["-n", "--column", "--no-heading", "-F", "needle_in_haystack", "."],
        r#"{"pattern":"needle_in_haystack","type":"literal","max_results":10000}"#,
    ),
    (
        "a regular expression",
        &["-n", "--column", "--no-heading", r"needle_\w+_hay[a-z]+", "."],
        r#"{"pattern":"needle_\\w+_hay[a-z]+","max_results":10000}"#,
    ),
    ("no match", &["zzzzqqqq", "."], r#"{"pattern":"zzzzqqqq"}"#),
    (
        "names, about a thousand results",
        &["--files", "-g", "*7.md", "."],
        r#"{"pattern":"*7.md","by":"name","max_results":10000}"#,
    ),
];

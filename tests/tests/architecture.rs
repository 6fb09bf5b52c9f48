//! The shape of the code, held by a test: floors, sizes, and documents that
//! name what exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tool_broker_tests::project;

/// The floors of the server, from the top. A module uses only those below.
const FLOORS: [&[&str]; 7] = [
    &["main", "cli", "app"],
    &["listen"],
    &["agent"],
    &["broker"],
    &["exec", "gate", "audit", "metrics", "catalog", "links", "log", "host"],
    &["registry", "config", "shown"],
    &["os"],
];

/// No file is longer, its unit tests not counted.
const LONGEST: usize = 600;

/// Above this it is named, so that somebody looks at it.
const LONG: usize = 400;

fn floor(module: &str) -> usize {
    FLOORS
        .iter()
        .position(|names| names.contains(&module))
        .unwrap_or_else(|| panic!("{module} is on no floor: put it into FLOORS"))
}

/// Every file with this ending beneath a directory, build output left out.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()))
        {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code of a file before its unit tests, without comments.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The top modules that a text names as `crate::NAME`, in `use` lines, groups
/// and paths alike.
fn used(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut word, mut fresh) = (0, String::new(), true);
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => fresh = true,
                    c if fresh && (c.is_alphanumeric() || c == '_') => word.push(c),
                    c if c.is_whitespace() => {}
                    _ => fresh = false,
                }
                if !fresh && !word.is_empty() || c == ',' && depth == 0 && !word.is_empty() {
                    names.insert(std::mem::take(&mut word));
                }
            }
            if !word.is_empty() {
                names.insert(word);
            }
        } else {
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // A macro or a type of the crate's root is no module.
            if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                names.insert(name);
            }
        }
    }
    names
}

/// The top modules that a file reaches by as many `super::` as lead to the root.
fn by_super(code: &str, relative: &Path) -> BTreeSet<String> {
    let parts = relative.iter().count();
    let is_module_file = relative.file_name().is_some_and(|name| name == "mod.rs");
    let depth = if is_module_file { parts - 1 } else { parts };
    let chain = "super::".repeat(depth);
    let name = |(at, _): (usize, &str)| {
        let rest = &code[at + chain.len()..];
        let longer = code[..at].ends_with("super::");
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!longer && name != "super" && name.starts_with(|c: char| c.is_ascii_lowercase()))
            .then_some(name)
    };
    code.match_indices(&chain).filter_map(name).collect()
}

#[test]
fn the_reader_of_use_lines_reads_them() {
    let text = "use crate::os::root;\nuse crate::{broker::{a, b}, exec, config::Config};\n\
                fn f() { crate::policy::decide() } // crate::main\n\
                #[cfg(test)]\nmod tests { use crate::cli; }\n";
    let wanted: BTreeSet<String> =
        ["broker", "config", "exec", "os", "policy"].map(String::from).into();
    assert_eq!(used(&code(text)), wanted);
    let nested = "use crate::{\n    os::{\n        root, mark\n    },\n    registry,\n};";
    assert_eq!(used(nested), ["os", "registry"].map(String::from).into());
    let up = "use super::super::exec::run;\nuse super::plan;\n";
    assert_eq!(by_super(up, Path::new("broker/call.rs")), [String::from("exec")].into());
    assert_eq!(by_super(up, Path::new("broker/mod.rs")), [String::from("plan")].into());
}

#[test]
fn a_module_of_the_server_uses_only_floors_below_its_own() {
    let src = project().join("server/src");
    let sources = files(&src, ".rs");
    assert!(sources.len() > 10, "only {} files in server/src", sources.len());
    let (mut wrong, mut arrows) = (Vec::new(), 0);
    for path in &sources {
        let relative = path.strip_prefix(&src).expect("beneath");
        let first = relative.iter().next().expect("a component").to_string_lossy();
        let module = first.trim_end_matches(".rs");
        let text = code(&read(path));
        for name in used(&text).into_iter().chain(by_super(&text, relative)) {
            if name == module {
                continue;
            }
            arrows += 1;
            if floor(&name) <= floor(module)
                && !(module == "main" || floor(module) == 0 && floor(&name) == 0)
            {
                wrong.push(format!("{}: {module} uses {name}", relative.display()));
            }
        }
    }
    assert!(arrows > 10, "only {arrows} arrows found: does the reader still read?");
    assert!(wrong.is_empty(), "arrows up or sideways:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_is_only_where_it_is_allowed() {
    let src = project().join("server/src");
    let mut wrong = Vec::new();
    for path in files(&src, ".rs") {
        let text = code(&read(&path));
        let is_os = path.strip_prefix(&src).expect("beneath").starts_with("os");
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        if !is_os && words.any(|word| word == "unsafe") {
            wrong.push(path.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "unsafe outside os:\n{}", wrong.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files(&project(), ".rs") {
        seen += 1;
        let text = read(&path);
        let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
        let lines = text[..end].lines().count();
        if lines > LONGEST {
            wrong.push(format!("{} has {lines} lines", path.display()));
        } else if lines > LONG {
            println!("long: {} has {lines} lines", path.display());
        }
    }
    assert!(seen > 20, "only {seen} files");
    assert!(wrong.is_empty(), "longer than {LONGEST} lines:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let wrong: Vec<String> = files(&project(), ".rs")
        .iter()
        .filter(|path| !read(path).trim_start_matches("#!/usr/bin/env cargo\n").starts_with("//!"))
        .map(|path| path.display().to_string())
        .collect();
    assert!(wrong.is_empty(), "without a first line `//! …`:\n{}", wrong.join("\n"));
}

/// The codes as the protocol crate lists them, with their exit status and
/// whether trying again helps.
fn codes() -> Vec<(String, String, bool)> {
    let text = read(&project().join("protocol/wire/src/code.rs"));
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let Some((name, rest)) = line.split_once(" = \"") else { continue };
        let Some((code, rest)) = rest.split_once("\", ") else { continue };
        let parts: Vec<&str> = rest.trim_end_matches(';').split(", ").collect();
        if let [exit, retry] = parts[..]
            && name.chars().all(char::is_alphanumeric)
        {
            found.push((code.to_owned(), exit.to_owned(), retry == "true"));
        }
    }
    found
}

#[test]
fn every_code_is_in_the_document_with_its_exit_status() {
    let doc = read(&project().join("docs/protocol.md"));
    let codes = codes();
    assert!(codes.len() > 20, "only {} codes found", codes.len());
    for (code, exit, retry) in &codes {
        let row = format!("| `{code}` | {exit} | {} |", if *retry { "yes" } else { "no" });
        assert!(doc.contains(&row), "docs/protocol.md has no row {row}");
    }
    // And none that does not exist.
    let rows = doc.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4);
    for row in rows.filter(|row| row.ends_with("| yes |") || row.ends_with("| no |")) {
        let name = row.trim_start_matches("| `").split('`').next().expect("a name");
        assert!(codes.iter().any(|(code, _, _)| code == name), "no such code: {row}");
    }
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut tests = BTreeSet::new();
    for path in files(&project(), ".rs") {
        let text = read(&path);
        for (at, _) in text.match_indices("fn ") {
            let name: String =
                text[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            tests.insert(name);
        }
    }
    assert!(tests.contains("every_test_that_a_document_names_exists"));
    // The cases of tests/deploy are functions of the shell.
    for path in files(&project().join("tests/deploy"), ".sh") {
        let text = read(&path);
        let named = text.lines().filter_map(|line| line.strip_suffix("() {"));
        tests.extend(named.map(str::to_owned));
    }
    assert!(tests.contains("stopping_leaves_nothing"));
    let mut documents = files(&project().join("docs"), ".md");
    documents.extend(
        ["README.md", "SECURITY.md"]
            .map(|name| project().join(name))
            .into_iter()
            .filter(|p| p.exists()),
    );
    assert!(!documents.is_empty());
    let (mut wrong, mut in_lists) = (Vec::new(), 0);
    for path in documents {
        let text = read(&path);
        for name in named_tests(&text, "(test:").chain(named_tests(&text, "(tests:")) {
            if !tests.contains(name) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
        in_lists += named_tests(&text, "(tests:").count();
    }
    assert!(in_lists > 10, "only {in_lists} tests in lists: does the reader still read?");
    assert!(wrong.is_empty(), "named, but there is no such test:\n{}", wrong.join("\n"));
}

/// The tests that a document names as `(test: a)` or `(tests: a, b)`, without
/// the modules that they are in; a list may be several lines long.
fn named_tests<'a>(text: &'a str, opening: &'a str) -> impl Iterator<Item = &'a str> {
    let lists = text.match_indices(opening).map(move |(at, _)| &text[at + opening.len()..]);
    let names = lists.flat_map(|rest| rest.split(')').next().expect("an end").split(','));
    names.map(|name| name.trim().trim_matches('`').rsplit("::").next().expect("a name"))
}

#[test]
fn the_reader_of_test_names_reads_them() {
    let text = "x (test: `one`) y (tests: `two`,\n  `some::three`) z (tested: no)";
    assert_eq!(named_tests(text, "(test:").collect::<Vec<_>>(), ["one"]);
    assert_eq!(named_tests(text, "(tests:").collect::<Vec<_>>(), ["two", "three"]);
}

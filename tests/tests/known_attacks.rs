//! docs/known-attacks.md names, for each attack, what shows that it is stopped; and
//! all of that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tool_broker_tests::attacks::Table;
use tool_broker_tests::project;

/// Every function that a Rust file defines.
fn functions(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            functions(&path, found);
        } else if name.ends_with(".rs") {
            tests(&fs::read_to_string(&path).expect("a source"), found);
        }
    }
}

/// Those of a text that are tests.
fn tests(text: &str, found: &mut BTreeSet<String>) {
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        // proptest's macro marks its own the same way.
        marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some(name) = name.filter(|_| marked) {
            found.insert(name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
            marked = false;
        }
    }
}

/// The rows of every table.
fn rows() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(project().join("tests/attacks")).expect("tables").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".toml") else { continue };
        let groups = Table::of(name).group;
        for row in groups.iter().flat_map(|group| &group.rows) {
            assert!(found.insert(row.id().to_owned()), "{name}: {} is there twice", row.id());
        }
    }
    found
}

/// The measures that `weakened.rs` takes away.
fn measures() -> BTreeSet<String> {
    let source = fs::read_to_string(project().join("tests/tests/weakened.rs")).expect("it");
    let name =
        |line: &str| Some(line.trim().strip_prefix("name: \"")?.split_once('"')?.0.to_owned());
    source.lines().filter_map(name).collect()
}

/// What is between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What is wrong with a page.
fn wrong(page: &str, tests: &BTreeSet<String>, rows: &BTreeSet<String>) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    for line in lines.filter(|line| !line.starts_with("| attack |")) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").collect();
        let [attack, stops, shown] = cells[..] else {
            wrong.push(format!("not three cells: {line}"));
            continue;
        };
        count += 1;
        let named = quoted(shown);
        if stops.trim().is_empty() || !named.iter().any(|name| tests.contains(*name)) {
            wrong.push(format!("without a measure or a test: {attack}"));
        }
        for name in named.iter().filter(|name| !tests.contains(**name) && !rows.contains(**name)) {
            wrong.push(format!("no such test or row: {name} ({attack})"));
        }
    }
    (count, wrong)
}

#[test]
fn every_known_attack_has_a_test_that_exists() {
    let mut tests = BTreeSet::new();
    functions(&project(), &mut tests);
    assert!(tests.contains("every_known_attack_has_a_test_that_exists"));
    let page = fs::read_to_string(project().join("docs/known-attacks.md")).expect("the page");
    let measures = measures();
    assert!(measures.contains("gate-links"), "{measures:?}");
    let known = rows().union(&measures).cloned().collect();
    let (count, wrong) = wrong(&page, &tests, &known);
    assert!(count > 80, "only {count} attacks: does the reader still read?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_the_page_reads_it() {
    let [tests, rows] =
        [["a_test"], ["a-row"]].map(|names| names.map(str::to_owned).into_iter().collect());
    let row = |shown: &str| format!("| attack | what |\n| --- | --- |\n| x `y` | z | {shown} |\n");
    assert_eq!(wrong(&row("`a-row` of `a_test`"), &tests, &rows), (1, Vec::new()));
    assert_eq!(wrong(&row("`a-row` alone"), &tests, &rows).1.len(), 1);
    assert_eq!(wrong(&row("`a_test`, `b-row`"), &tests, &rows).1.len(), 1);
    assert_eq!(wrong(&row("`a_test` | more"), &tests, &rows).1.len(), 1);
}

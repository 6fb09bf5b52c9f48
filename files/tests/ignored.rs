//! What .gitignore leaves out: as git has it, and as ripgrep has it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; not each uses all that they share"
)]

mod common;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use common::{Dice, files, roots, write};
use serde_json::json;

const NAMES: &[&str] = &[
    "a",
    "b",
    "ab",
    "build",
    "src",
    "a.o",
    "b.o",
    "x.rs",
    "foo",
    "foo bar",
    "bar",
    "[x]",
    "{a,b}",
    "a{b",
    "é",
    "-",
    "!a",
    "#a",
    ".hid",
    "a b ",
    "ab]",
    "z\\y",
    "A",
    "1",
    "a-b",
    "node_modules",
    "x.tar.gz",
    "^",
    "é.o",
    "a\tb",
    "*",
    "q?",
];
const DIRECTORIES: &[&str] = &[
    "a",
    "b",
    "src",
    "build",
    "foo",
    "bar",
    "node_modules",
    ".hid",
    "é",
    "A",
    "[x]",
    "foo bar",
    "1",
];
const LINES: &[&str] = &[
    "*.o",
    "!a.o",
    "/build",
    "build/",
    "a",
    "/a",
    "a/",
    "!a",
    "foo/*",
    "foo/**",
    "**/foo",
    "**/foo/bar",
    "a/**/b",
    "src/*.rs",
    "!src/x.rs",
    "*",
    "!*/",
    "!*.rs",
    "/*",
    "!/src",
    "[ab]",
    "[!ab]",
    "[^a]",
    "[a-c].o",
    "[]x]*",
    "[[:alpha:]]",
    "[[:digit:]]",
    "[[:upper:][:digit:]]",
    "\\!a",
    "\\#a",
    "# comment",
    "",
    "foo\\ bar",
    "foo bar",
    "a b\\ ",
    "a b ",
    "foo   ",
    "{a,b}",
    "a{b",
    "[x]",
    "\\[x\\]",
    "??",
    "é",
    "?",
    "[é]",
    "*.tar.*",
    "**",
    "a**b",
    "a**",
    "**b",
    "/**",
    "/**/b",
    "a/b",
    "./a",
    "a//b",
    "/",
    "//",
    "!",
    "!!a",
    "\\",
    "foo\\",
    "[",
    "[a",
    "[a-",
    "ab]",
    "[]]",
    "[]-]",
    "[!]",
    "[!!]",
    "[\\^]",
    "[^]",
    "z\\\\y",
    "\\a",
    ".*",
    "!.hid",
    ".hid",
    "foo/",
    "foo/bar/",
    "*/b",
    "*/*",
    "*/",
    "**/",
    "**/*",
    "a/**/",
    "node_modules",
    "-",
    "[-]",
    "[a-]",
    "[--1]",
    "[!-a]*",
    "A",
    "a-b",
    "a[-]b",
    "a[/]b",
    "a?b",
    "b\r",
    "a\t",
    "a*b",
    "***",
    "a/***/b",
    "a/**b",
    "\\*",
    "\\?",
    "q\\?",
    "q[?]",
    "[*]",
    "*\\*",
    "[[:foo:]]",
    "[[:alpha]",
    "[[.a.]]",
    "[a-a]",
    "[b-a]",
    "[/]",
    "[!/]",
    "x.rs/",
    "!foo/bar",
    "!foo/",
    "!b",
    "a.o/..",
    "..",
    ".",
    "src/**/",
    "[\\]]",
    "[\\a-\\c]",
    "[Aa]/b",
];

fn grow(dice: &mut Dice, directory: &Path, depth: usize, ignore: bool) {
    std::fs::create_dir_all(directory).unwrap();
    for _ in 0..dice.below(8) {
        let path = directory.join(dice.of(NAMES));
        if !path.exists() {
            write(path, "x");
        }
    }
    if dice.below(2) == 0 {
        rules(dice, &directory.join(".gitignore"));
    }
    if ignore && dice.below(3) == 0 {
        rules(dice, &directory.join(".ignore"));
    }
    if depth > 0 {
        for _ in 0..dice.below(4) {
            let path = directory.join(dice.of(DIRECTORIES));
            if !path.is_file() {
                grow(dice, &path, depth - 1, ignore);
            }
        }
    }
}

fn rules(dice: &mut Dice, path: &Path) {
    let mut text = String::new();
    if dice.below(8) == 0 {
        text.push('\u{feff}');
    }
    for _ in 0..=dice.below(5) {
        text.push_str(dice.of::<&str>(LINES));
        text.push_str(if dice.below(10) == 0 { "\r\n" } else { "\n" });
    }
    write(path, text);
}

fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git: {}", output.stderr.escape_ascii());
    output.stdout
}

fn names(bytes: &[u8]) -> Vec<String> {
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> =
        names.map(|name| std::str::from_utf8(name).unwrap().to_owned()).collect();
    names.sort();
    names
}

fn dump(directory: &Path) -> String {
    let mut text = String::new();
    for file in walk(directory) {
        let name = file.file_name().unwrap().as_bytes();
        if name.ends_with(b"ignore") || name == b"exclude" {
            text += &format!("{}: {:?}\n", file.display(), std::fs::read_to_string(&file).unwrap());
        }
    }
    text
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(walk(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn gitignore_leaves_out_what_git_does() {
    let mut shown = 0;
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        git(at, &["init", "-q", "."]);
        grow(&mut dice, at, 3, false);
        if dice.below(2) == 0 {
            rules(&mut dice, &at.join(".git/info/exclude"));
        }
        let expected = names(&git(at, &["ls-files", "-coz", "--exclude-standard"]));
        let mut found = files(&roots(at), json!({"hidden": true}));
        found.sort();
        shown += found.len();
        assert_eq!(found, expected, "seed {seed}\n{}", dump(at));
    }
    assert!(shown > 200, "the trees are too empty: {shown}");
}

#[test]
fn below_the_root_what_is_above_counts() {
    for seed in 1000..1030 {
        let mut dice = Dice(seed);
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        git(at, &["init", "-q", "."]);
        grow(&mut dice, at, 3, false);
        let whole = names(&git(at, &["ls-files", "-coz", "--exclude-standard"]));
        for start in DIRECTORIES.iter().filter(|name| at.join(name).is_dir()) {
            // A directory that is left out itself is searched where it is named.
            if git(at, &["ls-files", "-oiz", "--directory", "--exclude-standard"])
                .split(|byte| *byte == 0)
                .any(|name| name == format!("{start}/").as_bytes())
            {
                continue;
            }
            let expected: Vec<_> = whole
                .iter()
                .filter(|name| name.starts_with(&format!("{start}/")))
                .cloned()
                .collect();
            let mut found = files(&roots(at), json!({"hidden": true, "path": start}));
            found.sort();
            assert_eq!(found, expected, "seed {seed}, in {start}\n{}", dump(at));
        }
    }
}

/// Where ripgrep is installed: also .ignore, and repositories in repositories.
#[test]
fn ignore_files_leave_out_what_ripgrep_does() {
    if Command::new("rg").arg("--version").output().is_err() {
        return;
    }
    const SIMPLE: &[&str] = &[
        "*.o",
        "!a.o",
        "/build",
        "build/",
        "a",
        "!a",
        "foo/*",
        "**/foo",
        "a/**/b",
        "!*.rs",
        "/*",
        "!/src",
        "[ab]",
        "foo bar",
        "*/b",
        "node_modules",
        "!.hid",
        ".hid",
        "!foo/",
        "*.rs",
        "!b",
    ];
    for seed in 2000..2040 {
        let mut dice = Dice(seed);
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        grow(&mut dice, at, 3, false);
        for file in walk(at) {
            if file.ends_with(".gitignore") {
                std::fs::remove_file(file).unwrap();
            }
        }
        let mut parents: Vec<_> =
            walk(at).iter().map(|file| file.parent().unwrap().to_owned()).collect();
        parents.push(at.to_owned());
        parents.sort();
        parents.dedup();
        for parent in parents {
            for name in [".gitignore", ".ignore", ".git/info/exclude"] {
                if dice.below(4) == 0 {
                    let lines: Vec<_> = (0..=dice.below(3)).map(|_| *dice.of(SIMPLE)).collect();
                    write(parent.join(name), lines.join("\n"));
                }
            }
        }
        let arguments = [
            "--no-config",
            "--files",
            "--hidden",
            "-0",
            "--no-require-git",
            "--no-ignore-global",
            "-g",
            "!.git",
        ];
        let output = Command::new("rg").args(arguments).current_dir(at).output().unwrap();
        let expected = names(&output.stdout);
        let mut found = files(&roots(at), json!({"hidden": true}));
        found.sort();
        assert_eq!(found, expected, "seed {seed}\n{}", dump(at));
    }
}

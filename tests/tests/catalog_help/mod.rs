//! What the tests of the catalog share: the verb, and definitions that lie elsewhere.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tool_broker_tests::{Outcome, Setup, project, run};

pub const GOOD: &str =
    "description = \"a tool of a test\"\nbinary = \"/bin/echo\"\ndefault = \"allow\"\n";

/// `tool-server catalog WORDS…` with the project's catalog.
pub fn verb(setup: &Setup, words: &[&str]) -> Command {
    let mut command = setup.verb(&[&["catalog"], words].concat());
    command.env("TOOL_CATALOG", project().join("catalog"));
    command
}

pub fn catalog(setup: &Setup, words: &[&str]) -> Outcome {
    run(&mut verb(setup, words), b"")
}

/// What is in tools.d, hidden names too.
pub fn names(setup: &Setup) -> Vec<String> {
    let entries = fs::read_dir(setup.path("tools.d")).expect("tools.d");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

pub fn installed(setup: &Setup, name: &str, file: &str) -> PathBuf {
    setup.path("tools.d").join(name).join(file)
}

/// The state that `list` tells of a name.
pub fn state(setup: &Setup, name: &str) -> String {
    let said: Value =
        serde_json::from_str(&catalog(setup, &["list", "--json"]).success()).expect("JSON");
    let tools = said["tools"].as_array().expect("tools").clone();
    let found = tools.iter().find(|tool| tool["name"] == json!(name));
    found.map_or("nothing", |tool| tool["state"].as_str().expect("a state")).to_owned()
}

/// A copy of the catalog and of what ships, to be changed.
pub fn copied(setup: &Setup) -> PathBuf {
    for name in ["catalog", "tools.d"] {
        let to = setup.path("copy").join(name);
        fs::create_dir_all(to.parent().expect("a parent")).expect("mkdir");
        let done =
            Command::new("cp").arg("-r").arg(project().join(name)).arg(&to).status().expect("cp");
        assert!(done.success());
    }
    setup.path("copy/catalog")
}

/// A folder with a definition, somewhere else.
pub fn folder(setup: &Setup, name: &str, files: &[(&str, &str)]) -> PathBuf {
    for (file, text) in files {
        setup.file(format!("{name}/{file}"), text, 0o644);
    }
    setup.path(name)
}

/// A repository with one commit of what is in it.
pub fn repository(setup: &Setup, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = folder(setup, name, files);
    git(&path, &["init", "--quiet", "--initial-branch=main", "."]);
    commit(&path);
    path
}

pub fn commit(path: &Path) -> String {
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--allow-empty", "-m", "a commit"]);
    git(path, &["rev-parse", "HEAD"]).trim_end().to_owned()
}

pub fn git(path: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(path).env("HOME", path).env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.args([
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.com",
        "-c",
        "core.hooksPath=/dev/null",
    ]);
    run(git.args(["-c", "protocol.file.allow=always"]).args(words), b"").success()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

//! What is left of a directory: its files, and of each repository in it the refs,
//! HEAD, status and configuration, as git itself tells.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// By what it is: `refs`, `head`, `status`, `config`, `files`, `remote`.
pub type State = BTreeMap<&'static str, Vec<String>>;

/// All of a directory.
pub fn of(dir: &Path, git: &Path) -> State {
    let (mut files, mut repositories) = (Vec::new(), Vec::new());
    walk(dir, dir, &mut files, &mut repositories);
    files.sort();
    repositories.sort();
    let mut state = State::from([("files", files)]);
    for repository in repositories {
        let bare = repository.extension().is_some_and(|ending| ending == "git");
        let mut add = |what: &'static str, words: &[&str]| {
            let mut command = Command::new(git);
            command.env_clear().env("HOME", "/nonexistent").current_dir(&repository);
            let name = repository.strip_prefix(dir).expect("beneath").display().to_string();
            let outcome = run(command.args(["-c", "safe.directory=*"]).args(words), b"");
            state.entry(what).or_default().push(format!("{name}: {}", outcome.out()));
        };
        add(if bare { "remote" } else { "refs" }, &["for-each-ref"]);
        add("config", &["config", "--local", "--list"]);
        if !bare {
            add("head", &["rev-parse", "--symbolic-full-name", "HEAD", "HEAD~0"]);
            add("status", &["status", "--porcelain=v2", "--untracked-files=all"]);
        }
    }
    state
}

fn walk(root: &Path, dir: &Path, files: &mut Vec<String>, repositories: &mut Vec<PathBuf>) {
    if dir.join(".git").exists() || dir.extension().is_some_and(|ending| ending == "git") {
        repositories.push(dir.to_path_buf());
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let (path, meta) = (entry.path(), fs::symlink_metadata(entry.path()).expect("metadata"));
        let hidden = path.file_name().is_some_and(|name| name == ".git");
        let bare = path.extension().is_some_and(|ending| ending == "git");
        let name = path.strip_prefix(root).expect("beneath").display().to_string();
        let content = match () {
            () if hidden => continue,
            () if meta.is_dir() => String::new(),
            () if meta.is_symlink() => fs::read_link(&path).expect("a link").display().to_string(),
            () => fs::read(&path).expect("a file").escape_ascii().to_string(),
        };
        files.push(format!("{name} {:o} {content}", meta.mode()));
        if meta.is_dir() && bare {
            repositories.push(path);
        } else if meta.is_dir() {
            walk(root, &path, files, repositories);
        }
    }
}

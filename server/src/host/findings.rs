//! What is wrong with an installation, and with a running server: for `doctor`.
//!
//! Owns: which facts are findings, why they matter, what to do. Must not: change
//! anything, or show what is in a file.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use super::keys;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ok,
    /// Worth knowing.
    Note,
    /// It does not work, or does not hold.
    Wrong,
}

/// One line: what, why it matters, what to do.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Wrong => "wrong",
        };
        write!(formatter, "{level:<5} {}", self.text)
    }
}

fn ok(text: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, text: text.into() }
}

fn note(what: &str, why: &str, todo: &str) -> Finding {
    Finding { level: Level::Note, text: format!("{what}: {why}; {todo}") }
}

fn wrong(what: &str, why: &str, todo: &str) -> Finding {
    Finding { level: Level::Wrong, text: format!("{what}: {why}; {todo}") }
}

/// Looks at CLAUDE_HOME, as its owner.
pub(crate) fn home(home: &Path, uid: u32) -> Vec<Finding> {
    let mut found = Vec::new();
    let installed = home.join("tools/tools.d").is_dir();
    if !installed {
        let what = format!("{} is not installed", home.display());
        return vec![wrong(&what, "nothing runs without it", "run: claude-container install")];
    }
    let path = |name: &str| home.join(name);
    private(home, &mut found);
    private(&path("state"), &mut found);
    private(&path("config/secrets"), &mut found);
    env_file(&path(".env"), uid, &mut found);
    secrets(&path("config/secrets"), &mut found);
    definitions(&path("tools/tools.d"), uid, &mut found);
    definitions(&path("tools/restricted"), uid, &mut found);
    links(&path("tools/bin"), &mut found);
    if !path("config/server/gitconfig").is_file() {
        found.push(note(
            "nobody's name for commits",
            "git asks who you are at the first commit",
            "set user.name and user.email with git config --global, and run claude-container install",
        ));
    }
    if found.iter().all(|one| one.level < Level::Wrong) {
        found.insert(0, ok(format!("{}: installed, modes and owners are right", home.display())));
    }
    found
}

/// A directory or file that its owner alone may enter.
fn private(path: &Path, found: &mut Vec<Finding>) {
    let Ok(about) = fs::metadata(path) else {
        let what = format!("{} is missing", path.display());
        found.push(wrong(&what, "it belongs to the installation", "run: claude-container install"));
        return;
    };
    if about.mode() & 0o077 != 0 {
        let what = format!("{} has mode {:04o}", path.display(), about.mode() & 0o7777);
        let todo = format!("run: chmod go= {}", quoted(path));
        found.push(wrong(&what, "others on this machine can reach what is secret there", &todo));
    }
}

fn env_file(path: &Path, uid: u32, found: &mut Vec<Finding>) {
    let Ok(about) = fs::symlink_metadata(path) else {
        found.push(note(
            &format!("{} is missing", path.display()),
            "no key is given to the agent, no token to a tool",
            "without one the agent asks you to log in, and tools reach what is public",
        ));
        return;
    };
    if about.is_file() {
        private(path, found);
    }
    if about.is_file() && about.uid() != uid {
        let what = format!("{} belongs to uid {}", path.display(), about.uid());
        let todo = format!("run: chown {uid} {}", quoted(path));
        found.push(wrong(&what, "its owner decides which keys are used", &todo));
    }
    if let Err(error) = keys::read(path) {
        found.push(wrong(&error.to_string(), "no key of it is used", "correct the line"));
    }
}

fn secrets(path: &Path, found: &mut Vec<Finding>) {
    for (path, about) in entries(path) {
        if !about.is_file() {
            let what = format!("{} is no file", path.display());
            found.push(wrong(&what, "a credential is read from a file", "remove it"));
            continue;
        }
        private(&path, found);
        if about.len() == 0 {
            let what = format!("{} is empty", path.display());
            found.push(wrong(
                &what,
                "calls that need it fail",
                "write the token into it, or remove it",
            ));
        }
    }
}

/// What decides about calls: nobody else may change it.
fn definitions(path: &Path, uid: u32, found: &mut Vec<Finding>) {
    let Ok(about) = fs::symlink_metadata(path) else { return };
    if about.is_symlink() {
        return;
    }
    let why = "who can change a definition decides what runs; the server refuses it";
    if about.mode() & 0o022 != 0 {
        let what = format!("{} has mode {:04o}", path.display(), about.mode() & 0o7777);
        found.push(wrong(&what, why, &format!("run: chmod go-w {}", quoted(path))));
    }
    if about.uid() != uid && about.uid() != 0 {
        let what = format!("{} belongs to uid {}", path.display(), about.uid());
        found.push(wrong(&what, why, &format!("run: chown {uid} {}", quoted(path))));
    }
    if about.is_dir() {
        for (path, _) in entries(path) {
            definitions(&path, uid, found);
        }
    }
}

/// What the agent has first on its PATH.
fn links(path: &Path, found: &mut Vec<Finding>) {
    let client = path.join("tool-client");
    if !client.is_file() {
        let what = format!("{} is missing", client.display());
        found.push(wrong(
            &what,
            "no tool can be called without it",
            "run: claude-container install",
        ));
    }
    for (path, about) in entries(path) {
        let leads = fs::read_link(&path).ok();
        let leads = leads.as_deref().and_then(Path::file_name);
        let own = path.file_name();
        if own == Some("tool-client".as_ref()) || leads == Some("tool-client".as_ref()) {
            continue;
        }
        let is = if about.is_symlink() { "leads elsewhere" } else { "is no link to tool-client" };
        let what = format!("{} {is}", path.display());
        let why = "the agent would run it itself, past the rules";
        found.push(wrong(&what, why, &format!("run: rm {}", quoted(&path))));
    }
}

fn entries(path: &Path) -> Vec<(std::path::PathBuf, Metadata)> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let about = fs::symlink_metadata(&path).ok()?;
            Some((path, about))
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

fn quoted(path: &Path) -> String {
    super::quoted(&path.display().to_string())
}

/// Looks at what a running server says of itself (`tool-server status --json`).
pub(crate) fn server(status: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    let text = |of: &Value, name: &str| -> String {
        of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let list = |of: &Value, name: &str| -> Vec<Value> {
        of.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let version = text(status, "version");
    if version.is_empty() {
        let why = "what it says is not understood";
        return vec![wrong("the server", why, "run: claude-container logs")];
    }
    found.push(ok(format!("server: tool-server {version} answers")));
    let held = status.get("confinement").cloned().unwrap_or(Value::Null);
    let level = text(&held, "level");
    match level.as_str() {
        "namespaces" => found.push(ok("confinement: namespaces, the strongest level")),
        "landlock" => found.push(note(
            "confinement: landlock, the level below namespaces",
            "a tool sees what other tools were called with, and their processes",
            "what is missing is in the next lines",
        )),
        _ => found.push(wrong(
            "confinement: none",
            "tools that are to be confined are refused",
            "what is missing is in the next lines",
        )),
    }
    for missing in list(&held, "missing") {
        let missing = missing.as_str().unwrap_or_default();
        found
            .push(Finding { level: Level::Note, text: format!("confinement: missing: {missing}") });
    }
    let tools = list(status, "tools");
    if tools.is_empty() {
        let why = "the agent can call nothing";
        found.push(wrong("no tool is in force", why, "run: claude-container tools check"));
    }
    for tool in &tools {
        let name = text(tool, "name");
        let todo =
            format!("write rules, or default = \"allow\", into tools/tools.d/{name}/tool.toml");
        match text(tool, "state").as_str() {
            "unrestricted" => {
                let why = "it has no rules: every call of the agent is allowed";
                found.push(wrong(&format!("{name} is unrestricted"), why, &todo));
            }
            "observe" => {
                let why = "what its rules refuse runs all the same";
                let todo = format!("remove mode = \"observe\" from tools/tools.d/{name}/tool.toml");
                found.push(wrong(&format!("{name} is only observed"), why, &todo));
            }
            "missing binary" => found.push(note(
                &format!("{name}: its program is not in the server's image"),
                "calls of it fail",
                "run: claude-container build, or claude-container tools remove it",
            )),
            _ => {}
        }
        if text(tool, "sandbox") == "sandbox: off" {
            let why = "it reaches whatever the server's user reaches";
            let todo =
                format!("remove mode = \"off\" from [sandbox] of tools/tools.d/{name}/tool.toml");
            found.push(wrong(&format!("{name} is not confined"), why, &todo));
        }
    }
    for problem in list(status, "problems") {
        let problem = problem.as_str().unwrap_or_default();
        let why = "this definition is not in force as it is written";
        found.push(wrong(problem, why, "correct it; run: claude-container tools check"));
    }
    found
}

#[cfg(test)]
mod tests;

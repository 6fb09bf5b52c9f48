//! Each finding is provoked.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::json;

use super::super::{Layout, lay};
use super::*;

struct Stand {
    dir: tempfile::TempDir,
}

impl Stand {
    /// An installation with nothing wrong.
    fn new() -> Stand {
        let dir = tempfile::tempdir().expect("a directory");
        lay(&Layout { home: dir.path(), instance: None }).expect("laid");
        let stand = Stand { dir };
        stand.put("tools/bin/tool-client", 0o755);
        stand.put("config/server/gitconfig", 0o644);
        stand.put(".env", 0o600);
        symlink("tool-client", stand.path("tools/bin/git")).expect("linked");
        fs::create_dir(stand.path("tools/tools.d/git")).expect("made");
        stand.put("tools/tools.d/git/tool.toml", 0o644);
        stand
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, mode: u32) {
        fs::write(self.path(name), "A=b").expect("written");
        self.mode(name, mode);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("set");
    }

    fn found(&self) -> Vec<Finding> {
        home(self.dir.path(), nix::unistd::getuid().as_raw())
    }

    /// The one thing that is wrong.
    #[track_caller]
    fn wrong(&self, with: &[&str]) {
        let found = self.found();
        let wrong: Vec<_> = found.iter().filter(|one| one.level == Level::Wrong).collect();
        let text = wrong.first().map(ToString::to_string).unwrap_or_default();
        assert_eq!(wrong.len(), 1, "{found:?}");
        assert!(with.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn nothing_is_wrong_with_a_fresh_installation() {
    let found = Stand::new().found();
    assert!(found.iter().all(|one| one.level == Level::Ok), "{found:?}");
}

#[test]
fn each_thing_that_is_wrong_with_an_installation_is_one_line() {
    let with = |change: &dyn Fn(&Stand), parts: &[&str]| {
        let stand = Stand::new();
        change(&stand);
        stand.wrong(parts);
    };
    with(&|s| s.mode(".env", 0o644), &[".env has mode 0644", "chmod go="]);
    with(&|s| s.mode("", 0o755), &["has mode 0755", "chmod go="]);
    with(&|s| fs::write(s.path(".env"), "x").expect("written"), &[".env:1: not NAME=VALUE"]);
    with(&|s| s.put("config/secrets/npm_token", 0o640), &["npm_token has mode 0640"]);
    with(&|s| s.mode("config/secrets", 0o750), &["secrets has mode 0750"]);
    with(&|s| fs::create_dir(s.path("config/secrets/x")).expect("made"), &["is no file"]);
    with(
        &|s| s.mode("tools/tools.d/git/tool.toml", 0o664),
        &["tool.toml has mode 0664", "chmod go-w"],
    );
    with(&|s| s.mode("tools/tools.d", 0o775), &["tools.d has mode 0775"]);
    with(
        &|s| s.put("tools/bin/gh", 0o755),
        &["bin/gh is no link to tool-client", "past the rules"],
    );
    with(
        &|s| symlink("/usr/bin/npm", s.path("tools/bin/npm")).expect("linked"),
        &["leads elsewhere"],
    );
    with(&|s| fs::remove_file(s.path("tools/bin/tool-client")).expect("removed"), &["is missing"]);
    with(&|s| fs::remove_dir_all(s.path("tools")).expect("removed"), &["is not installed"]);
    with(
        &|s| {
            s.put("config/secrets/npm_token", 0o600);
            fs::write(s.path("config/secrets/npm_token"), "").expect("written");
        },
        &["npm_token is empty"],
    );
}

#[test]
fn what_belongs_to_somebody_else_is_wrong() {
    let stand = Stand::new();
    let found = home(stand.dir.path(), nix::unistd::getuid().as_raw() + 1);
    let text = found.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains(".env belongs to uid"), "{text}");
}

#[test]
fn what_is_only_missing_is_a_note() {
    let stand = Stand::new();
    fs::remove_file(stand.path(".env")).expect("removed");
    fs::remove_file(stand.path("config/server/gitconfig")).expect("removed");
    let notes = stand.found().iter().filter(|one| one.level == Level::Note).count();
    assert_eq!(notes, 2);
}

fn status(tool: &Value, level: &str, missing: &[&str]) -> Value {
    json!({
        "version": "0.1.0",
        "confinement": { "level": level, "missing": missing },
        "tools": [tool],
        "problems": [],
    })
}

#[track_caller]
fn says(status: &Value, level: Level, part: &str) {
    let found = server(status);
    let matches = |one: &&Finding| one.level == level && one.to_string().contains(part);
    assert!(found.iter().any(|one| matches(&one)), "{part}: {found:?}");
}

#[test]
fn what_a_server_says_of_itself_is_judged() {
    let tool = |state: &str| json!({ "name": "git", "state": state, "sandbox": "confined" });
    let well = status(&tool("ok"), "namespaces", &[]);
    assert!(server(&well).iter().all(|one| one.level == Level::Ok), "{:?}", server(&well));
    let lower = status(&tool("ok"), "landlock", &["namespaces: unmask=/proc/*"]);
    says(&lower, Level::Note, "the level below namespaces");
    says(&lower, Level::Note, "missing: namespaces: unmask=/proc/*");
    says(&status(&tool("ok"), "none", &[]), Level::Wrong, "confinement: none");
    says(&status(&tool("unrestricted"), "namespaces", &[]), Level::Wrong, "git is unrestricted");
    says(&status(&tool("observe"), "namespaces", &[]), Level::Wrong, "only observed");
    says(
        &status(&tool("missing binary"), "namespaces", &[]),
        Level::Note,
        "claude-container build",
    );
    let off = json!({ "name": "git", "state": "ok", "sandbox": "sandbox: off" });
    says(&status(&off, "namespaces", &[]), Level::Wrong, "git is not confined");
    says(&json!({ "version": "1", "tools": [], "confinement": {} }), Level::Wrong, "no tool");
    says(&json!({}), Level::Wrong, "not understood");
    let mut bad = well;
    bad["problems"] = json!(["git: tool.toml:3: nonsense"]);
    says(&bad, Level::Wrong, "tool.toml:3: nonsense");
}

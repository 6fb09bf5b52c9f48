//! `tool-server host`: what claude-container asks on the host.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Outcome, run};

struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("project")).expect("made");
        Host { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// No settings, no server, none of the caller's environment.
    fn host(&self, words: &[&str], input: &[u8]) -> Outcome {
        let mut command = Command::new(&binaries().server);
        command.env_clear().current_dir(self.dir.path()).arg("host").args(words);
        run(&mut command, input)
    }

    fn ids(&self) -> String {
        let about = fs::metadata(self.path("project")).expect("there");
        format!("{}:{}", about.uid(), about.gid())
    }

    fn environment(&self, project: &str) -> Outcome {
        let (home, ids) = (self.path("home"), self.ids());
        let words = ["environment", "--project", project, "--home", home.to_str().expect("text")];
        let more = ["--engine", "podman", "--rootless", "true", "--caller", &ids];
        self.host(&[words.as_slice(), &more].concat(), b"")
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_project_has_one_id_by_all_its_names() {
    let host = Host::new();
    std::os::unix::fs::symlink(host.path("project"), host.path("link")).expect("linked");
    let id = host.host(&["instance", "project"], b"").success();
    assert!(id.starts_with("project-") && id.trim().len() == "project-".len() + 8, "{id}");
    assert_eq!(host.host(&["instance", "link"], b"").success(), id);
    assert_eq!(host.host(&["instance", "project/../project/"], b"").success(), id);
    let missing = host.host(&["instance", "none"], b"");
    assert_eq!(missing.code(), Some(1));
    assert!(missing.err().starts_with("claude-container: cannot find none"), "{missing:?}");
}

#[test]
fn a_shell_reads_the_environment_whatever_the_project_is_called() {
    let host = Host::new();
    let name = "it's \"my\" $HOME; `id`, ü";
    fs::create_dir(host.path(name)).expect("made");
    let said = host.environment(name).success();
    let script = format!("{said}printf %s \"$PROJECT_DIR\"");
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().args(["-euc", &script]);
    let real = fs::canonicalize(host.path(name)).expect("there");
    assert_eq!(run(&mut shell, b"").success(), real.to_str().expect("text"));
    for wanted in ["INSTANCE_ID='it-s-my-home-id-", "USERNS_MODE='keep-id'", "NOTES="] {
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_layout_and_its_secrets_are_for_their_owner_alone() {
    let host = Host::new();
    let ids = host.ids();
    let words = ["layout", "--home", "home", "--instance", "p-01234567", "--owner", &ids];
    assert!(host.host(&words, b"").success().contains("made home/state/p-01234567/server"));
    assert_eq!(host.host(&words, b"").success(), "");
    fs::write(host.path("home/.env"), "GITHUB_TOKEN=canary-1\nANTHROPIC_API_KEY=canary-2\n")
        .expect("written");
    let words = ["secrets", "--env", "home/.env", "--to", "home/config/secrets", "--client"];
    let said = host.host(&[words.as_slice(), &["home/config/client.env"]].concat(), b"").success();
    assert!(said.contains("GITHUB_TOKEN -> the tools' server alone, as /run/secrets/github_token"));
    assert!(said.contains("ANTHROPIC_API_KEY -> the agent's container"), "{said}");
    assert!(!said.contains("canary"), "{said}");
    for (name, text) in [
        ("home/config/secrets/github_token", "canary-1"),
        ("home/config/client.env", "ANTHROPIC_API_KEY=canary-2\n"),
    ] {
        assert_eq!(fs::read_to_string(host.path(name)).expect(name), text);
        assert_eq!(mode(&host.path(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&host.path("home")), 0o700);
}

#[test]
fn a_wrong_line_of_env_is_named_and_its_value_is_not() {
    let host = Host::new();
    fs::write(host.path(".env"), "A=1\nhunter2\n").expect("written");
    fs::create_dir(host.path("to")).expect("made");
    let words = ["secrets", "--env", ".env", "--to", "to", "--client", "client.env"];
    let refused = host.host(&words, b"");
    assert_eq!(refused.code(), Some(1));
    assert!(refused.err().contains(".env:2: not NAME=VALUE"), "{refused:?}");
    assert!(!refused.err().contains("hunter2"), "{refused:?}");
    assert!(!host.path("client.env").exists(), "nothing is half done");
}

#[test]
fn the_doctor_judges_a_home_and_a_server() {
    let host = Host::new();
    let ids = host.ids();
    let none = host.host(&["doctor", "--home", "home", "--caller", &ids], b"");
    assert_eq!(none.code(), Some(1));
    assert!(none.out().contains("wrong home is not installed"), "{none:?}");
    let status = br#"{"version":"1","confinement":{"level":"none"},"tools":[],"problems":[]}"#;
    let server = host.host(&["doctor", "--server"], status);
    assert_eq!(server.code(), Some(1));
    assert!(server.out().contains("wrong confinement: none"), "{server:?}");
    let nonsense = host.host(&["doctor", "--server"], b"not json");
    assert!(nonsense.out().contains("not understood"), "{nonsense:?}");
}

#[test]
fn each_verb_of_the_host_explains_itself() {
    let host = Host::new();
    for verb in ["instance", "environment", "layout", "secrets", "definitions", "doctor"] {
        let text = host.host(&[verb, "--help"], b"").success();
        assert!(text.contains("Usage"), "{verb}: {text}");
    }
    assert_eq!(host.host(&["layout", "--home", "x", "--instance", "y"], b"").code(), Some(2));
    assert_eq!(host.host(&["layout", "--home", "x", "--owner", "me"], b"").code(), Some(2));
}

#[test]
fn definitions_are_brought_and_brought_up_to_date() {
    let host = Host::new();
    for name in ["from/git", "to"] {
        fs::create_dir_all(host.path(name)).expect("made");
    }
    fs::write(host.path("from/git/tool.toml"), "1").expect("written");
    let words = ["definitions", "--from", "from", "--to", "to", "--record", "record"];
    assert_eq!(host.host(&words, b"").success(), "added git\n");
    assert_eq!(host.host(&words, b"").success(), "");
    fs::write(host.path("to/git/tool.toml"), "mine").expect("written");
    fs::write(host.path("from/git/tool.toml"), "2").expect("written");
    assert!(host.host(&words, b"").success().starts_with("kept git: it was changed here"));
}

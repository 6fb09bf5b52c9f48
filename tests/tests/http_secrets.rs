//! The files of tokens are nothing that a tool of the broker's reads, and nothing is served
//! where they lie in a tool's reach.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, BOB, Http};
use tool_broker_tests::{Server, Setup};

const OLGA: &str = "olgas-0123456789abcdef";

fn prepared(s: &mut Setup, uid: Option<u32>) {
    let path = s.file("operators", format!("olga:{OLGA}\n"), 0o600);
    s.env("TOOL_HTTP_OPERATOR_TOKEN_FILE", &path);
    s.env("TOOL_HTTP_OPERATOR_LISTEN", "127.0.0.1:0");
    s.tool("git", "binary = \"/usr/bin/git\"\ndefault = \"allow\"\n");
    let all = "default = \"allow\"\n";
    for name in ["run_command", "run_shell", "dev_server_start"] {
        s.file(format!("agent.d/{name}.toml"), all, 0o644);
    }
    s.env("TOOL_AGENT_DEFINITIONS", s.path("agent.d"));
    if let Some(uid) = uid {
        s.uid(uid);
        for name in ["operators", "tokens"] {
            chown(s.path(name), Some(uid), Some(uid)).expect("chown");
        }
    }
}

fn has_a_token(text: &str) -> bool {
    [ALICE, BOB, OLGA].iter().any(|token| text.contains(token))
}

/// Everything that could read a file, for whoever may call.
fn attempts(file: &Path) -> Vec<(&'static str, Value)> {
    let path = file.to_str().expect("UTF-8");
    let (place, name) = (file.parent().expect("a parent"), file.file_name().expect("a name"));
    let (place, name) = (place.to_str().expect("UTF-8"), name.to_str().expect("UTF-8"));
    let git = |args: &[&str]| ("git", json!({ "args": args }));
    let program = |argv: &[&str]| ("run_command", json!({ "argv": argv }));
    let line = |line: String| ("run_shell", json!({ "command": line }));
    let by_proc = format!("/proc/self/root{path}");
    let by_parent = format!("/proc/$PPID/root{path}");
    vec![
        ("read_file", json!({"path": path})),
        ("read_file", json!({"path": format!("../{name}")})),
        ("read_file", json!({"path": format!("link-{name}")})),
        ("read_file", json!({"path": by_proc})),
        (
            "edit_file",
            json!({"path": path, "edits": [{"old_text": "a", "new_text": "b"}], "dry_run": true}),
        ),
        ("search_files", json!({"path": place, "pattern": "0123", "by": "content"})),
        ("list_directory", json!({"path": place})),
        ("inject_template", json!({"template": place, "target": "stolen", "variables": {}})),
        program(&["cat", path]),
        program(&["cat", &format!("link-{name}")]),
        program(&["ln", path, "hard"]),
        program(&["cp", "-r", place, "copied"]),
        line(format!("cat < {path}; cat {by_proc}; cat {by_parent}; grep -r 0123 {place}")),
        line(format!("for p in /proc/[0-9]*; do cat $p/root{path} $p/environ; done 2>&1")),
        ("sh", json!({"args": ["-c", format!(". {path}; cat {path}")]})),
        ("dev_server_start", json!({"argv": ["cat", path], "name": "reads"})),
        git(&["-c", &format!("include.path={path}"), "config", "--list"]),
        git(&["config", "--file", path, "--list"]),
        git(&["diff", "--no-index", "/dev/null", path]),
        git(&["hash-object", path]),
        git(&["-c", &format!("core.excludesFile={path}"), "status", "--ignored"]),
        git(&["commit", "--allow-empty", "-F", path]),
    ]
}

#[test]
fn no_tool_reads_a_file_of_tokens() {
    let switched = nix::unistd::geteuid().is_root().then_some(Some(64_999));
    for uid in std::iter::once(None).chain(switched) {
        let http = Http::with_tokens(|s| prepared(s, uid));
        for name in ["tokens", "operators"] {
            let file = http.server.path(name);
            symlink(&file, http.server.ws().join(format!("link-{name}"))).expect("symlink");
            for (tool, input) in attempts(&file) {
                let (status, seen) = http.post(&format!("/tools/{tool}"), &input);
                assert!(!has_a_token(&seen.to_string()), "{uid:?}: {tool} {input}: {seen}");
                assert_ne!(status, 404, "{tool}: {seen}");
                assert_ne!(seen["error"]["code"], json!("INVALID_INPUT"), "{tool}: {seen}");
                if tool == "read_file" {
                    let wanted = json!("PATH_OUTSIDE_WORKSPACE");
                    assert_eq!(seen["error"]["code"], wanted, "{uid:?}: {input}: {seen}");
                }
            }
            let (_, seen) = http.post("/tools/dev_server_logs", &json!({"name": "reads"}));
            assert!(!has_a_token(&seen.to_string()), "{uid:?}: {seen}");
            http.post("/tools/dev_server_stop", &json!({"name": "reads"}));
            let write = json!({"path": file, "content": "mallory:0123456789abcdef"});
            assert_eq!(http.post("/tools/write_file", &write).0, 403, "{uid:?}");
        }
        let log = http.server.log();
        assert!(!has_a_token(&log), "{log}");
        for entry in fs::read_dir(http.server.ws()).expect("the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_file() && !path.is_symlink() {
                assert!(!has_a_token(&fs::read_to_string(&path).unwrap_or_default()), "{path:?}");
            }
        }
    }
}

/// What a server says that does not start, in one line.
#[track_caller]
fn refused(setup: Setup) -> String {
    let command = setup.serve();
    let Err((_, log)) = Server::try_start(setup, command) else { panic!("it started") };
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("tool-server: ")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    lines[0].to_owned()
}

#[test]
fn a_file_of_tokens_in_a_tools_reach_is_refused_at_the_start() {
    for (variable, listen) in [
        ("TOOL_HTTP_TOKEN_FILE", "TOOL_HTTP_LISTEN"),
        ("TOOL_HTTP_OPERATOR_TOKEN_FILE", "TOOL_HTTP_OPERATOR_LISTEN"),
    ] {
        let token = format!("alice:{ALICE}\n");
        // In the workspace; where a link of the workspace leads; by a link into it.
        for case in ["ws/tokens", "ws/link", "link", "state/home/sh/tokens"] {
            let mut setup = Setup::new();
            setup.env(listen, "127.0.0.1:0");
            let real = match case {
                "ws/link" => setup.file("tokens", &token, 0o600),
                "link" => setup.file("ws/tokens", &token, 0o600),
                case => setup.file(case, &token, 0o600),
            };
            if case.ends_with("link") {
                symlink(real, setup.path(case)).expect("symlink");
            }
            setup.env(variable, setup.path(case));
            let line = refused(setup);
            assert!(
                line.contains("a file of tokens") && line.contains("move it"),
                "{case}: {line}"
            );
            assert!(line.contains(case), "{case}: {line}");
        }
    }
}

//! The environment of a tool is built from nothing.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use tool_broker_tests::{Server, run};

/// The environment that a tool (`env -0`) sees.
fn seen(command: &mut Command) -> BTreeMap<String, String> {
    let all = run(command.arg("-0"), b"").success();
    let pairs = all.split_terminator('\0').map(|pair| pair.split_once('=').expect("NAME=value"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn names(env: &BTreeMap<String, String>) -> Vec<&str> {
    env.keys().map(String::as_str).collect()
}

/// Names that would change what a tool does, or tell it a secret.
const HOSTILE: [&str; 22] = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "GIT_SSH_COMMAND",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PERL5LIB",
    "RUBYOPT",
    "BASH_ENV",
    "ENV",
    "IFS",
    "SHELLOPTS",
    "PAGER",
    "EDITOR",
    "HTTPS_PROXY",
    "SECRET_TOKEN",
    "GITHUB_TOKEN",
];

#[test]
fn a_tool_without_an_env_section_gets_path_home_lang_and_an_offered_term() {
    let server = Server::start(|s| {
        s.tools(&[("env", "/usr/bin/env")]);
        // No loader variable here: it would change the server itself.
        HOSTILE
            .iter()
            .filter(|name| !name.starts_with("LD_"))
            .for_each(|name| s.env(name, "from-the-server"));
    });
    let env = seen(&mut server.client("env"));
    assert_eq!(names(&env), ["HOME", "LANG", "PATH", "TMPDIR"]);
    let env = seen(server.client("env").env("TERM", "xterm-256color"));
    assert_eq!(names(&env), ["HOME", "LANG", "PATH", "TERM", "TMPDIR"]);
    assert_eq!(env["TERM"], "xterm-256color");
    assert_eq!(env["LANG"], "C.UTF-8");
    assert!(env["PATH"].split(':').all(|dir| dir.starts_with('/')), "{env:?}");
    assert!(!env["PATH"].contains(&server.dir().display().to_string()), "{env:?}");
}

#[test]
fn a_caller_cannot_push_its_environment_into_a_tool() {
    let server = Server::start(|s| s.tools(&[("env", "/usr/bin/env")]));
    let mut client = server.client("env");
    // Only what the static client ignores may be set for it; it ignores all.
    client.envs(HOSTILE.iter().map(|name| (name, "from-the-caller")));
    client.env("TOOL_FORWARD_ENV", "*").env("PATH", "/evil").env("HOME", "/evil");
    let env = seen(&mut client);
    assert_eq!(names(&env), ["HOME", "LANG", "PATH", "TMPDIR"]);
    assert!(!env.values().any(|value| value.contains("evil")), "{env:?}");
    // The same by hand: what the client would not even offer.
    let hostile: Vec<String> = HOSTILE.iter().map(|name| format!("{name}=from-the-wire")).collect();
    let request = serde_json::json!({"tool":"env","args":["-0"],"cwd":server.ws(),"env":hostile});
    let reply = server.connect().call(&request).to_string();
    assert!(reply.contains("HOME=") && !reply.contains("from-the-wire"), "{reply}");
}

const ENV: &str = "binary = \"/usr/bin/env\"\n[env]\n";

#[test]
fn a_definition_takes_from_the_caller_by_name_and_pattern() {
    let server = Server::start(|s| {
        s.tool("env", &format!("{ENV}forward = [\"LC_*\", \"TZ\", \"FOO\"]\n"));
    });
    let mut client = server.client("env");
    client.env("TZ", "Europe/Berlin").env("LC_ALL", "C").env("LC_TIME", "POSIX");
    client.env("NO_COLOR", "1").env("FOO", "1").env("TERM", "xterm");
    let env = seen(&mut client);
    // FOO is taken, but the client does not offer it unasked.
    for name in ["TZ", "LC_ALL", "LC_TIME", "HOME", "PATH"] {
        assert!(env.contains_key(name), "{name} is missing: {env:?}");
    }
    for name in ["NO_COLOR", "FOO"] {
        assert!(!env.contains_key(name), "{name}: {env:?}");
    }
    let env = seen(client.env("TOOL_FORWARD_ENV", "BAR:FO*"));
    assert_eq!(env.get("FOO").map(String::as_str), Some("1"), "{env:?}");
}

#[test]
fn a_star_takes_all_that_is_offered_path_and_home_too() {
    let server = Server::start(|s| s.tool("env", &format!("{ENV}forward = [\"*\"]\n")));
    let mut client = server.client("env");
    client.env("TOOL_FORWARD_ENV", "*").env("HOME", "/home/someone").env("PATH", "/some:/path");
    client.env("ANY_THING", "a=b\nc").env("EMPTY", "");
    let env = seen(&mut client);
    assert_eq!(env.get("HOME").map(String::as_str), Some("/home/someone"), "{env:?}");
    assert_eq!(env.get("PATH").map(String::as_str), Some("/some:/path"), "{env:?}");
    assert_eq!(env.get("ANY_THING").map(String::as_str), Some("a=b\nc"), "{env:?}");
    assert_eq!(env.get("EMPTY").map(String::as_str), Some(""), "{env:?}");
}

#[test]
fn a_definition_sets_and_inherits_by_name() {
    let server = Server::start(|s| {
        s.env("HTTPS_PROXY", "http://proxy");
        s.env("OTHER", "no");
        let text =
            "inherit = [\"HTTPS_PROXY\", \"NOT_THERE\"]\nset = { MINE = \"1\", TERM = \"dumb\" }\n";
        s.tool("env", &format!("{ENV}{text}"));
    });
    let env = seen(server.client("env").env("TERM", "xterm").env("HTTPS_PROXY", "http://evil"));
    assert_eq!(env.get("HTTPS_PROXY").map(String::as_str), Some("http://proxy"), "{env:?}");
    assert_eq!(env.get("MINE").map(String::as_str), Some("1"), "{env:?}");
    assert_eq!(env.get("TERM").map(String::as_str), Some("dumb"), "{env:?}");
    assert!(!env.contains_key("NOT_THERE") && !env.contains_key("OTHER"), "{env:?}");
}

#[test]
fn home_is_the_tools_own_writable_and_kept() {
    let server = Server::start(|s| s.tool("other", "binary = \"/bin/sh\"\n"));
    let outcome =
        run(server.client("sh").args(["-c", "echo \"$HOME\"; echo kept > \"$HOME/file\""]), b"");
    let home = server.path("state/home/sh");
    assert_eq!(outcome.success().trim_end(), home.display().to_string());
    assert_eq!(
        run(server.client("sh").args(["-c", "cat \"$HOME/file\""]), b"").success(),
        "kept\n"
    );
    let outcome = run(server.client("other").args(["-c", "echo \"$HOME\"; ls -A \"$HOME\""]), b"");
    let other = server.path("state/home/other").display().to_string();
    assert_eq!(outcome.success(), format!("{other}\ntmp\n"), "its HOME, with TMPDIR in it");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(home).expect("home"));
    assert_eq!(mode & 0o077, 0, "others may read a tool's HOME: {mode:o}");
}

//! The verbs of `tool-server`: what they say, and how they end.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Outcome, Server, Setup, eventually, run, still_works};

const VERBS: [&str; 15] = [
    "serve",
    "check",
    "explain",
    "tools",
    "status",
    "health",
    "reload",
    "config",
    "setup",
    "link",
    "approvals",
    "approve",
    "deny",
    "revoke",
    "metrics",
];

fn verb(setup: &Setup, words: &[&str]) -> Outcome {
    run(&mut setup.verb(words), b"")
}

/// A verb that fails: not 0, nothing on stdout, one line on stderr.
#[track_caller]
fn fails(outcome: &Outcome) -> String {
    assert!(outcome.code().is_some_and(|code| code != 0), "{outcome:?}");
    let text = outcome.err();
    assert_eq!(text.trim_end().lines().count(), 1, "{outcome:?}");
    text
}

#[test]
fn every_verb_explains_itself() {
    let setup = Setup::new();
    let help = verb(&setup, &["--help"]).success();
    for name in VERBS.iter().chain(&["version"]) {
        assert!(help.contains(name), "--help does not mention {name}: {help}");
        let text = verb(&setup, &[name, "--help"]).success();
        assert!(text.lines().count() > 3 && text.contains("Usage"), "{name}: {text}");
    }
    for flag in ["--tools-dir", "--workspace", "--socket", "--config", "TOOLS_DIR", "STATE_DIR"] {
        assert!(verb(&setup, &["serve", "--help"]).success().contains(flag), "{flag}");
    }
}

#[test]
fn version_says_which() {
    let setup = Setup::new();
    let said = verb(&setup, &["version"]).success();
    assert_eq!(said, format!("tool-server {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_is_no_verb_or_no_setting_is_an_error() {
    let mut setup = Setup::new();
    for words in [&["fly"][..], &["serve", "--no-such-flag"], &["explain"], &["link"], &[]] {
        let outcome = verb(&setup, words);
        assert!(outcome.code().is_some_and(|code| code != 0), "{words:?}: {outcome:?}");
        assert_eq!(outcome.out(), "", "{words:?}");
        assert!(!outcome.stderr.is_empty(), "{words:?}");
    }
    setup.config("no_such_setting = 1\n");
    for name in ["check", "config", "serve", "tools"] {
        let line = fails(&verb(&setup, &[name]));
        assert!(
            line.contains("server.toml:1") && line.contains("no_such_setting"),
            "{name}: {line}"
        );
    }
}

#[test]
fn check_is_content_with_good_definitions_and_warns_of_what_is_not_installed() {
    let setup = Setup::new();
    setup.tool("good", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
    setup.tool("missing", "binary = \"/no/such/binary\"\ndefault = \"allow\"\n");
    fs::remove_dir(setup.ws()).expect("check needs no workspace");
    let outcome = verb(&setup, &["check"]);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let said = outcome.out() + &outcome.err();
    let about =
        |name: &str| said.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(about("/no/such/binary").contains("warning"), "{said}");
    assert!(said.contains("unrestricted"), "`sh` has neither rules nor default: {said}");
    assert!(!setup.path("state/home").exists(), "check has side effects");
}

#[test]
fn check_ends_with_1_and_the_place_of_each_error() {
    let setup = Setup::new();
    setup.tool("good", "binary = \"/bin/echo\"\n");
    setup.tool("toml", "binary = \"/bin/echo\"\n\ntimeout = \"soon\"\n");
    setup.tool("json", "{\n  \"binary\": \"/bin/echo\",\n  \"timeout\": 5,,\n}");
    let outcome = verb(&setup, &["check"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    let said = outcome.out() + &outcome.err();
    for place in ["toml/tool.toml:3", "json/tool.json:3"] {
        let line = said.lines().find(|line| line.contains(place));
        assert!(line.is_some_and(|line| line.contains("error")), "{place}: {said}");
    }
    let mut nowhere = Setup::new();
    nowhere.env("TOOLS_DIR", nowhere.path("nowhere"));
    let outcome = verb(&nowhere, &["check"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!((outcome.out() + &outcome.err()).contains("nowhere"), "{outcome:?}");
}

#[test]
fn explain_says_what_would_be_decided_and_runs_nothing() {
    let setup = Setup::new();
    setup.tool("yes", "binary = \"/bin/sh\"\ndefault = \"allow\"\n[env]\nset = { MINE = \"1\" }\n");
    setup.tool("no", "# first\nbinary = \"/bin/sh\"\ndefault = \"deny\"\n");
    fs::remove_dir(setup.ws()).expect("explain needs no workspace");
    for (tool, word, place) in
        [("yes", "allow", "yes/tool.toml:2"), ("no", "deny", "no/tool.toml:3")]
    {
        let ran = setup.path("ran").display().to_string();
        let outcome = verb(&setup, &["explain", tool, "-c", &format!("touch {ran}")]);
        let said = outcome.success();
        let first: Vec<&str> = said.lines().next().expect("a line").split(' ').collect();
        let wanted = setup.path("tools.d").join(place).display().to_string();
        assert_eq!(first.len(), 3, "{said}");
        assert_eq!((first[0], first[2]), (word, wanted.as_str()), "{said}");
        assert!(said.contains("/bin/sh"), "which binary: {said}");
        assert!(!setup.path("ran").exists(), "it ran");
    }
    assert!(verb(&setup, &["explain", "yes"]).success().contains("MINE"), "which environment");
    // What looks like a flag of ours is the tool's.
    verb(&setup, &["explain", "yes", "--help", "--config", "x"]).success();
    let line = fails(&verb(&setup, &["explain", "no-such-tool"]));
    assert!(line.contains("no-such-tool"), "{line}");
}

#[test]
fn explain_names_the_wrapper_that_is_run_instead() {
    let setup = Setup::new();
    setup.tool("t", "binary = \"/bin/echo\"\n");
    setup.file("restricted/t.sh", "#!/bin/sh\n", 0o755);
    let said = verb(&setup, &["explain", "t", "x"]).success();
    assert!(said.contains(&setup.path("restricted/t.sh").display().to_string()), "{said}");
}

#[test]
fn config_shows_every_value_and_where_it_came_from() {
    let mut setup = Setup::new();
    setup.config("\n[timeouts]\ntool = 17\n");
    setup.without_env("TOOL_CONTROL_SOCKET");
    fs::remove_dir(setup.ws()).expect("config needs no workspace");
    let said = run(setup.verb(&["config"]).args(["--limits-calls", "7"]), b"").success();
    let line = |name: &str| {
        let found = said.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}: {said}")).to_owned()
    };
    let tools = line("tools_dir");
    assert!(
        tools.contains(&setup.path("tools.d").display().to_string())
            && tools.contains("env TOOLS_DIR"),
        "{tools}"
    );
    assert!(
        line("timeouts.tool").contains("17") && line("timeouts.tool").contains("server.toml:3"),
        "{said}"
    );
    assert!(
        line("limits.calls ").contains('7')
            && line("limits.calls ").contains("flag --limits-calls"),
        "{said}"
    );
    assert!(line("timeouts.grace").contains("default"), "{said}");
    assert!(
        line("control_socket").contains(&setup.path("state/control.sock").display().to_string()),
        "{said}"
    );
    // It can be read back, and means the same.
    let file = setup.file("again.toml", &said, 0o644);
    let mut again = Command::new(&binaries().server);
    again.env_clear().arg("config").arg("--config").arg(file);
    let again = run(&mut again, b"");
    let value = |line: &str| line.split("  #").next().unwrap_or_default().trim_end().to_owned();
    let values = |text: &str| text.lines().map(value).collect::<Vec<_>>();
    assert_eq!(values(&again.success()), values(&said));
}

#[test]
fn a_wrong_value_is_named_with_its_place() {
    let setup = Setup::new();
    for (flag, value) in [
        ("--limits-calls", "0"),
        ("--timeouts-tool", "-1"),
        ("--socket-mode", "rw"),
        ("--log-level", "loud"),
    ] {
        let outcome = run(setup.verb(&["config"]).arg(format!("{flag}={value}")), b"");
        let line = fails(&outcome);
        assert!(line.contains(flag) && line.contains(value), "{line}");
    }
}

#[test]
fn tools_lists_what_a_server_offers_and_what_is_unrestricted() {
    let setup = Setup::new();
    setup.tool("ruled", "binary = \"/bin/echo\"\ndefault = \"deny\"\n");
    setup.tool("broken", "binary = \n");
    fails(&verb(&setup, &["tools"]));
    let server = Server::start_in(setup);
    let said = verb(&server, &["tools"]).success();
    let line = |name: &str| {
        said.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    assert!(line("ruled").contains("deny"), "{said}");
    assert!(line("sh").contains("unrestricted"), "{said}");
    eventually("the log says so too", || {
        server.log().lines().any(|line| line.contains("unrestricted") && line.contains("sh"))
    });
}

#[test]
fn status_and_health_tell_a_server_from_none() {
    let setup = Setup::new();
    for name in ["status", "health", "reload", "metrics"] {
        let line = fails(&verb(&setup, &[name]));
        assert!(line.contains(".sock"), "{name} does not say where it looked: {line}");
    }
    let server = Server::start_in(setup);
    verb(&server, &["health"]).success();
    let status = verb(&server, &["status"]).success();
    assert!(status.contains(&server.pid().to_string()), "{status}");
    verb(&server, &["reload"]).success();
    // A server that hangs is not healthy: a stopped one answers nobody.
    let mut wire = server.control();
    assert_eq!(wire.call(&json!({"op":"status"}))["pid"], json!(server.pid()));
}

#[test]
fn link_makes_the_symlinks_and_keeps_to_its_own() {
    let setup = Setup::new();
    for name in ["one", "two"] {
        setup.tool(name, "binary = \"/bin/echo\"\n");
    }
    let dir = setup.path("links");
    fs::create_dir(&dir).expect("mkdir");
    fs::write(dir.join("mine"), "a file of somebody's").expect("write");
    fs::write(dir.join("two"), "not a link").expect("write");
    let client = &binaries().client;
    let copy = dir.join("tool-client");
    std::os::unix::fs::symlink(client, &copy).expect("symlink");
    let text = dir.display().to_string();
    let first = verb(&setup, &["link", &text]);
    assert!(first.code().is_some(), "{first:?}");
    assert!(fs::symlink_metadata(dir.join("one")).expect("a link").is_symlink());
    assert_eq!(fs::read_to_string(dir.join("mine")).expect("kept"), "a file of somebody's");
    assert_eq!(fs::read_to_string(dir.join("two")).expect("kept"), "not a link");
    // The link works, and goes with its tool.
    let server = Server::start_in(setup);
    let mut command = Command::new(dir.join("one"));
    command.arg("through a link").current_dir(server.ws()).env("TOOL_SOCKET", server.socket());
    assert_eq!(run(&mut command, b"").success(), "through a link\n");
    fs::remove_dir_all(server.path("tools.d/one")).expect("rm");
    server.tool("three", "binary = \"/bin/echo\"\n");
    verb(&server, &["link", &text]);
    assert!(fs::symlink_metadata(dir.join("one")).is_err(), "the link of a removed tool is left");
    assert!(fs::symlink_metadata(dir.join("three")).expect("a link").is_symlink());
    assert!(dir.join("mine").exists() && copy.exists());
}

#[test]
fn setup_runs_the_scripts_without_a_server() {
    let setup = Setup::new();
    setup.tool("good", "binary = \"/bin/echo\"\n");
    setup.file("tools.d/good/setup.sh", "#!/bin/sh\necho ran >> \"$HOME/ran\"\n", 0o755);
    verb(&setup, &["setup"]).success();
    assert_eq!(fs::read_to_string(setup.path("state/home/good/ran")).expect("it ran"), "ran\n");
    setup.tool("bad", "binary = \"/bin/echo\"\n");
    setup.file("tools.d/bad/setup.sh", "#!/bin/sh\necho why >&2\nexit 3\n", 0o755);
    let outcome = verb(&setup, &["setup"]);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    let said = outcome.out() + &outcome.err();
    assert!(said.contains("bad") && said.contains('3'), "{said}");
}

#[test]
fn the_log_has_the_call_id_that_the_reply_has() {
    let server = Server::start(|s| s.env("TOOL_LOG", "debug"));
    let reply = server
        .connect()
        .call(&json!({"tool":"sh","args":["-c","exit 3"],"cwd":server.ws(),"stdio":"buffered"}));
    let id = reply["call_id"].as_str().expect("a call_id").to_owned();
    still_works(&server);
    // Whole when it has stopped.
    let log = server.stop(Signal::SIGTERM).log();
    assert!(log.contains(&id), "the log does not name the call: {log}");
    for line in log.lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|value| value.is_object()), "not a JSON line: {line}");
    }
}

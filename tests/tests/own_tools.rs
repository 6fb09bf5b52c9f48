//! The broker's own tools, as an operator sees them on the command line and in the log: that
//! they are served, by whose definition and which rules, and how to turn them off.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, run};

const RULES: &str = "default = \"allow\"\n[[rule]]\nid = \"none\"\ndecision = \"deny\"\n\
                     operands = \"*/secret\"\nreason = \"it is one\"\n";

fn with_rules(setup: &mut Setup) {
    setup.file("agent.d/read_file.toml", RULES, 0o644);
    setup.env("TOOL_AGENT_DEFINITIONS", setup.path("agent.d"));
}

fn said(setup: &Setup, verb: &str) -> String {
    run(&mut setup.verb(&[verb]), b"").success()
}

/// The one line that has this text.
#[track_caller]
fn line<'a>(said: &'a str, text: &str) -> &'a str {
    let mut found = said.lines().filter(|line| line.contains(text));
    let first = found.next().unwrap_or_else(|| panic!("no {text:?}: {said}"));
    assert_eq!(found.next(), None, "{text:?} twice: {said}");
    first
}

#[test]
fn an_operator_sees_the_brokers_own_tools_whose_their_rules_are_and_what_turns_them_off() {
    let server = Server::start(with_rules);
    let file = server.path("agent.d/read_file.toml").display().to_string();

    let tools = said(&server, "tools");
    assert!(
        line(&tools, "read_file ").starts_with("read_file        allow        Reads "),
        "{tools}"
    );
    line(&tools, "run_command ");

    let check = said(&server, "check");
    let own = format!("ok: read_file (the broker's own, {file}; allow, 1 rule)");
    assert_eq!(line(&check, "ok: read_file "), own);
    let own = line(&check, "ok: run_command ");
    assert!(own.starts_with("ok: run_command (the broker's own, as shipped; allow, "), "{own}");
    assert!(own.contains(" rules), confined"), "{own}");
    let off = line(&check, "of the broker's own tools are served: agent.tools chooses, none for");
    assert!(off.ends_with(&server.path("agent.d").display().to_string()), "{off}");

    let told = said(&server, "status");
    line(&told, "the broker's own tools (agent.tools chooses, none for none):");
    assert!(line(&told, "  read_file ").ends_with(&format!("ok, allow, 1 rule  {file}")), "{told}");
    assert!(line(&told, "  run_command ").contains("  as shipped, confined"), "{told}");
    let npm = line(&told, "  npm_install ");
    assert!(npm.contains("by the rules of npm, which is not in tools.d"), "{npm}");
    assert!(!told.contains("look at:\n  read_file"), "{told}");

    let status = server.status();
    let own = status["own_tools"].as_array().expect("a list").clone();
    let of = |name: &str| own.iter().find(|tool| tool["name"] == name).expect(name).clone();
    assert_eq!(of("read_file")["definition"], json!(file));
    assert_eq!(of("run_command")["definition"], json!("as shipped"));
    let tools = server.connect().call(&json!({"op": "tools"}));
    let names = |list: &Value| {
        let all = list.as_array().expect("a list").iter();
        all.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&tools["tools"]), ["sh"], "commands alone");
    assert_eq!(names(&tools["own"]), names(&status["own_tools"]));

    for text in ["served of its own: agent.tools chooses", "\"tool\":\"read_file\""] {
        server.logs(text);
    }
    let log = server.log();
    let own = line(&log, "served of its own: agent.tools chooses, none for none");
    assert!(own.contains("read_file run_command"), "{own}");
    let own = line(&log, "\"tool\":\"read_file\"");
    assert!(own.contains(&file) && own.contains("allow, 1 rule"), "{own}");
}

#[test]
fn of_the_brokers_own_tools_those_that_are_not_served_are_shown_nowhere() {
    let server = Server::start(|s| {
        s.env("TOOL_AGENT_TOOLS", "read_file:list_directory");
    });
    for verb in ["tools", "status", "check"] {
        let said = said(&server, verb);
        assert!(said.contains("read_file") && !said.contains("run_command"), "{verb}: {said}");
    }
    assert!(!server.log().contains("run_command"), "{}", server.log());
    let none = Server::start(|s| s.env("TOOL_AGENT_TOOLS", "none"));
    assert_eq!(none.status()["own_tools"], json!([]));
    line(&said(&none, "check"), "none of the broker's own tools is served: agent.tools chooses");
    assert!(!said(&none, "status").contains("own tools"));
}

#[test]
fn an_operators_definitions_of_the_brokers_own_tools_are_checked() {
    let setup = &mut Setup::new();
    with_rules(setup);
    setup.file("agent.d/run_command.toml", "default = \"allow\"\n\ntimeout = \"soon\"\n", 0o644);
    setup.file("agent.d/run_shel.toml", "default = \"deny\"\n", 0o644);
    setup.file("agent.d/README.md", "of no effect, and no error\n", 0o644);
    let loose = "default = \"allow\"\n[sandbox]\nmode = \"off\"\n";
    setup.file("agent.d/dev_server_start.toml", loose, 0o644);
    let check = run(&mut setup.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(1), "{check:?}");
    let said = check.out();
    assert!(line(&said, "run_command.toml:3: ").starts_with("error: "), "{said}");
    let wrong = line(&said, "run_shel.toml");
    assert!(wrong.starts_with("error: ") && wrong.contains("none of the broker's own"), "{said}");
    assert!(line(&said, "sandbox: off: ").starts_with("warning: "), "{said}");
    assert!(
        !said.contains("README") && said.ends_with("1 tools, 2 errors, 2 warnings\n"),
        "{said}"
    );
    assert!(!said.contains("ok: run_command "), "it is not served: {said}");
}

#[test]
fn what_is_wrong_with_an_operators_definition_is_seen_and_the_last_good_one_stays() {
    let server = Server::start(|s| {
        with_rules(s);
        s.env("TOOL_REGISTRY_RESCAN_SECONDS", "600");
    });
    assert!(!server.status()["attention"].to_string().contains("read_file"));
    server.file("agent.d/read_file.toml", "default = \"deny\"\n", 0o644);
    let rules = |server: &Server| {
        let own = server.status()["own_tools"].clone();
        let own = own.as_array().expect("a list").iter().find(|tool| tool["name"] == "read_file");
        own.expect("read_file").clone()
    };
    // Without a word to the server: the directory is watched as tools.d is.
    eventually("the new rules are seen", || rules(&server)["default"] == json!("deny"));
    fs::remove_file(server.path("agent.d/read_file.toml")).expect("rm");
    eventually("it is said", || rules(&server)["state"] == json!("last good kept"));
    let told = said(&server, "status");
    let look = line(&told, "read_file: last good kept: ");
    assert!(look.contains("read_file.toml"), "{look}");
    assert_eq!(rules(&server)["default"], json!("deny"), "not what ships");
}

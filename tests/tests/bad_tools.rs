//! Definitions, wrappers and binaries that are not as they should be.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, eventually, run, setup, still_works};

fn call(server: &Server, tool: &str) -> Value {
    server.connect().call(&json!({"tool":tool,"args":[],"cwd":server.ws()}))
}

#[track_caller]
fn refuses(server: &Server, tool: &str, code: &str, exit: i32) -> String {
    let reply = call(server, tool);
    assert_eq!((&reply["code"], &reply["exit_code"]), (&json!(code), &json!(exit)), "{reply}");
    run(&mut server.client(tool), b"").refused(exit)
}

const HELLO: &str = "#!/bin/sh\necho hello\n";

#[test]
fn a_binary_that_vanished_is_not_installed_until_it_is_back() {
    let server = Server::start(|s| {
        let binary = s.file("opt/hello", HELLO, 0o755);
        s.tool("hello", &format!("binary = \"{}\"\n", binary.display()));
        s.tool("never", r#"{"binary":"/no/such/binary"}"#);
    });
    assert_eq!(run(&mut server.client("hello"), b"").success(), "hello\n");
    fs::remove_file(server.path("opt/hello")).expect("rm");
    let line = refuses(&server, "hello", "not_installed", 127);
    assert!(line.contains("opt/hello"), "does not say what is missing: {line}");
    refuses(&server, "never", "not_installed", 127);
    server.file("opt/hello", HELLO, 0o755);
    assert_eq!(run(&mut server.client("hello"), b"").success(), "hello\n");
    still_works(&server);
}

#[test]
fn a_binary_that_cannot_be_run_is_refused_with_a_reason() {
    let server = Server::start(|s| {
        for (name, content, mode) in [
            ("not-executable", HELLO, 0o644),
            ("empty", "", 0o755),
            ("no-interpreter", "#!/no/such/sh\n", 0o755),
            ("garbage", "\u{7f}ELF and nothing else", 0o755),
            ("env-nothing", "#!/usr/bin/env no-such\n", 0o755),
        ] {
            let path = s.file(format!("opt/{name}"), content, mode);
            s.tool(name, &format!("binary = \"{}\"\n", path.display()));
        }
        s.tool("directory", "binary = \"/usr/bin\"\n");
    });
    let before = server.settled();
    for name in ["not-executable", "no-interpreter", "garbage", "directory"] {
        let reply = call(&server, name);
        let code = reply["code"].as_str().expect("a code");
        assert!(["not_installed", "spawn_failed"].contains(&code), "{name}: {reply}");
        let exit = if code == "not_installed" { 127 } else { 125 };
        let line = run(&mut server.client(name), b"").refused(exit);
        assert!(line.contains(name) || line.contains("/usr/bin"), "{line}");
    }
    // What the kernel leaves to a shell is no broker's error of an own kind.
    for name in ["empty", "env-nothing"] {
        assert_ne!(call(&server, name)["exit_code"], json!(0), "{name}");
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_wrapper_without_its_interpreter_is_not_installed_and_never_passed_over() {
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        s.file("tools.d/t/restricted", "#!/no/such/interpreter\n", 0o755);
        s.tool("u", r#"{"binary":"/bin/echo"}"#);
        s.file("restricted/u", "#!/usr/bin/env no-such-interpreter\n", 0o755);
    });
    for tool in ["t", "u"] {
        let line = refuses(&server, tool, "not_installed", 127);
        assert!(line.contains("no") && line.contains("interpreter"), "{line}");
    }
}

#[test]
fn a_wrapper_that_cannot_be_trusted_or_run_is_never_passed_over() {
    let server = Server::start(|s| {
        for (name, mode) in [("writable", 0o775), ("by-all", 0o757), ("plain", 0o644)] {
            s.tool(name, r#"{"binary":"/bin/echo"}"#);
            s.file(format!("tools.d/{name}/restricted"), HELLO, mode);
        }
    });
    for name in ["writable", "by-all", "plain"] {
        let line = refuses(&server, name, "bad_definition", 125);
        assert!(line.contains(name), "{line}");
    }
    let check = run(&mut server.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(1));
    let said = check.out() + &check.err();
    assert!(
        said.contains("chmod g-w") && said.contains("chmod go-w") && said.contains("chmod +x"),
        "{said}"
    );
}

#[test]
fn a_definition_that_was_never_good_is_no_tool() {
    let server = Server::start(|s| {
        for (name, text) in [
            ("half", r#"{"binary": "/bin/ec"#),
            ("empty", "{"),
            ("list", "{}[]"),
            ("twice", r#"{"timeout":1,"timeout":2}"#),
            ("type", r#"{"binary": 5}"#),
            ("relative", r#"{"binary": "echo"}"#),
            ("unknown", "binary = \"/bin/echo\"\nbinry = 1\n"),
            ("toml", "binary = \n"),
            ("negative", "binary = \"/bin/echo\"\ntimeout = -1\n"),
        ] {
            s.tool(name, text);
        }
    });
    for name in
        ["half", "empty", "list", "twice", "type", "relative", "unknown", "toml", "negative"]
    {
        refuses(&server, name, "bad_definition", 125);
    }
    let status = server.status().to_string();
    for place in
        ["half/tool.json:1", "toml/tool.toml:1", "negative/tool.toml:2", "unknown/tool.toml:2"]
    {
        assert!(status.contains(place), "{place} is not in status: {status}");
    }
    still_works(&server);
}

#[test]
fn definitions_that_others_can_change_are_refused_with_the_command_that_helps() {
    let server = Server::start(|s| {
        for (name, file, folder) in
            [("group", 0o664, 0o755), ("others", 0o646, 0o755), ("folder", 0o644, 0o777)]
        {
            s.file(format!("tools.d/{name}/tool.json"), r#"{"binary":"/bin/echo"}"#, file);
            setup::mode(&s.path("tools.d").join(name), folder);
        }
    });
    for name in ["group", "others", "folder"] {
        refuses(&server, name, "bad_definition", 125);
    }
    let check = run(&mut server.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(1));
    let said = check.out() + &check.err();
    let file = server.path("tools.d/group/tool.json");
    assert!(said.contains(&format!("chmod g-w {}", file.display())), "{said}");
    // Mended, it works.
    setup::mode(&file, 0o644);
    eventually("the mended definition is in force", || {
        call(&server, "group")["exit_code"] == json!(0)
    });
}

#[test]
fn a_definition_that_is_removed_during_a_call_ends_nothing() {
    let server = Server::start(|s| s.tool("t", r#"{"binary":"/bin/sh"}"#));
    let mut wire = server.connect();
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; echo done; exit 3";
    wire.send_json(&json!({"tool":"t","args":["-c",script],"cwd":server.ws()}));
    eventually("it runs", || server.ws().join("up").exists());
    fs::remove_dir_all(server.path("tools.d/t")).expect("rm");
    eventually("the tool is gone", || call(&server, "t")["code"] == json!("unknown_tool"));
    fs::write(server.ws().join("go"), "").expect("go");
    let reply = wire.recv_json();
    assert_eq!((&reply["exit_code"], &reply["stdout"]), (&json!(3), &json!("done\n")), "{reply}");
}

#[test]
fn a_link_out_of_tools_d_is_refused() {
    let server = Server::start(|s| {
        s.file("elsewhere/tool.json", r#"{"binary":"/bin/echo"}"#, 0o644);
        std::os::unix::fs::symlink("../elsewhere", s.path("tools.d/folder")).expect("symlink");
        fs::create_dir(s.path("tools.d/file")).expect("mkdir");
        std::os::unix::fs::symlink("../../elsewhere/tool.json", s.path("tools.d/file/tool.json"))
            .expect("symlink");
    });
    for name in ["folder", "file"] {
        let reply = call(&server, name);
        assert_ne!(reply["exit_code"], json!(0), "{name}: {reply}");
        assert!(
            ["bad_definition", "unknown_tool"].contains(&reply["code"].as_str().unwrap_or("none")),
            "{reply}"
        );
    }
    still_works(&server);
}

#[test]
fn a_tool_that_takes_longer_than_its_timeout_is_ended_with_its_tree() {
    let server = Server::start(|s| {
        s.tool("t", "binary = \"/bin/sh\"\ntimeout = 3\n");
    });
    let before = server.settled();
    let script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.1; done' &); \
                  echo said; while :; do sleep 0.1; done";
    let outcome = run(server.client("t").args(["-c", script]), b"");
    assert_eq!(outcome.code(), Some(124), "{outcome:?}");
    assert_eq!(outcome.out(), "said\n");
    // The shell has a line of its own where its `sleep` ends before it does.
    let told = outcome.err();
    let own: Vec<&str> = told.lines().filter(|line| *line != "Killed").collect();
    assert_eq!(own.len(), 1, "{outcome:?}");
    assert!(own.iter().all(|line| line.starts_with("t: ")), "{outcome:?}");
    let pid: i32 = fs::read_to_string(server.ws().join("daemon"))
        .expect("daemon")
        .trim()
        .parse()
        .expect("a pid");
    eventually("its daemon is gone", || !tool_broker_tests::alive(pid));
    let reply = server
        .connect()
        .call(&json!({"tool":"t","args":["-c","echo early; exec sleep 60"],"cwd":server.ws()}));
    assert_eq!(
        (&reply["code"], &reply["exit_code"]),
        (&json!("timed_out"), &json!(124)),
        "{reply}"
    );
    assert_eq!(reply["stdout"], json!("early\n"), "what it said is lost: {reply}");
    server.nothing_left(before);
}

#[test]
fn a_tool_that_is_denied_by_default_does_not_run() {
    let server = Server::start(|s| {
        s.tool("denied", "binary = \"/bin/echo\"\ndefault = \"deny\"\n");
    });
    let line = refuses(&server, "denied", "denied", 126);
    assert!(line.contains("denied"), "{line}");
    assert_ne!(call(&server, "denied")["rule"], Value::Null);
}

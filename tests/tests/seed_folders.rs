//! The original's folders load unchanged: tool.json, setup.sh, the restriction
//! wrappers and the four variables that they get.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, eventually, run, skipped};

/// A wrapper that says who it is.
fn says(who: &str) -> String {
    format!("#!/bin/sh\necho {who} \"$@\"\n")
}

#[test]
fn a_tool_json_of_the_original_is_a_tool() {
    let server = Server::start(|s| s.tool("list", r#"{"binary": "/bin/ls", "timeout": 600}"#));
    fs::write(server.ws().join("here"), "").expect("write");
    assert_eq!(run(&mut server.client("list"), b"").success(), "here\n");
}

#[test]
fn a_folder_without_a_definition_is_the_installed_program_of_that_name() {
    let server = Server::start(|s| {
        fs::create_dir(s.path("tools.d/cat")).expect("mkdir");
        fs::create_dir(s.path("tools.d/not-installed-anywhere")).expect("mkdir");
    });
    assert_eq!(run(&mut server.client("cat"), b"through").success(), "through");
    run(&mut server.client("not-installed-anywhere"), b"").refused(127);
}

#[test]
fn a_wrapper_in_the_folder_runs_instead_of_the_binary() {
    for name in ["restricted.sh", "restricted"] {
        let server = Server::start(|s| {
            s.tool("t", r#"{"binary":"/bin/echo"}"#);
            s.file(format!("tools.d/t/{name}"), says("wrapper"), 0o755);
        });
        assert_eq!(run(server.client("t").args(["a", "b c"]), b"").success(), "wrapper a b c\n");
    }
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        let script =
            "#!/usr/bin/env python3\nimport sys\nprint('python', sys.argv[1:])\nsys.exit(5)\n";
        s.file("tools.d/t/restricted.py", script, 0o755);
    });
    let outcome = run(server.client("t").args(["a", "b c"]), b"");
    assert_eq!(
        (outcome.code(), outcome.out().as_str()),
        (Some(5), "python ['a', 'b c']\n"),
        "{outcome:?}"
    );
}

#[test]
fn the_wrappers_come_in_the_originals_order() {
    let python = "#!/usr/bin/env python3\nprint('1')\n";
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        s.file("tools.d/t/restricted.py", python, 0o755);
        s.file("tools.d/t/restricted.sh", says("2"), 0o755);
        s.file("tools.d/t/restricted", says("3"), 0o755);
        s.file("restricted/t.py", python.replace('1', "4"), 0o755);
        s.file("restricted/t.sh", says("5"), 0o755);
        s.file("restricted/t", says("6"), 0o755);
    });
    let files = [
        "tools.d/t/restricted.py",
        "tools.d/t/restricted.sh",
        "tools.d/t/restricted",
        "restricted/t.py",
        "restricted/t.sh",
        "restricted/t",
    ];
    for (n, file) in files.iter().enumerate() {
        let wanted = format!("{}\n", n + 1);
        // A wrapper that vanished may be an editor's unlink-and-create: the next
        // one comes into force a little later, and nothing else in between.
        eventually(&format!("wrapper {wanted}"), || {
            let outcome = run(&mut server.client("t"), b"");
            let last = format!("{n}\n");
            assert!(
                outcome.code() != Some(0) || [&wanted, &last].contains(&&outcome.out()),
                "{outcome:?}"
            );
            outcome.out() == wanted
        });
        fs::remove_file(server.path(file)).expect("rm");
    }
    eventually("the binary itself", || {
        run(server.client("t").arg("binary"), b"").out() == "binary\n"
    });
}

#[test]
fn a_wrapper_gets_the_four_variables_of_the_call() {
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        let script = "#!/bin/sh\nprintf '%s\\n' \"$TOOL_NAME\" \"$TOOL_BINARY\" \"$TOOL_CWD\" \"$TOOL_ARGS\"\n\
                      exec \"$TOOL_BINARY\" \"$@\"\n";
        s.file("tools.d/t/restricted.sh", script, 0o755);
    });
    fs::create_dir(server.ws().join("sub")).expect("mkdir");
    let args = ["plain", "with space", "", "quote\"s and \\", "new\nline", "ü🦀"];
    let mut command = server.client("t");
    let said = run(command.args(args).current_dir(server.ws().join("sub")), b"").success();
    let mut lines = said.splitn(5, '\n');
    let cwd = fs::canonicalize(server.ws().join("sub")).expect("sub");
    assert_eq!(lines.next(), Some("t"));
    assert_eq!(lines.next(), Some("/bin/echo"));
    assert_eq!(lines.next(), Some(cwd.to_str().expect("text")));
    let list: Value = serde_json::from_str(lines.next().expect("TOOL_ARGS")).expect("a JSON array");
    assert_eq!(list, json!(args));
    assert_eq!(lines.next(), Some(format!("{}\n", args.join(" ")).as_str()));
}

#[test]
fn a_caller_cannot_tell_a_wrapper_something_else() {
    let server = Server::start(|s| {
        s.tool("t", "binary = \"/bin/echo\"\n[env]\nforward = [\"*\"]\n");
        let script = "#!/bin/sh\necho \"$TOOL_NAME $TOOL_BINARY $TOOL_ARGS\"\n";
        s.file("tools.d/t/restricted", script, 0o755);
    });
    let names = ["TOOL_NAME", "TOOL_BINARY", "TOOL_CWD", "TOOL_ARGS"];
    let env: Vec<String> = names.iter().map(|name| format!("{name}=evil")).collect();
    let request = json!({"tool":"t","args":["x"],"cwd":server.ws(),"env":env});
    assert_eq!(server.connect().call(&request)["stdout"], json!("t /bin/echo [\"x\"]\n"));
}

#[test]
fn a_wrapper_that_denies_is_the_tool_that_failed() {
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        let script = "#!/bin/sh\ncase \"$1\" in push) echo 'push is not allowed' >&2; exit 1;; esac\nexec \"$TOOL_BINARY\" \"$@\"\n";
        s.file("restricted/t.sh", script, 0o755);
    });
    let outcome = run(server.client("t").arg("push"), b"");
    assert_eq!(
        (outcome.code(), outcome.err().as_str()),
        (Some(1), "push is not allowed\n"),
        "{outcome:?}"
    );
    assert_eq!(run(server.client("t").arg("pull"), b"").success(), "pull\n");
}

#[test]
fn setup_runs_once_at_start_with_the_tools_home_and_environment() {
    let server = Server::start(|s| {
        s.env("SECRET_TOKEN", "secret");
        s.tool("t", "binary = \"/bin/sh\"\n[env]\nset = { MINE = \"1\" }\n");
        s.file(
            "tools.d/t/setup.sh",
            "#!/bin/sh\nenv >> \"$HOME/ran\"\necho said by setup\n",
            0o755,
        );
    });
    eventually("setup.sh ran", || server.path("state/home/t/ran").exists());
    assert_eq!(run(server.client("t").args(["-c", "echo $HOME"]), b"").code(), Some(0));
    let ran = fs::read_to_string(server.path("state/home/t/ran")).expect("ran");
    assert_eq!(ran.matches("HOME=").count(), 1, "once: {ran}");
    assert!(ran.contains("MINE=1\n"), "{ran}");
    assert!(!ran.contains("SECRET_TOKEN") && !ran.contains("TOOL_CONTROL_SOCKET"), "{ran}");
    eventually("its output is in the log", || server.log().contains("said by setup"));
}

#[test]
fn a_setup_that_fails_is_shown_and_not_fatal() {
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/echo"}"#);
        s.file("tools.d/t/setup.sh", "#!/bin/sh\necho complaint >&2\nexit 3\n", 0o755);
    });
    assert_eq!(run(server.client("t").arg("works"), b"").success(), "works\n");
    eventually("status shows the failed setup", || {
        let tools = server.status().to_string();
        tools.contains("setup") && tools.contains('3')
    });
    eventually("its output is in the log", || server.log().contains("complaint"));
}

#[test]
fn setup_also_runs_for_a_tool_that_comes_later() {
    let server = Server::start(|_| ());
    server.file("tools.d/later/setup.sh", "#!/bin/sh\ntouch \"$HOME/ran\"\n", 0o755);
    server.tool("later", r#"{"binary":"/bin/echo"}"#);
    assert_eq!(run(server.client("later").arg("works"), b"").success(), "works\n");
    eventually("setup.sh ran", || server.path("state/home/later/ran").exists());
}

#[test]
fn a_tool_json_beside_a_tool_toml_loses_with_a_warning() {
    let server = Server::start(|s| {
        s.tool("t", r#"{"binary":"/bin/false"}"#);
        s.tool("t", "binary = \"/bin/true\"\n");
    });
    assert_eq!(run(&mut server.client("t"), b"").code(), Some(0));
    let check = run(&mut server.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(0), "{check:?}");
    let said = check.out() + &check.err();
    assert!(said.contains("tool.json") && said.contains("warning"), "{said}");
}

#[test]
fn definitions_of_another_owner_or_beneath_the_workspace_are_refused() {
    if !tool_broker_tests::is_root() {
        return skipped(
            "definitions_of_another_owner_or_beneath_the_workspace_are_refused",
            "not root",
        );
    }
    let server = Server::start(|s| {
        s.tool("theirs", r#"{"binary":"/bin/echo"}"#);
        std::os::unix::fs::chown(s.path("tools.d/theirs/tool.json"), Some(12345), None)
            .expect("chown");
    });
    run(server.client("theirs").arg("x"), b"").refused(125);
    let mut setup = tool_broker_tests::Setup::new();
    setup.env("TOOLS_DIR", setup.ws().join("tools.d"));
    setup.file("ws/tools.d/t/tool.json", r#"{"binary":"/bin/echo"}"#, 0o644);
    let check = run(&mut setup.verb(&["check"]), b"");
    assert_eq!(check.code(), Some(1), "a tools.d beneath the workspace: {check:?}");
}

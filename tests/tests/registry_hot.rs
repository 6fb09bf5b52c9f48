//! Tools come, change and go while the server runs.

use std::fs;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, eventually, run, still_works};

fn says(what: &str) -> String {
    format!("binary = \"/bin/echo\"\n[env]\nset = {{ WHAT = \"{what}\" }}\n")
}

/// What the tool `t` of [`shell`] says now.
fn said(server: &Server) -> String {
    run(server.client("t").args(["-c", "echo $WHAT"]), b"").out()
}

fn shell(what: &str) -> String {
    says(what).replace("/bin/echo", "/bin/sh")
}

fn call(server: &Server, tool: &str) -> Value {
    server.connect().call(&json!({"tool":tool,"args":["x"],"cwd":server.ws()}))
}

#[test]
fn a_tool_that_is_dropped_in_is_usable_at_once() {
    let server = Server::start(|_| ());
    for n in 0..50 {
        let name = format!("new{n}");
        assert_eq!(call(&server, &name)["code"], json!("unknown_tool"));
        server.tool(&name, r#"{"binary":"/bin/echo"}"#);
        // No wait, no retry: an unknown name triggers a look at the disk.
        let reply = call(&server, &name);
        assert_eq!(reply["stdout"], json!("x\n"), "{name}: {reply}");
    }
}

#[test]
fn a_changed_definition_comes_into_force() {
    let server = Server::start(|s| s.tool("t", &shell("one")));
    assert_eq!(said(&server), "one\n");
    for what in ["two", "three", "four"] {
        server.tool("t", &shell(what));
        eventually(what, || said(&server) == format!("{what}\n"));
    }
    // Written in place, not renamed.
    fs::write(server.path("tools.d/t/tool.toml"), shell("in place")).expect("write");
    eventually("in place", || said(&server) == "in place\n");
    // A wrapper that comes, one that changes its kind.
    server.file("tools.d/t/restricted.sh", "#!/bin/sh\necho wrapped\n", 0o755);
    eventually("a wrapper", || said(&server) == "wrapped\n");
}

#[test]
fn a_removed_folder_is_no_tool_any_more() {
    let server = Server::start(|s| s.tool("t", &shell("one")));
    assert_eq!(said(&server), "one\n");
    fs::remove_dir_all(server.path("tools.d/t")).expect("rm");
    eventually("127", || run(&mut server.client("t"), b"").code() == Some(127));
    run(&mut server.client("t"), b"").refused(127);
    server.tool("t", &shell("back"));
    eventually("it is back", || said(&server) == "back\n");
}

#[test]
fn a_definition_that_breaks_leaves_the_last_good_one_and_status_says_where() {
    let server = Server::start(|s| s.tool("t", &shell("good")));
    assert_eq!(said(&server), "good\n");
    server.tool("t", "# a comment\nbinary = \"/bin/sh\"\ntimeout = -1\n");
    eventually("status shows file and line", || {
        let problems = server.status().to_string();
        problems.contains(&format!("{}:3", server.path("tools.d/t/tool.toml").display()))
    });
    assert_eq!(said(&server), "good\n");
    let verb = run(&mut server.verb(&["status"]), b"").success();
    assert!(verb.contains("t/tool.toml:3"), "{verb}");
    server.logs("tool.toml");
    server.tool("t", &shell("mended"));
    eventually("mended", || said(&server) == "mended\n");
    eventually("status is clean", || !server.status().to_string().contains("tool.toml:3"));
}

#[test]
fn a_definition_that_vanishes_does_not_free_the_tool() {
    let server = Server::start(|s| {
        // Without its definition the folder would be the installed /bin/cat.
        s.tool("cat", "binary = \"/bin/echo\"\n[env]\nset = { WHAT = \"ruled\" }\n");
    });
    assert_eq!(run(server.client("cat").arg("ruled"), b"").success(), "ruled\n");
    fs::remove_file(server.path("tools.d/cat/tool.toml")).expect("rm");
    let reload = run(&mut server.verb(&["reload"]), b"");
    assert!(reload.code().is_some(), "{reload:?}");
    for _ in 0..20 {
        assert_eq!(run(server.client("cat").arg("ruled"), b"").success(), "ruled\n");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(server.status().to_string().contains("gone"), "{}", server.status());
}

#[test]
fn a_definition_that_is_emptied_on_its_way_to_a_new_one_does_not_free_the_tool() {
    let denied = "binary = \"/bin/cat\"\ndefault = \"deny\"\n";
    let server = Server::start(|s| s.tool("cat", denied));
    assert_eq!(run(&mut server.client("cat"), b"").code(), Some(126));
    // As an editor does it: truncate, then write. In between it is empty.
    fs::File::create(server.path("tools.d/cat/tool.toml")).expect("truncate");
    let _ = run(&mut server.verb(&["reload"]), b"");
    for _ in 0..20 {
        assert_ne!(run(&mut server.client("cat"), b"secret").out(), "secret");
        thread::sleep(Duration::from_millis(20));
    }
    fs::write(server.path("tools.d/cat/tool.toml"), denied).expect("write");
    let _ = run(&mut server.verb(&["reload"]), b"");
    assert_eq!(run(&mut server.client("cat"), b"").code(), Some(126));
}

#[test]
fn a_definition_that_is_written_byte_by_byte_is_never_half_in_force() {
    let server = Server::start(|s| s.tool("t", &shell("old")));
    let text = shell("new");
    let mut file = fs::File::create(server.path("tools.d/t/tool.toml")).expect("create");
    for byte in text.bytes() {
        file.write_all(&[byte]).expect("write");
        let now = said(&server);
        assert!(["old\n", "new\n", "\n"].contains(&now.as_str()), "{now:?}");
        // An empty or shorter file that is valid TOML is a definition, too;
        // never one with half a value in it.
        thread::sleep(Duration::from_millis(2));
    }
    eventually("the whole of it", || said(&server) == "new\n");
}

#[test]
fn reload_and_sighup_look_at_the_disk() {
    // So slow a polling that only the asked-for look can find the change.
    let server = Server::start(|s| {
        s.config("[registry]\nwatch = \"poll\"\npoll_seconds = 3600\n");
        s.tool("t", &shell("one"));
    });
    assert_eq!(said(&server), "one\n");
    server.tool("t", &shell("two"));
    run(&mut server.verb(&["reload"]), b"").success();
    eventually("reload", || said(&server) == "two\n");
    server.tool("t", &shell("three"));
    server.signal(Signal::SIGHUP);
    eventually("SIGHUP", || said(&server) == "three\n");
    server.tool("t", &shell("four"));
    let reply = server.control().call(&json!({"op":"reload"}));
    assert!(reply.is_object() && reply.get("code").is_none(), "{reply}");
    eventually("reload by hand", || said(&server) == "four\n");
    // A broken one is told to whoever asked.
    server.tool("t", "binary = \n");
    let reload = run(&mut server.verb(&["reload"]), b"");
    assert!((reload.out() + &reload.err()).contains("t/tool.toml:1"), "{reload:?}");
}

#[test]
fn polling_finds_changes_where_nothing_tells() {
    let server = Server::start(|s| {
        s.config("[registry]\nwatch = \"poll\"\n");
        s.tool("t", &shell("one"));
    });
    assert_eq!(said(&server), "one\n");
    server.tool("t", &shell("two"));
    eventually("polled", || said(&server) == "two\n");
    fs::remove_dir_all(server.path("tools.d/t")).expect("rm");
    eventually("gone", || run(&mut server.client("t"), b"").code() == Some(127));
}

#[test]
fn a_thousand_definitions_are_a_thousand_tools() {
    let server = Server::start(|s| {
        for n in 0..1000 {
            s.tool(&format!("tool{n}"), r#"{"binary":"/bin/echo"}"#);
        }
    });
    let reply = server.connect().call(&json!({"op":"tools"}));
    let tools = reply["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1001, "a thousand and sh");
    for n in [0, 1, 500, 999] {
        assert_eq!(call(&server, &format!("tool{n}"))["stdout"], json!("x\n"));
    }
    server.tool("tool1000", r#"{"binary":"/bin/echo"}"#);
    assert_eq!(call(&server, "tool1000")["stdout"], json!("x\n"));
    fs::remove_dir_all(server.path("tools.d/tool7")).expect("rm");
    eventually("tool7 is gone", || call(&server, "tool7")["code"] == json!("unknown_tool"));
    assert_eq!(call(&server, "tool8")["stdout"], json!("x\n"));
}

#[test]
fn a_call_under_way_keeps_the_definition_that_it_started_with() {
    let server = Server::start(|s| s.tool("t", &shell("before")));
    let mut wire = server.connect();
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; echo $WHAT";
    wire.send_json(&json!({"tool":"t","args":["-c",script],"cwd":server.ws()}));
    eventually("it runs", || server.ws().join("up").exists());
    server.tool("t", &shell("after"));
    eventually("the change is in force", || said(&server) == "after\n");
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(wire.recv_json()["stdout"], json!("before\n"));
}

#[test]
fn a_tools_d_that_goes_and_comes_back_is_found_again() {
    let server = Server::start(|s| s.tool("t", &shell("one")));
    assert_eq!(said(&server), "one\n");
    fs::rename(server.path("tools.d"), server.path("aside")).expect("rename");
    fs::create_dir(server.path("tools.d")).expect("mkdir");
    eventually("an empty tools.d", || run(&mut server.client("t"), b"").code() == Some(127));
    fs::remove_dir(server.path("tools.d")).expect("rmdir");
    fs::rename(server.path("aside"), server.path("tools.d")).expect("rename");
    eventually("it is back", || said(&server) == "one\n");
    still_works(&server);
}

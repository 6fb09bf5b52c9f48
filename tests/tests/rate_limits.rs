//! How often a peer may call: a tool, and all of them. Beyond it a call is
//! refused at once, with a word about when to try again; nobody else is.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Exposition, Server, Wire, eventually, run, skipped};

/// So rarely that nothing comes back while a test runs.
const TWO: &str = "binary = \"/bin/sh\"\n[limits]\nrate = \"1/hour, burst 2\"\n";

fn call(wire: &mut Wire, server: &Server, tool: &str) -> Value {
    wire.call(&json!({"tool":tool,"args":["-c","echo ran >> ran"],"cwd":server.ws()}))
}

fn limited(reply: &Value) -> bool {
    assert!(reply["code"] == json!("rate_limited") || reply["exit_code"] == json!(0), "{reply}");
    reply["code"] == json!("rate_limited")
}

fn ran(server: &Server) -> usize {
    let text = std::fs::read_to_string(server.ws().join("ran")).unwrap_or_default();
    text.lines().count()
}

fn counted(server: &Server, limit: &str) -> f64 {
    let figures = Exposition::of(server);
    let labels = [("limit", limit)];
    figures.value("tool_server_rate_limited_calls_total", &labels).expect("a counter")
}

#[test]
fn a_call_beyond_the_rate_of_its_tool_is_refused_and_says_when_to_try_again() {
    let server = Server::start(|s| s.tool("two", TWO));
    let mut wire = server.connect();
    assert!(!limited(&call(&mut wire, &server, "two")));
    // By descriptors, through the door.
    assert_eq!(run(server.client("two").args(["-c", "echo ran >> ran"]), b"").code(), Some(0));
    let reply = call(&mut wire, &server, "two");
    assert_eq!((&reply["code"], &reply["exit_code"]), (&json!("rate_limited"), &json!(125)));
    let line = run(server.client("two").args(["-c", "echo ran >> ran"]), b"").refused(125);
    for text in [line.as_str(), reply["error"].as_str().expect("a message")] {
        assert!(text.contains("one caller may make 1 two call an hour"), "{text}");
        let seconds = text.trim_end().strip_suffix(" s").and_then(|text| text.rsplit(' ').next());
        let seconds: u64 = seconds.and_then(|number| number.parse().ok()).expect(text);
        assert!(text.contains("try again in") && (3_000..=3_600).contains(&seconds), "{text}");
    }
    assert_eq!(ran(&server), 2, "a refused call ran");
    // Other tools are not bound by it.
    assert!(!limited(&call(&mut wire, &server, "sh")));
    assert_eq!((counted(&server, "tool"), counted(&server, "peer")), (2.0, 0.0));
    let figures = Exposition::of(&server);
    let labels = [("tool", "two"), ("decision", "none"), ("exit", "rate_limited")];
    assert_eq!(figures.value("tool_server_calls_total", &labels), Some(2.0));
}

#[test]
fn a_peer_has_a_rate_over_all_tools() {
    let server = Server::start(|s| {
        s.config("[limits]\nrate = \"3/hour\"\n");
        s.tools(&[("true", "/bin/true")]);
        s.tool("two", TWO);
    });
    let mut wire = server.connect();
    // What the tool's own rate refuses uses nothing of it up, nor does what repeats.
    assert!(!limited(&call(&mut wire, &server, "two")));
    assert!(!limited(&call(&mut wire, &server, "two")));
    for _ in 0..5 {
        assert!(limited(&call(&mut wire, &server, "two")));
    }
    assert_eq!(run(server.client("true").arg("x"), b"").code(), Some(0));
    let line = run(server.client("true").arg("x"), b"").refused(125);
    assert!(line.contains("one caller may make 3 calls an hour; try again in "), "{line}");
    // To look for a name costs as much as a call.
    assert!(limited(&call(&mut wire, &server, "nobody")));
    assert_eq!((counted(&server, "tool"), counted(&server, "peer")), (5.0, 2.0));
    assert_eq!(server.connect().call(&json!({"op":"health"}))["ok"], json!(true));
}

#[test]
fn a_tool_that_is_asked_for_twice_is_counted_once() {
    let server = Server::start(|s| {
        s.config("[limits]\nrate = \"2/hour\"\n");
        s.tool("pipe", "binary = \"/bin/sh\"\nstdio = \"stream\"\n");
    });
    for _ in 0..2 {
        assert_eq!(run(server.client("pipe").args(["-c", "exit 0"]), b"").code(), Some(0));
    }
    run(server.client("pipe").args(["-c", "exit 0"]), b"").refused(125);
}

#[test]
fn sockets_are_apart() {
    let server = Server::start(|s| {
        s.tool("two", TWO);
        let path = s.path("run/other.sock");
        s.env("TOOL_LISTEN", path);
    });
    let mut here = server.connect();
    let passed = (0..9).filter(|_| !limited(&call(&mut here, &server, "two"))).count();
    assert_eq!(passed, 2);
    let mut there = Wire::connect(&server.path("run/other.sock"));
    let passed = (0..9).filter(|_| !limited(&call(&mut there, &server, "two"))).count();
    assert_eq!(passed, 2, "another socket's peer is another one");
}

#[test]
fn users_are_apart() {
    if !tool_broker_tests::is_root() {
        return skipped("users_are_apart", "only root may become others");
    }
    let server = Server::start(|s| {
        s.tool("two", TWO);
        s.env("TOOL_SOCKET_MODE", "0666");
    });
    let client = server.reachable(&binaries().client);
    let as_user = |uid: u32| {
        let mut command = Command::new(&client);
        command.env_clear().env("TOOL_SOCKET", server.socket()).uid(uid).gid(uid);
        command.args(["two", "-c", "exit 0"]).current_dir(server.ws());
        run(&mut command, b"").code()
    };
    for uid in [4_242, 4_243] {
        assert_eq!([as_user(uid), as_user(uid), as_user(uid)], [Some(0), Some(0), Some(125)]);
    }
}

/// By descriptors and buffered, at the same time.
#[test]
fn of_many_at_once_exactly_the_burst_passes() {
    let rate = "binary = \"/bin/sh\"\n[limits]\nrate = \"1/hour, burst 20\"\n";
    let server = Server::start(|s| s.tool("twenty", rate));
    let passed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..64 {
            let (server, passed) = (&server, &passed);
            scope.spawn(move || {
                let ok = if n % 2 == 0 {
                    !limited(&call(&mut server.connect(), server, "twenty"))
                } else {
                    let args = ["-c", "echo ran >> ran"];
                    run(server.client("twenty").args(args), b"").code() == Some(0)
                };
                passed.fetch_add(usize::from(ok), Ordering::Relaxed);
            });
        }
    });
    assert_eq!((passed.into_inner(), ran(&server)), (20, 20));
    assert_eq!(counted(&server, "tool"), 44.0);
}

#[test]
fn who_waits_as_long_as_it_says_is_let_through() {
    let rate = "binary = \"/bin/sh\"\n[limits]\nrate = \"1/second\"\n";
    let server = Server::start(|s| s.tool("one", rate));
    let mut wire = server.connect();
    assert!(!limited(&call(&mut wire, &server, "one")));
    // The second may come late enough on a slow machine; one of many does not.
    let reply = (0..1_000).map(|_| call(&mut wire, &server, "one")).find(limited);
    let message = reply.expect("calls come faster than one a second")["error"].to_string();
    assert!(message.contains("1 one call a second; try again in 1 s"), "{message}");
    eventually("it may call again", || !limited(&call(&mut wire, &server, "one")));
}

/// What waits for a place is not what comes too often: the word comes at once.
#[test]
fn a_call_beyond_its_rate_does_not_wait_for_a_place() {
    let server = Server::start(|s| {
        s.tool(
            "two",
            "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\nrate = \"1/hour, burst 2\"\n",
        );
    });
    let wait = json!({"tool":"two","args":["-c","until [ -e go ]; do sleep 0.02; done"],"cwd":server.ws()});
    let mut wires = [server.connect(), server.connect()];
    wires.iter_mut().for_each(|wire| wire.send_json(&wait));
    eventually("one runs, one waits", || {
        let calls = server.status()["calls"].clone();
        (&calls["running"], &calls["waiting"]) == (&json!(1), &json!(1))
    });
    assert!(limited(&call(&mut server.connect(), &server, "two")));
    run(server.client("two").arg("x"), b"").refused(125);
    std::fs::write(server.ws().join("go"), "").expect("go");
    wires.iter_mut().for_each(|wire| assert!(!limited(&wire.recv_json())));
}

#[test]
fn a_reload_keeps_what_was_used_up_of_a_rate_that_stays() {
    let server = Server::start(|s| s.tool("two", TWO));
    let reload = || run(&mut server.verb(&["reload"]), b"").success();
    let mut wire = server.connect();
    let mut passes = || (0..9).filter(|_| !limited(&call(&mut wire, &server, "two"))).count();
    assert_eq!(passes(), 2);
    // Something else of it changes; another tool comes.
    server.tool("two", &TWO.replace("[limits]", "description = \"new\"\n[limits]"));
    server.tool("other", "binary = \"/bin/true\"\n");
    reload();
    assert_eq!(passes(), 0, "a reload gave it new calls");
    server.tool("two", &TWO.replace("burst 2", "burst 3"));
    reload();
    assert_eq!(passes(), 3, "the new rate is in force");
}

#[test]
fn what_is_no_rate_is_refused_with_its_line() {
    let server = Server::start(|s| s.tool("bad", &TWO.replace("1/hour, burst 2", "2 an hour")));
    let said = server.status()["problems"].to_string();
    assert!(said.contains("bad/tool.toml:3: rate must be COUNT/PERIOD"), "{said}");
    let outcome = run(server.verb(&["config"]).args(["--limits-rate", "60"]), b"");
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!(outcome.err().contains("600/minute"), "{outcome:?}");
    let shown = run(server.verb(&["config"]).args(["--limits-rate", "60/minute"]), b"").success();
    assert!(shown.contains("limits.rate = \"60/minute\""), "{shown}");
    assert!(Path::new(&server.path("tools.d/bad")).exists());
}

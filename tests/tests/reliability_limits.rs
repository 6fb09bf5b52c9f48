//! Limits at work: a second call of a tool waits and then runs, a waiting one
//! hinders no other tool, too many are refused at once; a tool that outstays
//! its timeout ends with its tree, and what it said is not lost.

mod reliability_help;

use std::fs;

use reliability_help::{Mark, Tidy, file_appears, running, start};
use serde_json::{Value, json};
use tool_broker_tests::{PATIENCE, Wire, eventually, run, still_works};

/// A call of a tool that says that it is up, and goes on until `go` is there.
fn waits(server: &Tidy, tool: &str, name: &str) -> Value {
    let text = format!("touch {name}; until [ -e go ]; do sleep 0.02; done; echo {name}");
    json!({"tool":tool,"args":["-c",text],"cwd":server.ws()})
}

fn up(server: &Tidy, name: &str) -> bool {
    server.ws().join(name).exists()
}

fn waiting(server: &Tidy) -> u64 {
    server.status()["calls"]["waiting"].as_u64().expect("a number")
}

const ONE: &str = "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\n";

#[test]
fn the_second_call_of_a_tool_for_one_waits_and_then_runs() {
    let server = start(|s| s.tool("one", ONE));
    let before = server.settled();
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send_json(&waits(&server, "one", "first"));
    file_appears(&server, "first");
    second.send_json(&waits(&server, "one", "second"));
    eventually("the second waits", || waiting(&server) == 1);
    still_works(&server);
    assert!(!up(&server, "second"), "it ran beside the first");
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(first.recv_json()["stdout"], json!("first\n"));
    assert_eq!(second.recv_json()["stdout"], json!("second\n"));
    drop((first, second));
    server.nothing_left(before);
}

#[test]
fn calls_that_wait_for_a_tool_do_not_hinder_the_same_peers_calls_of_others() {
    let server = start(|s| {
        s.tool("one", ONE);
        s.config("[limits]\ncalls = 8\ncalls_per_peer = 4\n");
    });
    let mut wires: Vec<Wire> = (0..6).map(|_| server.connect()).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        wire.send_json(&waits(&server, "one", &format!("up{n}")));
    }
    eventually("five wait", || waiting(&server) == 5);
    // One of four places is in use: there is room for another tool's call.
    let mut other = server.connect();
    other.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let reply = other.try_call(&json!({"tool":"sh","args":["-c","echo free"],"cwd":server.ws()}));
    let served = reply.as_ref().is_some_and(|reply| reply["stdout"] == json!("free\n"));
    fs::write(server.ws().join("go"), "").expect("go");
    for wire in &mut wires {
        assert_eq!(wire.recv_json()["exit_code"], json!(0));
    }
    assert!(
        served,
        "a call of an idle tool was not run while one of its peer's four places was in use: {reply:?}"
    );
    still_works(&server);
}

/// Every way in which places can be short at once, and all are served.
#[test]
fn calls_that_are_short_of_several_places_are_all_served() {
    let server = start(|s| {
        s.tool("one", ONE);
        s.tool("two", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 2\n");
        s.config("[limits]\ncalls = 3\ncalls_per_peer = 3\ncalls_per_tool = 3\n");
    });
    let before = server.settled();
    let mut wires: Vec<Wire> = (0..60).map(|_| server.connect()).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        let tool = ["one", "two", "sh"][n % 3];
        for call in 0..5 {
            let text = format!("echo {n} {call}");
            wire.send_json(&json!({"tool":tool,"args":["-c",text],"cwd":server.ws(),"id":call}));
        }
    }
    for (n, wire) in wires.iter_mut().enumerate() {
        for _ in 0..5 {
            let reply = wire.recv_json();
            let own = format!("{n} {}\n", reply["id"]);
            assert_eq!(reply["stdout"], json!(own), "{reply}");
        }
    }
    drop(wires);
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_call_beyond_those_that_may_wait_is_busy_at_once() {
    let server = start(|s| {
        s.tool("one", ONE);
        s.config("[limits]\nwaiting = 1\n");
    });
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send_json(&waits(&server, "one", "first"));
    file_appears(&server, "first");
    second.send_json(&waits(&server, "one", "second"));
    eventually("the second waits", || waiting(&server) == 1);
    let reply = server.connect().call(&waits(&server, "one", "third"));
    assert_eq!((&reply["code"], &reply["exit_code"]), (&json!("busy"), &json!(125)), "{reply}");
    let line = run(server.client("one").args(["-c", "touch third"]), b"").refused(125);
    assert!(line.contains("again"), "does not say what to do: {line}");
    still_works(&server);
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(first.recv_json()["stdout"], json!("first\n"));
    assert_eq!(second.recv_json()["stdout"], json!("second\n"));
    assert!(!up(&server, "third"), "a refused call ran");
    still_works(&server);
}

/// A call that does not end by itself: it says something, has deaf children
/// everywhere, and is deaf itself.
fn deaf(mark: &Mark) -> String {
    format!(
        "trap '' TERM HUP; echo begun; echo aside >&2; (setsid sleep {0} <&- >&- 2>&- &); sleep {0} & while :; do sleep {0}; done",
        mark.of(0)
    )
}

/// A call that nobody attended to until its time was over has no second one.
#[test]
fn a_timeout_counts_from_the_start_whoever_attends_to_the_call() {
    let server = start(|s| s.tool("brief", "binary = \"/bin/sh\"\ntimeout = 4\n"));
    let mut wire = server.connect();
    wire.send_json(&json!({
        "tool":"brief","args":["-c","sleep 7; touch late"],"cwd":server.ws(),"stdio":"fds","fds":[],
    }));
    let last = wire.recv_json();
    assert_eq!((&last["code"], &last["exit_code"]), (&json!("timed_out"), &json!(124)), "{last}");
    assert!(!server.ws().join("late").exists(), "it had its time twice");
}

#[test]
fn a_tool_that_outstays_its_timeout_ends_with_its_tree_and_keeps_what_it_said() {
    let mark = Mark::new();
    let server = start(|s| {
        s.tool("brief", "binary = \"/bin/sh\"\ntimeout = 3\n");
        s.env("TOOL_TIMEOUTS_GRACE", "0.5");
    });
    let before = server.settled();
    let request = |stdio: &str| json!({"tool":"brief","args":["-c",deaf(&mark)],"cwd":server.ws(),"stdio":stdio});
    let timed_out = |last: &Value| {
        let got = (&last["code"], &last["exit_code"]);
        assert_eq!(got, (&json!("timed_out"), &json!(124)), "{last}");
        assert_eq!(mark.alive(), [], "the answer came before its tree was gone");
        assert!(last["duration_ms"].as_u64().is_some_and(|ms| ms >= 3000), "{last}");
    };
    let reply = server.connect().call(&request("buffered"));
    timed_out(&reply);
    let said = (&reply["stdout"], &reply["stderr"]);
    assert_eq!(said, (&json!("begun\n"), &json!("aside\n")), "{reply}");
    let mut wire = server.connect();
    wire.send_json(&request("stream"));
    let got = wire.recv_stream();
    timed_out(&got.last);
    assert_eq!((&got.stdout[..], &got.stderr[..]), (&b"begun\n"[..], &b"aside\n"[..]));
    drop(wire);
    let outcome = run(server.client("brief").args(["-c", &deaf(&mark)]), b"");
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(124), "begun\n"), "{outcome:?}");
    let err = outcome.err();
    let line = err.strip_prefix("aside\n").expect("the tool's own words first");
    assert_eq!(line.trim_end().lines().count(), 1, "{err}");
    assert_eq!(mark.alive(), []);
    server.nothing_left(before);
    still_works(&server);
}

/// A stalled reader must not keep the place of a call that has timed out.
#[test]
fn a_call_that_timed_out_frees_its_place_though_nobody_reads_its_output() {
    let server = start(|s| {
        s.tool("brief", "binary = \"/bin/sh\"\ntimeout = 3\n[limits]\nconcurrent = 1\n");
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    });
    let before = server.settled();
    let mut wire = server.connect();
    wire.send_json(
        &json!({"tool":"brief","args":["-c","exec yes"],"cwd":server.ws(),"stdio":"stream"}),
    );
    eventually("it runs", || running(&server) == 1);
    eventually("its process has ended", || server.children().is_empty());
    let mut next = server.connect();
    next.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let reply = next.try_call(&json!({"tool":"brief","args":["-c","echo next"],"cwd":server.ws()}));
    let served = reply.as_ref().is_some_and(|reply| reply["stdout"] == json!("next\n"));
    assert!(served, "the place of a call that is over is held by its unread output: {reply:?}");
    drop((wire, next));
    server.nothing_left(before);
    still_works(&server);
}

//! Limits: how many at once, how long, and a clear word where it is too much.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, run, still_works};

/// A call that runs until the file `go` is there.
fn waiting(server: &Server, n: usize) -> Value {
    let script = format!("touch up{n}; until [ -e go ]; do sleep 0.02; done; echo {n}");
    json!({"tool":"sh","args":["-c",script],"cwd":server.ws(),"id":n})
}

fn running(server: &Server) -> usize {
    let names =
        fs::read_dir(server.ws()).expect("ws").map(|entry| entry.expect("entry").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("up")).count()
}

/// Starts `n` calls of which only `at_once` may run; the others wait for their
/// turn, and all are answered, each with its own.
fn all_are_served(server: &Server, n: usize, at_once: usize) {
    let mut wires: Vec<Wire> = (0..n).map(|_| server.connect()).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        wire.send_json(&waiting(server, n));
    }
    eventually("as many run as may", || running(server) == at_once);
    eventually("the others wait", || {
        let calls = server.status()["calls"].clone();
        calls["running"] == json!(at_once) && calls["waiting"] == json!(n - at_once)
    });
    assert_eq!(running(server), at_once);
    fs::write(server.ws().join("go"), "").expect("go");
    for (n, wire) in wires.iter_mut().enumerate() {
        let reply = wire.recv_json();
        assert_eq!(
            (&reply["stdout"], &reply["id"]),
            (&json!(format!("{n}\n")), &json!(n)),
            "{reply}"
        );
    }
}

#[test]
fn calls_beyond_the_limit_wait_for_their_turn() {
    let server = Server::start(|s| s.config("[limits]\ncalls = 3\n"));
    all_are_served(&server, 10, 3);
    still_works(&server);
}

#[test]
fn a_tool_has_a_limit_of_its_own() {
    let server = Server::start(|s| {
        s.tools(&[("echo", "/bin/echo")]);
        s.tool("sh", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 2\n");
    });
    let mut other = server.connect();
    all_are_served(&server, 6, 2);
    let reply = other.call(&json!({"tool":"echo","args":["x"],"cwd":server.ws()}));
    assert_eq!(reply["stdout"], json!("x\n"));
}

#[test]
fn a_peer_has_a_limit_of_its_own() {
    let server = Server::start(|s| s.config("[limits]\ncalls_per_peer = 2\n"));
    all_are_served(&server, 5, 2);
}

#[test]
fn calls_that_wait_for_one_tool_hold_no_place_of_another() {
    for limits in ["calls = 4", "calls_per_peer = 4"] {
        let server = Server::start(|s| {
            s.config(&format!("[limits]\n{limits}\n"));
            s.tools(&[("echo", "/bin/echo")]);
            s.tool("sh", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\n");
        });
        let mut wires: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
        for (n, wire) in wires.iter_mut().enumerate() {
            wire.send_json(&waiting(&server, n));
        }
        eventually("one runs", || running(&server) == 1);
        eventually("seven wait", || server.status()["calls"]["waiting"] == json!(7));
        let mut other = server.connect();
        let reply = other.call(&json!({"tool":"echo","args":["free"],"cwd":server.ws()}));
        assert_eq!(reply["stdout"], json!("free\n"), "{limits}: {reply}");
        fs::write(server.ws().join("go"), "").expect("go");
        for (n, wire) in wires.iter_mut().enumerate() {
            assert_eq!(wire.recv_json()["stdout"], json!(format!("{n}\n")));
        }
    }
}

#[test]
fn however_the_limits_lie_every_call_gets_its_turn() {
    for limits in ["calls = 2", "calls_per_peer = 2", "calls = 1", "calls_per_peer = 1\ncalls = 2"]
    {
        let server = Server::start(|s| {
            s.config(&format!("[limits]\n{limits}\n"));
            s.tools(&[("echo", "/bin/echo")]);
            s.tool("sh", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\n");
        });
        // Arrivals while others end: each connection asks again at once.
        let serve = |n: usize| {
            let mut wire = server.connect();
            for turn in 0..10 {
                let (tool, args) =
                    if n % 4 == 3 { ("echo", json!([])) } else { ("sh", json!(["-c", "echo"])) };
                let reply = wire.call(&json!({"tool":tool,"args":args,"cwd":server.ws()}));
                assert_eq!(reply["stdout"], json!("\n"), "{limits}, {n}, {turn}: {reply}");
            }
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..12).map(|n| scope.spawn(move || serve(n))).collect();
            all.into_iter().for_each(|thread| thread.join().expect("every turn came"));
        });
    }
}

#[test]
fn where_too_many_wait_the_next_is_refused_as_busy() {
    let server = Server::start(|s| s.config("[limits]\ncalls = 1\nwaiting = 2\n"));
    let mut wires: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    for (n, wire) in wires.iter_mut().enumerate() {
        wire.send_json(&waiting(&server, n));
    }
    eventually("one runs, two wait", || {
        let calls = server.status()["calls"].clone();
        calls["running"] == json!(1) && calls["waiting"] == json!(2)
    });
    let reply = server.connect().call(&waiting(&server, 3));
    assert_eq!((&reply["code"], &reply["exit_code"]), (&json!("busy"), &json!(125)), "{reply}");
    let line = run(server.client("sh").args(["-c", "true"]), b"").refused(125);
    assert!(line.contains("again"), "does not say what to do: {line}");
    // A waiting caller that goes away makes room.
    drop(wires.pop());
    eventually("one waits", || server.status()["calls"]["waiting"] == json!(1));
    fs::write(server.ws().join("go"), "").expect("go");
    for (n, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.recv_json()["stdout"], json!(format!("{n}\n")));
    }
    assert!(!server.ws().join("up2").exists(), "the call of a caller that had gone ran");
    still_works(&server);
}

#[test]
fn one_connection_cannot_have_more_under_way_than_its_limit() {
    let server = Server::start(|s| s.config("[limits]\ncalls_per_connection = 3\n"));
    let mut wire = server.connect();
    for n in 0..6 {
        wire.send_json(&waiting(&server, n));
    }
    eventually("three run", || running(&server) == 3);
    fs::write(server.ws().join("go"), "").expect("go");
    let mut served: Vec<u64> = Vec::new();
    for _ in 0..6 {
        let reply = wire.recv_json();
        // Refused, or served when there was room: nothing is lost or crossed.
        let id = reply["id"].as_u64().expect("an id");
        let fine = reply["stdout"] == json!(format!("{id}\n"));
        assert!(fine || reply["code"] == json!("busy"), "{reply}");
        served.push(id);
    }
    served.sort_unstable();
    assert_eq!(served, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_connection_that_says_nothing_is_ended_and_so_is_half_a_frame() {
    let server = Server::start(|s| s.config("[timeouts]\nfirst_message = 4\nframe = 4\n"));
    let before = server.settled();
    let mut wires = [server.connect(), server.connect(), server.connect(), server.connect()];
    wires[1].send(&[0, 0]);
    wires[2].send(&[0, 0, 0, 9, b'{']);
    // One that has had its first message, and then stops in the middle.
    assert_eq!(wires[3].call(&json!({"op":"health"}))["ok"], json!(true));
    wires[3].send(&[0, 0, 0, 9, b'{']);
    for (n, wire) in wires.iter_mut().enumerate() {
        let all = wire.until_closed();
        let last: Value =
            serde_json::from_slice(all.last().expect("a last message")).expect("JSON");
        assert_eq!(
            (&last["code"], &last["exit_code"]),
            (&json!("too_slow"), &json!(125)),
            "{n}: {last}"
        );
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_connection_may_be_idle_between_two_calls() {
    let server = Server::start(|s| s.config("[timeouts]\nfirst_message = 4\nframe = 4\n"));
    let mut wire = server.connect();
    assert_eq!(wire.call(&json!({"op":"health"}))["ok"], json!(true));
    // Longer than both limits: another connection has been ended meanwhile.
    drop(server.connect().until_closed());
    drop(server.connect().until_closed());
    let reply =
        wire.call(&json!({"tool":"sh","args":["-c","sleep 0.5; echo slow"],"cwd":server.ws()}));
    assert_eq!(reply["stdout"], json!("slow\n"), "{reply}");
}

#[test]
fn a_request_beyond_its_limits_is_refused() {
    let server = Server::start(|s| {
        s.config("[limits]\nrequest_bytes = 10000\narguments = 20\nenvironment = 5\n");
    });
    let with = |args: Vec<String>, env: Vec<String>| {
        server.connect().call(&json!({"tool":"sh","args":args,"env":env,"cwd":server.ws()}))
    };
    let script = || vec!["-c".to_owned(), "touch ran".to_owned()];
    let many = [script(), vec!["x".into(); 30]].concat();
    let long = [script(), vec!["x".repeat(11_000)]].concat();
    let env: Vec<String> = (0..10).map(|n| format!("A{n}=1")).collect();
    for reply in [with(many, vec![]), with(long, vec![]), with(script(), env)] {
        assert_eq!(
            (&reply["code"], &reply["exit_code"]),
            (&json!("request_too_large"), &json!(125)),
            "{reply}"
        );
    }
    assert!(!server.ws().join("ran").exists());
    still_works(&server);
}

#[test]
fn connections_that_were_used_and_are_idle_make_room_for_others() {
    let server = Server::start(|s| s.config("[limits]\nconnections = 8\n"));
    let health = json!({"op":"health"});
    // Twice: also those that made room for none at first.
    let mut used: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    for _ in 0..2 {
        for wire in &mut used {
            assert_eq!(wire.call(&health)["ok"], json!(true));
        }
        let mut others: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
        others.iter_mut().for_each(|wire| wire.send_json(&health));
        for wire in &mut others {
            assert_eq!(wire.recv_json()["ok"], json!(true));
        }
        used = others;
    }
    still_works(&server);
}

#[test]
fn connections_beyond_the_limit_wait_and_are_served() {
    let server = Server::start(|s| s.config("[limits]\nconnections = 8\n"));
    let before = server.settled();
    let mut wires: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.call(&json!({"op":"health"}))["ok"], json!(true));
    }
    let mut ninth = server.connect();
    ninth.send_json(&json!({"op":"health"}));
    drop(wires);
    // Served once there is room, or told that there was none.
    let reply = ninth.recv_json();
    assert!(reply["ok"] == json!(true) || reply["code"] == json!("busy"), "{reply}");
    drop(ninth);
    server.nothing_left(before);
    still_works(&server);
}

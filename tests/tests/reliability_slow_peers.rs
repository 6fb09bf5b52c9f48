//! Peers that are slow or silent: they are ended, they hinder nobody, and the
//! operator can always look.

mod reliability_help;

use std::time::{Duration, Instant};

use reliability_help::{does_not_spin, script, start};
use serde_json::{Value, json};
use tool_broker_tests::wire::frame;
use tool_broker_tests::{PATIENCE, Wire, eventually, skipped, still_works};

/// The one message that a peer which was too slow gets.
#[track_caller]
fn too_slow(wire: &mut Wire) {
    let all = wire.until_closed();
    assert_eq!(all.len(), 1, "one message and the end");
    let last: Value = serde_json::from_slice(&all[0]).expect("JSON");
    assert_eq!((&last["code"], &last["exit_code"]), (&json!("too_slow"), &json!(125)), "{last}");
}

#[test]
fn a_hundred_silent_peers_are_told_and_closed_and_hinder_nobody() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_FIRST_MESSAGE", "2");
        s.env("TOOL_TIMEOUTS_FRAME", "2");
    });
    let before = server.settled();
    let mut slow: Vec<Wire> = (0..100).map(|_| server.connect()).collect();
    let half = frame(script(&server, "buffered", "touch ran").to_string().as_bytes());
    for (n, wire) in slow.iter_mut().enumerate() {
        match n % 4 {
            // Nothing; a part of the length; the length; all but the last byte.
            0 => {}
            1 => wire.send(&half[..2]),
            2 => wire.send(&half[..4]),
            _ => wire.send(&half[..half.len() - 1]),
        }
    }
    // Others are served meanwhile.
    for _ in 0..20 {
        still_works(&server);
    }
    slow.iter_mut().for_each(too_slow);
    drop(slow);
    assert!(!server.ws().join("ran").exists(), "half a request was run");
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_peer_that_stops_within_a_later_frame_or_a_continued_request_is_told_and_closed() {
    let server = start(|s| s.env("TOOL_TIMEOUTS_FRAME", "0.5"));
    let before = server.settled();
    let mut wires: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.call(&json!({"op":"health"}))["ok"], json!(true));
    }
    wires[0].send(&[0]);
    // A request that says that there is more, and then nothing, or half of it.
    let more = json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws(),"more":true});
    wires[1].send_json(&more);
    wires[2].send_json(&more);
    wires[2].send(&[0, 0, 0, 20, b'{']);
    wires.iter_mut().for_each(too_slow);
    drop(wires);
    assert!(!server.ws().join("ran").exists(), "half a request was run");
    server.nothing_left(before);
    still_works(&server);
}

/// One byte a moment is slow as well: what counts is the whole.
#[test]
fn a_peer_that_sends_a_byte_now_and_then_is_told_and_closed() {
    let server = start(|s| s.env("TOOL_TIMEOUTS_FIRST_MESSAGE", "1"));
    let before = server.settled();
    let mut wire = server.connect();
    let bytes = frame(script(&server, "buffered", &"x".repeat(4000)).to_string().as_bytes());
    let start = Instant::now();
    for byte in bytes {
        if wire.try_send(&[byte]).is_err() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    too_slow(&mut wire);
    server.nothing_left(before);
    still_works(&server);
}

/// A chunk of stdin that stops half-way, while its call runs.
#[test]
fn a_peer_that_stops_within_a_chunk_of_input_loses_its_call() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_FRAME", "0.5");
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    });
    let before = server.settled();
    let mut wire = server.connect();
    wire.send_json(&script(&server, "stream", "trap '' TERM; cat"));
    wire.send_input(b"first\n");
    wire.send(&[0, 0, 1, 0, 0, b'h', b'a', b'l', b'f']);
    let all = wire.until_closed();
    let last: Value = serde_json::from_slice(all.last().expect("a message")).expect("JSON");
    assert_eq!(last["exit_code"], json!(125), "{last}");
    drop(wire);
    server.nothing_left(before);
    still_works(&server);
}

/// Callers may hold all connections: the operator's socket answers all the same.
#[test]
fn the_operator_can_look_when_every_connection_is_taken() {
    let server = start(|s| s.config("[limits]\nconnections = 4\n"));
    let before = server.settled();
    let mut held: Vec<Wire> = Vec::new();
    // More than there may be: some are served, the others wait to be taken.
    for _ in 0..8 {
        let mut wire = server.connect();
        wire.send_json(&json!({"op":"health"}));
        held.push(wire);
    }
    assert_eq!(held[0].recv_json()["ok"], json!(true));
    let mut control = server.control();
    control.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let answer = control.try_call(&json!({"op":"status"}));
    assert!(
        answer.is_some_and(|answer| answer["calls"].is_object()),
        "no answer to `status` while callers hold every connection"
    );
    drop((control, held));
    server.nothing_left(before);
    still_works(&server);
}

/// Every socket is served, however few connections there may be at once.
#[test]
fn each_socket_is_served_however_few_connections_there_may_be() {
    let server = start(|s| {
        s.config(&format!(
            "[limits]\nconnections = 2\n{}",
            (0..4)
                .map(|n| format!(
                    "[[listen]]\npath = \"{}\"\n",
                    s.path(format!("run/{n}.sock")).display()
                ))
                .collect::<String>()
        ));
    });
    let request = script(&server, "buffered", "echo here");
    let mut unserved = Vec::new();
    for n in 0..4 {
        let mut wire = Wire::connect(&server.path(format!("run/{n}.sock")));
        wire.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let reply = wire.try_call(&request);
        if !reply.is_some_and(|reply| reply["stdout"] == json!("here\n")) {
            unserved.push(n);
        }
    }
    assert_eq!(unserved, [0; 0], "sockets at which nobody is served, with nothing else going on");
    still_works(&server);
}

/// A peer that has its answer and does not read it holds no CPU.
#[test]
fn a_peer_that_does_not_read_costs_no_cpu() {
    if !std::path::Path::new("/usr/bin/yes").exists() {
        return skipped("a_peer_that_does_not_read_costs_no_cpu", "no /usr/bin/yes");
    }
    let server = start(|_| ());
    let before = server.settled();
    let mut wires: Vec<Wire> = (0..10).map(|_| server.connect()).collect();
    for wire in &mut wires {
        wire.send_json(&script(&server, "stream", "exec yes"));
    }
    eventually("they run", || reliability_help::running(&server) == 10);
    // Until what is buffered on the way is full.
    let mut last = reliability_help::cpu_ticks(server.pid());
    eventually("the output is held up", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = reliability_help::cpu_ticks(server.pid());
        let still = now - last <= 1;
        last = now;
        still
    });
    does_not_spin(&server);
    still_works(&server);
    drop(wires);
    server.nothing_left(before);
    eventually("no call runs", || reliability_help::running(&server) == 0);
}

//! Bugs that were found in calls with JSON, and must not come back: each test failed on the
//! code of its time.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, still_works};

/// Peers that do not read are not given up within a test's time.
fn patient() -> Server {
    Server::start(|s| s.env("TOOL_TIMEOUTS_FRAME", "600"))
}

fn running(server: &Server) -> u64 {
    server.status()["calls"]["running"].as_u64().expect("how many run")
}

/// The bytes of output and the last message of the next call that ends.
fn last(wire: &mut Wire) -> (usize, Value) {
    let mut bytes = 0;
    loop {
        let frame = wire.recv_frame().expect("a frame");
        if frame.first() == Some(&1) {
            bytes += frame.len() - 1;
            continue;
        }
        let message: Value = serde_json::from_slice(&frame).expect("JSON");
        if message.get("success").is_some() {
            return (bytes, message);
        }
    }
}

#[test]
fn who_does_not_take_results_as_they_come_holds_no_thread() {
    let server = patient();
    fs::write(server.ws().join("lines"), ("x".repeat(900) + "\n").repeat(800)).expect("write");
    let input = json!({"pattern": "x", "path": "lines", "max_results": 3000});
    // As many as there are threads, and more.
    let mut deaf: Vec<Wire> = (0..20).map(|_| server.connect()).collect();
    for wire in &mut deaf {
        wire.send_json(&json!({"tool": "search_files", "input": input, "id": 1, "pieces": true}));
    }
    eventually("they are under way", || running(&server) > 0);
    let read = json!({"path": "lines", "end_line": 1});
    let seen = server.connect().call(&json!({"tool": "read_file", "input": read, "id": 2}));
    assert_eq!(seen["success"], json!(true), "{seen}");
    eventually("none runs any more", || running(&server) == 0);
    // Whoever does read has the whole at the end.
    let (_, seen) = last(&mut deaf[0]);
    assert_eq!(seen["success"], json!(true), "{seen}");
}

#[test]
fn answers_that_nobody_reads_take_bounded_memory() {
    let server = patient();
    let lines = ("\u{1}".repeat(1000) + "\n").repeat(1000);
    fs::write(server.ws().join("lines"), lines).expect("write");
    let input = json!({"pattern": ".", "path": "lines", "max_results": 3000});
    let mut deaf: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    for wire in &mut deaf {
        for id in 0..16 {
            wire.send_json(&json!({"tool": "search_files", "input": input, "id": id}));
        }
    }
    eventually("all are done", || server.status()["calls"]["finished"].as_u64() >= Some(48));
    let (mut given, mut refused) = (0, 0);
    for _ in 0..16 {
        for wire in &mut deaf {
            let (bytes, seen) = last(wire);
            given += bytes;
            if seen["success"] == json!(false) {
                assert_eq!(seen["error"]["code"], json!("BUSY"), "{seen}");
                assert_eq!(bytes, 0, "{seen}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && given <= 140 << 20, "{refused} refused, {given} bytes given");
    // Once they are read there is room again.
    deaf[0].send_json(&json!({"tool": "search_files", "input": input, "id": "more"}));
    let (bytes, seen) = last(&mut deaf[0]);
    assert!(bytes > 1 << 20 && seen["success"] == json!(true), "{seen}");
    still_works(&server);
}

#[test]
fn a_long_input_that_is_read_keeps_nobody_waiting() {
    let server = patient();
    // It takes a second and more to find that this is nothing.
    let input = format!("{{\"argv\":[{}0]}}", "0,".repeat(11 << 20));
    let mut wire = server.connect();
    wire.send_json(&json!({"tool": "run_command", "input_bytes": input.len(), "id": 1}));
    let (mut others, mut answered) = (server.connect(), 0);
    for piece in input.as_bytes().chunks(60_000) {
        wire.send_input(piece);
    }
    wire.stream.set_nonblocking(true).expect("not to wait");
    let seen = loop {
        assert_eq!(others.call(&json!({"op": "health"}))["ok"], json!(true));
        let mut one = [0];
        match std::io::Read::read(&mut wire.stream, &mut one) {
            Ok(1) => break one,
            _ => answered += 1,
        }
    };
    assert_eq!(seen, [0]);
    assert!(answered >= 20, "others were answered {answered} times meanwhile");
}

#[test]
fn the_brokers_own_tools_are_served_where_there_are_no_others() {
    let server = Server::start(|s| fs::remove_dir_all(s.path("tools.d/sh")).expect("remove"));
    let input = json!({"path": "a", "content": "x"});
    let seen = server.connect().call(&json!({"tool": "write_file", "input": input, "id": 1}));
    assert_eq!(seen["success"], json!(true), "{seen}");
}

#[test]
fn a_definition_that_is_taken_away_does_not_give_way_to_what_ships() {
    let server = Server::start(|s| {
        s.file("agent.d/write_file.toml", "default = \"deny\"\n", 0o644);
        s.env("TOOL_AGENT_DEFINITIONS", s.path("agent.d"));
    });
    let input = json!({"path": "a", "content": "x"});
    let call = json!({"tool": "write_file", "input": input, "id": 1});
    assert_eq!(server.connect().call(&call)["error"]["code"], json!("DENIED"));
    fs::remove_file(server.path("agent.d/write_file.toml")).expect("remove");
    server.control().call(&json!({"op": "reload"}));
    assert_eq!(server.connect().call(&call)["error"]["code"], json!("DENIED"));
    eventually("status says so", || server.status()["problems"].to_string().contains("write_file"));
    server.file("agent.d/write_file.toml", "default = \"allow\"\n", 0o644);
    server.control().call(&json!({"op": "reload"}));
    eventually("another is taken", || server.connect().call(&call)["success"] == json!(true));
}

#[test]
fn a_long_input_that_is_announced_and_not_sent_takes_nobodys_room() {
    let server = Server::start(|s| {
        s.env("TOOL_TIMEOUTS_FRAME", "600");
        s.env("TOOL_LIMITS_WAITING_BYTES", "400000");
    });
    let announce = |bytes: usize| json!({"tool": "run_command", "input_bytes": bytes, "id": 1});
    let mut silent: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    silent.iter_mut().for_each(|wire| wire.send_json(&announce(300_000)));
    // They have been heard by then: what says more than it announced is answered.
    let mut heard = server.connect();
    heard.send_json(&announce(1));
    heard.send_input(b"{}");
    assert_eq!(heard.recv_json()["code"], json!("bad_request"));
    for _ in 0..50 {
        assert_eq!(server.connect().call(&json!({"op": "health"}))["ok"], json!(true));
    }
    let input = json!({"argv": ["wc", "-c"], "stdin": "x".repeat(200_000)}).to_string();
    let send = |wire: &mut Wire| {
        wire.send_json(&announce(input.len()));
        input.as_bytes().chunks(60_000).for_each(|piece| wire.send_input(piece));
        wire.recv_json()
    };
    let seen = send(&mut server.connect());
    assert_eq!(seen["output"]["stdout"], json!("200000\n"), "{seen}");
    // What was sent takes room, until it is whole or given up.
    for wire in &mut silent {
        wire.send_input(&[b' '; 60_000]);
        wire.send_input(&[b' '; 60_000]);
    }
    for _ in 0..50 {
        assert_eq!(server.connect().call(&json!({"op": "health"}))["ok"], json!(true));
    }
    let late = || {
        let mut wire = server.connect();
        let input = format!("{:60000}", json!({"argv": ["true"]}).to_string());
        wire.send_json(&announce(input.len()));
        wire.send_input(input.as_bytes());
        wire.recv_json()
    };
    let busy = late();
    assert_eq!((&busy["code"], &busy["id"]), (&json!("busy"), &json!(1)), "{busy}");
    drop(silent);
    eventually("room again", || late()["success"] == json!(true));
    still_works(&server);
}

#[test]
fn a_message_has_the_callers_own_words_for_its_directory() {
    let server = patient();
    let at = server.ws().to_str().expect("UTF-8").to_owned();
    let outside = format!("{at}/../x");
    for (cwd, code, words) in [
        ("../x", "PATH_OUTSIDE_WORKSPACE", "the directory ../x is not beneath"),
        ("no/such", "CWD_NOT_FOUND", "the directory no/such does not exist"),
        (&outside, "PATH_OUTSIDE_WORKSPACE", &*format!("the directory {outside} is not beneath")),
        ("/etc", "PATH_OUTSIDE_WORKSPACE", "the directory /etc is not beneath"),
    ] {
        for (tool, mut input) in [
            ("run_command", json!({"argv": ["true"]})),
            ("run_shell", json!({"command": "true"})),
            ("dev_server_start", json!({"argv": ["true"]})),
        ] {
            input["cwd"] = json!(cwd);
            let seen = server.connect().call(&json!({"tool": tool, "input": input, "id": 1}));
            assert_eq!(seen["error"]["code"], json!(code), "{tool}: {seen}");
            let message = seen["error"]["message"].as_str().expect("text");
            assert!(message.contains(words), "{tool}: {message}");
            assert!(cwd.contains(&at) || !message.contains(&at), "{tool}: {message}");
        }
    }
}

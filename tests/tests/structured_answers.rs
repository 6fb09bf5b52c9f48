//! Answers to calls with JSON, whoever writes them, the session or the thread that did the
//! work: each whole, each after what its call told, each after its line in the audit.

mod audit_help;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;

use audit_help::{Strace, head, lines};
use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, skipped, still_works};

const MANY: usize = 150;

/// Of many sizes: in one message, in several, and more than a socket holds.
fn size(number: usize) -> usize {
    [10, 3_000, 60_000, 70_000, 400_000][number % 5] + number
}

fn text(number: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(number % 26).expect("a letter"));
    letter.to_string().repeat(size(number))
}

fn patient() -> Server {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_FRAME", "600"));
    for number in 0..MANY {
        fs::write(server.ws().join(format!("file{number}")), text(number)).expect("write");
    }
    server
}

fn read(number: usize) -> Value {
    json!({"tool": "read_file", "input": {"path": format!("file{number}")}, "id": number})
}

fn running(server: &Server) -> u64 {
    server.status()["calls"]["running"].as_u64().expect("how many run")
}

/// The next last message, with its output wherever that was.
fn answer(wire: &mut Wire) -> Value {
    let mut text = Vec::new();
    loop {
        let frame = wire.recv_frame().expect("a frame");
        if frame.first() == Some(&1) {
            text.extend_from_slice(&frame[1..]);
            continue;
        }
        let mut seen: Value = serde_json::from_slice(&frame).expect("JSON");
        if !text.is_empty() {
            assert_eq!(seen["output_bytes"], json!(text.len()), "chunks belong to one call");
            seen["output"] = serde_json::from_slice(&text).expect("JSON");
        }
        return seen;
    }
}

#[track_caller]
fn is_whole(seen: &Value) -> usize {
    let number = usize::try_from(seen["id"].as_u64().expect("an id")).expect("a number");
    assert_eq!(seen["success"], json!(true), "{number}");
    assert!(seen["output"]["content"] == json!(text(number)), "{number} is another's");
    number
}

#[test]
fn many_answers_to_a_reader_that_is_slow_are_each_whole() {
    let server = patient();
    let mut wire = server.connect();
    for number in 0..MANY {
        wire.send_json(&read(number));
    }
    // The socket is full, and something of an answer is in it.
    eventually("no more is done", || {
        let before = server.status()["calls"]["finished"].as_u64();
        before > Some(2) && running(&server) == 0
    });
    let mut seen = HashSet::new();
    for _ in 0..MANY {
        assert!(seen.insert(is_whole(&answer(&mut wire))), "answered twice");
    }
    still_works(&server);
}

#[test]
fn pieces_come_before_the_answer_and_other_answers_between_them_are_whole() {
    let server = patient();
    let found = "x\n".repeat(300);
    fs::write(server.ws().join("lines"), &found).expect("write");
    let mut wire = server.connect();
    let input = json!({"pattern": "x", "path": "lines", "max_results": 300});
    let (mut pieces, mut ended) = (HashMap::<u64, usize>::new(), HashSet::new());
    let rounds = 20;
    for round in 0..rounds {
        let id = 1000 + round;
        let search = json!({"tool": "search_files", "input": input, "id": id, "pieces": true});
        wire.send_json(&search);
        wire.send_json(&read(5 * round));
        wire.send_json(&read(5 * round + 1));
        while ended.len() < 3 * (round + 1) {
            let frame = wire.recv_frame().expect("a frame");
            let message: Value = serde_json::from_slice(&frame).expect("JSON");
            let id = message["id"].as_u64().expect("an id");
            if message.get("piece").is_some() {
                assert!(!ended.contains(&id), "a piece after its answer");
                *pieces.entry(id).or_default() += 1;
                continue;
            }
            if id < 1000 {
                is_whole(&message);
            }
            assert!(ended.insert(id), "answered twice");
        }
    }
    assert_eq!(pieces.len(), rounds, "each search gave some");
}

#[test]
fn who_goes_in_the_middle_of_an_answer_leaves_nothing_behind() {
    let server = patient();
    still_works(&server);
    let before = server.settled();
    for round in 0..30 {
        let mut wire = server.connect();
        for number in 0..16 {
            wire.send_json(&read((round + number) % MANY));
        }
        let mut some = vec![0; 1 + round * 5_000];
        wire.stream.read_exact(&mut some).expect("some of it");
    }
    eventually("none runs any more", || running(&server) == 0);
    still_works(&server);
    server.nothing_left(before);
}

/// Who has an answer may go on as if the server knew.
#[test]
fn an_answered_call_is_not_under_way() {
    let server = patient();
    let mut wire = server.connect();
    for round in 0..90 {
        is_whole(&wire.call(&read(5 * (round % 20))));
        let program =
            json!({"tool": "sh", "args": ["-c", "echo on"], "cwd": server.ws(), "stdio": "stream"});
        if round % 3 == 0 {
            wire.send_json(&program);
            let streamed = wire.recv_stream();
            assert_eq!(streamed.stdout, b"on\n", "{:?}", streamed.last);
        }
    }
    assert_eq!(running(&server), 0);
}

/// What the audit says of the calls that ended well, by their ids.
fn recorded(server: &Server) -> HashSet<String> {
    let ended = lines(server).into_iter().filter(|line| line["ended"] == json!("exited"));
    ended.filter_map(|line| Some(line["call_id"].as_str()?.to_owned())).collect()
}

#[test]
fn whoever_has_an_answer_finds_its_line_in_the_audit() {
    for (setting, value) in
        [("MAX_BYTES", "5000"), ("SYNC", "each"), ("SYNC", "never"), ("STDOUT", "true")]
    {
        let server = Server::start(|s| {
            s.env(format!("TOOL_AUDIT_{setting}"), value);
            s.env("TOOL_AUDIT_KEEP", "0");
        });
        fs::write(server.ws().join("file0"), text(0)).expect("write");
        let mut wire = server.connect();
        let mut ids = HashSet::new();
        for _ in 0..60 {
            let seen = wire.call(&read(0));
            is_whole(&seen);
            let id = seen["call_id"].as_str().expect("a call id").to_owned();
            assert!(recorded(&server).contains(&id), "{setting} {value}: {id} has no line");
            ids.insert(id);
        }
        assert_eq!(recorded(&server), ids, "{setting} {value}: one line each");
        head(&server);
    }
}

/// Writing to the audit takes long, so that nobody is lucky.
#[test]
fn an_answer_waits_for_its_line() {
    let test = "an_answer_waits_for_its_line";
    let server = patient();
    let mut wire = server.connect();
    is_whole(&wire.call(&read(0)));
    let slow = "pwrite64:delay_enter=100000";
    let Some(_strace) = Strace::of(server.pid(), &["tool-server", "files"], slow) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    for _ in 0..5 {
        let seen = wire.call(&read(0));
        is_whole(&seen);
        let id = seen["call_id"].as_str().expect("a call id");
        assert!(recorded(&server).contains(id), "{id} has no line");
    }
}

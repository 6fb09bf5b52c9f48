//! A connection that is lent to the thread that answers its calls for files: whatever comes
//! next, and whenever, is heard as if it were not.

mod audit_help;

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

use audit_help::{Strace, lines};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::wire::frame;
use tool_broker_tests::{Server, Wire, eventually, skipped, still_works};

/// The connection is lent for 2 ms, and looked at after 5: before, between, and after.
const WAITS: [u64; 4] = [0, 1, 4, 12];

fn server() -> Server {
    let server = Server::start(|_| {});
    for number in 0..8 {
        fs::write(server.ws().join(format!("file{number}")), format!("text {number}\n"))
            .expect("write");
    }
    server
}

fn read(number: usize) -> Value {
    json!({"tool": "read_file", "input": {"path": format!("file{number}")}, "id": number})
}

#[track_caller]
fn reads(wire: &mut Wire, number: usize) {
    is_read(&wire.call(&read(number)), number);
}

#[track_caller]
fn is_read(seen: &Value, number: usize) {
    assert_eq!(seen["id"], json!(number), "{seen}");
    assert_eq!(seen["output"]["content"], json!(format!("text {number}\n")), "{seen}");
}

fn running(server: &Server) -> u64 {
    server.status()["calls"]["running"].as_u64().expect("how many run")
}

/// Traces such calls of the session's thread; how many of them, by now, are as `such` says.
fn traced(
    server: &Server,
    calls: &str,
    such: impl Fn(&str) -> bool,
) -> Option<(Strace, impl Fn() -> usize)> {
    let log = server.path("trace");
    let strace = Strace::trace(server.pid(), &["tool-server"], calls, &log)?;
    let count = move || {
        let text = fs::read_to_string(&log).expect("the trace");
        text.lines().filter(|line| such(line)).count()
    };
    Some((strace, count))
}

/// The session has the socket watched when it has it back.
fn has_it_watched(line: &str) -> bool {
    line.contains("EPOLL_CTL_ADD")
}

/// An edit that waits for as long as this is held.
fn long(server: &Server) -> (Flock<File>, Value) {
    let file = File::open(server.ws().join("file7")).expect("open");
    let lock = Flock::lock(file, FlockArg::LockExclusive).expect("lock");
    let input = json!({"path": "file7", "old_text": "text", "new_text": "word"});
    (lock, json!({"tool": "edit_file", "input": input, "id": "long"}))
}

#[test]
fn the_next_call_is_read_by_the_thread_that_has_answered_the_one_before() {
    let test = "the_next_call_is_read_by_the_thread_that_has_answered_the_one_before";
    let server = server();
    let mut wire = server.connect();
    reads(&mut wire, 0);
    let Some((strace, watched)) = traced(&server, "epoll_ctl", has_it_watched) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    // A client that is away for too long wakes the session: some of many go without.
    eventually("several calls go without the session", || {
        let before = watched();
        (0..20).for_each(|round| reads(&mut wire, round % 8));
        std::thread::sleep(Duration::from_millis(20));
        (1..10).contains(&(watched() - before))
    });
    drop(strace);
}

/// The record of calls takes room on the disk as it grows: not by the session, which would have
/// the connection back for it.
#[test]
fn whoever_does_a_call_makes_room_for_its_record() {
    let test = "whoever_does_a_call_makes_room_for_its_record";
    let server = server();
    let mut wire = server.connect();
    reads(&mut wire, 0);
    let Some((strace, watched)) = traced(&server, "epoll_ctl", has_it_watched) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    eventually("many calls go without the session", || {
        let before = watched();
        (0..1000).for_each(|round| reads(&mut wire, round % 8));
        watched() - before < 4
    });
    drop(strace);
}

/// The record of a call that is refused may need a file to be opened, which a thread that reaches
/// the workspace alone cannot do.
#[test]
fn the_record_of_a_refused_call_is_the_sessions() {
    let test = "the_record_of_a_refused_call_is_the_sessions";
    let server = Server::start(|s| {
        s.file(
            "agent.d/list_directory.toml",
            "default = \"allow\"\n[limits]\nrate = \"1/hour\"\n",
            0o644,
        );
        s.env("TOOL_AGENT_DEFINITIONS", s.path("agent.d"));
    });
    fs::write(server.ws().join("file0"), "text 0\n").expect("write");
    let mut wire = server.connect();
    let list = json!({"tool": "list_directory", "input": {}, "id": "list"});
    assert_eq!(wire.call(&list)["success"], json!(true));
    reads(&mut wire, 0);
    let Some((strace, written)) = traced(&server, "pwrite64", |line| line.contains("pwrite64("))
    else {
        return skipped(test, "strace is not here, or may not trace");
    };
    eventually("most are", || {
        let before = written();
        for _ in 0..20 {
            // By the thread that has the connection after that.
            reads(&mut wire, 0);
            assert_eq!(wire.call(&list)["error"]["code"], json!("RATE_LIMITED"));
        }
        let by_session = written() - before;
        let lines =
            lines(&server).iter().filter(|line| line.to_string().contains("rate_limited")).count();
        assert!(lines >= 20, "{lines}");
        by_session >= 10
    });
    drop(strace);
}

/// Where each record is to be on the disk first no call is a thread's to answer: the session
/// reads the next itself, and does not wait for the thread.
#[test]
fn behind_a_call_that_no_thread_answers_the_session_reads_at_once() {
    let test = "behind_a_call_that_no_thread_answers_the_session_reads_at_once";
    let server = Server::start(|s| s.env("TOOL_AUDIT_SYNC", "each"));
    fs::write(server.ws().join("file0"), "text 0\n").expect("write");
    let mut wire = server.connect();
    reads(&mut wire, 0);
    let in_vain = |line: &str| line.ends_with("= 0");
    let Some((strace, waited_in_vain)) = traced(&server, "epoll_wait", in_vain) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    eventually("most calls wait for no clock", || {
        let before = waited_in_vain();
        (0..100).for_each(|_| reads(&mut wire, 0));
        waited_in_vain() - before < 50
    });
    drop(strace);
}

#[test]
fn whatever_comes_behind_an_answer_is_heard() {
    let server = server();
    let program = json!({"tool": "sh", "args": ["-c", "echo on"], "cwd": server.ws()});
    let alias = json!({"tool": "read", "input": {"path": "file1"}, "id": 1});
    let argv = json!({"tool": "run_command", "input": {"argv": ["echo", "on"]}, "id": 2});
    fs::write(server.ws().join("new"), "").expect("write");
    let wrong = json!({"tool": "read_file", "input": {"path": "not there"}, "id": 3});
    let list = json!({"tool": "list_directory", "input": {}, "id": 4, "pieces": true});
    for wait in WAITS {
        let mut wire = server.connect();
        for _ in 0..3 {
            let lent = |wire: &mut Wire| {
                reads(wire, 0);
                reads(wire, 1);
                std::thread::sleep(Duration::from_millis(wait));
            };
            lent(&mut wire);
            assert_eq!(wire.call(&json!({"op": "health"}))["ok"], json!(true), "{wait}");
            lent(&mut wire);
            assert_eq!(wire.call(&program)["stdout"], json!("on\n"), "{wait}");
            lent(&mut wire);
            assert_eq!(wire.call(&alias)["output"]["content"], json!("text 1\n"), "{wait}");
            lent(&mut wire);
            assert_eq!(wire.call(&argv)["output"]["stdout"], json!("on\n"), "{wait}");
            lent(&mut wire);
            assert_eq!(wire.call(&wrong)["error"]["code"], json!("FILE_NOT_FOUND"), "{wait}");
            lent(&mut wire);
            wire.send_json(&list);
            let pieces = (0..9).filter(|_| wire.recv_json().get("piece").is_some()).count();
            assert_eq!((pieces, &wire.recv_json()["id"]), (9, &json!(4)), "{wait}");
            lent(&mut wire);
            wire.send_json(&json!({"tool": "write_file", "input_bytes": 31, "id": 5}));
            wire.send_input(br#"{"path":"new","content":"some"}"#);
            assert_eq!(wire.recv_json()["success"], json!(true), "{wait}");
            lent(&mut wire);
            // In two parts, and behind one that is whole.
            let whole = frame(read(2).to_string().as_bytes());
            let (first, rest) = whole.split_at(3 + usize::try_from(wait).expect("few"));
            wire.send(first);
            std::thread::sleep(Duration::from_millis(wait));
            wire.send(rest);
            is_read(&wire.recv_json(), 2);
            wire.send(&[&whole, first].concat());
            is_read(&wire.recv_json(), 2);
            wire.send(rest);
            is_read(&wire.recv_json(), 2);
        }
        reads(&mut wire, 0);
        std::thread::sleep(Duration::from_millis(wait));
        let file = File::open(server.ws().join("file0")).expect("open");
        wire.send_with_fds(&read(1), &[file.as_fd()]);
        let last = wire.until_closed();
        let last: Value = serde_json::from_slice(last.last().expect("a message")).expect("JSON");
        assert_eq!(last["code"], json!("bad_fds"), "{wait}: {last}");
        let mut wire = server.connect();
        reads(&mut wire, 0);
        std::thread::sleep(Duration::from_millis(wait));
        wire.send(&[0, 0, 0, 0]);
        let last = wire.until_closed();
        let last: Value = serde_json::from_slice(last.last().expect("a message")).expect("JSON");
        assert_eq!(last["code"], json!("bad_frame"), "{wait}: {last}");
    }
    still_works(&server);
}

#[test]
fn many_calls_at_once_are_each_answered_once() {
    let server = server();
    let mut wire = server.connect();
    for round in 0..40 {
        (0..16).for_each(|number| wire.send_json(&read(number % 8)));
        let mut seen = [0; 8];
        for _ in 0..16 {
            let answer = wire.recv_json();
            let number = usize::try_from(answer["id"].as_u64().expect("an id")).expect("few");
            is_read(&answer, number);
            seen[number] += 1;
        }
        assert_eq!(seen, [2; 8], "round {round}");
    }
}

/// Up to so many calls under way all the time, each answer followed by the next call.
fn keep_going(wire: &mut Wire, at_once: usize, calls: usize) {
    let (mut sent, mut answered) = (0, 0);
    while answered < calls {
        while sent < calls && sent - answered < at_once {
            wire.send_json(&read(sent % 8));
            sent += 1;
        }
        let answer = wire.recv_json();
        let number = usize::try_from(answer["id"].as_u64().expect("an id")).expect("few");
        is_read(&answer, number);
        answered += 1;
    }
}

#[test]
fn calls_that_come_all_the_time_are_done_by_threads_that_read_in_turn() {
    let test = "calls_that_come_all_the_time_are_done_by_threads_that_read_in_turn";
    let server = server();
    let mut wire = server.connect();
    keep_going(&mut wire, 8, 100);
    let Some((strace, read)) = traced(&server, "recvmsg", |_| true) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    // The session reads a message now and then, where a thread was held up.
    eventually("the session reads few of many", || {
        let before = read();
        keep_going(&mut wire, 8, 400);
        read() - before < 100
    });
    drop(strace);
    assert_eq!(running(&server), 0);
}

#[test]
fn a_long_call_among_short_ones_keeps_none_of_them_waiting_and_can_be_ended() {
    let server = server();
    for at_once in [1, 2, 5] {
        let mut wire = server.connect();
        keep_going(&mut wire, at_once, 20);
        let (lock, edit) = long(&server);
        wire.send_json(&edit);
        keep_going(&mut wire, at_once, 200);
        assert_eq!(running(&server), 1);
        wire.send_json(&json!({"signal": "INT", "id": "long"}));
        let seen = wire.recv_json();
        assert_eq!((&seen["id"], &seen["success"]), (&json!("long"), &json!(false)), "{seen}");
        // And where as many are long as threads would do calls.
        (0..4).for_each(|_| wire.send_json(&edit));
        keep_going(&mut wire, at_once, 20);
        drop(wire);
        eventually("they have ended", || running(&server) == 0);
        drop(lock);
    }
    assert_eq!(fs::read(server.ws().join("file7")).expect("read"), b"text 7\n");
}

/// An answer may go out with the next one; where that does not come it goes alone.
#[test]
fn an_answer_does_not_wait_for_a_long_call_behind_it() {
    let server = server();
    let mut wire = server.connect();
    for round in 0..20 {
        keep_going(&mut wire, 4, 20);
        let (lock, edit) = long(&server);
        let both = [read(round % 7), edit].map(|message| frame(message.to_string().as_bytes()));
        wire.stream.write_all(&both.concat()).expect("send");
        is_read(&wire.recv_json(), round % 7);
        assert_eq!(running(&server), 1, "the other is under way");
        wire.send_json(&json!({"signal": "INT", "id": "long"}));
        let seen = wire.recv_json();
        assert_eq!((&seen["id"], &seen["success"]), (&json!("long"), &json!(false)), "{seen}");
        drop(lock);
    }
}

/// An operation that waits for something, behind a call whose answer could go out with another.
#[test]
fn an_answer_does_not_wait_for_an_operation_behind_it() {
    let server = server();
    let mut wire = server.connect();
    let ask = json!({"op": "tools", "format": "mcp"});
    wire.send_json(&ask);
    // Its text, in chunks, and then its message.
    let mut frames = std::iter::from_fn(|| wire.recv_frame());
    let last = frames.find(|frame| frame.first() == Some(&b'{')).expect("a message");
    let version = serde_json::from_slice::<Value>(&last).expect("JSON")["version"].clone();
    assert!(!version.is_null());
    let ask = json!({"op": "tools", "format": "mcp", "after": version});
    for round in 0..3 {
        let mut wire = server.connect();
        keep_going(&mut wire, 4, 20);
        let both = [read(round), ask.clone()].map(|message| frame(message.to_string().as_bytes()));
        let asked = std::time::Instant::now();
        wire.stream.write_all(&both.concat()).expect("send");
        is_read(&wire.recv_json(), round);
        // The other waits for a change of the tools, for 20 s.
        assert!(asked.elapsed() < Duration::from_secs(15), "it went out with the next");
    }
}

#[test]
fn who_reads_no_answers_is_not_heard_any_further() {
    const CALLS: usize = 2000;
    let server = server();
    fs::write(server.ws().join("longer"), "x".repeat(40_000)).expect("write");
    let mut wire = server.connect();
    keep_going(&mut wire, 4, 20);
    let ask = json!({"tool": "read_file", "input": {"path": "longer"}, "id": 9});
    let (mut all, before) = (wire.stream.try_clone().expect("clone"), lines(&server).len());
    std::thread::scope(|scope| {
        let asks = frame(ask.to_string().as_bytes()).repeat(CALLS);
        scope.spawn(move || all.write_all(&asks).expect("all are heard in the end"));
        let done = || lines(&server).len() - before;
        eventually("nothing goes on", || {
            let now = done();
            std::thread::sleep(Duration::from_millis(500));
            now > 0 && now == done()
        });
        // What the socket takes, what may wait, and a call of each thread.
        assert!(done() < 100, "{} are done", done());
        still_works(&server);
        for _ in 0..CALLS {
            let seen = wire.recv_json();
            assert_eq!((&seen["id"], &seen["success"]), (&json!(9), &json!(true)));
        }
    });
    keep_going(&mut wire, 4, 20);
}

/// Calls that are answered where they are done, and such as go back to the session.
fn mixed(number: usize) -> Value {
    match number % 3 {
        0 => json!({"tool": "read_file", "input": {"path": "not there"}, "id": number}),
        _ => json!({"tool": "read_file", "input": {"path": "file1"}, "id": number}),
    }
}

#[test]
fn who_says_no_more_has_an_answer_to_each_call() {
    let server = server();
    for round in 0..150 {
        let mut wire = server.connect();
        keep_going(&mut wire, 4, 8);
        let calls = 1 + round % 9;
        (0..calls).for_each(|number| wire.send_json(&mixed(number)));
        wire.stream.shutdown(Shutdown::Write).expect("shutdown");
        let mut ids: Vec<u64> = wire
            .until_closed()
            .iter()
            .map(|answer| serde_json::from_slice::<Value>(answer).expect("JSON"))
            .map(|answer| answer["id"].as_u64().expect("an id"))
            .collect();
        ids.sort_unstable();
        let all: Vec<u64> = (0..calls as u64).collect();
        assert_eq!(ids, all, "round {round}");
    }
}

#[test]
fn who_goes_at_any_moment_ends_its_own_calls_and_nothing_else() {
    let server = server();
    let run = json!({"tool": "run_command", "input": {"argv": ["true"]}, "id": "run"});
    for round in 0..150_u32 {
        let mut wire = server.connect();
        keep_going(&mut wire, 4, 8);
        wire.send_json(&run);
        (0..round as usize % 12).for_each(|number| wire.send_json(&mixed(number)));
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(u64::from(100 * (round % 40))));
        }
        drop(wire);
    }
    eventually("all have ended", || running(&server) == 0);
    still_works(&server);
}

#[test]
fn a_long_call_keeps_nothing_behind_it_from_being_heard() {
    let server = server();
    for wait in WAITS {
        let mut wire = server.connect();
        reads(&mut wire, 0);
        std::thread::sleep(Duration::from_millis(wait));
        let (lock, edit) = long(&server);
        wire.send_json(&edit);
        // Beside it.
        reads(&mut wire, 1);
        reads(&mut wire, 2);
        wire.send_json(&json!({"signal": "INT", "id": "long"}));
        let seen = wire.recv_json();
        assert_eq!((&seen["id"], &seen["success"]), (&json!("long"), &json!(false)), "{seen}");
        drop(lock);
        reads(&mut wire, 3);
        assert_eq!(fs::read(server.ws().join("file7")).expect("read"), b"text 7\n");
    }
}

#[test]
fn who_goes_in_the_middle_of_a_long_call_ends_it() {
    let server = server();
    still_works(&server);
    let before = server.settled();
    for wait in WAITS {
        let mut wire = server.connect();
        reads(&mut wire, 0);
        std::thread::sleep(Duration::from_millis(wait));
        let (lock, edit) = long(&server);
        wire.send_json(&edit);
        eventually("it runs", || running(&server) == 1);
        drop(wire);
        eventually("it has ended", || running(&server) == 0);
        drop(lock);
        let last = lines(&server).pop().expect("a line");
        // Nobody waits any more: else it would have waited for another 5 seconds.
        let took = last["duration_ms"].as_f64().expect("how long");
        assert!(last["tool"] == json!("edit_file") && took < 4_500.0, "{last}");
    }
    for wait in WAITS {
        let mut wire = server.connect();
        reads(&mut wire, 0);
        std::thread::sleep(Duration::from_millis(wait));
    }
    assert_eq!(fs::read(server.ws().join("file7")).expect("read"), b"text 7\n");
    server.nothing_left(before);
}

#[test]
fn more_connections_than_threads_are_all_served() {
    let server = server();
    std::thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                let mut wire = server.connect();
                (0..60).for_each(|round| reads(&mut wire, round % 8));
            });
        }
    });
    assert_eq!(running(&server), 0);
}

#[test]
fn a_stop_waits_for_what_is_under_way_and_for_nothing_else() {
    for long_one in [false, true] {
        let server = server();
        let mut wire = server.connect();
        reads(&mut wire, 0);
        let held = long_one.then(|| {
            let (lock, edit) = long(&server);
            wire.send_json(&edit);
            eventually("it runs", || running(&server) == 1);
            lock
        });
        server.signal(Signal::SIGTERM);
        if long_one {
            server.logs("stopping");
            drop(held);
            let seen = wire.recv_json();
            assert_eq!((&seen["id"], &seen["success"]), (&json!("long"), &json!(true)), "{seen}");
        } else {
            // Whatever is sent meanwhile has an answer, or the connection ends.
            while let Some(seen) = wire.try_call(&read(1)) {
                let refused = seen["error"]["code"] == json!("DRAINING");
                assert!(refused || seen["success"] == json!(true), "{seen}");
            }
        }
        server.stop(Signal::SIGTERM);
    }
}

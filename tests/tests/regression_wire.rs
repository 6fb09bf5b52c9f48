//! Bugs that were found in what a connection says, and must not come back: each
//! test failed on the code of its time.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::lingering::{answers, lingering};
use tool_broker_tests::wire::frame;
use tool_broker_tests::{Server, Wire, eventually, still_works};

#[test]
fn a_refused_descriptor_that_takes_long_to_close_holds_up_nobody() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let ws = server.ws();
    for request in [
        json!({"tool":"no-such-tool","cwd":ws,"stdio":"fds","fds":[0]}),
        json!({"tool":"sh","cwd":ws,"stdio":"fds","fds":[0,1]}),
        json!({"tool":"sh","cwd":ws,"stdio":"buffered"}),
        json!({"op":"health"}),
    ] {
        let (full, _other) = lingering();
        let mut wire = server.connect();
        // Ours must be closed before the server closes its own.
        server.signal(Signal::SIGSTOP);
        wire.send_with_fds(&request, &[full.as_fd()]);
        drop(full);
        server.signal(Signal::SIGCONT);
        answers(&server, &request.to_string());
        assert!(wire.recv_json()["code"].is_string(), "{request} was not refused");
    }
    server.nothing_left(before);
    still_works(&server);
}

/// The server has read what was sent before: who asks later is answered later.
/// Descriptors must not come with the same read as the message before theirs.
#[track_caller]
fn has_read(server: &Server) {
    for _ in 0..2 {
        answers(server, "between two messages");
    }
}

#[test]
fn descriptors_beside_something_that_is_no_request_end_the_connection() {
    let server = Server::start(|s| s.tool("cat", r#"{"binary":"/bin/cat"}"#));
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    let passed = [null.as_fd(), null.as_fd(), null.as_fd()];
    let bad_fds = |what: &str, mut wire: Wire| {
        let frames = wire.until_closed();
        let first = frames.iter().find(|payload| payload.starts_with(b"{"));
        let first = first.unwrap_or_else(|| panic!("{what}: no answer"));
        let reply: Value = serde_json::from_slice(first).expect("JSON");
        let wanted = (&json!("bad_fds"), &json!(125));
        assert_eq!((&reply["code"], &reply["exit_code"]), wanted, "{what}");
        server.nothing_left(before);
    };

    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"sh","args":["-c"],"cwd":server.ws(),"more":true}));
    has_read(&server);
    wire.send_with_fds(&json!({"args":["touch ran"]}), &passed);
    bad_fds("a continuation", wire);
    assert!(!server.ws().join("ran").exists(), "it ran all the same");

    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"cat","cwd":server.ws(),"stdio":"stream"}));
    has_read(&server);
    wire.send_bytes_with_fds(&frame(b"\0chunk"), &passed);
    bad_fds("a chunk of stdin", wire);

    for op in ["health", "tools"] {
        let mut wire = server.connect();
        wire.send_with_fds(&json!({"op":op}), &passed);
        bad_fds(op, wire);
    }
    still_works(&server);
}

#[test]
fn what_is_refused_and_what_is_no_call_has_the_id_of_its_request() {
    let server = Server::start(|_| ());
    let ws = server.ws();
    let mut wire = server.connect();
    for id in [json!(7), json!("a name"), json!(-9_223_372_036_854_775_808_i64)] {
        for mut message in [
            json!({"tool":"sh","cwd":ws,"stdio":"nonsense"}),
            json!({"tool":"sh","cwd":ws,"umask":"022"}),
            json!({"tool":"sh","cwd":ws,"args":"no list"}),
            json!({"tool":"no-such-tool","cwd":ws}),
            json!({"tool":"sh","cwd":"/"}),
            json!({"op":"no-such-op"}),
        ] {
            message["id"] = id.clone();
            let reply = wire.call(&message);
            assert!(reply["code"].is_string(), "{message}: {reply}");
            assert_eq!(reply["id"], id, "{message}: {reply}");
        }
        for op in ["health", "tools"] {
            let reply = wire.call(&json!({"op":op,"id":id}));
            assert_eq!((&reply["code"], &reply["id"]), (&Value::Null, &id), "{op}: {reply}");
        }
    }
    still_works(&server);
}

#[test]
fn a_refusal_of_something_very_long_keeps_its_code_and_is_one_short_line() {
    let server = Server::start(|_| ());
    for letter in ["\u{7f}", "\n", "é", "x"] {
        let long = letter.repeat(60_000 / letter.len() / if letter == "\n" { 2 } else { 1 });
        for (message, code, exit) in [
            (json!({"tool":long,"cwd":server.ws()}), "unknown_tool", 127),
            (json!({"tool":"sh","cwd":long}), "bad_request", 125),
            (json!({"op":long}), "unknown_op", 125),
        ] {
            let reply = server.connect().call(&message);
            let error = reply["error"].as_str().unwrap_or_default();
            let shown = error.get(..200).unwrap_or(error);
            assert_eq!(
                (&reply["code"], &reply["exit_code"]),
                (&json!(code), &json!(exit)),
                "{letter:?}: {shown}"
            );
            assert!(error.len() < 2_000, "{code}, {letter:?}: {} bytes", error.len());
            assert!(!error.contains(char::is_control) && !error.is_empty(), "{code}: {shown}");
        }
    }
    still_works(&server);
}

#[test]
fn a_continuation_that_is_refused_ends_the_connection_after_one_reply() {
    let server = Server::start(|_| ());
    let before = server.settled();
    for refused in [json!({"args":["x"],"tool":"sh"}), json!({"args":"no list"}), json!([1])] {
        let mut wire = server.connect();
        let first = json!({"id":7,"tool":"sh","args":["-c"],"cwd":server.ws(),"more":true});
        wire.send_json(&first);
        wire.send_json(&refused);
        // The server may have closed: what follows was for the refused request.
        let next = json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()});
        let _ = wire.try_send(&frame(next.to_string().as_bytes()));
        let replies = wire.until_closed();
        assert!(replies.len() <= 1, "{refused}: {} replies to one request", replies.len());
        for reply in replies {
            let reply: Value = serde_json::from_slice(&reply).expect("JSON");
            assert!(reply["code"].is_string(), "{refused}: {reply}");
        }
    }
    assert!(!server.ws().join("ran").exists(), "the rest of a refused request was run");
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_wrapper_is_told_the_real_directory_and_not_the_callers_name_of_it() {
    let server = Server::start(|s| {
        s.tool("told", r#"{"binary":"/bin/true"}"#);
        let script = "#!/bin/sh\nprintf '%s\\n' \"$TOOL_CWD\"; pwd -P\n";
        s.file("tools.d/told/restricted.sh", script, 0o755);
    });
    let ws = fs::canonicalize(server.ws()).expect("ws");
    fs::create_dir_all(ws.join("a/b")).expect("a/b");
    fs::create_dir_all(ws.join("a/x")).expect("a/x");
    symlink("a/b", ws.join("link")).expect("link");
    for (cwd, real) in [("link/../x", "a/x"), ("link", "a/b"), ("./a//b/..", "a"), ("a/x/", "a/x")]
    {
        let reply = server.connect().call(&json!({"tool":"told","cwd":ws.join(cwd)}));
        let real = ws.join(real).display().to_string();
        assert_eq!(reply["stdout"], json!(format!("{real}\n{real}\n")), "{cwd}: {reply}");
    }
}

/// A daemon that keeps its tool's stdout open and takes back what it has written
/// there, for a while after the tool has ended; then it is silent.
const THIEF: &str = "
import os, sys, time
tool, rounds, block = os.getpid(), int(sys.argv[1]), b'x' * 40000
if os.fork() == 0:
    os.setsid()
    own = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(1, False)
    while rounds:
        for step in (lambda: os.write(1, block), lambda: os.read(own, 65536)):
            try:
                step()
            except BlockingIOError:
                pass
        rounds -= os.getppid() != tool
    time.sleep(60)
    os._exit(0)
time.sleep(0.003)
os._exit(0)
";

#[test]
fn a_daemon_that_reads_its_own_stdout_does_not_hold_the_call() {
    let server = Server::start(|s| s.tool("python3", r#"{"binary":"/usr/bin/python3"}"#));
    for n in 0..20 {
        // So long that it stops at about the moment of the server's last look.
        let args = ["-c".to_owned(), THIEF.to_owned(), (n * 7 + 1).to_string()];
        let mut wire = server.connect();
        wire.send_json(&json!({"tool":"python3","args":args,"cwd":server.ws(),"stdio":"stream"}));
        assert_eq!(wire.recv_stream().last["exit_code"], json!(0), "call {n}");
    }
    eventually("no call is under way", || server.status()["calls"]["running"] == json!(0));
    still_works(&server);
}

/// An answer in the middle of a call would pass for its last message.
#[test]
fn what_is_not_understood_during_a_call_ends_it_and_is_its_one_last_message() {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_GRACE", "0.3"));
    let before = server.settled();
    let mut wire = server.connect();
    let call = json!({"tool":"sh","args":["-c","echo up; cat"],"cwd":server.ws(),"stdio":"stream"});
    wire.send_json(&call);
    assert_eq!(wire.recv_frame().expect("a chunk"), b"\x01up\n");
    wire.send_frame(b"{\"signal\":\"NO_SUCH\"}");
    let all = wire.until_closed();
    let objects: Vec<&Vec<u8>> = all.iter().filter(|frame| frame.first() == Some(&b'{')).collect();
    assert_eq!(objects.len(), 1, "{all:?}");
    let last: Value = serde_json::from_slice(all.last().expect("a message")).expect("JSON");
    assert_eq!(last["code"], json!("bad_request"), "{last}");
    drop(wire);
    server.nothing_left(before);
    still_works(&server);
}

/// A signal that came after `use_stream` and before the repetition was lost, and
/// the tool went on for ever.
#[test]
fn a_signal_between_use_stream_and_the_repetition_is_the_repetitions() {
    let server = Server::start(|s| s.tool("piped", "binary = \"/bin/sh\"\nstdio = \"stream\"\n"));
    // With and without a session for the first request, and a stray one of an
    // earlier call, which means nothing to the next.
    for (first, stray) in [(json!([]), false), (json!([]), true), (json!({"fds":[9]}), false)] {
        let mut wire = server.connect();
        if stray {
            let call = json!({"tool":"sh","args":["-c","exit 0"],"cwd":server.ws(),"stdio":"fds"});
            wire.send_json(&call);
            assert_eq!(wire.recv_json()["exit_code"], json!(0));
            wire.send_json(&json!({"signal":"TERM"}));
        }
        let mut request = json!({
            "tool":"piped","args":["-c","exec sleep 60"],"cwd":server.ws(),"stdio":"fds","fds":[],
            "tty":first,
        });
        wire.send_json(&request);
        assert_eq!(wire.recv_json()["code"], json!("use_stream"), "{request}");
        if !stray {
            wire.send_json(&json!({"signal":"TERM"}));
        }
        request["stdio"] = json!("stream");
        request.as_object_mut().expect("an object").remove("fds");
        if stray {
            request["args"] = json!(["-c", "exit 7"]);
        }
        wire.send_json(&request);
        let last = wire.recv_stream().last;
        let wanted = if stray { json!(7) } else { json!(143) };
        assert_eq!(last["exit_code"], wanted, "{last}");
    }
    still_works(&server);
}

//! Faults that were found at the door and beneath terminals, each with what it
//! did.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;

use nix::sys::resource::Resource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tool_broker_tests::process::process;
use tool_broker_tests::wire::Wire;
use tool_broker_tests::{Server, eventually, still_works};

/// The last message. The terminal's other end is kept until then: without it the
/// tool is hung up.
fn last(wire: &mut Wire) -> Value {
    let (mut bytes, mut masters) = (Vec::new(), Vec::new());
    loop {
        let (more, fds) = wire.recv_with_fds();
        assert!(!more.is_empty(), "no last message");
        bytes.extend(more);
        masters.extend(fds);
        while let Some((prefix, rest)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize;
            let Some(payload) = rest.get(..length) else { break };
            let message: Value = serde_json::from_slice(payload).expect("JSON");
            if message.get("exit_code").is_some() {
                return message;
            }
            bytes.drain(..4 + length);
        }
    }
}

/// The leader of a terminal's session is executed by a descriptor of the server's:
/// a caller's file that was passed under the same number was executed instead.
#[test]
fn no_passed_descriptor_takes_the_place_of_the_program() {
    let server = Server::start(|s| s.tools(&[("true", "/bin/true")]));
    let script = format!("#!/bin/sh\ntouch {}\n", server.ws().join("taken").display());
    let script = File::open(server.file("ws/script", script, 0o755)).expect("open");
    for number in 3..48 {
        let mut wire = server.connect();
        let request = json!({
            "tool":"true","args":[],"cwd":server.ws(),"stdio":"fds","fds":[number],
            "tty":{"fds":[0,1,2]},
        });
        wire.send_with_fds(&request, &[script.as_fd()]);
        assert_eq!(last(&mut wire)["exit_code"], json!(0), "descriptor {number}");
        assert!(!server.ws().join("taken").exists(), "descriptor {number} was executed");
    }
    still_works(&server);
}

/// `started` came before the leader had let the tool go on: a ^Z typed then was
/// taken back by the CONT behind it.
#[test]
fn a_tool_that_is_let_go_on_does_so_before_started_is_said() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&json!({
        "tool":"sh","args":["-c","exec cat"],"cwd":server.ws(),"stdio":"fds","fds":[],
        "tty":{"fds":[0,1,2]},
    }));
    let (message, mut masters) = wire.recv_with_fds();
    assert!(message.ends_with(b"{\"pty\":true}"), "{}", message.escape_ascii());
    let mut master = File::from(masters.remove(0));
    let leader = Pid::from_raw(server.children()[0].pid);
    master.write_all(b"\x1a").expect("^Z");
    assert_eq!(wire.recv_json(), json!({"stopped":"TSTP"}));
    for _ in 0..20 {
        // It is as slow as can be.
        kill(leader, Signal::SIGSTOP).expect("kill");
        eventually("it stops", || process(leader.as_raw()).is_some_and(|it| it.state == 'T'));
        wire.send_json(&json!({"signal":"CONT"}));
        wire.send_json(&json!({"query":"started"}));
        // Meanwhile the server has done all that it does without the leader.
        still_works(&server);
        wire.stream.set_nonblocking(true).expect("not blocking");
        let said = wire.stream.read(&mut [0; 64]).map_err(|error| error.kind());
        assert_eq!(said, Err(ErrorKind::WouldBlock), "it was said before");
        wire.stream.set_nonblocking(false).expect("blocking");
        kill(leader, Signal::SIGCONT).expect("kill");
        assert_eq!(wire.recv_json(), json!({"started":true}));
        master.write_all(b"\x1a").expect("^Z");
        assert_eq!(wire.recv_json(), json!({"stopped":"TSTP"}));
    }
    wire.send_json(&json!({"signal":"CONT"}));
    wire.send_json(&json!({"signal":"TERM"}));
    assert_eq!(last(&mut wire)["signal"], json!("TERM"));
}

/// That the leader was stopped was told as a stop of the tool when that had ended:
/// its client stopped for ever.
#[test]
fn a_leader_that_was_stopped_is_not_the_tool() {
    let server = Server::start(|_| ());
    for _ in 0..20 {
        let mut wire = server.connect();
        wire.send_json(&json!({
            "tool":"sh","args":["-c","read x; exit 3"],"cwd":server.ws(),"stdio":"fds","fds":[],
            "tty":{"fds":[0,1,2]},
        }));
        let (_, mut masters) = wire.recv_with_fds();
        let mut master = File::from(masters.remove(0));
        let leader = Pid::from_raw(server.children()[0].pid);
        kill(leader, Signal::SIGSTOP).expect("kill");
        eventually("it stops", || process(leader.as_raw()).is_some_and(|it| it.state == 'T'));
        still_works(&server);
        kill(leader, Signal::SIGCONT).expect("kill");
        master.write_all(b"\n").expect("a line");
        let said = wire.recv_json();
        assert_eq!(said["exit_code"], json!(3), "{said}");
    }
}

/// Numbers just below the limit on descriptors were refused, as if the server had
/// none left.
#[test]
fn a_descriptor_may_have_any_number_below_the_limit() {
    let server = Server::start(|s| {
        s.tools(&[("true", "/bin/true")]);
        s.limit(Resource::RLIMIT_NOFILE, 1024, 1024);
    });
    let null = File::open("/dev/null").expect("/dev/null");
    for (fds, tty) in [
        (vec![0, 1022], json!([])),
        (vec![0, 1023], json!([])),
        (vec![1, 3, 1023], json!([0, 2, 1022])),
        (vec![3, 4, 5, 6, 7, 8], json!([0, 1, 2, 9])),
        ((3..200).collect(), json!([0, 1, 2])),
    ] {
        let mut wire = server.connect();
        let request = json!({
            "tool":"true","args":[],"cwd":server.ws(),"stdio":"fds","fds":fds,"tty":{"fds":tty},
        });
        wire.send_with_fds(&request, &vec![null.as_fd(); fds.len()]);
        let last = last(&mut wire);
        assert_eq!(last["exit_code"], json!(0), "{fds:?} {tty}: {last}");
    }
}

/// What a session refuses as too large, the door let through.
#[test]
fn a_limit_holds_however_the_call_comes() {
    let server = Server::start(|s| s.env("TOOL_LIMITS_ARGUMENTS", "3"));
    for (stdio, more) in
        [("buffered", json!({})), ("stream", json!({})), ("fds", json!({"fds":[]}))]
    {
        let mut request =
            json!({"tool":"sh","args":["-c","true","a","b"],"cwd":server.ws(),"stdio":stdio});
        request.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let reply = server.connect().call(&request);
        assert_eq!(reply["code"], json!("request_too_large"), "{stdio}: {reply}");
    }
}

//! Faults that were found at the door and beneath terminals, each with what it
//! did.

use std::fs::File;
use std::os::fd::AsFd;

use nix::sys::resource::Resource;
use serde_json::{Value, json};
use tool_broker_tests::wire::Wire;
use tool_broker_tests::{Server, still_works};

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

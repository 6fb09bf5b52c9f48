//! Descriptors that do not match what the request says, and those that nobody
//! asked for.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use serde_json::{Value, json};
use tool_broker_tests::wire::frame;
use tool_broker_tests::{Server, still_works};

fn request(server: &Server, fds: Value) -> Value {
    json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws(),"stdio":"fds","fds":fds})
}

#[test]
fn what_does_not_match_is_refused_and_closed() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    let cases = [
        (json!([0, 1, 2]), 2),
        (json!([0, 1]), 3),
        (json!([0, 1, 2]), 0),
        (json!([]), 1),
        (json!([1, 1]), 2),
        (json!([0, 1, 2, 2]), 4),
        (json!([1024]), 1),
        (json!([0, 1, 2, 3]), 5),
    ];
    for (fds, passed) in cases {
        let mut wire = server.connect();
        wire.send_with_fds(&request(&server, fds.clone()), &vec![null.as_fd(); passed]);
        let reply = wire.recv_json();
        assert_eq!(reply["code"], json!("bad_fds"), "{fds} with {passed}: {reply}");
        assert_eq!(reply["exit_code"], json!(125), "{reply}");
    }
    assert!(!server.ws().join("ran").exists(), "one of them ran");
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn numbers_that_are_no_descriptors_are_a_bad_request_or_bad_descriptors() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    for fds in [
        json!([-1]),
        json!([1.5]),
        json!(["0"]),
        json!(0),
        json!([4_294_967_296_u64]),
        json!([null]),
    ] {
        let mut wire = server.connect();
        wire.send_with_fds(&request(&server, fds.clone()), &[null.as_fd()]);
        let reply = wire.recv_json();
        let code = reply["code"].as_str().expect("a code");
        assert!(["bad_fds", "bad_request"].contains(&code), "{fds}: {reply}");
    }
    assert!(!server.ws().join("ran").exists());
    server.nothing_left(before);
}

#[test]
fn a_flood_of_descriptors_is_closed_again() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    let many: Vec<BorrowedFd<'_>> = vec![null.as_fd(); 253];
    for _ in 0..10 {
        let mut wire = server.connect();
        wire.send_with_fds(&request(&server, json!([0, 1, 2])), &many);
        // Refused; or, where so many do not fit, cut off by the kernel and refused.
        let reply = wire.recv_json();
        assert_eq!(reply["code"], json!("bad_fds"), "{reply}");
    }
    server.nothing_left(before);
    assert!(!server.ws().join("ran").exists());
    still_works(&server);
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let (reading, writing) = std::io::pipe().expect("pipe");
    for stdio in ["buffered", "stream"] {
        let mut wire = server.connect();
        let message = json!({"tool":"sh","args":["-c","ls /proc/$$/fd; true"],"cwd":server.ws(),"stdio":stdio});
        wire.send_with_fds(&message, &[writing.as_fd()]);
        // Ignored or refused: both are fine, a leak is not.
        drop(wire.recv_frame());
    }
    // With a message that is not JSON, with half a frame, with each byte of one.
    for bytes in [frame(b"{"), vec![0, 0]] {
        let mut wire = server.connect();
        wire.send_bytes_with_fds(&bytes, &[writing.as_fd()]);
        wire.no_more();
        drop(wire.until_closed());
    }
    let mut wire = server.connect();
    for byte in frame(request(&server, json!([0])).to_string().as_bytes()) {
        wire.send_bytes_with_fds(&[byte], &[writing.as_fd(), writing.as_fd()]);
    }
    // The descriptors of the first byte count; how many came later is no reason to hang.
    drop(wire.recv_frame());
    drop(wire);
    drop(writing);
    let mut end = Vec::new();
    let mut reading = reading;
    std::io::Read::read_to_end(&mut reading, &mut end).expect("every copy is closed");
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn descriptors_come_with_the_first_byte_even_when_bytes_come_one_by_one() {
    let server = Server::start(|_| ());
    let (mut reading, writing) = std::io::pipe().expect("pipe");
    let message =
        json!({"tool":"sh","args":["-c","echo here"],"cwd":server.ws(),"stdio":"fds","fds":[1]});
    let bytes = frame(message.to_string().as_bytes());
    let mut wire = server.connect();
    wire.send_bytes_with_fds(&bytes[..1], &[writing.as_fd()]);
    bytes[1..].iter().for_each(|byte| wire.send(&[*byte]));
    drop(writing);
    assert_eq!(wire.recv_json()["exit_code"], json!(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut reading, &mut said).expect("read");
    assert_eq!(said, "here\n");
}

#[test]
fn a_caller_that_dies_at_once_leaves_no_descriptor() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    for n in 0..50 {
        let mut wire = server.connect();
        let bytes = frame(request(&server, json!([0, 1, 2])).to_string().as_bytes());
        wire.send_bytes_with_fds(&bytes[..=n % bytes.len()], &[null.as_fd(); 3]);
    }
    server.nothing_left(before);
    still_works(&server);
}

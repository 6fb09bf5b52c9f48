//! The page's events: what is told, how many may listen, and that nobody waits for one who
//! does not.

mod page_help;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use nix::sys::signal::Signal;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use page_help::*;
use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, BOB};
use tool_broker_tests::{eventually, eventually_some};

/// A listener, and what it is told until it has that.
fn listen(at: SocketAddr, token: &str) -> TcpStream {
    let mut stream = dial(at);
    let head =
        format!("GET /events HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

#[track_caller]
fn hears(stream: &mut TcpStream, so_far: &mut String, wanted: &str) {
    let mut bytes = [0; 4096];
    while !so_far.contains(wanted) {
        let count =
            stream.read(&mut bytes).unwrap_or_else(|error| panic!("{wanted}: {error}: {so_far}"));
        assert!(count > 0, "{wanted}: the end: {so_far}");
        so_far.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}

#[test]
fn what_happens_is_told_as_it_happens_to_those_who_may_know() {
    let http = started();
    let (mut alice, mut olga) = (listen(http.address, ALICE), listen(door(&http), OLGA));
    let (mut of_alice, mut of_olga) = (String::new(), String::new());
    hears(&mut alice, &mut of_alice, "event: state\n");
    hears(&mut olga, &mut of_olga, "event: state\n");
    assert!(of_alice.to_lowercase().contains("content-type: text/event-stream"), "{of_alice}");
    call(&http, BOB, "say", &["of-bob"]);
    call(&http, BOB, "drop", &["bob-was-refused"]);
    call(&http, ALICE, "say", &["of-alice"]);
    for (stream, told) in [(&mut alice, &mut of_alice), (&mut olga, &mut of_olga)] {
        for event in ["began", "changed", "ended", "figures"] {
            hears(stream, told, &format!("event: {event}\n"));
        }
        hears(stream, told, "say of-alice");
    }
    for part in ["event: refused\n", "bob-was-refused", "say of-bob"] {
        hears(&mut olga, &mut of_olga, part);
    }
    hears(&mut alice, &mut of_alice, "\"finished\":3");
    assert!(!of_alice.contains("of-bob") && !of_alice.contains("bob-was"), "{of_alice}");
    let waiting = held(&http);
    hears(&mut olga, &mut of_olga, "event: approvals\n");
    hears(&mut alice, &mut of_alice, "event: approvals\n");
    let (nonce, id) = question(&http);
    form(&http, OLGA, &own_origin(&http), &format!("nonce={nonce}&approval={id}&do=approve"));
    waiting.join().expect("answered");
}

/// The name of an event and its data, in the order in which they come.
fn next(stream: &mut TcpStream, told: &mut String) -> (String, String) {
    hears(stream, told, "\n\n");
    let (event, rest) = told.split_once("\n\n").expect("its end");
    let name = event.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default();
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
    let event = (name.to_owned(), data.to_owned());
    *told = rest.to_owned();
    event
}

#[test]
fn the_count_of_questions_comes_with_the_question() {
    let http = started();
    let mut olga = listen(door(&http), OLGA);
    let mut told = String::new();
    // Once it could be that a second was over just then.
    for _ in 0..3 {
        let waiting = held(&http);
        let (nonce, id) = question(&http);
        let mut asked = |lists: bool| loop {
            let (name, data) = next(&mut olga, &mut told);
            if name == "approvals" && data.contains(&id) == lists {
                let (name, data) = next(&mut olga, &mut told);
                assert_eq!(name, "figures", "{data}");
                let figures: Value = serde_json::from_str(&data).expect("JSON");
                return figures["asked"].clone();
            }
        };
        assert_eq!(asked(true), json!(1));
        form(&http, OLGA, &own_origin(&http), &format!("nonce={nonce}&approval={id}&do=deny"));
        assert_eq!(asked(false), json!(0));
        waiting.join().expect("answered");
    }
}

#[test]
fn listeners_are_few_and_a_stop_does_not_wait_for_them() {
    let http = started();
    let mut told: Vec<(TcpStream, String)> = Vec::new();
    for _ in 0..4 {
        let mut stream = listen(http.address, ALICE);
        let mut text = String::new();
        hears(&mut stream, &mut text, "event: state\n");
        told.push((stream, text));
    }
    let refused = ask(http.address, ALICE, "GET /events", "", "");
    assert_eq!(refused.status, 503, "{refused:?}");
    // Another one's places are another one's, and one that was given back is there again.
    let mut bob = listen(http.address, BOB);
    hears(&mut bob, &mut String::new(), "event: state\n");
    told.pop();
    let again = eventually_some("a place is given back", || {
        let mut stream = listen(http.address, ALICE);
        let mut bytes = [0; 12];
        stream.read_exact(&mut bytes).ok()?;
        bytes.ends_with(b"200").then_some(stream)
    });
    http.server.stop(Signal::SIGTERM);
    drop((again, bob, told));
}

#[test]
fn listeners_that_take_nothing_hold_up_no_call() {
    let http = started();
    let door = door(&http);
    let mut deaf: Vec<TcpStream> = (0..4).map(|_| listen(door, OLGA)).collect();
    for stream in &mut deaf {
        assert!(is_taken(stream), "a place for each");
        setsockopt(&*stream, RcvBuf, &2048).expect("a short queue");
    }
    assert_eq!(ask(door, OLGA, "GET /events", "", "").status, 503);
    // Long when it is shown, and more of them than a listener's queue is long.
    let argument = "\u{1}".repeat(150);
    for _ in 0..300 {
        let said = call(&http, ALICE, "say", &[&argument]);
        assert_eq!(said["success"], json!(true), "{said}");
    }
    assert!(page(door, OLGA).contains("\\x01\\x01"));
    drop(deaf);
    eventually("their places are given back", || is_taken(&mut listen(door, OLGA)));
}

/// Whether it is answered as one who may listen; no more of the answer is read.
fn is_taken(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).expect("an answer");
    bytes.ends_with(b"200")
}

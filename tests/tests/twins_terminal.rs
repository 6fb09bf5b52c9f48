//! The sessions of `tests/twins/`: what a terminal shows, byte for byte, natively
//! and through the client.
//!
//! `TWIN_ONLY=text` runs the rows whose `kind: name` has the text in it,
//! `TWIN_ROUNDS=n` runs each n times.

use tool_broker_tests::twins::{self, Stage, stage};
use tool_broker_tests::{Server, Setup};

#[test]
fn every_session_is_the_same_through_the_client() {
    let server = Server::start(|s| stage::define(s, ""));
    let stage = Stage::new(&server);
    twins::all(&stage, &stage.client("client"), "sessions")
        .assert_passed("every_session_is_the_same_through_the_client");
}

#[test]
fn every_session_is_the_same_through_the_servers_pipes() {
    let server = Server::start(|s| stage::define(s, "stdio = \"stream\""));
    let stage = Stage::new(&server);
    twins::all(&stage, &stage.client("stream"), "sessions")
        .assert_passed("every_session_is_the_same_through_the_servers_pipes");
}

/// A row that differs from itself would show nothing about a client.
#[test]
fn every_session_is_the_same_natively_twice() {
    let setup = Setup::new();
    let stage = Stage::new(&setup);
    let mut native = stage.native();
    native.name = "itself";
    twins::all(&stage, &native, "sessions")
        .assert_passed("every_session_is_the_same_natively_twice");
}

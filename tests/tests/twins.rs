//! The tables of `tests/twins/`, each row natively and another way: nobody can
//! tell a tool through the client from the tool.
//!
//! `TWIN_ONLY=text` runs the rows whose `kind: name` has the text in it,
//! `TWIN_ROUNDS=n` runs each n times.

use tool_broker_tests::twins::{self, Stage, stage};
use tool_broker_tests::{Server, Setup};

#[test]
fn every_row_is_the_same_through_the_client() {
    let server = Server::start(|s| stage::define(s, ""));
    let stage = Stage::new(&server);
    twins::all(&stage, &stage.client("client"), "twins")
        .assert_passed("every_row_is_the_same_through_the_client");
}

#[test]
fn every_row_is_the_same_through_the_servers_pipes() {
    let server = Server::start(|s| stage::define(s, "stdio = \"stream\""));
    let stage = Stage::new(&server);
    twins::all(&stage, &stage.client("stream"), "twins")
        .assert_passed("every_row_is_the_same_through_the_servers_pipes");
}

/// A row that differs from itself would show nothing about a client.
#[test]
fn every_row_is_the_same_natively_twice() {
    let setup = Setup::new();
    let stage = Stage::new(&setup);
    let mut native = stage.native();
    native.name = "itself";
    twins::all(&stage, &native, "twins").assert_passed("every_row_is_the_same_natively_twice");
}

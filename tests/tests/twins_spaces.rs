//! The tables of `tests/twins/`, each row natively and in namespaces of its own:
//! a call that talks to the gate behaves as any other.
//!
//! `TWIN_ONLY=text` runs the rows whose `kind: name` has the text in it.

use serde_json::json;
use tool_broker_tests::Server;
use tool_broker_tests::twins::{self, Stage, stage};

fn all(ending: &str, test: &str) {
    let server = Server::start(stage::define_gated);
    let level = &server.status()["confinement"]["level"];
    if *level != json!("namespaces") {
        eprintln!("not shown here: this machine has no namespaces: {level}");
        return;
    }
    let stage = Stage::new(&server);
    twins::all(&stage, &stage.client("spaces"), ending).assert_passed(test);
}

#[test]
fn every_row_is_the_same_in_namespaces() {
    all("twins", "every_row_is_the_same_in_namespaces");
}

#[test]
fn every_session_is_the_same_in_namespaces() {
    all("sessions", "every_session_is_the_same_in_namespaces");
}

//! A thousand callers at once, all of whom call their requests 0: every answer
//! reaches the one that asked, once.

mod reliability_help;

use std::collections::BTreeSet;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reliability_help::{random, start};
use serde_json::json;
use tool_broker_tests::wire::frame;
use tool_broker_tests::{Wire, eventually, run, spawn, still_works};

const CALLS: usize = 10;

/// As many callers at once as this process may have connections, a thousand in
/// all.
fn batches() -> (usize, usize) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("getrlimit");
    let wanted = hard.min(4096).max(soft);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).expect("setrlimit");
    if wanted >= 1100 { (1, 1000) } else { (10, 100) }
}

#[test]
fn ten_thousand_calls_with_the_same_id_are_each_answered_once_and_none_is_crossed() {
    let (batches, at_once) = batches();
    let server = start(|s| s.tools(&[("echo", "/bin/echo")]));
    let before = server.settled();
    let salt = random();
    let payload = |client: usize, call: usize| {
        // Of lengths that differ, so that no answer fits in another's place.
        format!("{salt:x}-{client}-{call}-{}", "x".repeat((client * 7 + call * 131) % 500))
    };
    let mut answers = 0;
    for batch in 0..batches {
        let clients = batch * at_once..(batch + 1) * at_once;
        let mut wires: Vec<(usize, Wire)> =
            clients.map(|client| (client, server.connect())).collect();
        for (client, wire) in &mut wires {
            let mut bytes = Vec::new();
            for call in 0..CALLS {
                let args = [payload(*client, call)];
                let request = json!({"tool":"echo","args":args,"cwd":server.ws(),"id":0});
                bytes.extend(frame(request.to_string().as_bytes()));
            }
            wire.send(&bytes);
        }
        for (client, wire) in &mut wires {
            let mut wanted: BTreeSet<String> =
                (0..CALLS).map(|call| payload(*client, call) + "\n").collect();
            for _ in 0..CALLS {
                let reply = wire.recv_json();
                assert_eq!((&reply["id"], &reply["exit_code"]), (&json!(0), &json!(0)), "{reply}");
                let said = reply["stdout"].as_str().expect("text");
                assert!(wanted.remove(said), "{client} got what is not its own: {reply}");
                answers += 1;
            }
            assert_eq!(wanted, BTreeSet::new(), "lost for {client}");
            wire.no_more();
        }
        for (client, wire) in &mut wires {
            assert_eq!(wire.recv_frame(), None, "{client} got an eleventh answer");
        }
    }
    assert_eq!(answers, 10_000);
    server.nothing_left(before);
    let calls = server.status()["calls"].clone();
    assert_eq!((&calls["running"], &calls["waiting"]), (&json!(0), &json!(0)));
    still_works(&server);
}

/// The same by real clients, whose descriptors travel: 200 at once, each with
/// input and output of its own.
#[test]
fn two_hundred_clients_at_once_each_get_their_own_bytes() {
    let server = start(|s| s.tools(&[("cat", "/bin/cat")]));
    let before = server.settled();
    let text = |n: usize| format!("{n}:{}\n", "ab".repeat(100 + n));
    let clients: Vec<_> = (0..200)
        .map(|n| {
            let file = server.file(format!("in{n}"), text(n), 0o644);
            let input = std::fs::File::open(file).expect("the input");
            spawn(server.client("cat").stdin(input))
        })
        .collect();
    for (n, client) in clients.into_iter().enumerate() {
        let outcome = client.wait();
        assert!(outcome.success() == text(n), "{n}: {outcome:?}");
    }
    server.nothing_left(before);
    still_works(&server);
}

/// Callers that come and go at once, in every stage of a call.
#[test]
fn callers_that_leave_at_any_moment_leave_nothing() {
    let server = start(|s| s.env("TOOL_TIMEOUTS_GRACE", "0.2"));
    let before = server.settled();
    for n in 0..300 {
        let mut wire = server.connect();
        let stdio = ["buffered", "stream"][n % 2];
        let request = reliability_help::script(&server, stdio, "echo out; sleep 60");
        let bytes = frame(request.to_string().as_bytes());
        let some = if n % 3 == 0 { bytes.len() } else { random() as usize % bytes.len() };
        wire.send(&bytes[..some]);
        if n % 5 == 0 {
            wire.no_more();
        }
        if n % 7 == 0 {
            reliability_help::a_moment(5);
        }
    }
    server.nothing_left(before);
    eventually("no call runs", || reliability_help::running(&server) == 0);
    assert_eq!(run(server.client("sh").args(["-c", "exit 9"]), b"").code(), Some(9));
    still_works(&server);
}

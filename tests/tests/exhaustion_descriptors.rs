//! A server with 64 descriptors: many callers are served in the end or told,
//! and nothing spins, sticks or leaks.

mod reliability_help;

use std::fs::File;
use std::os::fd::AsFd;

use nix::sys::resource::Resource;
use reliability_help::{Mark, Tidy, does_not_spin, script, served_in_the_end, start};
use serde_json::{Value, json};
use tool_broker_tests::{Running, Wire, eventually, run, spawn, still_works};

fn with_64() -> Tidy {
    start(|s| {
        s.limit(Resource::RLIMIT_NOFILE, 64, 64);
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    })
}

/// Whether a call was served; else it must have been told why, in one line.
fn served(n: usize, client: Running) -> bool {
    let outcome = client.wait();
    if outcome.code() == Some(0) {
        assert_eq!(outcome.out(), format!("{n}\n"), "crossed: {outcome:?}");
        return true;
    }
    let line = outcome.refused(125);
    assert!(line.contains("again") || line.contains("descriptors"), "says nothing to do: {line}");
    false
}

#[test]
fn two_hundred_clients_at_once_are_served_or_told_by_a_server_with_64_descriptors() {
    let server = with_64();
    let before = server.settled();
    let clients: Vec<Running> = (0..200)
        .map(|n| {
            let text = format!("sleep 0.02; echo {n}");
            spawn(server.client("sh").args(["-c", &text]))
        })
        .collect();
    let done: Vec<bool> = clients.into_iter().enumerate().map(|(n, one)| served(n, one)).collect();
    let count = done.iter().filter(|one| **one).count();
    eprintln!("{count} of 200 were served, the others told");
    assert!(count >= 100, "only {count} of 200 were served");
    server.nothing_left(before);
    does_not_spin(&server);
    still_works(&server);
}

#[test]
fn raw_callers_beyond_the_descriptors_are_served_or_told() {
    let server = with_64();
    let before = server.settled();
    // In threads of their own: those that are not taken wait in connect.
    let threads: Vec<_> = (0..100)
        .map(|n| {
            let (socket, request) = (server.socket(), server.ws());
            std::thread::spawn(move || {
                let stdio = ["buffered", "stream"][n % 2];
                let text = format!("echo {n}");
                let mut wire = Wire::connect(&socket);
                wire.send_json(
                    &json!({"tool":"sh","args":["-c",text],"cwd":request,"stdio":stdio}),
                );
                if stdio == "buffered" {
                    let reply = wire.recv_json();
                    return (reply["stdout"].as_str().map(str::to_owned), reply);
                }
                let got = wire.recv_stream();
                (String::from_utf8(got.stdout).ok(), got.last)
            })
        })
        .collect();
    let mut count = 0;
    for (n, thread) in threads.into_iter().enumerate() {
        let (said, last): (Option<String>, Value) = thread.join().expect("a caller");
        if last["code"].is_null() {
            assert_eq!(said, Some(format!("{n}\n")), "{last}");
            count += 1;
        } else {
            assert_eq!(last["exit_code"], json!(125), "{last}");
        }
    }
    eprintln!("{count} of 100 were served, the others told");
    server.nothing_left(before);
    does_not_spin(&server);
    still_works(&server);
}

/// Callers that hold every place: the others wait, nothing spins, and when the
/// holders go, whether nicely or not, all is as before.
#[test]
fn held_places_cost_nothing_and_come_back() {
    let mark = Mark::new();
    let server = with_64();
    let before = server.settled();
    let hold = format!("exec sleep {}", mark.of(0));
    let holders: Vec<Running> =
        (0..30).map(|_| spawn(server.client("sh").args(["-c", &hold]))).collect();
    eventually("some hold places", || mark.alive().len() >= 2);
    let mut last = 0;
    eventually("no more get one", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = mark.alive().len();
        let same = now == last;
        last = now;
        same
    });
    assert!(last < 30, "all of them fit: the limit was not reached");
    does_not_spin(&server);
    drop(holders);
    mark.all_gone();
    server.nothing_left(before);
    does_not_spin(&server);
    still_works(&server);
}

/// Descriptors that travel use up the server's own: as many as each peer may
/// pass, from more peers than fit.
#[test]
fn peers_that_pass_descriptors_do_not_use_up_the_servers() {
    let server = with_64();
    let before = server.settled();
    let null = File::open("/dev/null").expect("/dev/null");
    let mut wires: Vec<Wire> = Vec::new();
    for _ in 0..40 {
        let mut wire = server.connect();
        // Half a request, with all the descriptors at its first byte.
        wire.send_bytes_with_fds(&[0, 0], &[null.as_fd(); 8]);
        wires.push(wire);
    }
    drop(wires);
    server.nothing_left(before);
    let reply = served_in_the_end(&server, &script(&server, "buffered", "echo fine"));
    assert_eq!(reply["stdout"], json!("fine\n"), "{reply}");
    does_not_spin(&server);
    still_works(&server);
}

/// A shell every call of which gets a gate.
const GATED: &str = "binary = \"/bin/sh\"\ndefault = \"allow\"\n[sandbox]\nnetwork = \"always\"\n\
    [[gate]]\nadapter = \"http\"\nhosts = [\"example.org\"]\n";

fn with_gates(level: &str) -> Tidy {
    start(|s| {
        s.limit(Resource::RLIMIT_NOFILE, 256, 256);
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_SANDBOX_LEVEL", level);
        s.tool("net", GATED);
    })
}

/// Connects as often as it may, and holds what it gets.
const CONNECT: &str = "import os, socket, sys, time, urllib.parse
at = urllib.parse.urlsplit(os.environ['http_proxy'])
held = []
for _ in range(150):
    one = socket.socket(); one.settimeout(0.2)
    try: one.connect((at.hostname, at.port))
    except OSError: break
    held.append(one)
open('held', 'w').write(str(len(held)))
while not os.path.exists('go'): time.sleep(0.02)";

/// Calls with a gate cost more: as many run as there is room for, the others are told.
#[test]
fn calls_with_a_gate_beyond_the_descriptors_are_busy_and_no_descriptor_is_missed() {
    for level in ["auto", "landlock"] {
        let server = with_gates(level);
        let before = server.settled();
        let clients: Vec<Running> = (0..40)
            .map(|n| {
                let text = format!("sleep 0.3; echo {n}");
                spawn(server.client("net").args(["-c", &text]))
            })
            .collect();
        let ends = clients.into_iter().enumerate().map(|(n, one)| {
            let outcome = one.wait();
            if outcome.code() == Some(0) {
                assert_eq!(outcome.out(), format!("{n}\n"), "{level}: crossed: {outcome:?}");
                return true;
            }
            let line = outcome.refused(125);
            assert!(line.contains("as many calls have a gate"), "{level}: {line}");
            false
        });
        let count = ends.filter(|served| *served).count();
        eprintln!("{level}: {count} of 40 were served, the others told");
        assert!(count >= 4, "{level}: only {count} of 40 were served");
        assert!(!server.log().contains("Too many open files"), "{}", server.log());
        server.nothing_left(before);
        still_works(&server);
    }
}

/// A question that nobody answers holds nothing that other calls need.
#[test]
fn calls_with_a_gate_that_wait_for_an_answer_take_no_other_calls_room() {
    let server = start(|s| {
        s.limit(Resource::RLIMIT_NOFILE, 256, 256);
        s.tool("net", GATED);
        s.tool("asks", &GATED.replace("default = \"allow\"", "default = \"ask\""));
    });
    let asks: Vec<Running> =
        (0..6).map(|_| spawn(server.client("asks").args(["-c", "echo"]))).collect();
    eventually("they wait", || {
        server.status()["attention"].to_string().contains("6 calls wait for an answer")
    });
    let outcome = run(server.client("net").args(["-c", "echo fine"]), b"");
    assert_eq!(outcome.out(), "fine\n", "{outcome:?}");
    drop(asks);
}

/// What one call connects is nothing that others lack.
#[test]
fn a_call_that_connects_to_its_gate_without_end_takes_no_other_calls_descriptors() {
    for level in ["auto", "landlock"] {
        let server = with_gates(level);
        let before = server.settled();
        let text = "exec python3 -c \"$0\"";
        let greedy = spawn(server.client("net").args(["-c", text, CONNECT]));
        eventually("it has what it gets", || server.ws().join("held").exists());
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("fd").count();
        assert!(open < 100, "{level}: {open} descriptors are open");
        for tool in ["net", "sh"] {
            let outcome = run(server.client(tool).args(["-c", "echo fine"]), b"");
            assert_eq!(outcome.out(), "fine\n", "{level} {tool}: {outcome:?}");
        }
        std::fs::write(server.ws().join("go"), "").expect("go");
        assert_eq!(greedy.wait().code(), Some(0));
        assert!(!server.log().contains("Too many open files"), "{}", server.log());
        server.nothing_left(before);
    }
}

/// A limit that leaves room for next to nothing: one at a time, but they run.
#[test]
fn a_server_with_next_to_no_descriptors_serves_or_says_so_at_its_start() {
    for limit in [16, 24, 32, 40] {
        let setup = {
            let mut setup = tool_broker_tests::Setup::new();
            setup.limit(Resource::RLIMIT_NOFILE, limit, limit);
            setup
        };
        let command = setup.serve();
        match tool_broker_tests::Server::try_start(setup, command) {
            Err((status, log)) => {
                assert_eq!(status.code(), Some(1), "{limit}: {status} {log}");
                assert!(
                    log.contains("descriptors") || log.contains("open files"),
                    "{limit}: {log}"
                );
            }
            Ok(server) => {
                let outcome = run(server.client("sh").args(["-c", "echo fine"]), b"");
                assert_eq!(outcome.out(), "fine\n", "with {limit} descriptors: {outcome:?}");
                drop(Tidy::of(server));
            }
        }
    }
}

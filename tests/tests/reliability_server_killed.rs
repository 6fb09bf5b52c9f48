//! A server that is killed: its clients say so, its tools end, and the next
//! server in the same directories clears up and goes on.

mod reliability_help;

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reliability_help::{Mark, a_moment, script, start};
use serde_json::json;
use tool_broker_tests::{Running, Setup, Wire, eventually, skipped, spawn, still_works};

/// How long a client may take to notice.
const NOTICED: Duration = Duration::from_secs(20);

fn twelve_times(prepare: impl FnOnce(&mut Setup)) {
    let mark = Mark::new();
    let mut server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.5");
        prepare(s);
    });
    let before = server.settled();
    let mut under_way = 0;
    for round in 0..12 {
        // The tool's own process carries one mark; what it has sent away,
        // deaf to TERM and HUP, another.
        let (own, away) = (mark.of(round), mark.of(100 + round));
        let text = format!(
            "trap '' TERM HUP; touch up; (setsid sleep {away} <&- >&- 2>&- &); sleep {away} >&- 2>&- & exec sleep {own}"
        );
        let mut clients: Vec<Running> =
            (0..6).map(|_| spawn(server.client("sh").args(["-c", &text]))).collect();
        let mut wires: Vec<Wire> = Vec::new();
        for stdio in ["buffered", "stream"] {
            let mut wire = server.connect();
            wire.send_json(&script(&server, stdio, &text));
            wires.push(wire);
        }
        if round % 3 == 0 {
            eventually("all of them run", || mark.alive_of(round).len() == 8);
        } else {
            a_moment(60);
        }
        under_way += mark.alive_of(round).len();
        let setup = server.stop(Signal::SIGKILL);
        let start = Instant::now();
        for client in &mut clients {
            client.wait_status();
        }
        let took = start.elapsed();
        assert!(took < NOTICED, "the clients took {took:?} to see that the server is dead");
        for client in clients {
            let line = client.wait().refused(125);
            assert!(line.contains("tool-server") || line.contains("server"), "{line}");
        }
        // Nothing, or the end: never half an answer.
        for wire in &mut wires {
            assert_eq!(wire.until_closed(), Vec::<Vec<u8>>::new());
        }
        eventually("the tools' own processes are gone", || mark.alive_of(round).is_empty());
        assert!(setup.socket().exists(), "a dead socket is there to be replaced");
        server.start_again(setup);
        // What it found is gone before it serves.
        assert_eq!(mark.alive(), [], "left by the killed server");
        let _ = fs::remove_file(server.ws().join("up"));
        still_works(&server);
    }
    assert!(under_way >= 30, "only {under_way} calls were under way when their server died");
    eventually("nothing is left behind", || server.status()["left_behind"] == json!([]));
    server.nothing_left(before);
}

#[test]
fn a_killed_server_leaves_nothing_to_the_next_one() {
    twelve_times(|_| ());
}

#[test]
fn a_killed_server_leaves_nothing_to_the_next_one_by_the_mark_alone() {
    twelve_times(|s| s.env("TOOL_CGROUP", "off"));
}

/// A tool whose main process is not the server's child to kill: it ignores what
/// it can. Its death must not wait for the next server.
#[test]
fn the_tools_own_process_dies_with_the_server() {
    let mark = Mark::new();
    let mut server = start(|_| ());
    let text = format!("trap '' TERM HUP INT PIPE; exec sleep {}", mark.of(0));
    let client = spawn(server.client("sh").args(["-c", &text]));
    eventually("the tool runs", || mark.alive().len() == 1);
    let setup = server.stop(Signal::SIGKILL);
    mark.all_gone();
    client.wait().refused(125);
    server.start_again(setup);
    still_works(&server);
}

/// The calls' cgroups of a server that was killed are cleared by the next one.
#[test]
fn cgroups_of_a_killed_server_do_not_pile_up() {
    let test = "cgroups_of_a_killed_server_do_not_pile_up";
    let mut server = start(|s| s.env("TOOL_CGROUP", "auto"));
    let Some(cgroup) = server.cgroup().cloned() else {
        return skipped(test, "no cgroup can be made here");
    };
    let parent = cgroup.parent().expect("a parent").to_owned();
    let made = |of: &std::path::Path| {
        let entries = fs::read_dir(of).expect("a cgroup").flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    let mark = Mark::new();
    for round in 0..5 {
        let text = format!("setsid sleep {} <&- >&- 2>&- & touch up; sleep 60", mark.of(round));
        let mut wires: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
        for wire in &mut wires {
            wire.send_json(&script(&server, "buffered", &text));
        }
        eventually("all of them run", || mark.alive_of(round).len() == 4);
        let setup = server.stop(Signal::SIGKILL);
        server.start_again(setup);
        assert_eq!(server.cgroup(), Some(&cgroup), "the next server has the same directory");
        still_works(&server);
    }
    mark.all_gone();
    assert!(made(&cgroup) <= 8, "{} cgroups of calls, none of which runs", made(&cgroup));
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!cgroup.exists(), "{} stays after the server's end", cgroup.display());
    assert!(parent.exists());
}

/// Killed while it starts: the next one starts all the same.
#[test]
fn a_server_that_is_killed_while_it_starts_does_not_hinder_the_next() {
    let mut setup = Setup::new();
    for _ in 0..20 {
        let command = setup.serve();
        let server = tool_broker_tests::Server::spawn(setup, command);
        a_moment(30);
        setup = server.stop(Signal::SIGKILL);
    }
    let mut server = reliability_help::Tidy::of(tool_broker_tests::Server::start_in(setup));
    still_works(&server);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

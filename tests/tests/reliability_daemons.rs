//! What calls leave behind: it belongs to its call, holds nothing up, is listed
//! and reaped, and goes with the server.

mod reliability_help;

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use reliability_help::{Mark, Tidy, file_appears, running, script, start};
use serde_json::json;
use tool_broker_tests::{Server, Setup, eventually, is_root, run, skipped, spawn, still_works};

/// A script that leaves a daemon (a session of its own, re-parented, nothing of
/// the caller's open) and says in a file that it has.
fn daemonise(mark: &str, file: &str) -> String {
    format!("(setsid sleep {mark} <&- >&- 2>&- &); touch {file}")
}

/// What `tool-server status` prints about left processes.
fn listed(server: &Server) -> Vec<String> {
    let said = run(&mut server.verb(&["status"]), b"").success();
    said.lines().filter(|line| line.starts_with("left by call ")).map(str::to_owned).collect()
}

fn only_the_dead_callers_daemon_goes(prepare: impl FnOnce(&mut Setup)) {
    let mark = Mark::new();
    let mut server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.5");
        prepare(s);
    });
    let (dead, living, ended) = (mark.of(1), mark.of(2), mark.of(3));
    // One that ended normally, and two under way.
    let text = daemonise(&ended, "ended");
    assert_eq!(run(server.client("sh").args(["-c", &text]), b"").code(), Some(0));
    let two = [(&dead, "dead"), (&living, "living")].map(|(mark, file)| {
        let text = daemonise(mark, file) + "; until [ -e go ]; do sleep 0.02; done; echo fine";
        spawn(server.client("sh").args(["-c", &text]))
    });
    for file in ["ended", "dead", "living"] {
        file_appears(&server, file);
    }
    let count = || [1, 2, 3].map(|n| mark.alive_of(n).len());
    eventually("three daemons", || count() == [1, 1, 1]);
    let others = [mark.alive_of(2), mark.alive_of(3)];
    let [first, second] = two;
    first.signal(Signal::SIGKILL);
    drop(first);
    eventually("the dead caller's call is over", || running(&server) == 1);
    assert_eq!(count(), [0, 1, 1], "daemons of the dead, the living, the ended call");
    let list = listed(&server);
    assert!(list.len() == 1 && list[0].contains(&ended), "only the ended call left one: {list:?}");
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(second.wait().success(), "fine\n");
    assert_eq!([mark.alive_of(2), mark.alive_of(3)], others);
    let list = listed(&server);
    for mark in [&living, &ended] {
        assert!(list.iter().any(|line| line.contains(mark.as_str())), "{mark} not in {list:?}");
    }
    still_works(&server);
    assert_eq!([mark.alive_of(2), mark.alive_of(3)], others, "daemons after further calls");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_eq!(count(), [0, 0, 0], "daemons after the server's end");
}

#[test]
fn of_two_calls_that_daemonise_only_the_dead_callers_daemon_goes() {
    only_the_dead_callers_daemon_goes(|_| ());
}

#[test]
fn of_two_calls_that_daemonise_only_the_dead_callers_daemon_goes_by_the_mark_alone() {
    only_the_dead_callers_daemon_goes(|s| s.env("TOOL_CGROUP", "off"));
}

#[test]
fn a_daemon_that_keeps_the_pipes_does_not_hold_the_call() {
    let mark = Mark::new();
    let server = start(|_| ());
    let before = server.settled();
    // It keeps stdin, stdout and stderr.
    let text = |n: u32| format!("echo said; echo too >&2; setsid sleep {} & exit 6", mark.of(n));
    let reply = server.connect().call(&script(&server, "buffered", &text(1)));
    assert_eq!(
        (&reply["exit_code"], &reply["stdout"], &reply["stderr"]),
        (&json!(6), &json!("said\n"), &json!("too\n")),
        "{reply}"
    );
    let mut wire = server.connect();
    wire.send_json(&script(&server, "stream", &text(2)));
    let got = wire.recv_stream();
    assert_eq!((&got.stdout[..], &got.stderr[..]), (&b"said\n"[..], &b"too\n"[..]));
    assert_eq!((got.ended, &got.last["exit_code"]), ((true, true), &json!(6)), "{:?}", got.last);
    // The connection is free for the next call.
    wire.send_json(&script(&server, "stream", "echo again"));
    assert_eq!(wire.recv_stream().stdout, b"again\n");
    // By the client, whose pipes the daemon then holds: into files, since the
    // end of a pipe would only come with the daemon's.
    let out = fs::File::create(server.path("out")).expect("a file");
    let mut client = server.client("sh");
    client.args(["-c", &text(3)]).stdout(out.try_clone().expect("dup")).stderr(out);
    tool_broker_tests::sys::die_with_parent(&mut client);
    let mut child = client.spawn().expect("the client");
    let status =
        tool_broker_tests::eventually_some("the client ends", || child.try_wait().expect("wait"));
    assert_eq!(status.code(), Some(6));
    assert_eq!(fs::read_to_string(server.path("out")).expect("out"), "said\ntoo\n");
    assert_eq!([1, 2, 3].map(|n| mark.alive_of(n).len()), [1, 1, 1], "the daemons live on");
    still_works(&server);
    drop(wire);
    // The server itself keeps nothing open for them.
    eventually("the server's descriptors are as before", || server.fd_count() <= before);
}

/// Children that outlive their parent are the server's to reap.
fn orphans_are_reaped(server: &Server, server_pid: i32) {
    let orphans = || server.status()["calls"]["orphans_reaped"].as_u64().expect("a number");
    let before = orphans();
    for _ in 0..20 {
        let text = "(setsid sh -c 'sleep 0.05; exit 3' >/dev/null 2>&1 &); exit 0";
        let reply = server.connect().call(&script(server, "buffered", text));
        assert_eq!(reply["exit_code"], json!(0), "{reply}");
    }
    eventually("twenty orphans are reaped", || orphans() >= before + 20);
    let children = || tool_broker_tests::process::children(server_pid);
    eventually("no zombie of the server's", || children().is_empty());
    still_works(server);
}

#[test]
fn zombies_of_orphans_are_reaped() {
    let server = start(|_| ());
    orphans_are_reaped(&server, server.pid());
}

#[test]
fn a_server_that_is_process_1_reaps_and_stops_in_order() {
    let test = "a_server_that_is_process_1_reaps_and_stops_in_order";
    if !is_root() {
        return skipped(test, "only root can make a pid namespace here");
    }
    let into = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let probe = Command::new("unshare").args(into).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skipped(test, "unshare --pid --mount-proc does not work here");
    }
    let mark = Mark::new();
    let setup = Setup::new();
    let serve = setup.serve();
    let mut command = setup.command("/usr/bin/unshare".as_ref());
    command.args(into).arg(serve.get_program()).args(serve.get_args());
    let mut server = Tidy::of(Server::start_command(setup, command));
    let inner = server.children();
    assert_eq!(inner.len(), 1, "unshare has one child, the server: {inner:?}");
    assert_eq!(server.status()["pid"], json!(1));
    orphans_are_reaped(&server, inner[0].pid);
    // A killed caller's tree goes here as well, and a daemon at the end.
    let text = daemonise(&mark.of(1), "one") + "; sleep 60";
    let client = spawn(server.client("sh").args(["-c", &text]));
    file_appears(&server, "one");
    eventually("the daemon runs", || mark.alive().len() == 1);
    client.signal(Signal::SIGKILL);
    drop(client);
    mark.all_gone();
    assert_eq!(
        run(server.client("sh").args(["-c", &daemonise(&mark.of(2), "two")]), b"").code(),
        Some(0)
    );
    eventually("the daemon runs", || mark.alive().len() == 1);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(inner[0].pid), Signal::SIGTERM)
        .expect("SIGTERM for process 1");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    mark.all_gone();
    assert!(!server.socket().exists(), "the socket's file stays");
}

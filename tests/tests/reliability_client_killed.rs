//! A client that is killed takes the whole tree of its call with it, however
//! its processes hide, and no process of any other call.

mod reliability_help;

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use reliability_help::{Mark, Tidy, a_moment, script, start};
use serde_json::json;
use tool_broker_tests::process::Process;
use tool_broker_tests::{Running, Server, eventually, skipped, spawn, still_works};

/// As many levels as are asked for, each of which forks twice into a session of its own with an
/// empty environment, ignores what can be ignored, leaves its directory and its
/// descriptors, and puts a second child into a group of its own. Every level
/// ends as a `sleep` that carries the mark.
const HIDE: &str = r#"#!/bin/sh
# $1 mark, $2 levels below, $3 where to note that a level was reached
trap '' TERM HUP INT QUIT USR1 USR2
echo "$2" >> "$3"
cd /
if [ "$2" -gt 0 ]; then
    (setsid env -i PATH=/usr/bin:/bin /bin/sh "$0" "$1" $(($2 - 1)) "$3" <&- >&- 2>&- &)
    set -m
    (sleep "$1" <&- >&- 2>&- &)
    set +m
fi
exec sleep "$1" <&- >&- 2>&-
"#;

/// How many processes such a tree with so many levels below its first has, once none of
/// its shells is left: a `sleep` of each level, and a second one of all but the last.
const fn hidden(levels: usize) -> usize {
    2 * levels + 1
}

/// Whether a hidden tree has all its processes, and will have no others.
fn is_whole(processes: &[Process], levels: usize) -> bool {
    let sleeps = |process: &Process| {
        let name = fs::read_to_string(format!("/proc/{}/comm", process.pid));
        name.is_ok_and(|name| name == "sleep\n")
    };
    processes.len() == hidden(levels) && processes.iter().all(sleeps)
}

/// Of five calls this one is ended when its tree is whole, however long that takes here;
/// the others at any moment.
const WHOLE: usize = 2;

/// 200 clients in batches, most of them killed at a random moment of their lives.
fn two_hundred_times(server: &Tidy) {
    let hide = server.file("ws/hide.sh", HIDE, 0o755);
    let reached = server.ws().join("reached");
    let (mark, bystanders) = (Mark::new(), Mark::new());
    // Another caller's call, with children as hidden, under way all the time.
    let mut other = server.connect();
    other.send_json(&script(
        server,
        "buffered",
        &format!("{} {} 2 /dev/null", hide.display(), bystanders.of(0)),
    ));
    eventually("the other call's processes run", || is_whole(&bystanders.alive(), 2));
    let others = bystanders.alive();
    for batch in 0..8 {
        let mut clients: Vec<Running> = Vec::new();
        for n in 0..25 {
            let of_this = mark.of(batch * 25 + n);
            // A plain tree, the hidden one, and one that only forks.
            let text = match n % 5 {
                0 => format!("sleep {of_this} & sleep {of_this} & wait"),
                1 => format!("while :; do sleep {of_this} & sleep 0.01; done"),
                _ => format!("exec {} {of_this} 3 {}", hide.display(), reached.display()),
            };
            clients.push(spawn(server.client("sh").args(["-c", &text])));
        }
        let (last, first): (Vec<_>, Vec<_>) =
            clients.into_iter().enumerate().partition(|(n, _)| n % 5 == WHOLE);
        for (_, client) in &first {
            a_moment(20);
            client.signal(Signal::SIGKILL);
        }
        for (n, client) in &last {
            let call = batch * 25 + n;
            let whole = || is_whole(&mark.alive_of(call), 3);
            eventually(&format!("the hidden tree of call {call} is whole"), whole);
            client.signal(Signal::SIGKILL);
        }
        for (_, client) in first.into_iter().chain(last) {
            assert_eq!(client.wait().signal(), Some(Signal::SIGKILL as i32));
        }
    }
    mark.all_gone();
    let reached = fs::read_to_string(reached).expect("some calls got so far");
    let deepest = reached.lines().filter(|line| *line == "0").count();
    assert!(deepest >= 40, "only {deepest} of the hidden trees were whole when they were to end");
    assert_eq!(bystanders.alive(), others, "another call's processes");
    drop(other);
    bystanders.all_gone();
}

fn nothing_is_left(prepare: impl FnOnce(&mut tool_broker_tests::Setup)) {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.5");
        prepare(s);
    });
    let before = server.settled();
    two_hundred_times(&server);
    server.nothing_left(before);
    eventually("status knows of nothing that is left", || {
        let status = server.status();
        status["left_behind"] == json!([]) && status["calls"]["running"] == json!(0)
    });
    still_works(&server);
}

#[test]
fn two_hundred_killed_clients_leave_nothing_where_there_are_cgroups() {
    let probe = start(|s| s.env("TOOL_CGROUP", "auto"));
    if probe.cgroup().is_none() {
        let test = "two_hundred_killed_clients_leave_nothing_where_there_are_cgroups";
        return skipped(test, "no cgroup can be made here");
    }
    drop(probe);
    nothing_is_left(|s| s.env("TOOL_CGROUP", "auto"));
}

#[test]
fn two_hundred_killed_clients_leave_nothing_where_only_the_mark_tells() {
    nothing_is_left(|s| s.env("TOOL_CGROUP", "off"));
}

/// A process that is a new one each time it is looked at: it forks, and the
/// parent ends. Since a look at /proc may miss it, it is seen by what it adds to
/// a file. It lives only as long as another file is there, so that this test
/// leaves nothing however it ends.
const HOP: &str = r#"$SIG{TERM} = $SIG{HUP} = "IGNORE"; my ($go, $beat, $leave) = @ARGV;
while (-e $go) {
    open my $file, ">>", $beat; print $file "."; close $file;
    if (fork) { exit } setpgrp(0, 0) if $leave;
}"#;

fn hopper(server: &Server, leave_the_group: bool) {
    let mark = Mark::new();
    let (go, beat) = (server.file("ws/go", "", 0o644), server.ws().join("beat"));
    let text = format!("perl -e \"$@\" & exec sleep {}", mark.of(0));
    let mut client = server.client("sh");
    client.args(["-c", &text, "sh", HOP]).args([&go, &beat]);
    client.arg(if leave_the_group { "1" } else { "" });
    let client = spawn(&mut client);
    let beats = || fs::metadata(&beat).map_or(0, |meta| meta.len());
    eventually("it hops", || beats() > 20 && mark.alive().len() == 1);
    client.signal(Signal::SIGKILL);
    drop(client);
    let mut last = 0;
    eventually("the hopping process is gone", || {
        let before = std::mem::replace(&mut last, beats());
        std::thread::sleep(Duration::from_millis(500));
        before == last
    });
    assert!(go.exists(), "it ended because the file went, not because the server ended it");
    mark.all_gone();
    eventually("the call is over", || server.status()["calls"]["running"] == json!(0));
    // On a busy machine it may have rested for as long as that; now nothing is left of it.
    let last = beats();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(beats(), last, "it hops again");
    still_works(server);
}

#[test]
fn a_process_that_forks_all_the_time_goes_with_its_caller() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_CGROUP", "auto");
    });
    if server.cgroup().is_none() {
        let test = "a_process_that_forks_all_the_time_goes_with_its_caller";
        return skipped(test, "no cgroup can be made here");
    }
    let before = server.settled();
    hopper(&server, false);
    server.nothing_left(before);
}

#[test]
fn a_process_that_forks_all_the_time_goes_where_only_the_mark_tells() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_CGROUP", "off");
    });
    let before = server.settled();
    hopper(&server, false);
    server.nothing_left(before);
}

#[test]
fn a_process_that_forks_into_new_groups_all_the_time_goes_with_its_caller() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_CGROUP", "auto");
    });
    if server.cgroup().is_none() {
        let test = "a_process_that_forks_into_new_groups_all_the_time_goes_with_its_caller";
        return skipped(test, "no cgroup can be made here");
    }
    let before = server.settled();
    hopper(&server, true);
    server.nothing_left(before);
}

#[test]
fn a_process_that_forks_into_new_groups_all_the_time_goes_where_only_the_mark_tells() {
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_CGROUP", "off");
    });
    let before = server.settled();
    hopper(&server, true);
    server.nothing_left(before);
}

/// A cgroup costs the kernel memory: those of calls that left something for a
/// moment must not pile up.
#[test]
fn cgroups_of_calls_that_left_something_for_a_moment_do_not_pile_up() {
    let server = start(|s| s.env("TOOL_CGROUP", "auto"));
    let Some(cgroup) = server.cgroup() else {
        let test = "cgroups_of_calls_that_left_something_for_a_moment_do_not_pile_up";
        return skipped(test, "no cgroup can be made here");
    };
    let made = || {
        let entries = fs::read_dir(cgroup).expect("the server's cgroup").flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    let request = script(&server, "buffered", "sleep 0.2 >/dev/null 2>&1 & :");
    let mut wire = server.connect();
    for _ in 0..300 {
        assert_eq!(wire.call(&request)["exit_code"], json!(0));
    }
    eventually("what they left has ended", || server.children().is_empty());
    // What is there is used again, and calls give the server occasion to clear.
    for _ in 0..20 {
        assert_eq!(wire.call(&request)["exit_code"], json!(0));
    }
    eventually("what they left has ended", || server.children().is_empty());
    assert!(made() <= 128, "{} cgroups for 320 calls, one at a time", made());
    still_works(&server);
}

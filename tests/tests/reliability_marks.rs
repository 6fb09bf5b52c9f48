//! The mark of a call: a process can spoil its own, but neither get away with
//! it nor harm another call by it.

mod reliability_help;

use nix::sys::signal::Signal;
use reliability_help::{Mark, Tidy, file_appears, running, start};
use tool_broker_tests::{Running, eventually, spawn, still_works};

/// Ways to lower the limits that carry the mark: the first, the second, both,
/// by one (what another call's mark could look like), to nothing.
const LOWER: [(&str, &str); 5] = [
    ("locks", "prlimit --pid $$ --locks=5:5"),
    ("rttime", "prlimit --pid $$ --rttime=100000000:100000000"),
    ("both", "prlimit --pid $$ --locks=5:5 --rttime=100000000:100000000"),
    (
        "by one",
        "python3 -c 'import os, resource
for which in (10, 15):
    hard = resource.prlimit(os.getppid(), which)[1]
    resource.prlimit(os.getppid(), which, (hard - 1, hard - 1))'",
    ),
    ("ulimit", "exec 9>&1; ulimit -x 0"),
];

/// A server that knows trees by the mark alone.
fn by_the_mark() -> Tidy {
    start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.env("TOOL_CGROUP", "off");
        // A confined tool cannot even touch the mark.
        s.tool("bash", "binary = \"/bin/bash\"\n[sandbox]\nmode = \"off\"\n");
    })
}

fn call(server: &Tidy, text: &str) -> Running {
    spawn(server.client("bash").args(["-c", text]))
}

/// Ends a caller and waits until its call is over; `others` go on.
fn kill(server: &Tidy, caller: Running, others: u64) {
    caller.signal(Signal::SIGKILL);
    drop(caller);
    eventually("the dead caller's call is over", || running(server) == others);
}

#[test]
fn a_process_that_spoils_its_mark_and_runs_away_dies_with_its_caller() {
    let mark = Mark::new();
    let server = by_the_mark();
    let before = server.settled();
    // Another call, with a daemon, an ordinary child, and a child that spoilt
    // its mark as well but still has its parent.
    let other = call(
        &server,
        &format!(
            "(setsid sleep {0} &); sleep {0} & (prlimit --pid $BASHPID --locks=7:7; exec sleep {0}) & touch other; sleep {0}",
            mark.of(0)
        ),
    );
    file_appears(&server, "other");
    eventually("the other call's four processes", || mark.alive_of(0).len() == 4);
    let others = mark.alive_of(0);
    for (n, (how, lower)) in LOWER.into_iter().enumerate() {
        let of_this = mark.of(n + 1);
        // The inner bash spoils its mark, forks into a session of its own
        // and ends: nothing leads back from the sleep to the call.
        let run_away = format!("{lower} || exit 1; setsid sleep {of_this} <&- >&- 2>&- & ");
        let text = format!("trap '' TERM; bash -c \"$0\" && touch 'up {n}'; sleep 60");
        let mut client = server.client("bash");
        client.args(["-c", &text, &run_away]);
        let caller = spawn(&mut client);
        file_appears(&server, &format!("up {n}"));
        eventually(&format!("{how}: it has run away"), || mark.alive_of(n + 1).len() == 1);
        kill(&server, caller, 1);
        assert_eq!(mark.alive_of(n + 1), [], "{how}: it lives on");
        assert_eq!(mark.alive_of(0), others, "{how}: another call's processes");
    }
    kill(&server, other, 0);
    mark.all_gone();
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_mark_cannot_be_raised_again() {
    let server = by_the_mark();
    let lower = "prlimit --pid $$ --locks=5:5 --rttime=100000000:100000000";
    assert_eq!(call(&server, lower).wait().code(), Some(0), "lowering is anyone's right");
    for raise in [
        "prlimit --pid $$ --locks=unlimited:unlimited",
        "prlimit --pid $$ --rttime=unlimited:unlimited",
        "prlimit --pid $$ --locks=5:5 && prlimit --pid $$ --locks=6:6",
        "ulimit -Hx unlimited",
    ] {
        let outcome = call(&server, raise).wait();
        assert!(outcome.code() != Some(0), "{raise}: {outcome:?}");
    }
    still_works(&server);
}

/// The tool's own process spoils its mark, in a call that goes on: the end of
/// another call must not end it.
#[test]
fn a_call_whose_own_process_spoilt_its_mark_survives_the_end_of_another_call() {
    let mark = Mark::new();
    let server = by_the_mark();
    let text = format!(
        "prlimit --pid $$ --locks=5:5; (setsid sleep {} <&- >&- 2>&- &); touch innocent; sleep {}; echo fine",
        mark.of(1),
        mark.of(1)
    );
    let innocent = call(&server, &text);
    file_appears(&server, "innocent");
    eventually("its processes run", || mark.alive_of(1).len() == 2);
    let caller = call(&server, "touch caller; sleep 60");
    file_appears(&server, "caller");
    kill(&server, caller, 1);
    // Its daemon broke the mark and re-parented itself: that one nobody can tell
    // from the dead caller's. But the tool's own process the server has started
    // itself, and knows whose it is.
    let left = mark.alive_of(1);
    assert!(!left.is_empty(), "another call's end killed this call's own process");
    left.iter().for_each(tool_broker_tests::process::kill);
    assert_eq!(innocent.wait().success(), "fine\n");
    still_works(&server);
}

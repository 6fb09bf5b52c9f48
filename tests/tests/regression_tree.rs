//! Bugs that were found in the ends of process trees, and must not come back:
//! each test failed on the code of its time.

mod reliability_help;

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use reliability_help::{Mark, Tidy, file_appears, marked, running, script, start};
use serde_json::json;
use tool_broker_tests::process::{self, process};
use tool_broker_tests::{
    Wire, eventually, eventually_some, is_root, run, skipped, spawn, still_works,
};

/// A program whose first thread ends while another goes on: the process looks
/// like a zombie and is none. With an argument it is a child in a session of its
/// own. It writes its pid into `leader`, and gives up by itself.
const LEADERLESS: &str = "
import ctypes, os, platform, sys, threading, time
if len(sys.argv) > 1 and os.fork():
    time.sleep(100)
    os._exit(0)
if len(sys.argv) > 1:
    os.setsid()
threading.Thread(target=lambda: (time.sleep(100), os._exit(0))).start()
with open('leader.new', 'w') as file:
    file.write(str(os.getpid()))
os.rename('leader.new', 'leader')
number = 93 if platform.machine() == 'aarch64' else 60
ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0))
";

/// Whether a thread of a process is neither a zombie nor dead.
fn a_thread_lives(pid: i32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.into_iter().any(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    })
}

/// Starts a call of a script that says `up`, and goes as soon as it has.
fn abandon(server: &Tidy, text: &str) {
    let mut wire = server.connect();
    wire.send_json(&script(server, "stream", text));
    file_appears(server, "up");
}

/// Whatever a tool ran to clean up was told to end too, some milliseconds after it began.
#[test]
fn what_a_told_process_runs_to_clean_up_is_left_alone() {
    for binary in ["/bin/sh", "/bin/bash"] {
        let server = start(|s| {
            s.env("TOOL_TIMEOUTS_GRACE", "60");
            s.tool("sh", &format!("{{\"binary\":\"{binary}\"}}"));
        });
        // Longer than all pauses between two looks; by itself, and beneath what is run.
        for cleaning in ["sleep 0.5 && touch cleaned", "(sleep 0.5 && touch cleaned)"] {
            let cleans_up = format!("trap '{cleaning}; exit' TERM; touch up");
            abandon(&server, &format!("{cleans_up}; while :; do sleep 0.05; done"));
            file_appears(&server, "cleaned");
            eventually("the call is over", || running(&server) == 0);
            for file in ["cleaned", "up"] {
                fs::remove_file(server.ws().join(file)).expect(file);
            }
        }
    }
}

/// Whoever is left by a process that was told belongs to the first process of the namespaces, which
/// was told too and cleans up nothing.
#[test]
fn what_a_told_process_leaves_is_told_at_once() {
    // Half of it is longer than anybody waits here.
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "400");
        let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"example.org\"]\n";
        s.tool("sh", &format!("binary = \"/bin/sh\"\n{gate}"));
    });
    let mark = Mark::new();
    let leaves = format!("trap '(setsid sleep {} &); sleep 0.3; : > left' TERM", mark.of(1));
    abandon(&server, &format!("{leaves}; touch up; while [ ! -e stop ]; do sleep 0.05; done"));
    file_appears(&server, "left");
    mark.all_gone();
    assert_eq!(running(&server), 1, "who has a handler goes on");
    fs::write(server.ws().join("stop"), "").expect("stop");
    eventually("the call is over", || running(&server) == 0);
}

/// A program that is started as its parent is told is what the parent waits for: it is told too,
/// later, and the parent may clean up.
#[test]
fn what_goes_on_for_long_beneath_a_told_process_is_told_before_it_is_killed() {
    let server = start(|s| s.env("TOOL_TIMEOUTS_GRACE", "16"));
    let mark = Mark::new();
    let text = format!(
        "trap 'sleep {}; : > went; exit' TERM; touch up; while :; do sleep 0.05; done",
        mark.of(1)
    );
    abandon(&server, &text);
    // It sleeps for a day, unless it is told.
    file_appears(&server, "went");
    eventually("the call is over", || running(&server) == 0);
}

#[test]
fn a_process_whose_first_thread_has_ended_dies_with_its_caller() {
    for cgroup in ["off", "auto"] {
        let server = start(|s| {
            s.env("TOOL_TIMEOUTS_GRACE", "0.3");
            s.env("TOOL_CGROUP", cgroup);
            s.tool("python3", r#"{"binary":"/usr/bin/python3"}"#);
        });
        let before = server.settled();
        for arguments in [&["-c", LEADERLESS][..], &["-c", LEADERLESS, "as a child"]] {
            let what = format!("TOOL_CGROUP={cgroup}, {:?}", arguments.get(2));
            let mut wire = server.connect();
            wire.send_json(&json!({
                "tool":"python3","args":arguments,"cwd":server.ws(),"stdio":"stream"
            }));
            file_appears(&server, "leader");
            let pid = fs::read_to_string(server.ws().join("leader")).expect("leader");
            let pid: i32 = pid.parse().expect("a pid");
            let seen = eventually_some("its first thread ends", || {
                process(pid).filter(|process| process.state == 'Z')
            });
            assert!(a_thread_lives(pid), "{what}: the whole process has ended");
            drop(wire);
            eventually("the dead caller's call is over", || running(&server) == 0);
            eventually(&format!("{what}: it ends with its caller"), || {
                process(pid).is_none_or(|now| now.started != seen.started) || !a_thread_lives(pid)
            });
            fs::remove_file(server.ws().join("leader")).expect("leader");
        }
        server.nothing_left(before);
        still_works(&server);
    }
}

/// A child that forks and ends, and so on, without an end: whoever lists
/// processes and then looks at each sees none of it.
const CHAIN: &str = "
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.time() + 60
with open('/proc/self/cgroup') as file:
    place = file.read()
if os.fork():
    time.sleep(60)
    os._exit(0)
with open('place.new', 'w') as file:
    file.write(place)
os.rename('place.new', 'place')
while time.time() < end:
    if os.fork():
        os._exit(0)
";

/// How many processes a cgroup has; one that is gone has none.
fn population(cgroup: &Path) -> usize {
    fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default().lines().count()
}

#[test]
fn nothing_is_left_in_the_cgroup_of_a_call_whose_caller_died() {
    let test = "nothing_is_left_in_the_cgroup_of_a_call_whose_caller_died";
    let server = start(|s| {
        s.env("TOOL_CGROUP", "auto");
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.tool("python3", r#"{"binary":"/usr/bin/python3"}"#);
    });
    let Some(cgroup) = server.cgroup().cloned() else {
        return skipped(test, "calls get no cgroups here");
    };
    // Another call with many processes: what is listed is old when it is read.
    let mut other = server.connect();
    let many = "for n in $(seq 150); do sleep 60 & done; touch many; wait";
    other.send_json(&script(&server, "stream", many));
    file_appears(&server, "many");
    for _ in 0..3 {
        let mut wire = server.connect();
        let args = ["-c", CHAIN];
        wire.send_json(&json!({"tool":"python3","args":args,"cwd":server.ws(),"stdio":"stream"}));
        file_appears(&server, "place");
        let place = fs::read_to_string(server.ws().join("place")).expect("place");
        fs::remove_file(server.ws().join("place")).expect("place");
        let place = place.lines().find_map(|line| line.strip_prefix("0::")).expect("a cgroup");
        let own: PathBuf = cgroup.join(Path::new(place).file_name().expect("a name"));
        assert!(population(&own) > 0, "{} is not the call's", own.display());
        drop(wire);
        eventually("the dead caller's call is over", || running(&server) == 1);
        eventually("its cgroup is empty", || population(&own) == 0);
    }
    drop(other);
    eventually("the other call is over", || running(&server) == 0);
    still_works(&server);
}

/// A server that is not root may neither read nor set the limits of a program
/// that is somebody else's by its set-uid bit; it may kill it.
#[test]
fn a_set_uid_program_dies_with_its_caller() {
    let test = "a_set_uid_program_dies_with_its_caller";
    if !is_root() {
        return skipped(test, "not root");
    }
    for cgroup in ["off", "auto"] {
        let server: Tidy = start(|s| {
            s.env("TOOL_TIMEOUTS_GRACE", "0.3");
            s.env("TOOL_CGROUP", cgroup);
            s.uid(23_456);
            // A confined tool has no use of set-uid bits.
            s.tool("sh", "binary = \"/bin/sh\"\n[sandbox]\nmode = \"off\"\n");
        });
        let program = server.path("suid-sleep");
        let mut copy = std::process::Command::new("cp");
        assert_eq!(run(copy.arg("/bin/sleep").arg(&program), b"").code(), Some(0));
        tool_broker_tests::setup::mode(&program, 0o4755);
        let mark = program.display().to_string();
        let text = format!("setsid {mark} 100 & sleep 100");
        let caller = spawn(server.client("sh").args(["-c", &text]));
        let seen = eventually_some("it runs", || marked(&mark).into_iter().find(is_program));
        let status = fs::read_to_string(format!("/proc/{}/status", seen.pid)).expect("status");
        if !status.contains("Uid:\t23456\t0\t0\t0") {
            marked(&mark).iter().for_each(process::kill);
            return skipped(test, "set-uid bits mean nothing here");
        }
        caller.signal(Signal::SIGKILL);
        drop(caller);
        eventually("the dead caller's call is over", || running(&server) == 0);
        eventually("it ends with its caller", || {
            process(seen.pid).is_none_or(|now| now.started != seen.started || now.state == 'Z')
        });
        let wire = Wire::try_connect(&server.socket());
        assert!(wire.is_ok(), "TOOL_CGROUP={cgroup}: the server is there");
    }
}

/// Whether a process runs the program itself, and is not the shell or setsid
/// that is about to.
fn is_program(process: &process::Process) -> bool {
    let link = fs::read_link(format!("/proc/{}/exe", process.pid));
    link.is_ok_and(|link| link.ends_with("suid-sleep"))
}

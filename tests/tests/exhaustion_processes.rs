//! No more processes: the kernel refuses to fork, the caller is told and may
//! come again, and the server outlives it, whatever it was about to do.

mod reliability_help;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use reliability_help::{Mark, Tidy, does_not_spin, random, script, served_in_the_end, start};
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, Wire, eventually, is_root, run, skipped, still_works};

/// A server under a uid of its own that may have `processes` processes and
/// threads, its own included.
fn with(processes: u64) -> Tidy {
    start(|s| {
        s.uid(u32::try_from(1_000_000 + random() % 1_000_000).expect("a uid"));
        s.limit(Resource::RLIMIT_NPROC, processes, processes);
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    })
}

/// Calls that go on, one after the other, until one cannot be started: adds those that
/// run, and gives what the last one was told.
fn fill(server: &Server, mark: &Mark, wires: &mut Vec<Wire>) -> Value {
    let text = format!("exec sleep {}", mark.of(0));
    for n in wires.len() + 1..200 {
        let mut wire = server.connect();
        wire.send_json(&script(server, "buffered", &text));
        // It runs, or there is an answer.
        let mut answered = false;
        eventually("it runs or is refused", || {
            let mut byte = [0];
            let flags =
                nix::sys::socket::MsgFlags::MSG_PEEK | nix::sys::socket::MsgFlags::MSG_DONTWAIT;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&wire.stream);
            answered = nix::sys::socket::recv(fd, &mut byte, flags).is_ok();
            answered || mark.alive().len() == n
        });
        if answered {
            return wire.recv_json();
        }
        wires.push(wire);
    }
    panic!("200 processes, and no limit");
}

#[track_caller]
fn spawn_failed(reply: &Value) {
    let got = (&reply["code"], &reply["exit_code"]);
    assert_eq!(got, (&json!("spawn_failed"), &json!(125)), "{reply}");
    assert!(reply["error"].as_str().is_some_and(|error| error.contains("again")), "{reply}");
}

/// A thousand times no process; then room; then all is well.
fn refused_and_well_again(server: &mut Tidy, mark: &Mark) {
    let before = server.settled();
    let mut wires = Vec::new();
    let mut refused = fill(server, mark, &mut wires);
    // Threads that the server keeps for a while count too: there is room when they end.
    eventually("there is no more room", || {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let before = wires.len();
        refused = fill(server, mark, &mut wires);
        wires.len() == before
    });
    assert!(wires.len() >= 3, "only {} fit: the limit is too low for this test", wires.len());
    spawn_failed(&refused);
    let request = script(server, "buffered", "true");
    let mut wire = server.connect();
    for _ in 0..990 {
        spawn_failed(&wire.call(&request));
    }
    for stdio in ["stream", "buffered"] {
        wire.send_json(&script(server, stdio, "true"));
        spawn_failed(&wire.recv_stream_or_message());
    }
    let line = run(server.client("sh").args(["-c", "true"]), b"").refused(125);
    assert!(line.contains("again"), "does not say what to do: {line}");
    drop(wire);
    // What runs goes on, and `status` and `health` are answered.
    assert_eq!(mark.alive().len(), wires.len());
    assert_eq!(server.status()["calls"]["running"], json!(wires.len()));
    does_not_spin(server);
    drop(wires);
    mark.all_gone();
    let reply = served_in_the_end(server, &script(server, "buffered", "echo fine"));
    assert_eq!(reply["stdout"], json!("fine\n"), "{reply}");
    server.nothing_left(before);
    still_works(server);
}

trait Last {
    fn recv_stream_or_message(&mut self) -> Value;
}

impl Last for Wire {
    /// The last message, whatever came before it.
    fn recv_stream_or_message(&mut self) -> Value {
        loop {
            let payload = self.recv_frame().expect("a last message");
            if payload[0] == b'{' {
                return serde_json::from_slice(&payload).expect("JSON");
            }
        }
    }
}

#[test]
fn where_the_uid_may_have_no_more_processes_the_caller_is_told_and_may_come_again() {
    if !is_root() {
        let test = "where_the_uid_may_have_no_more_processes_the_caller_is_told_and_may_come_again";
        return skipped(test, "only root can start a server under a uid of its own");
    }
    let mark = Mark::new();
    refused_and_well_again(&mut with(30), &mark);
}

/// Deaf to TERM; takes every process there is, and whichever becomes free. (A
/// shell gives up when it cannot fork.)
const GREEDY: &str = r#"$SIG{TERM} = "IGNORE"; open STDOUT, ">", "/dev/null"; open STDERR, ">", "/dev/null";
while (1) { my $pid = fork; exec "sleep", $ARGV[0] if defined $pid && !$pid;
select undef, undef, undef, 0.02 if !defined $pid; }"#;

/// A tool that takes every process there is, and its caller is killed: to look
/// for the tree the server may need a thread, which it does not get.
fn the_tree_of_a_greedy_tool_goes(server: &mut Tidy, mark: &Mark) {
    let before = server.settled();
    // Threads that the server keeps for a while are gone: it has to make one.
    eventually("the server is down to its threads", || {
        std::thread::sleep(std::time::Duration::from_millis(1200));
        true
    });
    for round in 0..3 {
        let text = format!("exec perl -e '{GREEDY}' {}", mark.of(round));
        let mut wire = server.connect();
        wire.send_json(&script(server, "buffered", &text));
        eventually("there are no more processes", || {
            let reply = server.connect().call(&script(server, "buffered", "true"));
            reply["code"] == json!("spawn_failed")
        });
        std::thread::sleep(std::time::Duration::from_millis(1200));
        drop(wire);
        eventually("the greedy tool's tree is gone", || {
            assert!(server.is_running(), "the server ended:\n{}", server.log());
            mark.alive().is_empty()
        });
        let reply = served_in_the_end(server, &script(server, "buffered", "echo fine"));
        assert_eq!(reply["stdout"], json!("fine\n"), "{reply}");
    }
    server.nothing_left(before);
    still_works(server);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn the_tree_of_a_tool_that_took_every_process_of_the_uid_goes_with_its_caller() {
    if !is_root() {
        let test = "the_tree_of_a_tool_that_took_every_process_of_the_uid_goes_with_its_caller";
        return skipped(test, "only root can start a server under a uid of its own");
    }
    let mark = Mark::new();
    the_tree_of_a_greedy_tool_goes(&mut with(30), &mark);
}

/// A cgroup with a limit of processes, in the hierarchy of version 1.
struct Pids(PathBuf);

impl Pids {
    fn make(limit: u32) -> Option<Pids> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/pids/tool-tests-{}", random()));
        fs::create_dir(&path).ok()?;
        let made = Pids(path);
        fs::write(made.0.join("pids.max"), limit.to_string()).ok()?;
        Some(made)
    }

    /// A server in it.
    fn start(&self) -> Tidy {
        let mut setup = Setup::new();
        setup.env("TOOL_TIMEOUTS_GRACE", "0.3");
        let serve = setup.serve();
        let mut command: Command = setup.command("/bin/sh".as_ref());
        command.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        command.arg(serve.get_program()).args(serve.get_args());
        Tidy::of(Server::start_command(setup, command))
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn where_the_container_may_have_no_more_processes_the_caller_is_told_and_may_come_again() {
    let Some(pids) = Pids::make(30) else {
        let test =
            "where_the_container_may_have_no_more_processes_the_caller_is_told_and_may_come_again";
        return skipped(test, "no cgroup can be made in /sys/fs/cgroup/pids");
    };
    let mark = Mark::new();
    refused_and_well_again(&mut pids.start(), &mark);
}

#[test]
fn the_tree_of_a_tool_that_took_every_process_of_the_container_goes_with_its_caller() {
    let Some(pids) = Pids::make(30) else {
        let test =
            "the_tree_of_a_tool_that_took_every_process_of_the_container_goes_with_its_caller";
        return skipped(test, "no cgroup can be made in /sys/fs/cgroup/pids");
    };
    let mark = Mark::new();
    the_tree_of_a_greedy_tool_goes(&mut pids.start(), &mark);
}

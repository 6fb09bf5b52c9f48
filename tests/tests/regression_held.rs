//! Bugs that were found in what a caller can hold up or fill, and must not come
//! back: each test failed on the code of its time.

mod reliability_help;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reliability_help::{Mark, file_appears, script};
use serde_json::{Value, json};
use tool_broker_tests::lingering::{CLOSERS, answers, closing, send_lingering};
use tool_broker_tests::process::process;
use tool_broker_tests::{PATIENCE, Server, eventually, skipped, still_works, sys};

/// A call by descriptors of which nothing is to be repeated.
fn plain(server: &Server, text: &str) -> Value {
    json!({"tool":"sh","args":["-c",text],"cwd":server.ws(),"stdio":"fds","fds":[],"once":true})
}

/// The pid that a script wrote to this file.
fn pid_in(server: &Server, file: &str) -> Pid {
    file_appears(server, file);
    let pid = fs::read_to_string(server.ws().join(file)).expect(file);
    Pid::from_raw(pid.trim().parse().expect("a pid"))
}

/// One message was enough to hold all threads that close, for as long as it said: sockets
/// that linger in the queues of sockets, whose own time is set back before they are closed.
#[test]
fn nobody_holds_the_threads_that_close_by_what_lingers() {
    let server = Server::start(|_| ());
    let others = send_lingering(&server, CLOSERS);
    eventually("no thread is held", || closing(&server) == 0);
    // Whoever reads a tool's output from a socket hears of its end.
    let (mut read, write) = UnixStream::pair().expect("a pair");
    read.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut client =
        server.client("sh").args(["-c", "echo said"]).stdout(OwnedFd::from(write)).spawn();
    let mut said = String::new();
    read.read_to_string(&mut said).expect("its end");
    assert_eq!(said, "said\n");
    client.as_mut().expect("a client").wait().expect("its end");
    drop(others);
    still_works(&server);
}

/// What a caller is told while it reads nothing was made without a bound, as long
/// as its tool stopped and went on.
#[test]
fn what_nobody_reads_of_a_call_is_not_made_without_end() {
    const STOPS: usize = 2000;
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    let text = "echo $$ > pid.new; mv pid.new pid; while :; do kill -STOP $$; done";
    wire.send_json(
        &json!({"tool":"sh","args":["-c",text],"cwd":server.ws(),"stdio":"fds","fds":[]}),
    );
    let pid = pid_in(&server, "pid");
    for _ in 0..STOPS {
        while process(pid.as_raw()).is_some_and(|it| it.state != 'T') {
            std::thread::yield_now();
        }
        // Whoever is answered after a stop is answered after it was heard of.
        answers(&server, "while a tool stops and goes on");
        kill(pid, Signal::SIGCONT).expect("kill");
    }
    kill(pid, Signal::SIGKILL).expect("kill");
    let mut told = 0;
    loop {
        let message = wire.recv_json();
        if message.get("exit_code").is_some() {
            break;
        }
        assert_eq!(message, json!({"stopped":"STOP"}));
        told += 1;
    }
    // What the kernel keeps of so small messages, and 16 KiB of the server's.
    assert!((10..STOPS * 3 / 4).contains(&told), "{told} of {STOPS} were kept");
    still_works(&server);
}

/// A caller that had nothing more to say was cut off where its call went from the
/// door to a session, as one that never says anything is.
#[test]
fn a_caller_may_be_silent_during_its_call() {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_FIRST_MESSAGE", "3"));
    let mut wire = server.connect();
    wire.send_json(&plain(
        &server,
        "echo $$ > pid.new; mv pid.new pid; kill -STOP $$; sleep 5; exit 3",
    ));
    assert_eq!(wire.recv_json(), json!({"stopped":"STOP"}));
    kill(pid_in(&server, "pid"), Signal::SIGCONT).expect("kill");
    let last = wire.recv_json();
    assert_eq!(last["exit_code"], json!(3), "{last}");
}

/// A leader that could not start its tool held the call for as long as that took.
#[test]
fn the_start_beneath_a_terminal_counts_for_the_timeout() {
    let server = Server::start(|s| {
        fs::copy("/bin/true", s.path("slow")).expect("copy");
        let binary = s.path("slow");
        s.tool("slow", &format!("binary = \"{}\"\ntimeout = 0.5\n", binary.display()));
    });
    let file = File::open(server.path("slow")).expect("open");
    if let Err(error) = sys::lease(&file) {
        let test = "the_start_beneath_a_terminal_counts_for_the_timeout";
        return skipped(test, &format!("no leases here: {error}"));
    }
    let mut wire = server.connect();
    wire.send_json(&json!({
        "tool":"slow","args":[],"cwd":server.ws(),"stdio":"fds","fds":[],"tty":{"fds":[0,1,2]},
    }));
    // Before the lease is broken: in 45 seconds, later than anybody waits here.
    let last = wire.recv_json();
    assert_eq!(last["code"], json!("timed_out"), "{last}");
    drop(file);
    still_works(&server);
}

/// While the tree of another call was being ended, no stop was told.
#[test]
fn a_stop_is_told_while_another_call_is_ended() {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_GRACE", "20"));
    let mark = Mark::new();
    let mut ending = server.connect();
    let text = format!(
        "(trap ': > told' TERM; touch up; while :; do sleep 0.05; done) & trap '' TERM; sleep {}",
        mark.of(1)
    );
    ending.send_json(&script(&server, "stream", &text));
    file_appears(&server, "up");
    eventually("it sleeps", || !mark.alive().is_empty());
    drop(ending);
    // Its tree is told to end, and does not.
    file_appears(&server, "told");
    let mut wire = server.connect();
    wire.send_json(&plain(&server, "kill -STOP $$; exit 3"));
    assert_eq!(wire.recv_json(), json!({"stopped":"STOP"}));
    assert!(!mark.alive().is_empty(), "the other call is over");
    wire.send_json(&json!({"signal":"CONT"}));
    assert_eq!(wire.recv_json()["exit_code"], json!(3));
}

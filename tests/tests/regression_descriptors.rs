//! Bugs that were found in how callers' descriptors are taken and closed, and must
//! not come back: each test failed on the code of its time.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::lingering::{answers, linger, lingering};
use tool_broker_tests::{
    Server, eventually, eventually_some, process, run, skipped, spawn, still_works, sys, terminal,
};

/// Two messages that the server reads at once: the descriptor is the second's.
#[test]
fn descriptors_belong_to_the_message_that_they_came_with_however_it_is_read() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let (mut read, write) = std::io::pipe().expect("a pipe");
    let mut wire = server.connect();
    server.signal(Signal::SIGSTOP);
    wire.send_json(&json!({"op":"health"}));
    let call = json!({"tool":"sh","args":["-c","echo hi"],"cwd":server.ws(),
        "stdio":"fds","fds":[1]});
    wire.send_with_fds(&call, &[write.as_fd()]);
    drop(write);
    server.signal(Signal::SIGCONT);
    assert_eq!(wire.recv_json()["ok"], json!(true));
    let last = wire.recv_json();
    assert_eq!(last["exit_code"], json!(0), "{last}");
    let mut said = String::new();
    read.read_to_string(&mut said).expect("read");
    assert_eq!(said, "hi\n");
    drop(wire);
    server.nothing_left(before);
}

/// The option is shared: it was cleared when the descriptor came, and is set anew.
#[test]
fn a_socket_whose_linger_is_set_again_holds_up_nobody_when_it_is_dropped() {
    let server = Server::start(|_| ());
    let (full, _other) = lingering();
    let mut wire = server.connect();
    let part = json!({"tool":"sh","cwd":server.ws(),"stdio":"fds","fds":[0],"more":true});
    wire.send_with_fds(&part, &[full.as_fd()]);
    answers(&server, "before");
    linger(&full);
    drop(full);
    drop(wire);
    for _ in 0..5 {
        answers(&server, "after");
        std::thread::sleep(Duration::from_millis(100));
    }
    still_works(&server);
}

/// A descriptor that the server never receives is closed with the connection.
#[test]
fn a_socket_in_the_queue_of_a_connection_that_is_not_read_holds_up_nobody() {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_GRACE", "0.3"));
    let (full, _other) = lingering();
    let mut wire = server.connect();
    let call = json!({"tool":"sh","args":["-c","sleep 50"],"cwd":server.ws(),"stdio":"stream"});
    wire.send_json(&call);
    eventually("it runs", || server.status()["calls"]["running"] == json!(1));
    for _ in 0..5 {
        wire.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let _ = wire.try_send(&tool_broker_tests::wire::frame(&[0; 60_000]));
    }
    wire.stream.set_nonblocking(true).expect("not blocking");
    server.signal(Signal::SIGSTOP);
    wire.send_with_fds(&json!({"op":"health"}), &[full.as_fd()]);
    drop(full);
    drop(wire);
    server.signal(Signal::SIGCONT);
    eventually("the call is over", || {
        answers(&server, "while it ends");
        server.status()["calls"]["running"] == json!(0)
    });
    answers(&server, "after");
    still_works(&server);
}

/// It was taken for the other terminal, and the tool waited for keys.
#[test]
fn a_terminal_that_was_hung_up_is_at_its_end_beside_another_one() {
    let server = Server::start(|s| s.tools(&[("cat", "/bin/cat")]));
    for natively in [true, false] {
        let (gone, input) = terminal::pair();
        let (_other, errors) = terminal::pair();
        drop(gone);
        let mut cat = server.client("cat");
        if natively {
            cat = std::process::Command::new("/bin/cat");
        }
        let mut cat = cat.stdin(input).stdout(Stdio::null()).stderr(errors).spawn().expect("cat");
        let ended = eventually_some("it ends", || cat.try_wait().expect("wait"));
        assert_eq!(ended.code(), Some(0), "natively: {natively}");
    }
}

/// The server's copy is closed by a thread of its own: not after the call's end is told, or
/// the file is busy for whoever executes it then. And no other tool that is started at that
/// moment has a copy until it has executed. The machine is busy meanwhile.
#[test]
fn what_a_tool_wrote_can_be_executed_once_its_call_is_over() {
    let server = Server::start(|s| s.tools(&[("cat", "/bin/cat"), ("true", "/bin/true")]));
    let over = AtomicBool::new(false);
    let script = "for i in $(seq 60); do : > s$i; chmod +x s$i; \
        echo 'exit 0' | \"$0\" cat >> s$i; ./s$i || exit 1; done";
    let call = |script: &str| {
        let mut sh = std::process::Command::new("/bin/sh");
        sh.args(["-c", script]).arg(&binaries().client).current_dir(server.ws());
        run(sh.env("TOOL_SOCKET", server.socket()), b"")
    };
    let outcome = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    call("for i in 1 2 3 4 5 6 7 8; do \"$0\" true; done");
                }
            });
        }
        let outcome = call(script);
        over.store(true, Ordering::Relaxed);
        outcome
    });
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    still_works(&server);
}

/// It had a copy of every descriptor of the server until it had executed, which may take
/// long: what a caller had written could not be executed, although its call was over.
#[test]
fn a_tool_that_is_being_started_has_nothing_that_was_passed_for_another_call() {
    let server = Server::start(|s| {
        fs::copy("/bin/true", s.path("slow")).expect("copy");
        s.tool("slow", &format!("binary = \"{}\"\n", s.path("slow").display()));
    });
    let test = "a_tool_that_is_being_started_has_nothing_that_was_passed_for_another_call";
    let (written, slow) = (server.ws().join("written"), server.path("slow"));
    let has = |pid: i32| process::descriptors(pid).iter().any(|it| Path::new(it) == written);
    if process::descriptors(server.pid()).is_empty() {
        return skipped(test, "only root sees a server's descriptors");
    }
    let file = File::create(&written).expect("a file");
    let mut waits = server.connect();
    let part = json!({"tool":"sh","cwd":server.ws(),"stdio":"fds","fds":[1],"more":true});
    waits.send_with_fds(&part, &[file.as_fd()]);
    eventually("the server has the file", || has(server.pid()));
    let held = File::open(&slow).expect("open");
    if let Err(error) = sys::lease(&held) {
        return skipped(test, &format!("no leases here: {error}"));
    }
    let client = spawn(&mut server.client("slow"));
    // Until the lease is broken it is not executed: in 45 seconds, later than anybody waits.
    let own = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    eventually("what is being started has nothing of the other call", || {
        let [child] = &server.children()[..] else { return false };
        let nothing = !process::descriptors(child.pid).is_empty() && !has(child.pid);
        nothing && own(child.pid) == own(server.pid())
    });
    assert!(has(server.pid()), "the server has closed it");
    drop(held);
    assert_eq!(client.wait().code(), Some(0));
    drop(waits);
    still_works(&server);
}

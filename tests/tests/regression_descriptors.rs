//! Bugs that were found in how callers' descriptors are taken and closed, and must
//! not come back: each test failed on the code of its time.

use std::io::Read as _;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::lingering::{answers, linger, lingering};
use tool_broker_tests::{Server, eventually, eventually_some, run, still_works, terminal};

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
/// the file is busy for whoever executes it then. The machine is busy meanwhile.
#[test]
fn what_a_tool_wrote_can_be_executed_once_its_call_is_over() {
    let server = Server::start(|s| s.tools(&[("cat", "/bin/cat")]));
    let over = AtomicBool::new(false);
    let script = "for i in $(seq 60); do : > s$i; chmod +x s$i; \
        echo 'exit 0' | \"$0\" cat >> s$i; ./s$i || exit 1; done";
    let outcome = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut sh = std::process::Command::new("/bin/sh");
        sh.args(["-c", script]).arg(&binaries().client).current_dir(server.ws());
        let outcome = run(sh.env("TOOL_SOCKET", server.socket()), b"");
        over.store(true, Ordering::Relaxed);
        outcome
    });
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    still_works(&server);
}

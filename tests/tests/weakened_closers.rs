//! Threads that close which somebody holds, whatever by: here by sockets that linger, on a
//! server that does not cut such waits short.

mod reliability_help;

use std::fs;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::sys::resource::Resource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reliability_help::file_appears;
use serde_json::{Value, json};
use tool_broker_tests::binaries::weakened;
use tool_broker_tests::lingering::{
    CLOSERS, answers, closing, lingering, of, send_lingering, tasks,
};
use tool_broker_tests::process::process;
use tool_broker_tests::{Server, Setup, Wire, eventually, still_works};

fn weak(prepare: impl FnOnce(&mut Setup)) -> Server {
    Server::start(|setup| {
        setup.server(weakened());
        setup.env("TOOL_WEAKEN", "hurry");
        prepare(setup);
    })
}

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

/// Calls at the door that end just when their callers have said something more,
/// which nobody reads: their connections are closed elsewhere. The first one holds
/// whoever closes it for an hour, since a socket lies in it that lingers; the
/// `others` wait behind it. What is to be kept is given.
fn hold_the_closer(server: &Server, others: usize) -> (Vec<Wire>, TcpStream) {
    let begin = |n: usize| {
        let mut wire = server.connect();
        let text = format!("echo $$ > pid.new; mv pid.new pid{n}; exec sleep 60");
        wire.send_json(&plain(server, &text));
        (pid_in(server, &format!("pid{n}")), wire)
    };
    let calls: Vec<(Pid, Wire)> = (0..=others).map(begin).collect();
    server.signal(Signal::SIGSTOP);
    // Each of its threads, or the door hears what is said before the end.
    eventually("it stops", || tasks(server).iter().all(|task| of(task, "stat").contains(") T ")));
    let (full, other) = lingering();
    let mut full = Some(full);
    let mut wires = Vec::new();
    for (pid, mut wire) in calls {
        match full.take() {
            Some(full) => wire.send_with_fds(&json!({"op":"health"}), &[full.as_fd()]),
            None => wire.send_json(&json!({"op":"health"})),
        }
        kill(pid, Signal::SIGKILL).expect("kill");
        eventually("it has ended", || process(pid.as_raw()).is_none_or(|it| it.state == 'Z'));
        wires.push(wire);
    }
    server.signal(Signal::SIGCONT);
    wires.iter_mut().for_each(|wire| assert_eq!(wire.recv_json()["signal"], json!("KILL")));
    eventually("the closer is held", || closing(server) > 0);
    (wires, other)
}

/// Whether /proc says that of the server's thread of that name.
fn is(server: &Server, name: &str, file: &str, says: impl Fn(&str) -> bool) -> bool {
    let mut tasks = tasks(server).into_iter();
    tasks.any(|task| of(&task, "comm").trim_end() == name && says(&of(&task, file)))
}

/// A connection that waited to be closed elsewhere was still watched by the door,
/// which woke for it again and again.
#[test]
fn a_connection_that_is_closed_elsewhere_is_nothing_to_the_door() {
    let server = weak(|_| ());
    let held = hold_the_closer(&server, 3);
    // One that spins is never seen asleep.
    eventually("the door sleeps", || {
        (0..20).all(|_| is(&server, "door", "stat", |stat| stat.contains(") S ")))
    });
    answers(&server, "while connections wait to be closed");
    drop(held);
    still_works(&server);
}

/// The place of a descriptor was given back before it was closed: with the closing
/// threads held, callers could have the server keep as many as it may have.
#[test]
fn descriptors_that_wait_to_be_closed_keep_their_places() {
    let server = weak(|s| s.limit(Resource::RLIMIT_NOFILE, 1024, 1024));
    let held = send_lingering(&server, CLOSERS);
    eventually("all closing threads are held", || closing(&server) == CLOSERS);
    let before = server.fd_count();
    let (socket, _other) = UnixStream::pair().expect("a pair");
    let mut refused = 0;
    for _ in 0..30 {
        let fds: Vec<_> = std::iter::repeat_n(socket.as_fd(), 100).collect();
        let mut wire = server.connect();
        let numbers: Vec<u32> = (3..103).collect();
        // No such tool: they are dropped, and wait for the closer.
        wire.send_with_fds(
            &json!({"tool":"none","args":[],"cwd":server.ws(),"stdio":"fds","fds":numbers}),
            &fds,
        );
        let code = wire.recv_json()["code"].clone();
        refused += usize::from(code == json!("busy"));
        let count = server.fd_count();
        assert!(count < 600, "{count} descriptors, {before} before; {refused} were refused");
    }
    assert!(refused > 0, "there was room for all of them");
    still_works(&server);
    drop(held);
}

//! Bugs that were found in what a caller can hold up or fill, and must not come
//! back: each test failed on the code of its time.

mod reliability_help;

use std::fs::{self, File};
use std::io::IoSlice;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::resource::Resource;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::Pid;
use reliability_help::{Mark, file_appears, script};
use serde_json::{Value, json};
use tool_broker_tests::lingering::{answers, lingering};
use tool_broker_tests::process::process;
use tool_broker_tests::{Server, Wire, eventually, skipped, still_works, sys};

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
/// whoever closes it for a minute, since a socket lies in it that lingers; the
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
    let closes = format!("{} ", libc::SYS_close);
    eventually("the closer is held", || {
        is(server, "closer", "syscall", |call| call.starts_with(&closes))
    });
    (wires, other)
}

/// How many threads close, `THREADS` of os/closer.rs.
const CLOSERS: usize = 64;

/// Holds all of them for a minute, by sockets of a refused request: in each lies another
/// one, unread, that lingers. What is to be kept is given.
fn hold_all_closers(server: &Server) -> Vec<TcpStream> {
    let mut wire = server.connect();
    server.signal(Signal::SIGSTOP);
    // It closes none before this process has.
    eventually("it stops", || tasks(server).iter().all(|task| of(task, "stat").contains(") T ")));
    let (mut passed, mut others) = (Vec::new(), Vec::new());
    for _ in 0..CLOSERS {
        let (full, other) = lingering();
        let (end, unread) = UnixStream::pair().expect("a pair");
        let rights = [ControlMessage::ScmRights(&[full.as_raw_fd()])];
        let word = [IoSlice::new(b"x")];
        sendmsg::<()>(end.as_raw_fd(), &word, &rights, MsgFlags::empty(), None).expect("sent");
        passed.push(unread);
        others.push(other);
    }
    let fds: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
    let numbers: Vec<usize> = (3..3 + fds.len()).collect();
    wire.send_with_fds(
        &json!({"tool":"none","args":[],"cwd":server.ws(),"stdio":"fds","fds":numbers}),
        &fds,
    );
    drop(passed);
    server.signal(Signal::SIGCONT);
    assert_eq!(wire.recv_json()["code"], json!("unknown_tool"));
    let closes = format!("{} ", libc::SYS_close);
    eventually("all closing threads are held", || {
        let tasks =
            tasks(server).into_iter().filter(|task| of(task, "comm").trim_end() == "closer");
        tasks.filter(|task| of(task, "syscall").starts_with(&closes)).count() == CLOSERS
    });
    others
}

/// The server's threads, in /proc.
fn tasks(server: &Server) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("tasks");
    tasks.flatten().map(|task| task.path()).collect()
}

/// What /proc says of a thread; nothing of one that is gone.
fn of(task: &Path, file: &str) -> String {
    fs::read_to_string(task.join(file)).unwrap_or_default()
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
    let server = Server::start(|_| ());
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
    let server = Server::start(|s| s.limit(Resource::RLIMIT_NOFILE, 1024, 1024));
    let held = hold_all_closers(&server);
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
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_FIRST_MESSAGE", "0.3"));
    let mut wire = server.connect();
    wire.send_json(&plain(
        &server,
        "echo $$ > pid.new; mv pid.new pid; kill -STOP $$; sleep 1; exit 3",
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
        "(trap 'touch told' TERM; touch up; while :; do sleep 0.05; done) & trap '' TERM; sleep {}",
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

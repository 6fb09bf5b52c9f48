//! A descriptor whose closing takes as long as its owner chose.

use std::fs;
use std::io::{ErrorKind, IoSlice, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
use serde_json::json;

use crate::{PATIENCE, Server, Setup, eventually};

/// A TCP connection within this machine with more to send than fits: whoever
/// closes it last waits, for as long as it says. And its other end.
pub fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let mut full = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let other = listener.accept().expect("accept").0;
    full.set_nonblocking(true).expect("not blocking");
    let block = [0; 65_536];
    loop {
        match full.write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    linger(&full);
    (full, other)
}

pub fn linger(socket: &TcpStream) {
    let hour = libc::linger { l_onoff: 1, l_linger: 3600 };
    setsockopt(socket, sockopt::Linger, &hour).expect("SO_LINGER");
}

/// How many threads close, `THREADS` of os/closer.rs.
pub const CLOSERS: usize = 64;

/// Sends that many sockets in a request that is refused: in each lies another one, unread,
/// that lingers, and nobody else has it. What is to be kept is given.
pub fn send_lingering(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut wire = server.connect();
    server.signal(Signal::SIGSTOP);
    // It closes none before this process has.
    let stopped = |task: &PathBuf| of(task, "stat").contains(") T ");
    eventually("it stops", || tasks(server).iter().all(stopped));
    let (mut passed, mut others) = (Vec::new(), Vec::new());
    for _ in 0..count {
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
    others
}

/// How many of its threads wait in close(2).
pub fn closing(server: &Server) -> usize {
    closers(server).iter().filter(|call| is_call(call, libc::SYS_close)).count()
}

/// Whether the threads that close are held by that: for an hour, or hardly.
pub fn holds_closers(prepare: impl FnOnce(&mut Setup)) -> bool {
    let server = Server::start(prepare);
    let before = server.settled();
    let others = send_lingering(&server, 8);
    // From here on each is closed, or somebody is at it.
    eventually("all are taken", || server.fd_count() <= before);
    let start = Instant::now();
    let held = loop {
        // Not one that has just been woken, nor one that is on its way.
        if closers(&server).iter().all(|call| is_call(call, libc::SYS_futex)) {
            break false;
        }
        if start.elapsed() > HELD && closing(&server) > 0 {
            break true;
        }
        assert!(start.elapsed() < PATIENCE, "neither held nor done: {:?}", closers(&server));
        thread::sleep(Duration::from_millis(10));
    };
    drop(others);
    held
}

/// Who closes for so long is held.
const HELD: Duration = Duration::from_secs(10);

/// The system calls of the threads that close, as /proc has them.
fn closers(server: &Server) -> Vec<String> {
    let all = tasks(server).into_iter().filter(|task| of(task, "comm").trim_end() == "closer");
    all.map(|task| of(&task, "syscall")).collect()
}

fn is_call(call: &str, number: libc::c_long) -> bool {
    call.starts_with(&format!("{number} "))
}

/// The server's threads, in /proc.
pub fn tasks(server: &Server) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("tasks");
    tasks.flatten().map(|task| task.path()).collect()
}

/// What /proc says of a thread; nothing of one that is gone.
pub fn of(task: &Path, file: &str) -> String {
    fs::read_to_string(task.join(file)).unwrap_or_default()
}

/// `health` is answered, in much less than the linger time.
#[track_caller]
pub fn answers(server: &Server, what: &str) {
    let mut wire = server.connect();
    let reply = wire.try_call(&json!({"op":"health"}));
    assert!(reply.is_some_and(|reply| reply["ok"] == json!(true)), "{what}: the server hangs");
}

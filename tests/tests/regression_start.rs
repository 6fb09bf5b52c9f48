//! Bugs that were found in the start of a server, and must not come back: each
//! test failed on the code of its time.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use serde_json::json;
use tool_broker_tests::binaries::binaries;
use tool_broker_tests::{Outcome, Server, Setup, eventually, run, still_works, sys};

#[test]
fn a_lock_on_the_sockets_directory_that_anybody_may_take_does_not_hold_up_the_start() {
    let mut held = None;
    let server = Server::start(|s| {
        let directory = File::open(s.path("run")).expect("run");
        held = Some(Flock::lock(directory, FlockArg::LockExclusive).expect("flock"));
    });
    still_works(&server);
    // A start after a stop, and after a kill, as well.
    let setup = server.stop(Signal::SIGTERM);
    let setup = Server::start_in(setup).stop(Signal::SIGKILL);
    let server = Server::start_in(setup);
    still_works(&server);
    drop(held);
}

/// A socket of this process, not blocking.
fn unix_socket() -> OwnedFd {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("socket")
}

#[test]
fn a_listener_with_a_full_backlog_is_a_live_server_and_not_a_reason_to_hang() {
    let setup = Setup::new();
    let address = UnixAddr::new(&setup.socket()).expect("an address");
    let listener = unix_socket();
    bind(listener.as_raw_fd(), &address).expect("bind");
    listen(&listener, Backlog::new(0).expect("a backlog")).expect("listen");
    let mut waiting = Vec::new();
    loop {
        let next = unix_socket();
        match connect(next.as_raw_fd(), &address) {
            Ok(()) => waiting.push(next),
            Err(Errno::EAGAIN) => break,
            Err(errno) => panic!("connect: {errno}"),
        }
        assert!(waiting.len() < 100, "the backlog is never full");
    }
    // `run` panics where it does not end.
    let line = run(&mut setup.serve(), b"").refused(1);
    assert!(line.contains(&setup.socket().display().to_string()), "does not say where: {line}");
    assert!(line.contains("TOOL_SOCKET"), "does not say what to do: {line}");
    assert!(setup.socket().exists(), "the other's socket is gone");
}

#[test]
fn a_server_with_a_copy_of_the_state_directory_ends_no_call_of_the_first() {
    let server = Server::start(|_| ());
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; echo finished; exit 3";
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"sh","args":["-c",script],"cwd":server.ws()}));
    eventually("it runs", || server.ws().join("up").exists());
    let second = Setup::new();
    fs::remove_dir_all(second.path("state")).expect("state");
    let mut copy = Command::new("cp");
    let copied = run(copy.arg("-a").arg(server.path("state")).arg(second.path("state")), b"");
    assert_eq!(copied.code(), Some(0), "{copied:?}");
    let second = Server::start_in(second);
    still_works(&second);
    assert!(!second.log().contains("had left"), "{}", second.log());
    // Its end takes nothing of the first along either.
    drop(second.stop(Signal::SIGTERM));
    still_works(&server);
    fs::write(server.ws().join("go"), "").expect("go");
    let reply = wire.recv_json();
    assert_eq!(
        (&reply["exit_code"], &reply["stdout"]),
        (&json!(3), &json!("finished\n")),
        "{reply}"
    );
    still_works(&server);
}

/// Starts a server as a service manager does, with one descriptor promised.
fn start_with(setup: &Setup, passed: &impl AsRawFd) -> Outcome {
    // LISTEN_PID is the server's own pid, which only a shell's exec can know.
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]);
    command.arg(&binaries().server).arg("serve").env("LISTEN_FDS", "1");
    sys::pass(&mut command, passed.as_raw_fd(), 3);
    run(&mut command, b"")
}

#[test]
fn a_promised_descriptor_that_does_not_listen_is_an_error_and_not_a_server() {
    let setup = Setup::new();
    let bound = unix_socket();
    bind(bound.as_raw_fd(), &UnixAddr::new(&setup.socket()).expect("an address")).expect("bind");
    start_with(&setup, &bound).refused(1);
    let datagrams = UnixDatagram::bind(setup.path("run/datagrams")).expect("bind");
    start_with(&setup, &datagrams).refused(1);
    fs::write(setup.path("plain"), "precious").expect("write");
    let plain = File::options().read(true).write(true).open(setup.path("plain")).expect("open");
    start_with(&setup, &plain).refused(1);
    assert_eq!(fs::read_to_string(setup.path("plain")).expect("read"), "precious");
    // And one that does listen is taken: the way of passing is right.
    fs::remove_file(setup.socket()).expect("remove");
    let listener = UnixListener::bind(setup.socket()).expect("bind");
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]);
    command.arg(&binaries().server).arg("serve").env("LISTEN_FDS", "1");
    sys::pass(&mut command, listener.as_raw_fd(), 3);
    still_works(&Server::start_command(setup, command));
}

#[test]
fn a_state_directory_is_made_for_the_server_alone() {
    for mask in [0, 0o022] {
        let setup = Setup::new();
        let state = setup.path("state");
        fs::remove_dir(&state).expect("state");
        let mut serve = setup.serve();
        sys::umask(&mut serve, mask);
        let server = Server::start_command(setup, serve);
        still_works(&server);
        let mode = fs::metadata(&state).expect("made").mode();
        // Where uids are switched others pass through to HOMEs of theirs.
        assert!(matches!(mode & 0o7777, 0o700 | 0o711), "{mode:o} with the umask {mask:o}");
    }
}

#[test]
fn a_second_server_on_the_same_state_directory_is_an_error_that_names_it() {
    let server = Server::start(|_| ());
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; echo finished";
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"sh","args":["-c",script],"cwd":server.ws()}));
    eventually("it runs", || server.ws().join("up").exists());
    let mut second = server.serve();
    second.env("TOOL_SOCKET", server.path("run/second.sock"));
    second.env("TOOL_CONTROL_SOCKET", server.path("run/second-control.sock"));
    let line = run(&mut second, b"").refused(1);
    assert!(line.contains(&server.path("state").display().to_string()), "not named: {line}");
    assert!(line.contains("STATE_DIR"), "does not say what to do: {line}");
    assert!(!server.path("run/second.sock").exists(), "it has left a socket");
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(wire.recv_json()["stdout"], json!("finished\n"));
    still_works(&server);
}

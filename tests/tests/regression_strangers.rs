//! Sockets whose closing takes as long as a stranger likes, sent over each Unix socket
//! that the server reads: the kernel must never close one within the server's own read.
//! Each test failed on the code of its time.

use std::fs;
use std::io::{IoSlice, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tool_broker_tests::lingering::{answers, lingering};
use tool_broker_tests::{Server, eventually, run, skipped, spawn, still_works};

/// What a tool does: `full` lingers; `send` says a byte with descriptors; at the end the
/// server has them alone, and is looked at while the tool waits.
const BEGIN: &str = r"
import array, os, socket, struct, sys, time, traceback
sys.excepthook = lambda *what: open('sent', 'w').write(''.join(traceback.format_exception(*what)))
near = socket.socket(); near.bind(('127.0.0.1', 0)); near.listen(5)
full = socket.create_connection(near.getsockname()); other, _ = near.accept()
full.setblocking(False)
try:
    while True: full.send(b'x' * 65536)
except BlockingIOError: pass
full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 60))
def send(to, what, flags=0):
    what = array.array('i', [one.fileno() for one in what])
    to.sendmsg([b'r'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, what)], flags)
def quick():
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))
def bell():
    return socket.socket(fileno=int(os.environ['TOOL_SIGN']))
def ring():
    mine, yours = socket.socketpair(); send(bell(), [yours])
    return mine, yours
";
const END: &str = "
full.close(); open('sent', 'w').close()
while not os.path.exists('go'): time.sleep(0.02)
";

/// A tool with a gate for gh's requests and a bell sends one, and is waited for.
#[track_caller]
fn holds_up_nobody(ways: &[&str]) {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("strangers", "python3 is not installed");
    }
    let server = Server::start(|s| {
        let key = s.path("key");
        let name = key.to_str().expect("a path");
        let args = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name];
        assert_eq!(run(Command::new("ssh-keygen").args(args), b"").code(), Some(0));
        s.tool(
            "net",
            &format!(
                "binary = \"/bin/sh\"\ndefault = \"allow\"\n[sandbox]\nnetwork = \"always\"\n\
                 [signing]\nkey = \"file:{name}\"\n\
                 [[gate]]\nadapter = \"github\"\nhosts = [\"example.com\"]\n"
            ),
        );
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    });
    let before = server.settled();
    for way in ways {
        for name in ["sent", "go"] {
            let _ = fs::remove_file(server.ws().join(name));
        }
        let script = format!("{BEGIN}{way}{END}");
        let tool = spawn(server.client("net").args(["-c", "exec python3 -c \"$0\"", &script]));
        eventually(&format!("it is sent: {way}"), || server.ws().join("sent").exists());
        for _ in 0..5 {
            answers(&server, way);
            std::thread::sleep(Duration::from_millis(50));
        }
        fs::write(server.ws().join("go"), "").expect("go");
        let outcome = tool.wait();
        let error = fs::read_to_string(server.ws().join("sent")).expect("sent");
        assert_eq!(error, "", "{way}");
        assert_eq!(outcome.code(), Some(0), "{way}: {outcome:?}");
        answers(&server, way);
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_socket_that_a_tool_sends_over_its_unix_socket_holds_up_nobody() {
    holds_up_nobody(&[
        "u = socket.socket(socket.AF_UNIX); send(u, [full])",
        // Behind a request that is refused: it is never read.
        "u = socket.socket(socket.AF_UNIX); u.send(b'?\\r\\n\\r\\n')\n\
         try: send(u, [full])\n\
         except OSError: quick()",
        // Urgent: what is read goes by it.
        "u = socket.socket(socket.AF_UNIX); send(u, [full], socket.MSG_OOB); u.send(b'G')",
    ]);
}

#[test]
fn a_socket_that_a_tool_sends_with_a_ring_holds_up_nobody() {
    holds_up_nobody(&["send(bell(), [near, full])", "send(bell(), [near] * 200 + [full])"]);
}

#[test]
fn a_socket_that_a_tool_sends_over_what_it_rang_with_holds_up_nobody() {
    holds_up_nobody(&[
        "mine, yours = ring(); yours.close(); time.sleep(0.3); send(mine, [full])",
        "mine, yours = ring(); send(mine, [full], socket.MSG_OOB); mine.send(b'git')",
        // Whoever has the same end sets how it is read.
        "mine, yours = ring(); yours.setsockopt(1, socket.SO_PASSCRED, 1)\n\
         send(mine, [near] * 252 + [full])",
        // An answer has no room, and whoever waits for some waits for ever.
        "mine, yours = ring(); time.sleep(0.3); yours.setblocking(False)\n\
         try:\n    while True: yours.send(b'x' * 4096)\n\
         except BlockingIOError: pass\n\
         yours.setblocking(True); mine.shutdown(socket.SHUT_WR); quick()",
    ]);
}

/// The kernel has no room for the fourth: all that is spare is used up.
#[test]
fn a_socket_beyond_the_spare_descriptors_holds_up_nobody() {
    let server = Server::start(|s| s.limit(Resource::RLIMIT_NOFILE, 1024, 1024));
    let before = server.settled();
    let (pipe, _write) = std::io::pipe().expect("a pipe");
    let mut wires = Vec::new();
    for (count, times) in [(128, 2), (64, 2), (32, 2), (16, 2), (8, 2), (4, 8)] {
        for _ in 0..times {
            let mut wire = server.connect();
            wire.send_bytes_with_fds(&[0, 0], &vec![pipe.as_fd(); count]);
            answers(&server, "while it is used up");
            wires.push(wire);
        }
    }
    for count in [3, 252] {
        let (full, _other) = lingering();
        let mut wire = server.connect();
        let mut passed = vec![pipe.as_fd(); count];
        passed.push(full.as_fd());
        server.signal(Signal::SIGSTOP);
        wire.send_bytes_with_fds(&[0, 0], &passed);
        drop(full);
        server.signal(Signal::SIGCONT);
        answers(&server, "with a socket that lingers");
    }
    drop(wires);
    server.nothing_left(before);
    still_works(&server);
}

/// What is urgent the kernel throws away where a read comes to it.
#[test]
fn a_socket_with_an_urgent_byte_holds_up_nobody() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let (full, _other) = lingering();
    let mut wire = server.connect();
    server.signal(Signal::SIGSTOP);
    let numbers = [full.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&numbers)];
    let (socket, byte) = (wire.stream.as_raw_fd(), [IoSlice::new(&[0])]);
    sendmsg::<()>(socket, &byte, &control, MsgFlags::MSG_OOB, None).expect("send");
    wire.stream.write_all(&[0]).expect("send");
    drop(full);
    server.signal(Signal::SIGCONT);
    answers(&server, "after an urgent byte");
    drop(wire);
    server.nothing_left(before);
    still_works(&server);
}

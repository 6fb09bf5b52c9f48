//! A descriptor whose closing takes as long as its owner chose.

use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;

use crate::Server;

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
    let minute = libc::linger { l_onoff: 1, l_linger: 60 };
    setsockopt(socket, sockopt::Linger, &minute).expect("SO_LINGER");
}

/// `health` is answered, in much less than the linger time.
#[track_caller]
pub fn answers(server: &Server, what: &str) {
    let mut wire = server.connect();
    wire.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let reply = wire.try_call(&json!({"op":"health"}));
    assert!(reply.is_some_and(|reply| reply["ok"] == json!(true)), "{what}: the server hangs");
}

//! Gives a confined tool that asks for a Unix socket one end of a pair: there is no
//! other way for it to have one, and so none to any socket of the machine. Without
//! namespaces a TCP socket is given likewise, connected to the call's own listener.
//!
//! Owns: the answers to socket(2) of one call's processes, until they have ended.
//! Must not: read a byte of what goes over the socket, or wait for the tool.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tracing::debug;

use super::outlet::Arrival;
use super::room::Room;
use super::stranger::Stranger;
use crate::os::notify::{Question, Questions, connected, pair};

/// Answers until no process is left that could ask. `gate`: where TCP sockets lead,
/// if these are asked for.
pub(super) async fn answer(
    questions: Questions,
    arrivals: mpsc::Sender<Arrival>,
    room: Arc<Room>,
    gate: Option<SocketAddr>,
) {
    loop {
        match questions.next().await {
            Ok(Some(question)) => {
                if let Err(errno) = connect(&question, &questions, &arrivals, &room, gate) {
                    debug!(%errno, "a tool's system call was not answered");
                }
            }
            Ok(None) => return,
            Err(errno) => {
                debug!(%errno, "the questions of a tool cannot be heard any more");
                return;
            }
        }
    }
}

fn connect(
    question: &Question,
    questions: &Questions,
    arrivals: &mpsc::Sender<Arrival>,
    room: &Room,
    gate: Option<SocketAddr>,
) -> Result<(), Errno> {
    let Some(wanted) = Wanted::read(question) else {
        return questions.refuse(question, Errno::EACCES);
    };
    if wanted.tcp {
        let Some(gate) = gate else { return questions.refuse(question, Errno::EACCES) };
        return match connected(gate, !wanted.nonblocking) {
            // It comes to the listener as any connection does.
            Ok(theirs) => give(question, questions, &theirs, &wanted).map(drop),
            Err(errno) => questions.refuse(question, errno),
        };
    }
    // Never waited for: a gate that is behind takes no more.
    let (Ok(arrival), Some(place)) = (arrivals.try_reserve(), room.try_take()) else {
        return questions.refuse(question, Errno::EAGAIN);
    };
    let made = pair(!wanted.nonblocking).and_then(|(ours, theirs)| {
        let ours = UnixStream::from_std(ours.into()).map_err(|_full| Errno::EMFILE)?;
        Ok((Stranger::own(ours), theirs))
    });
    let (ours, theirs) = match made {
        Ok(made) => made,
        Err(errno) => return questions.refuse(question, errno),
    };
    if !questions.awaits(question) {
        return Ok(());
    }
    if give(question, questions, &theirs, &wanted)? {
        arrival.send(Arrival::Unix(ours, place));
    }
    Ok(())
}

/// Whether it has it now.
fn give(
    question: &Question,
    questions: &Questions,
    socket: &OwnedFd,
    wanted: &Wanted,
) -> Result<bool, Errno> {
    match questions.give(question, socket.as_fd(), wanted.close_on_exec) {
        Ok(()) => Ok(true),
        // It did not wait for the answer.
        Err(Errno::ENOENT) => Ok(false),
        Err(_) => questions.refuse(question, Errno::EACCES).map(|()| false),
    }
}

/// A stream socket, with what else was asked for.
struct Wanted {
    /// Of IP; else a Unix one.
    tcp: bool,
    nonblocking: bool,
    close_on_exec: bool,
}

impl Wanted {
    fn read(question: &Question) -> Option<Wanted> {
        // The kernel reads the low halves, as int.
        let [domain, kind, protocol, ..] = question.arguments.map(|word| word & 0xffff_ffff);
        let flag = |flag: i32| kind & u64::from(flag.unsigned_abs()) != 0;
        let (nonblocking, close_on_exec) = (flag(libc::SOCK_NONBLOCK), flag(libc::SOCK_CLOEXEC));
        let flags = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC).unsigned_abs();
        let is = |word: u64, number: i32| word == u64::from(number.unsigned_abs());
        let tcp = is(domain, libc::AF_INET);
        let of_its_kind = if tcp { libc::IPPROTO_TCP } else { libc::AF_UNIX };
        let stream = question.call == libc::SYS_socket
            && (tcp || is(domain, libc::AF_UNIX))
            && is(kind & !u64::from(flags), libc::SOCK_STREAM)
            && (protocol == 0 || is(protocol, of_its_kind));
        stream.then_some(Wanted { tcp, nonblocking, close_on_exec })
    }
}

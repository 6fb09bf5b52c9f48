//! A process that is confined as a tool would be, and tries what it should not be
//! able to do: this program, executed anew when the server starts.
//!
//! Must not: do any harm where it succeeds.

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::stat::Mode;
use nix::unistd::getppid;

use crate::os::identity::has_any;

/// The verb that makes this program such a process. For the server's own use.
pub(crate) const VERB: &str = "try-confinement";

/// What it could do, added up: read a directory that is not its own,
pub(super) const READ: u8 = 1;
/// make a socket,
pub(super) const SOCKET: u8 = 2;
/// use a capability, or gain one,
pub(super) const POWERS: u8 = 4;
/// send a signal to the server;
pub(super) const SIGNAL: u8 = 8;
/// or: no such sum.
pub(super) const FAILED: u8 = 16;

/// The whole life of such a process.
pub(crate) fn attempt() -> u8 {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let reads = open("/", flags, Mode::empty()).err() != Some(Errno::EACCES);
    let family = AddressFamily::Inet;
    let makes = nix::sys::socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let gains = nix::sys::prctl::get_no_new_privs() != Ok(true);
    let signals = kill(getppid(), None) != Err(Errno::EPERM);
    // What is to be left to it.
    let pair =
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).is_ok();
    if !pair {
        return FAILED;
    }
    [(reads, READ), (makes.is_ok(), SOCKET), (gains || has_any(), POWERS), (signals, SIGNAL)]
        .into_iter()
        .filter(|(could, _)| *could)
        .map(|(_, what)| what)
        .sum()
}

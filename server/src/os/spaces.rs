//! Namespaces of a call's own: users, processes, network, mounts, IPC, host name.
//!
//! Owns: what the server does to a process that begins in them (its ids), and what
//! that process does inside (its /proc, its loopback). Must not: know what runs
//! there.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::identity::{HEADER, Identity, Sets};
use super::process::Handle;

/// What a process begins in that has them. Mounts come later, from inside: the
/// directory that it was started in is then one of the new mounts, and has a name.
pub(super) const FLAGS: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// What the first process of the namespaces can do in them: signal others of the
/// call, start the tool as its user and without this, bring the loopback up, mount.
/// CAP_KILL, SETGID, SETUID, SETPCAP, NET_ADMIN, SYS_ADMIN.
const CAPABILITIES: [libc::c_ulong; 6] = [5, 6, 7, 8, 12, 21];

/// Keeps these capabilities over an execve, and no others. For a child that has just
/// been made: no allocation.
pub(super) fn keep_capabilities() -> bool {
    let mask = CAPABILITIES.iter().fold(0u32, |mask, number| mask | (1 << number));
    let (header, sets): (_, Sets) = (HEADER, [[mask; 3], [0; 3]]);
    // SAFETY: capset reads both structs; prctl takes numbers.
    unsafe {
        libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) == 0
            && CAPABILITIES.iter().all(|number| {
                let (raise, zero): (libc::c_ulong, libc::c_ulong) = (2, 0);
                libc::prctl(libc::PR_CAP_AMBIENT, raise, *number, zero, zero) == 0
            })
    }
}

/// Gives a process that has begun in a new user namespace its one user and group, the
/// same inside as outside; for a server that can be any user. `handle` is that process:
/// its number may be another's by now.
pub(crate) fn map(pid: Pid, handle: &Handle, identity: Identity) -> std::io::Result<()> {
    let maps = Maps::open(&pid.to_string())?;
    // What is open stays what it is. It had this number when it was opened if it has not
    // ended yet.
    if handle.has_ended() {
        return Err(Errno::ESRCH.into());
    }
    maps.write(identity)
}

/// Gives the namespace of this process the user and group that it has outside, which it
/// cannot see itself. It has to do it itself: what belongs to it in /proc is root's until
/// its execve is over, and the server goes on before that.
pub(crate) fn map_own(outside: Identity) -> std::io::Result<()> {
    // Whoever has no capability outside may only do it so.
    fs::write("/proc/self/setgroups", "deny")?;
    Maps::open("self")?.write(outside)
}

/// Where the users and groups of a namespace are written.
struct Maps {
    gids: File,
    uids: File,
}

impl Maps {
    fn open(process: &str) -> std::io::Result<Maps> {
        let open =
            |name: &str| fs::OpenOptions::new().write(true).open(format!("/proc/{process}/{name}"));
        Ok(Maps { gids: open("gid_map")?, uids: open("uid_map")? })
    }

    /// The kernel takes each in one piece, once.
    fn write(mut self, Identity { uid, gid }: Identity) -> std::io::Result<()> {
        self.gids.write_all(format!("{gid} {gid} 1").as_bytes())?;
        self.uids.write_all(format!("{uid} {uid} 1").as_bytes())
    }
}

/// Mounts of this process's own, and in them a /proc that shows nothing but what
/// runs in its namespaces. Says whether that is so: a container that hides parts of
/// its /proc allows no new one, and the old one stays.
pub(crate) fn make_mounts() -> Result<bool, Errno> {
    // SAFETY: takes a number; there is no other thread.
    Errno::result(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (kind, place) = (c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: three strings that live; no data.
    let mounted = unsafe { libc::mount(kind, place, kind, flags, std::ptr::null()) };
    Ok(mounted == 0)
}

/// Adds to a ruleset of Landlock that /proc, as this process sees it, may be read.
pub(crate) fn let_read_proc(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    const PATH_BENEATH: libc::c_int = 1;
    /// Execute, read a file, read a directory.
    const READ: u64 = 1 | (1 << 2) | (1 << 3);
    #[repr(C, packed)]
    struct Rule {
        access: u64,
        parent: libc::c_int,
    }
    let place = open("/proc", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let rule = Rule { access: READ, parent: place.as_raw_fd() };
    // SAFETY: reads one struct.
    let added = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    };
    Errno::result(added).map(drop)
}

/// Brings the loopback of this process's network up, and listens there.
pub(crate) fn listen_inside(port: u16) -> Result<OwnedFd, Errno> {
    let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut wanted: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in wanted.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *place = libc::c_char::from_ne_bytes([*byte]);
    }
    wanted.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: reads one struct.
    let up = unsafe { libc::ioctl(any.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const wanted) };
    Errno::result(up)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let number = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    Ok(listener.map_err(number)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_gets_no_user() {
        #[allow(clippy::disallowed_methods, reason = "a child for a test")]
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let handle = Handle::open(pid).unwrap();
        child.wait().unwrap();
        assert!(handle.has_ended());
        // Its number as another's: that of this very process.
        let identity = Identity { uid: 1, gid: 1 };
        let error = map(Pid::this(), &handle, identity).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}

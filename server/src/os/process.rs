//! Other processes, as /proc and pidfd show them.
//!
//! Owns: the table of processes, signals to a group and to a process that
//! cannot be another one by then, and waiting for children without blocking.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

/// One process of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: Pid,
    /// Its parent's.
    pub(crate) parent: Pid,
    /// Whether it has ended and only waits to be reaped.
    pub(crate) zombie: bool,
}

/// Every process that /proc shows.
pub(crate) fn table() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(|pid: i32| read(Pid::from_raw(pid)))
        .collect()
}

/// One process, `None` where it is gone.
pub(crate) fn read(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, those included.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 20. A process whose first thread has ended shows as a zombie and
    // lives on in the others.
    let threads: u32 = fields.nth(15)?.parse().ok()?;
    let zombie = matches!(state, "Z" | "X") && threads <= 1;
    Some(Process { pid, parent: Pid::from_raw(parent), zombie })
}

/// The command line of a process, arguments separated by spaces; for people.
pub(crate) fn command_line(pid: Pid) -> Vec<u8> {
    let mut line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    for byte in &mut line {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    line.trim_ascii().to_vec()
}

/// A process that stays itself: its number cannot be taken by another one
/// while this is held.
#[derive(Debug)]
pub(crate) struct Handle(OwnedFd);

impl Handle {
    /// Opens a process by its number; ask who it is after this, not before.
    pub(crate) fn open(pid: Pid) -> Result<Handle, Errno> {
        // SAFETY: pidfd_open makes a new descriptor, which is ours.
        unsafe {
            let result = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
            let number = Errno::result(result)?;
            Ok(Handle(OwnedFd::from_raw_fd(i32::try_from(number).unwrap_or(-1))))
        }
    }

    /// Sends a signal to this very process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        // SAFETY: plain numbers and a null siginfo.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal as i32,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        Errno::result(result).map(drop)
    }

    /// Whether it has ended, reaped or not: from then on its number may be another's.
    pub(crate) fn has_ended(&self) -> bool {
        self.wait_end(0)
    }

    /// Waits until it has ended, at most so long; says whether it has. Blocks:
    /// not for the server's own thread.
    pub(crate) fn wait_end(&self, milliseconds: u16) -> bool {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut polled, PollTimeout::from(milliseconds)), Ok(n) if n > 0)
    }
}

impl From<Handle> for OwnedFd {
    fn from(handle: Handle) -> OwnedFd {
        handle.0
    }
}

/// Ticks of a hundredth of a second since the machine started, as /proc counts.
pub(crate) fn ticks() -> Option<u64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
    let seconds = u64::try_from(now.tv_sec()).ok()?;
    let rest = u64::try_from(now.tv_nsec()).ok()? / 10_000_000;
    Some(seconds.saturating_mul(100).saturating_add(rest))
}

/// When a process was started, in those ticks.
pub(crate) fn started(pid: Pid) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    // Field 22 of all, the state being the third.
    rest.split(' ').nth(19)?.parse().ok()
}

/// Sends a signal to a process group. That it is gone already is no error.
pub(crate) fn signal_group(leader: Pid, number: i32) -> Result<(), Errno> {
    let signal = Signal::try_from(number)?;
    match killpg(leader, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

/// Whether a signal would do to a process what it does by default: neither
/// caught, nor ignored, nor blocked.
pub(crate) fn takes_by_default(pid: Pid, number: i32) -> bool {
    let Ok(status) = fs::read(format!("/proc/{pid}/status")) else { return false };
    let set = |name: &[u8]| {
        let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(std::str::from_utf8(line.trim_ascii()).ok()?, 16).ok()
    };
    let Some(bit) = u32::try_from(number - 1).ok().and_then(|shift| 1u64.checked_shl(shift)) else {
        return false;
    };
    [&b"SigCgt:"[..], b"SigIgn:", b"SigBlk:"]
        .into_iter()
        .all(|name| set(name).is_some_and(|mask| mask & bit == 0))
}

/// Whether a process of that number exists, a zombie included.
pub(crate) fn exists(pid: Pid) -> bool {
    kill(pid, None) != Err(Errno::ESRCH)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this status, 0 to 255.
    Code(u8),
    /// Of this signal.
    Signal(i32),
}

/// What a child did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It ended, and was reaped.
    Ended(Exit),
    /// It was stopped by that signal.
    Stopped(i32),
}

/// The next child that has ended, reaped, or was stopped; `None` where none did.
pub(crate) fn next_change() -> Option<(Pid, Change)> {
    wait(Pid::from_raw(-1), WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)
}

/// The next child that was stopped, and by which signal.
pub(crate) fn next_stopped() -> Option<(Pid, i32)> {
    let flags = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: as below.
    let (result, pid, signal) = unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let result = libc::waitid(libc::P_ALL, 0, &raw mut found, flags);
        (result, found.si_pid(), found.si_status())
    };
    (result == 0 && pid > 0).then(|| (Pid::from_raw(pid), signal))
}

/// Whether a child is stopped, and nobody has been told of it: asked of the kernel by the
/// number that it has here, since /proc may show the numbers of another namespace. Leaves
/// it to be told.
pub(crate) fn is_stopped(child: Pid) -> bool {
    let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    let Ok(number) = libc::id_t::try_from(child.as_raw()) else { return false };
    // SAFETY: as below.
    let (result, pid) = unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, number, &raw mut found, flags), found.si_pid())
    };
    result == 0 && pid == child.as_raw()
}

/// The next child that has ended, not reaped yet. By system call: see `wait`.
pub(crate) fn peek_next() -> Option<Pid> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all-zero bytes are a valid siginfo; the call writes within it, and
    // leaves it as it is where no child has ended.
    let (result, pid) = unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_ALL, 0, &raw mut found, flags), found.si_pid())
    };
    (result == 0 && pid > 0).then(|| Pid::from_raw(pid))
}

/// The process that was started last.
pub(crate) fn newest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// Reaps one child that is known to have ended.
pub(crate) fn reap_ended(pid: Pid) -> Option<(Pid, Exit)> {
    match wait(pid, WaitPidFlag::empty())? {
        (pid, Change::Ended(exit)) => Some((pid, exit)),
        (_, Change::Stopped(_)) => None,
    }
}

/// Not nix's waitpid: it has reaped a child that died of a real-time signal when
/// it finds no name for that, and what it then says is an error.
fn wait(pid: Pid, flags: WaitPidFlag) -> Option<(Pid, Change)> {
    loop {
        let mut status = 0;
        // SAFETY: writes one int to the address that it is given.
        let result = unsafe { libc::waitpid(pid.as_raw(), &raw mut status, flags.bits()) };
        match Errno::result(result) {
            Ok(0) => return None,
            Ok(child) => {
                let change = if libc::WIFSTOPPED(status) {
                    Change::Stopped(libc::WSTOPSIG(status))
                } else if libc::WIFSIGNALED(status) {
                    Change::Ended(Exit::Signal(libc::WTERMSIG(status)))
                } else {
                    let code = u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(0xff);
                    Change::Ended(Exit::Code(code))
                };
                return Some((Pid::from_raw(child), change));
            }
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

//! The only unsafe code of the tests: what runs between fork and exec, and what
//! nix has no name for.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;

/// Runs `step` in the child before exec. It must only make system calls.
fn before_exec<F>(command: &mut Command, step: F)
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    // SAFETY: the steps of this module only make async-signal-safe system
    // calls and touch no memory that another thread may hold a lock on.
    unsafe { command.pre_exec(step) };
}

/// SIGKILL for the child when the thread that started it ends: a test that is
/// killed leaves nothing behind.
pub fn die_with_parent(command: &mut Command) {
    before_exec(command, || Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?));
}

/// Whatever this process was started with beyond 2 is nobody's business: a tool
/// would get it.
pub fn seal_descriptors() {
    // SAFETY: closes nothing; it changes flags only.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Soft and hard limit of the child.
pub fn limit(command: &mut Command, resource: Resource, soft: u64, hard: u64) {
    before_exec(command, move || Ok(setrlimit(resource, soft, hard)?));
}

/// The child's umask.
pub fn umask(command: &mut Command, mask: u32) {
    let mask = Mode::from_bits_truncate(mask);
    before_exec(command, move || {
        nix::sys::stat::umask(mask);
        Ok(())
    });
}

/// Further groups of the child; for root.
pub fn groups(command: &mut Command, groups: &'static [u32]) {
    before_exec(command, move || {
        // SAFETY: reads so many numbers; the kernel's own call, which asks for no lock.
        let done = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    });
}

/// Closes a descriptor in the child, as `<&-` does.
pub fn close(command: &mut Command, fd: RawFd) {
    before_exec(command, move || {
        // SAFETY: closes the child's own copy; EBADF is what we want anyway.
        unsafe { libc::close(fd) };
        Ok(())
    });
}

/// Gives the child a descriptor under a number, as a service manager does.
pub fn pass(command: &mut Command, fd: RawFd, number: RawFd) {
    before_exec(command, move || {
        // SAFETY: duplicates into a number of the child; the copy is not
        // close-on-exec. Where both are one number dup2 does nothing, so that
        // the flag is cleared by hand.
        let done = unsafe {
            if fd == number { libc::fcntl(fd, libc::F_SETFD, 0) } else { libc::dup2(fd, number) }
        };
        if done >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    });
}

/// Nothing but 0, 1 and 2 for the child: whoever runs the tests may have left
/// more open, and a client hands on what it has.
pub fn only_standard(command: &mut Command) {
    before_exec(command, || {
        // SAFETY: marks descriptors as close-on-exec, of the child alone; the
        // one that std reports errors by stays open until then.
        let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 4) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    });
}

/// A session of its own for the child, without a terminal.
pub fn session(command: &mut Command) {
    before_exec(command, || {
        nix::unistd::setsid()?;
        Ok(())
    });
}

/// A session of its own for the child, with the terminal on its stdin as the
/// controlling one.
pub fn controlling_terminal(command: &mut Command) {
    before_exec(command, || {
        nix::unistd::setsid()?;
        // SAFETY: TIOCSCTTY takes an int and touches no memory.
        let done = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    });
}

/// Ignores and blocks signals (by number, real-time ones too) in the child: what
/// a tool must not inherit.
pub fn ignore_and_block(command: &mut Command, signals: &'static [libc::c_int]) {
    before_exec(command, move || {
        // SAFETY: SIG_IGN installs no handler; the set is a local that is
        // initialised by sigemptyset before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::signal(*signal, libc::SIG_IGN);
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        Ok(())
    });
}

/// The window size that the kernel knows for a terminal.
pub fn set_window(fd: RawFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize, which outlives the call.
    let done = unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &raw const size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a descriptor that the kernel has just made for us.
pub fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: it came by recvmsg, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Takes a lease on a file: whoever opens it waits until this one is closed, or
/// for `/proc/sys/fs/lease-break-time`. The file must be open nowhere else.
pub fn lease(file: &std::fs::File) -> io::Result<()> {
    /// The same on every machine that the tests run on; libc does not have it.
    const F_SETSIG: libc::c_int = 10;
    // SAFETY: takes numbers. SIGURG tells of whoever waits, and does nothing.
    let done = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes user namespaces from the child, as container engines' profiles do: clone and
/// unshare are refused where they ask for one, clone3 is not there at all.
pub fn refuse_user_namespaces(command: &mut Command) {
    const USER: u32 = libc::CLONE_NEWUSER.cast_unsigned();
    let (load, equal, any) = (0x20, 0x15, 0x45);
    let number = |call: libc::c_long| u32::try_from(call).expect("a number");
    let refuse = |errno: i32| (6, 0, 0, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
    let program = [
        (load, 0, 0, 0),
        (equal, 5, 0, number(libc::SYS_clone3)),
        (equal, 1, 0, number(libc::SYS_clone)),
        (equal, 0, 4, number(libc::SYS_unshare)),
        (load, 0, 0, 16),
        (any, 0, 2, USER),
        refuse(libc::EPERM),
        refuse(libc::ENOSYS),
        (6, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    filtered(command, program);
}

/// Takes one system call from the child: a kernel that does not have it.
pub fn refuse_call(command: &mut Command, call: libc::c_long) {
    let number = u32::try_from(call).expect("a number");
    let program = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, number),
        (6, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
        (6, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    filtered(command, program);
}

fn filtered<const N: usize>(command: &mut Command, program: [libc::sock_filter; N]) {
    let len = u16::try_from(N).expect("a short program");
    before_exec(command, move || {
        let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
        // SAFETY: reads the program, which lives; changes this process alone.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    });
}

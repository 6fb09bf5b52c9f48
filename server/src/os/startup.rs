//! What a process makes of itself once, before anything else runs.
//!
//! Owns: the state that children inherit from the server itself: dispositions,
//! descriptors, limits, the reaping of orphans.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The highest signal number of Linux.
const LAST_SIGNAL: libc::c_int = 64;

/// Heaps: of one, threads that do calls at once wait for each other a fifth of their time; each
/// more may keep what its threads once needed.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 3;

/// Bytes of a piece of memory that is mapped by itself.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 32 * 1024;

/// RLIMIT_NOFILE as it was found, to be given to tools, and as it is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimit {
    /// What the server was started with: soft, hard.
    pub(crate) inherited: (u64, u64),
    /// The soft limit now.
    pub(crate) now: u64,
}

/// Makes the soft limit of descriptors as high as it may be.
pub(crate) fn raise_file_limit() -> Result<FileLimit, Errno> {
    let inherited = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, inherited.1, inherited.1)?;
    Ok(FileLimit { inherited, now: inherited.1 })
}

/// Makes the server the parent of every orphan among its descendants, so that
/// it can reap them and no process of a call ever leaves its sight.
pub(crate) fn become_subreaper() -> Result<(), Errno> {
    nix::sys::prctl::set_child_subreaper(true)
}

/// Signals that whoever started the server ignores (nohup) would be ignored in
/// every tool: back to the default. SIGPIPE stays ignored here, and is reset in
/// each child.
pub(crate) fn reset_dispositions() {
    // The kernel's struct: a handler of 0 is the default. By system call, since
    // the C library keeps two real-time signals from its callers.
    let default = [0u64; 4];
    for number in 1..=LAST_SIGNAL {
        // Those with a handler (the runtime's own) are reset by execve.
        let keep = [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS];
        if !keep.contains(&number) {
            // SAFETY: the default disposition runs no code of ours; nothing is
            // read back.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    number,
                    default.as_ptr(),
                    std::ptr::null_mut::<u64>(),
                    8,
                );
            }
        }
    }
    super::hurry::handle();
}

/// A process of the same user must not read this one's memory and environment:
/// what definitions do not hand on to tools is there.
pub(crate) fn hide() -> Result<(), Errno> {
    nix::sys::prctl::set_dumpable(false)
}

/// Memory that was needed once goes back to the system: large pieces are mapped
/// one by one, and threads share few heaps. A few page faults on bulk data buy a
/// size that does not grow with what callers once sent.
#[cfg(target_env = "gnu")]
pub(crate) fn keep_memory_small() {
    // SAFETY: takes plain numbers; before any thread is made.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// What the server makes is its own; each tool gets its caller's umask.
pub(crate) fn reset_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
}

/// Whatever descriptor the server was started with beyond 2 must not reach a
/// tool: marks all of them close-on-exec. And 0, 1, 2 must be open, so that no
/// later descriptor gets such a number.
pub(crate) fn seal_descriptors() -> Result<(), Errno> {
    loop {
        let null = super::descriptors::null()?;
        if null.as_raw_fd() > 2 {
            break;
        }
        std::mem::forget(null);
    }
    // SAFETY: close_range with CLOEXEC closes nothing; it changes flags only.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    Errno::result(result).map(drop)
}

/// Descriptors that systemd passed, numbers 3 and up, each once.
pub(crate) fn take_passed(numbers: impl Iterator<Item = RawFd>) -> Result<Vec<OwnedFd>, Errno> {
    numbers
        .map(|number| {
            // SAFETY: F_GETFD asks whether the number is open, and no more. Then
            // the service manager opened it for us (sd_listen_fds(3)); this runs
            // once, before anything else owns a descriptor of that number.
            unsafe {
                Errno::result(libc::fcntl(number, libc::F_GETFD))?;
                Ok(OwnedFd::from_raw_fd(number))
            }
        })
        .collect()
}

/// A tool that runs as root with CAP_SYS_RESOURCE could raise a hard limit and
/// so shed the mark of its call. The server needs the capability for nothing
/// after its start: it goes from the bounding set, and so from every tool.
/// Says whether tools are without it.
pub(crate) fn drop_resource_capability() -> bool {
    const CAP_SYS_RESOURCE: libc::c_ulong = 24;
    // SAFETY: prctl with these operations takes plain numbers.
    unsafe {
        if libc::prctl(libc::PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) != 1 {
            return true;
        }
        if libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0) == 0 {
            return true;
        }
        // Not allowed to drop it: then this process has no capabilities, and a
        // tool gets it only from a set-uid program of the system's.
        !nix::unistd::geteuid().is_root()
    }
}

//! Whose processes tools are, and what powers the server has over that.
//!
//! Owns: reading this process's capabilities. Must not: choose who a tool is.

/// A user and a group, of no other groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The groups of this process: by them files may be readable that are no tool's business.
pub(crate) fn own_groups() -> Vec<u32> {
    let more = nix::unistd::getgroups().unwrap_or_default();
    let own = [nix::unistd::getgid(), nix::unistd::getegid()];
    own.into_iter().chain(more).map(nix::unistd::Gid::as_raw).collect()
}

const CAP_CHOWN: u32 = 0;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_KILL: u32 = 5;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
const CAP_SETFCAP: u32 = 31;

/// What it takes to start others as another user, to end them, to give them a HOME and
/// to look into it.
const SWITCHING: [u32; 5] = [CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE];

/// Whether this process has all of that. That it works is to be tried: in a user
/// namespace it may not.
pub(crate) fn can_switch() -> bool {
    let has = |all: u64| SWITCHING.iter().all(|power| all & (1 << power) != 0);
    capabilities().is_some_and(|[effective, ..]| has(effective)) && !shows_itself()
}

/// Whether this process is root without CAP_SETFCAP: then it may not give a namespace
/// its own user.
pub(crate) fn is_bare_root() -> bool {
    let can = capabilities().is_some_and(|[effective, ..]| effective & (1 << CAP_SETFCAP) != 0);
    nix::unistd::geteuid().is_root() && !can
}

/// Whether a seccomp filter holds this process.
pub(crate) fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("Seccomp:"));
    lines.any(|mode| mode.trim() == "2")
}

/// Whether this process has any capability to be given up.
pub(crate) fn has_any() -> bool {
    capabilities().is_none_or(|all| all.into_iter().any(|set| set != 0))
}

/// With fs.suid_dumpable=1 a process that changes its user can be looked into by
/// that user: and until it executes, it shares the server's memory.
fn shows_itself() -> bool {
    std::fs::read("/proc/sys/fs/suid_dumpable").is_ok_and(|says| says.starts_with(b"1"))
}

/// Version 3, for this process.
#[repr(C)]
pub(super) struct Header {
    version: u32,
    pid: libc::c_int,
}

/// Effective, permitted, inheritable: the lower and then the upper half.
pub(super) type Sets = [[u32; 3]; 2];

pub(super) const HEADER: Header = Header { version: 0x2008_0522, pid: 0 };

/// Effective, permitted and inheritable.
fn capabilities() -> Option<[u64; 3]> {
    let (mut header, mut sets) = (HEADER, Sets::default());
    // SAFETY: the kernel reads and writes two structs of the sizes that version 3
    // has, both ours.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    let [lower, upper] = sets;
    let whole = |(low, high): (u32, u32)| (u64::from(high) << 32) | u64::from(low);
    let [[e, p, i], [e_high, p_high, i_high]] = [lower, upper];
    (got == 0).then(|| [(e, e_high), (p, p_high), (i, i_high)].map(whole))
}

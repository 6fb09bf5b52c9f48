//! The mark that every process of a call carries and cannot shed.
//!
//! A process's ancestry is lost when it forks twice; its session, group,
//! environment and descriptors are its own to change. What it inherits by fork
//! and exec and cannot undo without CAP_SYS_RESOURCE is a hard resource limit
//! that was lowered. Two limits that mean nothing to ordinary programs carry
//! the number of the call, one as base+n, the other as base-n: lowering either
//! leaves a pair that no call has, so a process can neither shed its mark nor
//! take another's. docs/decisions/0004-tree-mark.md has the measurements.
//!
//! Owns: the layout of the mark, and reading it. Must not: kill.

use nix::errno::Errno;
use nix::unistd::Pid;

use super::limit::Limit;

/// RLIMIT_LOCKS (unused since Linux 2.4.25) and RLIMIT_RTTIME (only for
/// real-time scheduling, in microseconds: 2^58 are 9,000 years).
pub(crate) const RESOURCES: [libc::c_int; 2] = [10, 15];

/// Bits of a mark: a server's number above, the call's below.
const CALL_BITS: u32 = 32;
const BITS: u32 = 56;

/// What one server marks its calls with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    base: u64,
    server: u32,
}

/// The mark of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    /// The hard limits, in the order of [`RESOURCES`].
    pub(crate) limits: [u64; 2],
}

/// What the limits of a process say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It belongs to this call.
    Call(u32),
    /// It has no mark of this server's.
    Unmarked,
    /// It had one and lowered it: it belongs to nobody.
    Broken,
}

impl Mark {
    /// What a process of the call begins with.
    pub(crate) fn as_limits(self) -> [Limit; 2] {
        let [first, second] = self.limits;
        let [first_resource, second_resource] = RESOURCES.map(libc::c_int::cast_unsigned);
        [Limit::new(first_resource, first, first), Limit::new(second_resource, second, second)]
    }
}

impl Marks {
    /// The marks of a server of that number (its low 24 bits count), or `None`
    /// where this process's own limits leave no room for one.
    pub(crate) fn new(server: u32) -> Option<Marks> {
        let own = read_limits(Pid::this()).ok()?;
        // A server that itself runs as a marked tool takes a lower base.
        let base = (57..=62)
            .rev()
            .map(|bit| 1u64 << bit)
            .find(|base| own.iter().all(|limit| *limit >= base.saturating_add(1 << BITS)))?;
        Some(Marks { base, server: server & 0x00ff_ffff })
    }

    /// The mark of a call.
    pub(crate) fn mark(&self, call: u32) -> Mark {
        let number = (u64::from(self.server) << CALL_BITS) | u64::from(call);
        Mark { limits: [self.base + number, self.base - number] }
    }

    /// What the mark of a process says.
    pub(crate) fn read(&self, pid: Pid) -> Result<Found, Errno> {
        match read_limits(pid) {
            // Another user's process, and no capability: the table that anyone
            // may read shows the same numbers.
            Err(Errno::EPERM) => Ok(self.classify(read_table(pid).ok_or(Errno::ESRCH)?)),
            other => Ok(self.classify(other?)),
        }
    }

    fn classify(&self, [up, down]: [u64; 2]) -> Found {
        let span = 1u64 << BITS;
        let above = up.checked_sub(self.base).filter(|number| *number < span);
        let below = self.base.checked_sub(down).filter(|number| *number < span);
        let number = match (above, below) {
            (None, None) if up > self.base && down > self.base => return Found::Unmarked,
            (Some(a), Some(b)) if a == b => a,
            // One of the two is still as high as before: it is just being marked, or
            // was while it was looked at. None that has shed its mark can look so.
            (Some(a), None) if down > self.base => a,
            (None, Some(b)) if up > self.base => b,
            _ => return Found::Broken,
        };
        if number >> CALL_BITS != u64::from(self.server) {
            return Found::Broken;
        }
        u32::try_from(number & 0xffff_ffff).map_or(Found::Broken, Found::Call)
    }
}

fn read_limits(pid: Pid) -> Result<[u64; 2], Errno> {
    let mut found = [0u64; 2];
    for (resource, slot) in RESOURCES.into_iter().zip(&mut found) {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads into `limit`, sets nothing.
        let result = unsafe {
            libc::syscall(
                libc::SYS_prlimit64,
                pid.as_raw(),
                resource,
                std::ptr::null::<libc::rlimit64>(),
                &raw mut limit,
            )
        };
        Errno::result(result)?;
        *slot = limit.rlim_max;
    }
    Ok(found)
}

fn read_table(pid: Pid) -> Option<[u64; 2]> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    Some([hard_limit(&table, "Max file locks")?, hard_limit(&table, "Max realtime timeout")?])
}

fn hard_limit(table: &str, name: &str) -> Option<u64> {
    let rest = table.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_anyone_may_read_says_the_same() {
        assert_eq!(read_table(Pid::this()), read_limits(Pid::this()).ok());
    }

    #[test]
    fn a_mark_reads_as_its_call_and_a_lowered_one_as_nobodys() {
        let marks = Marks { base: 1 << 60, server: 7 };
        for call in [0, 1, 77, u32::MAX] {
            let [up, down] = marks.mark(call).limits;
            assert_eq!(marks.classify([up, down]), Found::Call(call));
            // Between the one and the other, and read between them.
            for unset in [(1 << 60) + (1 << 56), u64::MAX] {
                assert_eq!(marks.classify([up, unset]), Found::Call(call));
                if call > 0 {
                    assert_eq!(marks.classify([unset, down]), Found::Call(call));
                }
            }
            // Every way to lower one or both, the other call's values included.
            let other = marks.mark(call.wrapping_sub(1)).limits;
            for lowered in [[up - 1, down], [up, down - 1], [up - 1, down - 1], [0, 0], [up, 0]] {
                assert_eq!(marks.classify(lowered), Found::Broken, "{lowered:?}");
            }
            if call > 0 {
                // To become call-1, `down` would have to rise: the kernel refuses.
                assert!(other[1] > down);
            }
        }
        assert_eq!(marks.classify([u64::MAX, u64::MAX]), Found::Unmarked);
    }
}

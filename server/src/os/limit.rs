//! Resource limits of a process to be.

/// One limit, as setrlimit(2) takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Limit {
    resource: u32,
    soft: u64,
    hard: u64,
    /// Where the hard limit is lower already, that one is meant.
    at_most: bool,
}

/// The names in a definition's `[limits]`, with what they mean to the kernel.
const NAMES: [(&str, u32); 7] = [
    ("core_bytes", libc::RLIMIT_CORE),
    ("cpu_seconds", libc::RLIMIT_CPU),
    ("file_bytes", libc::RLIMIT_FSIZE),
    ("memory_bytes", libc::RLIMIT_AS),
    ("open_files", libc::RLIMIT_NOFILE),
    ("processes", libc::RLIMIT_NPROC),
    ("stack_bytes", libc::RLIMIT_STACK),
];

impl Limit {
    /// Both limits of a resource, exactly so.
    pub(crate) const fn new(resource: u32, soft: u64, hard: u64) -> Limit {
        Limit { resource, soft, hard, at_most: false }
    }

    /// By the name that it has in a definition; soft and hard are the same.
    pub(crate) fn named(name: &str, value: u64) -> Option<Limit> {
        let (_, resource) = NAMES.into_iter().find(|(known, _)| *known == name)?;
        Some(Limit { resource, soft: value, hard: value, at_most: true })
    }

    /// What these say of a resource by its name in a definition.
    pub(crate) fn value(limits: &[Limit], name: &str) -> Option<u64> {
        let mut all = limits.iter().filter_map(|limit| limit.describe());
        all.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The limit of descriptors.
    pub(crate) const fn files((soft, hard): (u64, u64)) -> Limit {
        Limit { resource: libc::RLIMIT_NOFILE, soft, hard, at_most: true }
    }

    /// As numbers, to travel to another process.
    pub(crate) fn to_numbers(self) -> [u64; 3] {
        [u64::from(self.resource), self.soft, self.hard]
    }

    /// The other way.
    pub(crate) fn from_numbers([resource, soft, hard]: [u64; 3]) -> Option<Limit> {
        Some(Limit { resource: u32::try_from(resource).ok()?, soft, hard, at_most: true })
    }

    /// For people: its name in a definition and its value.
    pub(crate) fn describe(self) -> Option<(&'static str, u64)> {
        let (name, _) = NAMES.into_iter().find(|(_, resource)| *resource == self.resource)?;
        Some((name, self.soft))
    }

    /// Sets it for this process.
    pub(super) fn set(&self) -> bool {
        let mut limit = libc::rlimit64 { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: both structs are ours; the call reads one and writes the other.
        unsafe {
            if libc::prlimit64(0, self.resource, &raw const limit, std::ptr::null_mut()) == 0 {
                return true;
            }
            if !self.at_most {
                return false;
            }
            let mut now = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
            if libc::prlimit64(0, self.resource, std::ptr::null(), &raw mut now) < 0 {
                return false;
            }
            limit.rlim_max = limit.rlim_max.min(now.rlim_max);
            limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
            libc::prlimit64(0, self.resource, &raw const limit, std::ptr::null_mut()) == 0
        }
    }
}

//! seccomp: which system calls a confined process may make.
//!
//! - `rules`    which, and for which arguments
//! - `refused`  those that are refused whatever their arguments
//! - `tree`     what a number is compared with
//! - `program`  from all that to instructions
//!
//! Owns: the filter's program, made once and entered by many processes. Must not:
//! know what a tool is.

mod program;
mod refused;
mod rules;
mod tree;

use libc::sock_filter;

use super::weaken;
use program::assemble;

/// What is left to a tool beside the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each is one word of a definition")]
pub(crate) struct Allowed {
    /// socket(2) for TCP.
    pub(crate) tcp: bool,
    /// That is answered by a supervisor, with sockets that are connected already;
    /// connect(2) then does nothing, and says that it went well.
    pub(crate) given: bool,
    /// listen(2) and accept(2), of whatever socket: what is asked for is a number, and
    /// does not say whether it is TCP.
    pub(crate) listens: bool,
    /// socket(2) for Unix sockets.
    pub(crate) unix: bool,
    /// socket(2) for UDP.
    pub(crate) udp: bool,
    /// socket(2) for raw IP.
    pub(crate) raw: bool,
    /// truncate(2), and opening to read with O_TRUNC: where Landlock sees to it.
    pub(crate) truncate: bool,
    /// socket(2) for Unix stream sockets is answered by a supervisor.
    pub(crate) notify_unix: bool,
}

/// A filter.
#[derive(Debug)]
pub(crate) struct Filter {
    program: Vec<sock_filter>,
    notifies: bool,
}

impl Filter {
    /// The filter that leaves that much.
    pub(crate) fn new(allowed: &Allowed) -> Filter {
        let program = if weaken::is("seccomp") {
            Vec::new()
        } else {
            assemble(ARCHITECTURE, &rules::runs(allowed))
        };
        Filter { program, notifies: allowed.notify_unix || allowed.given }
    }

    /// Whether whoever enters it must hand its listener on.
    pub(crate) fn notifies(&self) -> bool {
        self.notifies && !self.program.is_empty()
    }

    /// As numbers, to travel to another process.
    pub(crate) fn to_numbers(&self) -> impl Iterator<Item = u64> {
        self.program.iter().map(|one| {
            (u64::from(one.code) << 48)
                | (u64::from(one.jt) << 40)
                | (u64::from(one.jf) << 32)
                | u64::from(one.k)
        })
    }

    /// The other way.
    pub(crate) fn from_numbers(numbers: &[u64], notifies: bool) -> Filter {
        let program = numbers.iter().map(|number| {
            let [a, b, jt, jf, k @ ..] = number.to_be_bytes();
            sock_filter { code: u16::from_be_bytes([a, b]), jt, jf, k: u32::from_be_bytes(k) }
        });
        Filter { program: program.collect(), notifies }
    }

    /// As the kernel takes it, for as long as the filter lives.
    pub(super) fn program(&self) -> libc::sock_fprog {
        let len = u16::try_from(self.program.len()).unwrap_or(0);
        libc::sock_fprog { len, filter: self.program.as_ptr().cast_mut() }
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use libc::{EACCES, EAFNOSUPPORT, EISCONN, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT, c_long};

    use super::program::run;
    use super::refused::REFUSED;
    use super::rules::UNKNOWN;
    use super::*;

    fn says(allowed: Allowed, number: c_long, arguments: [u64; 6]) -> Result<(), i32> {
        static MADE: Mutex<BTreeMap<[bool; 8], Vec<sock_filter>>> = Mutex::new(BTreeMap::new());
        let Allowed { tcp, given, listens, unix, udp, raw, truncate, notify_unix } = allowed;
        let mut made = MADE.lock().unwrap();
        let program = made
            .entry([tcp, given, listens, unix, udp, raw, truncate, notify_unix])
            .or_insert_with(|| Filter::new(&allowed).program);
        match run(program, u32::try_from(number).unwrap(), ARCHITECTURE, arguments).0 {
            libc::SECCOMP_RET_ALLOW => Ok(()),
            libc::SECCOMP_RET_USER_NOTIF => Err(0),
            other => {
                assert_eq!(other & 0xffff_0000, libc::SECCOMP_RET_ERRNO);
                Err(i32::try_from(other & 0xffff).unwrap())
            }
        }
    }

    fn local(number: c_long, arguments: &[u64]) -> Result<(), i32> {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        says(LOCAL, number, all)
    }

    const LOCAL: Allowed = Allowed {
        tcp: false,
        given: false,
        listens: true,
        unix: false,
        udp: false,
        raw: false,
        truncate: true,
        notify_unix: false,
    };

    const NETWORK: Allowed = Allowed { tcp: true, notify_unix: true, ..LOCAL };

    #[test]
    fn what_is_ordinary_is_allowed() {
        for number in [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_futex,
            libc::SYS_kill,
            libc::SYS_inotify_init1,
            libc::SYS_memfd_create,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_mseal,
        ] {
            assert_eq!(local(number, &[]), Ok(()), "{number}");
        }
        assert_eq!(local(libc::SYS_clone, &[0x11]), Ok(()));
        assert_eq!(local(libc::SYS_ioctl, &[0, 0x5413]), Ok(()));
        assert_eq!(local(libc::SYS_ioctl, &[0, 0x540e]), Ok(()));
    }

    #[test]
    fn what_is_listed_is_refused_and_nothing_beside_it() {
        for number in 0..u32::from(u16::MAX) {
            let listed = REFUSED.contains(&c_long::from(number));
            let got = local(c_long::from(number), &[]);
            assert!(!listed || got == Err(EPERM), "{number}: {got:?}");
            assert!(number < UNKNOWN || got == Err(ENOSYS), "{number}: {got:?}");
        }
    }

    #[test]
    fn arguments_are_read_as_the_kernel_reads_them() {
        for request in [0x5412, 0x541c, 0x1_0000_5412, 0xffff_ffff_0000_541c] {
            assert_eq!(local(libc::SYS_ioctl, &[0, request]), Err(EPERM), "{request:x}");
        }
        for space in [0x2_0000, 0x200_0000, 0x1000_0000, 0x4000_0000, 0x1_1000_0011] {
            assert_eq!(local(libc::SYS_clone, &[space]), Err(EPERM), "{space:x}");
            assert_eq!(local(libc::SYS_unshare, &[space]), Err(EPERM), "{space:x}");
        }
        assert_eq!(local(libc::SYS_unshare, &[0x80]), Err(EPERM));
        assert_eq!(local(libc::SYS_unshare, &[0x200]), Ok(()));
        assert_eq!(local(libc::SYS_clone3, &[]), Err(ENOSYS));
        assert_eq!(local(libc::SYS_personality, &[0xffff_ffff]), Ok(()));
        assert_eq!(local(libc::SYS_personality, &[0x4_0000]), Err(EPERM));
        assert_eq!(local(libc::SYS_prlimit64, &[0, 7, 0xdead]), Ok(()));
        assert_eq!(local(libc::SYS_prlimit64, &[5, 7, 0]), Ok(()));
        assert_eq!(local(libc::SYS_prlimit64, &[5, 7, 1 << 40]), Err(EPERM));
        assert_eq!(local(libc::SYS_setpriority, &[2, 0]), Err(EPERM));
    }

    #[test]
    fn sockets_are_what_the_definition_says() {
        for family in 0..64 {
            for kind in 1..6 {
                assert_eq!(local(libc::SYS_socket, &[family, kind]), Err(EACCES));
                let network =
                    says(NETWORK, libc::SYS_socket, [family, kind | 0x8_0800, 0, 0, 0, 0]);
                match (family, kind) {
                    (1, 1) => assert_eq!(network, Err(0)),
                    (2 | 10, 1) => assert_eq!(network, Ok(())),
                    _ => assert!(matches!(network, Err(EACCES | EAFNOSUPPORT))),
                }
            }
        }
        assert_eq!(local(libc::SYS_socketpair, &[1, 1]), Ok(()));
        assert_eq!(local(libc::SYS_socketpair, &[1, 0x8_0005]), Ok(()));
        for (family, kind) in [(30, 1), (1, 2), (1, 0x8_0002), (1, 3)] {
            assert_eq!(local(libc::SYS_socketpair, &[family, kind]), Err(EACCES));
        }
        for (size, got) in [(16, Ok(())), (28, Ok(())), (110, Err(EISCONN)), (2, Err(EISCONN))] {
            assert_eq!(says(NETWORK, libc::SYS_connect, [3, 0, size, 0, 0, 0]), got);
        }
        for protocol in [132, 262] {
            let got = says(NETWORK, libc::SYS_socket, [2, 1, protocol, 0, 0, 0]);
            assert_eq!(got, Err(EPROTONOSUPPORT));
        }
        assert_eq!(says(NETWORK, libc::SYS_sendto, [0, 0, 0, 0x2000_0000, 0, 0]), Err(EOPNOTSUPP));
        assert_eq!(says(NETWORK, libc::SYS_sendto, [0, 0, 0, 0x4000, 0, 0]), Ok(()));
    }

    #[test]
    fn a_socket_that_is_given_is_connected_to_nothing_else() {
        let given = Allowed { given: true, ..NETWORK };
        let socket = |family, kind| says(given, libc::SYS_socket, [family, kind, 0, 0, 0, 0]);
        assert_eq!([socket(2, 1), socket(2, 0x8_0801), socket(1, 1)], [Err(0); 3]);
        assert_eq!(
            [socket(10, 1), socket(2, 2), socket(16, 3)],
            [Err(EAFNOSUPPORT), Err(EACCES), Err(EAFNOSUPPORT)]
        );
        // Error 0 is success.
        for (size, got) in [(16, Err(0)), (28, Err(0)), (110, Err(EISCONN)), (2, Err(EISCONN))] {
            assert_eq!(says(given, libc::SYS_connect, [3, 0, size, 0, 0, 0]), got);
        }
    }

    #[test]
    fn nothing_listens_where_that_is_not_left() {
        for which in
            [NETWORK, Allowed { given: true, ..NETWORK }, Allowed { unix: true, ..NETWORK }]
        {
            for number in [libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4] {
                assert_eq!(says(which, number, [3, 0, 0, 0, 0, 0]), Ok(()));
                let not = Allowed { listens: false, ..which };
                for word in [3, u64::from(u32::MAX), u64::MAX] {
                    assert_eq!(says(not, number, [word; 6]), Err(EACCES), "{number}");
                }
            }
        }
    }

    #[test]
    fn no_file_is_made_that_runs_as_its_owner() {
        let create = u64::from(libc::O_CREAT.cast_unsigned());
        let unnamed = u64::from(libc::O_TMPFILE.cast_unsigned());
        assert_eq!(local(libc::SYS_openat, &[0, 0, create, 0o4755]), Err(EACCES));
        assert_eq!(local(libc::SYS_openat, &[0, 0, unnamed | 2, 0o4755]), Err(EACCES));
        assert_eq!(local(libc::SYS_openat, &[0, 0, create, 0o2755]), Ok(()));
        assert_eq!(local(libc::SYS_openat, &[0, 0, 0, 0o4755]), Ok(()));
        assert_eq!(local(libc::SYS_fchmodat, &[0, 0, 0o4755]), Err(EPERM));
        assert_eq!(local(libc::SYS_fchmod, &[0, 0o6755]), Err(EPERM));
        assert_eq!(local(libc::SYS_fchmod, &[0, 0o2755]), Ok(()));
        assert_eq!(local(libc::SYS_openat2, &[]), Err(ENOSYS));
    }

    #[test]
    fn an_old_landlock_leaves_truncation_to_it() {
        let old = Allowed::default();
        let truncating = u64::from(libc::O_TRUNC.cast_unsigned());
        assert_eq!(says(old, libc::SYS_truncate, [0; 6]), Err(EACCES));
        assert_eq!(says(old, libc::SYS_openat, [0, 0, truncating, 0, 0, 0]), Err(EACCES));
        assert_eq!(says(old, libc::SYS_openat, [0, 0, truncating | 1, 0, 0, 0]), Ok(()));
        assert_eq!(says(old, libc::SYS_openat, [0; 6]), Ok(()));
        assert_eq!(local(libc::SYS_openat, &[0, 0, truncating]), Ok(()));
    }

    #[test]
    fn it_is_cheap_to_enter() {
        for (allowed, most) in [
            (LOCAL, 160),
            (NETWORK, 230),
            (Allowed { given: true, listens: false, ..NETWORK }, 240),
        ] {
            let program = Filter::new(&allowed).program;
            assert!(program.len() <= most, "{} instructions", program.len());
            // As the kernel does, which looks no further than an argument.
            let steps: usize =
                (0..470).map(|number| run(&program, number, ARCHITECTURE, [0; 6]).1).sum();
            assert!(steps <= 470 * 10, "{steps} steps");
        }
    }

    #[test]
    fn another_architecture_ends_the_process() {
        let filter = Filter::new(&NETWORK);
        let (killed, _) = run(&filter.program, 0, 0x4000_0003, [0; 6]);
        assert_eq!(killed, libc::SECCOMP_RET_KILL_PROCESS);
        assert_eq!(local(0x4000_0000 + 101, &[]), Err(ENOSYS));
    }

    #[test]
    fn a_filter_comes_back_as_it_was() {
        let filter = Filter::new(&NETWORK);
        let numbers: Vec<u64> = filter.to_numbers().collect();
        assert_eq!(Filter::from_numbers(&numbers, true).program, filter.program);
    }
}

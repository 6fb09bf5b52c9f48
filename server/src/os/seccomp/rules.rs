//! Which system calls are refused for what they are asked with, and which are left
//! by a definition.
//!
//! Must not: hold those that are refused whatever they are asked with (`refused`).

use std::collections::BTreeMap;

use libc::{EACCES, EAFNOSUPPORT, EISCONN, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT, c_long};

use super::Allowed;
use super::program::{Answer, Is, Rule, Run, bits, is, upper};
use super::refused::REFUSED;

/// The first number that nothing is known of: what a later kernel has there may be
/// anything. Programs take such an answer for an older kernel.
pub(super) const UNKNOWN: u32 = 467;

const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;

/// Every flag of a new namespace; that of time is a signal's number to clone(2).
const SPACES: u32 = 0x7e02_0000;
const SPACES_OR_TIME: u32 = SPACES | 0x80;

/// The kinds of a socket, without the flags beside them.
const KIND: u32 = 0xf;
const STREAM: u32 = libc::SOCK_STREAM.cast_unsigned();
const DATAGRAM: u32 = libc::SOCK_DGRAM.cast_unsigned();
const SEQUENCES: u32 = libc::SOCK_SEQPACKET.cast_unsigned();
const RAW: u32 = libc::SOCK_RAW.cast_unsigned();

type Rules = BTreeMap<u32, Rule>;

fn rules(allowed: &Allowed) -> Rules {
    let mut rules = Rules::new();
    for number in REFUSED {
        put(&mut rules, *number, Answer::Refuse(EPERM));
    }
    // Its flags lie in memory, where nothing can be seen from here: libc makes do
    // with clone(2) then.
    put(&mut rules, libc::SYS_clone3, Answer::Refuse(ENOSYS));
    put(&mut rules, libc::SYS_clone, only(&[&[bits(0, SPACES, 0)]]));
    put(&mut rules, libc::SYS_unshare, only(&[&[bits(0, SPACES_OR_TIME, 0)]]));
    put(&mut rules, libc::SYS_personality, only(&[&[is(0, 0)], &[is(0, u32::MAX)]]));
    // Input made up for whoever reads the terminal next, and what else reaches
    // beyond it. The kernel looks at 32 bits of the request, and so does this.
    let terminals = [0x5412, 0x541c, 0x541d, 0x5423];
    put(&mut rules, libc::SYS_ioctl, but(&terminals.map(|request| vec![is(1, request)]), EPERM));
    others(&mut rules);
    sockets(&mut rules, allowed);
    files(&mut rules, allowed);
    rules
}

/// What a process may do to itself alone: Landlock does not see these.
fn others(rules: &mut Rules) {
    put(rules, libc::SYS_prlimit64, only(&[&[is(0, 0)], &[is(2, 0), upper(2, 0)]]));
    put(rules, libc::SYS_setpriority, only(&[&[is(0, 0), is(1, 0)]]));
    put(rules, libc::SYS_ioprio_set, only(&[&[is(0, 1), is(1, 0)]]));
    for number in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        put(rules, number, only(&[&[is(0, 0)]]));
    }
}

/// What Landlock does not see, of files.
fn files(rules: &mut Rules, allowed: &Allowed) {
    // A program that is run as whoever made it: nothing in a workspace asks for one.
    const SET_UID: u32 = libc::S_ISUID;
    let opens = |flags: u32, mode: u32| {
        const MAKES: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
        let mut cases: Vec<Vec<Is>> = MAKES
            .map(libc::c_int::cast_unsigned)
            .map(|makes| vec![bits(mode, SET_UID, SET_UID), bits(flags, makes, makes)])
            .into();
        if !allowed.truncate {
            const TRUNCATES: u32 = libc::O_TRUNC.cast_unsigned() | libc::O_ACCMODE.cast_unsigned();
            const READS: u32 = libc::O_TRUNC.cast_unsigned() | libc::O_RDONLY.cast_unsigned();
            cases.push(vec![bits(flags, TRUNCATES, READS)]);
        }
        but(&cases, EACCES)
    };
    let modes = |mode: u32| but(&[vec![bits(mode, SET_UID, SET_UID)]], EPERM);
    put(rules, libc::SYS_openat, opens(2, 3));
    // Its flags and mode lie in memory.
    put(rules, libc::SYS_openat2, Answer::Refuse(ENOSYS));
    put(rules, libc::SYS_mknodat, modes(2));
    put(rules, libc::SYS_fchmod, modes(1));
    put(rules, libc::SYS_fchmodat, modes(2));
    put(rules, libc::SYS_fchmodat2, modes(2));
    #[cfg(target_arch = "x86_64")]
    {
        put(rules, libc::SYS_open, opens(1, 2));
        put(rules, libc::SYS_creat, modes(1));
        put(rules, libc::SYS_mknod, modes(1));
        put(rules, libc::SYS_chmod, modes(1));
    }
    // By path they reach every file of the tool's user.
    for number in [
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        SETXATTRAT,
        REMOVEXATTRAT,
    ] {
        put(rules, number, Answer::Refuse(EOPNOTSUPP));
    }
    if !allowed.truncate {
        put(rules, libc::SYS_truncate, Answer::Refuse(EACCES));
    }
}

fn sockets(rules: &mut Rules, allowed: &Allowed) {
    let [unix, inet, inet6] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].map(libc::c_int::cast_unsigned);
    let mut cases: Vec<(Vec<Is>, Answer)> = Vec::new();
    if allowed.unix {
        cases.push((vec![is(0, unix)], Answer::Allow));
    } else if allowed.notify_unix {
        cases.push((vec![is(0, unix), bits(1, KIND, STREAM)], Answer::Ask));
    }
    for family in [inet, inet6] {
        // What is given is connected to an address of the older kind.
        if allowed.given && family == inet6 {
            cases.push((vec![is(0, family)], Answer::Refuse(EAFNOSUPPORT)));
        } else if allowed.tcp {
            let stream = [is(0, family), bits(1, KIND, STREAM)];
            let answer = if allowed.given { Answer::Ask } else { Answer::Allow };
            // Landlock knows TCP, and takes MPTCP and SCTP for something else.
            for protocol in [0, libc::IPPROTO_TCP.cast_unsigned()] {
                let this = stream.iter().copied().chain([is(2, protocol)]);
                cases.push((this.collect(), answer));
            }
            cases.push((stream.to_vec(), Answer::Refuse(EPROTONOSUPPORT)));
        }
        for (kind, is_allowed) in [(DATAGRAM, allowed.udp), (RAW, allowed.raw)] {
            if is_allowed {
                cases.push((vec![is(0, family), bits(1, KIND, kind)], Answer::Allow));
            }
        }
    }
    let any = allowed.tcp || allowed.udp || allowed.raw;
    if any {
        // Those that a program tries may be refused; those that it asks the kernel
        // about its addresses by are not there.
        for family in [unix, inet, inet6] {
            cases.push((vec![is(0, family)], Answer::Refuse(EACCES)));
        }
    }
    let or_else = Answer::Refuse(if any { EAFNOSUPPORT } else { EACCES });
    put(rules, libc::SYS_socket, Rule { cases, or_else });
    // A pair of datagram sockets can be turned to any socket that has a name.
    let pairs = [STREAM, SEQUENCES].map(|kind| vec![is(0, unix), bits(1, KIND, kind)]);
    let mut pairs: Vec<_> = pairs.into_iter().map(|all| (all, Answer::Allow)).collect();
    if allowed.unix {
        pairs.push((vec![is(0, unix)], Answer::Allow));
    } else if allowed.notify_unix || allowed.given {
        // What the supervisor gives is connected, and the kernel would look for the
        // path before it says so. The sizes are those of the addresses of IP: which
        // address that is nobody asks, where every socket leads to the gate.
        let answer = if allowed.given { Answer::Refuse(0) } else { Answer::Allow };
        let ip = [16, 28].map(|size| (vec![is(2, size)], answer));
        let or_else = Answer::Refuse(EISCONN);
        put(rules, libc::SYS_connect, Rule { cases: ip.into(), or_else });
    }
    put(rules, libc::SYS_socketpair, Rule { cases: pairs, or_else: Answer::Refuse(EACCES) });
    if !allowed.listens {
        // Landlock sees bind(2) alone: a TCP socket that has no name yet, or none any
        // more, gets one by listen(2), at every address of the machine. A descriptor
        // does not say what it is, so this goes for every socket.
        for number in [libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4] {
            put(rules, number, Answer::Refuse(EACCES));
        }
    }
    if allowed.tcp {
        // It connects, and Landlock does not see that.
        const FAST_OPEN: u32 = libc::MSG_FASTOPEN.cast_unsigned();
        for (number, flags) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            let fast = vec![bits(flags, FAST_OPEN, FAST_OPEN)];
            put(rules, number, but(&[fast], EOPNOTSUPP));
        }
    }
}

fn put(rules: &mut Rules, number: c_long, rule: impl Into<Rule>) {
    if let Ok(number) = u32::try_from(number) {
        rules.insert(number, rule.into());
    }
}

/// Allowed where one of these holds.
fn only(cases: &[&[Is]]) -> Rule {
    let cases = cases.iter().map(|all| (all.to_vec(), Answer::Allow)).collect();
    Rule { cases, or_else: Answer::Refuse(EPERM) }
}

/// Refused where one of these holds.
fn but(cases: &[Vec<Is>], errno: i32) -> Rule {
    let cases = cases.iter().map(|all| (all.clone(), Answer::Refuse(errno))).collect();
    Rule { cases, or_else: Answer::Allow }
}

/// The numbers that are not simply allowed, those with one rule together.
pub(super) fn runs(allowed: &Allowed) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let unknown = (UNKNOWN, u32::MAX, Answer::Refuse(ENOSYS).into());
    let rules = rules(allowed).into_iter().map(|(number, rule)| (number, number, rule));
    for (first, last, rule) in rules.chain([unknown]) {
        match runs.last_mut() {
            Some(run) if run.rule == rule && run.last.checked_add(1) == Some(first) => {
                run.last = last;
            }
            _ => runs.push(Run { first, last, rule }),
        }
    }
    runs
}

//! What a new process does between clone and execve: a handful of system calls,
//! in memory that it shares with the server, whose thread waits meanwhile.
//!
//! Must not: allocate, lock, panic, or return.

use std::os::fd::RawFd;
use std::ptr;

use super::apart::Passage;
use super::limit::Limit;
use super::restrain::Steps;
use super::spaces::keep_capabilities;
use super::spawn::Step;

/// Everything that the child needs, as plain numbers and addresses.
#[repr(C)]
pub(super) struct Child {
    /// Whose child it is, while that lives.
    pub(super) parent: libc::pid_t,
    /// The first of namespaces of its own.
    pub(super) spaces: bool,
    pub(super) program: *const libc::c_char,
    /// Execute this open file instead.
    pub(super) program_fd: RawFd,
    pub(super) argv: *const *const libc::c_char,
    pub(super) envp: *const *const libc::c_char,
    /// -1: stay.
    pub(super) directory: RawFd,
    /// A process group of its own instead of a session; the foreground one of
    /// this terminal, if there is one (-1: none).
    pub(super) group: bool,
    pub(super) terminal: RawFd,
    pub(super) moves: *mut Move,
    pub(super) move_count: usize,
    pub(super) umask: libc::mode_t,
    pub(super) limits: *const Limit,
    pub(super) limit_count: usize,
    /// What confines it; null: nothing.
    pub(super) restraint: *mut Steps,
    /// By which its descriptors come; null: it has a copy of all that its parent has.
    pub(super) passage: *mut Passage,
    /// For tests: every descriptor stays open.
    pub(super) leaks: bool,
    pub(super) step: Step,
    pub(super) errno: libc::c_int,
}

/// A descriptor and the number that it gets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Move {
    pub(super) from: RawFd,
    pub(super) to: RawFd,
}

/// Where the numbers of its descriptors are: each in turn, by an index from 0 on.
///
/// # Safety
/// The child is as its parent has made it, and nobody else uses it now.
pub(super) unsafe fn descriptor(child: *mut Child, index: usize) -> Option<*mut RawFd> {
    // SAFETY: the caller vouches for it.
    unsafe {
        let moves = (*child).move_count;
        if index < moves {
            return Some(&raw mut (*(*child).moves.add(index)).from);
        }
        let restraint = (*child).restraint;
        let others = [
            &raw mut (*child).directory,
            &raw mut (*child).terminal,
            &raw mut (*child).program_fd,
            if restraint.is_null() { ptr::null_mut() } else { &raw mut (*restraint).ruleset },
            if restraint.is_null() { ptr::null_mut() } else { &raw mut (*restraint).listener },
        ];
        let mut there = others.into_iter().filter(|other| !other.is_null() && **other >= 0);
        there.nth(index - moves)
    }
}

/// The child's few steps.
pub(super) extern "C" fn run_child(child: *mut Child) -> ! {
    // SAFETY: the pointer is to the parent's `Child`, which waits for us; its
    // lists are as long as it says. All calls are plain system calls of the C
    // library.
    unsafe {
        let fail = |step: Step| -> ! {
            ptr::write_volatile(&raw mut (*child).step, step);
            ptr::write_volatile(&raw mut (*child).errno, *libc::__errno_location());
            libc::_exit(127)
        };
        let passage = (*child).passage;
        if !passage.is_null() {
            let mut index = 0;
            let each = || {
                let place = descriptor(child, index);
                index += 1;
                place
            };
            if !(*passage).part(each) {
                fail(Step::Prepare);
            }
        }
        let apart = if (*child).group { libc::setpgid(0, 0) } else { libc::setsid() };
        if apart < 0
            || ((*child).spaces && !keep_capabilities())
            // SIGTTOU is blocked here, as every signal is.
            || ((*child).terminal >= 0 && libc::tcsetpgrp((*child).terminal, libc::getpid()) < 0)
        {
            fail(Step::Prepare);
        }
        libc::umask((*child).umask);
        if (*child).directory >= 0 && libc::fchdir((*child).directory) < 0 {
            fail(Step::Directory);
        }
        if !place_descriptors(child) {
            fail(Step::Prepare);
        }
        // Last of all: a limit on descriptors is about those that come.
        for index in 0..(*child).limit_count {
            if !(*(*child).limits.add(index)).set() {
                fail(Step::Prepare);
            }
        }
        let restraint = (*child).restraint;
        if !restraint.is_null() && !(*restraint).give_up() {
            fail(Step::Confine);
        }
        // The parent's death is the call's: the next server finds the rest of the
        // tree by its mark. Whoever becomes another user forgets this.
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) < 0
            // One that died before that sends nothing.
            || libc::getppid() != (*child).parent
        {
            fail(Step::Prepare);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        if !restraint.is_null() && !(*restraint).shut_in() {
            fail(Step::Confine);
        }
        if (*child).program_fd >= 0 {
            let (program, argv, envp) = ((*child).program_fd, (*child).argv, (*child).envp);
            libc::syscall(
                libc::SYS_execveat,
                program,
                c"".as_ptr(),
                argv,
                envp,
                libc::AT_EMPTY_PATH,
            );
        } else {
            libc::execve((*child).program, (*child).argv, (*child).envp);
        }
        fail(Step::Exec)
    }
}

/// Gives each descriptor its number; nothing else is open in the program.
///
/// # Safety
/// As for `run_child`.
unsafe fn place_descriptors(child: *mut Child) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe {
        // Everything closes with execve, but for what is placed below.
        let closes = libc::CLOSE_RANGE_CLOEXEC;
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, closes);
        if (*child).leaks {
            for number in 3..1024 {
                libc::fcntl(number, libc::F_SETFD, 0);
            }
        }
        let moves = std::slice::from_raw_parts_mut((*child).moves, (*child).move_count);
        // What lies where something else goes steps aside first: the program too,
        // or the caller's own file would be executed in its place.
        for index in 0..moves.len() {
            if let Some(Move { from, to }) = moves.get(index).copied()
                && from != to
            {
                let aside = step_aside(from, moves);
                if aside < 0 {
                    return false;
                }
                if let Some(one) = moves.get_mut(index) {
                    one.from = aside;
                }
            }
        }
        if (*child).program_fd >= 0 {
            (*child).program_fd = step_aside((*child).program_fd, moves);
            if (*child).program_fd < 0 {
                return false;
            }
        }
        if !(*child).restraint.is_null() {
            let restraint = (*child).restraint;
            for own in [&raw mut (*restraint).ruleset, &raw mut (*restraint).listener] {
                if *own >= 0 {
                    *own = step_aside(*own, moves);
                    if *own < 0 {
                        return false;
                    }
                }
            }
        }
        moves.iter().all(|one| {
            if one.from == one.to {
                libc::fcntl(one.from, libc::F_SETFD, 0) >= 0
            } else {
                libc::dup2(one.from, one.to) >= 0
            }
        })
    }
}

/// A descriptor, by a number where nothing else goes; below 0 where there is none.
unsafe fn step_aside(descriptor: RawFd, moves: &[Move]) -> RawFd {
    let taken = |number: RawFd| moves.iter().any(|one| one.to == number);
    let mut number = descriptor;
    while number >= 0 && taken(number) {
        // A copy that lies badly stays, so that the next one lies elsewhere. It
        // closes with execve at the latest.
        // SAFETY: takes and gives plain numbers.
        number = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    }
    number
}

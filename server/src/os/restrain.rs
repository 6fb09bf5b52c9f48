//! What confines a new process: the last steps before execve, none of which it can
//! take back.
//!
//! As in `child`: in the server's memory, so plain system calls alone. Those that
//! change a user are made raw, since the C library would have every thread of this
//! process join in. Must not: choose anything.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::identity::{HEADER, Identity, Sets, has_any};
use super::landlock::Domain;
use super::notify::send_listener;
use super::seccomp::Filter;
use super::weaken;

/// What confines a process to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restraint<'a> {
    /// Whose it is; `None`: this process's user.
    pub(crate) identity: Option<Identity>,
    /// What it reaches.
    pub(crate) domain: BorrowedFd<'a>,
    /// What it may ask of the kernel.
    pub(crate) filter: &'a Filter,
    /// Where the filter's listener goes, if it has one: a Unix socket.
    pub(crate) listener: Option<BorrowedFd<'a>>,
}

impl<'a> Restraint<'a> {
    /// All of it but a listener.
    pub(crate) fn new(
        identity: Option<Identity>,
        domain: &'a Domain,
        filter: &'a Filter,
    ) -> Restraint<'a> {
        Restraint { identity, domain: domain.as_fd(), filter, listener: None }
    }
}

/// What this process gives up for a child, found out once.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a step")]
pub(super) struct Habits {
    /// There are capabilities to give up.
    capable: bool,
    /// For tests: what is left out.
    keeps_user: bool,
    keeps_privileges: bool,
    /// For tests: every descriptor stays open.
    pub(super) leaks: bool,
    /// For tests: nobody lets a stopped child go on.
    pub(super) waits: bool,
}

impl Habits {
    pub(super) fn new() -> Habits {
        Habits {
            capable: has_any() && !weaken::is("capabilities"),
            keeps_user: weaken::is("uid"),
            keeps_privileges: weaken::is("no-new-privs"),
            leaks: weaken::is("descriptors"),
            waits: weaken::is("nudge"),
        }
    }
}

/// A restraint as numbers and addresses.
#[repr(C)]
pub(super) struct Steps {
    habits: Habits,
    /// -1: stays.
    uid: i64,
    gid: u32,
    pub(super) ruleset: RawFd,
    filter: libc::sock_fprog,
    /// -1: none.
    pub(super) listener: RawFd,
    /// Where its number is written before it becomes another user.
    told: *const AtomicI32,
}

impl Steps {
    pub(super) fn new(restraint: &Restraint<'_>, habits: Habits) -> Steps {
        let identity = restraint.identity.filter(|_| !habits.keeps_user);
        Steps {
            habits,
            uid: identity.map_or(-1, |identity| i64::from(identity.uid)),
            gid: identity.map_or(0, |identity| identity.gid),
            ruleset: restraint.domain.as_raw_fd(),
            filter: restraint.filter.program(),
            listener: match restraint.listener {
                Some(socket) if restraint.filter.notifies() => socket.as_raw_fd(),
                _ => -1,
            },
            told: std::ptr::null(),
        }
    }

    pub(super) fn becomes_another(&self) -> bool {
        self.uid >= 0
    }

    pub(super) fn tells(&mut self, told: *const AtomicI32) {
        self.told = told;
    }

    /// Becomes somebody without powers.
    ///
    /// # Safety
    /// In a process that will execute or exit.
    pub(super) unsafe fn give_up(&self) -> bool {
        // SAFETY: plain system calls; the structs are on this stack.
        unsafe {
            if self.habits.keeps_privileges && !self.enter() {
                return false;
            }
            if let Some(told) = self.told.as_ref() {
                told.store(libc::getpid(), Ordering::SeqCst);
            }
            if self.uid >= 0
                && (libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) < 0
                    || libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) < 0
                    || libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) < 0
                    // A new user makes this memory, the server's, readable again
                    // where fs.suid_dumpable says so.
                    || libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
            {
                return false;
            }
            // The bounding set stays: with no_new_privs nothing is gained from it.
            let (header, none) = (HEADER, Sets::default());
            !self.habits.capable
                || libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) == 0
        }
    }

    /// Enters the domain, and last of all the filter.
    ///
    /// # Safety
    /// As above; the ruleset is open, and the filter lives.
    pub(super) unsafe fn shut_in(&self) -> bool {
        // SAFETY: plain system calls, by what the caller vouches for.
        unsafe {
            self.habits.keeps_privileges
                || (libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && self.enter())
        }
    }

    unsafe fn enter(&self) -> bool {
        // SAFETY: as above.
        unsafe {
            if libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset, 0) < 0 {
                return false;
            }
            if self.filter.len == 0 {
                return true;
            }
            // What slows a process down against itself guards nothing here.
            let mut flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
            if self.listener >= 0 {
                flags |= libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            }
            let made = libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const self.filter,
            );
            let Ok(listener) = RawFd::try_from(made) else { return false };
            listener >= 0 && (self.listener < 0 || send_listener(self.listener, listener))
        }
    }
}

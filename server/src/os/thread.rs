//! A thread of this process that reaches less than the others.
//!
//! The kernel keeps a thread's file user, groups, capabilities and Landlock domain apart
//! from those of the process; the C library would change them for all threads, so the
//! calls are made raw. It guards against a name that leads where it should not, not
//! against code: the memory is everybody's. Threads that it starts have the same.
//! Must not: choose what is reached.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

use super::identity::{HEADER, Identity, Sets, has_any};
use super::landlock::Domain;
use super::weaken;

/// Makes the calling thread, for good, somebody who opens files as that user, without
/// capabilities, and only what the domain names.
pub(crate) fn confine(identity: Option<Identity>, domain: Option<&Domain>) -> Result<(), Errno> {
    if let Some(Identity { uid, gid }) = identity {
        // SAFETY: no pointer is read for an empty list; raw, so that it is this thread's.
        let cleared =
            unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) };
        Errno::result(cleared)?;
        // They fail silently: asked again, each tells who it is by now.
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setfsgid(group);
        setfsuid(user);
        if setfsgid(group) != group || setfsuid(user) != user {
            return Err(Errno::EPERM);
        }
    }
    if has_any() && !weaken::is("capabilities") {
        let (header, none) = (HEADER, Sets::default());
        // SAFETY: two structs of the sizes that version 3 has, on this stack.
        let given_up = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
        Errno::result(given_up)?;
    }
    // SAFETY: numbers alone; both are about the calling thread.
    let alone = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Errno::result(alone)?;
    let Some(domain) = domain else { return Ok(()) };
    let ruleset = domain.as_fd().as_raw_fd();
    // SAFETY: a number that is open while this runs.
    let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) };
    Errno::result(entered).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::landlock::{Access, probe};

    #[test]
    fn a_confined_thread_opens_nothing_else_and_the_others_are_not_confined() {
        let Some(abi) = probe() else { panic!("Landlock is needed for this test") };
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in [&inside, &outside] {
            std::fs::write(directory.path().join("file"), "x").unwrap();
        }
        let read = |directory: &tempfile::TempDir| std::fs::read(directory.path().join("file"));
        let domain = Domain::new(abi, &[(inside.path(), Access::Write)], None).unwrap();
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                confine(None, Some(&domain)).unwrap();
                let child = std::thread::scope(|own| own.spawn(|| read(&outside)).join().unwrap());
                (read(&inside).is_ok(), read(&outside).is_ok(), child.is_ok())
            });
            assert_eq!(confined.join().unwrap(), (true, false, false));
        });
        assert!(read(&outside).is_ok(), "this thread was not confined");
    }
}

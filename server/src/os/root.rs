//! Opening beneath a directory, so that no name can lead out of it.
//!
//! Owns: every look-up of a path that somebody else may have chosen. A root is
//! opened once; from then on names are resolved by the kernel with
//! RESOLVE_BENEATH, never compared as strings and never looked up twice. Where many
//! names are looked up, it is beneath a directory that is open, without symlinks.
//! Must not: fall back to anything weaker where openat2 is missing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use super::foreign::Found;

/// A directory that look-ups cannot leave.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    resolved: Vec<u8>,
    directory: OwnedFd,
}

/// How often a look-up is repeated that raced with a rename (openat2 says
/// EAGAIN when it cannot be sure that the path stayed beneath the root).
const RETRIES: usize = 128;
/// One that somebody has made long, or that may be no race at all: of a file that somebody
/// holds a lease of, openat2 says the same.
const FEW: usize = 3;
/// All tries of a look-up that nobody has made long are done by then.
const LONG: Duration = Duration::from_millis(2);

impl Root {
    /// Opens the directory itself; symlinks in `path` are the operator's and
    /// are followed.
    pub(crate) fn open(path: &Path) -> Result<Root, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = open(path, flags, Mode::empty())?;
        let name = super::descriptors::path_of(directory.as_fd());
        let resolved = name.unwrap_or_else(|| path.as_os_str().as_bytes().to_vec());
        Ok(Root { path: path.to_owned(), resolved, directory })
    }

    /// Its name without symlinks, as the kernel told it when it was opened.
    pub(crate) fn resolved(&self) -> &[u8] {
        &self.resolved
    }

    /// The path that the root was opened by, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Opens a relative name beneath the root. `EXDEV` says that it leads out,
    /// whether or not anything is there; magic links are `ELOOP`.
    pub(crate) fn open_beneath(&self, name: &OsStr, flags: OFlag) -> Result<OwnedFd, Errno> {
        let name = if name.is_empty() { OsStr::new(".") } else { name };
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let began = Instant::now();
        let most = || match flags.contains(OFlag::O_PATH) && began.elapsed() < LONG {
            true => RETRIES,
            false => FEW,
        };
        let mut tries = 0;
        loop {
            #[cfg(test)]
            count::add(&count::FOLLOWING);
            match openat2(&self.directory, name, how) {
                Err(Errno::EAGAIN) if tries < most() => tries += 1,
                Err(Errno::EINTR) => {}
                other => return other,
            }
        }
    }

    /// A directory beneath the root, to be entered by descriptor.
    pub(crate) fn directory(&self, name: &OsStr) -> Result<Found, Errno> {
        self.open_beneath(name, OFlag::O_PATH | OFlag::O_DIRECTORY).map(Found::new)
    }

    /// A file beneath the root, for reading; never blocks on a FIFO, or for a lease. For
    /// roots that are the operator's alone: what lies in others is looked up by [`Plain`].
    pub(crate) fn file(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        self.open_beneath(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
    }
}

/// A directory that names are looked up in without following a symlink, so that a look-up
/// costs no more than its name is long, whatever somebody put there.
#[derive(Debug)]
pub(crate) struct Plain(Found);

impl Plain {
    /// A directory beneath a root; what its own name leads through is followed, once.
    pub(crate) fn open(root: &Root, name: &OsStr) -> Result<Plain, Errno> {
        root.directory(name).map(Plain)
    }

    /// A directory in this one.
    pub(crate) fn enter(&self, name: &OsStr) -> Result<Plain, Errno> {
        self.look(name, OFlag::O_PATH | OFlag::O_DIRECTORY).map(Plain)
    }

    /// Opens a name beneath it; where a symlink is on the way, or it is one, `ELOOP`.
    /// Nothing is repeated or waited for: a file that somebody holds a lease of is `EAGAIN`.
    pub(crate) fn look(&self, name: &OsStr, flags: OFlag) -> Result<Found, Errno> {
        let still = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // Beside O_PATH openat2 takes no more than that.
        let still = match flags.contains(OFlag::O_PATH) {
            true => still,
            false => still | OFlag::O_NONBLOCK | OFlag::O_NOCTTY,
        };
        let links = ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let resolve = ResolveFlag::RESOLVE_BENEATH | links;
        let how = OpenHow::new().flags(flags | still).resolve(resolve);
        #[cfg(test)]
        count::add(&count::PLAIN);
        openat2(&self.0, name, how).map(Found::new)
    }
}

/// How many look-ups a test made.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::thread::LocalKey;

    thread_local! {
        /// Of those that follow symlinks.
        pub(crate) static FOLLOWING: Cell<usize> = const { Cell::new(0) };
        /// Of those that do not.
        pub(crate) static PLAIN: Cell<usize> = const { Cell::new(0) };
    }

    /// Nobody opens it any more, for a while, without waiting.
    pub(crate) fn lease(file: &File) {
        // SAFETY: both take numbers; what the kernel tells of a lease is not wanted.
        let held = unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
        };
        assert_eq!(held, 0, "{}", std::io::Error::last_os_error());
    }

    pub(super) fn add(key: &'static LocalKey<Cell<usize>>) {
        key.set(key.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_and_nothing_tells_whether_it_is_there() {
        let base = tempfile::tempdir().unwrap();
        let inside = base.path().join("root");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::fs::create_dir(base.path().join("root-evil")).unwrap();
        symlink("/etc", inside.join("absolute")).unwrap();
        symlink("../root-evil", inside.join("relative")).unwrap();
        symlink("/no/such", inside.join("dangling")).unwrap();
        symlink("a/b", inside.join("within")).unwrap();
        let root = Root::open(&inside).unwrap();
        let open = |name: &str| root.directory(OsStr::new(name)).map(drop);
        for name in ["", ".", "a", "a/b", "a/../a/b", "within"] {
            assert_eq!(open(name), Ok(()), "{name}");
        }
        for name in
            ["..", "../root-evil", "a/../../x", "absolute", "relative", "dangling", "/etc", "/no"]
        {
            assert_eq!(open(name), Err(Errno::EXDEV), "{name}");
        }
        assert_eq!(open("missing"), Err(Errno::ENOENT));
    }
    /// Nobody waits for whoever holds it, nor is a long way to it gone again and again.
    #[test]
    fn a_file_that_somebody_holds_a_lease_of_is_asked_for_a_few_times() {
        let base = tempfile::tempdir().unwrap();
        let leased = std::fs::File::create(base.path().join("leased")).unwrap();
        count::lease(&leased);
        symlink("leased", base.path().join("way")).unwrap();
        let root = Root::open(base.path()).unwrap();
        count::FOLLOWING.set(0);
        assert_eq!(root.file(OsStr::new("way")).map(drop), Err(Errno::EAGAIN));
        assert_eq!(count::FOLLOWING.get(), 1 + FEW);
        let plain = Plain::open(&root, OsStr::new("")).unwrap();
        count::PLAIN.set(0);
        let found = plain.look(OsStr::new("leased"), OFlag::O_RDONLY).map(drop);
        assert_eq!((found, count::PLAIN.get()), (Err(Errno::EAGAIN), 1));
        assert!(plain.look(OsStr::new("leased"), OFlag::O_PATH).is_ok());
    }
}

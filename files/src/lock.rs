//! Nobody else at the same file meanwhile.
//!
//! Owns: who changes which name. In this process a name in a directory belongs to one at a
//! time; to other processes it is told by flock on the file that has the name, which they
//! look at if they are brokers too. Whoever waited looks again what the name means: a file
//! that is replaced is another file. Must not: wait without bound, or follow a symlink.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{FileStat, fstat};
use tool_protocol::{Code, Fault};

use crate::error::{Doing, FileError, shown};
use crate::opened::{look, reading, regular, same, stat_of};
use crate::{Stop, after};

/// How long it is waited for another.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether to stop, or whether another process is done.
const LOOK: Duration = Duration::from_millis(10);

/// How often it is looked again at once.
const AT_ONCE: u32 = 64;

/// A directory's device and number, and a name in it.
pub(crate) type Key = (u64, u64, Vec<u8>);

static TAKEN: LazyLock<(Mutex<Taken>, Condvar)> = LazyLock::new(Default::default);

/// Names that belong to somebody, and how many wait for one.
#[derive(Default)]
struct Taken {
    names: HashSet<Key>,
    wait: usize,
}

/// A name that belongs to whoever has this.
#[derive(Debug)]
pub(crate) struct Held {
    key: Key,
    deadline: Instant,
}

/// What has the name, regular, by O_PATH; other brokers keep away from it.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) open: OwnedFd,
    pub(crate) stat: FileStat,
    /// None: it cannot be read, or not be locked; then only this process is kept away.
    lock: Option<Flock<File>>,
}

impl Locked {
    /// The same, to be read, where it may be.
    pub(crate) fn file(&self) -> Option<&File> {
        self.lock.as_deref()
    }

    /// Another has its name: nobody is kept away any more, and the rest is done later.
    pub(crate) fn replaced(self) {
        if let Some(Ok(file)) = self.lock.map(Flock::unlock) {
            after::close(file);
        }
        after::replaced(self.open);
    }
}

impl Held {
    /// Which name.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Waits for it, not for long.
    pub(crate) fn take(
        directory: BorrowedFd<'_>,
        name: &[u8],
        said: &[u8],
        stop: &Stop,
    ) -> Result<Held, FileError> {
        let deadline = Instant::now() + PATIENCE;
        let stat = fstat(directory);
        let stat = stat.map_err(|errno| FileError::system(Doing::Writing, said, errno))?;
        let key = (stat.st_dev, stat.st_ino, name.to_vec());
        let mut taken = taken();
        while taken.names.contains(&key) {
            stop.check()?;
            if Instant::now() >= deadline {
                return Err(busy(said));
            }
            taken.wait += 1;
            let waited = TAKEN.1.wait_timeout(taken, LOOK);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
            taken.wait -= 1;
        }
        taken.names.insert(key.clone());
        Ok(Held { key, deadline })
    }

    /// Locks what has the name now; None where nothing has. `found`: what had it a moment ago,
    /// regular, by O_PATH.
    pub(crate) fn lock(
        &self,
        directory: BorrowedFd<'_>,
        mut found: Option<OwnedFd>,
        said: &[u8],
        stop: &Stop,
    ) -> Result<Option<Locked>, FileError> {
        let failed = |errno| FileError::system(Doing::Writing, said, errno);
        let find = || match look(directory, &self.key.2).map_err(failed)? {
            None => Ok(None),
            Some(open) => regular(open.as_fd(), said).map(|_| Some(open)),
        };
        for tries in 0.. {
            let there = found.take().map_or_else(find, |found| Ok(Some(found)))?;
            let Some(open) = there else { return Ok(None) };
            let lock = match reading(open.as_fd()) {
                Ok(file) => self.flock(file, said, stop)?,
                Err(Errno::EACCES) => None,
                Err(errno) => return Err(failed(errno)),
            };
            let stat = fstat(&open).map_err(failed)?;
            // While it was waited for, the name may have come to mean another file.
            match stat_of(directory, &self.key.2).map_err(failed)? {
                Some(now) if same(&now, &stat) => return Ok(Some(Locked { open, stat, lock })),
                // Whoever moves it about is not done the sooner for being waited for.
                _ if tries < AT_ONCE => stop.check()?,
                _ => self.wait(said, stop)?,
            }
        }
        Ok(None)
    }

    fn flock(
        &self,
        mut file: File,
        said: &[u8],
        stop: &Stop,
    ) -> Result<Option<Flock<File>>, FileError> {
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Some(lock)),
                Err((back, Errno::EWOULDBLOCK)) => file = back,
                Err((back, Errno::EINTR)) => file = back,
                // Not every file system has locks.
                Err(_) => return Ok(None),
            }
            self.wait(said, stop)?;
        }
    }

    fn wait(&self, said: &[u8], stop: &Stop) -> Result<(), FileError> {
        stop.check()?;
        if Instant::now() >= self.deadline {
            return Err(busy(said));
        }
        std::thread::park_timeout(LOOK);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = taken();
        taken.names.remove(&self.key);
        let wait = taken.wait > 0;
        drop(taken);
        // Nobody does, mostly, and the kernel would be asked.
        if wait {
            TAKEN.1.notify_all();
        }
    }
}

fn taken() -> MutexGuard<'static, Taken> {
    TAKEN.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy(said: &[u8]) -> FileError {
    let message = "somebody else is changing it and does not come to an end: try again later";
    FileError::said(Fault::Broker(Code::Busy), format!("{}: {message}", shown(said)))
}

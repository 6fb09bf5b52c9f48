//! What threads for files do when nobody waits for it.
//!
//! Owns: when the files that replaced others are written out, and by whom: as work of the
//! caller whose they are, as a file system that does not answer holds who writes out to it.
//! They are gathered for a moment (`tool_files::after`), so that what is replaced again within
//! it is not written at all. Must not: hold a lock while a file system is asked, or keep a
//! server that stops.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool_files::after::{self, Files, Gathered, Left, Next, Written};

use super::{Crew, Whose};
use crate::os::descriptors::write_out;
use crate::os::foreign::{Foreign, close_beside};

/// How long a server that stops waits for it.
const REST: Duration = Duration::from_secs(1);

/// What is to be done later.
#[derive(Debug)]
pub(super) struct Later {
    /// What wakes whoever does it; without, nothing is gathered.
    clock: Option<Handle>,
    wait: Duration,
    write_out: fn(&OwnedFd),
    gathered: Mutex<Gathered<Whose>>,
    under_way: TaskTracker,
    now: CancellationToken,
}

impl Later {
    /// By the clock of the runtime that this is called in.
    pub(super) fn new() -> Later {
        Later::with(after::WAIT, write_out)
    }

    fn with(wait: Duration, write_out: fn(&OwnedFd)) -> Later {
        Later {
            clock: Handle::try_current().ok(),
            wait,
            write_out,
            gathered: Mutex::default(),
            under_way: TaskTracker::new(),
            now: CancellationToken::new(),
        }
    }

    /// Where tasks are spawned.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.clock.as_ref()
    }

    /// Of a thread that may leave something: until it is dropped, [`Crew::rest`] waits.
    pub(super) fn under_way(&self) -> TaskTrackerToken {
        self.under_way.token()
    }

    /// All of it, now.
    async fn all(&self) {
        self.now.cancel();
        self.under_way.close();
        self.under_way.wait().await;
    }

    fn write_out(&self, files: &[Written]) {
        files.iter().filter_map(Written::open).for_each(|file| (self.write_out)(&file));
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<Whose>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// Sees to what a work for that caller has left. May take as long as a file system likes.
    pub(super) fn later(self: &Arc<Crew>, whose: Whose, left: Left) {
        let later = &self.later;
        let Left { written, replaced, .. } = left;
        if written.is_empty() {
            return;
        }
        let Some(clock) = &later.clock else { return later.write_out(&written) };
        let (_old, next, _closed) = {
            let mut gathered = later.lock();
            let old = gathered.replaced_by(&whose, &written);
            (old, gathered.add(whose, written), gathered.add_replaced(&whose, replaced))
        };
        match next {
            Next::Wait => {}
            Next::Take => {
                let crew = Arc::clone(self);
                drop(later.under_way.spawn_on(async move { crew.come_for(whose).await }, clock));
            }
            Next::Look(files) => {
                let files = after::still_named(files);
                let files = later.lock().put_back(&whose, files);
                later.write_out(&files);
            }
        }
    }

    /// Has what that caller's work left written out, and closed, in a moment.
    async fn come_for(self: Arc<Crew>, whose: Whose) {
        tokio::select! {
            () = sleep(self.later.wait) => {}
            () = self.later.now.cancelled() => {}
        }
        let crew = Arc::clone(&self);
        let work = move || {
            let Files { written, replaced } = crew.later.lock().take(&whose);
            crew.later.write_out(&written);
            drop(replaced);
        };
        if self.run(whose, work).await.is_err() {
            // There is nobody: the kernel writes them out when it likes. To close them may take
            // as long as their file system likes, and this is the runtime's thread.
            let Files { written, replaced } = self.later.lock().take(&whose);
            let written = written.into_iter().map(OwnedFd::from);
            close_beside(written.chain(replaced).map(Foreign::new).collect());
        }
    }

    /// All that was left is done now, and what comes yet at once; not waited for without end.
    pub(crate) async fn rest(&self) {
        timeout(REST, self.later.all()).await.ok();
    }
}

#[cfg(test)]
mod tests;

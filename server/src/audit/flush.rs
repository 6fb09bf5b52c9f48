//! The thread beside: each second what was written is made to last, what failed
//! is tried again, files too many are removed, and it is seen that the file is
//! where it was. While there is nothing to
//! do, it sleeps, and nobody wakes it.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::words;
use super::{Shared, files};
use crate::config::AuditSync;

/// How long what was written may wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts it; it ends when the keeper says `stop`.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("audit".to_owned()).spawn(move || run(&shared))
}

fn run(shared: &Shared) {
    remove_surplus(shared);
    while wait(shared) {
        let mut keeper = shared.lock();
        if keeper.trouble.is_some()
            && let Err(error) = keeper.heal()
        {
            keeper.fail("be written", &error);
        }
        keeper.look_after();
        let surplus = std::mem::take(&mut keeper.surplus);
        let flush = keeper.dirty && shared.options.sync == AuditSync::Seconds;
        let parts = if flush { keeper.take_unsynced() } else { Vec::new() };
        keeper.dirty = false;
        let journal = flush.then(|| keeper.journal.file());
        drop(keeper);
        shared.make_last(parts);
        if let Some(Err(error)) = journal.map(|journal| journal.sync_data()) {
            shared.lock().sync_failed(Vec::new(), &error);
        }
        if surplus {
            remove_surplus(shared);
        }
    }
}

/// Until there is something to do, and then a while; `false`: it is over.
fn wait(shared: &Shared) -> bool {
    let mut keeper = shared.lock();
    let mut until = None;
    while !keeper.stop {
        if !keeper.wants_attention() {
            keeper.idle = true;
            until = None;
            keeper = shared.attention.wait(keeper).unwrap_or_else(PoisonError::into_inner);
            keeper.idle = false;
            continue;
        }
        let until = *until.get_or_insert_with(|| Instant::now() + PAUSE);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        let waited = shared.attention.wait_timeout(keeper, left);
        keeper = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    false
}

/// Removes the oldest complete files beyond the number that is kept.
fn remove_surplus(shared: &Shared) {
    let directory = files::directory(&shared.options.state_dir);
    let removed = files::complete(&directory).and_then(|found| {
        let surplus = match shared.options.keep {
            0 => 0,
            keep => found.len().saturating_sub(keep),
        };
        for (_, path) in found.into_iter().take(surplus) {
            std::fs::remove_file(&path)?;
            tracing::info!(file = %path.display(), "removed, as audit.keep says");
        }
        if shared.options.sync == AuditSync::Never {
            Ok(())
        } else {
            files::sync_directory(&directory)
        }
    });
    if let Err(error) = removed {
        tracing::warn!(
            why = words(&error),
            "files of the audit that are too many cannot be removed"
        );
    }
}

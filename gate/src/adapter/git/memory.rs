//! What a call has been allowed already, for as long as it lasts.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::lfs::Handles;

/// One of a call; empty at its beginning.
#[derive(Debug)]
pub struct Memory {
    allowed: Mutex<HashSet<String>>,
    pub(super) handles: Handles,
    pushes: Semaphore,
    batches: Semaphore,
}

/// So many pushes are looked at at once: each may have tens of megabytes in memory.
const PUSHES: usize = 2;

/// So many answers about large files are read at once, megabytes each.
const BATCHES: usize = 2;

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            allowed: Mutex::default(),
            handles: Handles::default(),
            pushes: Semaphore::new(PUSHES),
            batches: Semaphore::new(BATCHES),
        }
    }
}

/// So much is remembered; the rules are asked again about others.
const MOST: usize = 1000;

impl Memory {
    /// Whether this was allowed, by what it is and where: a fetch is several requests,
    /// and one decision.
    pub(super) fn may(&self, what: &str) -> bool {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(what)
    }

    /// A place for a push that is looked at; the others wait.
    pub(super) async fn push(&self) -> Option<SemaphorePermit<'_>> {
        self.pushes.acquire().await.ok()
    }

    /// A place for a batch of large files that is answered; the others wait.
    pub(super) async fn batch(&self) -> Option<SemaphorePermit<'_>> {
        self.batches.acquire().await.ok()
    }

    /// It was allowed.
    pub(super) fn remember(&self, what: String) {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.len() < MOST {
            allowed.insert(what);
        }
    }
}

//! The first results, in the order of their keys, of many threads.
//!
//! Owns: how many are kept, by number and by what they take in an answer, and knowing that
//! there are more. Must not: know what a result is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::shown::order;

/// What the results of one answer may take in it together, in bytes; one result is given
/// however long it is.
pub(crate) const ROOM: usize = 4 << 20;
/// What a result takes beside its names and lines.
const EACH: usize = 128;

/// A result that knows how long it is.
pub(crate) trait Weighed {
    /// About as many bytes as it takes in an answer, beside its path and fixed members.
    fn size(&self) -> usize;
}

/// How many bytes a string of these takes as JSON, at most.
pub(crate) fn size_of(text: &[u8]) -> usize {
    let escaped = text.iter().filter(|byte| **byte < 0x20).count();
    let marked = text.iter().filter(|byte| matches!(**byte, b'"' | b'\\')).count();
    text.len() + 5 * escaped + marked
}

/// A path, and a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) path: Box<[u8]>,
    pub(crate) line: u64,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        order(&self.path, &other.path).then(self.line.cmp(&other.line))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Which are kept, where there are more than are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The first in the order of keys: the same at every call.
    Lowest,
    /// Those that came first: what was given away as it came.
    Earliest,
}

/// Up to so many results.
#[derive(Debug)]
pub(crate) struct Best<T> {
    keep: Keep,
    most: usize,
    kept: Mutex<Kept<T>>,
    more: AtomicBool,
    total: AtomicU64,
}

#[derive(Debug)]
struct Kept<T> {
    results: BTreeMap<Key, T>,
    size: usize,
    /// One did not fit: only what comes before the last may come to it.
    full: bool,
}

impl<T: Weighed> Best<T> {
    pub(crate) fn new(keep: Keep, most: usize) -> Best<T> {
        let (more, total) = (AtomicBool::new(false), AtomicU64::new(0));
        let kept = Kept { results: BTreeMap::new(), size: 0, full: false };
        Best { keep, most, kept: Mutex::new(kept), more, total }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of a path or beneath it is wanted any more. Only once there are
    /// surely more results than are wanted: that there are is never guessed.
    pub(crate) fn beyond(&self, path: &[u8]) -> bool {
        if !self.more.load(Ordering::Relaxed) {
            return false;
        }
        let kept = self.kept();
        let last = kept.results.last_key_value();
        self.keep == Keep::Earliest || last.is_none_or(|(last, _)| order(path, &last.path).is_gt())
    }

    /// A result. `make` gives it where it is wanted; `None` from it: it is none after all.
    /// Continue: whether it is kept, for now. Break: no other is wanted.
    pub(crate) fn offer(
        &self,
        key: Key,
        make: impl FnOnce() -> Option<T>,
    ) -> ControlFlow<(), bool> {
        if self.unwanted(&key) {
            return self.reject();
        }
        let Some(result) = make() else { return ControlFlow::Continue(false) };
        let mut kept = self.kept();
        let size = weight(&key, &result);
        if self.keep == Keep::Earliest && !kept.results.is_empty() {
            kept.full |= kept.results.len() >= self.most || kept.size + size > ROOM;
            if kept.full {
                return self.reject();
            }
        }
        // Somebody else may have come to know since that it is not wanted.
        let last = kept.results.last_key_value();
        if kept.full && last.is_some_and(|(last, _)| key > *last) {
            return self.reject();
        }
        self.total.fetch_add(1, Ordering::Relaxed);
        kept.size += size;
        let long = size_of(&key.path);
        if let Some(same) = kept.results.insert(key, result) {
            kept.size -= EACH + long + same.size();
        }
        while kept.results.len() > self.most || (kept.size > ROOM && kept.results.len() > 1) {
            let Some((key, last)) = kept.results.pop_last() else { break };
            kept.size -= weight(&key, &last);
            kept.full = true;
            self.more.store(true, Ordering::Relaxed);
        }
        ControlFlow::Continue(true)
    }

    fn unwanted(&self, key: &Key) -> bool {
        let kept = self.kept();
        if !kept.full && kept.results.len() < self.most {
            return false;
        }
        let last = kept.results.last_key_value();
        self.keep == Keep::Earliest || last.is_some_and(|(last, _)| key > last)
    }

    /// One more that is not wanted.
    pub(crate) fn reject(&self) -> ControlFlow<(), bool> {
        self.total.fetch_add(1, Ordering::Relaxed);
        self.more.store(true, Ordering::Relaxed);
        match self.keep {
            Keep::Lowest => ControlFlow::Continue(false),
            Keep::Earliest => ControlFlow::Break(()),
        }
    }

    /// Whether there were more than are kept.
    pub(crate) fn more(&self) -> bool {
        self.more.load(Ordering::Relaxed)
    }

    /// How many there were, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// In the order of keys.
    pub(crate) fn into_results(self) -> BTreeMap<Key, T> {
        self.kept.into_inner().unwrap_or_else(PoisonError::into_inner).results
    }
}

fn weight<T: Weighed>(key: &Key, result: &T) -> usize {
    EACH + size_of(&key.path) + result.size()
}

//! The first results, in the order of their keys, of many threads.
//!
//! Owns: how many are kept, by number and by what they take in an answer, and knowing that
//! there are more. Must not: know what a result is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::escape::clean;
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
    let rest = text.get(clean(text)..).unwrap_or_default();
    let escaped = rest.iter().filter(|byte| **byte < 0x20).count();
    let marked = rest.iter().filter(|byte| matches!(**byte, b'"' | b'\\')).count();
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
    /// As they came, as long as all fit: most answers are ordered once, at the end.
    come: Vec<(Key, T)>,
    /// All, once not all fit.
    results: BTreeMap<Key, T>,
    size: usize,
    /// One did not fit: only what comes before the last may come to it.
    full: bool,
}

impl<T: Weighed> Kept<T> {
    fn len(&self) -> usize {
        self.come.len() + self.results.len()
    }

    fn insert(&mut self, key: Key, result: T) {
        let named = EACH + size_of(&key.path);
        self.size += named + result.size();
        if let Some(same) = self.results.insert(key, result) {
            self.size -= named + same.size();
        }
    }

    /// From now on in the order of keys, and two that are the same are one.
    fn order(&mut self) {
        if !self.come.is_empty() {
            self.size = 0;
            for (key, result) in std::mem::take(&mut self.come) {
                self.insert(key, result);
            }
        }
    }

    fn last(&mut self) -> Option<&Key> {
        self.order();
        self.results.last_key_value().map(|(key, _)| key)
    }
}

impl<T: Weighed> Best<T> {
    pub(crate) fn new(keep: Keep, most: usize) -> Best<T> {
        let (more, total) = (AtomicBool::new(false), AtomicU64::new(0));
        let kept = Kept { come: Vec::new(), results: BTreeMap::new(), size: 0, full: false };
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
        let mut kept = self.kept();
        self.keep == Keep::Earliest
            || kept.last().is_none_or(|last| order(path, &last.path).is_gt())
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
        let size = EACH + size_of(&key.path) + result.size();
        let fits = |kept: &Kept<T>| kept.len() < self.most && kept.size + size <= ROOM;
        if !fits(&kept) {
            kept.order();
        }
        if self.keep == Keep::Earliest && kept.len() > 0 {
            kept.full |= !fits(&kept);
            if kept.full {
                return self.reject();
            }
        }
        // Somebody else may have come to know since that it is not wanted.
        if kept.full && kept.last().is_some_and(|last| key > *last) {
            return self.reject();
        }
        self.total.fetch_add(1, Ordering::Relaxed);
        if kept.results.is_empty() && fits(&kept) {
            kept.size += size;
            kept.come.push((key, result));
            return ControlFlow::Continue(true);
        }
        kept.insert(key, result);
        while kept.results.len() > self.most || (kept.size > ROOM && kept.results.len() > 1) {
            let Some((key, last)) = kept.results.pop_last() else { break };
            kept.size -= EACH + size_of(&key.path) + last.size();
            kept.full = true;
            self.more.store(true, Ordering::Relaxed);
        }
        ControlFlow::Continue(true)
    }

    fn unwanted(&self, key: &Key) -> bool {
        let mut kept = self.kept();
        if kept.len() >= self.most {
            kept.order();
        }
        if !kept.full && kept.len() < self.most {
            return false;
        }
        self.keep == Keep::Earliest || kept.last().is_some_and(|last| key > last)
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
    pub(crate) fn into_results(self) -> Vec<(Key, T)> {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !kept.results.is_empty() {
            return kept.results.into_iter().collect();
        }
        let mut come = kept.come;
        come.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Of two that are the same the one that came last.
        come.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        come
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Weighed for usize {
        fn size(&self) -> usize {
            *self
        }
    }

    fn key(name: &str) -> Key {
        Key { path: name.as_bytes().into(), line: 0 }
    }

    fn weight((key, long): &(Key, usize)) -> usize {
        EACH + key.path.len() + long
    }

    proptest! {
        #[test]
        fn the_lowest_are_the_beginning_of_a_naive_list(
            offers in prop::collection::vec(("[a-c/.-]{0,3}", 0usize..12), 0..40),
            most in 1usize..12,
        ) {
            let best = Best::new(Keep::Lowest, most);
            let mut naive = BTreeMap::new();
            for (name, mebibytes) in &offers {
                // One name weighs the same each time; most weigh little.
                let known = *naive.entry(key(name)).or_insert((mebibytes / 10) << 20);
                let offered = best.offer(key(name), || Some(known));
                prop_assert!(offered.is_continue());
            }
            let naive: Vec<_> = naive.into_iter().collect();
            prop_assert_eq!(best.total(), offers.len() as u64);
            let more = best.more();
            let kept = best.into_results();
            prop_assert!(naive.starts_with(&kept), "{:?} of {:?}", kept, naive);
            prop_assert_eq!(more, kept.len() < naive.len());
            prop_assert_eq!(kept.is_empty(), naive.is_empty());
            prop_assert!(kept.len() <= most);
            prop_assert!(kept.len() <= 1 || kept.iter().map(weight).sum::<usize>() <= ROOM);
            if naive.iter().map(weight).sum::<usize>() <= ROOM {
                prop_assert_eq!(kept.len(), naive.len().min(most));
            }
        }

        #[test]
        fn the_earliest_are_given_in_the_order_of_keys(
            names in prop::collection::vec("[a-b/.-]{0,2}", 0..20),
            most in 1usize..12,
        ) {
            let best = Best::new(Keep::Earliest, most);
            let mut kept = BTreeMap::new();
            for name in &names {
                let ended = kept.len() == most;
                prop_assert_eq!(best.offer(key(name), || Some(0)).is_break(), ended);
                if ended {
                    break;
                }
                kept.insert(key(name), 0);
            }
            prop_assert!(best.into_results().into_iter().eq(kept));
        }
    }
}

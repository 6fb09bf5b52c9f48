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
/// As many results as most answers have.
const USUAL: usize = 128;
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
struct Key {
    path: Box<[u8]>,
    line: u64,
}

impl Key {
    fn new(path: &[u8], line: u64) -> Key {
        Key { path: path.into(), line }
    }

    fn is_before(&self, path: &[u8], line: u64) -> bool {
        order(&self.path, path).then(self.line.cmp(&line)).is_lt()
    }
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

/// Results with their paths, which lie one behind the other: an answer of a thousand asks
/// for memory a few times, and threads share few heaps.
#[derive(Debug)]
pub(crate) struct Results<T> {
    paths: Vec<u8>,
    each: Vec<One<T>>,
}

/// One of them; its path is at `begin..end` of all.
#[derive(Debug)]
struct One<T> {
    begin: usize,
    end: usize,
    line: u64,
    result: T,
}

impl<T> Results<T> {
    fn with_capacity(many: usize) -> Results<T> {
        Results { paths: Vec::new(), each: Vec::with_capacity(many) }
    }

    fn push(&mut self, path: &[u8], line: u64, result: T) {
        let begin = self.paths.len();
        self.paths.extend_from_slice(path);
        self.each.push(One { begin, end: self.paths.len(), line, result });
    }

    /// In the order of keys; of two that are the same the one that came last.
    fn order(&mut self) {
        let Results { paths, each } = self;
        let path = |one: &One<T>| paths.get(one.begin..one.end).unwrap_or_default();
        each.sort_by(|one, other| order(path(one), path(other)).then(one.line.cmp(&other.line)));
        each.dedup_by(|later, kept| {
            let same = later.line == kept.line && path(later) == path(kept);
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
    }

    /// Bytes of all paths.
    pub(crate) fn path_bytes(&self) -> usize {
        self.paths.len()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// Each with its path.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &T)> {
        let path = |one: &One<T>| self.paths.get(one.begin..one.end).unwrap_or_default();
        self.each.iter().map(move |one| (path(one), &one.result))
    }

    /// Each without its path.
    pub(crate) fn into_each(self) -> impl Iterator<Item = T> {
        self.each.into_iter().map(|one| one.result)
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
    come: Results<T>,
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
        if self.come.len() > 0 {
            self.size = 0;
            let Results { paths, each } =
                std::mem::replace(&mut self.come, Results::with_capacity(0));
            for One { begin, end, line, result } in each {
                self.insert(Key::new(paths.get(begin..end).unwrap_or_default(), line), result);
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
        let come = Results::with_capacity(most.min(USUAL));
        let kept = Kept { come, results: BTreeMap::new(), size: 0, full: false };
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

    /// A result, by its path and a line in it. `make` gives it where it is wanted; `None` from
    /// it: it is none after all. Continue: whether it is kept, for now. Break: no other is
    /// wanted.
    pub(crate) fn offer(
        &self,
        path: &[u8],
        line: u64,
        make: impl FnOnce() -> Option<T>,
    ) -> ControlFlow<(), bool> {
        if self.unwanted(path, line) {
            return self.reject();
        }
        let Some(result) = make() else { return ControlFlow::Continue(false) };
        let mut kept = self.kept();
        let size = EACH + size_of(path) + result.size();
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
        if kept.full && kept.last().is_some_and(|last| last.is_before(path, line)) {
            return self.reject();
        }
        self.total.fetch_add(1, Ordering::Relaxed);
        if kept.results.is_empty() && fits(&kept) {
            kept.size += size;
            kept.come.push(path, line, result);
            return ControlFlow::Continue(true);
        }
        kept.insert(Key::new(path, line), result);
        while kept.results.len() > self.most || (kept.size > ROOM && kept.results.len() > 1) {
            let Some((key, last)) = kept.results.pop_last() else { break };
            kept.size -= EACH + size_of(&key.path) + last.size();
            kept.full = true;
            self.more.store(true, Ordering::Relaxed);
        }
        ControlFlow::Continue(true)
    }

    fn unwanted(&self, path: &[u8], line: u64) -> bool {
        // No more are kept than there were. Nobody is waited for, as long as all fit.
        let few = u64::try_from(self.most).is_ok_and(|most| self.total() < most);
        if few && !self.more() {
            return false;
        }
        let mut kept = self.kept();
        if kept.len() >= self.most {
            kept.order();
        }
        if !kept.full && kept.len() < self.most {
            return false;
        }
        self.keep == Keep::Earliest || kept.last().is_some_and(|last| last.is_before(path, line))
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

    /// How many more may come until they are as many as are wanted.
    pub(crate) fn wants(&self) -> usize {
        self.most.saturating_sub(self.kept().len())
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
    pub(crate) fn into_results(self) -> Results<T> {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Kept { mut come, results, .. } = kept;
        if results.is_empty() {
            come.order();
            return come;
        }
        let mut ordered = Results::with_capacity(results.len());
        results
            .into_iter()
            .for_each(|(Key { path, line }, result)| ordered.push(&path, line, result));
        ordered
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
        Key::new(name.as_bytes(), 0)
    }

    fn pairs(results: Results<usize>) -> Vec<(Key, usize)> {
        results.iter().map(|(path, result)| (Key::new(path, 0), *result)).collect()
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
                let offered = best.offer(name.as_bytes(), 0, || Some(known));
                prop_assert!(offered.is_continue());
            }
            let naive: Vec<_> = naive.into_iter().collect();
            prop_assert_eq!(best.total(), offers.len() as u64);
            let more = best.more();
            let kept = pairs(best.into_results());
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
                prop_assert_eq!(best.offer(name.as_bytes(), 0, || Some(0)).is_break(), ended);
                if ended {
                    break;
                }
                kept.insert(key(name), 0);
            }
            prop_assert!(pairs(best.into_results()).into_iter().eq(kept));
        }
    }
}

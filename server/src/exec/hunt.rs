//! Processes that are gone before they are seen.
//!
//! A process that does nothing but fork and exit is in no census: when its entry
//! is read it has gone, and its child came after the list. But the server is
//! the reaper of all orphans, so each such exit comes by here; while a tree is
//! being ended their marks are read before they are reaped. A census without a
//! living process counts as the end only if nothing of the call passed by.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

use crate::os::mark::{Found, Marks};

/// What passed by, of the calls whose trees are being ended.
#[derive(Debug)]
pub(crate) struct Hunt {
    marks: Option<Marks>,
    passed: Mutex<Passed>,
}

#[derive(Debug, Default)]
struct Passed {
    hunters: usize,
    calls: HashMap<u32, u64>,
    nobodys: u64,
    all: u64,
}

impl Hunt {
    /// With the marks that tell whose an orphan is.
    pub(crate) fn new(marks: Option<Marks>) -> Hunt {
        Hunt { marks, passed: Mutex::default() }
    }

    /// Counts from now until the guard is dropped.
    pub(crate) fn begin(&self) -> Hunting<'_> {
        self.lock().hunters += 1;
        Hunting(self)
    }

    /// Whether anybody counts.
    pub(crate) fn is_on(&self) -> bool {
        self.lock().hunters > 0
    }

    /// Looks at an orphan that has ended and is not reaped yet.
    pub(crate) fn pass(&self, pid: Pid) {
        let found = self.marks.map(|marks| marks.read(pid));
        let mut passed = self.lock();
        passed.all += 1;
        match found {
            Some(Ok(Found::Call(call))) => *passed.calls.entry(call).or_insert(0) += 1,
            Some(Ok(Found::Unmarked)) => {}
            _ => passed.nobodys += 1,
        }
    }

    /// How many have passed by: of that call and of nobody's, or of all.
    pub(crate) fn passed(&self, call: Option<u32>) -> u64 {
        let passed = self.lock();
        match call {
            Some(call) => passed.calls.get(&call).copied().unwrap_or(0) + passed.nobodys,
            None => passed.all,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counting.
#[derive(Debug)]
pub(crate) struct Hunting<'a>(&'a Hunt);

impl Drop for Hunting<'_> {
    fn drop(&mut self) {
        let mut passed = self.0.lock();
        passed.hunters -= 1;
        if passed.hunters == 0 {
            passed.calls = HashMap::new();
        }
    }
}

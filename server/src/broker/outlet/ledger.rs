//! Which of a call's requests have a line of their own in the audit and the log.
//!
//! Owns: the bounds. In the audit every request that changes something has a line; of
//! those that only read, and of those that are refused, the first ones, and the others are
//! counted: a tool that asks without end does not fill the disk. The log has the first
//! ones alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many that read have lines.
const READS: u64 = 64;
/// So many that are refused.
const REFUSED: u64 = 64;
/// So many that are only observed have lines in the log, and so many questions.
const OBSERVED: u64 = 64;
const ASKED: u64 = 64;
/// So many changes may one call make.
const CHANGES: u64 = 10_000;

/// What a call has asked for.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    reads: AtomicU64,
    refused: AtomicU64,
    observed: AtomicU64,
    asked: AtomicU64,
    changes: AtomicU64,
}

impl Ledger {
    /// A request that reads passes; whether it has a line.
    pub(super) fn read(&self) -> bool {
        self.reads.fetch_add(1, Relaxed) < READS
    }

    /// A request is refused; whether it has a line.
    pub(super) fn refused(&self) -> bool {
        self.refused.fetch_add(1, Relaxed) < REFUSED
    }

    /// A request is only observed; whether the log has a line of it.
    pub(super) fn observed(&self) -> bool {
        self.observed.fetch_add(1, Relaxed) < OBSERVED
    }

    /// Somebody is asked; whether the log has a line of it.
    pub(super) fn asked(&self) -> bool {
        self.asked.fetch_add(1, Relaxed) < ASKED
    }

    /// How many had no line in the log: that were refused, observed, asked about.
    pub(super) fn unlogged(&self) -> (u64, u64, u64) {
        (
            beyond(&self.refused, REFUSED),
            beyond(&self.observed, OBSERVED),
            beyond(&self.asked, ASKED),
        )
    }

    /// A change is about to pass; whether there may be one more.
    pub(super) fn change(&self) -> bool {
        self.changes.fetch_add(1, Relaxed) < CHANGES
    }

    /// How many had no line in the audit: that read, that were refused.
    pub(super) fn rest(&self) -> (u64, u64) {
        (beyond(&self.reads, READS), beyond(&self.refused, REFUSED))
    }
}

fn beyond(count: &AtomicU64, most: u64) -> u64 {
    count.load(Relaxed).saturating_sub(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_line_is_counted() {
        let ledger = Ledger::default();
        let lines = (0..1000).filter(|_| ledger.read()).count();
        let refused = (0..65).filter(|_| ledger.refused()).count();
        assert_eq!((lines, refused, ledger.rest()), (64, 64, (936, 1)));
        let observed = (0..66).filter(|_| ledger.observed()).count();
        let asked = (0..67).filter(|_| ledger.asked()).count();
        assert_eq!((observed, asked, ledger.unlogged()), (64, 64, (1, 2, 3)));
        assert_eq!((0..10_001).filter(|_| ledger.change()).count(), 10_000);
    }
}

//! The figures of one tool.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::histogram::Histogram;
use super::labels::{Decided, EXITS, Exit};

/// Bounds of whole calls, in seconds.
const WHOLE: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
/// Bounds of what comes before the tool's start.
const BEFORE: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Calls of one tool, counted.
#[derive(Debug)]
pub(crate) struct ToolFigures {
    /// By decision, then by exit.
    calls: [[AtomicU64; EXITS]; Decided::NAMES.len()],
    whole: Histogram<{ WHOLE.len() }>,
    before: Histogram<{ BEFORE.len() }>,
}

impl Default for ToolFigures {
    fn default() -> ToolFigures {
        ToolFigures {
            calls: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            whole: Histogram::new(&WHOLE),
            before: Histogram::new(&BEFORE),
        }
    }
}

impl ToolFigures {
    /// A call is over. `before` is from its request to its tool's start, where it
    /// was started.
    pub(crate) fn ended(
        &self,
        decided: Decided,
        exit: Exit,
        whole: Duration,
        before: Option<Duration>,
    ) {
        let place = self.calls.get(decided as usize).and_then(|exits| exits.get(exit.index()));
        if let Some(count) = place {
            count.fetch_add(1, Relaxed);
        }
        self.whole.observe(whole);
        if let Some(before) = before {
            self.before.observe(before);
        }
    }

    /// Each pair of a decision and an exit that there was, by their indices.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let of = |(decided, exits): (usize, &[AtomicU64; EXITS])| {
            let counts: Vec<u64> = exits.iter().map(|count| count.load(Relaxed)).collect();
            counts.into_iter().enumerate().map(move |(exit, count)| (decided, exit, count))
        };
        self.calls.iter().enumerate().flat_map(of).filter(|(_, _, count)| *count > 0)
    }

    /// From request to end.
    pub(super) fn whole(&self) -> &Histogram<{ WHOLE.len() }> {
        &self.whole
    }

    /// From request to start.
    pub(super) fn before(&self) -> &Histogram<{ BEFORE.len() }> {
        &self.before
    }
}

//! Many callers at once, each calling again as soon as its call is done.
//!
//! Owns: calls a second, and the count of those that failed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::rounds::{Bound, call};
use crate::site::Work;
use crate::stats::Random;
use crate::way::Way;

/// What came of it, for one way.
#[derive(Clone, Debug, Default)]
pub struct Storm {
    /// Calls a second that ended well, for each slice of time.
    pub rates: Vec<f64>,
    pub calls: usize,
    pub failed: usize,
}

/// As many rounds as `bound` says, in changing order: every way for `window`. A
/// `Storm` for each.
pub fn storms(
    ways: &[&Way],
    work: Work,
    callers: usize,
    bound: Bound,
    window: Duration,
) -> Vec<Storm> {
    let mut order: Vec<usize> = (0..ways.len()).collect();
    let mut random = Random::new();
    let mut storms = vec![Storm::default(); ways.len()];
    let start = Instant::now();
    for round in 0..bound.rounds {
        if round > 0 && start.elapsed() > bound.time {
            break;
        }
        random.shuffle(&mut order);
        for at in &order {
            let storm = &mut storms[*at];
            let (calls, failed, seconds) = slice(ways[*at], work, callers, window);
            storm.calls += calls;
            storm.failed += failed;
            storm.rates.push((calls - failed) as f64 / seconds);
        }
    }
    storms
}

/// Calls and failures, and the time until the last of them was done.
fn slice(way: &Way, work: Work, callers: usize, window: Duration) -> (usize, usize, f64) {
    let (calls, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let all_there = Barrier::new(callers + 1);
    let start = std::thread::scope(|scope| {
        for _ in 0..callers {
            let caller = || {
                all_there.wait();
                let start = Instant::now();
                while start.elapsed() < window {
                    let (_, well) = call(&mut way.command(work));
                    calls.fetch_add(1, Ordering::Relaxed);
                    failed.fetch_add(usize::from(!well), Ordering::Relaxed);
                }
            };
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn_scoped(scope, caller)
                .expect("a thread");
        }
        all_there.wait();
        Instant::now()
    });
    (calls.into_inner(), failed.into_inner(), start.elapsed().as_secs_f64())
}

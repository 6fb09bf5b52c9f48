//! Interleaved rounds: in each, every way does the same work once, in an order
//! that changes from round to round. A noisy moment is noisy for all, and nobody
//! always follows the same other one.
//!
//! Owns: single calls and bulk output, one after the other. `storm` has callers
//! at once.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::site::{BULK, Work};
use crate::stats::Random;
use crate::way::Way;

/// How long each round took one way, in seconds, and how many calls failed.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub took: Vec<f64>,
    pub failed: usize,
}

/// So many rounds, or as many as that time allows on a busy machine.
#[derive(Clone, Copy)]
pub struct Bound {
    pub rounds: usize,
    pub time: Duration,
}

/// A series for each of `ways`.
pub fn rounds(ways: &[&Way], work: Work, bound: Bound) -> Vec<Series> {
    interleaved(ways.len(), bound, |at| match work {
        Work::Bulk => bulk(&mut ways[at].command(work)),
        _ => call(&mut ways[at].command(work)),
    })
}

/// One call after another of things that are measured by number.
pub fn interleaved(
    ways: usize,
    bound: Bound,
    mut measure: impl FnMut(usize) -> (f64, bool),
) -> Vec<Series> {
    let mut order: Vec<usize> = (0..ways).collect();
    let mut random = Random::new();
    let mut series = vec![Series::default(); ways];
    let warm_up = (bound.rounds / 10).min(10);
    let start = Instant::now();
    for round in 0..warm_up + bound.rounds {
        if round > warm_up && start.elapsed() > bound.time {
            break;
        }
        random.shuffle(&mut order);
        for at in &order {
            let (took, well) = measure(*at);
            if round >= warm_up {
                series[*at].took.push(took);
                series[*at].failed += usize::from(!well);
            }
        }
    }
    series
}

/// Starts it with /dev/null everywhere, and waits; whether it ended with 0.
pub fn call(command: &mut Command) -> (f64, bool) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let well = command.status().is_ok_and(|status| status.success());
    (start.elapsed().as_secs_f64(), well)
}

/// Reads all of its output through a pipe; whether that was all of it.
fn bulk(command: &mut Command) -> (f64, bool) {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return (f64::NAN, false) };
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 1 << 17];
    let mut seen = 0u64;
    while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
        seen += bytes as u64;
    }
    let well = child.wait().is_ok_and(|status| status.success()) && seen == BULK;
    (start.elapsed().as_secs_f64(), well)
}

//! The server's memory: what is its alone before the first call, and how much
//! that grows when it has served many.

use std::time::Duration;

use crate::rounds::call;
use crate::site::Work;
use crate::way::Way;

#[derive(Clone, Debug)]
pub struct Memory {
    /// After how many calls the growth begins to count; it ends at twice that.
    pub calls: usize,
    /// KiB: idle, after `calls`, after twice as many.
    pub idle: Option<u64>,
    pub after: Option<u64>,
    pub later: Option<u64>,
}

impl Memory {
    pub fn growth(&self) -> Option<i64> {
        Some(i64::try_from(self.later?).ok()? - i64::try_from(self.after?).ok()?)
    }
}

/// With a server that has had no call yet.
pub fn measure(fresh: &Way, calls: usize) -> Memory {
    let settled = || {
        std::thread::sleep(Duration::from_millis(1_500));
        private_kib(fresh)
    };
    let idle = settled();
    many(fresh, calls);
    let after = settled();
    many(fresh, calls);
    Memory { calls, idle, after, later: settled() }
}

/// Eight callers.
fn many(way: &Way, calls: usize) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..calls / 8 {
                    assert!(call(&mut way.command(Work::True)).1, "a call failed");
                }
            });
        }
    });
}

fn private_kib(way: &Way) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", way.server()?)).ok()?;
    let pages = text
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Some(pages.sum())
}

//! Many rows at once, few at a time, and the report of a run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Row;

/// How many rows run at once, where `TWIN_AT_ONCE` does not say.
const AT_ONCE: usize = 4;

/// What came of many rows.
#[derive(Debug, Default)]
pub struct Report {
    pub passed: usize,
    /// Title and what differs.
    pub failed: Vec<(String, String)>,
    /// Title and reason.
    pub skipped: Vec<(String, String)>,
}

impl Report {
    /// Adds another round's.
    pub fn add(&mut self, other: Report) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// Says what was skipped, and panics with what failed, each with its name.
    #[track_caller]
    pub fn assert_passed(&self, test: &str) {
        for (title, why) in &self.skipped {
            crate::skipped(&format!("{test}, {title}"), why);
        }
        let texts = self.failed.iter().map(|(title, why)| format!("--- {title}\n{why}\n"));
        let all = texts.collect::<String>();
        assert!(
            self.failed.is_empty(),
            "{} failed, {} passed:\n{all}",
            self.failed.len(),
            self.passed
        );
        assert!(self.passed > 0 || std::env::var_os("TWIN_ONLY").is_some(), "no row was run");
    }
}

/// Runs `each` on every row; `Ok(Some(why))` is a skipped one. The report is in
/// the order of the rows.
pub fn each<F>(rows: &[Row], each: F) -> Report
where
    F: Fn(&Row) -> Result<Option<String>, String> + Sync,
{
    let set = std::env::var("TWIN_AT_ONCE").ok().and_then(|text| text.parse().ok());
    let at_once: usize = set.unwrap_or(AT_ONCE);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once.min(rows.len()) {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = each(row);
                    results.lock().expect("lock").push((row.number, row.title(), result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("lock");
    results.sort_by_key(|(number, _, _)| *number);
    let mut report = Report::default();
    for (_, title, result) in results {
        match result {
            Ok(None) => report.passed += 1,
            Ok(Some(why)) => report.skipped.push((title, why)),
            Err(why) => report.failed.push((title, why)),
        }
    }
    report
}

//! Says what cannot be tested here. tests/src/lib.rs has the same for its tests.

use std::io::Write as _;

/// On stderr, and in the file that `TOOL_TESTS_SKIPPED` names: scripts/test.sh lists it.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    // Not eprintln!: the test harness captures that, and a skip must be seen.
    drop(std::io::stderr().write_all(line.as_bytes()));
    if let Some(path) = std::env::var_os("TOOL_TESTS_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
}

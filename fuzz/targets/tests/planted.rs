//! That a run finds what is wrong: faults that were put in on purpose.

use std::fs;
use std::path::Path;
use std::process::Command;

use tool_broker_fuzz_targets::smoke::{self, Failure, Plan};
use tool_broker_fuzz_targets::{ALL, Target};

/// The plan of a target of the project, for one with a fault in its place.
fn plan(name: &str, kept_in: &Path, cases: usize) -> Plan {
    let real = ALL.iter().find(|target| target.name == name).expect("a target");
    Plan { cases, seed: 1, ..Plan::of(*real, kept_in, cases) }
}

fn found(target: Target, plan: &Plan) -> Failure {
    smoke::run(target, plan).expect_err("the fault is found")
}

/// A reader of frames that takes a length one byte too large.
fn frame_too_large(data: &[u8]) {
    if let Some((prefix, _)) = data.split_first_chunk::<4>() {
        let taken = (1..=65_537).contains(&u32::from_be_bytes(*prefix));
        assert_eq!(taken, tool_wire::frame::length(*prefix).is_ok());
    }
}

/// A decision that overlooks `--force` behind a value that begins with a dash.
fn force_overlooked(data: &[u8]) {
    let words: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let pair = words.windows(2).any(|pair| pair[0] == b"-o" && pair[1] == b"--force");
    assert!(!(pair && words.contains(&b"push".as_slice())), "a value, and not force");
}

/// A matcher whose `*` stops at a slash.
fn star_stops(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let (Some(pattern), Some(text)) = (lines.next(), lines.next()) else { return };
    let Ok(pattern) = std::str::from_utf8(pattern) else { return };
    let Ok(parsed) = tool_policy::pattern::Pattern::parse(pattern) else { return };
    if pattern.contains('*') && parsed.matches(text) {
        assert!(!text.contains(&b'/') || pattern.contains('/'), "a star took a slash");
    }
}

/// A target's name, the fault in its place, and the size to which its input is made small.
type Fault = (&'static str, fn(&[u8]), usize);

#[test]
fn a_planted_fault_is_found_kept_and_made_small() {
    let dir = tempfile::tempdir().expect("a directory");
    let faults: [Fault; 3] = [
        ("frame", frame_too_large, 8),
        ("shipped_grammar", force_overlooked, 16),
        ("pattern", star_stops, 8),
    ];
    for (name, run, smallest) in faults {
        let target = Target { name, run };
        let plan = Plan { corpus: Vec::new(), ..plan(name, dir.path(), 20_000) };
        let corpus = smoke::files(&smoke::directory().join("corpus").join(name));
        // Not those that hit it as they are: it has to be found.
        let lucky = |input: &Vec<u8>| std::panic::catch_unwind(|| run(input)).is_err();
        let corpus = corpus.iter().map(|file| fs::read(file).expect("an input"));
        let plan = Plan { corpus: corpus.filter(|input| !lucky(input)).collect(), ..plan };
        let failure = found(target, &plan);

        let kept = fs::read(&failure.file).expect("the input");
        assert!(kept.len() <= smallest, "{name}: {}", kept.escape_ascii());
        assert!(std::panic::catch_unwind(|| run(&kept)).is_err(), "{name}: it fails again");
        assert!(failure.message.contains("planted.rs"), "{}", failure.message);
        for said in [name, failure.file.to_str().expect("UTF-8"), "FUZZ_INPUT=", "cargo +nightly"] {
            assert!(failure.report.contains(said), "{}", failure.report);
        }
        // The same seed finds the same.
        assert_eq!(found(target, &plan).file, failure.file);
    }
}

#[test]
fn a_target_without_a_fault_is_run_as_often_as_was_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = plan("pattern", dir.path(), 100);
    let target = Target { name: "pattern", run: |_| {} };
    let count = smoke::run(target, &plan).expect("nothing is found");
    assert_eq!(count, plan.corpus.len() + 100);
    let left = fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, 0, "nothing is kept of a run that finds nothing");
}

/// Not a panic: nothing in the process comes to keep the input.
fn ends_the_process(data: &[u8]) {
    if data.contains(&b'*') {
        std::process::abort();
    }
}

#[test]
#[ignore = "ends its process: the test below runs it in one of its own"]
fn ends_its_process() {
    let dir = std::env::var_os("PLANTED_DIR").expect("a directory");
    let target = Target { name: "pattern", run: ends_the_process };
    drop(smoke::run(target, &plan("pattern", Path::new(&dir), 1000)));
}

#[test]
fn an_input_that_ends_the_process_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "ends_its_process"])
        .env("PLANTED_DIR", dir.path())
        .output()
        .expect("a run")
        .status;
    assert!(!status.success());
    let kept = fs::read(dir.path().join("pattern-running")).expect("the input");
    assert!(kept.contains(&b'*'), "{}", kept.escape_ascii());
}

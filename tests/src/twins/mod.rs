//! The twins: a table of rows, each a small script of a caller's that uses
//! tools by their names, run natively and another way, and compared.
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`table`] | the text format of `tests/twins/*.twins`, and which rows are run |
//! | [`stage`] | what a row finds: tools by name, helpers, data, a directory |
//! | [`caller`] | one run of one row: the caller's shell, its end, what it left |
//! | [`session`] | one run of a row on a terminal: its steps |
//! | [`compare`] | what differs between two runs, as text |
//! | [`pool`] | many rows at once, few at a time, and the report |
//!
//! Nothing here panics because of a difference: a comparison that could not
//! fail would show nothing, and `tests/twins_broken.rs` makes each kind fail.

pub mod caller;
pub mod compare;
pub mod pool;
pub mod session;
pub mod stage;
pub mod table;

pub use pool::Report;
pub use stage::{Stage, Way};
pub use table::Row;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use compare::Run;

/// Runs one row natively and another way, in directories of the same name one
/// after the other; `Err` says what differs.
///
/// # Errors
///
/// What differs, or that a row marked as different there does not differ.
pub fn twin(stage: &Stage, row: &Row, way: &Way) -> Result<(), String> {
    compared(stage, row, way, caller::run)
}

/// The same for a row of a terminal's steps.
///
/// # Errors
///
/// As [`twin`].
pub fn session_twin(stage: &Stage, row: &Row, way: &Way) -> Result<(), String> {
    compared(stage, row, way, session::run)
}

type Runner = fn(&Stage, &Row, &Way, &Path) -> Result<Run, String>;

fn compared(stage: &Stage, row: &Row, way: &Way, run: Runner) -> Result<(), String> {
    let wanted = run(stage, row, &stage.native(), &stage.directory_of(row))?;
    compared_with(&wanted, stage, row, way, run)
}

fn compared_with(
    wanted: &Run,
    stage: &Stage,
    row: &Row,
    way: &Way,
    run: Runner,
) -> Result<(), String> {
    let got = run(stage, row, way, &stage.directory_of(row));
    if let (Err(_), Some(_)) = (&got, row.differs(way.name)) {
        return Ok(());
    }
    let got = got?;
    if row.may_differ(way.name) {
        return Ok(());
    }
    let compared = compare::runs(wanted, &got);
    match row.differs(way.name) {
        None => compared,
        Some(reason) if compared.is_ok() => {
            Err(format!("does not differ, though the table says: {reason}"))
        }
        Some(_) => Ok(()),
    }
}

/// All rows of the tables that are asked for (`TWIN_ONLY`, `TWIN_ROUNDS`), a
/// few at once. In later rounds nothing is run natively but where something differs:
/// what the first one gave is what all are compared with.
pub fn all(stage: &Stage, way: &Way, ending: &str) -> Report {
    let rows = &table::rows(ending);
    let run = if ending == "sessions" { session::run } else { caller::run };
    let last: HashMap<usize, Mutex<Option<Run>>> =
        rows.iter().map(|row| (row.number, Mutex::default())).collect();
    let mut tried: HashMap<&str, bool> = HashMap::new();
    for program in rows.iter().flat_map(|row| &row.needs) {
        tried.entry(program).or_insert_with(|| stage::installed(program));
    }
    let each = |row: &Row| {
        if let Some(missing) = row.needs.iter().find(|program| !tried[program.as_str()]) {
            return Ok(Some(format!("{missing} is not installed")));
        }
        let natively = || run(stage, row, &stage.native(), &stage.directory_of(row));
        let mut last = last[&row.number].lock().expect("lock");
        let (mut wanted, is_new) = match last.take() {
            Some(wanted) => (wanted, false),
            None => (natively()?, true),
        };
        let mut compared = compared_with(&wanted, stage, row, way, run);
        if compared.is_err() && !is_new {
            // Perhaps the native run was the odd one.
            let again = natively()?;
            if compare::runs(&wanted, &again).is_err() {
                eprintln!("{} differs natively from what it was", row.title());
                compared = compared_with(&again, stage, row, way, run);
                wanted = again;
            }
        }
        *last = Some(wanted);
        compared.map(|()| None)
    };
    let mut report = Report::default();
    let rounds = table::rounds();
    for round in 1..=rounds {
        let one = pool::each(rows, each);
        if rounds > 1 {
            // For whoever waits for many, with `--nocapture`.
            eprintln!("round {round}, {}: {} passed", way.name, one.passed);
            one.failed.iter().for_each(|(title, why)| eprintln!("--- {title}\n{why}\n"));
        }
        report.add(one);
    }
    report
}

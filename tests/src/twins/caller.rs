//! One run of one row: the caller's bash in an empty directory, to its end,
//! and what it left.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::compare::{self, Run};
use super::{Row, Stage, Way, table};
use crate::{Outcome, process};

/// What every row may use.
pub(super) const PRELUDE: &str = "ulimit -c 0; enable -n printf true false
wait_for() { until [[ -e $1 ]]; do /bin/sleep 0.005; done; }
repository() { /bin/cp -a \"$D/repository/.\" .; }
";

/// Runs a row one way in `dir`, which is made anew.
///
/// # Errors
///
/// That it hangs, or that somebody holds its output after its end.
pub fn run(stage: &Stage, row: &Row, way: &Way, dir: &Path) -> Result<Run, String> {
    empty(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut command = stage.caller("/bin/bash", way, dir);
    command.args(["--norc", "-c"]).arg(format!("{PRELUDE}{}", row.script)).arg0("caller");
    command.stdin(Stdio::null());
    // A session of its own: a row that signals its group signals no test.
    crate::sys::session(&mut command);
    crate::sys::only_standard(&mut command);
    let mut running = crate::spawn(&mut command);
    let patience = table::patience_of(row, way.name);
    let ended = ends(&mut running.child, patience);
    let outcome = ended.and_then(|status| {
        running.output_within(patience).map(|(stdout, stderr)| Outcome { status, stdout, stderr })
    });
    clear(dir);
    let outcome = outcome.map_err(|why| format!("{} {why}", way.name))?;
    Ok(Run { outcome, files: compare::files(dir) })
}

/// Ends whatever a run left, on either side: who works in its directory.
pub(super) fn clear(dir: &Path) {
    for left in process::all() {
        let cwd = fs::read_link(format!("/proc/{}/cwd", left.pid));
        if cwd.is_ok_and(|cwd| cwd.starts_with(dir)) {
            process::kill(&left);
        }
    }
}

fn ends(child: &mut std::process::Child, patience: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < patience => thread::sleep(Duration::from_millis(2)),
            Ok(None) => return Err("hangs".into()),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

/// Makes a directory that is new, whatever the last run left (directories
/// without rights among it).
pub(super) fn empty(dir: &Path) -> io::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir(dir)?;
    crate::setup::mode(dir, 0o755);
    Ok(())
}

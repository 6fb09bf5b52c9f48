//! The server's own files where a tool is the same user: Landlock keeps their bytes, and
//! knows nothing of chmod.
//!
//! Owns: seeing that their modes are no more what they were made with. Must not: change
//! any; an operator may have meant it.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Those beneath `state` that others can get at: they were made for the server alone.
pub(super) fn laid_open(state: &Path) -> Vec<String> {
    let audit = state.join("audit");
    let files = std::fs::read_dir(&audit).into_iter().flatten().flatten().map(|it| it.path());
    let own = [
        audit.clone(),
        state.join("approvals.json"),
        state.join("project.json"),
        state.join("lock"),
    ];
    own.into_iter().chain(files).filter_map(line).collect()
}

fn line(path: PathBuf) -> Option<String> {
    let found: Metadata = path.symlink_metadata().ok()?;
    let mode = found.permissions().mode() & 0o7777;
    let right = if found.is_dir() { 0o700 } else { 0o600 };
    (mode & 0o077 != 0).then(|| {
        let path = path.display();
        format!(
            "{path} is open to others (mode {mode:04o}): a tool of the server's user may have \
             done that: chmod {right:o} {path}, and give tools another user"
        )
    })
}

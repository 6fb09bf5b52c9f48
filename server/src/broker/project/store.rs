//! What the operator said of the project's script, kept over a restart: a file that is
//! replaced whole.
//!
//! Owns: its format. One script is approved, the one that was approved last, and one
//! denied. Must not: decide anything. A file that cannot be read approves nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tracing::warn;

/// What was said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// May be run.
    pub(super) approved: Option<Word>,
    /// Is not asked about any more.
    pub(super) denied: Option<Word>,
}

/// About one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Word {
    pub(super) hash: String,
    /// Who said it.
    pub(super) by: u32,
    /// Seconds since 1970.
    pub(super) at: u64,
}

pub(super) fn load(file: &Path) -> Kept {
    let nothing = |error: &dyn std::fmt::Display| {
        warn!(file = %file.display(), %error, "cannot read what was approved of the project: nothing is");
        Kept::default()
    };
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| nothing(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Kept::default(),
        Err(error) => nothing(&error),
    }
}

pub(super) fn save(file: &Path, kept: &Kept) -> io::Result<()> {
    let temporary = file.with_extension("new");
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    to.write_all(&serde_json::to_vec(kept)?)?;
    to.sync_all()?;
    std::fs::rename(&temporary, file)?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_said_is_kept_and_what_cannot_be_read_approves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("project.json");
        assert_eq!(load(&file), Kept::default());
        let word = Word { hash: "a".repeat(64), by: 7, at: 1 };
        let kept = Kept { approved: Some(word), denied: None };
        save(&file, &kept).unwrap();
        assert_eq!(load(&file), kept);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, "{\"approved\"").unwrap();
        assert_eq!(load(&file), Kept::default());
    }
}

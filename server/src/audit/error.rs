//! Why a call cannot be recorded, or the record not be opened.

use std::io;
use std::path::PathBuf;

/// What is wrong with the audit. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    /// At the start.
    #[error("cannot open the audit {path}: {source}; make it readable and writable for the server's user, or set STATE_DIR", path = path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread that writes it out.
    #[error("cannot start the thread that keeps the audit: {0}")]
    Thread(#[source] io::Error),
    /// A call that is not to be run unrecorded.
    #[error("the call cannot be recorded in {path}: {why}: the operator has to make room or mend the disk there; then calls go on by themselves", path = path.display())]
    Write {
        /// The directory of the audit.
        path: PathBuf,
        /// What the kernel said.
        why: String,
    },
}

impl AuditError {
    pub(super) fn open(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AuditError {
        let path = path.into();
        move |source| AuditError::Open { path, source }
    }
}

/// What the kernel said, without the number that Rust adds.
pub(super) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

//! What may go wrong with a file, as the caller is told.
//!
//! A message names the path as the caller wrote it, never another: whether anything is
//! outside of the workspace, and where the workspace lies, is not told.

use nix::errno::Errno;
use tool_protocol::{Code, Failure, Fault};

/// Why an operation gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// As it is.
    #[error("{message}")]
    Said {
        /// For programs.
        fault: Fault,
        /// One line that names what is wrong and what to do.
        message: String,
    },
    /// The kernel said no.
    #[error("{}: {}", shown(path), words(*errno))]
    System {
        /// What was being done, for the fault where the errno tells nothing.
        doing: Doing,
        /// As the caller wrote it.
        path: Vec<u8>,
        /// Why.
        errno: Errno,
    },
    /// The caller took it back.
    #[error("the caller took the call back")]
    Stopped,
    /// It took longer than it may.
    #[error("it took longer than it may: ask for less, or narrow it down")]
    TooLong,
}

/// Reading or writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing changes.
    Reading,
    /// Something was to change.
    Writing,
}

impl FileError {
    /// With these words.
    pub fn said(fault: Fault, message: impl Into<String>) -> FileError {
        FileError::Said { fault, message: message.into() }
    }

    /// The kernel's word, on what the caller called so.
    pub fn system(doing: Doing, path: &[u8], errno: Errno) -> FileError {
        FileError::System { doing, path: path.to_vec(), errno }
    }

    /// That the content has its name, and may not last.
    pub(crate) fn unsure(path: &[u8], errno: Errno) -> FileError {
        let message = format!(
            "{} was written, all of it, but may not be on disk ({}): see to the disk, then write \
             it again",
            shown(path),
            errno.desc()
        );
        FileError::said(Fault::WriteError, message)
    }

    /// For programs.
    pub fn fault(&self) -> Fault {
        match self {
            FileError::Said { fault, .. } => *fault,
            FileError::Stopped => Fault::Cancelled,
            FileError::TooLong => Fault::Broker(Code::TimedOut),
            FileError::System { doing, errno, .. } => match errno {
                Errno::ENOENT => Fault::FileNotFound,
                Errno::ENOTDIR => Fault::NotADirectory,
                Errno::EXDEV | Errno::ELOOP => Fault::PathOutsideWorkspace,
                Errno::EACCES | Errno::EPERM | Errno::EROFS => Fault::PermissionDenied,
                Errno::EISDIR => Fault::NotAFile,
                Errno::EEXIST => Fault::AlreadyExists,
                Errno::ENAMETOOLONG => Fault::InvalidInput,
                Errno::ENOSPC | Errno::EDQUOT => Fault::NoSpace,
                _ if *doing == Doing::Reading => Fault::ReadError,
                _ => Fault::WriteError,
            },
        }
    }
}

/// How much of a path a message shows.
const SHOWN: usize = 100;

/// A caller's path in a message: all of it, or its end where it is long. What a terminal
/// would act on is escaped where the message is made one line.
pub fn shown(path: &[u8]) -> String {
    let text = match std::str::from_utf8(path) {
        Ok(text) => text.to_owned(),
        Err(_) => path.escape_ascii().to_string(),
    };
    let beyond = text.chars().count().saturating_sub(SHOWN);
    match beyond {
        0 => text,
        _ => std::iter::once('…').chain(text.chars().skip(beyond)).collect(),
    }
}

/// What the kernel said, and what to do.
fn words(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT => "nothing is there: look at what its directory holds",
        Errno::ENOTDIR => "a part of it is no directory: look at what its directory holds",
        Errno::EXDEV => "leads out of the workspace: name a path in it",
        Errno::ELOOP => "a symlink in it leads in a circle or nowhere: name the file itself",
        Errno::EACCES | Errno::EPERM => "the broker may not do this: ask who owns it",
        Errno::EROFS => "it is on a disk that is read-only: write elsewhere",
        Errno::EISDIR => "is a directory: name a file",
        Errno::EEXIST => "is there already: choose another name",
        Errno::ENOSPC | Errno::EDQUOT => "the disk, or the quota, is full: make room first",
        Errno::ENAMETOOLONG => "the name is too long: choose a shorter one",
        Errno::EAGAIN => "another process holds it, or moves it about: try again",
        other => other.desc(),
    }
}

impl From<&FileError> for Failure {
    fn from(error: &FileError) -> Failure {
        Failure::new(error.fault(), error.to_string())
    }
}

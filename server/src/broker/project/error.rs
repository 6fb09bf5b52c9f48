//! What can be wrong with a project's setup, each in one line.

use std::path::PathBuf;

use nix::errno::Errno;

/// It is told to the operator; a path in it is escaped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    /// The directory itself.
    #[error("cannot open {path}: {}", errno.desc(), path = path.display())]
    Root {
        /// Which.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// The file is not as it has to be.
    #[error(
        ".claude-container/config.json: {why}; it takes {{\"setup\": {{\"server\": PATH, \"client\": PATH}}}}"
    )]
    Config {
        /// In the parser's words.
        why: String,
    },
    /// A path in it is not.
    #[error(".claude-container/config.json: {member} {why}")]
    Path {
        /// Which.
        member: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A file that cannot be opened.
    #[error("cannot open {name} beneath the project: {}", words(*errno))]
    Open {
        /// Which, escaped.
        name: String,
        /// Why not.
        errno: Errno,
    },
    /// A file that cannot be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// Which, escaped.
        name: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A directory, a FIFO, a device.
    #[error("{name} is not a regular file")]
    NotRegular {
        /// Which, escaped.
        name: String,
    },
    /// It is too long.
    #[error("{name} is longer than {most} bytes")]
    TooLong {
        /// Which, escaped.
        name: String,
        /// How long it may be.
        most: u64,
    },
    /// The script is no script.
    #[error("{name} {why}")]
    Script {
        /// Which, escaped.
        name: String,
        /// Why not.
        why: String,
    },
    /// What was asked for is not what there is.
    #[error("{0}")]
    Asked(String),
    /// What was approved, or the copy that is run, cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It could not be run.
    #[error("{0}")]
    Run(String),
}

fn words(errno: Errno) -> &'static str {
    match errno {
        Errno::ELOOP => "there is a symlink on the way: name the file itself",
        Errno::EXDEV => "it leads out of the project",
        Errno::EAGAIN => "somebody is changing it: try again",
        other => other.desc(),
    }
}

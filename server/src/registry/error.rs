//! Why something in tools.d is not in force.
//!
//! Owns: the registry's one error type; every message names what to do.
//! Must not: decide what follows from an error; `state` does.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// What went wrong with one file or folder. The file itself is not repeated in
/// the message: whoever prints it puts `FILE:LINE: ` before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot {operation} it: {source}")]
    Io { operation: &'static str, path: PathBuf, source: Errno },
    #[error("leads out of {root} by a symlink: put the file itself there", root = root.display())]
    LeadsOut { path: PathBuf, root: PathBuf },
    #[error("is not a regular file")]
    NotRegular { path: PathBuf },
    #[error("has {size} bytes; a definition may have {limit}")]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    #[error("is not UTF-8")]
    NotText { path: PathBuf, line: usize },
    #[error("{message}")]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{reason}; run: {fix}")]
    Untrusted { path: PathBuf, reason: String, fix: String },
    #[error("lies beneath the workspace {root}, where callers can change it: move it elsewhere", root = root.display())]
    InWorkspace { path: PathBuf, root: PathBuf },
    #[error("contains the workspace {root}, where callers can change it: move one of them", root = root.display())]
    HoldsWorkspace { path: PathBuf, root: PathBuf },
    #[error("is not executable; run: chmod +x {fix}")]
    NotExecutable { path: PathBuf, fix: String },
    #[error("has no definition, and there is no program {name} in {looked}")]
    NoBinary { path: PathBuf, name: String, looked: String },
    #[error(
        "has neither rules, `default` nor a wrapper, and the server has require_rules: add rules to tool.toml, or say default = \"allow\", \"ask\" or \"deny\" there"
    )]
    RulesRequired { path: PathBuf },
    #[error(
        "is read beside tool.toml, which is not there: write the definition there, or remove this file"
    )]
    GrammarAlone { path: PathBuf },
    #[error("is not a tool's name ({})", super::name::EXPECTED)]
    BadName { path: PathBuf },
    #[error("has the name of one of the broker's own tools: give it another name")]
    Builtin { path: PathBuf },
    #[error(
        "none of the broker's own tools has this name, so that it has no effect: name it as one of them, as read_file.toml, or take it away"
    )]
    NoBuiltin { path: PathBuf },
    #[error("its definition is gone")]
    DefinitionGone { path: PathBuf },
    #[error("its wrapper {wrapper} is gone", wrapper = wrapper.display())]
    WrapperGone { path: PathBuf, wrapper: PathBuf },
}

impl LoadError {
    /// The file or folder that it is about.
    pub(crate) fn file(&self) -> &Path {
        match self {
            LoadError::Io { path, .. }
            | LoadError::LeadsOut { path, .. }
            | LoadError::NotRegular { path }
            | LoadError::TooLarge { path, .. }
            | LoadError::NotText { path, .. }
            | LoadError::Syntax { path, .. }
            | LoadError::Untrusted { path, .. }
            | LoadError::InWorkspace { path, .. }
            | LoadError::HoldsWorkspace { path, .. }
            | LoadError::NotExecutable { path, .. }
            | LoadError::NoBinary { path, .. }
            | LoadError::RulesRequired { path }
            | LoadError::GrammarAlone { path }
            | LoadError::BadName { path }
            | LoadError::Builtin { path }
            | LoadError::NoBuiltin { path }
            | LoadError::DefinitionGone { path }
            | LoadError::WrapperGone { path, .. } => path,
        }
    }

    /// The line in it, where there is one.
    pub(crate) fn line(&self) -> Option<usize> {
        match self {
            LoadError::NotText { line, .. } | LoadError::Syntax { line, .. } => Some(*line),
            _ => None,
        }
    }

    /// Whether somebody else may have had a hand in it: then a file that is
    /// run from disk, a wrapper, must not be run any more.
    pub(super) fn is_trust(&self) -> bool {
        matches!(
            self,
            LoadError::LeadsOut { .. }
                | LoadError::Untrusted { .. }
                | LoadError::InWorkspace { .. }
                | LoadError::HoldsWorkspace { .. }
        )
    }

    /// A failed look-up beneath a root.
    pub(super) fn io(operation: &'static str, path: PathBuf, root: &Path, source: Errno) -> Self {
        match source {
            Errno::EXDEV => LoadError::LeadsOut { path, root: root.to_owned() },
            source => LoadError::Io { operation, path, source },
        }
    }
}

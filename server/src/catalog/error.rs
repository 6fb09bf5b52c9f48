//! Why a definition is not taken, or the catalog not well.

use std::io;
use std::path::PathBuf;

/// What went wrong; the message says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogError {
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "there is no catalog here: say where with --catalog DIR or TOOL_CATALOG (looked for \
         index.json in {looked})"
    )]
    NoCatalog { looked: String },
    #[error("{path}: {message}", path = path.display())]
    Index { path: PathBuf, message: String },
    #[error(
        "{name:?} is not a tool's name (1 to 64 of A-Z a-z 0-9 . _ + -, beginning with neither a dot nor a dash)"
    )]
    BadName { name: String },
    #[error(
        "the catalog has no {name}; `tool-server catalog list` shows what it has; a definition of your own: --path DIR or --url GIT"
    )]
    Unknown { name: String },
    #[error("{place}: {what}: nothing of it is taken")]
    Refused { place: String, what: String },
    #[error(
        "{place} has neither tool.toml nor tool.json: name the folder with the definition{hint}"
    )]
    NoDefinition { place: String, hint: &'static str },
    #[error("{name} is not taken: {}", problems.join("; "))]
    Invalid { name: String, problems: Vec<String> },
    #[error("git: {message}")]
    Git { message: String },
    #[error("{path} is there and is not what the catalog put there ({how}): look at both, and with --force it is replaced and the old one kept in {kept}", path = path.display(), kept = kept.display())]
    Changed { path: PathBuf, how: String, kept: PathBuf },
    #[error("there is no {name} in {path}", path = path.display())]
    NotInstalled { name: String, path: PathBuf },
    #[error("{path}: line {line} is not the name of a Debian package: {text:?}", path = path.display())]
    BadPackage { path: PathBuf, line: usize, text: String },
}

/// Gives an I/O error its operation and path.
pub(super) fn io(
    operation: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> CatalogError {
    let path = path.to_owned();
    move |source| CatalogError::Io { operation, path, source }
}

/// The same for errors of system calls.
pub(super) fn errno(
    operation: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(nix::errno::Errno) -> CatalogError {
    let path = path.to_owned();
    move |source| CatalogError::Io { operation, path, source: source.into() }
}

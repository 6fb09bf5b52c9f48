//! What differs between two runs, as text: exit status or signal, stdout,
//! stderr, and the files that were made, with kind, mode and content.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// What came of one run.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    pub files: Files,
}

/// Path beneath the directory → kind and mode, content.
pub type Files = BTreeMap<PathBuf, (String, Vec<u8>)>;

/// Compares two runs, the first of them the native one.
///
/// # Errors
///
/// All differences, one paragraph each.
pub fn runs(wanted: &Run, got: &Run) -> Result<(), String> {
    let mut found = outcomes(&wanted.outcome, &got.outcome).err().into_iter().collect::<Vec<_>>();
    found.extend(trees(&wanted.files, &got.files).err());
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Compares how two commands ended and what they said.
///
/// # Errors
///
/// All differences, one paragraph each.
pub fn outcomes(wanted: &Outcome, got: &Outcome) -> Result<(), String> {
    let mut found = Vec::new();
    let how = |outcome: &Outcome| (outcome.code(), outcome.signal());
    if how(wanted) != how(got) {
        found.push(format!("ended: natively {}, here {}", wanted.status, got.status));
    }
    found.extend(bytes("stdout", &wanted.stdout, &got.stdout).err());
    found.extend(bytes("stderr", &wanted.stderr, &got.stderr).err());
    // The native one's is its own affair.
    if got.status.core_dumped() {
        found.push("the client left a core file".into());
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Compares bytes; the text shows where they begin to differ.
///
/// # Errors
///
/// The first difference with what stands around it.
pub fn bytes(what: &str, wanted: &[u8], got: &[u8]) -> Result<(), String> {
    if wanted == got {
        return Ok(());
    }
    let at = wanted.iter().zip(got).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(200);
        let part = &bytes[from.min(bytes.len())..(at + 400).min(bytes.len())];
        format!("{} bytes: \"{}\"", bytes.len(), part.escape_ascii())
    };
    Err(format!("{what} from byte {at}\n  natively {}\n  here     {}", around(wanted), around(got)))
}

/// Compares what is beneath two directories.
///
/// # Errors
///
/// Every path that is not the same.
pub fn trees(wanted: &Files, got: &Files) -> Result<(), String> {
    let mut found = Vec::new();
    for (path, (kind, content)) in wanted {
        match got.get(path) {
            None => found.push(format!("file {path:?} is missing here")),
            Some((other, _)) if other != kind => {
                found.push(format!("file {path:?}: natively {kind}, here {other}"));
            }
            Some((_, other)) => {
                found.extend(bytes(&format!("file {path:?}"), content, other).err())
            }
        }
    }
    let more = got.keys().filter(|path| !wanted.contains_key(*path));
    found.extend(more.map(|path| format!("file {path:?} is there only here")));
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Everything beneath a directory. Of git's index and of what packs are made
/// of only the kind counts: times and inodes are in the one, threads decide on
/// the other.
pub fn files(dir: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(next) = open.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            let kind = meta.file_type();
            let content = if kind.is_symlink() {
                let to = fs::read_link(&path).unwrap_or_default();
                to.as_os_str().as_bytes().to_vec()
            } else if kind.is_file() && !is_git_only(&path) {
                fs::read(&path).unwrap_or_default()
            } else {
                Vec::new()
            };
            let special = if kind.is_fifo() { " fifo" } else { "" };
            let name = path.strip_prefix(dir).expect("beneath").to_path_buf();
            found.insert(name, (format!("{:o}{special}", meta.mode()), content));
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

fn is_git_only(path: &Path) -> bool {
    path.iter().any(|part| part == ".git") && path.file_name().is_some_and(|name| name == "index")
}

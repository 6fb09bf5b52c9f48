//! The files of the audit: their names, their order, how they are made.
//!
//! Owns: `audit.jsonl`, which is written; `audit-SEQ.jsonl`, which were, each
//! named by the number of its first line; `open.jsonl`, the journal. Must not:
//! look into them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that is written.
pub(super) const CURRENT: &str = "audit.jsonl";
/// The journal of calls that have begun.
pub(super) const JOURNAL: &str = "open.jsonl";
/// Behind the name of a file that is about to take another's place.
pub(super) const NEW: &str = ".new";

/// The directory of the audit.
pub(crate) fn directory(state: &Path) -> PathBuf {
    state.join("audit")
}

/// The name of a file that is complete: `first` is the number of its first line.
pub(super) fn rotated(first: u64) -> String {
    // Padded, so that a shell lists them in their order.
    format!("audit-{first:012}.jsonl")
}

fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Makes the directory, nobody else's from its first moment.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file for reading and writing, made with its final mode.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}

/// Makes a file that is to take another's place.
pub(super) fn make(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Makes names last: after a file was made, renamed or removed.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A file of lines.
#[derive(Debug)]
pub(crate) struct Part {
    /// The number of its first line, as its name says; `None` for the one that is
    /// written.
    pub(crate) first: Option<u64>,
    pub(crate) path: PathBuf,
    /// The one that is written, opened before the others were looked for.
    current: Option<File>,
}

impl Part {
    /// Opens it; one that was removed meanwhile is `None`.
    pub(crate) fn open(&mut self) -> io::Result<Option<File>> {
        match self.current.take() {
            Some(file) => Ok(Some(file)),
            None => open_if_there(&self.path),
        }
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Those that are complete, by name, in their order.
pub(super) fn complete(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(first) = name.to_str().and_then(first_of) {
            found.push((first, directory.join(name)));
        }
    }
    found.sort();
    Ok(found)
}

/// All files of lines, in their order. A server may rotate meanwhile: where the
/// file that was written has got another name since, it is looked for anew.
pub(crate) fn parts(directory: &Path) -> io::Result<Vec<Part>> {
    let path = directory.join(CURRENT);
    for _ in 0..100 {
        let current = open_if_there(&path)?;
        let own = current.as_ref().map(identity).transpose()?;
        let complete = complete(directory)?;
        let moved = complete.last().is_some_and(|(_, path)| {
            let found = std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
            own.is_some() && found.ok() == own
        });
        if !moved {
            let complete = complete.into_iter();
            let mut parts: Vec<Part> = complete
                .map(|(first, path)| Part { first: Some(first), path, current: None })
                .collect();
            if current.is_some() {
                parts.push(Part { first: None, path, current });
            }
            return Ok(parts);
        }
    }
    Err(io::Error::other("its files change faster than they can be listed"))
}

/// The file behind the one that this is, opened; without one, the oldest. `None`:
/// there is none yet.
pub(crate) fn next(directory: &Path, behind: Option<(u64, u64)>) -> io::Result<Option<File>> {
    let parts = parts(directory)?;
    let is_it = |part: &Part| {
        let found = std::fs::metadata(&part.path);
        found.is_ok_and(|found| Some((found.dev(), found.ino())) == behind)
    };
    // One that is gone was the oldest: the next is the oldest now.
    let index = parts.iter().position(is_it).map_or(0, |index| index + 1);
    match parts.into_iter().nth(index) {
        Some(mut part) => part.open(),
        None => Ok(None),
    }
}

/// Which file has that name, if one has.
pub(super) fn identity_of(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which file this is, whatever its name.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_numbers() {
        assert_eq!(rotated(42), "audit-000000000042.jsonl");
        assert_eq!(first_of(&rotated(u64::MAX)), Some(u64::MAX));
        for other in
            ["audit.jsonl", "open.jsonl", "audit-.jsonl", "audit-+1.jsonl", "audit-1.jsonl.new"]
        {
            assert_eq!(first_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_made_is_private_from_its_first_moment() {
        let base = tempfile::tempdir().unwrap();
        let dir = directory(base.path());
        make_directory(&dir).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&dir), 0o700);
        drop(open(&dir.join(CURRENT)).unwrap());
        drop(make(&dir.join("x.new")).unwrap());
        assert_eq!((mode(&dir.join(CURRENT)), mode(&dir.join("x.new"))), (0o600, 0o600));
        std::os::unix::fs::symlink("audit.jsonl", dir.join("link")).unwrap();
        assert!(open(&dir.join("link")).is_err());
    }
}

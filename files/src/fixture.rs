//! A workspace for tests.
//!
//! Owns: a root, and beside it what must not be reached. Must not: be in what ships.

#[path = "../tests/common/skipped.rs"]
pub(crate) mod skipped;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{FileError, Operation, Root, Roots, Stop, Target};

pub(crate) struct Workspace {
    directory: TempDir,
    pub(crate) roots: Roots,
}

impl Workspace {
    pub(crate) fn new() -> Workspace {
        // In memory, where that is possible: each write is on disk before it is done.
        let memory = tempfile::tempdir_in("/dev/shm");
        let directory = memory.or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        let roots = Roots::new(vec![Root::open(&directory.path().join("root")).unwrap()]);
        Workspace { directory, roots }
    }

    /// What is called so in the root.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join("root").join(name)
    }

    /// Outside of it.
    pub(crate) fn outside(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.at(name), content).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    /// Everything that is called so in its directory, hidden too.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(directory)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Finds and runs.
    pub(crate) fn run<O: Operation>(&self, input: O::Input) -> Result<O::Output, FileError> {
        O::find(&self.roots, input)?.run(&Stop::new(None), None)
    }

    /// The same, as JSON.
    pub(crate) fn json<O: Operation>(&self, input: O::Input) -> Result<String, FileError> {
        O::find(&self.roots, input)?.json(&Stop::new(None), None)
    }
}

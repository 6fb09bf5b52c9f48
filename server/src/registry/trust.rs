//! Whose files may say what is allowed.
//!
//! Owns: the rule for owners, modes and places of definitions and wrappers, and
//! the only way in which the registry opens one. Everything is asked of open
//! descriptors, never of a name twice. Must not: parse anything.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use super::error::LoadError;
use crate::os::root::Root;

/// The most bytes of a definition: far more than anybody writes by hand.
pub(super) const MAX_DEFINITION: u64 = 65_536;

/// The most bytes of a grammar, which may have been made by a program.
pub(super) const MAX_GRAMMAR: u64 = 262_144;

/// No path is deeper than this (PATH_MAX of one-letter names).
const MAX_DEPTH: usize = 2_048;

/// A directory, whatever its name at the moment.
type Identity = (u64, u64);

/// Who is trusted, and where nobody is.
#[derive(Debug)]
pub(super) struct Trust {
    owners: Vec<u32>,
    workspace: Vec<(Root, Identity)>,
}

impl Trust {
    /// Looks at the workspace roots as they are now; one that does not exist
    /// holds nothing.
    pub(super) fn new(owner: Option<u32>, workspace: &[PathBuf]) -> Trust {
        let mut owners = vec![0, nix::unistd::geteuid().as_raw()];
        owners.extend(owner);
        let open = |path: &PathBuf| {
            let root = Root::open(path).ok()?;
            let identity = identity(&fstat(root.as_fd()).ok()?);
            Some((root, identity))
        };
        Trust { owners, workspace: workspace.iter().filter_map(open).collect() }
    }

    /// Owner and mode of something that is open.
    pub(super) fn check(&self, path: &Path, found: &FileStat) -> Result<(), LoadError> {
        let refused = |reason: String, fix: String| {
            Err(LoadError::Untrusted { path: path.to_owned(), reason, fix })
        };
        if !self.owners.contains(&found.st_uid) {
            let reason = format!(
                "belongs to uid {}, who is neither root, the server nor definitions_owner",
                found.st_uid
            );
            return refused(reason, format!("chown root {}", quoted(path)));
        }
        let (group, others) = (found.st_mode & 0o020 != 0, found.st_mode & 0o002 != 0);
        match (group, others) {
            (false, false) => Ok(()),
            (true, false) => {
                refused("its group can change it".into(), format!("chmod g-w {}", quoted(path)))
            }
            (_, true) => {
                refused("anybody can change it".into(), format!("chmod go-w {}", quoted(path)))
            }
        }
    }

    /// The workspace root that a directory is or lies beneath. Found by walking
    /// up from the open directory: no name is compared.
    pub(super) fn root_above(&self, directory: impl AsFd) -> Result<Option<PathBuf>, Errno> {
        let found = climb(directory, |here| {
            self.workspace.iter().find(|(_, root)| *root == here).map(|(root, _)| root.path())
        })?;
        Ok(found.map(Path::to_owned))
    }

    /// Refuses a directory that callers could change the content of.
    pub(super) fn check_place(&self, directory: &Root) -> Result<(), LoadError> {
        let path = || directory.path().to_owned();
        let failed = |source| LoadError::Io { operation: "look above", path: path(), source };
        if self.workspace.is_empty() {
            return Ok(());
        }
        if let Some(root) = self.root_above(directory.as_fd()).map_err(failed)? {
            return Err(LoadError::InWorkspace { path: path(), root });
        }
        let own = identity(&fstat(directory.as_fd()).map_err(failed)?);
        for (root, _) in &self.workspace {
            let above = climb(root.as_fd(), |here| (here == own).then_some(())).map_err(failed)?;
            if above.is_some() {
                let root = root.path().to_owned();
                return Err(LoadError::HoldsWorkspace { path: path(), root });
            }
        }
        Ok(())
    }

    /// Opens a file beneath a root, if it is a regular one of the right people.
    pub(super) fn open(&self, root: &Root, name: &Path) -> Result<(OwnedFd, FileStat), LoadError> {
        let path = root.path().join(name);
        let failed = |source| LoadError::io("open", path.clone(), root.path(), source);
        let file = root.file(name.as_os_str()).map_err(failed)?;
        let found = fstat(&file).map_err(failed)?;
        if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
            return Err(LoadError::NotRegular { path });
        }
        self.check(&path, &found)?;
        Ok((file, found))
    }

    /// Reads a definition, or what belongs to one.
    pub(super) fn read(&self, root: &Root, name: &Path, most: u64) -> Result<String, LoadError> {
        let path = root.path().join(name);
        let (file, found) = self.open(root, name)?;
        let mut bytes = Vec::new();
        let mut limited = File::from(file).take(most + 1);
        limited.read_to_end(&mut bytes).map_err(|error| {
            let source = Errno::from_raw(error.raw_os_error().unwrap_or(0));
            LoadError::Io { operation: "read", path: path.clone(), source }
        })?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > most {
            let size = u64::try_from(found.st_size).unwrap_or(size).max(size);
            return Err(LoadError::TooLarge { path, size, limit: most });
        }
        String::from_utf8(bytes).map_err(|error| {
            let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            let line = 1 + valid.filter(|byte| **byte == b'\n').count();
            LoadError::NotText { path, line }
        })
    }
}

/// Which file this is, whatever its name.
pub(super) fn identity(found: &FileStat) -> Identity {
    (found.st_dev, found.st_ino)
}

/// Walks from a directory up to `/` and gives back the first answer.
fn climb<T>(directory: impl AsFd, ask: impl Fn(Identity) -> Option<T>) -> Result<Option<T>, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut here = openat(&directory, ".", flags, Mode::empty())?;
    let mut place = identity(&fstat(&here)?);
    for _ in 0..MAX_DEPTH {
        if let Some(answer) = ask(place) {
            return Ok(Some(answer));
        }
        here = openat(&here, "..", flags, Mode::empty())?;
        let above = identity(&fstat(&here)?);
        if above == place {
            return Ok(None);
        }
        place = above;
    }
    Err(Errno::ENAMETOOLONG)
}

/// A path as a shell reads it back.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-=:@%,".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_of_others_and_files_that_others_can_change_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("tool.toml");
        std::fs::write(&file, "x").unwrap();
        let root = Root::open(base.path()).unwrap();
        let trust = Trust::new(Some(4_242), &[]);
        let read = || trust.read(&root, Path::new("tool.toml"), MAX_DEFINITION);
        for (mode, fix) in [(0o664, "chmod g-w "), (0o666, "chmod go-w "), (0o646, "chmod go-w ")] {
            set_mode(&file, mode);
            let message = read().unwrap_err().to_string();
            assert!(message.contains(&format!("run: {fix}{}", file.display())), "{message}");
        }
        set_mode(&file, 0o644);
        assert_eq!(read().unwrap(), "x");
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(4_242), None).unwrap();
            assert_eq!(read().unwrap(), "x");
            std::os::unix::fs::chown(&file, Some(4_243), None).unwrap();
            let message = read().unwrap_err().to_string();
            assert!(message.contains("uid 4243") && message.contains("chown root"), "{message}");
        }
    }

    #[test]
    fn only_small_regular_text_beneath_the_root_is_read() {
        let base = tempfile::tempdir().unwrap();
        let inside = base.path().join("tools.d");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(base.path().join("outside"), "x").unwrap();
        std::fs::write(inside.join("large"), "x".repeat(65_537)).unwrap();
        std::fs::write(inside.join("binary"), b"a\nb\n\xff\n").unwrap();
        symlink("../outside", inside.join("out")).unwrap();
        symlink("shared", inside.join("in")).unwrap();
        std::fs::write(inside.join("shared"), "fine").unwrap();
        for name in ["large", "binary", "shared"] {
            set_mode(&inside.join(name), 0o644);
        }
        nix::unistd::mkfifo(&inside.join("fifo"), Mode::S_IRUSR).unwrap();
        let root = Root::open(&inside).unwrap();
        let read = |name: &str| Trust::new(None, &[]).read(&root, Path::new(name), MAX_DEFINITION);
        assert_eq!(read("in").unwrap(), "fine");
        assert!(matches!(read("out"), Err(LoadError::LeadsOut { .. })));
        assert!(matches!(read("fifo"), Err(LoadError::NotRegular { .. })));
        assert!(matches!(read("."), Err(LoadError::NotRegular { .. })));
        assert!(matches!(read("large"), Err(LoadError::TooLarge { size: 65_537, .. })));
        assert!(matches!(read("binary"), Err(LoadError::NotText { line: 3, .. })));
    }

    #[test]
    fn a_place_in_or_around_a_workspace_is_refused_by_what_it_is() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("workspace/deep/tools.d")).unwrap();
        std::fs::create_dir(base.path().join("workspace-tools.d")).unwrap();
        symlink("workspace/deep", base.path().join("elsewhere")).unwrap();
        symlink("workspace", base.path().join("alias")).unwrap();
        let roots = [base.path().join("alias"), base.path().join("missing")];
        let trust = Trust::new(None, &roots);
        let check = |name: &str| trust.check_place(&Root::open(&base.path().join(name)).unwrap());
        assert_eq!(check("workspace-tools.d"), Ok(()));
        for inside in ["workspace", "workspace/deep/tools.d", "elsewhere/tools.d"] {
            assert!(matches!(check(inside), Err(LoadError::InWorkspace { .. })), "{inside}");
        }
        assert!(matches!(check("."), Err(LoadError::HoldsWorkspace { .. })));
    }

    #[test]
    fn a_command_to_run_survives_the_shell() {
        assert_eq!(quoted(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}

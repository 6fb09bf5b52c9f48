//! Finding programs by name.
//!
//! Owns: which file counts as a program, where a tool's binary is looked for
//! when its definition does not name it, and an interpreter on a PATH.
//! Must not: run anything.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A regular file with an execute bit. Whose bit is not asked: the tool may run
/// as another user than the server.
pub(crate) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The first of the directories that has an executable of this name.
pub(super) fn find<'a>(
    directories: impl IntoIterator<Item = &'a Path>,
    name: &str,
) -> Option<PathBuf> {
    directories.into_iter().map(|directory| directory.join(name)).find(|path| is_executable(path))
}

/// Looks a program up on a PATH. Only absolute directories: an empty or
/// relative one would mean the caller's directory.
pub(super) fn on_path(path: &str, name: &str) -> Option<PathBuf> {
    find(path.split(':').map(Path::new).filter(|directory| directory.is_absolute()), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_in_absolute_directories_are_found() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = format!("bin::.:{}", base.path().display());
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(on_path(&path, "tool"), None);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(on_path(&path, "tool"), Some(file));
        std::fs::create_dir(base.path().join("folder")).unwrap();
        assert_eq!(on_path(&path, "folder"), None);
    }
}

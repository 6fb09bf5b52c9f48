//! Brings definitions that come with a release into the directory where they are in
//! force, and leaves alone what a person changed or removed there.
//!
//! Owns: the record of what was brought. Must not: judge a definition.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{HostError, failed, refused};

/// What was done, by names of tools.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shipped {
    pub(crate) added: Vec<String>,
    pub(crate) updated: Vec<String>,
    /// Changed by a person: left as it is, although the release has another.
    pub(crate) kept: Vec<String>,
    /// Removed by a person: not brought back.
    pub(crate) left_out: Vec<String>,
}

/// Makes `to` hold what `from` has; `record` is what was brought before.
pub(crate) fn update(from: &Path, to: &Path, record: &Path) -> Result<Shipped, HostError> {
    let mut known = recorded(record)?;
    let mut done = Shipped::default();
    for name in names(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        let new = digest(&source)?;
        let before = known.get(&name).cloned();
        let there = match fs::symlink_metadata(&target) {
            Ok(_) => Some(digest(&target)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("look at", &target)(error)),
        };
        match there {
            Some(there) if there == new => {}
            Some(there) if before.as_ref() == Some(&there) => {
                bring(&source, to, &name)?;
                done.updated.push(name.clone());
            }
            Some(_) => {
                done.kept.push(name);
                continue;
            }
            None if before.is_some() => {
                done.left_out.push(name);
                continue;
            }
            None => {
                bring(&source, to, &name)?;
                done.added.push(name.clone());
            }
        }
        // At once: whatever comes next, this one is there.
        known.insert(name, new);
        write(record, &known)?;
    }
    Ok(done)
}

/// The folders of a directory of definitions, sorted.
fn names(from: &Path) -> Result<Vec<String>, HostError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(failed("list", from))? {
        let entry = entry.map_err(failed("list", from))?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|_name| refused(&entry.path(), "has a name that is not UTF-8"))?;
        if entry.path().is_dir() && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Puts a folder there, whole or not at all: made under another name, which the
/// server does not look at, and renamed.
fn bring(source: &Path, to: &Path, name: &str) -> Result<(), HostError> {
    let (new, old) = (to.join(format!(".{name}.new")), to.join(format!(".{name}.old")));
    let target = to.join(name);
    for leftover in [&new, &old] {
        clear(leftover)?;
    }
    copy(source, &new)?;
    if target.exists() {
        fs::rename(&target, &old).map_err(failed("rename", &target))?;
    }
    if let Err(error) = fs::rename(&new, &target) {
        drop(fs::rename(&old, &target));
        return Err(failed("rename", &new)(error));
    }
    clear(&old)
}

fn clear(path: &Path) -> Result<(), HostError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn copy(source: &Path, target: &Path) -> Result<(), HostError> {
    DirBuilder::new().mode(0o755).create(target).map_err(failed("make", target))?;
    open_to_all(target, true)?;
    for entry in fs::read_dir(source).map_err(failed("list", source))? {
        let entry = entry.map_err(failed("list", source))?;
        let (path, copied) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed("look at", &path))?;
        if kind.is_dir() {
            copy(&path, &copied)?;
        } else if kind.is_file() {
            let mode = fs::metadata(&path).map_err(failed("look at", &path))?.permissions().mode();
            fs::copy(&path, &copied).map_err(failed("copy", &path))?;
            open_to_all(&copied, mode & 0o100 != 0)?;
        } else {
            return Err(refused(&path, "is neither a file nor a directory: it is not copied"));
        }
    }
    Ok(())
}

/// Readable for all, writable for its owner: whatever the umask is.
fn open_to_all(path: &Path, executable: bool) -> Result<(), HostError> {
    let mode = if executable { 0o755 } else { 0o644 };
    let permissions = Permissions::from_mode(mode);
    fs::set_permissions(path, permissions).map_err(failed("change the mode of", path))
}

/// A digest of names, contents and whether they are programs.
fn digest(folder: &Path) -> Result<String, HostError> {
    let mut digest = Sha256::new();
    feed(folder, "", &mut digest)?;
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn feed(folder: &Path, within: &str, digest: &mut Sha256) -> Result<(), HostError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        entries.push(entry.map_err(failed("list", folder))?.path());
    }
    entries.sort();
    for path in entries {
        let name = path.file_name().map(|name| name.display().to_string()).unwrap_or_default();
        let name = format!("{within}/{name}");
        let about = fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
        if about.is_dir() {
            feed(&path, &name, digest)?;
            continue;
        }
        let content = match about.is_file() {
            true => fs::read(&path).map_err(failed("read", &path))?,
            false => b"neither file nor directory".to_vec(),
        };
        let program = about.permissions().mode() & 0o100 != 0;
        digest.update(format!("{name}\0{program}\0{}\0", content.len()));
        digest.update(&content);
    }
    Ok(())
}

fn recorded(record: &Path) -> Result<BTreeMap<String, String>, HostError> {
    let text = match fs::read_to_string(record) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed("read", record)(error)),
    };
    let pair =
        |line: &str| line.split_once(' ').map(|(hex, name)| (name.to_owned(), hex.to_owned()));
    Ok(text.lines().filter_map(pair).collect())
}

fn write(record: &Path, known: &BTreeMap<String, String>) -> Result<(), HostError> {
    let text: String = known.iter().map(|(name, hex)| format!("{hex} {name}\n")).collect();
    let new = record.with_extension("new");
    fs::write(&new, text).map_err(failed("write", &new))?;
    fs::rename(&new, record).map_err(failed("replace", record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Stand {
        dir: tempfile::TempDir,
    }

    impl Stand {
        fn new() -> Stand {
            let dir = tempfile::tempdir().expect("a directory");
            for name in ["from", "from/git", "from/npm", "to"] {
                fs::create_dir(dir.path().join(name)).expect("made");
            }
            let stand = Stand { dir };
            stand.put("from/git/tool.toml", "1");
            stand.put("from/npm/tool.toml", "1");
            stand
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).expect("written");
        }

        fn update(&self) -> Shipped {
            update(&self.path("from"), &self.path("to"), &self.path("record")).expect("updated")
        }
    }

    #[test]
    fn a_new_release_replaces_what_nobody_changed() {
        let stand = Stand::new();
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(stand.update().added, names(&["git", "npm"]));
        assert_eq!(stand.update(), Shipped::default());
        stand.put("from/git/tool.toml", "2");
        stand.put("to/npm/tool.toml", "mine");
        stand.put("from/npm/tool.toml", "2");
        let done = stand.update();
        assert_eq!((done.updated, done.kept), (names(&["git"]), names(&["npm"])));
        assert_eq!(fs::read_to_string(stand.path("to/git/tool.toml")).expect("there"), "2");
        assert_eq!(fs::read_to_string(stand.path("to/npm/tool.toml")).expect("there"), "mine");
        assert_eq!(stand.update().kept, names(&["npm"]));
        let left: Vec<_> = fs::read_dir(stand.path("to")).expect("there").collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_tool_that_a_person_removed_does_not_come_back() {
        let stand = Stand::new();
        stand.update();
        fs::remove_dir_all(stand.path("to/git")).expect("removed");
        let done = stand.update();
        assert_eq!(done.left_out, ["git"]);
        assert!(done.added.is_empty() && !stand.path("to/git").exists());
    }

    #[test]
    fn modes_are_those_that_the_registry_wants_whatever_they_were() {
        let stand = Stand::new();
        let mode = |name: &str, mode| {
            fs::set_permissions(stand.path(name), Permissions::from_mode(mode)).expect("set");
        };
        stand.put("from/git/setup.sh", "#!/bin/sh");
        mode("from/git", 0o775);
        mode("from/git/tool.toml", 0o664);
        mode("from/git/setup.sh", 0o775);
        stand.update();
        let is =
            |name: &str| fs::metadata(stand.path(name)).expect(name).permissions().mode() & 0o777;
        let modes = ["to/git", "to/git/tool.toml", "to/git/setup.sh"].map(is);
        assert_eq!(modes, [0o755, 0o644, 0o755]);
    }
}

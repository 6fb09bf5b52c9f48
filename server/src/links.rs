//! The directory of symlinks that agents have on their PATH: one for each tool,
//! to tool-client.
//!
//! Owns: making and removing the links. Must not: touch anything that is not a
//! link to the client.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Linked {
    /// Links that are new.
    pub(crate) made: Vec<String>,
    /// Links of tools that are no more.
    pub(crate) removed: Vec<String>,
    /// Names that something else has.
    pub(crate) taken: Vec<String>,
}

/// A directory that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}: {source}", path = path.display())]
pub(crate) struct LinkError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_owned();
    move |source| LinkError { what, path, source }
}

/// The client that links point at: the setting, or what lies in the directory,
/// or what lies beside this program.
pub(crate) fn client(directory: &Path, set: Option<&Path>) -> PathBuf {
    if let Some(set) = set {
        return set.to_owned();
    }
    if directory.join("tool-client").is_file() {
        return PathBuf::from("tool-client");
    }
    let beside =
        std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("tool-client")));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("tool-client"))
}

/// Makes the links right: each tool has one, no other link to the client is
/// left. A link is replaced by renaming over it, so that a name never misses.
pub(crate) fn sync<'a>(
    directory: &Path,
    client: &Path,
    tools: impl Iterator<Item = &'a str>,
) -> Result<Linked, LinkError> {
    fs::create_dir_all(directory).map_err(error("create", directory))?;
    let mut linked = Linked::default();
    let mut wanted: Vec<&str> = tools.collect();
    wanted.sort_unstable();
    for entry in fs::read_dir(directory).map_err(error("read", directory))?.flatten() {
        let name = entry.file_name();
        let ours = fs::read_link(entry.path()).is_ok_and(|target| is_client(&target, client));
        let tool = name.to_str().filter(|name| wanted.binary_search(name).is_ok());
        // The client itself may lie here, as a link to where it is installed.
        if ours && tool.is_none() && name != OsStr::new("tool-client") {
            fs::remove_file(entry.path()).map_err(error("remove", &entry.path()))?;
            linked.removed.push(name.to_string_lossy_ascii());
        }
    }
    for tool in wanted {
        let path = directory.join(tool);
        match fs::read_link(&path) {
            Ok(target) if target == client => {}
            Ok(target) if is_client(&target, client) => replace(&path, client)?,
            Err(found) if found.kind() == io::ErrorKind::NotFound => {
                symlink(client, &path).map_err(error("link", &path))?;
                linked.made.push(tool.to_owned());
            }
            _ => linked.taken.push(tool.to_owned()),
        }
    }
    Ok(linked)
}

/// Whether a link's target is the client, this one or one from before.
fn is_client(target: &Path, client: &Path) -> bool {
    target == client || target.file_name() == Some(OsStr::new("tool-client"))
}

fn replace(path: &Path, client: &Path) -> Result<(), LinkError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new-link");
    let new = PathBuf::from(new);
    drop(fs::remove_file(&new));
    symlink(client, &new).map_err(error("link", &new))?;
    fs::rename(&new, path).map_err(error("replace", path))
}

trait Shown {
    fn to_string_lossy_ascii(&self) -> String;
}

impl Shown for OsStr {
    fn to_string_lossy_ascii(&self) -> String {
        self.as_encoded_bytes().escape_ascii().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_the_tools_and_nothing_else_is_touched() {
        let base = tempfile::tempdir().unwrap();
        let bin = base.path().join("bin");
        let client = Path::new("/opt/tool-client");
        let first = sync(&bin, client, ["git", "npm"].into_iter()).unwrap();
        assert_eq!(first.made, ["git", "npm"]);
        fs::write(bin.join("mine"), "x").unwrap();
        symlink("/bin/true", bin.join("foreign")).unwrap();
        let second = sync(&bin, client, ["git", "mine"].into_iter()).unwrap();
        assert_eq!(second.removed, ["npm"]);
        assert_eq!(second.taken, ["mine"]);
        assert_eq!(fs::read_link(bin.join("git")).unwrap(), client);
        assert!(fs::symlink_metadata(bin.join("foreign")).is_ok());
        // An update that moves the client moves the links.
        let third = sync(&bin, Path::new("/new/tool-client"), ["git"].into_iter()).unwrap();
        assert_eq!(third, Linked::default());
        assert_eq!(fs::read_link(bin.join("git")).unwrap(), Path::new("/new/tool-client"));
    }
}

//! The directories under CLAUDE_HOME, with the modes that keep others out and that
//! the registry of tools wants.
//!
//! Made again any number of times. What is there keeps its content; a mode that is
//! too open is closed. Must not: follow a link, or change an owner of what is there.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{HostError, Ids, failed, refused};

/// Shared by all instances, with their modes.
const SHARED: [(&str, u32); 8] = [
    ("", 0o700),
    ("tools", 0o755),
    ("tools/bin", 0o755),
    ("tools/tools.d", 0o755),
    ("tools/restricted", 0o755),
    ("sockets", 0o700),
    ("state", 0o700),
    ("config", 0o700),
];

/// An instance's own; the containers' user has them.
const OWN: [&str; 5] =
    ["sockets/ID", "state/ID", "state/ID/server", "state/ID/scratch", "state/ID/agent"];

/// What all instances share and the containers' user reads: the credentials of tools,
/// the server's settings, the agent's own login.
const GIVEN: [&str; 3] = ["config/secrets", "config/server", "config/claude"];

/// What to lay.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) home: &'a Path,
    /// Its directories too, and whose they are.
    pub(crate) instance: Option<(&'a str, Ids)>,
}

/// Makes what is missing; returns that.
pub(crate) fn lay(layout: &Layout) -> Result<Vec<PathBuf>, HostError> {
    let mut made = Vec::new();
    for (name, mode) in SHARED {
        let path = if name.is_empty() { layout.home.to_owned() } else { layout.home.join(name) };
        directory(&path, mode, None, &mut made)?;
    }
    let ids = layout.instance.map(|(_, ids)| ids);
    for name in GIVEN {
        directory(&layout.home.join(name), 0o700, ids, &mut made)?;
    }
    if let Some((id, _)) = layout.instance {
        for name in OWN {
            directory(&layout.home.join(name.replace("ID", id)), 0o700, ids, &mut made)?;
        }
    }
    Ok(made)
}

fn directory(
    path: &Path,
    mode: u32,
    ids: Option<Ids>,
    made: &mut Vec<PathBuf>,
) -> Result<(), HostError> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(mode).create(path).map_err(failed("make", path))?;
            made.push(path.to_owned());
            fs::symlink_metadata(path).map_err(failed("look at", path))?
        }
        Err(error) => return Err(failed("look at", path)(error)),
    };
    // CLAUDE_HOME itself may be a link to where there is room.
    let about = match about.is_symlink() && mode == 0o700 && ids.is_none() {
        true => fs::metadata(path).map_err(failed("look at", path))?,
        false => about,
    };
    if !about.is_dir() {
        return Err(refused(path, "is there and is no directory: move it away"));
    }
    if about.mode() & 0o777 & !mode != 0 || made.last().is_some_and(|last| last == path) {
        let permissions = Permissions::from_mode(mode);
        fs::set_permissions(path, permissions).map_err(failed("change the mode of", path))?;
    }
    let Some(ids) = ids.filter(|ids| ids.uid != about.uid()) else { return Ok(()) };
    // Root gives away what is its own, else only what is empty changes hands: it is
    // somebody's, and he should be asked.
    if about.uid() == 0 {
        return hand_over(path, ids);
    }
    if nested(path).map_err(failed("list", path))? {
        return Err(refused(
            path,
            format!(
                "belongs to uid {}, and the project to uid {}: stop the instances that use it and \
                 chown -R {} it, or give this project's owner a CLAUDE_HOME of their own",
                about.uid(),
                ids.uid,
                ids.uid
            ),
        ));
    }
    hand_over(path, ids)
}

/// Gives a directory and all in it to somebody; links themselves, not what they lead to.
fn hand_over(path: &Path, ids: Ids) -> Result<(), HostError> {
    let about = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if about.is_dir() {
        for entry in fs::read_dir(path).map_err(failed("list", path))? {
            hand_over(&entry.map_err(failed("list", path))?.path(), ids)?;
        }
    }
    let (uid, gid) = (Some(ids.uid), Some(ids.gid));
    std::os::unix::fs::lchown(path, uid, gid).map_err(failed("change the owner of", path))
}

/// Whether anything but empty directories is in it.
fn nested(path: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || nested(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    fn own() -> Ids {
        let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        Ids { uid, gid }
    }

    #[test]
    fn a_second_time_makes_nothing_and_closes_what_was_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("a home, with spaces");
        let layout = Layout { home: &home, instance: Some(("app-01234567", own())) };
        assert_eq!(lay(&layout).expect("laid").len(), SHARED.len() + OWN.len() + GIVEN.len());
        assert_eq!(lay(&layout).expect("laid"), Vec::<PathBuf>::new());
        assert_eq!(mode(&home), 0o700);
        assert_eq!(mode(&home.join("tools/tools.d")), 0o755);
        assert_eq!(mode(&home.join("state/app-01234567/agent")), 0o700);
        fs::set_permissions(home.join("tools/tools.d"), Permissions::from_mode(0o775))
            .expect("set");
        fs::set_permissions(home.join("config/secrets"), Permissions::from_mode(0o755))
            .expect("set");
        assert_eq!(lay(&layout).expect("laid"), Vec::<PathBuf>::new());
        assert_eq!(mode(&home.join("tools/tools.d")), 0o755);
        assert_eq!(mode(&home.join("config/secrets")), 0o700);
    }

    #[test]
    fn a_file_or_a_link_in_the_place_of_a_directory_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout { home: dir.path(), instance: None };
        fs::write(dir.path().join("tools"), "").expect("written");
        assert!(lay(&layout).expect_err("a file").to_string().contains("no directory"));
        fs::remove_file(dir.path().join("tools")).expect("removed");
        std::os::unix::fs::symlink("/etc", dir.path().join("tools")).expect("linked");
        assert!(lay(&layout).expect_err("a link").to_string().contains("no directory"));
    }

    #[test]
    fn what_is_somebody_elses_changes_hands_only_while_it_is_empty() {
        if own().uid != 0 {
            return; // Only root gives anything away; CI runs as root.
        }
        let dir = tempfile::tempdir().expect("a directory");
        let ids = |uid| Ids { uid, gid: uid };
        let lay_for = |uid| lay(&Layout { home: dir.path(), instance: Some(("x", ids(uid))) });
        lay_for(1000).expect("laid");
        lay_for(1001).expect("empty still");
        let agent = dir.path().join("state/x/agent");
        assert_eq!(fs::metadata(&agent).expect("there").uid(), 1001);
        fs::write(agent.join("mine"), "").expect("written");
        std::os::unix::fs::lchown(&agent, Some(0), Some(0)).expect("root's");
        lay_for(1001).expect("root gives it away");
        assert_eq!(fs::metadata(agent.join("mine")).expect("there").uid(), 1001);
        let error = lay_for(1000).expect_err("somebody's").to_string();
        assert!(error.contains("belongs to uid 1001") && error.contains("chown"), "{error}");
    }
}

//! The directories under CLAUDE_HOME, with the modes that keep others out and that
//! the registry of tools wants.
//!
//! Made again any number of times. What is there keeps its content; a mode that is
//! too open is closed. Must not: follow a link, or change an owner of what is there.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, fchown, fchownat};

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
    // Its user may have closed it to himself, from inside; what is shared may be closer.
    let closed = ids.is_some() && about.mode() & mode != mode;
    let open = about.mode() & 0o777 & !mode != 0;
    if open || closed || made.last().is_some_and(|last| last == path) {
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

/// How a directory is opened, and nothing else.
const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Gives a directory and all in it to somebody; links themselves, not what they lead to.
fn hand_over(path: &Path, ids: Ids) -> Result<(), HostError> {
    let directory = Dir::open(path, DIRECTORY, Mode::empty());
    give(directory.map_err(because("open", path))?, path, ids)
}

/// An agent may still write there: so no name is looked up twice, and none from above.
fn give(mut directory: Dir, path: &Path, ids: Ids) -> Result<(), HostError> {
    let (uid, gid) = (Some(Uid::from_raw(ids.uid)), Some(Gid::from_raw(ids.gid)));
    let names: Vec<CString> = directory
        .iter()
        .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
        .collect::<Result<_, _>>()
        .map_err(because("list", path))?;
    let others = |name: &&CString| ![&b"."[..], b".."].contains(&name.to_bytes());
    for name in names.iter().filter(others) {
        let within = path.join(OsStr::from_bytes(name.to_bytes()));
        let given = match Dir::openat(&directory, name.as_c_str(), DIRECTORY, Mode::empty()) {
            Ok(inner) => {
                give(inner, &within, ids)?;
                continue;
            }
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let links = AtFlags::AT_SYMLINK_NOFOLLOW;
                fchownat(&directory, name.as_c_str(), uid, gid, links)
            }
            Err(errno) => Err(errno),
        };
        match given {
            // It is gone by now.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(because("change the owner of", &within)(errno)),
        }
    }
    fchown(&directory, uid, gid).map_err(because("change the owner of", path))
}

fn because(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> HostError {
    let failed = failed(operation, path);
    move |errno| failed(errno.into())
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
    fn what_the_agent_closed_is_open_to_its_user_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout { home: dir.path(), instance: Some(("x", own())) };
        lay(&layout).expect("laid");
        for name in ["state/x/scratch", "state/x/agent", "config/claude"] {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o000)).expect("set");
        }
        lay(&layout).expect("laid");
        for name in ["state/x/scratch", "state/x/agent", "config/claude"] {
            assert_eq!(mode(&dir.path().join(name)), 0o700, "{name}");
        }
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

    #[test]
    fn nothing_outside_changes_hands_whatever_an_agent_does_meanwhile() {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        use std::sync::atomic::{AtomicBool, Ordering};
        if own().uid != 0 {
            return; // Only root gives anything away; CI runs as root.
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (given, kept) = (dir.path().join("given"), dir.path().join("kept"));
        for path in [&given, &given.join("a"), &kept] {
            fs::create_dir(path).expect("made");
        }
        fs::write(kept.join("file"), "").expect("written");
        std::os::unix::fs::symlink(&kept, given.join("b")).expect("linked");
        let over = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            let (a, b) = (given.join("a"), given.join("b"));
            let over = &over;
            scope.spawn(move || {
                // Now a directory, now a link to one.
                while !over.load(Ordering::Relaxed) {
                    renameat2(AT_FDCWD, &a, AT_FDCWD, &b, RenameFlags::RENAME_EXCHANGE)
                        .expect("swapped");
                }
            });
            let ids = Ids { uid: 1000, gid: 1000 };
            let all = (0..3000).try_for_each(|_| hand_over(&given, ids));
            over.store(true, Ordering::Relaxed);
            all
        });
        for path in [&kept, &kept.join("file")] {
            assert_eq!(fs::metadata(path).expect("there").uid(), 0, "{}", path.display());
        }
        done.expect("given");
    }
}

//! What git itself will look at, read beneath the workspace roots: for facts that
//! the arguments alone do not tell, as the branch that a bare `git push` pushes.
//!
//! Owns: finding the files. Must not: understand them (`policy` does), or follow
//! anything out of the roots. What is not plainly there is not known.
//!
//! A caller may change these files between this look and the tool's own: what is
//! decided by them is about what a call means, not about what it can reach.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::fcntl::OFlag;

use tool_policy::facts::{Observed, Wants, git};

use super::workspace::{Workspace, beneath};
use crate::os::descriptors::path_of;
use crate::os::root::Root;

/// A longer HEAD, `.git` file or `commondir` is none of git's making.
const SHORT: u64 = 4 * 1024;
/// A longer configuration is not read.
const CONFIG: u64 = 256 * 1024;

/// Variables that make git look elsewhere.
const ELSEWHERE: [&[u8]; 4] = [b"GIT_DIR=", b"GIT_COMMON_DIR=", b"GIT_CONFIG", b"XDG_CONFIG_HOME="];

/// What a decision has to know beside the arguments; `place` is the call's
/// directory and `environment` the tool's.
pub(crate) fn observe(
    workspace: &Workspace,
    place: &[u8],
    wants: &Wants,
    environment: &[CString],
) -> Observed {
    let Wants::Repository(path) = wants else { return Observed::default() };
    let files = if path.is_empty() {
        git_files(workspace, place, environment)
    } else {
        elsewhere(workspace, place, path)
            .and_then(|place| git_files(workspace, &place, environment))
    };
    files.map_or_else(Observed::default, |files| git::observe(&files.head, &files.config))
}

/// The directory that the tool itself goes to first.
fn elsewhere(workspace: &Workspace, place: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let path = if path.first() == Some(&b'/') { path.to_vec() } else { join(place, path) };
    let (root, within) = workspace.root_of(&path)?;
    let directory = root.directory(OsStr::from_bytes(&within)).ok()?;
    path_of(directory.as_fd())
}

/// The files' bytes.
#[derive(Debug)]
struct GitFiles {
    /// HEAD of this working tree.
    head: Vec<u8>,
    /// Every configuration that git reads, in its order.
    config: Vec<u8>,
}

/// The files of the repository that a directory is in; `environment` is the
/// tool's.
fn git_files(workspace: &Workspace, directory: &[u8], environment: &[CString]) -> Option<GitFiles> {
    let lines = || environment.iter().map(|line| line.as_bytes());
    if lines().any(|line| ELSEWHERE.iter().any(|name| line.starts_with(name))) {
        return None;
    }
    let home = lines().find_map(|line| line.strip_prefix(b"HOME="));
    let (root, within) = workspace.root_of(directory)?;
    let repository = Repository::find(root, &within)?;
    let mut config = Vec::new();
    let mut add = |bytes: Vec<u8>| {
        config.extend(bytes);
        config.push(b'\n');
    };
    add(operators(Path::new("/etc/gitconfig"))?);
    if let Some(home) = home {
        let home = Path::new(OsStr::from_bytes(home));
        add(operators(&home.join(".config/git/config"))?);
        add(operators(&home.join(".gitconfig"))?);
    }
    add(read(root, &join(&repository.common, b"config"), CONFIG)?);
    let head = read(root, &join(&repository.own, b"HEAD"), SHORT)?;
    Some(GitFiles { head, config })
}

/// Names beneath a root.
struct Repository {
    /// Of this working tree.
    own: Vec<u8>,
    /// Of all working trees.
    common: Vec<u8>,
}

impl Repository {
    /// As git finds it: the nearest `.git` upwards, a directory or a file that names
    /// one.
    fn find(root: &Root, within: &[u8]) -> Option<Repository> {
        let mut place = within;
        loop {
            let name = join(place, b".git");
            match root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH) {
                Ok(_) => return Repository::at(root, place, name),
                Err(nix::errno::Errno::ENOENT) if !place.is_empty() => {
                    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    place = place.get(..end)?;
                }
                Err(_) => return None,
            }
        }
    }

    fn at(root: &Root, place: &[u8], name: Vec<u8>) -> Option<Repository> {
        let own = if root.directory(OsStr::from_bytes(&name)).is_ok() {
            name
        } else {
            let said = read(root, &name, SHORT)?;
            inside(root, place, said.strip_prefix(b"gitdir: ")?)?
        };
        let common = match read(root, &join(&own, b"commondir"), SHORT) {
            Some(said) => inside(root, &own, &said)?,
            None => own.clone(),
        };
        Some(Repository { own, common })
    }
}

/// The name beneath the root of what a file beside `place` says.
fn inside(root: &Root, place: &[u8], said: &[u8]) -> Option<Vec<u8>> {
    let said = said.strip_suffix(b"\n").unwrap_or(said);
    if said.first() == Some(&b'/') {
        // As the caller names the root, or as the kernel does.
        let named = beneath(said, root.path().as_os_str().as_bytes());
        return named.or_else(|| beneath(said, root.resolved()));
    }
    Some(join(place, said))
}

fn join(place: &[u8], name: &[u8]) -> Vec<u8> {
    if place.is_empty() { name.to_vec() } else { [place, b"/", name].concat() }
}

/// A regular file beneath the root; `None` where it is none, or longer.
fn read(root: &Root, name: &[u8], most: u64) -> Option<Vec<u8>> {
    let file = File::from(root.file(OsStr::from_bytes(name)).ok()?);
    take(file, most)
}

/// A file of the operator's; empty where there is none.
fn operators(path: &Path) -> Option<Vec<u8>> {
    match File::open(path) {
        Ok(file) => take(file, CONFIG),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

fn take(file: File, most: u64) -> Option<Vec<u8>> {
    let regular = file.metadata().ok()?.is_file();
    let mut bytes = Vec::new();
    if !regular || file.take(most + 1).read_to_end(&mut bytes).is_err() {
        return None;
    }
    (bytes.len() as u64 <= most).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn files(workspace: &Workspace, directory: &Path) -> Option<(String, String)> {
        let files = git_files(workspace, directory.as_os_str().as_bytes(), &[])?;
        Some((String::from_utf8(files.head).unwrap(), String::from_utf8(files.config).unwrap()))
    }

    #[test]
    fn a_repository_is_found_as_git_finds_it_and_never_outside_of_the_roots() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let root = base.join("root");
        let make = |name: &str, text: &str| {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            fs::write(base.join(name), text).unwrap();
        };
        make("root/app/.git/HEAD", "ref: refs/heads/one\n");
        make("root/app/.git/config", "[a]\n");
        make("root/app/src/deep/file", "");
        make("root/app/.git/worktrees/tree/HEAD", "ref: refs/heads/two\n");
        make("root/app/.git/worktrees/tree/commondir", "../..\n");
        make("root/tree/.git", &format!("gitdir: {}/app/.git/worktrees/tree\n", root.display()));
        make("outside/.git/HEAD", "ref: refs/heads/secret\n");
        make("outside/.git/config", "");
        make("root/file-out/.git", &format!("gitdir: {}/outside/.git\n", base.display()));
        fs::create_dir_all(root.join("link-out")).unwrap();
        symlink(base.join("outside/.git"), root.join("link-out/.git")).unwrap();
        fs::create_dir_all(root.join("none")).unwrap();
        let workspace = Workspace::open(std::slice::from_ref(&root), []).unwrap();
        let head = |name: &str| files(&workspace, &root.join(name)).map(|(head, _)| head);
        assert_eq!(head("app").as_deref(), Some("ref: refs/heads/one\n"));
        assert_eq!(head("app/src/deep").as_deref(), Some("ref: refs/heads/one\n"));
        assert_eq!(head("tree").as_deref(), Some("ref: refs/heads/two\n"));
        assert!(files(&workspace, &root.join("tree")).unwrap().1.ends_with("[a]\n\n"));
        assert_eq!(head("file-out"), None);
        assert_eq!(head("link-out"), None);
        assert_eq!(head("none"), None);
        assert_eq!(files(&workspace, &base.join("outside")), None);
        let elsewhere = [c"GIT_DIR=/x".to_owned()];
        let app = root.join("app");
        assert!(git_files(&workspace, app.as_os_str().as_bytes(), &elsewhere).is_none());
        fs::write(root.join("app/.git/config"), vec![b'#'; 300_000]).unwrap();
        assert_eq!(head("app"), None, "too long to be looked at");
    }
}

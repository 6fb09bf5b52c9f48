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

use nix::dir::Dir;
use nix::errno::Errno;
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
    let (path, refs) = match wants {
        Wants::Nothing => return Observed::default(),
        Wants::Promisor { path } => return promisor(workspace, place, path),
        Wants::Repository { path, refs } => (path, refs),
    };
    let place = match path.is_empty() {
        true => Some(place.to_vec()),
        false => elsewhere(workspace, place, path),
    };
    let known = place.and_then(|place| {
        let files = git_files(workspace, &place, environment)?;
        let mut observed = git::observe(&files.head, &files.config);
        let symbolic = |name: &[u8]| files.repository.symbolic(files.root, name);
        let branch = observed.head.as_ref().map(|head| [b"refs/heads/", head.as_slice()].concat());
        if branch.is_some_and(|branch| symbolic(&branch)) {
            observed.head = None;
        }
        observed.symbolic = refs.iter().any(|name| symbolic(name));
        Some(observed)
    });
    known.unwrap_or_default()
}

/// Whether objects may be missing where a call works: asked for nearly every call of
/// git, so no more is looked at than has to be.
fn promisor(workspace: &Workspace, place: &[u8], path: &[u8]) -> Observed {
    let place = match path.is_empty() {
        true => Some(place.to_vec()),
        false => elsewhere(workspace, place, path),
    };
    let found = place.and_then(|place| {
        let (root, within) = workspace.root_of(&place)?;
        let common = Repository::common(root, &within)?;
        read(root, &join(&common, b"config"), CONFIG)
    });
    Observed::promising(found.is_some_and(|config| git::promises(&config)))
}

/// The directory that the tool itself goes to first.
fn elsewhere(workspace: &Workspace, place: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let path = if path.first() == Some(&b'/') { path.to_vec() } else { join(place, path) };
    let (root, within) = workspace.root_of(&path)?;
    let directory = root.directory(OsStr::from_bytes(&within)).ok()?;
    path_of(directory.as_fd())
}

/// The files' bytes.
struct GitFiles<'a> {
    /// HEAD of this working tree.
    head: Vec<u8>,
    /// Every configuration that git reads, in its order.
    config: Vec<u8>,
    root: &'a Root,
    repository: Repository,
}

/// The files of the repository that a directory is in; `environment` is the
/// tool's.
fn git_files<'a>(
    workspace: &'a Workspace,
    directory: &[u8],
    environment: &[CString],
) -> Option<GitFiles<'a>> {
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
    Some(GitFiles { head, config, root, repository })
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
    /// one. `None` where git would take another directory for a repository, or
    /// might.
    fn find(root: &Root, within: &[u8]) -> Option<Repository> {
        let mut place = within;
        loop {
            let name = join(place, b".git");
            match root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH) {
                Ok(_) => return Repository::at(root, place, name)?.plain(root),
                // Git takes a directory that looks so for a bare one.
                Err(Errno::ENOENT) if is_bare(root, place) => return None,
                Err(Errno::ENOENT) if !place.is_empty() => {
                    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    place = place.get(..end)?;
                }
                Err(_) => return None,
            }
        }
    }

    /// Where the configuration of the repository around that place is; of a bare
    /// one, the place itself.
    fn common(root: &Root, within: &[u8]) -> Option<Vec<u8>> {
        let mut place = within;
        loop {
            let name = join(place, b".git");
            match root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH) {
                Ok(_) => return Some(Repository::at(root, place, name)?.common),
                Err(Errno::ENOENT) if !place.is_empty() => {
                    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    place = place.get(..end)?;
                }
                Err(Errno::ENOENT) => return Some(within.to_vec()),
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

    /// Itself, if git does not pass it over, and nothing of it is in a form that is
    /// not read here.
    fn plain(self, root: &Root) -> Option<Repository> {
        let head = read(root, &join(&self.own, b"HEAD"), SHORT)?;
        let named = head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii_start);
        let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let valid = digits >= 40 || named.is_some_and(|named| named.starts_with(b"refs/"));
        // The dot asks whether it may be entered.
        let enters =
            |name: &[u8]| root.directory(OsStr::from_bytes(&join(&self.common, name))).is_ok();
        let whole = valid && enters(b"objects/.") && enters(b"refs/.");
        // The forms that remotes had before they were in the configuration.
        let old = [b"remotes".as_slice(), b"branches"];
        let old = old.iter().any(|name| !is_empty(root, &join(&self.common, name)));
        (whole && !old).then_some(self)
    }

    /// Whether a ref stands for another one, or may. Packed ones do not.
    fn symbolic(&self, root: &Root, name: &[u8]) -> bool {
        let odd = |part: &[u8]| matches!(part, b"" | b"." | b"..");
        // Another working tree's, by a name that is no file's.
        let other = name.starts_with(b"main-worktree/");
        if other || name.len() as u64 > SHORT || name.split(|byte| *byte == b'/').any(odd) {
            return true;
        }
        let places = [&self.own, &self.common];
        let places = places.iter().take(if self.own == self.common { 1 } else { 2 });
        places.into_iter().any(|place| stands_for_another(root, &join(place, name)))
    }
}

/// Whether it looks like a repository without a working tree.
fn is_bare(root: &Root, place: &[u8]) -> bool {
    [b"HEAD".as_slice(), b"objects", b"refs"].iter().all(|name| {
        let name = join(place, name);
        let found = root.open_beneath(OsStr::from_bytes(&name), OFlag::O_PATH | OFlag::O_NOFOLLOW);
        !matches!(found, Err(Errno::ENOENT))
    })
}

/// Whether there is no directory of that name, or nothing in it.
fn is_empty(root: &Root, name: &[u8]) -> bool {
    match root.open_beneath(OsStr::from_bytes(name), OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        Ok(directory) => Dir::from_fd(directory).is_ok_and(|mut directory| {
            directory.iter().all(|entry| {
                entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
            })
        }),
        Err(error) => error == Errno::ENOENT,
    }
}

fn stands_for_another(root: &Root, name: &[u8]) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = match root.open_beneath(OsStr::from_bytes(name), flags) {
        Ok(file) => File::from(file),
        Err(error) => {
            // A symlink is such a ref in an older form.
            return !matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG);
        }
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    let mut beginning = Vec::new();
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let said = regular && file.take(4).read_to_end(&mut beginning).is_ok();
    !said || beginning == b"ref:"
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
        let whole = |name: &str| {
            for part in ["objects", "refs/heads"] {
                fs::create_dir_all(base.join(name).join(part)).unwrap();
            }
        };
        whole("root/app/.git");
        whole("outside/.git");
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

    /// A root with a whole repository in it, on the branch `one`.
    fn root_with_repository() -> (tempfile::TempDir, Workspace) {
        let base = tempfile::tempdir().unwrap();
        let git = base.path().join(".git");
        for part in ["objects", "refs/heads", "refs/tags"] {
            fs::create_dir_all(git.join(part)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/one\n").unwrap();
        fs::write(git.join("config"), "[remote \"origin\"]\nurl = /x\n").unwrap();
        let workspace = Workspace::open(&[base.path().to_owned()], []).unwrap();
        (base, workspace)
    }

    #[test]
    fn what_git_takes_for_another_repository_is_not_known() {
        let (base, workspace) = root_with_repository();
        let base = base.path();
        let known = |name: &str| files(&workspace, &base.join(name)).is_some();
        let make = |name: &str| fs::create_dir_all(base.join(name)).unwrap();
        make("sub/deep");
        assert!(known("sub/deep"));
        // One that git passes over.
        make("sub/.git");
        fs::write(base.join("sub/.git/HEAD"), "ref: refs/heads/two\n").unwrap();
        fs::write(base.join("sub/.git/config"), "").unwrap();
        assert!(!known("sub") && !known("sub/deep"));
        make("sub/.git/objects");
        make("sub/.git/refs");
        assert!(known("sub/deep"));
        fs::write(base.join("sub/.git/HEAD"), "else\n").unwrap();
        assert!(!known("sub/deep"));
        // One without a working tree, and a directory in it.
        make("bare.git/objects");
        make("bare.git/refs/heads");
        assert!(known("bare.git"));
        fs::write(base.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(!known("bare.git") && !known("bare.git/refs/heads"));
        assert!(!known(".git/refs"));
        // Remotes in their older forms.
        make(".git/branches");
        make(".git/remotes");
        assert!(known(""));
        fs::write(base.join(".git/branches/old"), "/x#main\n").unwrap();
        assert!(!known(""));
        fs::remove_file(base.join(".git/branches/old")).unwrap();
        fs::write(base.join(".git/remotes/old"), "URL: /x\n").unwrap();
        assert!(!known(""));
    }

    #[test]
    fn a_ref_that_stands_for_another_is_found() {
        let (base, workspace) = root_with_repository();
        let git = base.path().join(".git");
        let look = |name: &str| {
            let refs = vec![name.as_bytes().to_vec()];
            let wants = Wants::Repository { path: Vec::new(), refs };
            let seen = observe(&workspace, base.path().as_os_str().as_bytes(), &wants, &[]);
            (seen.head.is_some(), seen.symbolic)
        };
        fs::write(git.join("refs/heads/one"), "0".repeat(40)).unwrap();
        fs::write(git.join("refs/heads/alias"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("refs/tags/alias"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("MINE"), "ref: refs/heads/main\n").unwrap();
        symlink("refs/heads/main", git.join("refs/heads/older")).unwrap();
        for (name, symbolic) in [
            ("refs/heads/one", false),
            ("refs/heads/none", false),
            ("refs/heads", false),
            ("refs/heads/one/more", false),
            ("refs/heads/alias", true),
            ("refs/tags/alias", true),
            ("refs/heads/older", true),
            ("MINE", true),
            ("refs/heads/../heads/one", true),
            ("main-worktree/HEAD", true),
        ] {
            assert_eq!(look(name), (true, symbolic), "{name}");
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/alias\n").unwrap();
        assert_eq!(look("refs/heads/one"), (false, false));
    }
}

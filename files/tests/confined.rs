//! What the operations need of a thread: nothing but the roots, and no more rights than
//! the owner of the workspace has.

#![allow(clippy::unwrap_used, reason = "here a panic is how a test fails")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use common::skipped::skipped;
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus,
};
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use tool_files::edit::{EditFile, EditInput};
use tool_files::read::{ReadFile, ReadInput};
use tool_files::write::{WriteFile, WriteInput};
use tool_files::{FileError, Operation, Root, Roots, Stop, Target};
use tool_protocol::Fault;

const OWNER: u32 = 12_345;

fn run<O: Operation>(roots: &Roots, input: O::Input) -> Result<O::Output, FileError> {
    O::find(roots, input)?.run(&Stop::new(None), None)
}

fn read(roots: &Roots, path: &str) -> Result<Option<String>, FileError> {
    let input = ReadInput { path: path.into(), ..ReadInput::default() };
    run::<ReadFile>(roots, input).map(|output| output.content)
}

fn write(roots: &Roots, path: &str) -> Result<bool, FileError> {
    let content = "written".into();
    let input = WriteInput { path: path.into(), content, ..WriteInput::default() };
    run::<WriteFile>(roots, input).map(|output| output.created)
}

fn edit(roots: &Roots, path: &str) -> Result<Option<String>, FileError> {
    let (old_text, new_text) = (Some("written".into()), Some("edited".into()));
    let (path, backup) = (path.into(), true);
    let input = EditInput { path, old_text, new_text, backup, ..EditInput::default() };
    run::<EditFile>(roots, input).map(|output| output.backup)
}

/// The whole life of a file.
fn all(roots: &Roots, root: &Path) {
    assert!(write(roots, "new/directory/f").unwrap());
    assert!(!write(roots, "new/directory/f").unwrap());
    symlink(root.join("new/directory/f"), root.join("link")).unwrap();
    assert_eq!(edit(roots, "link").unwrap().as_deref(), Some("link.orig"));
    assert_eq!(read(roots, "link").unwrap().as_deref(), Some("edited"));
    assert_eq!(read(roots, "new/directory/f.orig").unwrap().as_deref(), Some("written"));
}

#[test]
fn a_thread_that_is_confined_to_the_root_can_do_all_of_it() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("root");
    fs::create_dir(&root).unwrap();
    let roots = Roots::new(vec![Root::open(&root).unwrap()]);
    let confined = || {
        let access = AccessFs::from_all(ABI::V5);
        let ruleset = Ruleset::default().handle_access(access).unwrap().create().unwrap();
        let rule = PathBeneath::new(PathFd::new(&root).unwrap(), access);
        let status = ruleset.add_rule(rule).unwrap().restrict_self().unwrap();
        if status.ruleset == RulesetStatus::NotEnforced {
            let test = "a_thread_that_is_confined_to_the_root_can_do_all_of_it";
            return skipped(test, "no Landlock here");
        }
        assert!(fs::read("/proc/version").is_err());
        all(&roots, &root);
    };
    std::thread::scope(|scope| scope.spawn(confined).join().unwrap());
}

#[test]
fn a_thread_has_the_rights_of_the_user_that_it_is_for() {
    if !geteuid().is_root() {
        let test = "a_thread_has_the_rights_of_the_user_that_it_is_for";
        return skipped(test, "only root is another user");
    }
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    chown(root.path(), Some(OWNER), Some(OWNER)).unwrap();
    for (name, mode) in [("roots", 0o644), ("secret", 0o600)] {
        fs::write(at(name), "written").unwrap();
        fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    fs::create_dir(at("closed")).unwrap();
    let roots = Roots::new(vec![Root::open(root.path()).unwrap()]);
    let other = || {
        setfsgid(Gid::from_raw(OWNER));
        setfsuid(Uid::from_raw(OWNER));
        all(&roots, root.path());
        assert_eq!(read(&roots, "roots").unwrap().as_deref(), Some("written"));
        let denied = |error: FileError| assert_eq!(error.fault(), Fault::PermissionDenied);
        denied(read(&roots, "secret").unwrap_err());
        denied(edit(&roots, "secret").unwrap_err());
        for name in ["roots", "secret", "closed/new", "closed/new/directory/f"] {
            denied(write(&roots, name).unwrap_err());
        }
        denied(edit(&roots, "roots").unwrap_err());
    };
    std::thread::scope(|scope| scope.spawn(other).join().unwrap());
    assert_eq!(fs::metadata(at("new/directory/f")).unwrap().uid(), OWNER);
    assert_eq!(fs::read(at("secret")).unwrap(), b"written");
    assert_eq!(fs::read_dir(at("closed")).unwrap().count(), 0);
}

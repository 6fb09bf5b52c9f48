//! Disks that take no more: full, read-only, over a quota; and a process that is killed in
//! the middle of a write. The old file is as it was, and nothing else is left.
//!
//! Each test runs again in a process of its own, with mounts, limits or a debugger of its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "here a panic is how a test fails, and what is skipped is told"
)]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::skipped::skipped;
use common::{call, memory, roots};
use nix::mount::{MsFlags, mount};
use nix::sys::resource::{Resource, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tool_files::edit::EditFile;
use tool_files::template::InjectTemplate;
use tool_files::write::WriteFile;
use tool_files::{FileError, Roots};
use tool_protocol::Fault;

/// Where it says which directory a second process works in.
const ALONE: &str = "FILES_FULL_ALONE";

fn alone() -> Option<PathBuf> {
    std::env::var_os(ALONE).map(PathBuf::from)
}

/// The same test again, started by these words, in that directory.
fn again(words: &[&str], test: &str, directory: &Path) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(words.first().copied().unwrap_or("env"));
    command.args(words.iter().skip(1)).arg(this);
    command.args(["--exact", test, "--nocapture"]).env(ALONE, directory).output().unwrap()
}

#[track_caller]
fn passed(output: &Output) {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{error}");
}

/// Mounts of its own, where that is possible.
const OWN: [&str; 6] =
    ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];

fn with_mounts(test: &str) {
    let able = Command::new(OWN[0]).args(&OWN[1..]).arg("true").output();
    if !able.as_ref().is_ok_and(|able| able.status.success()) {
        skipped(test, &format!("no namespaces of its own: {able:?}"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    passed(&again(&OWN, test, directory.path()));
}

fn mounted(at: &Path, options: &str, flags: MsFlags) {
    mount(Some("none"), at, Some("tmpfs"), flags, Some(options)).unwrap();
}

/// Every name beneath, sorted, hidden ones too.
fn names(at: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Everything that changes something is refused so, in one line with the caller's own name.
fn refused(root: &Path, fault: Fault, words: &str, new: usize) {
    let old = fs::read(root.join("f")).unwrap();
    let before = names(root);
    // What is made to last meets every error that there is.
    let roots = roots(root).lasting(true);
    let long = "x".repeat(new);
    let file = |path: &str| json!([{"path": path, "content": long}]);
    let answers: Vec<(&str, Result<Value, FileError>)> = vec![
        ("f", call::<WriteFile>(&roots, json!({"path": "f", "content": long}))),
        ("new", call::<WriteFile>(&roots, json!({"path": "new", "content": long}))),
        ("a/b/new", call::<WriteFile>(&roots, json!({"path": "a/b/new", "content": long}))),
        ("f", call::<EditFile>(&roots, json!({"path": "f", "old_text": "old", "new_text": long}))),
        (
            "f",
            call::<EditFile>(
                &roots,
                json!({"path": "f", "old_text": "old", "new_text": long, "backup": true}),
            ),
        ),
        ("a/b", call::<InjectTemplate>(&roots, json!({"files": file("c/d"), "target": "a/b"}))),
        (
            ".",
            call::<InjectTemplate>(
                &roots,
                json!({"files": file("f"), "target": ".", "overwrite": true}),
            ),
        ),
    ];
    for (number, (path, answer)) in answers.into_iter().enumerate() {
        let error = answer.unwrap_err();
        let said = error.to_string();
        assert_eq!(error.fault(), fault, "{number}: {said}");
        assert!(said.starts_with(&format!("{path}: ")) && said.contains(words), "{number}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
    assert_eq!(fs::read(root.join("f")).unwrap(), old);
    assert_eq!(names(root), before);
}

#[test]
fn on_a_full_disk_the_old_file_stays_and_nothing_is_left() {
    let Some(root) = alone() else {
        return with_mounts("on_a_full_disk_the_old_file_stays_and_nothing_is_left");
    };
    mounted(&root, "size=256k", MsFlags::empty());
    fs::write(root.join("f"), "old".to_owned() + &"y".repeat(100_000)).unwrap();
    fs::write(root.join("filler"), "z".repeat(100_000)).unwrap();
    refused(&root, Fault::NoSpace, "is full: make room", 150_000);
    // What fits is still written.
    call::<WriteFile>(&roots(&root), json!({"path": "f", "content": "new"})).unwrap();
    assert_eq!(fs::read(root.join("f")).unwrap(), b"new");
}

#[test]
fn without_room_for_another_file_the_old_one_stays() {
    let Some(root) = alone() else {
        return with_mounts("without_room_for_another_file_the_old_one_stays");
    };
    mounted(&root, "size=1m,nr_inodes=2", MsFlags::empty());
    fs::write(root.join("f"), "old").unwrap();
    refused(&root, Fault::NoSpace, "is full: make room", 10);
}

#[test]
fn on_a_read_only_disk_it_is_said() {
    let Some(root) = alone() else {
        return with_mounts("on_a_read_only_disk_it_is_said");
    };
    mounted(&root, "size=1m", MsFlags::empty());
    fs::write(root.join("f"), "old").unwrap();
    mounted(&root, "size=1m", MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY);
    refused(&root, Fault::PermissionDenied, "read-only: write elsewhere", 10);
}

/// With what a debugger makes of some calls; the directory, where that is possible.
fn with_faults(test: &str, faults: &[&str]) -> Option<TempDir> {
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success())
    {
        skipped(test, "strace cannot be used here");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), "old").unwrap();
    let calls: Vec<&str> = faults.iter().filter_map(|fault| fault.split(':').next()).collect();
    let mut words: Vec<String> = ["strace", "-f", "-qq", "-o", "/dev/null"].map(Into::into).into();
    words.extend(["-e".to_owned(), format!("trace={}", calls.join(","))]);
    for fault in faults {
        words.extend(["-e".to_owned(), format!("inject={fault}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    passed(&again(&words, test, directory.path()));
    Some(directory)
}

/// As NFS tells it: only when what was written has to be on disk.
#[test]
fn where_a_quota_is_used_up_the_old_file_stays_and_nothing_is_left() {
    if let Some(root) = alone() {
        return refused(&root, Fault::NoSpace, "the quota, is full: make room", 10);
    }
    let test = "where_a_quota_is_used_up_the_old_file_stays_and_nothing_is_left";
    with_faults(test, &["fsync:error=EDQUOT"]);
}

fn template(roots: &Roots) -> Result<Value, FileError> {
    let files = json!([{"path": "f", "content": "new"}]);
    call::<InjectTemplate>(roots, json!({"files": files, "target": ".", "overwrite": true}))
}

/// As NFS tells it too: when a descriptor is closed, where nothing has to be on disk.
#[test]
fn what_is_told_when_a_descriptor_is_closed_is_heard_before_anything_is_replaced() {
    if let Some(root) = alone() {
        let roots = roots(&root);
        // What starts a program closes some too, and does not bear an error.
        (0..100).for_each(|_| drop(fs::File::open(&root)));
        for answer in [
            call::<WriteFile>(&roots, json!({"path": "f", "content": "new"})),
            call::<WriteFile>(&roots, json!({"path": "new", "content": "new"})),
            call::<EditFile>(&roots, json!({"path": "f", "old_text": "old", "new_text": "new"})),
            template(&roots),
        ] {
            assert_eq!(answer.unwrap_err().fault(), Fault::NoSpace);
        }
        return;
    }
    let test = "what_is_told_when_a_descriptor_is_closed_is_heard_before_anything_is_replaced";
    let Some(directory) = with_faults(test, &["close:error=EDQUOT:when=100+"]) else { return };
    assert_eq!(fs::read(directory.path().join("f")).unwrap(), b"old");
    assert_eq!(names(directory.path()), ["f"]);
}

/// Where two files cannot be exchanged, and a name cannot be taken in the midst of it.
#[test]
fn what_a_template_replaces_is_there_again_where_its_name_cannot_be_taken() {
    if let Some(root) = alone() {
        assert_eq!(template(&roots(&root)).unwrap_err().fault(), Fault::WriteError);
        return;
    }
    let test = "what_a_template_replaces_is_there_again_where_its_name_cannot_be_taken";
    for when in ["2", "3"] {
        let faults = ["renameat2:error=EINVAL", &format!("renameat:error=EIO:when={when}")];
        let Some(directory) = with_faults(test, &faults) else { return };
        assert_eq!(fs::read(directory.path().join("f")).unwrap(), b"old", "{when}");
        assert_eq!(names(directory.path()), ["f"], "{when}");
    }
    // And where it cannot be given back either, it is not lost.
    let faults = ["renameat2:error=EINVAL", "renameat:error=EIO:when=2+"];
    let Some(directory) = with_faults(test, &faults) else { return };
    let [left] = &names(directory.path())[..] else { panic!("{:?}", names(directory.path())) };
    assert_eq!(fs::read(directory.path().join(left).join("0.old")).unwrap(), b"old");
}

/// The kernel ends the process at its first byte beyond a limit: nothing of the process's
/// own runs any more.
#[test]
fn whoever_is_killed_while_writing_leaves_nothing() {
    let ways = ["write", "edit", "new"];
    if let Some(root) = alone() {
        setrlimit(Resource::RLIMIT_FSIZE, 65_536, 65_536).unwrap();
        setrlimit(Resource::RLIMIT_CORE, 0, 0).unwrap();
        let (roots, long) = (roots(&root), "x".repeat(200_000));
        let way = fs::read_to_string(root.join("way")).unwrap();
        let answer = match way.as_str() {
            "write" => call::<WriteFile>(&roots, json!({"path": "f", "content": long})),
            "new" => call::<WriteFile>(&roots, json!({"path": "new", "content": long})),
            _ => {
                call::<EditFile>(&roots, json!({"path": "f", "old_text": "old", "new_text": long}))
            }
        };
        panic!("it is not killed: {answer:?}");
    }
    for way in ways {
        let directory = memory();
        let root = directory.path();
        fs::write(root.join("f"), "old").unwrap();
        fs::write(root.join("way"), way).unwrap();
        let output = again(&["env"], "whoever_is_killed_while_writing_leaves_nothing", root);
        assert_eq!(output.status.signal(), Some(nix::libc::SIGXFSZ), "{way}: {output:?}");
        assert_eq!(fs::read(root.join("f")).unwrap(), b"old", "{way}");
        assert_eq!(names(root), ["f", "way"], "{way}");
    }
}

//! What a file that is replaced hands on, and what the caller is told about the rest.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "here a panic is how a test fails, and what is skipped is told"
)]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use common::skipped::skipped;
use common::{call, memory, roots};
use nix::unistd::{Uid, setfsuid};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;
use tool_files::Roots;
use tool_files::edit::EditFile;
use tool_files::template::InjectTemplate;
use tool_files::write::WriteFile;

fn workspace() -> (TempDir, Roots) {
    let directory = memory();
    let roots = roots(directory.path());
    (directory, roots)
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 65_536];
    let length = getxattr(path, name, value.as_mut_slice())?;
    value.truncate(length);
    Ok(value)
}

/// In how many ways a file is replaced.
const WAYS: usize = 3;

/// Replaces the content of `f` in one of them; the answer.
fn replace(roots: &Roots, way: usize) -> Value {
    let answer = match way {
        0 => call::<WriteFile>(roots, json!({"path": "f", "content": "a"})),
        1 => call::<EditFile>(roots, json!({"path": "f", "old_text": "a", "new_text": "b"})),
        _ => call::<InjectTemplate>(
            roots,
            json!({"files": [{"path": "f", "content": "c"}], "target": ".", "overwrite": true}),
        )
        .map(|answer| answer["files"][0].clone()),
    };
    answer.unwrap()
}

/// In each of the ways; each answer.
fn replaced(roots: &Roots) -> Vec<Value> {
    (0..WAYS).map(|way| replace(roots, way)).collect()
}

#[test]
fn what_its_users_gave_a_file_is_kept_and_the_rest_is_told() {
    let test = "what_its_users_gave_a_file_is_kept_and_the_rest_is_told";
    let (directory, roots) = workspace();
    let path = directory.path().join("f");
    fs::write(&path, "old").unwrap();
    let long = vec![7; 3000];
    for (name, value) in
        [("user.origin", &b"https://a"[..]), ("user.empty", b""), ("user.x", &long)]
    {
        match setxattr(&path, name, value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => {
                return skipped(test, "no attributes here");
            }
            other => other.unwrap(),
        }
    }
    for answer in replaced(&roots) {
        assert_eq!(answer.get("not_kept"), None, "{answer}");
        assert_eq!(get(&path, "user.origin").unwrap(), b"https://a", "{answer}");
        assert_eq!(get(&path, "user.empty").unwrap(), b"", "{answer}");
        assert_eq!(get(&path, "user.x").unwrap(), long, "{answer}");
    }
    // What runs with more than its caller does not with content that another gave it. A
    // capability needs root to be set.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for way in 0..WAYS {
        if setxattr(&path, "security.capability", &capability, XattrFlags::empty()).is_err() {
            return skipped(test, "no capability can be given to a file here");
        }
        let answer = replace(&roots, way);
        assert_eq!(answer["not_kept"], json!(["security.capability"]), "{answer}");
        assert_eq!(get(&path, "security.capability"), Err(Errno::NODATA));
        assert_eq!(get(&path, "user.origin").unwrap(), b"https://a");
    }
}

/// Whoever may write a file that is another's has a new one that it may not write itself, once it
/// has the other's mode.
#[test]
fn what_its_users_gave_a_file_is_kept_where_its_mode_lets_its_owner_only_read() {
    let test = "what_its_users_gave_a_file_is_kept_where_its_mode_lets_its_owner_only_read";
    let (directory, roots) = workspace();
    let path = directory.path().join("f");
    fs::write(&path, "old").unwrap();
    match setxattr(&path, "user.origin", b"https://a", XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => return skipped(test, "no attributes here"),
        other => other.unwrap(),
    }
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    for way in 0..WAYS {
        if chown(&path, Some(23_456), Some(23_456)).is_err() {
            return skipped(test, "only root gives a file to another");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o446)).unwrap();
        // Of this thread alone.
        let root = setfsuid(Uid::from_raw(23_457));
        let answer = replace(&roots, way);
        setfsuid(root);
        assert_eq!(answer.get("not_kept"), None, "{answer}");
        assert_eq!(get(&path, "user.origin").unwrap(), b"https://a", "{answer}");
        let now = fs::metadata(&path).unwrap();
        assert_eq!((now.uid(), now.mode() & 0o222), (23_457, 0o002), "its owner may only read");
    }
}

/// A group's part of the mode is the most that anybody in the list has: without the list it
/// would be the group's.
#[test]
fn who_may_read_a_file_is_kept_with_its_list_of_people() {
    const ACL: &str = "system.posix_acl_access";
    let (directory, roots) = workspace();
    let path = directory.path().join("f");
    fs::write(&path, "old").unwrap();
    // Its owner and one more may read and write, its group and all others nothing.
    let entries = [(1u16, 6u16, u32::MAX), (2, 6, 12_345), (4, 0, u32::MAX), (16, 6, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries.into_iter().chain([(32, 0, u32::MAX)]) {
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    if setxattr(&path, ACL, &list, XattrFlags::empty()).is_err() {
        let test = "who_may_read_a_file_is_kept_with_its_list_of_people";
        return skipped(test, "no lists of people here");
    }
    for answer in replaced(&roots) {
        assert_eq!(get(&path, ACL).as_ref(), Ok(&list), "{answer}");
    }
}

#[test]
fn a_new_file_and_one_without_attributes_say_nothing_about_them() {
    let (_directory, roots) = workspace();
    let made = call::<WriteFile>(&roots, json!({"path": "new", "content": "a"})).unwrap();
    let again = call::<WriteFile>(&roots, json!({"path": "new", "content": "b"})).unwrap();
    for answer in [made, again] {
        assert!(
            answer.get("not_kept").is_none() && answer.get("other_names").is_none(),
            "{answer}"
        );
    }
}

#[test]
fn the_other_names_of_a_file_keep_what_it_held_and_the_caller_is_told() {
    let (directory, roots) = workspace();
    let (path, other) = (directory.path().join("f"), directory.path().join("other"));
    fs::write(&path, "old").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let write = call::<WriteFile>(&roots, json!({"path": "f", "content": "a"})).unwrap();
    assert_eq!(write["other_names"], json!(1), "{write}");
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(&other).unwrap()),
        (b"a".to_vec(), b"old".to_vec())
    );
    fs::remove_file(&other).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let edit = json!({"path": "f", "old_text": "a", "new_text": "b"});
    let mut dry = edit.clone();
    dry["dry_run"] = json!(true);
    // Who only looks is told as well.
    assert_eq!(call::<EditFile>(&roots, dry).unwrap()["other_names"], json!(1));
    assert_eq!(call::<EditFile>(&roots, edit).unwrap()["other_names"], json!(1));
    assert_eq!(
        (fs::read(&path).unwrap(), fs::read(&other).unwrap()),
        (b"b".to_vec(), b"a".to_vec())
    );
    fs::remove_file(&other).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let template =
        json!({"files": [{"path": "f", "content": "c"}], "target": ".", "overwrite": true});
    let answer = call::<InjectTemplate>(&roots, template).unwrap();
    assert_eq!(answer["files"][0]["other_names"], json!(1), "{answer}");
    assert_eq!(fs::read(&other).unwrap(), b"b");
}

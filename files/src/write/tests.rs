//! Writing, in a workspace of its own: all of it or nothing, and never elsewhere.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::fixture::Workspace;
use crate::fixture::skipped::skipped;

fn input(path: &str, content: &str) -> WriteInput {
    WriteInput { path: path.into(), content: content.into(), ..WriteInput::default() }
}

fn write(workspace: &Workspace, path: &str, content: &str) -> Result<WriteOutput, FileError> {
    workspace.run::<WriteFile>(input(path, content))
}

#[test]
fn a_file_is_made_with_its_directories_and_nothing_else_is_left() {
    let workspace = Workspace::new();
    let output = write(&workspace, "a/b/c.txt", "hej\n").unwrap();
    assert_eq!((output.bytes, output.created), (4, true));
    assert_eq!((output.path.as_str(), output.sha256), ("a/b/c.txt", hash::of(b"hej\n")));
    assert_eq!(workspace.get("a/b/c.txt"), b"hej\n");
    assert_eq!(workspace.names("a/b"), ["c.txt"]);
    let output = write(&workspace, "a/b/c.txt", "").unwrap();
    assert_eq!((output.bytes, output.created), (0, false));
    assert_eq!(workspace.get("a/b/c.txt"), b"");
    assert_eq!(workspace.names("a/b"), ["c.txt"]);
    assert_eq!(std::fs::metadata(workspace.at("a/b/c.txt")).unwrap().mode() & 0o133, 0);
}

#[test]
fn mode_and_owner_are_kept_and_the_file_is_another() {
    let workspace = Workspace::new();
    workspace.put("run.sh", "old");
    let root = nix::unistd::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(workspace.at("run.sh"), Some(12345), Some(54321)).unwrap();
    }
    std::fs::set_permissions(workspace.at("run.sh"), PermissionsExt::from_mode(0o4750)).unwrap();
    let before = std::fs::metadata(workspace.at("run.sh")).unwrap();
    write(&workspace, "run.sh", "new").unwrap();
    let after = std::fs::metadata(workspace.at("run.sh")).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o750);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino());
}

#[test]
fn a_symlink_is_written_through_and_stays() {
    let workspace = Workspace::new();
    write(&workspace, "real/f", "1").unwrap();
    symlink("real/f", workspace.at("relative")).unwrap();
    symlink(workspace.at("real/f"), workspace.at("absolute")).unwrap();
    symlink("real/new", workspace.at("dangling")).unwrap();
    symlink(workspace.at("made/on/the/way"), workspace.at("far")).unwrap();
    for (link, to) in [
        ("relative", "real/f"),
        ("absolute", "real/f"),
        ("dangling", "real/new"),
        ("far", "made/on/the/way"),
    ] {
        write(&workspace, link, link).unwrap();
        assert_eq!(workspace.get(to), link.as_bytes());
        assert!(std::fs::symlink_metadata(workspace.at(link)).unwrap().is_symlink());
    }
}

#[test]
fn what_leads_out_is_refused_and_nothing_is_made() {
    let workspace = Workspace::new();
    std::fs::write(workspace.outside().join("canary"), "out").unwrap();
    symlink(workspace.outside().join("canary"), workspace.at("out")).unwrap();
    symlink(workspace.outside().join("none"), workspace.at("to-nothing")).unwrap();
    symlink("../none", workspace.at("up-to-nothing")).unwrap();
    symlink(workspace.outside(), workspace.at("directory")).unwrap();
    for path in [
        "../none",
        "../canary",
        "out",
        "to-nothing",
        "up-to-nothing",
        "directory/none",
        "directory/a/b",
        "new/../../none",
        "/none/f",
        "../new/f",
    ] {
        let error = write(&workspace, path, "x").unwrap_err();
        assert_eq!(error.fault(), Fault::PathOutsideWorkspace, "{path}");
    }
    assert_eq!(std::fs::read(workspace.outside().join("canary")).unwrap(), b"out");
    let mut names: Vec<_> = std::fs::read_dir(workspace.outside()).unwrap().collect();
    names.retain(|entry| entry.as_ref().unwrap().file_name() != "root");
    assert_eq!(names.len(), 1);
    assert_eq!(workspace.names("."), ["directory", "out", "to-nothing", "up-to-nothing"]);
}

#[test]
fn what_is_no_file_is_not_replaced_and_not_waited_for() {
    let workspace = Workspace::new();
    mkfifo(&workspace.at("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(workspace.at("directory")).unwrap();
    for path in ["pipe", "directory", "directory/", ".", "new/", "new/."] {
        assert_eq!(write(&workspace, path, "x").unwrap_err().fault(), Fault::NotAFile, "{path}");
    }
    workspace.put("f", "");
    let error = write(&workspace, "f/x", "x").unwrap_err();
    assert_eq!(error.fault(), Fault::NotADirectory);
    let error = write(&workspace, "new/../x", "x").unwrap_err();
    assert_eq!(error.fault(), Fault::FileNotFound);
    assert_eq!(workspace.names("."), ["directory", "f", "pipe"]);
    // And where one appears between the look and the writing.
    let target = WriteFile::find(&workspace.roots, input("later", "x")).unwrap();
    mkfifo(&workspace.at("later"), Mode::S_IRWXU).unwrap();
    assert_eq!(target.run(&Stop::new(None), None).unwrap_err().fault(), Fault::NotAFile);
    let target = WriteFile::find(&workspace.roots, input("link", "x")).unwrap();
    symlink("f", workspace.at("link")).unwrap();
    assert_eq!(target.run(&Stop::new(None), None).unwrap_err().fault(), Fault::NotAFile);
    assert_eq!(workspace.get("f"), b"");
}

#[test]
fn only_one_of_many_makes_a_file_that_is_only_made() {
    let workspace = Workspace::new();
    for round in 0..20 {
        let (path, made) = (format!("d{round}/f"), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (workspace, made, path) = (&workspace, &made, &path);
                scope.spawn(move || {
                    let ask = WriteInput { create_only: true, ..input(path, &format!("{thread}")) };
                    match workspace.run::<WriteFile>(ask) {
                        Ok(output) => {
                            assert!(output.created);
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.fault(), Fault::AlreadyExists),
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(workspace.names(&format!("d{round}")), ["f"]);
    }
}

#[test]
fn if_match_replaces_only_what_was_read() {
    let workspace = Workspace::new();
    workspace.put("f", "one");
    let ask = |hash: String| WriteInput { if_match: Some(hash), ..input("f", "two") };
    let error = workspace.run::<WriteFile>(ask(hash::of(b"other"))).unwrap_err();
    assert_eq!((error.fault(), workspace.get("f")), (Fault::FileChanged, b"one".to_vec()));
    workspace.run::<WriteFile>(ask(hash::of(b"one").to_uppercase())).unwrap();
    assert_eq!(workspace.get("f"), b"two");
    std::fs::remove_file(workspace.at("f")).unwrap();
    let error = workspace.run::<WriteFile>(ask(hash::of(b"two"))).unwrap_err();
    assert_eq!(error.fault(), Fault::FileChanged);
    let error = workspace.run::<WriteFile>(ask("no hash".into())).unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
    let both = WriteInput { create_only: true, ..ask(hash::of(b"")) };
    assert_eq!(workspace.run::<WriteFile>(both).unwrap_err().fault(), Fault::InvalidInput);
    assert!(workspace.names(".").is_empty());
}

#[test]
fn bytes_are_written_from_base64() {
    let workspace = Workspace::new();
    let ask = |content: &str| WriteInput { encoding: Some(ReadAs::Base64), ..input("f", content) };
    assert_eq!(workspace.run::<WriteFile>(ask("/wAB")).unwrap().bytes, 3);
    assert_eq!(workspace.get("f"), b"\xff\0\x01");
    let error = workspace.run::<WriteFile>(ask("/wA!")).unwrap_err();
    assert_eq!((error.fault(), workspace.get("f").len()), (Fault::InvalidInput, 3));
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let workspace = Workspace::new();
    let stop = Stop::new(None);
    stop.say();
    let target = WriteFile::find(&workspace.roots, input("a/b/f", "x")).unwrap();
    assert_eq!(target.run(&stop, None).unwrap_err(), FileError::Stopped);
    assert!(workspace.names(".").is_empty());
    workspace.put("f", "old");
    let long = "n".repeat(256);
    let error = write(&workspace, &format!("a/{long}"), "x").unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
    assert_eq!(workspace.names("."), ["f"]);
}

#[test]
fn a_directory_that_was_moved_after_the_rules_saw_its_name_gets_nothing() {
    let workspace = Workspace::new();
    write(&workspace, "seen/f", "old").unwrap();
    let target = WriteFile::find(&workspace.roots, input("seen/f", "new")).unwrap();
    std::fs::rename(workspace.at("seen"), workspace.at("unseen")).unwrap();
    assert_eq!(target.run(&Stop::new(None), None).unwrap_err().fault(), Fault::FileChanged);
    assert_eq!(workspace.get("unseen/f"), b"old");
    assert_eq!(workspace.names("unseen"), ["f"]);
}

#[test]
fn a_reader_sees_one_content_or_the_other_never_a_part() {
    let workspace = Workspace::new();
    let contents = ["a".repeat(300_000), "b".repeat(200_000)];
    write(&workspace, "f", &contents[0]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..100 {
                write(&workspace, "f", &contents[round % 2]).unwrap();
            }
        });
        while !writer.is_finished() {
            let seen = workspace.get("f");
            assert!(contents.iter().any(|content| content.as_bytes() == seen));
        }
    });
    assert_eq!(workspace.names("."), ["f"]);
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    if !nix::unistd::geteuid().is_root() {
        // As root, the file of another's that is read-only needs another user to show.
        let workspace = Workspace::new();
        workspace.put("f", "old");
        std::fs::set_permissions(workspace.at("f"), PermissionsExt::from_mode(0o444)).unwrap();
        let error = write(&workspace, "f", "new").unwrap_err();
        assert_eq!((error.fault(), workspace.get("f").len()), (Fault::PermissionDenied, 3));
        return;
    }
    skipped("a_file_that_may_not_be_written_is_not_replaced", "root may write every file");
}

/// A list as the kernel has it: tags, rights, ids.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn nobody_may_read_a_file_who_might_not_read_what_it_replaces() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const ALL: u32 = u32::MAX;
    let workspace = Workspace::new();
    let default = list(&[(1, 7, ALL), (2, 7, 12345), (4, 5, ALL), (0x10, 7, ALL), (0x20, 5, ALL)]);
    let name = "system.posix_acl_default";
    if setxattr(workspace.at("."), name, &default, XattrFlags::empty()).is_err() {
        return;
    }
    let acl = |path: &str| {
        let mut bytes = vec![0; 1000];
        let length = getxattr(workspace.at(path), "system.posix_acl_access", bytes.as_mut_slice());
        length.map(|length| bytes[..length].to_vec()).ok()
    };
    // One without a list gets none, though what is new there does.
    workspace.put("plain", "old");
    rustix::fs::removexattr(workspace.at("plain"), "system.posix_acl_access").unwrap();
    std::fs::set_permissions(workspace.at("plain"), PermissionsExt::from_mode(0o640)).unwrap();
    // One keeps its own, and its group what the list says.
    workspace.put("listed", "old");
    let own = list(&[(1, 6, ALL), (2, 6, 4321), (4, 0, ALL), (0x10, 6, ALL), (0x20, 0, ALL)]);
    let set =
        setxattr(workspace.at("listed"), "system.posix_acl_access", &own, XattrFlags::empty());
    set.unwrap();
    for path in ["plain", "listed"] {
        let before = (acl(path), std::fs::metadata(workspace.at(path)).unwrap().mode());
        let input = WriteInput { path: path.into(), content: "new".into(), ..Default::default() };
        let target = WriteFile::find(&workspace.roots, input).unwrap();
        target.run(&Stop::new(None), None).unwrap();
        let after = (acl(path), std::fs::metadata(workspace.at(path)).unwrap().mode());
        assert_eq!((before, workspace.get(path)), (after, b"new".to_vec()), "{path}");
    }
}

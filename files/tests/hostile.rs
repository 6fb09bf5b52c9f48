//! Trees that are made to hurt.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; not each uses all that they share"
)]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{call, files, paths, roots, write};
use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;
use serde_json::json;
use tool_files::list::ListDirectory;
use tool_files::search::SearchFiles;

#[test]
fn nothing_that_is_no_file_is_opened_or_followed() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path().join("secret"), "hit");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at.join("plain"), "hit");
    mkfifo(&at.join("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(at.join("socket")).unwrap();
    // Only root can make one.
    mknod(&at.join("zero"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).unwrap_or_default();
    symlink(".", at.join("loop")).unwrap();
    symlink("loop2", at.join("loop2")).unwrap();
    symlink(outside.path(), at.join("out")).unwrap();
    symlink(outside.path().join("secret"), at.join("secret")).unwrap();
    symlink("plain", at.join("alias")).unwrap();
    let roots = roots(at);
    let output = call::<SearchFiles>(&roots, json!({"pattern": "hit"})).unwrap();
    assert_eq!(paths(&output["results"]), ["plain"]);
    assert_eq!(files(&roots, json!({})), ["plain"]);
    assert_eq!(output["files_searched"], json!(1));
    for path in ["pipe", "socket"] {
        let error = call::<SearchFiles>(&roots, json!({"pattern": "a", "path": path})).unwrap_err();
        assert_eq!(error.fault(), tool_protocol::Fault::NotAFile);
    }
    let error = call::<SearchFiles>(&roots, json!({"pattern": "a", "path": "loop2"})).unwrap_err();
    assert_eq!(error.fault(), tool_protocol::Fault::FileNotFound);
    for path in ["out", "secret", "out/none"] {
        let error = call::<SearchFiles>(&roots, json!({"pattern": "a", "path": path})).unwrap_err();
        assert_eq!(error.fault(), tool_protocol::Fault::PathOutsideWorkspace);
    }
}

#[test]
fn names_of_any_bytes_come_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let odd: &[&[u8]] = &[b"a\nb", b"\xff\xfe", b"-rf", b"a\x1b[31m", b"a\"b", b" "];
    for name in odd {
        write(at.join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name)), "hit");
    }
    write(at.join(".gitignore"), b"\xff*\n-rf/\n\xe9\n");
    let roots = roots(at);
    // A line that is not UTF-8 leaves nothing out; the others count.
    let expected =
        [" / ", "a\u{1b}[31m/a\u{1b}[31m", "a\nb/a\nb", "a\"b/a\"b", "{\"b64\":\"//4v//4=\"}"];
    let mut found = files(&roots, json!({}));
    found.sort();
    let mut expected: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    expected.sort();
    assert_eq!(found, expected);
    // The cursor of a listing is such a name too.
    let mut input = json!({"depth": 2, "limit": 1, "gitignore": false});
    let mut count = 0;
    loop {
        let page = call::<ListDirectory>(&roots, input.clone()).unwrap();
        count += page["entries"].as_array().unwrap().len();
        match page.get("next") {
            Some(next) => input["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(count, 2 * odd.len());
}

#[test]
fn an_ignore_file_that_is_none_is_not_waited_for() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path().join("rules"), "*\n");
    write(outside.path().join("info/exclude"), "*\n");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for name in ["pipe", "link", "directory", "huge", "git", "info"] {
        write(at.join(name).join("f"), "");
    }
    mkfifo(&at.join("pipe/.gitignore"), Mode::S_IRWXU).unwrap();
    mkfifo(&at.join("pipe/.ignore"), Mode::S_IRWXU).unwrap();
    symlink(outside.path().join("rules"), at.join("link/.gitignore")).unwrap();
    std::fs::create_dir(at.join("directory/.gitignore")).unwrap();
    write(at.join("huge/.gitignore"), "*\n".repeat(600_000));
    symlink(outside.path(), at.join("git/.git")).unwrap();
    std::fs::create_dir(at.join("info/.git")).unwrap();
    symlink(outside.path().join("info"), at.join("info/.git/info")).unwrap();
    let roots = roots(at);
    let expected = ["directory/f", "git/f", "huge/f", "info/f", "link/f", "pipe/f"];
    assert_eq!(files(&roots, json!({})), expected);
    let output = call::<SearchFiles>(&roots, json!({"pattern": "x"})).unwrap();
    // Too large: it says so.
    assert_eq!(output["skipped"]["ignore_files"], json!(1));
    for path in ["pipe", "link", "huge", "git"] {
        assert_eq!(files(&roots, json!({"path": path})), [format!("{path}/f")]);
    }
}

#[test]
fn what_cannot_be_read_is_counted_and_the_rest_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..50 {
        write(at.join(format!("open{number}/f")), "hit");
        write(at.join(format!("shut{number}/f")), "hit");
        write(at.join(format!("open{number}/shut")), "hit");
        let shut = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(at.join(format!("open{number}/shut")), shut.clone()).unwrap();
        std::fs::set_permissions(at.join(format!("shut{number}")), shut).unwrap();
    }
    let roots = roots(at);
    // As root all may be read: as somebody else, on this thread and those that it begins.
    if nix::unistd::geteuid().is_root() {
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
    }
    let output = call::<SearchFiles>(&roots, json!({"pattern": "hit"})).unwrap();
    let listing = call::<ListDirectory>(&roots, json!({"depth": 3})).unwrap();
    let error =
        call::<SearchFiles>(&roots, json!({"pattern": "hit", "path": "shut1"})).unwrap_err();
    nix::unistd::setfsuid(nix::unistd::geteuid());
    assert_eq!(output["total"], json!(50));
    assert_eq!(output["skipped"]["unreadable"], json!(100));
    assert_eq!(listing["unreadable"], json!(50));
    assert_eq!(error.fault(), tool_protocol::Fault::PermissionDenied);
    for number in 0..50 {
        let open = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(at.join(format!("shut{number}")), open).unwrap();
    }
}

/// A directory, a symlink to the outside and a file change places all the time.
#[test]
fn a_directory_that_becomes_a_link_to_the_outside_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path().join("secret/secret"), "SECRET\n");
    write(outside.path().join("d/secret"), "SECRET\n");
    write(outside.path().join("f"), "SECRET\n");
    write(outside.path().join(".gitignore"), "*\n");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for number in 0..30 {
        write(at.join(format!("w/{number}/x/d/f")), "public\n");
        write(at.join(format!("w/{number}/f")), "public\n");
    }
    for number in 0..30 {
        symlink(outside.path(), at.join(format!("w/{number}/link"))).unwrap();
        symlink(outside.path().join("f"), at.join(format!("w/{number}/link.f"))).unwrap();
    }
    let roots = roots(at);
    let over = AtomicBool::new(false);
    let (mut searches, mut changed) = (0, 0);
    std::thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let mut count = 0u64;
            while !over.load(Ordering::Relaxed) {
                for number in 0..30 {
                    for (one, other) in [("x", "link"), ("f", "link.f")] {
                        let one = at.join(format!("w/{number}/{one}"));
                        let other = at.join(format!("w/{number}/{other}"));
                        let flags = RenameFlags::RENAME_EXCHANGE;
                        renameat2(nix::fcntl::AT_FDCWD, &one, nix::fcntl::AT_FDCWD, &other, flags)
                            .unwrap();
                        count += 1;
                    }
                }
            }
            count
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) || searches < 20 {
            let output =
                call::<SearchFiles>(&roots, json!({"pattern": "SECRET", "path": "w"})).unwrap();
            assert_eq!(output["results"], json!([]));
            let names = files(&roots, json!({}));
            assert!(names.iter().all(|name| !name.contains("secret")), "{names:?}");
            let listing =
                call::<ListDirectory>(&roots, json!({"depth": 9, "all": true, "limit": 10_000}))
                    .unwrap();
            let listed = paths(&listing["entries"]);
            assert!(
                listed.iter().all(|name| !name.contains("secret") && !name.contains("ignore")),
                "{listed:?}"
            );
            for path in ["w/3/x", "w/3/x/d", "w/4/link/d"] {
                let found = call::<SearchFiles>(&roots, json!({"pattern": "SECRET", "path": path}));
                assert!(found.is_err() || found.is_ok_and(|output| output["results"] == json!([])));
            }
            searches += 1;
        }
        over.store(true, Ordering::Relaxed);
        changed = attack.join().unwrap();
    });
    assert!(changed > 1000 && searches >= 20, "{changed} changes, {searches} searches");
}

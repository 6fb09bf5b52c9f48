//! `list_directory`: what it tells, and its pages.
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

use common::{Dice, call, paths, roots, stream, write};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use serde_json::{Value, json};
use tool_files::list::ListDirectory;
use tool_files::{FileError, Operation, Root, Roots, Stop, Target};
use tool_protocol::Fault;

fn list(roots: &Roots, input: Value) -> Value {
    call::<ListDirectory>(roots, input).unwrap()
}

#[test]
fn a_directory_is_listed_with_what_its_entries_are() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at.join("src/main.rs"), "12345");
    write(at.join(".gitignore"), "/out\n");
    write(at.join("out/x"), "");
    symlink("src/main.rs", at.join("in")).unwrap();
    symlink("src/../../etc", at.join("up")).unwrap();
    symlink("/etc/passwd", at.join("away")).unwrap();
    nix::unistd::mkfifo(&at.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let roots = roots(at);
    let output = list(&roots, json!({}));
    assert_eq!(output["path"], json!("."));
    let entries: Vec<_> = output["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            assert!(entry["mtime"].as_str().unwrap().ends_with('Z'));
            json!([entry["path"], entry["type"], entry["size"], entry["target"]])
        })
        .collect();
    assert_eq!(
        entries,
        [
            json!(["away", "symlink", null, null]),
            json!(["in", "symlink", null, "src/main.rs"]),
            json!(["out", "directory", null, null]),
            json!(["pipe", "other", null, null]),
            json!(["src", "directory", null, null]),
            json!(["up", "symlink", null, null]),
        ]
    );
    assert_eq!(output["has_more"], json!(false));
    let deep = list(&roots, json!({"depth": 9, "all": true}));
    let expected = [".gitignore", "away", "in", "pipe", "src", "src/main.rs", "up"];
    assert_eq!(paths(&deep["entries"]), expected);
    let all = list(&roots, json!({"depth": 2, "gitignore": false}));
    assert!(paths(&all["entries"]).contains(&"out/x".to_owned()));
    let below = list(&roots, json!({"path": "./src/"}));
    assert_eq!((&below["path"], &below["entries"][0]["size"]), (&json!("src"), &json!(5)));
    assert_eq!(paths(&below["entries"]), ["src/main.rs"]);
    let (output, pieces) = stream::<ListDirectory>(&roots, json!({}));
    assert_eq!(output["entries"].as_array().unwrap(), &pieces);
}

#[test]
fn pages_are_the_whole_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut dice = Dice(3);
    for _ in 0..150 {
        let part = |dice: &mut Dice| *dice.of(&["a", "b", "a.b", "a-", "ab", "c", "é"]);
        let (one, two, three) = (part(&mut dice), part(&mut dice), part(&mut dice));
        write(directory.path().join(format!("base/{one}/{two}/{three}.txt")), "");
    }
    let roots = roots(directory.path());
    for path in [".", "base", "base/a"] {
        for depth in [1, 2, 3, 9] {
            let input = |limit: usize| json!({"path": path, "depth": depth, "limit": limit});
            let whole = list(&roots, input(10_000));
            let mut naive = paths(&whole["entries"]);
            naive.sort_by(|one, other| one.split('/').cmp(other.split('/')));
            assert_eq!(paths(&whole["entries"]), naive);
            let whole = whole["entries"].as_array().unwrap();
            for limit in [1, 2, 7, 50] {
                let mut pages = Vec::new();
                let mut next = Value::Null;
                loop {
                    let mut input = input(limit);
                    if next != Value::Null {
                        input["after"] = next;
                    }
                    let page = list(&roots, input);
                    let entries = page["entries"].as_array().unwrap();
                    assert!(entries.len() == limit || page["has_more"] == json!(false));
                    pages.extend(entries.clone());
                    next = page["next"].clone();
                    assert_eq!(page["has_more"], json!(next != Value::Null));
                    if next == Value::Null {
                        break;
                    }
                }
                assert_eq!(&pages, whole, "{path}, depth {depth}, limit {limit}");
            }
        }
    }
}

#[test]
fn what_cannot_be_listed_says_why() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("f"), "");
    write(directory.path().join("d").join("f"), "");
    let roots = roots(directory.path());
    for (input, expected) in [
        (json!({"path": "f"}), Fault::NotADirectory),
        (json!({"path": "none"}), Fault::FileNotFound),
        (json!({"path": "/etc"}), Fault::PathOutsideWorkspace),
        (json!({"path": "../none"}), Fault::PathOutsideWorkspace),
        (json!({"depth": 0}), Fault::InvalidInput),
        (json!({"limit": 0}), Fault::InvalidInput),
        (json!({"limit": 10_001}), Fault::InvalidInput),
        // A name alone would begin the same page again and again.
        (json!({"path": "d", "after": "f"}), Fault::InvalidInput),
    ] {
        let error = call::<ListDirectory>(&roots, input.clone()).unwrap_err();
        assert_eq!(error.fault(), expected, "{input}");
    }
    let target = ListDirectory::find(&roots, serde_json::from_value(json!({})).unwrap()).unwrap();
    let late = Stop::new(Some(std::time::Instant::now()));
    assert_eq!(target.run(&late, None).unwrap_err(), FileError::TooLong);
}

/// Files with paths that take some 5 KB each in an answer, of which 1000 do not fit.
fn long_paths(at: &std::path::Path) -> usize {
    let long = "\u{1}".repeat(250);
    let files = at.join("deep").join(&long).join(&long).join(&long);
    (0..1000).for_each(|number| write(files.join(number.to_string()), ""));
    1000
}

#[test]
fn an_answer_is_bounded_however_long_paths_are_and_pages_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let count = long_paths(directory.path());
    let roots = roots(directory.path());
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    loop {
        let output = list(&roots, json!({"depth": 9, "limit": 10_000, "after": after}));
        assert!(output.to_string().len() < 5 << 20, "{}", output.to_string().len());
        seen.extend(paths(&output["entries"]));
        after = output["next"].clone();
        if output["has_more"] == json!(false) {
            break;
        }
    }
    assert_eq!(seen.len(), count + 4);
    seen.dedup();
    assert_eq!(seen.len(), count + 4);
}

#[test]
fn a_directory_that_may_be_read_and_not_gone_into_is_no_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let closed = directory.path().join("closed");
    write(closed.join("f"), "");
    mode(directory.path(), 0o755);
    mode(&closed, 0o444);
    let roots = roots(directory.path());
    // A thread that is nobody, where the others may be root.
    let listed = std::thread::scope(|scope| {
        let list = || {
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            call::<ListDirectory>(&roots, json!({"path": "closed"}))
        };
        scope.spawn(list).join().unwrap()
    });
    mode(&closed, 0o755);
    assert_eq!(listed.unwrap_err().fault(), Fault::PermissionDenied);
}

/// Its text is made without a value for each entry: it is the same as with them.
#[test]
fn a_listing_is_answered_as_serde_json_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let odd: [&[u8]; 8] = [
        b"a\"b",
        b"back\\slash",
        b"line\nfeed",
        b"\x01\x7f",
        "é€\u{10ffff}".as_bytes(),
        b"\xff",
        b"cut\xc3",
        b"plain",
    ];
    for name in odd {
        write(at.join("one").join(OsStr::from_bytes(name)), "12345");
        write(at.join("two").join(OsStr::from_bytes(name)).join("in it"), "");
    }
    for (number, target) in odd.iter().enumerate() {
        symlink(OsStr::from_bytes(target), at.join(format!("one/link{number}"))).unwrap();
    }
    let old = nix::sys::time::TimeSpec::new(-86_401, 5_000_000);
    let (plain, follow) = (at.join("one/plain"), UtimensatFlags::FollowSymlink);
    utimensat(AT_FDCWD, &plain, &old, &old, follow).unwrap();
    let both = Roots::new(vec![
        Root::open(&at.join("one")).unwrap(),
        Root::open(&at.join("two")).unwrap(),
    ]);
    let second = at.join("two").display().to_string();
    let empty = tempfile::tempdir_in(at.join("one")).unwrap();
    for (path, more) in [
        (".", json!({})),
        (&second, json!({"depth": 3})),
        (&second, json!({"limit": 3})),
        (".", json!({"limit": 5})),
        (".", json!({"depth": 2, "gitignore": false})),
    ] {
        let mut input = json!({"path": path});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let target =
            || ListDirectory::find(&both, serde_json::from_value(input.clone()).unwrap()).unwrap();
        let written = target().json(&Stop::new(None), None).unwrap();
        let output = target().run(&Stop::new(None), None).unwrap();
        assert!(output.entries.len() > 2, "{input}");
        assert_eq!(written, serde_json::to_string(&output).unwrap(), "{input}");
    }
    let name = empty.path().file_name().unwrap().to_str().unwrap();
    let nothing = || {
        ListDirectory::find(&both, serde_json::from_value(json!({"path": name})).unwrap()).unwrap()
    };
    let output = nothing().run(&Stop::new(None), None).unwrap();
    assert!(output.entries.is_empty());
    assert_eq!(
        nothing().json(&Stop::new(None), None).unwrap(),
        serde_json::to_string(&output).unwrap()
    );
}

//! Editing, in a workspace of its own: what is replaced, what is told, what is kept.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use nix::fcntl::{Flock, FlockArg};
use proptest::prelude::*;

use super::*;
use crate::fixture::Workspace;

fn edit(path: &str, old: &str, new: &str) -> EditInput {
    EditInput {
        path: path.into(),
        old_text: Some(old.into()),
        new_text: Some(new.into()),
        ..EditInput::default()
    }
}

fn several(path: &str, edits: &[(&str, &str, bool)]) -> EditInput {
    let edit = |(old, new, all): &(&str, &str, bool)| Edit {
        old_text: (*old).into(),
        new_text: (*new).into(),
        all: *all,
    };
    let edits = Some(edits.iter().map(edit).collect());
    EditInput { path: path.into(), edits, ..EditInput::default() }
}

fn run(workspace: &Workspace, input: EditInput) -> Result<EditOutput, FileError> {
    workspace.run::<EditFile>(input)
}

#[test]
fn a_text_is_replaced_and_nothing_else_changes() {
    let workspace = Workspace::new();
    workspace.put("f", "\u{feff}one\r\ntwo\r\nthree");
    std::fs::set_permissions(workspace.at("f"), PermissionsExt::from_mode(0o755)).unwrap();
    let output = run(&workspace, edit("f", "two", "2")).unwrap();
    let after = "\u{feff}one\r\n2\r\nthree".as_bytes();
    assert_eq!(workspace.get("f"), after);
    assert_eq!((output.replacements, output.lines_changed), (1, 1));
    assert_eq!((output.size_before, output.size_after), (18, 16));
    assert_eq!((output.sha256, output.diff, output.backup), (hash::of(after), None, None));
    assert_eq!(std::fs::metadata(workspace.at("f")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(workspace.names("."), ["f"]);
}

#[test]
fn several_edits_are_made_each_on_the_result_of_the_one_before_or_none() {
    let workspace = Workspace::new();
    workspace.put("f", "a b c b\n");
    let ask = several("f", &[("b", "x", true), ("a x", "y", false), ("y c", "z", false)]);
    let output = run(&workspace, ask).unwrap();
    assert_eq!((workspace.get("f"), output.replacements), (b"z x\n".to_vec(), 4));
    let ask = several("f", &[("z", "1", false), ("none", "", false), ("q", "", true)]);
    let error = run(&workspace, ask).unwrap_err();
    assert_eq!(error.fault(), Fault::TextNotFound);
    let message = error.to_string();
    assert!(message.starts_with("f: nothing was changed: edits[1]: old_text is not"), "{message}");
    assert!(message.contains("; edits[2]: old_text is not there"), "{message}");
    assert_eq!(workspace.get("f"), b"z x\n");
    let many: Vec<_> = (0..50).map(|_| ("none", "", false)).collect();
    let message = run(&workspace, several("f", &many)).unwrap_err().to_string();
    assert!(message.ends_with("; and 44 more edits") && message.len() < 600, "{message}");
}

#[test]
fn a_text_that_is_not_there_once_is_an_error_that_helps() {
    let workspace = Workspace::new();
    workspace.put("f", "x\n\tx\ny\n");
    let error = run(&workspace, edit("f", "x", "z")).unwrap_err();
    assert_eq!(error.fault(), Fault::TextNotUnique);
    assert!(error.to_string().contains("2 times, first in line 1, 2: give more"), "{error}");
    let error = run(&workspace, edit("f", "x\n    x", "z")).unwrap_err();
    assert_eq!(error.fault(), Fault::TextNotFound);
    assert!(error.to_string().contains("line 2 differs only in indentation"), "{error}");
    let all = EditInput { all: Some(true), ..edit("f", "x", "z") };
    assert_eq!(run(&workspace, all).unwrap().replacements, 2);
    assert_eq!(workspace.get("f"), b"z\n\tz\ny\n");
}

#[test]
fn input_that_says_nothing_or_two_things_is_refused() {
    let workspace = Workspace::new();
    workspace.put("f", "x");
    let both = EditInput { edits: Some(vec![]), ..edit("f", "x", "y") };
    let neither = EditInput { path: "f".into(), ..EditInput::default() };
    let half = EditInput { new_text: None, ..edit("f", "x", "y") };
    let too_many: Vec<_> = (0..=EDITS).map(|_| ("x", "y", false)).collect();
    let hash = EditInput { if_match: Some("1".into()), ..edit("f", "x", "y") };
    for ask in [
        both,
        neither,
        half,
        several("f", &[]),
        several("f", &too_many),
        hash,
        edit("f", "", "y"),
        edit("f", "x", "x"),
        several("f", &[("x", "y", false), ("", "", false)]),
    ] {
        assert_eq!(
            run(&workspace, ask.clone()).unwrap_err().fault(),
            Fault::InvalidInput,
            "{ask:?}"
        );
    }
    assert_eq!(workspace.get("f"), b"x");
}

#[test]
fn a_dry_run_shows_a_diff_and_changes_nothing() {
    let workspace = Workspace::new();
    workspace.put("f", "1\n2\n3\n4\n5\n6");
    let before = std::fs::metadata(workspace.at("f")).unwrap();
    let ask = EditInput { dry_run: true, backup: true, ..edit("f", "6", "six") };
    let output = run(&workspace, ask).unwrap();
    let diff = "--- a/f\n+++ b/f\n@@ -3,4 +3,4 @@\n 3\n 4\n 5\n-6\n\\ No newline at end of file\n\
                +six\n\\ No newline at end of file\n";
    assert_eq!(output.diff.as_deref(), Some(diff));
    assert_eq!((output.dry_run, output.size_after, output.backup), (true, 13, None));
    let after = std::fs::metadata(workspace.at("f")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(workspace.names("."), ["f"]);
    let ask = EditInput { diff: true, ..edit("f", "6", "six") };
    assert_eq!(run(&workspace, ask).unwrap().diff.as_deref(), Some(diff));
    assert_eq!(workspace.get("f"), b"1\n2\n3\n4\n5\nsix");
}

#[test]
fn a_long_diff_is_cut_at_a_lines_end_and_says_so() {
    let workspace = Workspace::new();
    workspace.put("f", "x old\n".repeat(100_000));
    let ask = EditInput { diff: true, all: Some(true), ..edit("f", "old", "new") };
    let output = run(&workspace, ask).unwrap();
    let diff = output.diff.unwrap();
    assert!(output.diff_truncated && diff.len() <= DIFF && diff.ends_with('\n'));
    assert_eq!((output.replacements, output.lines_changed), (100_000, 100_000));
}

#[test]
fn of_more_lines_than_memory_should_be_used_for_no_diff_is_made() {
    let workspace = Workspace::new();
    workspace.put("f", "\n".repeat(1_500_000) + "old");
    let ask = EditInput { diff: true, ..edit("f", "old", "new") };
    let output = run(&workspace, ask).unwrap();
    assert!(output.diff.is_none() && output.diff_truncated);
    assert_eq!(output.replacements, 1);
}

#[test]
fn a_backup_is_what_was_there_and_never_takes_anothers_place() {
    let workspace = Workspace::new();
    workspace.put("f", "old");
    std::fs::set_permissions(workspace.at("f"), PermissionsExt::from_mode(0o640)).unwrap();
    let ask = EditInput { backup: true, ..edit("f", "old", "new") };
    let target = EditFile::find(&workspace.roots, ask.clone()).unwrap();
    let names = target.names();
    assert_eq!(names[1], [names[0].as_slice(), b".orig"].concat());
    let output = target.run(&Stop::new(None), None).unwrap();
    assert_eq!(output.backup.as_deref(), Some("f.orig"));
    assert_eq!((workspace.get("f"), workspace.get("f.orig")), (b"new".to_vec(), b"old".to_vec()));
    assert_eq!(std::fs::metadata(workspace.at("f.orig")).unwrap().mode() & 0o777, 0o640);
    workspace.put("f", "old again");
    let error = run(&workspace, ask).unwrap_err();
    assert_eq!(error.fault(), Fault::AlreadyExists);
    let untouched = (workspace.get("f"), workspace.get("f.orig"));
    assert_eq!(untouched, (b"old again".to_vec(), b"old".to_vec()));
    assert_eq!(workspace.names("."), ["f", "f.orig"]);
}

#[test]
fn what_is_no_text_or_too_large_is_not_edited() {
    let workspace = Workspace::new();
    for bytes in [&b"x\0y"[..], b"x caf\xe9"] {
        workspace.put("f", bytes);
        assert_eq!(run(&workspace, edit("f", "x", "y")).unwrap_err().fault(), Fault::BinaryFile);
    }
    workspace.put("f", vec![b'a'; 16 << 20]);
    let all =
        EditInput { all: Some(true), ..edit("f", &"a".repeat(1 << 20), &"b".repeat(2 << 20)) };
    assert_eq!(run(&workspace, all).unwrap_err().fault(), Fault::FileTooLarge);
    let file = File::options().write(true).open(workspace.at("f")).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(run(&workspace, edit("f", "x", "y")).unwrap_err().fault(), Fault::FileTooLarge);
    for (path, fault) in [
        ("none", Fault::FileNotFound),
        (".", Fault::NotAFile),
        ("f/x", Fault::NotADirectory),
        ("../f", Fault::PathOutsideWorkspace),
    ] {
        assert_eq!(run(&workspace, edit(path, "x", "y")).unwrap_err().fault(), fault);
    }
}

#[test]
fn if_match_edits_only_what_was_read() {
    let workspace = Workspace::new();
    workspace.put("f", "one");
    let ask = |hash| EditInput { if_match: Some(hash), ..edit("f", "one", "two") };
    let error = run(&workspace, ask(hash::of(b"other"))).unwrap_err();
    assert_eq!((error.fault(), workspace.get("f")), (Fault::FileChanged, b"one".to_vec()));
    run(&workspace, ask(hash::of(b"one"))).unwrap();
    assert_eq!(workspace.get("f"), b"two");
}

#[test]
fn edits_at_the_same_time_are_all_made() {
    let workspace = Workspace::new();
    let text: String = (0..8).map(|number| format!("<{number}:0>\n")).collect();
    workspace.put("f", text);
    symlink("f", workspace.at("link")).unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let workspace = &workspace;
            scope.spawn(move || {
                let path = if number % 2 == 0 { "f" } else { "link" };
                for round in 0..10 {
                    let old = format!("<{number}:{round}>");
                    let new = format!("<{number}:{}>", round + 1);
                    run(workspace, edit(path, &old, &new)).unwrap();
                }
            });
        }
    });
    let expected: String = (0..8).map(|number| format!("<{number}:10>\n")).collect();
    assert_eq!(workspace.get("f"), expected.as_bytes());
}

#[test]
fn an_edit_waits_for_another_processs_lock_and_then_takes_what_has_the_name() {
    let workspace = Workspace::new();
    workspace.put("f", "one");
    let lock = File::open(workspace.at("f")).unwrap();
    // What another process's lock looks like: another open file.
    let lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
    let begun = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let (workspace, begun) = (&workspace, &begun);
        let editing = scope.spawn(move || {
            begun.wait();
            run(workspace, edit("f", "o", "0"))
        });
        begun.wait();
        workspace.put("new", "two");
        std::fs::rename(workspace.at("new"), workspace.at("f")).unwrap();
        drop(lock);
        assert!(editing.join().unwrap().is_ok());
    });
    assert_eq!(workspace.get("f"), b"tw0");
}

#[test]
fn an_edit_that_waits_in_vain_says_so_or_stops_when_it_is_told_to() {
    let workspace = Workspace::new();
    workspace.put("f", "one");
    let lock = Flock::lock(File::open(workspace.at("f")).unwrap(), FlockArg::LockExclusive);
    let error = run(&workspace, edit("f", "one", "two")).unwrap_err();
    assert_eq!(error.fault(), Fault::Broker(tool_protocol::Code::Busy));
    let stop = Stop::new(None);
    stop.say();
    let target = EditFile::find(&workspace.roots, edit("f", "one", "two")).unwrap();
    assert_eq!(target.run(&stop, None).unwrap_err(), FileError::Stopped);
    drop(lock);
    assert_eq!(workspace.get("f"), b"one");
    assert_eq!(workspace.names("."), ["f"]);
}

#[test]
fn a_change_by_others_while_it_is_edited_is_not_lost() {
    let workspace = Workspace::new();
    workspace.put("f", "one");
    let target = EditFile::find(&workspace.roots, edit("f", "one", "two")).unwrap();
    let (_, stat) =
        target.content(target.open.as_ref().unwrap().as_fd(), &Stop::new(None)).unwrap();
    assert!(target.still(&stat).is_ok());
    workspace.put("f", "another's");
    assert_eq!(target.still(&stat).unwrap_err().fault(), Fault::FileChanged);
}

#[test]
fn an_edit_that_fails_at_the_end_leaves_no_backup() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.at("d")).unwrap();
    workspace.put("d/f", "one");
    let ask = EditInput { backup: true, ..edit("d/f", "one", "two") };
    let target = EditFile::find(&workspace.roots, ask).unwrap();
    std::fs::rename(workspace.at("d"), workspace.at("e")).unwrap();
    assert_eq!(target.run(&Stop::new(None), None).unwrap_err().fault(), Fault::FileChanged);
    assert_eq!((workspace.names("e"), workspace.get("e/f")), (vec!["f".into()], b"one".to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_edited_file_is_what_a_naive_model_makes_of_it(
        text in "[ab\r\n]{1,30}", old in "[ab\r\n]{1,2}", new in "[xy\n]{0,3}") {
        let workspace = Workspace::new();
        workspace.put("f", &text);
        let ask = EditInput { all: Some(true), ..edit("f", &old, &new) };
        let (expected, there) = (text.replace(&old, &new), text.contains(&old));
        match run(&workspace, ask) {
            Ok(output) => prop_assert_eq!(output.size_after, shape::count(expected.len())),
            Err(error) => prop_assert!(!there || old == new, "{}", error),
        }
        prop_assert_eq!(workspace.get("f"), expected.as_bytes());
    }
}

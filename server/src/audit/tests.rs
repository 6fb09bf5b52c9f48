//! Tests of the audit as a whole: what is in it after any end.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;

fn options(state: &Path) -> Options {
    Options {
        stdout: false,
        state_dir: state.to_owned(),
        sync: AuditSync::Never,
        on_failure: AuditFailure::Refuse,
        max_bytes: 1 << 30,
        keep: 0,
    }
}

fn open_in(state: &Path) -> Audit {
    Audit::open(options(state)).unwrap().0
}

fn draft(call_id: &str, args: &[&[u8]]) -> Draft {
    let peer = Peer { socket: "/run/tool.sock", uid: 1000, gid: 100 };
    let received = SystemTime::UNIX_EPOCH + Duration::from_micros(1);
    let cwd = Some(&b"/workspace/x"[..]);
    let asked = Asked { call_id, tool: b"git", cwd, peer, received };
    Draft::new(&asked, args.iter().copied())
}

const EXITED: Ended<'static> = Ended {
    end: End::Exited,
    exit_code: Some(3),
    signal: None,
    code: None,
    duration: Some(Duration::from_micros(1500)),
    bytes: Passed { stdin: None, stdout: Some(0), stderr: Some(7) },
};

fn call(audit: &Audit, call_id: &str) {
    let open = audit.begin(draft(call_id, &[b"status"]), &Decided::default()).unwrap();
    audit.end(open, &EXITED);
}

/// The lines that can be read, in all files, in their order.
fn lines(state: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for mut part in parts(&directory(state)).unwrap() {
        let mut lines = Forward::new(part.open().unwrap().unwrap());
        while let (Piece::Line, line) = lines.next().unwrap() {
            found.push(serde_json::from_slice(line).unwrap());
        }
    }
    found
}

/// How each call ended, in the order of the lines.
fn ends(state: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lines(state).iter().map(|line| (text(&line["call_id"]), text(&line["ended"]))).collect()
}

fn own(ends: &[(&str, &str)]) -> Vec<(String, String)> {
    ends.iter().map(|(call, end)| ((*call).to_owned(), (*end).to_owned())).collect()
}

#[test]
fn a_line_says_all_that_is_known() {
    let base = tempfile::tempdir().unwrap();
    let audit = open_in(base.path());
    let facts = [
        ("force", Fact::Flag(true)),
        ("remote", Fact::Texts(vec![b"origin", b"\xff"])),
        ("ref", Fact::Unknown),
    ];
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    let decided = Decided {
        confined: Some("landlock"),
        directory: Some(b"/srv/x"),
        definition: Some("abc"),
        decision: Some("allow"),
        rule: Some("push-force"),
        at: Some((b"/t/git/tool.toml", 12)),
        mode: Some("observe"),
        would: Some("deny"),
        facts: &facts,
        approval: Some(Approval { id: "7f", by_uid: 0, at, until: None, granted: true }),
        waited: Some(Duration::from_micros(2_000_001)),
    };
    let open = audit.begin(draft("a-1", &[b"push", b"\x1b[2J\n"]), &decided).unwrap();
    assert_eq!(audit.state().open, 1);
    audit.end(open, &EXITED);
    let wanted = json!({
        "seq": 1, "time": "1970-01-01T00:00:00.000001Z", "call_id": "a-1", "tool": "git",
        "argv": ["git", "push", "\u{1b}[2J\n"], "cwd": "/workspace/x",
        "peer": {"socket": "/run/tool.sock", "uid": 1000, "gid": 100},
        "directory": "/srv/x", "definition": "abc", "decision": "allow", "rule": "push-force",
        "at": "/t/git/tool.toml:12", "mode": "observe", "would": "deny", "confined": "landlock",
        "facts": {"force": true, "remote": ["origin", {"b64": "/w=="}], "ref": null},
        "approval": {"id": "7f", "by_uid": 0, "granted": true, "at": "1970-01-02T00:00:00.000000Z", "until": null},
        "waited_ms": 2000.001, "duration_ms": 1.5,
        "stdin_bytes": null, "stdout_bytes": 0, "stderr_bytes": 7,
        "ended": "exited", "exit_code": 3, "signal": null, "code": null,
        "prev": "0".repeat(64),
    });
    assert_eq!(lines(base.path()), [wanted]);
    let sound = verify(&directory(base.path()), None).unwrap();
    assert_eq!((sound.lines, sound.head), (1, audit.state().head));
}

#[test]
fn arguments_are_whole_up_to_a_bound_and_beyond_it_what_is_missing_is_told() {
    let base = tempfile::tempdir().unwrap();
    let audit = open_in(base.path());
    let line = |args: &[&[u8]]| {
        audit.refused(draft("x", args), &Decided::default(), &EXITED);
        lines(base.path()).pop().unwrap()
    };
    let whole = vec![b'w'; 65_000];
    let value = line(&[&whole]);
    assert_eq!(value["argv"][1].as_str().map(str::len), Some(65_000));
    assert_eq!((value.get("argv_omitted"), value.get("argv_sha256")), (None, None));

    let long = "é".repeat(40_000);
    let value = line(&[long.as_bytes(), b"--force"]);
    assert_eq!(value["argv"][1], json!({"begins": "é".repeat(512), "bytes": 80_000}));
    assert_eq!(value["argv"][2], json!("--force"));
    assert_eq!(value["argv_omitted"], json!({"words": 0, "bytes": 0}));
    let all = format!("git\0{long}\0--force");
    assert_eq!(
        value["argv_sha256"].as_str(),
        std::str::from_utf8(&read::hash(all.as_bytes())).ok()
    );

    // What comes last is told however much comes first.
    let mut many: Vec<&[u8]> = vec![b"\xff"; 100_000];
    many.push(b"--force");
    let value = line(&many);
    let argv = value["argv"].as_array().unwrap();
    assert_eq!(argv.last(), Some(&json!("--force")));
    assert_eq!(argv.iter().filter(|word| **word == json!({"omitted": true})).count(), 1);
    let left = argv.len() - 2;
    assert_eq!(value["argv_omitted"], json!({"words": 100_001 - left, "bytes": 100_001 - left}));

    let none: Vec<&[u8]> = vec![b""; 131_072];
    let value = line(&none);
    assert_eq!(value["argv_omitted"]["bytes"], json!(0));
    let size = fs::metadata(directory(base.path()).join("audit.jsonl")).unwrap().len();
    assert!(size < 4 * u64::try_from(read::LONGEST).unwrap(), "{size}");
    verify(&directory(base.path()), None).unwrap();
}

#[test]
fn a_call_that_a_killed_server_has_left_is_interrupted_once() {
    let base = tempfile::tempdir().unwrap();
    let audit = open_in(base.path());
    call(&audit, "done");
    let left = audit.begin(draft("left", &[]), &Decided::default()).unwrap();
    call(&audit, "later");
    drop((left, audit));
    for round in 0..3 {
        let (audit, recovered) = Audit::open(options(base.path())).unwrap();
        assert_eq!(recovered.interrupted, usize::from(round == 0));
        assert_eq!(
            ends(base.path()),
            own(&[("done", "exited"), ("later", "exited"), ("left", "interrupted")])
        );
        assert_eq!(audit.state().open, 0);
    }
    // A later call of the same name is another one.
    let audit = open_in(base.path());
    let left = audit.begin(draft("left", &[]), &Decided::default()).unwrap();
    drop((left, audit));
    let (_, recovered) = Audit::open(options(base.path())).unwrap();
    assert_eq!(recovered, Recovered { interrupted: 1, torn: 0 });
    assert_eq!(ends(base.path()).len(), 4);
    verify(&directory(base.path()), None).unwrap();
}

/// Every state of the two files that a kill can leave, byte by byte: writes are
/// in one order, and of the last one there may be a part.
#[test]
fn after_a_kill_at_any_byte_each_call_is_there_once_and_no_line_is_torn() {
    let base = tempfile::tempdir().unwrap();
    let (audit_file, journal_file) =
        (directory(base.path()).join("audit.jsonl"), directory(base.path()).join("open.jsonl"));
    let audit = open_in(base.path());
    let sizes = || [&audit_file, &journal_file].map(|path| fs::metadata(path).unwrap().len());
    // What is on the disk after each write, and which calls have been accepted.
    let mut states = vec![(sizes(), Vec::new())];
    let mut open = Vec::new();
    let mut accepted = Vec::new();
    for step in [Ok("a"), Ok("b"), Err(1), Ok("c"), Err(0), Err(0), Ok("d")] {
        match step {
            Ok(name) => {
                open.push(audit.begin(draft(name, &[]), &Decided::default()).unwrap());
                accepted.push(name);
            }
            Err(index) => audit.end(open.remove(index), &EXITED),
        }
        states.push((sizes(), accepted.clone()));
    }
    let whole = [fs::read(&audit_file).unwrap(), fs::read(&journal_file).unwrap()];
    drop((audit, open));
    let mut looked = 0;
    for pair in states.windows(2) {
        let [(from, before), (to, after)] = pair else { unreachable!() };
        // Either of the two was written; not every byte, but those at the ends.
        let some = |from: u64, to: u64| {
            (from..=to).filter(move |at| at % 13 == 0 || at.abs_diff(from).min(at.abs_diff(to)) < 4)
        };
        for cut in some(from[0], to[0]).flat_map(|a| some(from[1], to[1]).map(move |j| [a, j])) {
            let new = tempfile::tempdir().unwrap();
            let place = directory(new.path());
            files::make_directory(&place).unwrap();
            for (name, (bytes, length)) in
                ["audit.jsonl", "open.jsonl"].iter().zip(whole.iter().zip(cut))
            {
                fs::write(place.join(name), &bytes[..usize::try_from(length).unwrap()]).unwrap();
            }
            let written = cut == *to;
            let (_, recovered) = Audit::open(options(new.path())).unwrap();
            assert_eq!(recovered.torn == 0, cut == *from || written, "{cut:?}");
            let mut calls: Vec<String> =
                ends(new.path()).into_iter().map(|(call, _)| call).collect();
            calls.sort();
            assert_eq!(&calls, if written { after } else { before }, "{cut:?}");
            verify(&place, None).unwrap();
            looked += 1;
        }
    }
    assert!(looked > 200, "{looked}");
}

/// And killed again while it recovers: any beginning of what it writes.
#[test]
fn a_recovery_that_is_killed_at_any_byte_is_gone_on_with() {
    let base = tempfile::tempdir().unwrap();
    let audit = open_in(base.path());
    call(&audit, "done");
    let left: Vec<Open> = ["a", "b", "c"]
        .map(|name| audit.begin(draft(name, &[]), &Decided::default()).unwrap())
        .into_iter()
        .collect();
    drop((audit, left));
    let place = directory(base.path());
    let journal = fs::read(place.join("open.jsonl")).unwrap();
    let before = fs::metadata(place.join("audit.jsonl")).unwrap().len();
    drop(open_in(base.path()));
    let after = fs::read(place.join("audit.jsonl")).unwrap();
    let wanted = own(&[
        ("done", "exited"),
        ("a", "interrupted"),
        ("b", "interrupted"),
        ("c", "interrupted"),
    ]);
    for length in (usize::try_from(before).unwrap()..=after.len()).step_by(3) {
        fs::write(place.join("audit.jsonl"), &after[..length]).unwrap();
        fs::write(place.join("open.jsonl"), &journal).unwrap();
        drop(open_in(base.path()));
        assert_eq!(ends(base.path()), wanted, "{length}");
        verify(&place, None).unwrap();
    }
}

/// A kill between the steps of a rotation.
#[test]
fn a_rotation_that_is_killed_leaves_the_chain_whole() {
    let base = tempfile::tempdir().unwrap();
    let place = directory(base.path());
    let audit = open_in(base.path());
    call(&audit, "a");
    let left = audit.begin(draft("left", &[]), &Decided::default()).unwrap();
    call(&audit, "b");
    drop((left, audit));
    // The new file is made; then the old one has got its other name.
    fs::write(place.join("audit.jsonl.new"), "").unwrap();
    fs::write(place.join("open.jsonl.new"), "half of an ent").unwrap();
    fs::rename(place.join("audit.jsonl"), place.join(files::rotated(1))).unwrap();
    let audit = open_in(base.path());
    call(&audit, "c");
    assert_eq!(
        ends(base.path()),
        own(&[("a", "exited"), ("b", "exited"), ("left", "interrupted"), ("c", "exited")])
    );
    let mut names: Vec<_> =
        fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit-000000000001.jsonl", "audit.jsonl", "open.jsonl"]);
    assert_eq!(verify(&place, None).unwrap().files, 2);
}

#[test]
fn the_chain_goes_on_over_rotations_and_old_files_go() {
    let base = tempfile::tempdir().unwrap();
    let place = directory(base.path());
    let small = Options { max_bytes: 2000, keep: 3, ..options(base.path()) };
    let audit = Audit::open(small.clone()).unwrap().0;
    let left = audit.begin(draft("left", &[]), &Decided::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let audit = &audit;
            scope.spawn(move || (0..100).for_each(|n| call(audit, &format!("{thread}-{n}"))));
        }
    });
    assert_eq!(audit.state().seq, 800);
    drop((left, audit));
    // What is to be removed is removed beside, or at the next start.
    let (audit, recovered) = Audit::open(small).unwrap();
    assert_eq!(recovered.interrupted, 1);
    let removed = || files::complete(&place).unwrap().len() <= 3;
    let start = std::time::Instant::now();
    while !removed() {
        assert!(start.elapsed() < Duration::from_secs(120), "files too many stay");
        std::thread::yield_now();
    }
    let sound = verify(&place, Some(&audit.state().head)).unwrap();
    assert!(sound.first > 1 && sound.last == 801, "{sound:?}");
    for (_, path) in files::complete(&place).unwrap() {
        assert!(fs::metadata(path).unwrap().len() <= 2000);
    }
}

#[test]
fn the_journal_stays_short_while_a_call_goes_on() {
    let base = tempfile::tempdir().unwrap();
    let audit = open_in(base.path());
    let args: Vec<&[u8]> = vec![b"word"; 2000];
    let left = audit.begin(draft("left", &args), &Decided::default()).unwrap();
    for n in 0..400 {
        let open = audit.begin(draft(&n.to_string(), &args), &Decided::default()).unwrap();
        audit.end(open, &EXITED);
        let length = fs::metadata(directory(base.path()).join("open.jsonl")).unwrap().len();
        assert!(length < 1_100_000, "{length}");
    }
    drop((left, audit));
    assert_eq!(Audit::open(options(base.path())).unwrap().1.interrupted, 1);
    assert_eq!(ends(base.path()).last().unwrap().0, "left");
}

#[test]
fn what_was_changed_is_found_where_it_was_changed() {
    let base = tempfile::tempdir().unwrap();
    let place = directory(base.path());
    let audit = Audit::open(Options { max_bytes: 1500, ..options(base.path()) }).unwrap().0;
    (0..9).for_each(|n| call(&audit, &n.to_string()));
    let head = audit.state().head;
    drop(audit);
    let current = place.join("audit.jsonl");
    let complete: Vec<_> = files::complete(&place).unwrap();
    assert!(complete.len() > 2);
    let second = &complete[1].1;
    let text = fs::read_to_string(second).unwrap();
    let all: Vec<&str> = text.lines().collect();
    let fault = |path: &Path, lines: &[&str], head: Option<&str>| {
        let before = fs::read(path).unwrap();
        fs::write(path, lines.iter().flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
        let found = verify(&place, head).map(|_| ()).map_err(|fault| fault.to_string());
        fs::write(path, before).unwrap();
        found.map_err(|text| text.replace(&format!("{}/", place.display()), ""))
    };
    let name = second.file_name().unwrap().to_str().unwrap();
    let first = complete[1].0;
    let edited = all[1].replace("\"exit_code\":3", "\"exit_code\":0");
    assert_ne!(edited, all[1]);
    let message = fault(second, &[all[0], &edited], None).unwrap_err();
    assert!(message.starts_with(&format!("{name}:2: line {}", first + 1)), "{message}");
    let message = fault(second, &[all[1]], None).unwrap_err();
    assert!(
        message.starts_with(&format!("{name}:1: is line {} where {first}", first + 1)),
        "{message}"
    );
    let message = fault(second, &[all[1], all[0]], None).unwrap_err();
    assert!(message.starts_with(&format!("{name}:1: is line")), "{message}");
    let message = fault(second, &[all[0], all[0], all[1]], None).unwrap_err();
    assert!(message.starts_with(&format!("{name}:2: is line {first} where")), "{message}");
    let message = fault(second, &[all[0], "{\"seq\":1}", all[1]], None).unwrap_err();
    assert!(message.starts_with(&format!("{name}:2: is no line of the audit")), "{message}");
    let raw = all[1].replace("status", "stat\u{9b}us");
    let message = fault(second, &[all[0], &raw], None).unwrap_err();
    assert!(message.starts_with(&format!("{name}:2: is no line of the audit")), "{message}");
    // The last line has nothing behind it: only a digest that was noted tells.
    let text = fs::read_to_string(&current).unwrap();
    let last: Vec<&str> = text.lines().collect();
    let without = &last[..last.len() - 1];
    assert_eq!(fault(&current, without, None), Ok(()));
    let message = fault(&current, without, Some(&head)).unwrap_err();
    assert!(message.contains(&head) && message.contains("gone"), "{message}");
    assert_eq!(verify(&place, Some(&head)).unwrap().lines, 9);
    let message = fault(&complete[0].1, &[], None).map(|()| "whole");
    // The first file may be gone: its room was needed.
    assert_eq!(message, Ok("whole"));
    fs::remove_file(second).unwrap();
    assert!(verify(&place, None).unwrap_err().to_string().contains("are gone"));
}

/// Lines of power cuts and of other hands: the server goes on behind them.
#[test]
fn a_server_starts_whatever_the_files_hold() {
    for (audit_text, journal) in [
        (&b"\0\0\0\0"[..], &b"\0\0\0\n\0"[..]),
        (b"nonsense\n", b"nonsense\n{\"after\":0,\"call_id\":\"x\"}\n"),
        (b"{\"seq\":18446744073709551615,\"prev\":\"\"}\n", b"{\"after\":18446744073709551615}\n"),
        (b"\n\n\n", b"\n"),
    ] {
        let base = tempfile::tempdir().unwrap();
        let place = directory(base.path());
        files::make_directory(&place).unwrap();
        fs::write(place.join("audit.jsonl"), audit_text).unwrap();
        fs::write(place.join("open.jsonl"), journal).unwrap();
        let audit = open_in(base.path());
        call(&audit, "new");
        let text = fs::read_to_string(place.join("audit.jsonl")).unwrap();
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(line["call_id"], json!("new"), "{text}");
    }
}

/// Not a test: what a call costs. `cargo test --release -p tool-server -- --ignored cost`
#[test]
#[ignore = "a measurement, on the directory that AUDIT_COST names"]
fn cost_of_a_call() {
    let place = std::env::var_os("AUDIT_COST").map_or_else(std::env::temp_dir, Into::into);
    let base = tempfile::tempdir_in(place).unwrap();
    for sync in [AuditSync::Never, AuditSync::Seconds, AuditSync::Each] {
        let state = base.path().join(format!("{sync:?}"));
        fs::create_dir(&state).unwrap();
        let audit =
            Audit::open(Options { sync, max_bytes: 64 << 20, ..options(&state) }).unwrap().0;
        let calls = if sync == AuditSync::Each { 300 } else { 50_000 };
        let mut took: Vec<Duration> = (0..calls)
            .map(|n| {
                let start = std::time::Instant::now();
                call(&audit, &format!("01234567-{n}"));
                start.elapsed()
            })
            .collect();
        took.sort();
        let at = |part: usize| took[calls * part / 1000];
        println!(
            "{sync:?}: median {:?}, p90 {:?}, p99 {:?}, p99.9 {:?}",
            at(500),
            at(900),
            at(990),
            at(999)
        );
    }
}

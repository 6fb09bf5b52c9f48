//! What is on disk when a call with JSON that writes is answered: nothing that has to be,
//! or all of it, as `agent.durable` says.

mod audit_help;

use std::fs;

use audit_help::Strace;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, eventually, skipped};

fn call(server: &Server, tool: &str, input: &Value) -> Value {
    server.connect().call(&json!({"tool": tool, "input": input, "id": 1}))
}

/// A server, a file, and a thread for files that is there.
fn server(durable: &str) -> Server {
    let server = Server::start(|s| s.env("TOOL_AGENT_DURABLE", durable));
    let wrote = call(&server, "write_file", &json!({"path": "f", "content": "one\n"}));
    assert_eq!(wrote["success"], json!(true), "{wrote}");
    rested(&server);
    server
}

/// The numbers of its threads that are not for files, as they begin a line of a trace.
fn others(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads");
    let is_other = |path: &std::path::Path| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() != "files")
    };
    let tasks = tasks.flatten().map(|task| task.path()).filter(|path| is_other(path));
    tasks.map(|path| format!("{} ", path.file_name().expect("a number").display())).collect()
}

/// Waits until no thread for files has work: one that has just answered is not free yet, and
/// another is started in its place, which nobody traces.
fn rested(server: &Server) {
    let tasks = format!("/proc/{}/task", server.pid());
    eventually("the threads for files sleep", || {
        let tasks = fs::read_dir(&tasks).expect("the server's threads").flatten();
        let stats = tasks.map(|task| fs::read_to_string(task.path().join("stat")));
        stats.flatten().filter(|stat| stat.contains("(files)")).all(|stat| stat.contains(") S "))
    });
}

#[test]
fn what_is_written_is_made_to_last_only_where_the_setting_says_so() {
    let test = "what_is_written_is_made_to_last_only_where_the_setting_says_so";
    let edit = json!({"path": "f", "old_text": "one", "new_text": "two"});
    let write = json!({"path": "new/g", "content": "text"});
    let template = json!({"target": "t", "files": [{"path": "a", "content": "b"}]});
    let works = [("edit_file", edit), ("write_file", write), ("inject_template", template)];
    for durable in ["true", "false"] {
        let server = server(durable);
        for (tool, input) in &works {
            let log = server.path(tool);
            let calls = "fsync,fdatasync,sync_file_range,linkat,renameat,renameat2";
            let others = others(&server);
            // What is done later may be by a thread that is new.
            let Some(strace) = Strace::follow(server.pid(), calls, &log) else {
                return skipped(test, "strace is not here, or may not trace");
            };
            rested(&server);
            let done = call(&server, tool, input);
            assert_eq!(done["success"], json!(true), "{tool}: {done}");
            let seen = || -> Vec<String> {
                let text = fs::read_to_string(&log).expect("the trace");
                let word = |line: &str| {
                    let call = line.split('(').next().unwrap_or_default();
                    let call = call.split_whitespace().last().unwrap_or_default();
                    match call {
                        "linkat" | "renameat" | "renameat2" => "name".to_owned(),
                        call => call.to_owned(),
                    }
                };
                let of_files = |line: &&str| !others.iter().any(|other| line.starts_with(other));
                let calls = text.lines().filter(|line| line.contains('(')).filter(of_files);
                let calls = calls.map(word);
                let mut calls: Vec<String> = calls.collect();
                // What had no name has one of its own before it takes another's.
                calls.dedup_by(|one, other| one == other && one == "name");
                calls
            };
            // Content, name, directory; where directories are made, theirs come first.
            // What replaces something is written out all the same, a moment after the answer.
            let whole = match (durable, *tool) {
                ("true", _) => &["fsync", "name", "fsync"][..],
                (_, "edit_file") => &["name", "sync_file_range"][..],
                _ => &["name"][..],
            };
            let is_whole = |seen: &[String]| {
                seen.len() >= whole.len()
                    && seen.iter().rev().zip(whole.iter().rev()).all(|(one, other)| one == other)
            };
            eventually("the call is in the trace", || is_whole(&seen()));
            let made = seen().len() - whole.len();
            assert_eq!(made > 0, durable == "true" && *tool != "edit_file", "{tool}: {:?}", seen());
            drop(strace);
            rested(&server);
        }
    }
}

#[test]
fn what_was_left_is_written_out_before_a_server_that_is_stopped_ends() {
    let test = "what_was_left_is_written_out_before_a_server_that_is_stopped_ends";
    let server = server("false");
    let log = server.path("strace");
    let calls = "sync_file_range,exit_group";
    let Some(_strace) = Strace::follow(server.pid(), calls, &log) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    let mut caller = server.connect();
    let edit = json!({"path": "f", "old_text": "one", "new_text": "two"});
    let done = caller.call(&json!({"tool": "edit_file", "input": edit, "id": 1}));
    assert_eq!(done["success"], json!(true), "{done}");
    drop(caller);
    let _setup = server.stop(Signal::SIGTERM);
    eventually("the server has ended", || trace(&log).contains("exit_group("));
    let text = trace(&log);
    assert_eq!(text.matches("sync_file_range(").count(), 1, "{text}");
}

fn trace(log: &std::path::Path) -> String {
    fs::read_to_string(log).expect("the trace")
}

/// What the audit promises of a call: `broker/operate/trip.rs` notes it on the thread that
/// then does it, and records its end there before it answers.
#[test]
fn a_call_is_in_the_journal_before_it_changes_anything() {
    let test = "a_call_is_in_the_journal_before_it_changes_anything";
    let server = server("false");
    let log = server.path("strace");
    let calls = "pwrite64,renameat,renameat2,sendto";
    let Some(_strace) = Strace::trace(server.pid(), &["files"], calls, &log) else {
        return skipped(test, "strace is not here, or may not trace");
    };
    rested(&server);
    let edit = json!({"path": "f", "old_text": "one", "new_text": "two"});
    let done = call(&server, "edit_file", &edit);
    assert_eq!(done["success"], json!(true), "{done}");
    let lines = || -> Vec<String> {
        let text = fs::read_to_string(&log).expect("the trace");
        text.lines().filter(|line| line.contains('(')).map(str::to_owned).collect()
    };
    eventually("the call is in the trace", || lines().len() >= 4);
    let lines = lines();
    let begins = |at: usize, word: &str| lines.get(at).is_some_and(|line| line.contains(word));
    assert!(begins(0, "pwrite64(") && begins(0, r#"{\"after\":"#), "{lines:?}");
    assert!(begins(1, "renameat"), "{lines:?}");
    assert!(begins(2, "pwrite64(") && begins(2, r#"{\"seq\":"#), "{lines:?}");
    assert!(begins(3, "sendto(") && lines.len() == 4, "{lines:?}");
}

#[test]
fn what_has_its_name_and_may_not_last_is_told_as_such() {
    let test = "what_has_its_name_and_may_not_last_is_told_as_such";
    let server = server("true");
    let edit = |from: &str, to: &str| {
        let input = json!({"path": "f", "old_text": from, "new_text": to, "backup": true});
        let said = call(&server, "edit_file", &input);
        assert_eq!(said["success"], json!(false), "{said}");
        assert_eq!(said["error"]["code"], json!("WRITE_ERROR"), "{said}");
        said["error"]["message"].as_str().expect("a message").to_owned()
    };
    let held = |name: &str| fs::read_to_string(server.ws().join(name)).ok();
    // The backup's content, the file's, and the directory.
    let fails =
        |when: u32| Strace::of(server.pid(), &["files"], &format!("fsync:error=EIO:when={when}"));
    for early in [1, 2] {
        let Some(_strace) = fails(early) else {
            return skipped(test, "strace is not here, or may not trace");
        };
        rested(&server);
        let message = edit("one", "two");
        assert!(!message.contains("was written"), "{message}");
        assert_eq!((held("f").as_deref(), held("f.orig")), (Some("one\n"), None));
    }
    rested(&server);
    let _strace = fails(3).expect("strace was here before");
    rested(&server);
    let message = edit("one", "two");
    assert!(message.contains("was written, all of it, but may not be on disk"), "{message}");
    assert_eq!((held("f").as_deref(), held("f.orig").as_deref()), (Some("two\n"), Some("one\n")));
    let names = fs::read_dir(server.ws()).expect("the workspace").count();
    assert_eq!(names, 2, "something is left behind");
}

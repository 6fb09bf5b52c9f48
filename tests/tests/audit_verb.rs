//! `tool-server audit`: it shows, filters, follows, and says why it cannot.

mod audit_help;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use audit_help::{directory, files, head, lines, raw_lines, verb};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, is_root, run, skipped};

/// Rows of the table, without its heading.
fn rows(setup: &Setup, words: &[&str]) -> Vec<String> {
    let said = verb(setup, words).success();
    let mut rows = said.lines().map(str::to_owned);
    assert!(rows.next().is_some_and(|heading| heading.starts_with("TIME")), "{said}");
    rows.collect()
}

#[test]
fn the_verb_shows_and_filters_without_a_server() {
    let server = Server::start(|s| {
        s.env("TOOL_AUDIT_MAX_BYTES", "3000");
        s.env("TOOL_AUDIT_KEEP", "0");
        s.tool("echo", "binary = \"/bin/echo\"\n");
        s.tool("never", "binary = \"/bin/true\"\ndefault = \"deny\"\n");
    });
    for call in 0..60 {
        run(server.client("echo").arg(format!("number {call}")), b"").success();
    }
    run(&mut server.client("never"), b"").refused(126);
    let wire =
        server.connect().call(&json!({"tool":"sh","args":["-c","exit 9"],"cwd":server.ws()}));
    let setup = server.stop(Signal::SIGTERM);
    let id = wire["call_id"].as_str().map_or_else(
        || lines(&setup).pop().expect("a line")["call_id"].as_str().expect("an id").to_owned(),
        str::to_owned,
    );
    let shown = rows(&setup, &[]);
    assert_eq!(shown.len(), 50);
    assert!(
        shown[49].contains("exit 9") && shown[49].contains("sh -c \"exit 9\""),
        "{}",
        shown[49]
    );
    assert!(shown[47].contains("echo \"number 59\""), "{}", shown[47]);
    assert!(shown[0].contains("echo \"number 12\""), "{}", shown[0]);
    assert_eq!(rows(&setup, &["-n", "2"]), shown[48..]);
    assert_eq!(rows(&setup, &["-n", "0"]).len(), 0);
    assert_eq!(rows(&setup, &["-n", "1000"]).len(), 62);
    assert_eq!(rows(&setup, &["--decision", "deny"]), shown[48..49]);
    assert_eq!(rows(&setup, &["--tool", "never,sh"]), shown[48..]);
    assert_eq!(rows(&setup, &["--tool", "echo", "-n", "1"]), shown[47..48]);
    assert_eq!(rows(&setup, &["--ended", "refused", "--rule", "default"]), shown[48..49]);
    assert_eq!(rows(&setup, &["--rule", "another"]).len(), 0);
    assert_eq!(rows(&setup, &["--call", &id]), shown[49..]);
    assert_eq!(rows(&setup, &["--since", "1h", "-n", "100"]).len(), 62);
    assert_eq!(rows(&setup, &["--until", "1h"]).len(), 0);
    // As they are, all of them.
    let said = verb(&setup, &["--json"]).success();
    assert_eq!(said.lines().collect::<Vec<_>>(), raw_lines(&setup));
    assert_eq!(verb(&setup, &["--json", "-n", "1", "--tool", "sh"]).success().lines().count(), 1);
    for wrong in [
        &["--since", "soon"][..],
        &["--decision", "maybe"],
        &["--ended", "x"],
        &["-n", "x"],
        &["--head", "0"],
    ] {
        assert_eq!(verb(&setup, wrong).code(), Some(2), "{wrong:?}");
    }
    // A line that is being written, or was torn, is left out and no fault.
    let mut current = fs::read(directory(&setup).join("audit.jsonl")).expect("the file");
    current.extend_from_slice(b"{\"seq\":63,\"ti");
    fs::write(directory(&setup).join("audit.jsonl"), current).expect("write");
    assert_eq!(rows(&setup, &["-n", "1"]), shown[49..]);
    assert_eq!(verb(&setup, &["--json"]).success(), said);
    assert!(verb(&setup, &["--verify"]).success().contains("13 bytes of a line"), "not told");
    let server = Server::start_in(setup);
    assert_eq!(raw_lines(&server).len(), 62);
    head(&server);
}

#[test]
fn the_verb_says_in_one_line_why_it_cannot_read() {
    let setup = Setup::new();
    let line = |said: tool_broker_tests::Outcome| {
        assert_eq!((said.code(), said.out().as_str()), (Some(1), ""), "{said:?}");
        assert_eq!(said.err().lines().count(), 1, "{said:?}");
        said.err()
    };
    for words in [&[][..], &["--json"], &["--verify"], &["--follow"]] {
        let said = line(verb(&setup, words));
        assert!(said.contains("STATE_DIR") && said.contains("state/audit"), "{said}");
    }
    if !is_root() {
        return skipped(
            "the_verb_says_in_one_line_why_it_cannot_read",
            "another user is needed: not root",
        );
    }
    let server = Server::start_in(setup);
    let mut command = server.verb(&["audit"]);
    let program = server.reachable(std::path::Path::new(command.get_program()));
    let mut other = server.command(&program);
    std::os::unix::process::CommandExt::uid(other.arg("audit"), 65_534);
    let said = line(run(&mut other, b""));
    assert!(said.contains("ermission") && said.contains("as root"), "{said}");
    assert_eq!(run(&mut command, b"").code(), Some(0));
}

#[test]
fn the_verb_follows_from_file_to_file() {
    let server = Server::start(|s| {
        s.env("TOOL_AUDIT_MAX_BYTES", "2000");
        s.env("TOOL_AUDIT_KEEP", "0");
    });
    let call = |n: usize| {
        run(server.client("sh").args(["-c", "true", &format!("call-{n}")]), b"").success();
    };
    (0..7).for_each(call);
    let mut follow = server.verb(&["audit", "--json", "-n", "2", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("tool-server audit");
    let said = BufReader::new(follow.stdout.take().expect("stdout"));
    let (send, receive) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        // Ends with the test's last word: then nobody reads any more.
        for line in said.lines() {
            let value: Value = serde_json::from_str(&line.expect("text")).expect("a line");
            let word = value["argv"][3].as_str().expect("a word").to_owned();
            let last = word == "call-99";
            send.send(word).expect("somebody listens");
            if last {
                return;
            }
        }
    });
    let next = || receive.recv_timeout(tool_broker_tests::PATIENCE).expect("the next line");
    assert_eq!((next(), next()), ("call-5".to_owned(), "call-6".to_owned()));
    for n in 7..100 {
        call(n);
        // As they come, and many between two looks.
        if n < 12 {
            assert_eq!(next(), format!("call-{n}"));
        }
    }
    for n in 12..100 {
        assert_eq!(next(), format!("call-{n}"));
    }
    reader.join().expect("the reader");
    assert!(files(&server).len() > 10);
    // It ends when it has something to say and nobody reads.
    eventually("the verb ends", || {
        call(100);
        follow.try_wait().expect("wait").is_some()
    });
    assert_eq!(follow.wait().expect("wait").code(), Some(0));
}

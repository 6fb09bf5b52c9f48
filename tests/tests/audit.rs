//! The audit, from outside: each call has its line, whatever became of it and
//! whatever was sent; the chain holds over restarts and rotations; what was
//! changed is found.

mod audit_help;
mod reliability_help;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::thread;

use audit_help::{directory, files, head, line_of, lines, mode, verb};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, eventually_some, run, spawn};

/// The newest line whose argv has this word.
#[track_caller]
fn with_word(setup: &Setup, word: &str) -> Value {
    let has =
        |line: &Value| line["argv"].as_array().is_some_and(|argv| argv.contains(&json!(word)));
    eventually_some(&format!("a line with {word}"), || lines(setup).into_iter().rfind(has))
}

#[test]
fn every_call_has_one_line_that_says_what_became_of_it() {
    let server = Server::start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.2");
        s.tool("never", "binary = \"/bin/true\"\ndefault = \"deny\"\n");
        s.tool("gone", "binary = \"/nonexistent/program\"\n");
        s.tool("slow", "binary = \"/bin/sleep\"\ntimeout = 0.2\n");
        s.tool("relayed", "binary = \"/bin/sh\"\nstdio = \"stream\"\n");
        s.env("TOOL_LISTEN", format!("{},tools=sh", s.path("run/only-sh.sock").display()));
    });
    let call = |tool: &str, args: Value, cwd: &str, stdio: &str| {
        let mut wire = server.connect();
        wire.send_json(&json!({"tool":tool,"args":args,"cwd":cwd,"stdio":stdio}));
        if stdio == "stream" {
            wire.send_input(b"abc");
            wire.send_input(b"");
            wire.recv_stream().last
        } else {
            wire.recv_json()
        }
    };
    let ws = server.ws().display().to_string();
    let cases = [
        (
            call("sh", json!(["-c", "echo out; echo error >&2; exit 3"]), &ws, "buffered"),
            json!({
                "tool": "sh", "ended": "exited", "exit_code": 3, "signal": null, "code": null,
                "stdin_bytes": 0, "stdout_bytes": 4, "stderr_bytes": 6, "decision": "allow", "rule": "unrestricted", "mode": "enforce",
                "argv": ["sh", "-c", "echo out; echo error >&2; exit 3"], "cwd": ws, "directory": ws,
            }),
        ),
        (
            call("sh", json!(["-c", "cat; echo error >&2"]), &ws, "stream"),
            json!({
                "ended": "exited", "exit_code": 0, "stdin_bytes": 3, "stdout_bytes": 3, "stderr_bytes": 6,
            }),
        ),
        (
            call("sh", json!(["-c", "kill -KILL $$"]), &ws, "buffered"),
            json!({
                "ended": "signaled", "exit_code": 137, "signal": "KILL",
            }),
        ),
        (
            call("never", json!(["x"]), &ws, "buffered"),
            json!({
                "ended": "refused", "exit_code": 126, "code": "denied", "decision": "deny", "rule": "default",
                "directory": ws, "duration_ms": null, "stdout_bytes": null,
            }),
        ),
        (
            call("nosuch", json!(["x"]), &ws, "buffered"),
            json!({
                "tool": "nosuch", "ended": "refused", "exit_code": 127, "code": "unknown_tool",
                "decision": null, "rule": null, "at": null, "directory": null, "cwd": ws,
            }),
        ),
        (
            call("sh", json!(["x"]), "/", "buffered"),
            json!({
                "ended": "refused", "exit_code": 125, "code": "cwd_outside", "directory": null, "cwd": "/",
                "decision": null,
            }),
        ),
        (
            call("gone", json!([]), &ws, "buffered"),
            json!({
                "ended": "not_started", "exit_code": 127, "code": "not_installed",
            }),
        ),
        (
            call("slow", json!(["30"]), &ws, "buffered"),
            json!({
                "ended": "timed_out", "exit_code": 124, "code": "timed_out",
            }),
        ),
        (
            call("sh", json!(["-c", "head -c 100000 /dev/zero"]), &ws, "buffered"),
            json!({
                "ended": "output_too_large", "code": "output_too_large", "stdout_bytes": null,
            }),
        ),
    ];
    for (reply, wanted) in &cases {
        let line = line_of(&server, &reply["call_id"]);
        for (name, value) in wanted.as_object().expect("an object") {
            assert_eq!(line.get(name), Some(value), "{name} of {line}");
        }
        let at = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        assert!(
            line["at"].is_null()
                || at("at").starts_with(&server.path("tools.d").display().to_string())
        );
        assert_eq!(line["peer"]["socket"], json!(server.socket()), "{line}");
        assert_eq!(line["peer"]["uid"], json!(nix::unistd::geteuid().as_raw()), "{line}");
        assert!(at("time").ends_with('Z') && at("time").len() == 27, "{line}");
        assert!(line["waited_ms"].is_f64(), "{line}");
        // Of the definition that decided, where it got so far.
        let known = line["definition"].as_str().is_some_and(|digest| digest.len() == 64);
        assert_eq!(known, line["code"] != json!("unknown_tool"), "{line}");
        let ran = !matches!(line["ended"].as_str(), Some("refused"));
        assert_eq!(line["duration_ms"].is_f64(), ran, "{line}");
    }
    // By descriptors that the server does not look into: not seen, not 0.
    assert_eq!(run(server.client("sh").args(["-c", "echo passed"]), b"").success(), "passed\n");
    let line = with_word(&server, "echo passed");
    for name in ["stdin_bytes", "stdout_bytes", "stderr_bytes"] {
        assert_eq!(line[name], Value::Null, "{line}");
    }
    // A caller that goes, with its tool.
    let client = spawn(server.client("sh").args(["-c", "touch up; sleep 60"]));
    eventually("the tool runs", || server.ws().join("up").exists());
    client.signal(Signal::SIGKILL);
    assert_eq!(with_word(&server, "touch up; sleep 60")["ended"], json!("caller_gone"));
    // A tool that its socket does not serve.
    let socket = server.path("run/only-sh.sock");
    let request = json!({"tool":"slow","args":["elsewhere"],"cwd":ws});
    let reply = tool_broker_tests::Wire::connect(&socket).call(&request);
    assert_eq!(reply["code"], json!("unknown_tool"), "{reply}");
    let line = with_word(&server, "elsewhere");
    assert_eq!(line["peer"]["socket"], json!(socket), "{line}");
    assert_eq!(
        (&line["ended"], &line["code"]),
        (&json!("refused"), &json!("unknown_tool")),
        "{line}"
    );
    // What is only asked to come again is no call.
    assert_eq!(run(server.client("relayed").args(["-c", "cat"]), b"12").success(), "12");
    eventually("the line of the repetition", || lines(&server).len() == cases.len() + 4);
    let relayed: Vec<Value> =
        lines(&server).into_iter().filter(|line| line["tool"] == json!("relayed")).collect();
    assert_eq!(relayed.len(), 1, "{relayed:?}");
    assert_eq!((&relayed[0]["stdin_bytes"], &relayed[0]["stdout_bytes"]), (&json!(2), &json!(2)));
    head(&server);
    assert_eq!(server.status()["audit"]["lines"], json!(lines(&server).len()));
    assert_eq!(server.status()["audit"]["head"], json!(head(&server)));
    assert_eq!(server.status()["audit"]["open"], json!(0));
}

#[test]
fn who_answered_is_in_the_line_and_a_call_that_waited_for_an_answer_is_not_lost() {
    let ask = "binary = \"/bin/echo\"\ndefault = \"ask\"\n";
    let server = Server::start(|s| s.tool("say", ask));
    let asked = || {
        eventually_some("a question waits", || {
            let answer = server.control().call(&json!({"op":"approvals"}));
            Some(answer["waiting"].as_array()?.first()?["id"].as_str()?.to_owned())
        })
    };
    for (answer, granted) in [("approve", true), ("deny", false)] {
        let client = spawn(server.client("say").arg(answer));
        let id = asked();
        run(&mut server.verb(&[answer, &id]), b"").success();
        assert_eq!(client.wait().code(), Some(if granted { 0 } else { 126 }));
        let line = with_word(&server, answer);
        let ended = if granted { "exited" } else { "refused" };
        assert_eq!((&line["decision"], &line["ended"]), (&json!("ask"), &json!(ended)), "{line}");
        let approval = &line["approval"];
        let uid = nix::unistd::geteuid().as_raw();
        assert_eq!((&approval["id"], &approval["by_uid"]), (&json!(id), &json!(uid)), "{line}");
        assert_eq!(approval["granted"], json!(granted), "{line}");
    }
    // Killed while one waits, and while one runs that was approved.
    let waits = spawn(server.client("say").arg("waits"));
    asked();
    let mut server = Server::start_in(server.stop(Signal::SIGKILL));
    assert_eq!(waits.wait().code(), Some(125));
    let line = with_word(&server, "waits");
    assert_eq!(
        (&line["decision"], &line["ended"]),
        (&json!("ask"), &json!("interrupted")),
        "{line}"
    );
    assert_eq!(line["approval"], Value::Null, "{line}");
    server.tool("slow", "binary = \"/bin/sleep\"\ndefault = \"ask\"\n");
    run(&mut server.verb(&["reload"]), b"");
    let slow = spawn(server.client("slow").arg("30"));
    let id = eventually_some("a question waits", || {
        let answer = server.control().call(&json!({"op":"approvals"}));
        Some(answer["waiting"].as_array()?.first()?["id"].as_str()?.to_owned())
    });
    run(&mut server.verb(&["approve", &id]), b"").success();
    eventually("it runs", || {
        server.status()["audit"]["open"] == json!(1) && !server.children().is_empty()
    });
    server = Server::start_in(server.stop(Signal::SIGKILL));
    assert_eq!(slow.wait().code(), Some(125));
    let of: Vec<Value> =
        lines(&server).into_iter().filter(|line| line["tool"] == json!("slow")).collect();
    assert_eq!(of.len(), 1, "{of:?}");
    assert_eq!((&of[0]["ended"], &of[0]["approval"]["id"]), (&json!("interrupted"), &json!(id)));
    head(&server);
}

#[test]
fn the_files_are_the_servers_alone_from_their_first_moment() {
    let server = Server::start(|s| s.env("TOOL_AUDIT_MAX_BYTES", "1000"));
    for _ in 0..5 {
        run(server.client("sh").args(["-c", "true"]), b"").success();
    }
    eventually("a file is complete", || files(&server).len() > 2);
    assert_eq!(mode(&directory(&server)), 0o700);
    for entry in fs::read_dir(directory(&server)).expect("the directory") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    // And no child has them open.
    let said = run(server.client("sh").args(["-c", "ls -l /proc/self/fd"]), b"").success();
    assert!(!said.contains("audit") && !said.contains("open.jsonl"), "{said}");
}

/// Control bytes, ANSI, C1, bidi, newlines, what looks like a line of ours, and
/// what is not UTF-8, in every string that a caller sends.
#[test]
fn nothing_that_a_caller_sends_is_raw_in_a_line_or_in_the_table() {
    let server = Server::start(|_| ());
    let mut words: Vec<Vec<u8>> = (1..=255u8).map(|byte| vec![b'a', byte, b'b']).collect();
    words.extend(
        (0x80..=0x9fu32)
            .chain(0x2000..=0x206f)
            .chain([0xfeff, 0x1f600])
            .map(|number| char::from_u32(number).expect("a character").to_string().into_bytes()),
    );
    words.push(b"\x1b[2J\x1b]0;title\x07\r\n".to_vec());
    words.push(b"\n{\"seq\":1,\"prev\":\"0\"}\n".to_vec());
    words.push(b"\"},\"decision\":\"allow\",{\"\\".to_vec());
    for word in &words {
        fs::create_dir(server.ws().join(std::ffi::OsStr::from_bytes(&dir_name(word))))
            .expect("mkdir");
        let mut client = server.client("sh");
        client.args(["-c", "exit 0", "sh"]).arg(std::ffi::OsStr::from_bytes(word));
        client.current_dir(server.ws().join(std::ffi::OsStr::from_bytes(&dir_name(word))));
        assert_eq!(run(&mut client, b"").code(), Some(0), "{}", word.escape_ascii());
    }
    let name = "\u{1b}[31m\u{202e}\nnot a tool".to_owned() + &"x".repeat(5000);
    let reply = server.connect().call(&json!({"tool":name,"args":[],"cwd":"/\u{9b}\n"}));
    // Checks each byte of the files.
    let found = lines(&server);
    assert_eq!(reply["code"], json!("unknown_tool"), "{reply}");
    assert_eq!(found.len(), words.len() + 1);
    for (word, line) in words.iter().zip(&found) {
        assert_eq!(bytes(&line["argv"][4]), *word, "{line}");
        let place = [server.ws().as_os_str().as_bytes(), b"/", &dir_name(word)].concat();
        assert_eq!(
            (bytes(&line["directory"]), bytes(&line["cwd"])),
            (place.clone(), place),
            "{line}"
        );
    }
    head(&server);
    for words in [&["-n", "1000"][..], &["--json"]] {
        let said = verb(&server, words);
        assert_eq!(said.code(), Some(0), "{said:?}");
        let plain = |byte: &u8| *byte == b'\n' || (0x20..=0x7e).contains(byte);
        assert!(said.stdout.iter().all(plain), "{said:?}");
        let count = said.out().lines().count();
        assert!(count == found.len() || count == found.len() + 1, "{count} rows");
    }
}

/// A name that a directory may have.
fn dir_name(word: &[u8]) -> Vec<u8> {
    let letter = |byte: &u8| if *byte == b'/' { b"(slash)".to_vec() } else { vec![*byte] };
    [b"d-", word.iter().flat_map(letter).collect::<Vec<u8>>().as_slice()].concat()
}

/// The bytes of a string in either form.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        Value::Object(_) => {
            let encoded = value["b64"].as_str().expect("b64");
            let mut decoder = std::process::Command::new("base64");
            let outcome = run(decoder.arg("-d"), encoded.as_bytes());
            assert_eq!(outcome.code(), Some(0), "{outcome:?}");
            outcome.stdout
        }
        other => panic!("no string: {other}"),
    }
}

#[test]
fn the_chain_holds_over_restarts_and_rotations_under_load() {
    let mut server = Server::start(|s| {
        s.env("TOOL_AUDIT_MAX_BYTES", "9000");
        s.env("TOOL_AUDIT_KEEP", "0");
    });
    let mut noted = Vec::new();
    for round in 0..3 {
        thread::scope(|scope| {
            for caller in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    for call in 0..15 {
                        let word = format!("call-{round}-{caller}-{call}");
                        run(server.client("sh").args(["-c", "true", &word]), b"").success();
                    }
                });
            }
            // Whoever verifies meanwhile sees a whole chain too.
            for _ in 0..5 {
                noted.push(head(&server));
            }
        });
        let signal = if round == 1 { Signal::SIGKILL } else { Signal::SIGTERM };
        server = Server::start_in(server.stop(signal));
    }
    let found = lines(&server);
    assert!(files(&server).len() > 10, "{:?}", files(&server));
    for round in 0..3 {
        for (caller, call) in (0..8).flat_map(|caller| (0..15).map(move |call| (caller, call))) {
            let word = json!(format!("call-{round}-{caller}-{call}"));
            let of = found.iter().filter(|line| line["argv"][3] == word);
            assert_eq!(of.count(), 1, "{word}");
        }
    }
    let ids: std::collections::BTreeSet<&str> =
        found.iter().map(|line| line["call_id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), found.len(), "a call_id was given twice");
    for (index, line) in found.iter().enumerate() {
        assert_eq!(line["seq"], json!(index + 1));
    }
    for head in noted {
        verb(&server, &["--verify", "--head", &head]).success();
    }
}

#[test]
fn old_files_go_and_the_rest_is_a_chain() {
    let server = Server::start(|s| {
        s.env("TOOL_AUDIT_MAX_BYTES", "1500");
        s.env("TOOL_AUDIT_KEEP", "2");
    });
    for _ in 0..20 {
        run(server.client("sh").args(["-c", "true"]), b"").success();
    }
    eventually("files too many are removed", || files(&server).len() == 3);
    let said = verb(&server, &["--verify"]).success();
    assert!(said.contains("audit.keep"), "{said}");
    assert!(lines(&server).len() < 20);
}

#[test]
fn a_line_that_was_changed_removed_moved_or_put_in_is_named() {
    let server = Server::start(|s| s.env("TOOL_AUDIT_MAX_BYTES", "6000"));
    for call in 0..30 {
        run(server.client("sh").args(["-c", "exit 1", &format!("n{call}")]), b"");
    }
    let before = head(&server);
    let setup = server.stop(Signal::SIGTERM);
    let all = files(&setup);
    let file = &all[1];
    let whole = fs::read_to_string(file).expect("a file");
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    assert!(all.len() > 3 && lines.len() > 4, "{all:?}");
    let place = |line: usize| format!("{}:{line}: ", file.display());
    let refused_at = |content: &[String], place: &str, word: &str| {
        fs::write(file, content.iter().map(|line| format!("{line}\n")).collect::<String>())
            .expect("write");
        let said = verb(&setup, &["--verify"]);
        fs::write(file, &whole).expect("write");
        assert_eq!((said.code(), said.out().as_str()), (Some(1), ""), "{said:?}");
        assert!(said.err().contains(place) && said.err().contains(word), "{said:?}");
        assert_eq!(said.err().lines().count(), 1, "{said:?}");
    };
    let refused =
        |content: &[String], line: usize, word: &str| refused_at(content, &place(line), word);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = lines.clone();
        change(&mut changed);
        assert_ne!(changed, lines);
        changed
    };
    refused(&with(&|l| l[2] = l[2].replace("\"exit_code\":1", "\"exit_code\":0")), 3, "sha256");
    refused(&with(&|l| drop(l.remove(2))), 3, "gone");
    refused(&with(&|l| l.swap(1, 2)), 2, "belongs");
    refused(&with(&|l| l.insert(2, l[1].clone())), 3, "put in");
    refused(&with(&|l| l[2].push(' ')), 3, "sha256");
    refused(&with(&|l| l[2].truncate(50)), 3, "no line of the audit");
    // Of the last line in a file the next file tells.
    let last = lines.len();
    refused(&with(&|l| l[last - 1] = l[last - 1].replace("exited", "refused")), last, "sha256");
    refused_at(&with(&|l| l.truncate(last - 1)), &format!("{}:1: ", all[2].display()), "gone");
    // Of the last line of all, only what was noted elsewhere.
    let current = directory(&setup).join("audit.jsonl");
    let text = fs::read_to_string(&current).expect("the current file");
    let shorter: String = text
        .lines()
        .rev()
        .skip(1)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .map(|l| format!("{l}\n"))
        .collect();
    fs::write(&current, shorter).expect("write");
    assert_eq!(verb(&setup, &["--verify"]).code(), Some(0));
    let said = verb(&setup, &["--verify", "--head", &before]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err().contains(&before), "{said:?}");
    fs::write(&current, text).expect("write");
    verb(&setup, &["--verify", "--head", &before]).success();
    assert_eq!(verb(&setup, &["--verify", "--head", "abc"]).code(), Some(2));
}

/// A file that is removed or replaced under the server would take its lines along.
#[test]
fn a_file_that_is_taken_away_from_the_server_is_put_back() {
    let server = Server::start(|_| ());
    let current = directory(&server).join("audit.jsonl");
    let call = |word: &str| run(server.client("sh").args(["-c", "true", word]), b"").success();
    call("first");
    for round in 0..2 {
        if round == 0 {
            fs::remove_file(&current).expect("rm");
        } else {
            fs::rename(&current, directory(&server).join("stolen")).expect("mv");
            fs::write(&current, "forged\n").expect("write");
        }
        call(&format!("round-{round}"));
        eventually("the file is back", || {
            fs::read_to_string(&current).is_ok_and(|text| text.contains(&format!("round-{round}")))
        });
        assert_eq!(mode(&current), 0o600);
    }
    call("last");
    assert_eq!(lines(&server).len(), 4);
    head(&server);
    assert!(server.log().contains("REMOVED OR REPLACED"), "{}", server.log());
    let forged = fs::read_to_string(directory(&server).join("audit.jsonl.foreign")).expect("kept");
    assert_eq!(forged, "forged\n");
}

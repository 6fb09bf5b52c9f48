//! The three ways for input and output, on the raw wire.

use std::io::Read as _;
use std::os::fd::AsFd;
use std::thread;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, still_works, terminal};

fn sh(server: &Server, stdio: &str, script: &str) -> Value {
    json!({"tool":"sh","args":["-c",script],"cwd":server.ws(),"stdio":stdio})
}

#[test]
fn a_buffered_reply_has_everything() {
    let server = Server::start(|_| ());
    let mut request = sh(&server, "buffered", "echo out; echo err >&2; cat; exit 3");
    request["id"] = json!("an id");
    let reply = server.connect().call(&request);
    assert_eq!(reply["exit_code"], json!(3), "{reply}");
    assert_eq!((&reply["stdout"], &reply["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert_eq!(reply["id"], json!("an id"));
    assert!(reply["duration_ms"].is_u64() && reply["call_id"].is_string(), "{reply}");
    assert!(reply.get("code").is_none() && reply.get("signal").is_none(), "{reply}");
    let reply = server.connect().call(&sh(&server, "buffered", "kill -TERM $$"));
    assert_eq!((&reply["exit_code"], &reply["signal"]), (&json!(143), &json!("TERM")), "{reply}");
}

#[test]
fn several_buffered_requests_are_under_way_on_one_connection() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    let ids = [json!(1), json!("two"), json!(0), json!(i64::MAX)];
    for (n, id) in ids.iter().enumerate() {
        // Each waits for the file that a later request makes: they must overlap.
        let script = format!("touch up{n}; until [ -e go ]; do sleep 0.02; done; echo {n}");
        let mut request = sh(&server, "buffered", &script);
        request["id"] = id.clone();
        wire.send_json(&request);
    }
    eventually("all run at once", || {
        (0..ids.len()).all(|n| server.ws().join(format!("up{n}")).exists())
    });
    let mut last = sh(&server, "buffered", "touch go; echo last");
    last["id"] = json!("last");
    wire.send_json(&last);
    let mut seen = Vec::new();
    for _ in 0..=ids.len() {
        let reply = wire.recv_json();
        let wanted = match ids.iter().position(|id| *id == reply["id"]) {
            Some(n) => format!("{n}\n"),
            None => "last\n".to_owned(),
        };
        assert_eq!(reply["stdout"], json!(wanted), "{reply}");
        assert!(!seen.contains(&reply["id"]), "twice: {reply}");
        seen.push(reply["id"].clone());
    }
    // And one after another, without an id.
    for n in 0..20 {
        let reply = wire.call(&sh(&server, "buffered", &format!("echo {n}")));
        assert_eq!(reply["stdout"], json!(format!("{n}\n")), "{reply}");
    }
}

#[test]
fn output_that_does_not_fit_is_a_failure_that_says_so() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let mut wire = server.connect();
    // `yes` never ends by itself: the server must stop it.
    for script in ["head -c 200000 /dev/zero", "head -c 200000 /dev/zero >&2", "yes"] {
        let reply = wire.call(&sh(&server, "buffered", script));
        assert_eq!(reply["code"], json!("output_too_large"), "{reply}");
        assert_eq!(reply["exit_code"], json!(125), "{reply}");
        let error = reply["error"].as_str().expect("an error");
        let digits = error.split(|c: char| !c.is_ascii_digit());
        assert!(
            digits.filter_map(|n| n.parse::<u64>().ok()).any(|n| n > 1000),
            "no count: {error}"
        );
    }
    // Nothing is wrong with the connection, nor with output that just fits.
    let reply = wire.call(&sh(&server, "buffered", "head -c 60000 /dev/zero | tr '\\0' x"));
    assert_eq!(reply["stdout"].as_str().map(str::len), Some(60_000), "{}", reply["code"]);
    // Bytes that JSON writes longer than they are: 20,000 become 120,000.
    let reply = wire.call(&sh(&server, "buffered", "head -c 20000 /dev/zero | tr '\\0' '\\1'"));
    assert_eq!(reply["code"], json!("output_too_large"), "{}", reply["exit_code"]);
    drop(wire);
    server.nothing_left(before);
}

#[test]
fn a_stream_carries_chunks_both_ways_and_ends_each_with_an_empty_one() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&sh(&server, "stream", "cat; echo err >&2; exit 5"));
    wire.send_input(b"hello ");
    wire.send_input(b"\0\xff world");
    wire.send_input(b"");
    let got = wire.recv_stream();
    assert_eq!(
        (got.stdout.as_slice(), got.stderr.as_slice()),
        (&b"hello \0\xff world"[..], &b"err\n"[..])
    );
    assert_eq!(got.ended, (true, true));
    assert_eq!(got.last["exit_code"], json!(5), "{}", got.last);
    assert!(got.last.get("stdout").is_none(), "{}", got.last);
    // The next call on this connection.
    wire.send_json(&sh(&server, "stream", "echo again"));
    assert_eq!(wire.recv_stream().stdout, b"again\n");
    let reply = wire.call(&sh(&server, "buffered", "echo and buffered"));
    assert_eq!(reply["stdout"], json!("and buffered\n"));
}

#[test]
fn a_stream_is_a_conversation() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&sh(
        &server,
        "stream",
        "while read line; do echo \"got $line\"; done; echo end",
    ));
    for word in ["one", "two", "three"] {
        wire.send_input(format!("{word}\n").as_bytes());
        let mut said = Vec::new();
        while said.len() < word.len() + 5 {
            let chunk = wire.recv_frame().expect("a chunk");
            assert_eq!(chunk[0], 1);
            said.extend_from_slice(&chunk[1..]);
        }
        assert_eq!(said, format!("got {word}\n").as_bytes());
    }
    wire.send_input(b"");
    assert_eq!(wire.recv_stream().stdout, b"end\n");
}

#[test]
fn input_after_the_end_of_the_tool_is_thrown_away() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&sh(&server, "stream", "exit 4"));
    let last = wire.recv_stream().last;
    assert_eq!(last["exit_code"], json!(4), "{last}");
    for _ in 0..100 {
        wire.send_input(&[b'x'; 60_000]);
    }
    wire.send_input(b"");
    let reply = wire.call(&sh(&server, "buffered", "cat; echo fine"));
    assert_eq!(reply["stdout"], json!("fine\n"), "{reply}");
    // A tool that never reads, while the input comes.
    wire.send_json(&sh(&server, "stream", "exec <&-; exit 6"));
    for _ in 0..100 {
        wire.send_input(&[b'x'; 60_000]);
    }
    assert_eq!(wire.recv_stream().last["exit_code"], json!(6));
}

#[test]
fn ten_mebibytes_go_through_cat() {
    let server = Server::start(|s| s.tools(&[("cat", "/bin/cat")]));
    let data: Vec<u8> =
        (0..10u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"cat","args":[],"cwd":server.ws(),"stdio":"stream"}));
    let mut writer = Wire { stream: wire.stream.try_clone().expect("dup") };
    let sent = data.clone();
    let writing = thread::spawn(move || {
        sent.chunks(65_535).for_each(|chunk| writer.send_input(chunk));
        writer.send_input(b"");
    });
    let got = wire.recv_stream();
    writing.join().expect("writing");
    assert_eq!(got.last["exit_code"], json!(0), "{}", got.last);
    assert!(got.stdout == data, "{} bytes of {}", got.stdout.len(), data.len());
}

#[test]
fn a_peer_that_does_not_read_holds_the_tool_not_the_servers_memory() {
    let server = Server::start(|s| s.tools(&[("yes", "/usr/bin/yes")]));
    still_works(&server);
    let before = server.rss();
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"yes","args":[],"cwd":server.ws(),"stdio":"stream"}));
    // Wait until the pipe and the socket are full: `yes` sleeps in write.
    let pid = tool_broker_tests::eventually_some("yes runs", || {
        server.descendants().into_iter().find_map(|p| {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", p.pid)).ok()?;
            (name == "yes\n" && p.state == 'S').then_some(p.pid)
        })
    });
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 4096, "grew by {grown} KiB");
    still_works(&server);
    drop(wire);
    eventually("yes ends with its caller", || !tool_broker_tests::alive(pid));
}

#[test]
fn signals_reach_the_tool_in_each_mode() {
    let server = Server::start(|_| ());
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"] {
        let script =
            format!("trap 'echo {name}; exit 9' {name}; echo up; while :; do sleep 0.02; done");
        let mut wire = server.connect();
        wire.send_json(&sh(&server, "stream", &script));
        assert_eq!(wire.recv_frame().expect("a chunk"), b"\x01up\n");
        wire.send_json(&json!({"signal":name}));
        let got = wire.recv_stream();
        assert_eq!(
            (got.stdout, &got.last["exit_code"]),
            (format!("{name}\n").into_bytes(), &json!(9))
        );
    }
    // Of several buffered requests, the one that is meant.
    let mut wire = server.connect();
    for id in [7, 8] {
        let script = format!("trap 'exit {id}' INT; touch up{id}; while :; do sleep 0.02; done");
        let mut request = sh(&server, "buffered", &script);
        request["id"] = json!(id);
        wire.send_json(&request);
    }
    eventually("both run", || [7, 8].iter().all(|id| server.ws().join(format!("up{id}")).exists()));
    for id in [8, 7] {
        wire.send_json(&json!({"signal":"INT","id":id}));
        let reply = wire.recv_json();
        assert_eq!((&reply["id"], &reply["exit_code"]), (&json!(id), &json!(id)), "{reply}");
    }
}

#[test]
fn a_terminal_among_the_descriptors_is_answered_with_use_stream() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let (_master, slave) = terminal::pair();
    let mut wire = server.connect();
    let mut request = sh(&server, "fds", "touch ran; echo streamed");
    request["fds"] = json!([0, 1, 2]);
    wire.send_with_fds(&request, &[slave.as_fd(); 3]);
    let reply = wire.recv_json();
    assert_eq!(
        (&reply["code"], &reply["exit_code"]),
        (&json!("use_stream"), &json!(125)),
        "{reply}"
    );
    assert!(!server.ws().join("ran").exists(), "it ran nevertheless");
    // On the same connection, as the answer says.
    wire.send_json(&sh(&server, "stream", "echo streamed"));
    assert_eq!(wire.recv_stream().stdout, b"streamed\n");
    drop(wire);
    server.nothing_left(before);
}

#[test]
fn fds_carries_no_data_and_ends_with_the_tool() {
    let server = Server::start(|_| ());
    let (mut reading, writing) = std::io::pipe().expect("pipe");
    let mut wire = server.connect();
    let mut request = sh(&server, "fds", "echo direct; exit 2");
    request["fds"] = json!([1]);
    request["id"] = json!(5);
    wire.send_with_fds(&request, &[writing.as_fd()]);
    drop(writing);
    let last = wire.recv_json();
    assert_eq!((&last["exit_code"], &last["id"]), (&json!(2), &json!(5)), "{last}");
    let mut text = String::new();
    // Ends only when the server, too, has let go of the pipe.
    reading.read_to_string(&mut text).expect("read");
    assert_eq!(text, "direct\n");
    let reply = wire.call(&sh(&server, "buffered", "echo next"));
    assert_eq!(reply["stdout"], json!("next\n"));
}

#[test]
fn input_that_can_come_no_more_is_at_its_end() {
    let server = Server::start(|_| ());
    let mut wire = server.connect();
    wire.send_json(&sh(&server, "stream", "cat; echo end; exit 3"));
    wire.send_input(b"hello ");
    // No empty chunk: the sending half closes, which is no end of the call.
    wire.no_more();
    let got = wire.recv_stream();
    assert_eq!((got.stdout.as_slice(), &got.last["exit_code"]), (&b"hello end\n"[..], &json!(3)));
}

//! Frames and messages that no client of ours sends. Each gets its code where
//! someone is there to read it, and leaves nothing behind.

use serde_json::{Value, json};
use tool_broker_tests::wire::frame;
use tool_broker_tests::{Server, Wire, still_works};

/// A request that leaves a file `ran` if it is ever run.
fn touch(server: &Server) -> Value {
    json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()})
}

/// What the server answers to these bytes, when nothing follows.
#[track_caller]
fn answers(server: &Server, bytes: &[u8]) -> Vec<Value> {
    let mut wire = server.connect();
    // The server may close before it has read everything.
    let _ = wire.try_send(bytes);
    let _ = wire.stream.shutdown(std::net::Shutdown::Write);
    let all = wire.until_closed();
    all.iter().map(|payload| serde_json::from_slice(payload).expect("JSON")).collect()
}

/// Asserts one answer with this code, its exit status, and an error for people.
#[track_caller]
fn refused(answers: &[Value], code: &str) {
    assert_eq!(answers.len(), 1, "wanted {code}: {answers:?}");
    let reply = &answers[0];
    assert_eq!(reply["code"], json!(code), "{reply}");
    let exit = if code == "unknown_tool" { 127 } else { 125 };
    assert_eq!(reply["exit_code"], json!(exit), "{reply}");
    let error = reply["error"].as_str().expect("an error for people");
    assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_the_body_comes() {
    let server = Server::start(|_| ());
    let before = server.settled();
    for (length, code) in [
        (0, "bad_frame"),
        (65_537, "frame_too_large"),
        (1 << 24, "frame_too_large"),
        (0x7fff_ffff, "frame_too_large"),
        (0x8000_0000, "frame_too_large"),
        (u32::MAX, "frame_too_large"),
    ] {
        let mut wire = server.connect();
        wire.send(&length.to_be_bytes()); // and nothing more: the answer must not wait for it
        let got: Vec<Value> =
            wire.until_closed().iter().map(|p| serde_json::from_slice(p).expect("JSON")).collect();
        refused(&got, code);
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_frame_of_one_byte_is_no_message() {
    let server = Server::start(|_| ());
    let before = server.settled();
    refused(&answers(&server, &frame(b"{")), "bad_json");
    for byte in [b'x', b'[', b' ', b'\n', b'"', 3, 0x7f, 0xff, b'0', b'1'] {
        refused(&answers(&server, &frame(&[byte])), "bad_frame");
    }
    // Chunks that only the server sends.
    for chunk in [&b"\x01out"[..], b"\x02err", b"\x01"] {
        refused(&answers(&server, &frame(chunk)), "bad_frame");
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_frame_may_be_as_long_as_the_limit_and_no_longer() {
    let server = Server::start(|_| ());
    for length in [65_534, 65_535, 65_536, 65_537] {
        let mut request =
            json!({"tool":"sh","args":["-c","printf %s \"$1\" | wc -c","sh",""],"cwd":server.ws()});
        let pad = length - request.to_string().len();
        request["args"][3] = json!("p".repeat(pad));
        let bytes = frame(request.to_string().as_bytes());
        assert_eq!(bytes.len(), length + 4);
        let got = answers(&server, &bytes);
        if length <= 65_536 {
            assert_eq!(got[0]["stdout"], json!(format!("{pad}\n")), "{length}: {got:?}");
        } else {
            refused(&got, "frame_too_large");
        }
    }
}

/// Request transcripts: those of the protocol's golden ones that are a whole
/// conversation of a client, and some of our own.
fn transcripts(server: &Server) -> Vec<Vec<u8>> {
    let mut all = vec![
        frame(touch(server).to_string().as_bytes()),
        [
            frame(
                json!({"tool":"sh","cwd":server.ws(),"args":["-c"],"more":true})
                    .to_string()
                    .as_bytes(),
            ),
            frame(json!({"args":["touch "],"more":"string"}).to_string().as_bytes()),
            frame(json!({"args":["ran"]}).to_string().as_bytes()),
        ]
        .concat(),
        frame(br#"{"op":"health"}"#),
    ];
    let stream = json!({"tool":"sh","args":["-c","cat > ran"],"cwd":server.ws(),"stdio":"stream"});
    all.push([frame(stream.to_string().as_bytes()), frame(b"\0some"), frame(b"\0")].concat());
    all
}

#[test]
fn a_conversation_cut_at_any_byte_runs_nothing_and_leaves_nothing() {
    let server = Server::start(|_| ());
    let before = server.settled();
    for bytes in transcripts(&server) {
        let first = 4 + u32::from_be_bytes(bytes[..4].try_into().expect("four")) as usize;
        for cut in 0..first {
            // The caller is gone …
            drop(server.connect().try_send(&bytes[..cut]));
            // … or waits for an answer to the part that it sent.
            let got = answers(&server, &bytes[..cut]);
            assert!(
                got.iter().all(|reply| reply["exit_code"] == json!(125)),
                "cut at {cut}: {got:?}"
            );
        }
        assert!(!server.ws().join("ran").exists(), "a part of a request ran");
    }
    // Cut after the first message: what ran must end, and be gone.
    for bytes in transcripts(&server) {
        for cut in (0..bytes.len()).step_by(3) {
            drop(server.connect().try_send(&bytes[..cut]));
        }
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn bytes_that_come_one_by_one_make_the_same_conversation() {
    let server = Server::start(|_| ());
    for bytes in transcripts(&server) {
        let mut wire = server.connect();
        bytes.iter().for_each(|byte| wire.send(&[*byte]));
        let mut reply = wire.recv_frame().expect("an answer");
        while reply.first() != Some(&b'{') {
            reply = wire.recv_frame().expect("a last message");
        }
        let reply: Value = serde_json::from_slice(&reply).expect("JSON");
        if reply["ok"] != json!(true) {
            assert_eq!(reply["exit_code"], json!(0), "{reply}");
            std::fs::remove_file(server.ws().join("ran")).expect("it ran");
        }
    }
}

#[test]
fn every_golden_conversation_may_be_cut_at_every_byte() {
    let golden = golden_clients();
    assert!(!golden.is_empty(), "no golden transcripts");
    let server = Server::start(|s| {
        s.tools(&[("cat", "/bin/cat"), ("echo", "/bin/echo")]);
        s.env("TOOL_PATH_MAP", format!("/workspace={}", s.ws().display()));
    });
    let before = server.settled();
    for (name, bytes) in golden {
        for cut in 0..=bytes.len() {
            let mut wire = server.connect();
            let _ = wire.try_send(&bytes[..cut]);
            if cut % 7 == 0 {
                let _ = wire.stream.shutdown(std::net::Shutdown::Write);
                drop(wire.until_closed());
            }
        }
        assert!(server.status().is_object(), "after {name}");
    }
    server.nothing_left(before);
    still_works(&server);
}

/// What clients send in the golden transcripts, byte for byte.
fn golden_clients() -> Vec<(String, Vec<u8>)> {
    let dir = tool_broker_tests::project().join("protocol/testdata");
    let paths = std::fs::read_dir(dir).expect("testdata").map(|entry| entry.expect("entry").path());
    let clients = paths.filter(|path| path.extension().is_some_and(|ending| ending == "client"));
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).expect("read");
        (path.display().to_string(), bytes)
    };
    clients.map(read).collect()
}

#[test]
fn what_is_not_one_json_object_is_bad_json() {
    let server = Server::start(|_| ());
    let before = server.settled();
    let cwd = server.ws().display().to_string();
    let deep = |n: usize| format!("{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let objects = "{\"x\":".repeat(10_000) + "1" + &"}".repeat(10_000);
    let cases: Vec<Vec<u8>> = vec![
        b"{}x".to_vec(),
        b"{\"tool\"}".to_vec(),
        b"{\"tool\":}".to_vec(),
        b"{'tool':1}".to_vec(),
        b"{,}".to_vec(),
        b"{\"op\":\"health\",}".to_vec(),
        b"{\"op\":\"health\"}{\"op\":\"health\"}".to_vec(),
        b"{\"a\":NaN}".to_vec(),
        b"{\"op\":\"hea\xfflth\"}".to_vec(),
        b"{\"\xc3\x28\":1}".to_vec(),
        b"{\"a\":\"\xed\xa0\x80\"}".to_vec(),
        b"{\"a\":\"\\ud800\"}".to_vec(),
        b"{\"a\":\"\\udc00\\ud800\"}".to_vec(),
        b"{\"a\":\"\\x\"}".to_vec(),
        b"{\"a\":\"\n\"}".to_vec(),
        b"{\"a\":\"\0\"}".to_vec(),
        b"{\"a\":01}".to_vec(),
        b"{\"a\":tru}".to_vec(),
        format!("{{\"tool\":\"sh\",\"args\":[],\"cwd\":\"{cwd}\",\"tool\":\"sh\"}}").into_bytes(),
        b"{\"op\":\"health\",\"op\":\"health\"}".to_vec(),
        b"{\"op\":\"health\",\"\\u006fp\":\"tools\"}".to_vec(),
        b"{\"op\":\"health\",\"x\":{\"a\":1,\"a\":2}}".to_vec(),
        deep(65).into_bytes(),
        deep(32_000).into_bytes(),
        objects.into_bytes(),
        [b"{\"x\":".as_slice(), &b"[".repeat(60_000)].concat(),
    ];
    for case in cases {
        let shown = case.iter().take(60).map(|b| b.escape_ascii().to_string()).collect::<String>();
        let got = answers(&server, &frame(&case));
        assert_eq!(got.first().map(|r| &r["code"]), Some(&json!("bad_json")), "{shown}: {got:?}");
        refused(&got, "bad_json");
    }
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn what_this_version_does_not_know_is_ignored() {
    let server = Server::start(|_| ());
    let mut request = json!({
        "future":{"a":[1,2,{"b":null}]},"":1,"TOOL":"x","exit_code":1,"fd":3,"huge":1e300,
        "tool":"sh","args":["-c","echo $1","sh","\u{1}ü🦀"],"cwd":server.ws(),
    });
    let mut nested = json!(1);
    (0..61).for_each(|_| nested = json!([nested]));
    request["nested"] = nested;
    let reply = server.connect().call(&request);
    assert_eq!(
        (&reply["exit_code"], &reply["stdout"]),
        (&json!(0), &json!("\u{1}ü🦀\n")),
        "{reply}"
    );
    let escaped = format!(
        r#"{{ "\u0074ool" :"sh", "args":["-c","echo \ud83e\udd80\/"],"cwd":"{}" }}"#,
        server.ws().display()
    );
    let mut wire: Wire = server.connect();
    wire.send_frame(escaped.as_bytes());
    assert_eq!(wire.recv_json()["stdout"], json!("🦀/\n"));
}

#[test]
fn signals_and_operations_that_do_not_exist_change_nothing() {
    let server = Server::start(|_| ());
    refused(&answers(&server, &frame(br#"{"op":"fly"}"#)), "unknown_op");
    // These belong to the control socket.
    for op in ["status", "reload"] {
        refused(&answers(&server, &frame(json!({"op":op}).to_string().as_bytes())), "unknown_op");
    }
    for signal in
        [json!("KILL"), json!("STOP"), json!("SEGV"), json!("SIGINT"), json!("int"), json!(2)]
    {
        let mut wire = server.connect();
        wire.send_json(&json!({
            "tool":"sh","args":["-c","echo up; read x; echo $x; exit 3"],"cwd":server.ws(),"stdio":"stream",
        }));
        assert_eq!(wire.recv_frame().expect("a chunk"), b"\x01up\n");
        wire.send_json(&json!({"signal":signal}));
        wire.send_input(b"went on\n");
        let got = wire.recv_stream();
        // Refused by a message that ends the call, or thrown away: never delivered.
        assert_ne!(got.last["signal"], json!("KILL"), "{}", got.last);
        let fine = got.last["exit_code"] == json!(3) && got.stdout == b"went on\n";
        let refused = got.last["code"] == json!("bad_request");
        assert!(fine || refused, "{signal}: {:?}", got);
    }
    still_works(&server);
}

//! Requests of several messages, and the limits of one.

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, still_works};

fn server() -> Server {
    Server::start(|s| {
        s.tools(&[("echo", "/bin/echo")]);
        s.tool("env", "binary = \"/usr/bin/env\"\n[env]\nforward = [\"*\"]\n");
    })
}

/// Sends the messages and gives the one reply.
fn call(wire: &mut Wire, messages: &[Value]) -> Value {
    messages.iter().for_each(|message| wire.send_json(message));
    wire.recv_json()
}

#[test]
fn the_next_message_goes_on_with_the_lists_or_with_the_last_string() {
    let server = server();
    let mut wire = server.connect();
    let reply = call(
        &mut wire,
        &[
            json!({"tool":"echo","cwd":server.ws(),"args":["a"],"more":true}),
            json!({"args":["b","cc"],"more":"string"}),
            json!({"args":["cc"]}),
        ],
    );
    assert_eq!(reply["stdout"], json!("a b cccc\n"), "{reply}");
    // The next request begins anew.
    let reply = call(&mut wire, &[json!({"tool":"echo","cwd":server.ws(),"args":["x"]})]);
    assert_eq!(reply["stdout"], json!("x\n"), "{reply}");
}

#[test]
fn the_environment_goes_on_like_the_arguments() {
    let server = server();
    let reply = call(
        &mut server.connect(),
        &[
            json!({"tool":"env","cwd":server.ws(),"args":[],"env":["ONE=1","TWO=2"],"more":"string"}),
            json!({"env":["2","THREE=3"],"more":true}),
            json!({"env":["FOUR=4"]}),
        ],
    );
    let said = reply["stdout"].as_str().expect("text");
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains('/')).collect();
    for wanted in ["ONE=1", "TWO=22", "THREE=3", "FOUR=4"] {
        assert!(lines.contains(&wanted), "{wanted}: {said}");
    }
}

#[test]
fn a_string_of_bytes_may_be_cut_anywhere() {
    let server = server();
    // "é" cut in two: neither half is UTF-8, the whole is.
    let reply = call(
        &mut server.connect(),
        &[
            json!({"tool":"echo","cwd":server.ws(),"args":["caf", {"b64":"Y2Fmww=="}],"more":"string"}),
            json!({"args":[{"b64":"qQ=="}]}),
        ],
    );
    assert_eq!(reply["stdout"], json!("caf café\n"), "{reply}");
}

#[test]
fn the_longest_string_passes_and_one_byte_more_does_not() {
    let server = server();
    let script = "printf %s \"$1\" | wc -c";
    for (length, works) in [(131_071, true), (131_072, false)] {
        let text = "y".repeat(length);
        let mut wire = server.connect();
        let reply = call(
            &mut wire,
            &[
                json!({"tool":"sh","cwd":server.ws(),"args":["-c",script,"sh",&text[..60_000]],"more":"string"}),
                json!({"args":[&text[60_000..120_000]],"more":"string"}),
                json!({"args":[&text[120_000..]]}),
            ],
        );
        if works {
            assert_eq!(reply["stdout"], json!(format!("{length}\n")), "{reply}");
        } else {
            assert_eq!(reply["code"], json!("request_too_large"), "{reply}");
            assert_eq!(reply["exit_code"], json!(125), "{reply}");
        }
    }
    still_works(&server);
}

#[test]
fn a_request_without_an_end_is_refused_before_it_fills_the_memory() {
    let server = server();
    still_works(&server);
    let before = server.rss();
    for piece in [
        json!({"args":["z".repeat(60_000)],"more":true}),
        json!({"args":vec!["z"; 10_000],"more":true}),
    ] {
        let mut wire = server.connect();
        wire.send_json(&json!({"tool":"echo","cwd":server.ws(),"args":[],"more":true}));
        // 2 MiB are allowed; after 60 MiB nobody may still be listening.
        let bytes = tool_broker_tests::wire::frame(piece.to_string().as_bytes());
        let refused = (0..1000).find(|_| wire.try_send(&bytes).is_err());
        if refused.is_none() {
            wire.no_more();
        }
        // The answer may be lost with the connection, never be another one.
        if let Ok(Some(answer)) = wire.try_recv_frame() {
            let reply: Value = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(reply["code"], json!("request_too_large"), "{reply}");
        } else {
            assert!(refused.is_some(), "no answer and no end");
        }
    }
    still_works(&server);
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 16 * 1024, "grew by {grown} KiB");
}

#[test]
fn only_lists_may_go_on() {
    let server = server();
    let mut wrong = Vec::new();
    for second in [
        json!({"tool":"sh","args":["x"]}),
        json!({"cwd":"/"}),
        json!({"stdio":"stream"}),
        json!({"id":1}),
        json!({"umask":0}),
        json!({"op":"health"}),
        json!({"fds":[0]}),
        json!({"env":{"A":"b"}}),
        json!({"args":"x"}),
        json!({"args":[1]}),
        json!({"more":"string"}),
        json!({"more":1}),
    ] {
        let mut wire = server.connect();
        wire.send_json(&json!({"tool":"echo","cwd":server.ws(),"args":["a"],"more":true}));
        wire.send_json(&second);
        if second == json!({"more":"string"}) {
            // Nothing to go on with is allowed: the end decides.
            wire.send_json(&json!({"tool":"x"}));
        }
        let reply = wire.recv_json();
        if reply["code"] != json!("bad_request") || reply["exit_code"] != json!(125) {
            wrong.push(format!("{second}: {reply}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    still_works(&server);
}

#[test]
fn a_caller_that_goes_away_in_the_middle_leaves_nothing() {
    let server = server();
    let before = server.settled();
    for _ in 0..20 {
        let mut wire = server.connect();
        let args = json!(["-c", "touch ran"]);
        wire.send_json(&json!({"tool":"sh","cwd":server.ws(),"args":args,"more":true}));
    }
    server.nothing_left(before);
    assert!(!server.ws().join("ran").exists());
    still_works(&server);
}

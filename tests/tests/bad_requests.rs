//! Messages that are JSON but no good request: member by member.

use serde_json::{Value, json};
use tool_broker_tests::{Server, still_works};

/// The answer to a request with some members set, `null` taking one away.
fn with(server: &Server, members: &Value) -> Value {
    let mut request = json!({"tool":"sh","args":["-c","touch ran"],"cwd":server.ws()});
    let object = request.as_object_mut().expect("an object");
    for (name, value) in members.as_object().expect("an object") {
        match value {
            Value::Null => drop(object.remove(name)),
            value => drop(object.insert(name.clone(), value.clone())),
        }
    }
    server.connect().call(&request)
}

/// Requests that must be refused; every one that was not is told at the end.
struct Cases<'a> {
    server: &'a Server,
    wrong: Vec<String>,
}

impl Cases<'_> {
    fn refused(&mut self, members: &Value, codes: &[&str]) {
        let reply = with(self.server, members);
        let code = reply["code"].as_str().unwrap_or("none");
        let exit = json!(if code == "unknown_tool" { 127 } else { 125 });
        let error = reply["error"].as_str().unwrap_or_default();
        let plain = !error.is_empty() && !error.contains(char::is_control);
        let ran = std::fs::remove_file(self.server.ws().join("ran")).is_ok();
        if !codes.contains(&code) || reply["exit_code"] != exit || !plain || ran {
            self.wrong.push(format!("{members}: wanted {codes:?}: {reply}"));
        }
    }

    #[track_caller]
    fn done(self) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

/// One value of each JSON type.
fn every_type() -> Vec<Value> {
    vec![
        json!(true),
        json!(1),
        json!(-1),
        json!(1.5),
        json!("text"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a":1}),
    ]
}

#[test]
fn a_member_of_the_wrong_type_is_a_bad_request() {
    let server = Server::start(|_| ());
    let mut cases = Cases { server: &server, wrong: Vec::new() };
    let before = server.settled();
    let text_like = |v: &Value| v.is_string();
    for value in every_type() {
        if !text_like(&value) {
            for member in ["tool", "cwd", "stdio", "op"] {
                cases.refused(&json!({member: value}), &["bad_request"]);
            }
        }
        if value != json!([]) {
            cases.refused(&json!({"args": value}), &["bad_request"]);
        }
        if !value.is_array() && !value.is_object() {
            cases.refused(&json!({"env": value}), &["bad_request"]);
        }
        if value != json!(1) {
            cases.refused(&json!({"umask": value}), &["bad_request"]);
        }
        if !text_like(&value) && !value.is_i64() {
            cases.refused(&json!({"id": value}), &["bad_request"]);
        }
        if value != json!(true) {
            cases.refused(&json!({"more": value}), &["bad_request"]);
        }
    }
    cases.done();
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_value_that_a_member_cannot_have_is_a_bad_request() {
    let server = Server::start(|_| ());
    let mut cases = Cases { server: &server, wrong: Vec::new() };
    for members in [
        json!({"stdio":"telepathy"}),
        json!({"stdio":""}),
        json!({"stdio":"FDS"}),
        json!({"umask":512}),
        json!({"umask":-1}),
        json!({"umask":18.0}),
        json!({"umask":1e30}),
        json!({"id":"i".repeat(129)}),
        json!({"id":1.5}),
        json!({"more":"maybe"}),
        json!({"tool":null}),
        json!({"tool":""}),
        json!({"tty":{"fds":[0]}}),
        json!({"stdio":"fds","tty":{"rows":24}}),
        json!({"stdio":"fds","tty":{"fds":["0"]}}),
        json!({"stdio":"fds","tty":{"fds":[0],"rows":65536}}),
        json!({"stdio":"fds","tty":{"fds":[0],"modes":[0,0,0]}}),
        json!({"stdio":"fds","tty":{"fds":[0],"chars":vec![0; 20]}}),
        json!({"cwd":""}),
        json!({"cwd":"relative"}),
        json!({"cwd":"./x"}),
        json!({"args":[1]}),
        json!({"args":[null]}),
        json!({"args":[["x"]]}),
        json!({"args":[{}]}),
        json!({"args":[{"b64":1}]}),
        json!({"args":[{"b64":"%"}]}),
        json!({"args":[{"b64":"YQ"}]}),
        json!({"args":[{"b64":"YQ==","x":1}]}),
        json!({"args":[{"b64":"YR=="}]}),
        json!({"args":[{"b64":"YQ==\n"}]}),
        json!({"args":[{"b64":"_-8="}]}),
        json!({"env":[""]}),
        json!({"env":["=value"]}),
        json!({"env":[1]}),
        json!({"env":{"A":1}}),
        json!({"env":{"":"x"}}),
        json!({"env":{"A=B":"x"}}),
    ] {
        cases.refused(&members, &["bad_request"]);
    }
    cases.done();
}

#[test]
fn a_nul_is_refused_wherever_it_comes() {
    let server = Server::start(|_| ());
    let mut cases = Cases { server: &server, wrong: Vec::new() };
    let ws = server.ws().display().to_string();
    for members in [
        json!({"args":["-c","touch ran\u{0}"]}),
        json!({"args":["\u{0}"]}),
        json!({"args":[{"b64":"AA=="}]}),
        json!({"args":[{"b64":"YQBi"}]}),
        json!({"cwd":format!("{ws}\u{0}")}),
        json!({"cwd":{"b64":"LwA="}}),
        json!({"env":["A=\u{0}"]}),
        json!({"env":["\u{0}=b"]}),
        json!({"env":{"A":"x\u{0}y"}}),
    ] {
        cases.refused(&members, &["bad_request"]);
    }
    cases.refused(&json!({"tool":"sh\u{0}"}), &["bad_request", "unknown_tool"]);
    cases.done();
    still_works(&server);
}

#[test]
fn a_name_that_no_folder_can_have_is_no_tool() {
    let server = Server::start(|s| {
        s.file("outside/tool.json", r#"{"binary":"/bin/sh"}"#, 0o644);
        s.file("tools.d/file", "not a folder", 0o644);
    });
    let mut cases = Cases { server: &server, wrong: Vec::new() };
    for name in [
        ".",
        "..",
        "../outside",
        "/bin/sh",
        "sh/",
        "./sh",
        "sh/../sh",
        "../tools.d/sh",
        "file",
        "no-such",
        "SH",
        " sh",
        "sh\n",
        "-sh",
        "~",
        "*",
        "tool.json",
        "sh\u{202e}",
        "\u{1b}[31m",
    ] {
        cases.refused(&json!({"tool":name}), &["unknown_tool", "bad_request"]);
    }
    cases.refused(&json!({"tool":"t".repeat(65)}), &["unknown_tool", "bad_request"]);
    cases.refused(
        &json!({"tool":"t".repeat(60_000)}),
        &["unknown_tool", "bad_request", "request_too_large"],
    );
    cases.refused(&json!({"tool":"no-such"}), &["unknown_tool"]);
    cases.done();
    still_works(&server);
}

#[test]
fn what_a_caller_sends_cannot_forge_a_line_of_the_log_or_of_a_terminal() {
    let server = Server::start(|_| ());
    let evil = "x\n{\"level\":\"ERROR\",\"forged\":true}\r\u{1b}[2J\u{9b}31m\u{7}";
    for members in [
        json!({"tool":evil}),
        json!({"cwd":format!("/{evil}")}),
        json!({"stdio":evil}),
        json!({"op":evil}),
        json!({evil:1,"args":evil}),
        json!({"id":evil,"tool":"no-such"}),
        json!({"env":[format!("{evil}=1")]}),
    ] {
        let reply = with(&server, &members);
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(!error.contains(|c: char| c.is_control()), "{members}: {error:?}");
    }
    let log = std::fs::read(server.path("server.log")).expect("the log");
    let bad = log.iter().find(|byte| **byte < 0x20 && **byte != b'\n');
    assert_eq!(bad, None, "a control byte in the log: {}", server.log());
    for line in server.log().lines() {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|value| value.get("forged").is_none()), "{line}");
    }
    // And through the client, onto a terminal.
    let mut client = server.client("tool-client");
    let outcome = tool_broker_tests::run(client.arg(evil), b"");
    assert!(outcome.stderr.iter().all(|byte| *byte >= 0x20 || *byte == b'\n'), "{outcome:?}");
    outcome.refused(127);
}

#[test]
fn an_empty_message_says_what_is_missing() {
    let server = Server::start(|_| ());
    let reply = server.connect().call(&json!({}));
    assert_eq!(reply["code"], json!("bad_request"), "{reply}");
    assert!(reply["error"].as_str().is_some_and(|error| error.contains("tool")), "{reply}");
    let reply = server.connect().call(&json!({"tool":"sh","cwd":server.ws()}));
    // Without `args`: none, or refused; in no case an internal error.
    assert_ne!(reply["code"], json!("internal"), "{reply}");
    let reply = server.connect().call(&json!({"tool":"sh","args":["-c","pwd"]}));
    assert_eq!(reply["code"], json!("bad_request"), "no directory was named: {reply}");
}

#[test]
fn the_codes_of_refusals_come_with_the_id_of_the_request() {
    let server = Server::start(|_| ());
    let reply = with(&server, &json!({"tool":"no-such","id":"abc"}));
    assert_eq!((&reply["id"], &reply["code"]), (&json!("abc"), &json!("unknown_tool")), "{reply}");
    let reply = with(&server, &json!({"cwd":"/","id":0}));
    assert_eq!((&reply["id"], &reply["code"]), (&json!(0), &json!("cwd_outside")), "{reply}");
}

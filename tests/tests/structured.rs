//! Calls with JSON over the socket: programs, several at once, long inputs and outputs.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, still_works};

fn server() -> Server {
    Server::start(|s| {
        s.tool("sh", "binary = \"/bin/sh\"\n");
        s.tool(
            "echo",
            "binary = \"/bin/echo\"\ndescription = \"says what it is told\"\ndefault = \"allow\"\n\
             [[rule]]\nid = \"no-secrets\"\ndecision = \"deny\"\noperands = \"secret\"\n\
             reason = \"it is one\"\ninstead = \"say something else\"\n",
        );
    })
}

/// One call on a connection of its own.
fn call(server: &Server, tool: &str, input: &Value) -> Value {
    server.connect().call(&json!({"tool": tool, "input": input, "id": 1}))
}

/// The output of a call that succeeds.
#[track_caller]
fn output(server: &Server, tool: &str, input: &Value) -> Value {
    let seen = call(server, tool, input);
    assert_eq!(seen["success"], json!(true), "{seen}");
    assert_eq!((&seen["error"], &seen["id"]), (&Value::Null, &json!(1)), "{seen}");
    assert!(seen["duration_ms"].is_u64() && seen["call_id"].is_string(), "{seen}");
    seen["output"].clone()
}

/// The error's code of a call that does not succeed.
#[track_caller]
fn code(server: &Server, tool: &str, input: &Value) -> String {
    let seen = call(server, tool, input);
    assert_eq!(seen["success"], json!(false), "{seen}");
    let message = seen["error"]["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty() && !message.contains(char::is_control), "{seen}");
    seen["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_program_is_run_with_its_arguments_and_no_shell_in_between() {
    let server = server();
    let argv = ["printf", "%s|", "a b", "$HOME", "*", "é"];
    let ran = output(&server, "run_command", &json!({ "argv": argv }));
    assert_eq!(ran["stdout"], json!("a b|$HOME|*|é|"));
    let expected = json!({"exit_code": 0, "stderr": "", "timed_out": false, "truncated": false});
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&ran[name], value, "{name}: {ran}");
    }
    let cat = json!({"argv": ["cat"], "stdin": "in\u{0}put"});
    assert_eq!(output(&server, "run_command", &cat)["stdout"], json!("in\u{0}put"));
    fs::create_dir(server.ws().join("sub")).expect("mkdir");
    let pwd = json!({"argv": ["pwd"], "cwd": "sub"});
    let said = output(&server, "run_command", &pwd)["stdout"].clone();
    assert_eq!(said, json!(format!("{}\n", server.ws().join("sub").display())));
    assert_eq!(
        code(&server, "run_command", &json!({"argv": ["no-such-program"]})),
        "NOT_INSTALLED"
    );
    for none in [json!({"argv": []}), json!({"argv": [""]})] {
        for tool in ["run_command", "dev_server_start"] {
            assert_eq!(code(&server, tool, &none), "INVALID_INPUT", "{tool}: {none}");
        }
    }
    let outside = json!({"argv": ["pwd"], "cwd": "/etc"});
    assert_eq!(code(&server, "run_command", &outside), "PATH_OUTSIDE_WORKSPACE");
    let nowhere = json!({"argv": ["pwd"], "cwd": "../no/such"});
    assert_eq!(code(&server, "run_command", &nowhere), "PATH_OUTSIDE_WORKSPACE");
    assert_eq!(code(&server, "run_command", &json!({"argv": ["a\u{0}b"]})), "INVALID_INPUT");
    assert_eq!(code(&server, "run_command", &json!({"argv": ["ls"], "zzz": 1})), "INVALID_INPUT");
}

#[test]
fn a_line_of_shell_is_a_tool_of_its_own() {
    let server = server();
    let line = json!({"command": "echo out; echo err >&2; exit 7"});
    let seen = call(&server, "run_shell", &line);
    // Whether several commands may be in a line is its definition's to say.
    assert!(seen["success"] == json!(true) || seen["error"]["code"] == json!("DENIED"), "{seen}");
    let ran = output(&server, "run_shell", &json!({"command": "echo a b | tr a-z A-Z"}));
    assert_eq!(ran["stdout"], json!("A B\n"));
    let ran = output(&server, "run_shell", &json!({"command": "ls /no/such"}));
    assert_ne!(ran["exit_code"], json!(0), "a program that fails is no failure of the tool: {ran}");
    for other in ["run_command", "execute_command", "command"] {
        let seen = call(&server, other, &json!({"command": "echo test"}));
        assert_eq!(
            (&seen["tool"], &seen["output"]["stdout"]),
            (&json!("run_shell"), &json!("test\n"))
        );
    }
}

#[test]
fn a_program_that_no_rule_allows_is_refused_whether_or_not_it_is_there() {
    let server = server();
    // As `explain` says it.
    let seen = call(&server, "run_command", &json!({"argv": ["mkfs.no-such", "x"]}));
    assert_eq!(seen["error"]["code"], json!("DENIED"), "{seen}");
    assert_eq!(seen["error"]["rule"], json!("format"), "{seen}");
    let seen = call(&server, "run_command", &json!({"argv": ["no-such-program"]}));
    assert_eq!(seen["error"]["code"], json!("NOT_INSTALLED"), "{seen}");
}

#[test]
fn a_program_with_its_arguments_is_no_line_of_shell() {
    let server = server();
    let asked = json!({"command": "printf", "args": ["%s|", "$HOME", "; ls"]});
    let ran = output(&server, "run_command", &asked);
    assert_eq!(ran["stdout"], json!("$HOME|; ls|"));
    for tool in ["run_shell", "dev_server_start"] {
        assert_eq!(code(&server, tool, &json!({"command": " "})), "INVALID_INPUT", "{tool}");
    }
}

#[test]
fn what_is_not_taken_for_the_environment_is_named() {
    let server = server();
    let env = json!({"LANG": "C", "LD_PRELOAD": "x.so", "FOO": "1"});
    let ran = output(&server, "run_command", &json!({"argv": ["env"], "env": env}));
    assert_eq!(ran["env_left_out"], json!(["FOO", "LD_PRELOAD"]), "{ran}");
    let said = ran["stdout"].as_str().expect("text");
    assert!(said.contains("LANG=C\n") && !said.contains("FOO"), "{said}");
    let taken = json!({"argv": ["env"], "env": {"LANG": "C"}});
    assert_eq!(output(&server, "run_command", &taken).get("env_left_out"), None);
    let started = json!({"argv": ["sleep", "1000"], "env": {"FOO": "1"}});
    let seen = call(&server, "dev_server_start", &started);
    assert_eq!(seen["output"]["env_left_out"], json!(["FOO"]), "{seen}");
}

#[test]
fn a_member_that_is_wrong_is_named_as_the_caller_named_it() {
    let server = server();
    for (tool, input, wanted) in [
        ("read_file", json!({"path": 3}), "path: invalid type"),
        ("read", json!({"path": "a", "startLine": "2"}), "startLine: invalid type"),
        (
            "edit_file",
            json!({"path": "a", "edits": [{"old_text": "a"}]}),
            "edits[0]: missing field `new_text`",
        ),
        ("run_command", json!({"argv": "ls"}), "argv: invalid type"),
    ] {
        let seen = call(&server, tool, &input);
        let message = seen["error"]["message"].as_str().expect("a message");
        assert_eq!(seen["error"]["code"], json!("INVALID_INPUT"), "{seen}");
        assert!(message.contains(wanted) && !message.contains("column"), "{message}");
    }
}

#[test]
fn a_tool_of_tools_d_is_called_with_json_by_its_own_rules() {
    let server = server();
    let said = output(&server, "echo", &json!({"args": ["hello", "you"]}));
    assert_eq!(said["stdout"], json!("hello you\n"));
    let seen = call(&server, "echo", &json!({"args": ["secret"]}));
    let error = &seen["error"];
    assert_eq!(error["code"], json!("DENIED"), "{seen}");
    assert_eq!(error["rule"], json!("no-secrets"), "{seen}");
    assert_eq!(error["hint"], json!("instead: say something else"), "{seen}");
    assert_eq!(code(&server, "no-such-tool", &json!({})), "UNKNOWN_TOOL");
    assert_eq!(code(&server, "echo", &json!({"argv": ["x"]})), "INVALID_INPUT");
}

#[test]
fn several_calls_are_under_way_on_one_connection() {
    let server = server();
    let mut wire = server.connect();
    let slow = json!({"args": ["-c", "while [ ! -e go ]; do sleep 0.02; done; echo slow"]});
    wire.send_json(&json!({"tool": "sh", "input": slow, "id": "slow"}));
    for id in 1..=8 {
        let input = json!({"argv": ["echo", id.to_string()]});
        wire.send_json(&json!({"tool": "run_command", "input": input, "id": id}));
    }
    let mut seen: Vec<i64> = Vec::new();
    for _ in 0..8 {
        let reply = wire.recv_json();
        let id = reply["id"].as_i64().expect("a number, not the slow one");
        assert_eq!(reply["output"]["stdout"], json!(format!("{id}\n")), "{reply}");
        seen.push(id);
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=8).collect::<Vec<_>>());
    fs::write(server.ws().join("go"), "").expect("write");
    let reply = wire.recv_json();
    assert_eq!((&reply["id"], &reply["output"]["stdout"]), (&json!("slow"), &json!("slow\n")));
}

#[test]
fn an_output_that_fits_no_message_comes_in_chunks_before_the_last_one() {
    let server = server();
    let mut wire = server.connect();
    let input = json!({"args": ["-c", "seq 1 40000"], "max_output_bytes": 1_000_000});
    wire.send_json(&json!({"tool": "sh", "input": input, "id": 5}));
    let (mut text, last) = (Vec::new(), long(&mut wire, &mut Vec::new()));
    text.extend_from_slice(&last.1);
    assert_eq!(last.0["output_bytes"], json!(text.len()), "{}", last.0);
    assert_eq!((&last.0["id"], &last.0["output"]), (&json!(5), &Value::Null));
    let output: Value = serde_json::from_slice(&text).expect("JSON");
    let expected: String = (1..=40000).map(|n| format!("{n}\n")).collect();
    assert_eq!(output["stdout"], json!(expected));
}

/// All chunks and the last message.
fn long(wire: &mut Wire, before: &mut Vec<Value>) -> (Value, Vec<u8>) {
    let mut text = Vec::new();
    loop {
        let frame = wire.recv_frame().expect("a frame");
        match frame.first() {
            Some(1) => text.extend_from_slice(&frame[1..]),
            _ => {
                let message: Value = serde_json::from_slice(&frame).expect("JSON");
                if message.get("success").is_some() {
                    return (message, text);
                }
                before.push(message);
            }
        }
    }
}

#[test]
fn a_long_input_follows_in_chunks() {
    let server = server();
    let mut wire = server.connect();
    let stdin = "x".repeat(300_000);
    let input = json!({"argv": ["wc", "-c"], "stdin": stdin}).to_string();
    wire.send_json(&json!({"tool": "run_command", "input_bytes": input.len(), "id": 1}));
    for piece in input.as_bytes().chunks(60_000) {
        wire.send_input(piece);
    }
    assert_eq!(wire.recv_json()["output"]["stdout"], json!("300000\n"));
    // What is said in between is no part of it.
    wire.send_json(&json!({"tool": "run_command", "input_bytes": 100, "id": 2}));
    wire.send_json(&json!({"op": "health"}));
    assert_eq!(wire.recv_json()["code"], json!("bad_request"));
    wire.no_more();
    for bytes in [0_u64, 1 << 40] {
        let mut wire = server.connect();
        let reply = wire.call(&json!({"tool": "run_command", "input_bytes": bytes, "id": 3}));
        assert_eq!(reply["code"], json!("request_too_large"), "{reply}");
    }
    still_works(&server);
}

#[test]
fn a_call_is_taken_back_by_its_id_and_its_processes_end() {
    let server = server();
    let mut wire = server.connect();
    let input = json!({"args": ["-c", "echo $$ > pid; exec sleep 1000"]});
    wire.send_json(&json!({"tool": "sh", "input": input, "id": "a"}));
    let pid =
        || fs::read_to_string(server.ws().join("pid")).ok().filter(|text| text.ends_with('\n'));
    eventually("it runs", || pid().is_some());
    wire.send_json(&json!({"signal": "TERM", "id": "other"}));
    wire.send_json(&json!({"signal": "TERM", "id": "a"}));
    let reply = wire.recv_json();
    assert_eq!((&reply["id"], &reply["success"]), (&json!("a"), &json!(false)), "{reply}");
    assert_eq!(reply["error"]["code"], json!("INTERRUPTED"), "{reply}");
    assert_eq!(reply["error"]["message"], json!("the caller took it back, and it was ended"));
    assert!(server.children().is_empty(), "{:?}", server.children());
    // The connection goes on.
    let reply = wire.call(&json!({"tool": "echo", "input": {"args": ["on"]}, "id": "b"}));
    assert_eq!(reply["output"]["stdout"], json!("on\n"));
}

#[test]
fn who_goes_away_takes_the_calls_along() {
    let server = server();
    let mut wire = server.connect();
    let input = json!({"args": ["-c", "touch began; exec sleep 1000"]});
    wire.send_json(&json!({"tool": "sh", "input": input, "id": 1}));
    eventually("it runs", || server.ws().join("began").exists());
    drop(wire);
    eventually("it ends", || server.children().is_empty());
}

#[test]
fn a_call_that_takes_too_long_keeps_what_it_wrote() {
    let server = server();
    // On a busy machine it may be ended before it has said anything: then it has more time.
    let kept = [300, 5_000, 30_000].into_iter().any(|most| {
        let input = json!({"args": ["-c", "echo begun; exec sleep 1000"], "timeout_ms": most});
        let seen = call(&server, "sh", &input);
        assert_eq!(seen["error"]["code"], json!("TIMED_OUT"), "{seen}");
        // Whose time it was: nobody's definition has to be changed for this.
        let message = seen["error"]["message"].as_str().expect("a message");
        assert!(message.contains(&format!("the {most} ms of the call")), "{message}");
        assert_eq!(seen["output"]["timed_out"], json!(true), "{seen}");
        seen["output"]["stdout"] == json!("begun\n")
    });
    assert!(kept, "what it wrote is not there");
}

#[test]
fn of_a_long_output_the_beginning_and_the_end_are_given() {
    let server = server();
    let input = json!({"argv": ["seq", "1", "100000"], "max_output_bytes": 40});
    let ran = output(&server, "run_command", &input);
    let text = ran["stdout"].as_str().expect("text");
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("99999\n100000\n"), "{text}");
    assert!(text.contains("bytes left out]"), "{text}");
    assert_eq!((&ran["truncated"], &ran["stdout_bytes"]), (&json!(true), &json!(588_895)));
    let raw = json!({"argv": ["printf", "\\377\\000"]});
    let ran = output(&server, "run_command", &raw);
    assert_eq!((&ran["stdout"], &ran["stdout_encoding"]), (&json!("/wA="), &json!("base64")));
}

#[test]
fn output_is_given_as_it_comes_to_who_wants_it() {
    let server = server();
    let mut wire = server.connect();
    let script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two";
    let input = json!({"args": ["-c", script]});
    wire.send_json(&json!({"tool": "sh", "input": input, "id": 1, "pieces": true}));
    let first = wire.recv_json();
    assert_eq!(
        first,
        json!({"piece": {"stream": "stdout", "text": "one\n", "encoding": "utf-8"}, "id": 1})
    );
    fs::write(server.ws().join("go"), "").expect("write");
    let mut before = Vec::new();
    let (last, _) = long(&mut wire, &mut before);
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(last["output"]["stdout"], json!("one\ntwo\n"), "and the whole at the end");
}

#[test]
fn what_is_no_call_with_json_is_refused() {
    let server = server();
    for message in [
        json!({"tool": "echo", "input": {}, "args": []}),
        json!({"tool": "echo", "input": {}, "cwd": "/"}),
        json!({"tool": "echo", "input": {}, "input_bytes": 3}),
        json!({"tool": "echo", "pieces": true}),
        json!({"input": {}}),
        json!({"tool": "echo", "input": {}, "stdio": "fds", "fds": []}),
    ] {
        let reply = server.connect().call(&message);
        assert_eq!(reply["code"], json!("bad_request"), "{message}: {reply}");
    }
    for input in [json!([]), json!("text"), json!(1), Value::Null] {
        let reply = server.connect().call(&json!({"tool": "echo", "input": input, "id": 1}));
        let said = [&reply["error"]["code"], &reply["code"]];
        assert!(
            said.iter().any(|code| ["BAD_JSON", "BAD_REQUEST", "bad_request"]
                .contains(&code.as_str().unwrap_or(""))),
            "{input}: {reply}"
        );
    }
    let mut wire = server.connect();
    wire.send_frame(br#"{"tool":"echo","input":{"args":["a"],"args":["b"]},"id":1}"#);
    assert_eq!(wire.recv_json()["code"], json!("bad_json"));
    let reply = server.control().call(&json!({"tool": "run_command", "input": {"argv": ["ls"]}}));
    assert_eq!(reply["code"], json!("unknown_op"), "{reply}");
    still_works(&server);
}

#[test]
fn a_socket_serves_only_its_tools() {
    let server = Server::start(|s| {
        s.tool("echo", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
        let path = s.path("run/few.sock");
        s.env("TOOL_LISTEN", format!("{},tools=echo:run_shell", path.display()));
    });
    let few = server.path("run/few.sock");
    let call = |tool: &str, input: Value| {
        Wire::connect(&few).call(&json!({"tool": tool, "input": input, "id": 1}))
    };
    assert_eq!(call("echo", json!({"args": ["a"]}))["success"], json!(true));
    assert_eq!(call("command", json!({"command": "echo a"}))["success"], json!(true));
    let refused = call("run_command", json!({"argv": ["ls"]}));
    assert_eq!(refused["error"]["code"], json!("UNKNOWN_TOOL"), "{refused}");
}

#[test]
fn a_list_is_waited_for_until_it_is_another_one() {
    let server = server();
    let ask = |after: Option<&Value>| {
        let mut question = json!({"op": "tools", "format": "mcp"});
        if let Some(after) = after {
            question["after"] = after.clone();
        }
        let mut wire = server.connect();
        wire.send_json(&question);
        wire
    };
    let last = |mut wire: Wire| loop {
        let payload = wire.recv_frame().expect("a last message");
        if payload.first() == Some(&b'{') {
            return serde_json::from_slice::<Value>(&payload).expect("JSON");
        }
    };
    let first = last(ask(None));
    assert_eq!(first["workspaces"], json!([server.ws()]), "{first}");
    assert_eq!(last(ask(Some(&json!("another")))), first, "that is not the list any more");
    let waiting = ask(Some(&first["version"]));
    server.tool("later", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
    let second = last(waiting);
    assert_ne!(second["version"], first["version"]);
}

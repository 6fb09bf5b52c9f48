//! Sessions of MCP: what is told meanwhile, what ends a call, whose answer is whose.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, BOB, Http};
use tool_broker_tests::mcp::{Client, Events, Pipe, VERSIONS, Web, hello, messages, request};
use tool_broker_tests::{Server, eventually, still_works};

const ECHO: &str = "binary = \"/bin/echo\"\ndefault = \"allow\"\n";
const ASKED: &str = "binary = \"/bin/echo\"\ndefault = \"ask\"\n";

fn server() -> Http {
    Http::with_tokens(|s| {
        s.tool("echo", ECHO);
        s.tool("asked", ASKED);
    })
}

/// A program that says that it runs, and then runs for long.
fn long() -> Value {
    let line = "echo begun; touch begun; sleep 1000";
    json!({"name": "sh", "arguments": {"args": ["-c", line]}})
}

/// Waits until that program runs, and clears the mark.
fn begun(server: &Server) {
    let mark = server.ws().join("begun");
    eventually("the program to begin", || mark.exists());
    fs::remove_file(mark).expect("remove");
}

fn sleeps(server: &Server) -> bool {
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    server.descendants().iter().any(|process| name(process.pid).trim_end() == "sleep")
}

fn cancelled(id: i64) -> Value {
    let params = json!({"requestId": id, "reason": "no more"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

#[test]
fn a_call_that_is_taken_back_ends_with_its_processes() {
    let http = server();
    let mut pipe = Pipe::begun(&http.server);
    pipe.send(&request(7, "tools/call", &long()));
    begun(&http.server);
    pipe.send(&cancelled(7));
    eventually("its processes to end", || !sleeps(&http.server));
    assert_eq!(pipe.result(8, "ping", &json!({})), json!({}), "and nothing else does");

    let mut web = Web::begun(&http, ALICE);
    let mut answer = web.stream("POST /mcp", &request(7, "tools/call", &long()).to_string());
    begun(&http.server);
    web.send(&cancelled(7));
    eventually("its processes to end", || !sleeps(&http.server));
    assert!(!answer.rest().contains("\"result\""), "what is taken back is not answered");
    assert_eq!(web.result(8, "ping", &json!({})), json!({}));
    still_works(&http.server);
}

/// How many calls wait for a person.
fn waiting(server: &Server) -> usize {
    let answer = server.control().call(&json!({"op": "approvals"}));
    let all = answer["waiting"].as_array().expect("a list");
    all.iter().filter(|one| one["waits"] == json!(true)).count()
}

#[test]
fn a_resource_that_is_taken_back_is_not_waited_for() {
    let http = Http::with_tokens(|s| {
        for tool in ["read_file", "list_directory"] {
            s.file(format!("agent.d/{tool}.toml"), "default = \"ask\"\n", 0o644);
        }
        s.env("TOOL_AGENT_DEFINITIONS", s.path("agent.d"));
    });
    let file = http.server.ws().join("f");
    fs::write(&file, "x").expect("write");
    let read = json!({"uri": format!("file://{}", file.display())});
    let asked = [("resources/read", read), ("resources/list", json!({}))];

    let mut pipe = Pipe::begun(&http.server);
    // Each number once in a session, as MCP has it: else the end of one is the other's.
    for (id, (method, params)) in (20..).zip(&asked) {
        pipe.send(&request(id, method, params));
        eventually("it waits", || waiting(&http.server) == 1);
        pipe.send(&cancelled(id));
        eventually("it waits no more", || waiting(&http.server) == 0);
    }
    assert_eq!(pipe.result(8, "ping", &json!({})), json!({}), "and nothing else ends");

    let mut web = Web::begun(&http, ALICE);
    // Who listens is there: nothing is ended because nobody is.
    let _listening = web.stream("GET /mcp", "");
    for (id, (method, params)) in (20..).zip(&asked) {
        let mut answer = web.stream("POST /mcp", &request(id, method, params).to_string());
        eventually("it waits", || waiting(&http.server) == 1);
        web.send(&cancelled(id));
        eventually("it waits no more", || waiting(&http.server) == 0);
        assert!(!answer.rest().contains("\"result\""), "what is taken back is not answered");
    }
    assert_eq!(web.result(8, "ping", &json!({})), json!({}));
    // The end of the session takes them along too.
    let (method, params) = &asked[0];
    let _answer = web.stream("POST /mcp", &request(9, method, params).to_string());
    eventually("it waits", || waiting(&http.server) == 1);
    assert_eq!(web.delete(), 200);
    eventually("it waits no more", || waiting(&http.server) == 0);
}

#[test]
fn who_goes_away_takes_the_calls_along() {
    let http = server();
    let mut pipe = Pipe::begun(&http.server);
    pipe.send(&request(7, "tools/call", &long()));
    begun(&http.server);
    pipe.die();
    eventually("its processes to end", || !sleeps(&http.server));

    // A client that closes its end lets what it asked end for a while, and is gone then.
    let mut pipe = Pipe::begun(&http.server);
    pipe.send(&request(7, "tools/call", &long()));
    begun(&http.server);
    pipe.leave();
    eventually("its processes to end", || !sleeps(&http.server));

    let web = Web::begun(&http, ALICE);
    let _answer = web.stream("POST /mcp", &request(7, "tools/call", &long()).to_string());
    begun(&http.server);
    assert_eq!(web.delete(), 200);
    eventually("its processes to end", || !sleeps(&http.server));
    assert_eq!(web.post(&request(8, "ping", &json!({})).to_string()).status, 404);
    still_works(&http.server);
}

#[test]
fn a_call_tells_its_progress_to_who_asks_for_it() {
    let http = server();
    let line = "for i in 1 2 3; do echo $i; sleep 0.1; done";
    let asked = |token: bool| {
        let mut call = json!({"name": "sh", "arguments": {"args": ["-c", line]}});
        if token {
            call["_meta"] = json!({"progressToken": "mine"});
        }
        request(3, "tools/call", &call)
    };
    let look = |told: &[Value]| {
        let (last, before) = told.split_last().expect("an answer");
        assert_eq!(last["result"]["structuredContent"]["stdout"], json!("1\n2\n3\n"), "{last}");
        let mut at = 0.0;
        let mut text = String::new();
        for message in before {
            assert_eq!(message["method"], json!("notifications/progress"), "{message}");
            assert_eq!(message["params"]["progressToken"], json!("mine"));
            let progress = message["params"]["progress"].as_f64().expect("a number");
            assert!(progress > at, "it grows");
            at = progress;
            text += message["params"]["message"].as_str().expect("text");
        }
        (before.len(), text)
    };
    let mut pipe = Pipe::begun(&http.server);
    for token in [true, false] {
        pipe.send(&asked(token));
        let mut told = vec![pipe.next()];
        while told.last().is_some_and(|message| message.get("result").is_none()) {
            told.push(pipe.next());
        }
        let (count, text) = look(&told);
        assert!(if token { count > 0 && text == "1\n2\n3\n" } else { count == 0 }, "{told:?}");
    }
    let web = Web::begun(&http, ALICE);
    for token in [true, false] {
        let told = messages(&web.post(&asked(token).to_string()));
        let (count, text) = look(&told);
        assert!(if token { count > 0 && text == "1\n2\n3\n" } else { count == 0 }, "{told:?}");
    }
}

#[test]
fn a_call_that_waits_for_a_person_says_so() {
    let http = server();
    let mut pipe = Pipe::begun(&http.server);
    let mut call = json!({"name": "asked", "arguments": {"args": ["x"]}});
    call["_meta"] = json!({"progressToken": 5});
    pipe.send(&request(1, "tools/call", &call));
    let progress = pipe.next();
    assert_eq!(progress["method"], json!("notifications/progress"), "{progress}");
    let line = pipe.next();
    assert_eq!(line["method"], json!("notifications/message"), "{line}");
    assert_eq!(line["params"]["data"], progress["params"]["message"]);
    assert!(line["params"]["data"].as_str().is_some_and(|text| text.contains("approv")), "{line}");
    pipe.send(&cancelled(1));
    // Who wants to hear of errors alone hears none of it.
    pipe.result(2, "logging/setLevel", &json!({"level": "error"}));
    pipe.send(&request(3, "tools/call", &call));
    assert_eq!(pipe.next()["method"], json!("notifications/progress"));
    pipe.send(&request(4, "ping", &json!({})));
    assert_eq!(pipe.next()["id"], json!(4));
}

/// By the newest version, which has no sessions.
fn stateless(
    http: &Http,
    method: &str,
    name: &str,
    mut params: Value,
    level: Option<&str>,
) -> Events {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(level) = level {
        params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
    }
    let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\n") };
    let web = Web::new(http, ALICE);
    web.stream_with(
        "POST /mcp",
        &format!("MCP-Protocol-Version: 2026-07-28\nMcp-Method: {method}\n{name}"),
        &request(1, method, &params).to_string(),
    )
}

#[test]
fn what_a_program_says_on_standard_error_is_told_to_who_wants_to_hear_all() {
    let http = server();
    let line = "echo one >&2; sleep 0.1; echo two >&2; echo out";
    let call = json!({"name": "sh", "arguments": {"args": ["-c", line]}});
    let said = |told: &[Value]| {
        let lines = told.iter().filter(|message| message["method"] == "notifications/message");
        let lines = lines.map(|line| {
            let params = &line["params"];
            assert_eq!((&params["level"], &params["logger"]), (&json!("debug"), &json!("sh")));
            params["data"].as_str().expect("text").to_owned()
        });
        let lines: Vec<String> = lines.collect();
        let (last, before) = told.split_last().expect("an answer");
        assert_eq!(last["result"]["structuredContent"]["stderr"], json!("one\ntwo\n"), "{last}");
        assert_eq!(before.len(), lines.len(), "nothing else: {told:?}");
        lines.join("\n")
    };
    let mut pipe = Pipe::begun(&http.server);
    // By HTTP they come on the stream that the client listens on.
    let mut web = Web::begun(&http, ALICE);
    let mut listening = web.stream("GET /mcp", "");
    assert!(listening.status().contains("200"));
    for (id, level, heard) in [(1, None, ""), (3, Some("debug"), "one\ntwo"), (5, Some("info"), "")]
    {
        if let Some(level) = level {
            pipe.result(id, "logging/setLevel", &json!({"level": level}));
            web.result(id, "logging/setLevel", &json!({"level": level}));
        }
        pipe.send(&request(id + 1, "tools/call", &call));
        let mut told = vec![pipe.next()];
        while told.last().is_some_and(|message| message.get("result").is_none()) {
            told.push(pipe.next());
        }
        assert_eq!(said(&told), heard, "{level:?}");
        let answer = messages(&web.post(&request(id + 1, "tools/call", &call).to_string()));
        // Both lines may come as one.
        let mut told: Vec<Value> = Vec::new();
        let text = |one: &Value| one["params"]["data"].as_str().expect("text").to_owned();
        while told.iter().map(text).collect::<Vec<_>>().join("\n").len() < heard.len() {
            told.push(listening.message().expect("a message"));
        }
        told.extend(answer);
        assert_eq!(said(&told), heard, "{level:?}");
    }
    assert_eq!(web.delete(), 200);
    assert!(!listening.rest().contains("notifications/message"), "no more than was asked for");
    // In the newest version each request says it, or hears nothing.
    for (level, heard) in [(None, ""), (Some("debug"), "one\ntwo"), (Some("error"), "")] {
        let mut stream = stateless(&http, "tools/call", "sh", call.clone(), level);
        let told: Vec<Value> = std::iter::from_fn(|| stream.message()).collect();
        assert_eq!(said(&told), heard, "{level:?}");
    }
}

#[test]
fn who_listens_without_a_session_is_told_of_other_tools() {
    let http = server();
    let wanted = |list: &str| {
        let params = json!({"notifications": {list: true}});
        let mut stream = stateless(&http, "subscriptions/listen", "", params, None);
        let first = stream.message().expect("a message");
        assert_eq!(first["method"], json!("notifications/subscriptions/acknowledged"), "{first}");
        stream
    };
    let mut tools = wanted("toolsListChanged");
    let mut prompts = wanted("promptsListChanged");
    http.server.tool("later", ECHO);
    let told = tools.message().expect("a message");
    assert_eq!(told["method"], json!("notifications/tools/list_changed"), "{told}");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(1));
    let setup = http.server.stop(Signal::SIGTERM);
    let rest = prompts.rest();
    assert!(!rest.contains("list_changed"), "who did not ask for it is told nothing: {rest}");
    drop((setup, tools));
}

#[test]
fn a_tool_that_comes_or_goes_is_told_of() {
    let http = server();
    let mut pipe = Pipe::begun(&http.server);
    let web = Web::begun(&http, ALICE);
    let mut listening = web.stream("GET /mcp", "");
    assert!(listening.status().contains("200"));
    // Both know the list as it is now.
    pipe.result(1, "tools/list", &json!({}));
    let named = |listed: &Value| {
        let all = listed["tools"].as_array().expect("tools").clone();
        all.iter().any(|tool| tool["name"] == json!("later"))
    };
    let changed = json!("notifications/tools/list_changed");
    http.server.tool("later", ECHO);
    assert_eq!(pipe.next()["method"], changed);
    assert_eq!(listening.message().expect("a message")["method"], changed);
    assert!(named(&pipe.result(2, "tools/list", &json!({}))));
    fs::remove_dir_all(http.server.path("tools.d/later")).expect("remove");
    assert_eq!(pipe.next()["method"], changed);
    assert_eq!(listening.message().expect("a message")["method"], changed);
    assert!(!named(&pipe.result(3, "tools/list", &json!({}))));
}

#[test]
fn who_begins_again_and_again_is_told_of_other_tools_once() {
    let http = server();
    let mut pipe = Pipe::begun(&http.server);
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    (0..3).for_each(|_| pipe.send(&begun));
    pipe.result(1, "tools/list", &json!({}));
    let changed = json!("notifications/tools/list_changed");
    http.server.tool("later", ECHO);
    assert_eq!(pipe.next()["method"], changed);
    pipe.result(2, "tools/list", &json!({}));
    // Whoever else was to tell it has told it before this one is told.
    http.server.tool("latest", ECHO);
    assert_eq!(pipe.next()["method"], changed);
    pipe.send(&request(3, "ping", &json!({})));
    assert_eq!(pipe.next()["id"], json!(3));
}

#[test]
fn clients_never_get_each_others_answers() {
    let http = server();
    let one = |number: i64, client: &mut dyn Client, id: i64| {
        let word = format!("client-{number}-call-{id}");
        let said = client.call(id, "echo", &json!({"args": [word]}));
        assert_eq!(said["structuredContent"]["stdout"], json!(format!("{word}\n")), "{said}");
    };
    std::thread::scope(|scope| {
        for (number, token) in (0..).zip([ALICE, BOB, ALICE, BOB]) {
            let http = &http;
            scope.spawn(move || {
                let mut web = Web::begun(http, token);
                (1..=40).for_each(|id| one(number, &mut web, id));
            });
        }
        let server = &http.server;
        scope.spawn(move || {
            let mut pipe = Pipe::begun(server);
            // All at once, by ids that the others use too.
            for id in 1..=40 {
                let input = json!({"name": "echo", "arguments": {"args": [format!("pipe-{id}")]}});
                pipe.send(&request(id, "tools/call", &input));
            }
            let mut seen = Vec::new();
            for _ in 1..=40 {
                let answer = pipe.next();
                let id = answer["id"].as_i64().expect("an id");
                let said = &answer["result"]["structuredContent"]["stdout"];
                assert_eq!(said, &json!(format!("pipe-{id}\n")), "{answer}");
                seen.push(id);
            }
            seen.sort_unstable();
            assert_eq!(seen, (1..=40).collect::<Vec<_>>());
        });
    });
    still_works(&http.server);
}

#[test]
fn a_session_is_for_the_client_alone_that_began_it() {
    let http = server();
    let mut alice = Web::begun(&http, ALICE);
    let ping = request(5, "ping", &json!({})).to_string();
    assert_eq!(alice.post(&ping).status, 200);
    let mut bob = Web::new(&http, BOB);
    bob.session.clone_from(&alice.session);
    for answer in [bob.post(&ping), bob.post(&cancelled(1).to_string())] {
        assert_eq!(answer.status, 404, "{answer:?}");
        assert_eq!(answer.json()["error"]["code"], json!(-32001), "{answer:?}");
    }
    assert!(bob.stream("GET /mcp", "").status().contains("404"));
    assert_eq!(bob.delete(), 404);
    assert_eq!(alice.post(&ping).status, 200, "and it is still there");
    let session = alice.session.clone().expect("a session");
    assert!(session.len() >= 32, "{session}");
    for other in ["", "0", "00000000-0000-4000-8000-000000000000", &session[1..]] {
        alice.session = Some(other.to_owned());
        assert_eq!(alice.post(&ping).status, 404, "{other}");
    }
    alice.session = None;
    assert_eq!(alice.post(&ping).status, 400, "a session is needed");
    let stranger = http.raw(
        http.request(
            "POST /mcp",
            "Accept: application/json, text/event-stream\n",
            &request(0, "initialize", &hello(VERSIONS[3], &json!({}))).to_string(),
        )
        .as_bytes(),
    );
    assert_eq!(stranger.status, 401, "{stranger:?}");
    alice.session = Some(session);
    assert_eq!(alice.delete(), 200);
    assert_eq!(alice.post(&ping).status, 404);
}

#[test]
fn what_is_no_message_of_mcp_is_refused_and_harms_nothing() {
    let http = server();
    let mut web = Web::begun(&http, ALICE);
    let ping = request(5, "ping", &json!({})).to_string();
    let batch = format!("[{ping},{ping}]");
    for (body, code) in [
        ("{", -32700),
        ("nothing", -32700),
        ("[]", -32600),
        (&batch, -32600),
        ("{}", -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
    ] {
        let answer = web.post(body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], json!(code), "{body}");
    }
    let none = web.ask(6, "no/such", &json!({}));
    assert_eq!(none["error"]["code"], json!(-32601), "{none}");
    assert_eq!(web.result(7, "ping", &json!({})), json!({}));

    let mut pipe = Pipe::begun(&http.server);
    pipe.raw(b"{\n\n\0\xff\n[]\n{}\n7\n");
    assert_eq!(pipe.result(7, "ping", &json!({})), json!({}));
    let none = pipe.ask(8, "no/such", &json!({}));
    assert_eq!(none["error"]["code"], json!(-32601), "{none}");
    still_works(&http.server);
}

#[test]
fn long_messages_go_through_and_too_long_ones_harm_nothing() {
    let http = Http::with_tokens(|s| s.env("MAX_REQUEST_SIZE", "4mb"));
    let text = "0123456789abcde\n".repeat(60_000);
    let write = |path: &str| json!({"path": path, "content": text});
    let mut pipe = Pipe::begun(&http.server);
    let mut web = Web::begun(&http, ALICE);
    for (path, client) in [("one", &mut pipe as &mut dyn Client), ("two", &mut web)] {
        let wrote = client.call(1, "write_file", &write(path));
        assert_eq!(wrote["structuredContent"]["bytes"], json!(text.len()), "{wrote}");
        let said = fs::read_to_string(http.server.ws().join(path)).expect("read");
        assert!(said == text);
        let cat = json!({"argv": ["cat", path], "max_output_bytes": 2_000_000});
        let read = client.call(2, "run_command", &cat);
        assert!(read["structuredContent"]["stdout"] == json!(text), "all of it comes back");
    }
    let too_long = json!({"path": "no", "content": "x".repeat(5 << 20)});
    let call = json!({"name": "write_file", "arguments": too_long});
    assert_eq!(web.post(&request(3, "tools/call", &call).to_string()).status, 413);
    assert_eq!(web.result(4, "ping", &json!({})), json!({}));
    let more = json!({"path": "no", "content": "x".repeat(25 << 20)});
    let none = pipe.ask(3, "tools/call", &json!({"name": "write_file", "arguments": more}));
    let said = none["error"]["message"].as_str().expect("a message");
    assert!(said.contains("input_bytes is 1 to 25165824"), "{said}");
    pipe.raw(&[b'x'; 1 << 20].repeat(33));
    pipe.raw(b"\n");
    assert_eq!(pipe.result(4, "ping", &json!({})), json!({}));
    still_works(&http.server);
}

#[test]
fn a_server_stops_although_clients_listen() {
    let http = server();
    let web = Web::begun(&http, ALICE);
    let mut listening = web.stream("GET /mcp", "");
    assert!(listening.status().contains("200"));
    let pipe = Pipe::begun(&http.server);
    let setup = http.server.stop(Signal::SIGTERM);
    listening.rest();
    drop((setup, pipe));
}

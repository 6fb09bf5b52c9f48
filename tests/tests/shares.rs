//! One caller against the others: what a client of HTTP, of MCP or of files may take of
//! memory, sessions, connections and threads, and what is left to the rest.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, Answer, BOB, Http, answer};
use tool_broker_tests::mcp::{Client as _, VERSIONS, Web, hello, request};
use tool_broker_tests::{eventually, still_works};

/// KiB of memory that the server has had at most.
fn peak(http: &Http) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", http.server.pid())).expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn of(http: &Http, token: &str, line: &str, body: &str) -> Answer {
    let head = format!("Authorization: Bearer {token}\nAccept: application/json\n");
    http.raw(http.request(line, &head, body).as_bytes())
}

/// `0,` takes two bytes, and hundreds where it is parsed and handed on.
#[test]
fn an_input_of_very_many_values_is_refused_before_it_fills_the_memory() {
    let http = Http::with_tokens(|_| {});
    let zeros = format!("[{}0]", "0,".repeat(10_000_000));
    let before = peak(&http);
    for path in ["/search", "/read", "/tools/edit", "/tools/read_file", "/container-operation"] {
        let told = http.ask(&format!("POST {path}"), "", &format!("{{\"a\":{zeros}}}"));
        assert!(told.status == 400 && told.body.contains("values"), "{path}: {}", told.body);
    }
    let web = Web::begun(&http, ALICE);
    let call = format!("{{\"name\":\"read_file\",\"arguments\":{{\"a\":{zeros}}}}}");
    let call =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{call}}}");
    let told = web.post(&call);
    assert!(told.status == 413 && told.body.contains("values"), "{}", told.body);
    let grown = peak(&http) - before;
    assert!(grown < 200 * 1024, "{grown} KiB");
    // As many words as a command line has go through.
    let args: Vec<&str> =
        ["-c", "echo $#", "sh"].into_iter().chain(std::iter::repeat_n("", 150_000)).collect();
    let (status, seen) = http.post("/tools/sh", &json!({"args": args}));
    assert_eq!((status, &seen["output"]["stdout"]), (200, &json!("150000\n")), "{seen}");
    still_works(&http.server);
}

/// It is kept as long as the session is, and what waits for a session too.
#[test]
fn a_session_keeps_little_of_what_its_client_says() {
    let http = Http::with_tokens(|_| {});
    let begin = |bytes: usize| {
        let mut hello = hello(VERSIONS[3], &json!({}));
        hello["clientInfo"]["name"] = json!("n".repeat(bytes));
        Web::new(&http, ALICE).post(&request(0, "initialize", &hello).to_string())
    };
    assert_eq!(begin(60 << 10).status, 200);
    let told = begin(64 << 10);
    assert!(told.status == 413 && told.header("mcp-session-id").is_none(), "{told:?}");
    let mut web = Web::begun(&http, ALICE);
    let told = |bytes: usize| {
        let params = json!({"reason": "r".repeat(bytes)});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).to_string()
    };
    assert_eq!(web.post(&told(200 << 10)).status, 202);
    assert_eq!(web.post(&told(256 << 10)).status, 413);
    // Every notification of a call has its token.
    let call = |bytes: usize| {
        let meta = json!({"progressToken": "t".repeat(bytes)});
        json!({"name": "sh", "arguments": {"args": ["-c", "echo here"]}, "_meta": meta})
    };
    let told = web.ask(1, "tools/call", &call(1025));
    assert_eq!(told["error"]["code"], json!(-32602), "{told}");
    let seen = web.result(2, "tools/call", &call(1024));
    assert_eq!(seen["structuredContent"]["stdout"], json!("here\n"), "{seen}");
}

#[test]
fn sessions_that_are_begun_at_once_are_no_more_than_a_client_may_have() {
    let http = Http::with_tokens(|_| {});
    let web = Web::new(&http, ALICE);
    let hello = request(0, "initialize", &hello(VERSIONS[3], &json!({}))).to_string();
    let ask = http.request("POST /mcp", &web.head(), &hello);
    // All are there before the first is answered.
    let mut all: Vec<TcpStream> = (0..100).map(|_| http.dial()).collect();
    for stream in &mut all {
        stream.write_all(ask.as_bytes()).expect("write");
    }
    let made: Vec<Answer> = all.into_iter().map(answer).collect();
    let ids = made.iter().filter_map(|answer| answer.header("mcp-session-id"));
    let there = ids.filter(|id| {
        let mut own = Web::new(&http, ALICE);
        own.session = Some((*id).to_owned());
        own.post(&request(1, "ping", &json!({})).to_string()).status == 200
    });
    let there = there.count();
    assert!((1..=32).contains(&there), "{there}");
    Web::begun(&http, BOB);
}

/// Half of a request takes a place until its time is over.
#[test]
fn one_client_does_not_take_every_connection() {
    let http = Http::with_tokens(|_| {});
    let head = format!("Authorization: Bearer {ALICE}\n");
    let whole = http.request("POST /tools/sh", &head, "{\"args\":[]}");
    let mut held: Vec<TcpStream> = (0..300).map(|_| http.dial()).collect();
    for stream in &mut held {
        stream.write_all(&whole.as_bytes()[..whole.len() - 1]).expect("write");
    }
    // She has her share, and is told so.
    eventually("all are read", || of(&http, ALICE, "GET /tools", "").status == 503);
    let told = of(&http, BOB, "GET /tools", "");
    assert_eq!(told.status, 200, "{}", told.body);
    let told = of(&http, ALICE, "GET /tools", "");
    assert_eq!((told.status, told.header("retry-after")), (503, Some("1")));
    assert!(told.body.contains("its share"), "{}", told.body);
    drop(held);
    eventually("her places are given back", || of(&http, ALICE, "GET /tools", "").status == 200);
}

fn answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let peeked = stream.peek(&mut [0; 1]);
    stream.set_nonblocking(false).expect("a socket");
    !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Work on files that takes long: here, waiting for a program that does not end.
#[test]
fn one_caller_does_not_hold_every_thread_for_files() {
    let http = Http::with_tokens(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "600");
    });
    let file = |name: &str, text: &str| fs::write(http.server.ws().join(name), text);
    file("f", "bobs\n").expect("write");
    file("stubborn", "trap '' TERM\necho ready\nsleep 1000\n").expect("write");
    let stubborn = json!({"argv": ["sh", "./stubborn"], "ready": "ready"});
    let (status, seen) = http.post("/tools/dev_server_start", &stubborn);
    assert_eq!(status, 200, "{seen}");
    let head = format!("Authorization: Bearer {ALICE}\n");
    let stop = http.request("POST /tools/dev_server_stop", &head, "{}");
    let mut stops: Vec<TcpStream> = (0..40).map(|_| http.dial()).collect();
    for stream in &mut stops {
        stream.write_all(stop.as_bytes()).expect("write");
    }
    let under_way = |http: &Http| {
        let status = http.server.status();
        let calls = status["under_way"].as_array().expect("a list").clone();
        calls.iter().filter(|call| call["tool"] == json!("dev_server_stop")).count()
    };
    eventually("all of them wait", || under_way(&http) == stops.len());
    let told = of(&http, BOB, "POST /tools/read_file", "{\"path\":\"f\"}");
    assert_eq!((told.status, &told.json()["output"]["content"]), (200, &json!("bobs\n")));
    // An input that is long is read on such a thread too.
    let long = json!({"path": "g", "content": "x".repeat(100_000)}).to_string();
    assert_eq!(of(&http, BOB, "POST /tools/write_file", &long).status, 200);
    assert!(!stops.iter().any(answered), "he waited until one of hers was over");
}

#[test]
fn who_starts_many_servers_pushes_out_no_others_output() {
    let http = Http::with_tokens(|_| {});
    let ask = |token: &str, tool: &str, input: &Value| {
        of(&http, token, &format!("POST /tools/{tool}"), &input.to_string()).json()
    };
    let start = |token: &str, name: &str| {
        let input = json!({"name": name, "command": "echo said", "ready": "no such"});
        let seen = ask(token, "dev_server_start", &input);
        assert_eq!(seen["output"]["state"], json!("ended"), "{seen}");
    };
    start(BOB, "his");
    for number in 0..40 {
        start(ALICE, &format!("hers-{number}"));
    }
    let seen = ask(BOB, "dev_server_logs", &json!({"name": "his"}));
    assert_eq!(seen["output"]["lines"][0]["text"], json!("said"), "{seen}");
    // Her own last ones are there, her first ones are not.
    let last = ask(ALICE, "dev_server_logs", &json!({"name": "hers-39"}));
    assert_eq!(last["output"]["lines"][0]["text"], json!("said"), "{last}");
    let first = ask(ALICE, "dev_server_logs", &json!({"name": "hers-0"}));
    assert_eq!(first["error"]["code"], json!("NO_SUCH_SERVER"), "{first}");
}

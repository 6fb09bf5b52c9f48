//! Answers by HTTP and MCP that nobody reads: how much of the server's memory they may have.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tool_broker_tests::eventually;
use tool_broker_tests::http::{ALICE, BOB, Http};
use tool_broker_tests::mcp::{Client as _, Web, request};

/// Six times as long as JSON: 6 MiB in an answer, and three times that by MCP.
const LONG: usize = 1 << 20;
/// What each of two clients may have, in such answers.
const MOST: usize = (64 << 20) / (6 * LONG);
const READ: &str = "POST /tools/read_file";

fn server() -> Http {
    let http = Http::with_tokens(|_| {});
    fs::write(http.server.ws().join("long"), vec![1; LONG]).expect("write");
    http
}

/// Asks for it, and reads nothing; the kernel takes less than half of the answer.
fn ask(http: &Http, line: &str, head: &str, body: &Value) -> BufReader<TcpStream> {
    let mut stream = http.dial();
    stream.write_all(http.request(line, head, &body.to_string()).as_bytes()).expect("write");
    BufReader::with_capacity(16, stream)
}

fn long(http: &Http, token: &str) -> BufReader<TcpStream> {
    let head = format!("Authorization: Bearer {token}\n");
    ask(http, READ, &head, &json!({"path": "long"}))
}

/// The status, once it is answered.
fn status(answer: &mut BufReader<TcpStream>) -> u16 {
    let mut line = String::new();
    answer.read_line(&mut line).expect("an answer");
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// All that is left of it.
fn rest(mut answer: BufReader<TcpStream>) -> String {
    let mut rest = String::new();
    answer.read_to_string(&mut rest).expect("text");
    rest
}

/// How long the text of the file is in it.
fn content(answer: BufReader<TcpStream>) -> usize {
    let rest = rest(answer);
    let (_, body) = rest.split_once("\r\n\r\n").expect("a head");
    let seen: Value = serde_json::from_str(body).expect("JSON");
    seen["output"]["content"].as_str().expect("a text").len()
}

#[test]
fn answers_that_are_not_read_have_a_bound_for_each_client_and_a_call_beyond_it_says_so() {
    let http = server();
    let before = http.server.rss();
    let mut unread = Vec::new();
    let refused = loop {
        let mut answer = long(&http, ALICE);
        match status(&mut answer) {
            200 => unread.push(answer),
            503 => break answer,
            other => panic!("{other}"),
        }
        assert!(unread.len() <= MOST, "there is no bound");
    };
    assert_eq!(unread.len(), MOST);
    let told = rest(refused);
    assert!(told.to_lowercase().contains("retry-after: 1\r\n"), "{told}");
    assert!(told.contains("BUSY") && told.contains("the call was done"), "{told}");
    // On every route, as it happens too.
    let (status_of_read, told) = http.post("/read", &json!({"path": "long"}));
    assert_eq!((status_of_read, &told["code"]), (503, &json!("BUSY")));
    let head = format!("Authorization: Bearer {ALICE}\nAccept: text/event-stream\n");
    let events = rest(ask(&http, READ, &head, &json!({"path": "long"})));
    assert!(events.contains("event: result") && events.contains("\"BUSY\""), "{events}");
    // Short ones pass, and another client's.
    assert_eq!(http.post("/tools/list_directory", &json!({})).0, 200);
    let mut other = long(&http, BOB);
    assert_eq!((status(&mut other), content(other)), (200, LONG));
    // What is read, or whose client is gone, makes room.
    let grown = http.server.rss().saturating_sub(before) / 1024;
    assert!(grown < 300, "grown by {grown} MiB");
    assert_eq!(content(unread.pop().expect("one")), LONG);
    let mut next = long(&http, ALICE);
    assert_eq!((status(&mut next), content(next)), (200, LONG));
    drop(unread);
    eventually("all the room", || {
        let mut all: Vec<_> = (0..MOST).map(|_| long(&http, ALICE)).collect();
        all.iter_mut().all(|answer| status(answer) == 200)
    });
}

#[test]
fn answers_by_mcp_that_are_not_read_have_a_bound_too() {
    let http = server();
    let mut client = Web::begun(&http, ALICE);
    let params = json!({"name": "read_file", "arguments": {"path": "long"}});
    let mut unread = Vec::new();
    for id in 1.. {
        let call = request(id, "tools/call", &params);
        let mut answer = ask(&http, "POST /mcp", &client.head(), &call);
        assert_eq!(status(&mut answer), 200);
        // What its result begins with tells whether the file is in it.
        let mut begun = Vec::new();
        answer.by_ref().take(2048).read_until(b'[', &mut begun).expect("text");
        let mut result = [0; 200];
        answer.read_exact(&mut result).expect("a result");
        if String::from_utf8_lossy(&result).contains("BUSY") {
            break;
        }
        unread.push(answer);
        assert!(unread.len() <= MOST / 3, "there is no bound");
    }
    assert_eq!(unread.len(), MOST / 3);
    let refused = client.call(90, "read_file", &json!({"path": "long"}));
    assert_eq!(refused["isError"], json!(true));
    assert_eq!(refused["_meta"]["tool-server/error"]["code"], json!("BUSY"));
    let uri = format!("file://{}/long", http.server.ws().display());
    let read = client.ask(91, "resources/read", &json!({"uri": uri}));
    assert!(read["error"]["message"].as_str().is_some_and(|said| said.contains("BUSY")), "{read}");
    // The session goes on, and has room once one is read.
    assert!(rest(unread.pop().expect("one")).contains("\"structuredContent\""));
    let passed = client.call(92, "read_file", &json!({"path": "long"}));
    assert_eq!(passed["structuredContent"]["size"], json!(LONG));
}

//! Answers by HTTP and MCP that nobody reads: how much of the server's memory they may have.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, BOB, Http};
use tool_broker_tests::mcp::{Client as _, Web, request};
use tool_broker_tests::{eventually, skipped};

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

/// Whether the kernel may take a whole answer that nobody reads: then none waits.
fn kernel_takes_all(test: &str) -> bool {
    let most = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("the kernel's bounds");
    let most: usize =
        most.split_whitespace().last().and_then(|most| most.parse().ok()).expect("a number");
    let all = most > 5 * LONG;
    if all {
        skipped(test, "net.ipv4.tcp_wmem lets the kernel take more than 5 MiB of an answer");
    }
    all
}

/// Asks for it, and reads nothing; the kernel takes a part of the answer.
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
    if kernel_takes_all(
        "answers_that_are_not_read_have_a_bound_for_each_client_and_a_call_beyond_it_says_so",
    ) {
        return;
    }
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
    // Nobody is told to repeat what was done.
    assert!(!told.to_lowercase().contains("retry-after"), "{told}");
    assert!(told.contains("BUSY") && told.contains("the call was done"), "{told}");
    // On every route, as it happens too.
    let told = http.ask("POST /read", "", &json!({"path": "long"}).to_string());
    assert_eq!((told.status, &told.json()["code"]), (503, &json!("BUSY")));
    assert_eq!(told.header("retry-after"), None);
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

/// A client that lets go of its request and has the answer come by another one.
#[test]
fn an_answer_that_comes_by_a_resumed_stream_counts_there() {
    const STREAMS: usize = 16;
    let http = server();
    let client = Web::begun(&http, ALICE);
    let line = "sleep 1; head -c 1000000 /dev/zero | tr '\\0' '\\1'";
    let input = json!({"args": ["-c", line], "max_output_bytes": LONG});
    let params = json!({"name": "sh", "arguments": input});
    let mut resumed = Vec::new();
    for number in 0..STREAMS {
        let id = i64::try_from(number).expect("few") + 1;
        let call = request(id, "tools/call", &params);
        let mut asked = ask(&http, "POST /mcp", &client.head(), &call);
        assert_eq!(status(&mut asked), 200);
        drop(asked);
        let mut stream = http.dial();
        let head = format!("{}Last-Event-ID: 0/{number}\n", client.head());
        stream.write_all(http.request("GET /mcp", &head, "").as_bytes()).expect("write");
        let mut stream = BufReader::with_capacity(16, stream);
        assert_eq!(status(&mut stream), 200, "{number}");
        resumed.push(stream);
    }
    let running = || http.server.status()["calls"]["running"].as_u64();
    eventually("all to be done", || running() == Some(0));
    let mut last = (0, 0);
    eventually("all to be made", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = http.server.rss();
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        last.1 == 3
    });
    let whole = |stream: BufReader<TcpStream>| {
        let data = stream.lines().map_while(Result::ok).find(|line| line.starts_with("data: {"));
        data.is_some_and(|data| serde_json::from_str::<Value>(&data[6..]).is_ok())
    };
    let whole = resumed.into_iter().map(whole).filter(|whole| *whole).count();
    // Of 12 MiB each: what this client may have, and what it began to read meanwhile.
    assert!((1..STREAMS - 1).contains(&whole), "{whole} of {STREAMS} came whole");
    let next = client.post(&request(90, "ping", &json!({})).to_string());
    assert_eq!(next.status, 200);
}

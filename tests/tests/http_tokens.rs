//! The files of tokens are read again while the server runs: who may ask is who is in them
//! now, and what was begun with a token that is gone ends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, Answer, BOB, Http, answer};
use tool_broker_tests::mcp::{Client as _, Web, request};
use tool_broker_tests::{PATIENCE, Setup, eventually, eventually_some, run};

const CAROL: &str = "carols-0123456789abcdef";
const OLGA: &str = "olgas-0123456789abcdef";

fn operators(s: &mut Setup) {
    let path = s.file("operators", format!("olga:{OLGA}\n"), 0o600);
    s.env("TOOL_HTTP_OPERATOR_TOKEN_FILE", path);
    s.env("TOOL_HTTP_OPERATOR_LISTEN", "127.0.0.1:0");
}

/// The operators' door.
fn door(http: &Http) -> SocketAddr {
    let status = http.server.status();
    status["operator"].as_str().expect("an address").parse().expect("an address")
}

/// A request that stays open.
fn open(at: SocketAddr, token: &str, line: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\nHost: {at}\nConnection: close\nAuthorization: Bearer {token}\n\
         Accept: text/event-stream\nContent-Type: application/json\nContent-Length: {length}\n\n"
    );
    stream.write_all((head.replace('\n', "\r\n") + body).as_bytes()).expect("send");
    stream
}

fn status(at: SocketAddr, token: &str, line: &str) -> u16 {
    answer(open(at, token, line, "")).status
}

/// Reads until this text has come.
#[track_caller]
fn until(stream: &mut TcpStream, text: &str) {
    let (mut got, mut some) = (String::new(), [0; 4096]);
    while !got.contains(text) {
        let read = stream.read(&mut some).expect("more");
        assert!(read > 0, "it ended without {text:?}: {got}");
        got.push_str(&String::from_utf8_lossy(&some[..read]));
    }
}

/// The rest, which has an end.
#[track_caller]
fn ends(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it does not end: {error}"),
    }
    String::from_utf8_lossy(&rest).into_owned()
}

fn tokens(http: &Http, text: &str) {
    http.server.file("tokens", text, 0o600);
}

fn who_called(http: &Http, token: &str) -> Value {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("mark-{}-", CALLS.fetch_add(1, Ordering::Relaxed));
    let body = json!({ "argv": ["echo", mark] }).to_string();
    let called = answer(open(http.address, token, "POST /tools/run_command", &body));
    assert_eq!(called.status, 200, "{called:?}");
    eventually_some("the audit's line", || {
        let audit = run(&mut http.server.verb(&["audit", "--json"]), b"").out();
        let lines = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = lines.filter(|line| line.to_string().contains(&mark));
        found.next_back().map(|line| line["peer"]["socket"].clone())
    })
}

fn refused(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json()["error"]["code"].clone())
}

#[test]
fn who_may_ask_is_who_is_in_the_file_now() {
    let http = Http::with_tokens(|_| {});
    let at = http.address;
    assert_eq!((status(at, ALICE, "GET /tools"), status(at, CAROL, "GET /tools")), (200, 401));
    tokens(&http, &format!("alice:{ALICE}\ncarol:{CAROL}\n"));
    // At once, with the very next request.
    assert_eq!(status(at, CAROL, "GET /tools"), 200);
    assert_eq!(status(at, BOB, "GET /tools"), 401);
    assert_eq!(status(at, ALICE, "GET /tools"), 200);
    assert_eq!(who_called(&http, CAROL), json!("http:carol"));
    let sockets = http.server.status()["sockets"].to_string();
    assert!(sockets.contains("http:carol") && !sockets.contains("http:bob"), "{sockets}");
    // Another token of the same client's, written in place.
    let path = http.server.path("tokens");
    fs::write(&path, format!("alice:{BOB}\n")).expect("write");
    assert_eq!((status(at, ALICE, "GET /tools"), status(at, CAROL, "GET /tools")), (401, 401));
    assert_eq!(who_called(&http, BOB), json!("http:alice"));
    let log = http.server.log();
    assert!(!log.contains(ALICE) && !log.contains(BOB) && !log.contains(CAROL), "{log}");
}

#[test]
fn a_token_without_a_name_keeps_its_number() {
    let http = Http::with_tokens(|_| {});
    tokens(&http, &format!("{ALICE}\n{BOB}\n"));
    assert_eq!(who_called(&http, ALICE), json!("http:1"));
    assert_eq!(who_called(&http, BOB), json!("http:2"));
    // What stands for the first client is not the second one's when the first is gone.
    tokens(&http, &format!("{BOB}\n{CAROL}\n"));
    assert_eq!(who_called(&http, BOB), json!("http:2"));
    assert_eq!(who_called(&http, CAROL), json!("http:3"));
}

#[test]
fn a_file_of_tokens_that_cannot_be_used_lets_nobody_in() {
    let http = Http::with_tokens(operators);
    let (at, operator) = (http.address, door(&http));
    let good = format!("alice:{ALICE}\nbob:{BOB}\n");
    let path = http.server.path("tokens");
    let cases: [(&str, &dyn Fn()); 5] = [
        ("cannot read the tokens", &|| fs::remove_file(&path).expect("rm")),
        ("everybody can read it", &|| {
            http.server.file("tokens", &good, 0o644);
        }),
        ("16 characters", &|| tokens(&http, &format!("{good}short\n"))),
        ("no token in it", &|| tokens(&http, "")),
        ("is no file", &|| {
            fs::remove_file(&path).expect("rm");
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
        }),
    ];
    for (wrong, spoil) in cases {
        spoil();
        for token in [ALICE, BOB, CAROL] {
            let answer = answer(open(at, token, "GET /tools", ""));
            assert_eq!(refused(&answer), (503, json!("NO_TOKENS")), "{wrong}: {token}");
        }
        assert_eq!(status(at, "", "GET /health"), 200, "{wrong}");
        assert_eq!(status(operator, OLGA, "GET /approvals"), 200, "the other door is as it was");
        let look = http.server.status()["attention"].to_string();
        assert!(look.contains(wrong) && look.contains("nobody is let in"), "{wrong}: {look}");
        eventually("the log says so", || http.server.log().contains(wrong));
        tokens(&http, &good);
        assert_eq!(status(at, ALICE, "GET /tools"), 200, "{wrong}, put right");
        assert_eq!(status(at, CAROL, "GET /tools"), 401, "{wrong}, put right");
        let look = http.server.status()["attention"].to_string();
        assert!(!look.contains("nobody is let in"), "{look}");
    }
}

/// A call that says that it runs, and then runs for long.
fn long() -> Value {
    json!({"argv": ["sh", "-c", "touch begun; sleep 1000"]})
}

fn begun(http: &Http) {
    let mark = http.server.ws().join("begun");
    eventually("the program to begin", || mark.exists());
    fs::remove_file(mark).expect("remove");
}

fn sleeps(http: &Http) -> usize {
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let all = http.server.descendants();
    all.iter().filter(|process| name(process.pid).trim_end() == "sleep").count()
}

#[test]
fn what_was_begun_with_a_token_ends_when_the_token_is_gone() {
    let long_rule = "timeout = 600\ndefault = \"allow\"\n";
    let http = Http::with_tokens(|s| {
        s.file("agent.d/run_command.toml", long_rule, 0o644);
        s.env("TOOL_AGENT_DEFINITIONS", s.path("agent.d"));
    });
    let at = http.address;
    let mut alices = open(at, ALICE, "GET /events", "");
    until(&mut alices, "event: state");
    let mut bobs = open(at, BOB, "GET /events", "");
    until(&mut bobs, "event: state");
    let streamed = open(at, BOB, "POST /tools/run_command", &long().to_string());
    begun(&http);
    let mut alice = Web::begun(&http, ALICE);
    let bob = Web::begun(&http, BOB);
    let params = json!({"name": "run_command", "arguments": long()});
    let mut called = bob.stream("POST /mcp", &request(7, "tools/call", &params).to_string());
    begun(&http);
    eventually("both to sleep", || sleeps(&http) == 2);
    tokens(&http, &format!("alice:{ALICE}\n"));
    ends(bobs);
    assert!(!ends(streamed).contains("event: result"), "its call is ended, not answered");
    assert!(!called.rest().contains("\"result\""), "and so is that of its session");
    eventually("their processes to end", || sleeps(&http) == 0);
    // Who is there again does not find the session of before.
    tokens(&http, &format!("alice:{ALICE}\nbob:{BOB}\n"));
    let again = bob.post(&request(8, "ping", &json!({})).to_string());
    assert_eq!(again.status, 404, "{again:?}");
    assert_eq!(alice.result(8, "ping", &json!({})), json!({}), "alice's is as it was");
    until(&mut alices, "event: figures");
}

#[test]
fn a_file_of_tokens_that_is_written_in_place_ends_nothing() {
    eventually("it is empty for a moment each time", written_in_place);
}

/// Shows nothing, and says so, where this machine was so busy that a moment was long.
fn written_in_place() -> bool {
    let http = Http::with_tokens(|_| {});
    let mut events = open(http.address, ALICE, "GET /events", "");
    until(&mut events, "event: state");
    let mut session = Web::begun(&http, ALICE);
    let text = fs::read_to_string(http.server.path("tokens")).expect("read");
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        // Empty for a moment, which a request sees.
        let begun = Instant::now();
        fs::write(http.server.path("tokens"), "").expect("write");
        assert_eq!(status(http.address, ALICE, "GET /tools"), 503);
        fs::write(http.server.path("tokens"), &text).expect("write");
        longest = longest.max(begun.elapsed());
        assert_eq!(status(http.address, ALICE, "GET /tools"), 200);
    }
    // What is gone for two looks, a second apart, has ended rightly.
    if longest >= Duration::from_secs(1) {
        return false;
    }
    until(&mut events, "event: figures");
    assert_eq!(session.result(8, "ping", &json!({})), json!({}));
    true
}

#[test]
fn the_operators_file_is_read_again_too_and_no_token_opens_both_doors() {
    let http = Http::with_tokens(operators);
    let (at, operator) = (http.address, door(&http));
    let mut olgas = open(operator, OLGA, "GET /events", "");
    until(&mut olgas, "event: state");
    http.server.file("operators", format!("oscar:{CAROL}\n"), 0o600);
    assert_eq!(status(operator, OLGA, "GET /approvals"), 401);
    assert_eq!(status(operator, CAROL, "GET /approvals"), 200);
    ends(olgas);
    // An operator's token that is put among the callers', and the other way round.
    tokens(&http, &format!("alice:{ALICE}\ncarol:{CAROL}\n"));
    assert_eq!((status(at, CAROL, "GET /tools"), status(at, ALICE, "GET /tools")), (401, 200));
    assert_eq!(status(operator, CAROL, "GET /approvals"), 401);
    http.server.file("operators", format!("oscar:{ALICE}\nolga:{OLGA}\n"), 0o600);
    assert_eq!(status(operator, ALICE, "GET /approvals"), 401);
    assert_eq!(status(operator, OLGA, "GET /approvals"), 200);
    assert_eq!((status(at, CAROL, "GET /tools"), status(at, ALICE, "GET /tools")), (200, 401));
}

//! A server with both of its doors for HTTP, tools that are asked about and refused, and what
//! a page's reader and an operator do.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, Answer, Http, answer};
use tool_broker_tests::{PATIENCE, Setup, eventually};

/// The token of the operator `olga`.
pub const OLGA: &str = "olgas-0123456789abcdef";

/// What a page must not make markup of.
pub const HOSTILE: &str =
    "</code><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}\x1b";

pub fn prepared(s: &mut Setup) {
    s.tool("say", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
    s.tool("wait", "binary = \"/bin/sleep\"\ndefault = \"allow\"\n");
    let rule = "[[rule]]\nid = \"person\"\ndecision = \"ask\"\noperands = \"*\"\n\
                reason = \"a person is asked\"\n";
    s.tool("asked", &format!("binary = \"/bin/echo\"\ndefault = \"allow\"\n{rule}"));
    s.env("RATE_LIMIT_MAX", "1000000");
    s.tool("gone", "binary = \"/no/such/program\"\ndefault = \"allow\"\n");
    let rule = "[[rule]]\nid = \"never\"\ndecision = \"deny\"\noperands = \"*\"\n\
                reason = \"<b>not</b> this\"\ninstead = \"another <i>way</i>\"\n";
    s.tool("drop", &format!("binary = \"/bin/echo\"\ndefault = \"allow\"\n{rule}"));
    let path = s.file("operators", format!("olga:{OLGA}\n"), 0o600);
    s.env("TOOL_HTTP_OPERATOR_TOKEN_FILE", path);
    s.env("TOOL_HTTP_OPERATOR_LISTEN", "127.0.0.1:0");
}

pub fn started() -> Http {
    Http::with_tokens(prepared)
}

/// The operators' door.
#[track_caller]
pub fn door(http: &Http) -> SocketAddr {
    let status = http.server.status();
    status["operator"].as_str().expect("an address").parse().expect("an address")
}

pub fn dial(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// A request to one of the doors, with further lines of its head.
#[track_caller]
pub fn ask(at: SocketAddr, token: &str, line: &str, more: &str, body: &str) -> Answer {
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\n", body.len()) };
    let head = format!(
        "{line} HTTP/1.1\nHost: {at}\nConnection: close\nAuthorization: Bearer {token}\n{more}{length}\n"
    );
    let mut stream = dial(at);
    stream.write_all((head.replace('\n', "\r\n") + body).as_bytes()).ok();
    answer(stream)
}

#[track_caller]
pub fn page(at: SocketAddr, token: &str) -> String {
    let answer = ask(at, token, "GET /", "", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[track_caller]
pub fn call(http: &Http, token: &str, tool: &str, args: &[&str]) -> Value {
    let body = json!({ "args": args }).to_string();
    let head = "Content-Type: application/json\n";
    ask(http.address, token, &format!("POST /tools/{tool}"), head, &body).json()
}

/// The nonce of a new page, and the id of the only question.
pub fn question(http: &Http) -> (String, String) {
    let page = page(door(http), OLGA);
    let nonce = between(&page, "name=\"nonce\" value=\"", "\"").to_owned();
    (nonce, between(&page, "class=\"ask\" data-id=\"", "\"").to_owned())
}

#[track_caller]
pub fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(behind).expect("its end").0
}

/// An operator's form.
pub fn form(http: &Http, token: &str, origin: &str, form: &str) -> Answer {
    let origin = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\n") };
    let head = format!("{origin}Content-Type: application/x-www-form-urlencoded\n");
    ask(door(http), token, "POST /approvals", &head, form)
}

pub fn own_origin(http: &Http) -> String {
    format!("http://{}", door(http))
}

/// A call of alice's that waits for a person, and its answer at the end.
pub fn held(http: &Http) -> thread::JoinHandle<Value> {
    let address = http.address;
    let waiting = thread::spawn(move || {
        let body = json!({ "args": ["a question"] }).to_string();
        let head = "Content-Type: application/json\n";
        ask(address, ALICE, "POST /tools/asked", head, &body).json()
    });
    eventually("it waits", || {
        let list = ask(door(http), OLGA, "GET /approvals", "", "").json();
        list["waiting"].as_array().is_some_and(|waiting| !waiting.is_empty())
    });
    waiting
}

//! What comes back by the proxy: whoever asks must not have the credential, and nothing
//! between takes it out of what a host shows of a request.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tool_broker_tests::{PATIENCE, Server};

const TOKEN: &str = "canary-of-the-model";
/// The same in base64, as a part of a longer text: `{"a":"canary-of-the-model"}`.
const CODED: &str = "eyJhIjoiY2FuYXJ5LW9mLXRoZS1tb2RlbCJ9";

/// A host that shows what it was sent, in many ways, and what that was.
fn showing() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port();
    let (tell, heard) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let tell = tell.clone();
            thread::spawn(move || {
                let mut stream = stream.expect("a stream");
                let head = head(&mut stream);
                tell.send(head.clone()).ok();
                answer(&mut stream, &head);
            });
        }
    });
    (port, heard)
}

fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

fn answer(stream: &mut TcpStream, head: &str) {
    let how = head.split([' ', '?']).nth(2).unwrap_or_default();
    let ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    let whole = |more: &str, body: &str| {
        format!("{ok}{more}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let said = match how {
        "body" => whole("", head),
        "coded" => whole("", CODED),
        "header" => whole(&format!("Anthropic-Seen: {TOKEN}\r\nAnthropic-Left: 7\r\n"), "hello"),
        "zipped" => whole("Content-Encoding: gzip\r\n", "\u{1f}\u{8b}"),
        "away" => format!(
            "HTTP/1.1 307 Temporary Redirect\r\nConnection: close\r\n\
             Location: /v1/models?key={TOKEN}\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes(),
        "pieces" => {
            stream.write_all(format!("{ok}\r\nbefore ").as_bytes()).expect("the head");
            for piece in TOKEN.as_bytes().chunks(5) {
                stream.write_all(piece).expect("a piece");
                thread::sleep(Duration::from_millis(20));
            }
            b" after".to_vec()
        }
        // Most of it, and then nothing more.
        "cut" => whole("", &format!("it is {}", &TOKEN[..TOKEN.len() - 2])),
        _ => whole("", "hello"),
    };
    stream.write_all(&said).expect("the answer");
}

fn proxied(port: u16) -> Server {
    Server::start(|setup| {
        setup.file("secrets/key", format!("{TOKEN}\n"), 0o600);
        let text = format!(
            "[[gate]]\nadapter = \"http\"\nhosts = [\"api.anthropic.com\"]\n\
             headers = [\"anthropic-*\"]\nupstream = \"http://127.0.0.1:{port}\"\n\
             credential = \"file:{}\"\nscheme = \"header:x-api-key\"\ndefault = \"allow\"\n",
            setup.path("secrets/key").display()
        );
        let path = setup.file("etc/proxy.toml", text, 0o644);
        setup.env("TOOL_PROXY_SOCKET", setup.path("run/proxy.sock"));
        setup.env("TOOL_PROXY_DEFINITION", path);
    })
}

fn ask(server: &Server, how: &str, more: &str) -> String {
    let mut stream = UnixStream::connect(server.path("run/proxy.sock")).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("GET /v1/models?{how} HTTP/1.0\r\nHost: localhost\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}

#[test]
fn a_host_that_shows_the_credential_shows_it_to_nobody() {
    let (port, heard) = showing();
    let server = proxied(port);
    for (how, rest) in [
        ("body", "x-api-key: [redacted]\r\n"),
        ("coded", "[redacted]"),
        ("header", "anthropic-left: 7\r\n"),
        ("away", "HTTP/1.0 307 "),
        ("pieces", "[redacted]"),
        ("cut", "it is [redacted]"),
    ] {
        let said = ask(&server, how, "Accept-Encoding: gzip\r\nRange: bytes=0-5\r\n");
        assert!(said.contains(rest), "{how}: {said}");
        for part in [&TOKEN[..8], "FuYXJ5LW9mLXRoZS1tb2"] {
            assert!(!said.contains(part), "{how}: {said}");
        }
        let head = heard.recv_timeout(PATIENCE).expect("a request");
        assert!(head.contains(&format!("x-api-key: {TOKEN}\r\n")), "{head}");
        // What is compressed or in pieces cannot be looked through.
        assert!(
            head.contains("accept-encoding: identity\r\n") && !head.contains("range"),
            "{head}"
        );
    }
    let said = ask(&server, "zipped", "");
    assert!(said.starts_with("HTTP/1.0 502") && said.contains("unasked"), "{said}");
    let said = ask(&server, "plain", "");
    assert!(said.contains("hello"), "{said}");
    // A new one is looked for at once.
    fs::write(server.path("secrets/key"), "another-canary\n").expect("a key");
    let said = ask(&server, "body", "");
    assert!(said.contains("x-api-key: [redacted]\r\n"), "{said}");
    // Without one there is nothing to look for.
    fs::remove_file(server.path("secrets/key")).expect("rm");
    let said = ask(&server, "header", "Accept-Encoding: gzip\r\n");
    assert!(said.contains(&format!("anthropic-seen: {TOKEN}\r\n")), "{said}");
}

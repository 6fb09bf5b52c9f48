//! Requests that are refused before anybody looks at what they mean.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::let_underscore_must_use,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod stage;

use std::time::{Duration, Instant};

use stage::{Host, Stage, authorization, gate, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tool_policy::definition::gate::Adapter;

const HOST: &str = "Host: api.example.com";

async fn stage() -> (Host, Stage) {
    let host = Host::saying("reached").await;
    let mut gate = gate(Adapter::Http, &["api.example.com"]);
    gate.upstream = Some(host.url());
    let stage = Stage::new(vec![gate]).await;
    (host, stage)
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn nobody_gets_on_without_the_calls_secret() {
    let (host, stage) = stage().await;
    let first = "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n";
    let ours = authorization(stage::SECRET);
    for lines in [
        String::new(),
        authorization("the-secret-of-that-call"),
        authorization(""),
        authorization("the-secret-of-this-cal"),
        authorization("the-secret-of-this-call2"),
        ours.replace("Proxy-Authorization", "Authorization"),
        format!("{ours}\r\n{}", authorization("x")),
        format!("{}\r\n{ours}", authorization("x")),
        ours.replace("Basic ", "Bearer "),
    ] {
        let end = if lines.is_empty() { "\r\n" } else { "\r\n\r\n" };
        let answer = stage.raw(format!("{first}{lines}{end}").as_bytes()).await;
        assert_eq!(status(&answer), 407, "{lines}: {answer}");
    }
    let connect = "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n";
    assert_eq!(status(&stage.raw(connect.as_bytes()).await), 407);
    assert_eq!(host.seen().len(), 0);
    assert_eq!(status(&stage.raw(format!("{first}{ours}\r\n\r\n").as_bytes()).await), 200);
}

#[tokio::test]
async fn hosts_and_ports_that_no_gate_lists_are_refused_in_one_line() {
    let (host, stage) = stage().await;
    for url in [
        "http://example.com/",
        "http://xapi.example.com/",
        "http://api.example.com.evil.example/",
        "http://api.example.com:8080/",
        "http://api.example.com:22/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
    ] {
        let output = stage.curl(&["-g", "-w", "%{http_code}", url]).await;
        let said = text(&output.stdout);
        assert!(said.starts_with("refused by the broker: ") && said.ends_with("\n403"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    assert_eq!(host.seen().len(), 0);
    assert_eq!(stage.refused().len(), 8);
    for url in ["http://API.Example.COM/", "http://api.example.com./", "http://api.example.com:80/"]
    {
        assert_eq!(text(&stage.curl(&[url]).await.stdout), "reached", "{url}");
    }
}

#[tokio::test]
async fn a_path_that_can_be_read_in_two_ways_is_refused() {
    let (host, stage) = stage().await;
    for path in [
        "/a/../b",
        "/..",
        "/../x",
        "/a/..",
        "/.",
        "/a/./b",
        "/a/.",
        "//a",
        "/a//b",
        "/a/b//",
        "/a/%2e%2e/b",
        "/a/%c0%ae%c0%ae/b",
        "/a%c0%afb",
        "/%2e%2e",
        "/a/.%2e/b",
        "/a/%2e./b",
        "/a/%2E%2E/b",
        "/a/%2e/b",
        "/a%2fb",
        "/a%2f%2fb",
        "/%2fb",
        "/a%2f",
        "/a%2Fb",
        "/a/..%2fb",
        "/a/%2e%2e%2fb",
        "/a%5cb",
        "/a\\..\\b",
        "/a/..\\b",
        "/a%00b",
        "/a%0d%0ab",
        "/a%0a",
        "/a%09b",
        "/a%7fb",
        "/a%252fb",
        "/a%252e%252e/b",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/a/.;/b",
        "/a/;x/b",
        "/a;x/b",
        "/a;/b",
        "/a/b;",
        "/a%3bb",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a\tb",
        "/a\x7fb",
        "/a\x01b",
        "/a\u{e9}b",
        "/a|b",
        "/a\"b",
    ] {
        let line = format!("GET http://api.example.com{path} HTTP/1.1");
        let answer = stage.raw(&stage.head(&[&line, HOST])).await;
        assert_eq!(status(&answer), 400, "{path}: {answer}");
    }
    assert_eq!(host.seen().len(), 0, "{:?}", host.seen());
    for (path, sent) in [
        ("/a/b.c/d", "/a/b.c/d"),
        ("/a/%62%2ec", "/a/b.c"),
        ("/%7Euser/x%20y", "/~user/x%20y"),
        ("/a/%c3%a9", "/a/%C3%A9"),
        ("/a/b/", "/a/b/"),
        ("/", "/"),
        ("", "/"),
        ("?x=//../%2f", "/?x=//../%2f"),
        ("/a#b", "/a"),
        ("/c%23/a%3fb", "/c%23/a%3Fb"),
    ] {
        let line = format!("GET http://api.example.com{path} HTTP/1.1");
        let answer = stage.raw(&stage.head(&[&line, HOST])).await;
        assert_eq!(status(&answer), 200, "{path}: {answer}");
        assert_eq!(host.seen().last().unwrap().line, format!("GET {sent}"), "{path}");
    }
}

#[tokio::test]
async fn target_and_host_header_have_to_agree() {
    let (host, stage) = stage().await;
    let plain = "GET http://api.example.com/ HTTP/1.1";
    for lines in [
        vec![plain, "Host: evil.example"],
        vec![plain, "Host: api.example.com:8080"],
        vec![plain, HOST, HOST],
        vec![plain, HOST, "Host: evil.example"],
        vec![plain, "Host: "],
        vec![plain, "Host: api.example.com/x"],
        vec![plain, "Host: user@api.example.com"],
        vec!["GET http://user:pw@api.example.com/ HTTP/1.1", HOST],
        vec!["GET http://api.example.com:0/ HTTP/1.1", HOST],
        vec!["GET http://api.example.com:99999/ HTTP/1.1", HOST],
        vec!["GET http://api.example.com:+80/ HTTP/1.1", HOST],
        vec!["GET http://api..example.com/ HTTP/1.1", HOST],
        vec!["GET http://2130706433/ HTTP/1.1", "Host: 2130706433"],
        vec!["GET http://0x7f.1/ HTTP/1.1", "Host: 0x7f.1"],
        vec!["GET http://127.1/ HTTP/1.1", "Host: 127.1"],
        vec!["GET https://api.example.com/ HTTP/1.1", HOST],
        vec!["GET ftp://api.example.com/ HTTP/1.1", HOST],
        vec!["GET / HTTP/1.1", HOST],
        vec!["OPTIONS * HTTP/1.1", HOST],
        vec!["GET api.example.com:80 HTTP/1.1", HOST],
        vec!["CONNECT http://api.example.com/ HTTP/1.1", HOST],
        vec!["CONNECT api.example.com HTTP/1.1", HOST],
        vec!["CONNECT api.example.com:443 HTTP/1.1", "Host: evil.example:443"],
    ] {
        let answer = stage.raw(&stage.head(&lines)).await;
        assert_eq!(status(&answer), 400, "{lines:?}: {answer}");
    }
    assert_eq!(host.seen().len(), 0);
}

#[tokio::test]
async fn a_request_whose_length_is_told_twice_is_not_two_requests() {
    let (host, stage) = stage().await;
    let plain = "POST http://api.example.com/first HTTP/1.1";
    let (chunked, short) = ("Transfer-Encoding: chunked", "Content-Length: 6");
    for lines in [
        vec![plain, HOST, "Content-Length: 1", "Content-Length: 2"],
        vec![plain, HOST, "Content-Length: 1, 1"],
        vec![plain, HOST, "Content-Length: +1"],
        vec![plain, HOST, "Content-Length: 0x1"],
        vec![plain, HOST, "Transfer-Encoding: gzip, chunked"],
        vec![plain, HOST, "Transfer-Encoding: chunked, chunked"],
        vec![plain, HOST, chunked, chunked],
        vec![plain, HOST, "Transfer-Encoding: identity"],
        vec![plain, HOST, "Transfer-Encoding: xchunked"],
        vec![plain, HOST, "Transfer-Encoding : chunked"],
        vec!["POST http://api.example.com/first HTTP/1.0", HOST, chunked],
    ] {
        let mut bytes = stage.head(&lines);
        bytes.extend_from_slice(b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n");
        let answer = stage.raw(&bytes).await;
        assert_eq!(status(&answer), 400, "{lines:?}: {answer}");
    }
    assert_eq!(host.seen().len(), 0, "{:?}", host.seen());
    // Both at once are read one way, by the pieces, and sent on in one way: what comes
    // behind is a request of the call as any other, and is looked at as such.
    for both in [[chunked, short], [short, chunked]] {
        let mut bytes = stage.head(&[plain, HOST, both[0], both[1]]);
        bytes.extend_from_slice(b"0\r\n\r\nGET http://api.example.com/smuggled HTTP/1.1\r\n\r\n");
        let answer = stage.raw(&bytes).await;
        assert!(!answer.contains("HTTP/1.1 200 OK\r\n\r\nHTTP"), "{answer}");
        for seen in host.seen() {
            assert_eq!(seen.line, "POST /first");
            assert!(seen.body.is_empty());
            let framings = ["content-length", "transfer-encoding"].map(|name| seen.header(name));
            assert!(framings.iter().flatten().count() <= 1, "{framings:?}");
        }
    }
}

#[tokio::test]
async fn a_method_that_sends_the_request_back_or_is_read_in_two_ways_is_refused() {
    let (host, stage) = stage().await;
    for method in ["TRACE", "TRACK", "trace", "DEBUG", "delete", "Delete", "pOST", "G_T", "1"] {
        let line = format!("{method} http://api.example.com/ HTTP/1.1");
        assert_eq!(status(&stage.raw(&stage.head(&[&line, HOST])).await), 400, "{method}");
    }
    for query in [
        "_method=DELETE",
        "a=b&_METHOD=put",
        "%5fmethod=DELETE",
        "x=1;_method=DELETE",
        "x=1;%5Fmethod=DELETE&y",
        ".method=DELETE",
        "%20_method=DELETE",
        "+_method=DELETE",
        "%09%0a_method=DELETE",
        "[method=DELETE",
        "%5bmethod=DELETE",
        "[_method]=DELETE",
        "[[_method=DELETE",
        "_method[]=DELETE",
        "_method%5B%5D=DELETE",
        "_method%00=DELETE",
        "_method%00x=DELETE",
        "_method%20=DELETE",
        "_method",
    ] {
        let line = format!("PUT http://api.example.com/x?{query} HTTP/1.1");
        assert_eq!(status(&stage.raw(&stage.head(&[&line, HOST])).await), 400, "{query}");
    }
    assert_eq!(host.seen().len(), 0);
    for query in [
        "method=x",
        "payment_method=card&_methods=2",
        "filter[method]=x&filter._method=x",
        "a=_method&b=x=_method",
        "shipping.method=x;_method_of=y",
        "a=1%3B_method=x%26_method=y",
    ] {
        let line = format!("GET http://api.example.com/x?{query} HTTP/1.1");
        assert_eq!(status(&stage.raw(&stage.head(&[&line, HOST])).await), 200, "{query}");
    }
}

#[tokio::test]
async fn headers_after_a_body_and_other_methods_in_headers_do_not_go_on() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut gate = gate(Adapter::Http, &["api.example.com"]);
    gate.upstream = Some(format!("http://{}", listener.local_addr().unwrap()));
    let stage = Stage::new(vec![gate]).await;
    let host = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        while !bytes.ends_with(b"0\r\n\r\n") {
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0);
            bytes.extend_from_slice(&piece[..count]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        String::from_utf8(bytes).unwrap().to_lowercase()
    });
    let mut bytes = stage.head(&[
        "POST http://api.example.com/ HTTP/1.1",
        HOST,
        "Transfer-Encoding: chunked",
        "Trailer: Authorization, X-After",
        "TE: trailers",
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /admin",
    ]);
    bytes.extend_from_slice(b"2\r\nhi\r\n0\r\nAuthorization: x\r\nX-After: 1\r\n\r\n");
    assert_eq!(status(&stage.raw(&bytes).await), 204);
    let got = host.await.unwrap();
    assert!(got.contains("hi"));
    for gone in ["authorization", "x-after", "trailer", "override", "x-original"] {
        assert!(!got.contains(gone), "{gone}: {got}");
    }
}

#[tokio::test]
async fn headers_cannot_be_put_in_from_within_a_value() {
    let (host, stage) = stage().await;
    let plain = "GET http://api.example.com/ HTTP/1.1";
    for line in ["Accept: a\rX-B: c", "Accept: a\nX-B: c", "Accept: a\0b", "Acc ept: x", "Accept"] {
        let answer = stage.raw(&stage.head(&[plain, HOST, line])).await;
        let sent = host.seen.lock().unwrap().split_off(0);
        let put_in = sent.iter().any(|seen| seen.header("x-b").is_some());
        assert!(!put_in && (sent.is_empty() || status(&answer) == 200), "{line:?} {answer}");
        assert!(
            !line.contains(['\r', '\0', ' ']) || sent.is_empty() || line == "Accept: a\nX-B: c"
        );
    }
    let folded = stage.head(&[plain, HOST, "Accept: a\r\n Authorization: b"]);
    assert_eq!(status(&stage.raw(&folded).await), 400);
    // Headers that name others as hop-by-hop do not take away what is added here.
    let own = stage.head(&[plain, "Connection: authorization, host", HOST, "X-Forwarded-For: 1"]);
    assert_eq!(status(&stage.raw(&own).await), 200);
    let seen = host.seen().pop().unwrap();
    assert!(seen.header("host").is_some() && seen.header("x-forwarded-for").is_none());
    assert_eq!(seen.header("connection"), None);
}

#[tokio::test]
async fn heads_that_are_too_long_or_have_too_many_lines_are_refused() {
    let (host, stage) = stage().await;
    let plain = "GET http://api.example.com/ HTTP/1.1";
    let long = format!("X-Long: {}", "x".repeat(300_000));
    assert_eq!(status(&stage.raw(&stage.head(&[plain, HOST, &long])).await), 431);
    let many: Vec<String> = (0..150).map(|n| format!("X-{n}: 1")).collect();
    let mut lines = vec![plain, HOST];
    lines.extend(many.iter().map(String::as_str));
    assert_eq!(status(&stage.raw(&stage.head(&lines)).await), 431);
    let target = format!("GET http://api.example.com/{} HTTP/1.1", "x".repeat(20_000));
    assert_eq!(status(&stage.raw(&stage.head(&[&target, HOST])).await), 413);
    assert_eq!(host.seen().len(), 0);
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let (_host, stage) = stage().await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let begun = Instant::now();
    stream.write_all(b"GET http://api.example.com/ HTTP/1.1\r\nHost: ").await.unwrap();
    let mut answer = Vec::new();
    drop(
        tokio::time::timeout(Duration::from_secs(120), stream.read_to_end(&mut answer))
            .await
            .unwrap(),
    );
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_call_has_a_bound_on_its_connections() {
    let (_host, stage) = stage().await;
    let mut open = Vec::new();
    for _ in 0..tool_gate::grant::CONNECTIONS {
        open.push(TcpStream::connect(stage.address).await.unwrap());
    }
    let head = stage.head(&["GET http://api.example.com/ HTTP/1.1", HOST]);
    assert_eq!(stage.raw(&head).await, "");
    open.pop();
    // Its end is heard of some time.
    for _ in 0..1000 {
        let answer = stage.raw(&head).await;
        if !answer.is_empty() {
            assert_eq!(status(&answer), 200);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("its place is not given back");
}

//! Connections: what is used again, what breaks off, and that nobody is buffered.

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

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stage::certificates::Certificates;
use stage::{Host, Stage, credential, gate, saying, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tool_policy::definition::gate::{Adapter, Credential, Gate};

fn to(url: String, names: &[&str]) -> Gate {
    let mut gate = gate(Adapter::Http, names);
    gate.upstream = Some(url);
    gate
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_whole_at_the_host() {
    let certificates = Certificates::of(&["127.0.0.1"]);
    for protocol in ["h2", "http/1.1"] {
        for framing in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
            for call_ends in [true, false] {
                let tls = certificates.server(&[protocol]);
                let host = Host::with(Some(tls), |_| saying("whole")).await;
                let mut gate = to(host.url(), &["api.example.com"]);
                gate.ca = Some(certificates.ca());
                let stage = Stage::new(vec![gate]).await;
                stage.judge.asks.store(false, Ordering::Relaxed);
                let first = "POST http://api.example.com/up HTTP/1.1";
                let mut bytes = stage.head(&[first, "Host: api.example.com", framing]);
                bytes.extend_from_slice(b"5\r\nhello\r\n");
                let mut stream = TcpStream::connect(stage.address).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
                assert!(becomes(&host, true).await, "{protocol} {framing}: it is under way");
                if call_ends {
                    drop(stage);
                } else {
                    drop(stream);
                }
                assert!(becomes(&host, false).await, "{protocol} {framing} {call_ends}: it ends");
                let seen = host.seen();
                assert!(seen.iter().all(|seen| seen.broken), "{protocol} {framing} {call_ends}");
            }
        }
    }
}

// Whether the host gets a request: its task holds what it notes, beside the host, the
// listener and the connection.
async fn becomes(host: &Host, under_way: bool) -> bool {
    for _ in 0..3000 {
        if (Arc::strong_count(&host.seen) == 4) == under_way {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn a_connection_is_used_again_for_the_same_place_and_credential_alone() {
    let certificates = Certificates::of(&["127.0.0.1"]);
    for protocol in ["h2", "http/1.1"] {
        let host = Host::with(Some(certificates.server(&[protocol])), |_| saying("ok")).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("other"), "other").unwrap();
        let mut first = to(host.url(), &["first.example"]);
        first.ca = Some(certificates.ca());
        let (mut second, mut third) = (first.clone(), first.clone());
        (second.hosts, second.credential) =
            (stage::patterns(&["second.example"]), credential(&dir));
        third.hosts = stage::patterns(&["third.example"]);
        third.credential = Some(Credential::File(dir.path().join("other")));
        let stage = Stage::new(vec![first, second, third]).await;
        for (name, connections) in
            [("first", 1), ("first", 1), ("second", 2), ("third", 3), ("first", 3), ("second", 3)]
        {
            let output = stage.curl(&[&format!("http://{name}.example/")]).await;
            assert_eq!(text(&output.stdout), "ok");
            assert_eq!(host.connections.load(Ordering::Relaxed), connections, "{protocol} {name}");
        }
    }
}

#[tokio::test]
async fn a_call_that_does_not_read_holds_up_no_other() {
    let certificates = Certificates::of(&["127.0.0.1"]);
    let host = Host::with(Some(certificates.server(&["h2"])), |seen| {
        let size = if seen.line.contains("large") { 50_000_000 } else { 10 };
        hyper::Response::new(http_body_util::Full::new(vec![b'x'; size].into()))
    })
    .await;
    let mut gate = to(host.url(), &["api.example.com"]);
    gate.ca = Some(certificates.ca());
    let stage = Stage::new(vec![gate]).await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(stage.address).await.unwrap();
        let first = "GET http://api.example.com/large HTTP/1.1";
        stream.write_all(&stage.head(&[first, "Host: api.example.com"])).await.unwrap();
        stream.read_exact(&mut [0; 100]).await.unwrap();
        stalled.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let output = stage.curl(&["http://api.example.com/small"]).await;
    assert_eq!(text(&output.stdout), "xxxxxxxxxx");
}

#[tokio::test]
async fn a_connection_that_the_host_has_closed_is_not_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            // It says that it stays, and goes.
            let mut bytes = [0; 4096];
            drop(stream.read(&mut bytes).await);
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await);
        }
    });
    let stage = Stage::new(vec![to(format!("http://{address}"), &["api.example.com"])]).await;
    for round in 1..=5 {
        let output = stage.curl(&["http://api.example.com/"]).await;
        assert_eq!(text(&output.stdout), "ok", "{round}");
        assert_eq!(count.load(Ordering::Relaxed), round);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_short_is_not_taken_for_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4096];
            drop(stream.read(&mut bytes).await);
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf").await);
        }
    });
    let stage = Stage::new(vec![to(format!("http://{address}"), &["api.example.com"])]).await;
    let output = stage.curl(&["http://api.example.com/"]).await;
    assert_eq!(output.status.code(), Some(18), "curl: partial file");
}

#[tokio::test]
async fn who_does_not_read_holds_the_other_end_not_our_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(stream.read(&mut [0; 4096]).await);
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await);
        let piece = [7; 65536];
        while let Ok(count) = stream.write(&piece).await {
            counted.fetch_add(count, Ordering::Relaxed);
        }
    });
    let stage = Stage::new(vec![to(format!("http://{address}"), &["api.example.com"])]).await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let head = stage.head(&["GET http://api.example.com/ HTTP/1.1", "Host: api.example.com"]);
    stream.write_all(&head).await.unwrap();
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = sent.load(Ordering::Relaxed);
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    // What the kernel holds at two sockets, and a little of ours.
    assert!(before < 24 << 20, "{before} bytes were taken");
}

#[tokio::test]
async fn who_is_refused_while_it_sends_hears_why() {
    let host = Host::saying("ok").await;
    let mut gate = to(host.url(), &["api.example.com"]);
    gate.paths = stage::patterns(&["/public/*"]);
    let stage = Stage::new(vec![gate]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large");
    std::fs::write(&file, vec![b'x'; 20_000_000]).unwrap();
    let data = format!("@{}", file.display());
    for expect in ["Expect:", "Expect: 100-continue"] {
        for chunked in ["X-A: b", "Transfer-Encoding: chunked"] {
            for _ in 0..5 {
                let url = "http://api.example.com/private";
                let upload = ["--data-binary", &data, "-H", expect, "-H", chunked, url];
                let output = stage.curl(&upload).await;
                let said = text(&output.stdout);
                assert!(said.contains("not a path of this gate"), "{expect} {chunked} {output:?}");
                assert!(output.status.success(), "{expect} {chunked} {output:?}");
            }
        }
    }
    assert_eq!(host.seen().len(), 0);
}

//! CONNECT: tunnels to listed hosts, for TLS that asks for that host.

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
use std::time::Duration;

use stage::certificates::Certificates;
use stage::{Host, Stage, TOKEN, authorization, credential, gate, patterns, saying, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tool_gate::Answer;
use tool_gate::upstream::Upstream;
use tool_policy::definition::gate::{Adapter, Gate};

/// A host that takes everything, and gives back what it got once its caller has ended.
async fn echo() -> (std::net::SocketAddr, Arc<std::sync::Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let got = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&got);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                drop(stream.read_to_end(&mut bytes).await);
                kept.lock().unwrap().extend_from_slice(&bytes);
                drop(stream.write_all(&bytes).await);
            });
        }
    });
    (address, got)
}

fn to(address: std::net::SocketAddr, host: &str) -> Gate {
    let mut gate = gate(Adapter::Http, &[host]);
    gate.upstream = Some(format!("https://{address}"));
    gate
}

/// The first message of a TLS client that asks for this name.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same in records of this many bytes.
fn in_pieces(hello: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in hello[5..].chunks(size) {
        bytes.extend_from_slice(&[22, 3, 1, (piece.len() >> 8) as u8, piece.len() as u8]);
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// An open tunnel, and the status that it was opened with.
async fn connect(stage: &Stage, target: &str) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let ours = authorization(stage::SECRET);
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{ours}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let status = text(&answer).split(' ').nth(1).unwrap().parse().unwrap();
    (stream, status)
}

async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes));
    drop(end.await.expect("the tunnel ends"));
    bytes
}

#[tokio::test]
async fn curl_speaks_tls_through_a_tunnel_and_no_credential_is_added() {
    let certificates = Certificates::of(&["secure.example.com"]);
    let tls = certificates.server(&["h2", "http/1.1"]);
    let host = Host::with(Some(tls), |_| saying("inside")).await;
    let dir = tempfile::tempdir().unwrap();
    let mut gate = to(host.address, "secure.example.com");
    gate.credential = credential(&dir);
    let stage = Stage::new(vec![gate]).await;
    let ca = certificates.ca();
    let url = "https://secure.example.com/path";
    let output = stage.curl(&["--cacert", ca.to_str().unwrap(), url]).await;
    assert_eq!(text(&output.stdout), "inside", "{}", text(&output.stderr));
    assert!(!format!("{:?}", host.seen()).contains(TOKEN));
    let asked = &stage.asked()[0].parts[0];
    assert!(asked.changes, "nobody sees what it does");
    assert!(asked.shown.starts_with("CONNECT secure.example.com:443"));
}

#[tokio::test]
async fn a_tunnel_is_for_the_name_that_it_was_opened_for() {
    let (address, got) = echo().await;
    let stage = Stage::new(vec![to(address, "a.example.com")]).await;
    let good = hello("a.example.com");
    for bytes in [good.clone(), in_pieces(&good, 1), in_pieces(&good, 7), hello("A.Example.com")] {
        let (mut stream, status) = connect(&stage, "a.example.com:443").await;
        assert_eq!(status, 200);
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await, bytes, "half of it is closed, the other goes on");
        assert_eq!(got.lock().unwrap().split_off(0), bytes);
    }
    let mut none = good.clone();
    // The name's extension becomes one that nobody knows.
    let at = none.windows(13).position(|window| window == b"a.example.com").unwrap();
    none[at - 9..at - 7].copy_from_slice(&[0xfa, 0xfa]);
    let mut other = good.clone();
    other[at] = b'b';
    let mut nul = good.clone();
    nul[at + 1] = 0;
    let mut long = good.clone();
    long[6..9].copy_from_slice(&[0xff, 0xff, 0xff]);
    let mut empty = vec![22, 3, 1, 0, 0];
    empty.extend_from_slice(&good);
    for (what, bytes) in [
        ("another name", hello("b.example.com")),
        ("another name in pieces", in_pieces(&hello("b.example.com"), 3)),
        ("a name below", hello("x.a.example.com")),
        ("one letter", other),
        ("a nul", nul),
        ("no name", none),
        ("an address", hello("127.0.0.1")),
        ("too long", long),
        ("an empty record", empty),
        ("http", b"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n".to_vec()),
        ("ssh", b"SSH-2.0-x\r\n".to_vec()),
        ("an old hello", vec![0x80, 0x2e, 1, 0, 2]),
        ("an alert", vec![21, 3, 1, 0, 2, 1, 0]),
        ("half of it", good[..40].to_vec()),
    ] {
        let (mut stream, status) = connect(&stage, "a.example.com:443").await;
        assert_eq!(status, 200, "{what}");
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await, [21, 3, 3, 0, 2, 2, 112], "{what}");
        assert_eq!(got.lock().unwrap().len(), 0, "{what}: nothing reached the host");
    }
    assert_eq!(stage.refused().len(), 14);
}

#[tokio::test]
async fn curl_says_that_a_name_is_refused() {
    let certificates = Certificates::of(&["a.example.com"]);
    let host = Host::with(Some(certificates.server(&["h2"])), |_| saying("x")).await;
    let stage = Stage::new(vec![to(host.address, "a.example.com")]).await;
    // It connects to one name and asks for another.
    let turned = "b.example.com:443:a.example.com:443";
    let url = "https://b.example.com/";
    let output = stage.curl(&["-k", "--connect-to", turned, url]).await;
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.to_lowercase().contains("unrecognized name"),
        "{said}"
    );
    assert_eq!(host.seen().len(), 0);
}

#[tokio::test]
async fn tunnels_are_refused_where_they_are_not_listed() {
    let (address, got) = echo().await;
    let mut looks = to(address, "looks.example.com");
    looks.paths = patterns(&["/public/*"]);
    let mut methods = to(address, "methods.example.com");
    methods.methods = vec!["GET".to_owned()];
    let mut plain = gate(Adapter::Http, &["plain.example.com"]);
    plain.upstream = Some(format!("http://{address}"));
    let git = gate(Adapter::Git, &["git.example.com"]);
    let mut ports = to(address, "ports.example.com");
    ports.ports = vec![8443];
    let stage =
        Stage::new(vec![to(address, "a.example.com"), looks, methods, plain, git, ports]).await;
    for target in [
        "looks.example.com:443",
        "methods.example.com:443",
        "plain.example.com:443",
        "git.example.com:443",
        "a.example.com:22",
        "a.example.com:80",
        "a.example.com:8443",
        "b.example.com:443",
        "127.0.0.1:443",
        "169.254.169.254:80",
        "169.254.169.254:443",
        "[fd00:ec2::254]:80",
        "[::ffff:169.254.169.254]:443",
        "localhost:443",
    ] {
        let (mut stream, status) = connect(&stage, target).await;
        assert_eq!(status, 403, "{target}");
        let mut said = vec![0; 22];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(text(&said), "refused by the broker:", "{target}");
    }
    let (mut stream, status) = connect(&stage, "ports.example.com:8443").await;
    assert_eq!(status, 200);
    stream.shutdown().await.unwrap();
    rest(&mut stream).await;
    assert_eq!(got.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_tunnel_that_is_refused_is_not_opened() {
    let (address, _) = echo().await;
    let stage = Stage::with(vec![to(address, "a.example.com")], Upstream::default(), |_| {
        vec![Answer::Refused { rule: "x".to_owned(), reason: "no".to_owned(), instead: None }]
    })
    .await;
    assert_eq!(connect(&stage, "a.example.com:443").await.1, 403);
}

#[tokio::test]
async fn a_listed_address_is_a_host_without_a_name() {
    let (address, _) = echo().await;
    let mut gate = gate(Adapter::Http, &["127.0.0.1"]);
    gate.ports = vec![address.port()];
    let stage = Stage::new(vec![gate]).await;
    let target = address.to_string();
    let (mut stream, status) = connect(&stage, &target).await;
    assert_eq!(status, 200);
    let bytes = hello("127.0.0.1");
    stream.write_all(&bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, bytes);
    let (mut stream, _) = connect(&stage, &target).await;
    stream.write_all(&hello("a.example.com")).await.unwrap();
    assert_eq!(rest(&mut stream).await[..1], [21]);
}

#[tokio::test]
async fn a_tunnel_ends_with_its_call() {
    let (address, got) = echo().await;
    let stage = Stage::new(vec![to(address, "a.example.com")]).await;
    let (mut stream, _) = connect(&stage, "a.example.com:443").await;
    let bytes = hello("a.example.com");
    stream.write_all(&bytes).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(got.lock().unwrap().len(), 0);
    drop(stage);
    rest(&mut stream).await;
    for _ in 0..3000 {
        if got.lock().unwrap().len() == bytes.len() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the host still has its end");
}

/// A host that answers the first bytes with these, keeps what comes, and gives it back
/// once its caller has ended.
async fn answering(first: Vec<u8>) -> (std::net::SocketAddr, Arc<std::sync::Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let got: Arc<std::sync::Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&got);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (kept, first) = (Arc::clone(&kept), first.clone());
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                let mut begun = false;
                while let Ok(count @ 1..) = stream.read(&mut piece).await {
                    kept.lock().unwrap().extend_from_slice(&piece[..count]);
                    if !begun {
                        // In pieces, as it may come.
                        for part in first.chunks(30) {
                            stream.write_all(part).await.unwrap();
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    begun = true;
                }
            });
        }
    });
    (address, got)
}

/// A ServerHello: one that asks for another hello, or not.
fn server_hello(retry: bool) -> Vec<u8> {
    let digest = <sha2::Sha256 as sha2::Digest>::digest(b"HelloRetryRequest");
    let random = if retry { digest.to_vec() } else { vec![7; 32] };
    let body = [&[3, 3][..], &random, &[0, 0x13, 1, 0, 0, 6, 0, 43, 0, 2, 3, 4]].concat();
    let message = [&[2, 0, 0, body.len() as u8][..], &body].concat();
    [&[22, 3, 3, 0, message.len() as u8][..], &message].concat()
}

/// Means nothing, and stands before a second hello.
const CHANGE: [u8; 6] = [20, 3, 3, 0, 1, 1];

#[tokio::test]
async fn a_second_hello_is_for_the_same_name() {
    let asks = server_hello(true);
    let (address, got) = answering(asks.clone()).await;
    let stage = Stage::new(vec![to(address, "a.example.com")]).await;
    let (good, bad) = (hello("a.example.com"), hello("b.example.com"));
    let early = [&[23, 3, 3, 0, 3][..], b"abc"].concat();
    let cases: [(&str, Vec<u8>, bool); 7] = [
        ("the same name", [&CHANGE[..], &good].concat(), true),
        ("the same in pieces", in_pieces(&good, 11), true),
        ("with early data", [&CHANGE[..], &early, &good, &early].concat(), true),
        ("another name", bad.clone(), false),
        ("another name, as it is sent", [&CHANGE[..], &bad].concat(), false),
        ("in pieces", [&CHANGE[..], &in_pieces(&bad, 1)].concat(), false),
        ("with early data", [&CHANGE[..], &early, &bad].concat(), false),
    ];
    for (what, then, passes) in cases {
        // After the host's answer, and without waiting for it.
        for waits in [true, false] {
            let (mut stream, _) = connect(&stage, "a.example.com:443").await;
            stream.write_all(&good).await.unwrap();
            let mut answer = vec![0; asks.len()];
            if waits {
                stream.read_exact(&mut answer).await.unwrap();
            }
            stream.write_all(&then).await.unwrap();
            if !waits {
                stream.read_exact(&mut answer).await.unwrap();
            }
            assert_eq!(answer, asks, "{what}");
            if passes {
                stream.write_all(b"and more").await.unwrap();
                let all = [&good[..], &then, b"and more"].concat();
                for _ in 0..6000 {
                    if got.lock().unwrap().len() >= all.len() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert!(got.lock().unwrap().split_off(0) == all, "{what}");
            } else {
                assert_eq!(rest(&mut stream).await, [21, 3, 3, 0, 2, 2, 112], "{what}");
                let got = got.lock().unwrap().split_off(0);
                assert!(!got.windows(13).any(|part| part == b"b.example.com"), "{what}");
            }
        }
    }
    assert_eq!(stage.refused().len(), 8);
}

/// Where the host is content with the first, nobody looks at what follows: in TLS 1.2 it
/// is encrypted in records of the same kind.
#[tokio::test]
async fn what_follows_a_hello_that_was_taken_is_not_looked_at() {
    let takes = server_hello(false);
    let (address, got) = answering(takes.clone()).await;
    let stage = Stage::new(vec![to(address, "a.example.com")]).await;
    let (mut stream, _) = connect(&stage, "a.example.com:443").await;
    let first = hello("a.example.com");
    stream.write_all(&first).await.unwrap();
    let mut answer = vec![0; takes.len()];
    stream.read_exact(&mut answer).await.unwrap();
    let then = [&CHANGE[..], &[22, 3, 3, 0, 4, 1, 0, 0, 9]].concat();
    stream.write_all(&then).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, b"");
    assert!(got.lock().unwrap().split_off(0) == [first, then].concat());
}

/// curl has no key for the one group that this host takes, and says its hello again.
#[tokio::test]
async fn curl_is_asked_for_another_hello_and_goes_on() {
    let certificates = Certificates::of(&["a.example.com"]);
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups = vec![rustls::crypto::ring::kx_group::SECP384R1];
    let host = Host::with(Some(certificates.by(provider)), |_| saying("inside")).await;
    let stage = Stage::new(vec![to(host.address, "a.example.com")]).await;
    let ca = certificates.ca();
    let args = ["--tlsv1.3", "--cacert", ca.to_str().unwrap(), "https://a.example.com/"];
    let output = stage.curl(&args).await;
    assert_eq!(text(&output.stdout), "inside", "{}", text(&output.stderr));
}

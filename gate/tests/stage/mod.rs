//! A stage for tests of the gate: hosts on loopback, a call's door, who decides.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "not every test needs all; here programs are started"
)]

pub(crate) mod certificates;
pub(crate) mod skipped;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request as Asked, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tool_gate::credential::Keeper;
use tool_gate::serve::{self, Came};
use tool_gate::upstream::Upstream;
use tool_gate::{Answer, Door, Grant, Judge, Request};
use tool_policy::Decision;
use tool_policy::definition::gate::{Adapter, Credential, Gate, Scheme};
use tool_policy::pattern::Pattern;

pub(crate) const SECRET: &str = "the-secret-of-this-call";
/// The value of the credential that `credential` makes.
pub(crate) const TOKEN: &str = "canary-7d1f0c";

/// A gate with nothing but hosts; loopback is allowed.
pub(crate) fn gate(adapter: Adapter, hosts: &[&str]) -> Gate {
    Gate {
        line: 1,
        adapter,
        hosts: patterns(hosts),
        ports: Vec::new(),
        repositories: Vec::new(),
        methods: Vec::new(),
        paths: Vec::new(),
        headers: Vec::new(),
        credential: None,
        scheme: match adapter {
            Adapter::Git => Scheme::Basic("x-access-token".to_owned()),
            Adapter::Github => Scheme::Token,
            Adapter::Npm | Adapter::Http => Scheme::Bearer,
        },
        upstream: None,
        ca: None,
        private: vec!["127.0.0.0/8".to_owned()],
        default: Decision::Allow,
        lfs: false,
    }
}

pub(crate) fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::parse(text).unwrap()).collect()
}

/// A credential in a file of the directory.
pub(crate) fn credential(dir: &tempfile::TempDir) -> Option<Credential> {
    let path = dir.path().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    Some(Credential::File(path))
}

/// A host on loopback, and what it was asked.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    /// How many connections it had.
    pub(crate) connections: Arc<AtomicUsize>,
    secure: bool,
    task: JoinHandle<()>,
}

/// One request that a host got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) version: hyper::Version,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// It broke off before its end.
    pub(crate) broken: bool,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| text(value.as_bytes()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    /// Answers each with what `answer` makes of it.
    pub(crate) async fn start(
        answer: impl Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Host {
        Host::with(None, answer).await
    }

    /// The same, by TLS with these settings.
    pub(crate) async fn with(
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (kept, counted, answer) =
            (Arc::clone(&seen), Arc::clone(&connections), Arc::new(answer));
        let secure = tls.is_some();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let (kept, answer, tls) = (Arc::clone(&kept), Arc::clone(&answer), tls.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else { return speak(stream, false, kept, answer).await };
                    let shaken = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await;
                    let Ok(stream) = shaken else { return };
                    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    speak(stream, two, kept, answer).await;
                });
            }
        });
        Host { address, seen, connections, secure, task }
    }

    /// Says `text` to everybody.
    pub(crate) async fn saying(text: &'static str) -> Host {
        Host::start(move |_| saying(text)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

pub(crate) fn saying(text: &'static str) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(text.as_bytes())))
}

// Speaks HTTP on a connection as a host.
async fn speak<S, F>(stream: S, two: bool, kept: Arc<Mutex<Vec<Seen>>>, answer: Arc<F>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    F: Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static,
{
    let service = service_fn(move |request: Asked<Incoming>| {
        let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let line = match head.uri.path_and_query() {
                Some(target) => format!("{} {target}", head.method),
                None => format!("{} {}", head.method, head.uri),
            };
            let body = body.collect().await;
            let seen = Seen {
                line,
                version: head.version,
                headers: head.headers,
                broken: body.is_err(),
                body: body.map(|body| body.to_bytes().to_vec()).unwrap_or_default(),
            };
            kept.lock().unwrap().push(seen.clone());
            Ok::<_, hyper::Error>(answer(&seen))
        }
    });
    let stream = TokioIo::new(stream);
    if two {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(server.serve_connection(stream, service).await);
    } else {
        let server = hyper::server::conn::http1::Builder::new();
        drop(server.serve_connection(stream, service).await);
    }
}

/// What a test's judge does.
type Decide = Box<dyn Fn(&Request) -> Vec<Answer> + Send + Sync>;

/// Decides as it is told, and notes what it was asked.
pub(crate) struct Recorder {
    pub(crate) decide: Decide,
    /// Somebody would be asked: bodies are held, to be shown.
    pub(crate) asks: AtomicBool,
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) refused: Mutex<Vec<(String, String)>>,
}

impl Judge for Recorder {
    fn judge<'a>(
        &'a self,
        request: &'a Request,
    ) -> Pin<Box<dyn Future<Output = Vec<Answer>> + Send + 'a>> {
        self.asked.lock().unwrap().push(request.clone());
        let answers = (self.decide)(request);
        Box::pin(async move { answers })
    }

    fn asks(&self, _request: &Request) -> bool {
        self.asks.load(Ordering::Relaxed)
    }

    fn refused(&self, _adapter: Option<Adapter>, host: &str, why: &str) {
        self.refused.lock().unwrap().push((host.to_owned(), why.to_owned()));
    }
}

/// A call's gate, on a port of loopback, until it is dropped.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) judge: Arc<Recorder>,
    pub(crate) grant: Arc<Grant>,
    task: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    /// Everything that changes nothing is allowed, and everything else too.
    pub(crate) async fn new(gates: Vec<Gate>) -> Stage {
        Stage::with(gates, Upstream::default(), |request| {
            vec![Answer::Allowed; request.parts.len()]
        })
        .await
    }

    pub(crate) async fn with(
        gates: Vec<Gate>,
        upstream: Upstream,
        decide: impl Fn(&Request) -> Vec<Answer> + Send + Sync + 'static,
    ) -> Stage {
        Stage::of(gates, upstream, true, Came::Proxy, decide).await
    }

    pub(crate) async fn of(
        gates: Vec<Gate>,
        upstream: Upstream,
        push: bool,
        came: Came,
        decide: impl Fn(&Request) -> Vec<Answer> + Send + Sync + 'static,
    ) -> Stage {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let judge = Arc::new(Recorder {
            decide: Box::new(decide),
            asks: AtomicBool::new(true),
            asked: Mutex::default(),
            refused: Mutex::default(),
        });
        let grant = Arc::new(Grant {
            door: Door { address, secret: SECRET.to_owned() },
            base: gates.first().map(|gate| gate.hosts[0].as_str().to_owned()),
            gates: gates.into(),
            push,
            judge: Arc::clone(&judge) as Arc<dyn Judge>,
            credentials: Arc::new(Keeper::default()),
            redact: None,
            answers: (came == Came::Own).then(Default::default),
            upstream: Arc::new(upstream),
            places: Arc::new(Semaphore::new(tool_gate::grant::CONNECTIONS)),
            git: tool_gate::adapter::git::Memory::default(),
        });
        let shared = Arc::clone(&grant);
        let task = tokio::spawn(async move {
            let mut calls = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                calls.spawn(serve::connection(stream, came, Arc::clone(&shared)));
            }
        });
        Stage { address, judge, grant, task }
    }

    pub(crate) fn proxy(&self) -> String {
        format!("http://call:{SECRET}@{}", self.address)
    }

    /// curl through the gate; its exit code and what it prints.
    pub(crate) async fn curl(&self, args: &[&str]) -> Output {
        let mut command = Command::new("curl");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        command.args(["-q", "-sS", "--max-time", "120", "--proxy", &self.proxy()]).args(args);
        run(command).await
    }

    /// What comes back for these bytes, until the connection ends or is silent behind a
    /// whole answer.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        // Whatever is refused may be refused before it is all sent.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(60));
        loop {
            let patience = if is_whole(bytes, &answer) { short } else { long };
            let read = tokio::time::timeout(patience, stream.read(&mut piece)).await;
            let Ok(Ok(count)) = read else { break };
            if count == 0 {
                break;
            }
            answer.extend_from_slice(&piece[..count]);
        }
        String::from_utf8(answer).unwrap()
    }

    /// A request with the call's secret, whose other lines are these.
    pub(crate) fn head(&self, lines: &[&str]) -> Vec<u8> {
        let mut head = format!("{}\r\n{}\r\n", lines[0], authorization(SECRET));
        for line in &lines[1..] {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.judge.asked.lock().unwrap().clone()
    }

    pub(crate) fn refused(&self) -> Vec<(String, String)> {
        self.judge.refused.lock().unwrap().clone()
    }
}

/// The header that names a call's secret.
pub(crate) fn authorization(secret: &str) -> String {
    format!("Proxy-Authorization: Basic {}", STANDARD.encode(format!("call:{secret}")))
}

/// Runs a program while the stage goes on.
pub(crate) async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Whether an answer is all there, as far as it says how long it is.
fn is_whole(request: &[u8], answer: &[u8]) -> bool {
    let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|text| text.trim().parse::<usize>().ok());
    let is_bare = request.starts_with(b"HEAD ") || request.starts_with(b"CONNECT ");
    match length {
        _ if is_bare || head.contains(" 204 ") || head.contains(" 304 ") => true,
        Some(length) => answer.len() >= at + 4 + length,
        None => answer.ends_with(b"0\r\n\r\n"),
    }
}

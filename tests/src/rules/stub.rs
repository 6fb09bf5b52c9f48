//! A server on loopback and on a Unix socket: canned answers, and what it saw.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use super::table::Answer;

/// What it was asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// `METHOD PATH`.
    pub line: String,
    pub body: String,
}

/// A running one; it ends with the test.
#[derive(Clone, Debug)]
pub struct Stub {
    pub port: u16,
    root: PathBuf,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Stub {
    /// Listens on a port of its own, and on `socket`; `@NAME` as an answer's body
    /// is a file in `root`.
    pub fn start(answers: &[Answer], socket: &Path, root: PathBuf) -> Stub {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let unix = UnixListener::bind(socket).expect("a socket");
        let port = tcp.local_addr().expect("an address").port();
        let stub = Stub { port, root, seen: Arc::default() };
        let answers: Arc<[Answer]> = answers.into();
        let (one, two) = (stub.clone(), stub.clone());
        let same = Arc::clone(&answers);
        thread::spawn(move || {
            for connection in tcp.incoming().flatten() {
                let (stub, answers) = (one.clone(), Arc::clone(&same));
                thread::spawn(move || stub.serve(&connection, &connection, &answers));
            }
        });
        thread::spawn(move || {
            for connection in unix.incoming().flatten() {
                let (stub, answers) = (two.clone(), Arc::clone(&answers));
                thread::spawn(move || stub.serve(&connection, &connection, &answers));
            }
        });
        stub
    }

    /// What it saw since this was last asked, sorted: clients ask in parallel.
    pub fn take(&self) -> Vec<Seen> {
        let mut seen = std::mem::take(&mut *self.seen.lock().expect("not poisoned"));
        seen.sort();
        seen
    }

    /// One request; the connection ends with its answer.
    fn serve(&self, from: impl Read, mut to: impl Write, answers: &[Answer]) -> Option<()> {
        let mut from = BufReader::new(from);
        let mut first = String::new();
        from.read_line(&mut first).ok()?;
        let line = first.rsplit_once(' ')?.0.to_owned();
        let (mut length, mut chunked) = (0, false);
        loop {
            let mut header = String::new();
            from.read_line(&mut header).ok()?;
            let header = header.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
            if header.starts_with("expect:") {
                to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        while chunked {
            let mut size = String::new();
            from.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            from.read_exact(&mut chunk).ok()?;
            body.extend_from_slice(chunk.get(..size)?);
            chunked = size > 0;
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        let answer = answers.iter().find(|answer| fits(answer, &line, &body));
        self.seen.lock().ok()?.push(Seen { line: line.clone(), body });
        let (status, text) = match answer {
            Some(answer) => (answer.status, answer.body.replace("{port}", &self.port.to_string())),
            None => (404, r#"{"message":"Not Found"}"#.to_owned()),
        };
        let file = text.strip_prefix('@').and_then(|name| std::fs::read(self.root.join(name)).ok());
        let bytes = file.unwrap_or_else(|| text.into_bytes());
        let bytes = if line.starts_with("HEAD ") { Vec::new() } else { bytes };
        let head = format!(
            "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\nX-Oauth-Scopes: repo, read:org\r\n\r\n",
            bytes.len()
        );
        to.write_all(head.as_bytes()).ok()?;
        to.write_all(&bytes).ok()
    }
}

fn fits(answer: &Answer, line: &str, body: &str) -> bool {
    let path = match answer.to.strip_suffix('*') {
        Some(beginning) => line.starts_with(beginning),
        None => line == answer.to,
    };
    path && answer.having.as_ref().is_none_or(|part| bare(body).contains(&bare(part)))
}

/// Without blanks, and without those that JSON spells out: a gate writes a GraphQL
/// document anew.
fn bare(text: &str) -> String {
    let text = text.replace("\\n", "").replace("\\t", "");
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

impl Seen {
    /// The same, whatever the order and the blanks of a GraphQL document are.
    pub fn meant(&self) -> (String, String) {
        let parsed: Option<serde_json::Value> = serde_json::from_str(&self.body).ok();
        let query = parsed.as_ref().and_then(|body| body["query"].as_str());
        let Some(query) = query else { return (self.line.clone(), self.body.clone()) };
        let mut words: Vec<&str> = query
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| !word.is_empty())
            .collect();
        words.sort_unstable();
        let variables = parsed.as_ref().map(|body| body["variables"].to_string());
        (self.line.clone(), format!("{} {}", words.join(" "), variables.unwrap_or_default()))
    }
}

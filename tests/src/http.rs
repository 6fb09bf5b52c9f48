//! A server with its door for HTTP open, and requests to it byte for byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Outcome, PATIENCE, Server, Setup, run};

/// The token of the client `alice`.
pub const ALICE: &str = "alices-0123456789abcdef";
/// The token of the client `bob`.
pub const BOB: &str = "bobs-0123456789abcdef";

/// Where tools are called by HTTP.
#[derive(Debug)]
pub struct Http {
    pub server: Server,
    pub address: SocketAddr,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Lines in small letters, but for the first.
    pub head: String,
    pub body: String,
}

impl Http {
    /// With the tokens of alice and bob, at a port that the kernel chooses.
    #[track_caller]
    pub fn with_tokens(prepare: impl FnOnce(&mut Setup)) -> Http {
        Http::start(|s| {
            let tokens = format!("# two\nalice:{ALICE}\nbob:{BOB}\n");
            let path = s.file("tokens", tokens, 0o600);
            s.env("TOOL_HTTP_TOKEN_FILE", path);
            prepare(s);
        })
    }

    /// Without any.
    #[track_caller]
    pub fn open_to_all(prepare: impl FnOnce(&mut Setup)) -> Http {
        Http::start(|s| {
            s.flag("--insecure-no-auth");
            prepare(s);
        })
    }

    #[track_caller]
    fn start(prepare: impl FnOnce(&mut Setup)) -> Http {
        let server = Server::start(|s| {
            s.env("TOOL_HTTP_LISTEN", "127.0.0.1:0");
            prepare(s);
        });
        let address = server.status()["http"].as_str().expect("an address").parse();
        Http { server, address: address.expect("an address") }
    }

    /// A connection.
    pub fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends these bytes, and takes what comes until the end.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.dial();
        // The server may answer, and close, before all is sent.
        stream.write_all(bytes).ok();
        answer(stream)
    }

    /// A request of alice's, with further lines of its head.
    #[track_caller]
    pub fn ask(&self, line: &str, more: &str, body: &str) -> Answer {
        self.raw(
            self.request(line, &format!("Authorization: Bearer {ALICE}\n{more}"), body).as_bytes(),
        )
    }

    /// A request as text; every line of `head` ends with a newline.
    pub fn request(&self, line: &str, head: &str, body: &str) -> String {
        let kind = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Type: application/json\nContent-Length: {}\n", body.len())
        };
        let host = if head.lines().any(|line| line.starts_with("Host:")) {
            String::new()
        } else {
            format!("Host: {}\n", self.address)
        };
        let head = format!("{line} HTTP/1.1\n{host}Connection: close\n{head}{kind}\n");
        head.replace('\n', "\r\n") + body
    }

    /// `POST` of alice's: status and JSON.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.ask(&format!("POST {path}"), "", &body.to_string());
        (answer.status, answer.json())
    }

    /// `GET` of alice's: status and JSON.
    #[track_caller]
    pub fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.ask(&format!("GET {path}"), "", "");
        (answer.status, answer.json())
    }

    /// A line of shell as people type it, with `$URL`, `$TOKEN`. For its curl this server is
    /// also the one at localhost:3001.
    #[track_caller]
    pub fn bash(&self, line: &str) -> Outcome {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).env("URL", format!("http://{}", self.address)).env("TOKEN", ALICE);
        let to = format!("connect-to = \"localhost:3001:{}\"\nsilent\nshow-error\n", self.address);
        self.server.file("home/.curlrc", to, 0o644);
        bash.env("CURL_HOME", self.server.path("home"));
        bash.env_remove("http_proxy").env("no_proxy", "*");
        run(&mut bash, b"")
    }
}

impl Answer {
    /// Its body.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The values of a header, its name in small letters.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
    }

    /// The one value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.headers(name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }
}

/// What comes until the end.
#[track_caller]
pub fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A connection that is reset after its answer has answered.
    let ended = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        panic!("no answer: {ended:?}, {text:?}");
    };
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// As in an agent's container, socat: from a port, which the kernel chooses, to a socket.
#[track_caller]
pub fn relay(socket: &Path) -> (Child, u16) {
    let mut relay = Command::new("/usr/bin/socat");
    relay.args(["-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1,fork,reuseaddr"]);
    relay.arg(format!("UNIX-CONNECT:{}", socket.display())).stderr(Stdio::piped());
    crate::sys::die_with_parent(&mut relay);
    let mut relay = relay.spawn().expect("socat");
    // It says which: "listening on AF=2 127.0.0.1:40123".
    let mut said = BufReader::new(relay.stderr.take().expect("piped")).lines();
    let port = said.find_map(|line| {
        let line = line.expect("text");
        line.contains("listening on").then(|| line.rsplit(':').next()?.trim().parse().ok())?
    });
    // Whatever else it says has a reader, so that it does not stop.
    std::thread::spawn(move || said.for_each(drop));
    (relay, port.expect("the relay listens"))
}

//! Clients of MCP, by hand: raw JSON-RPC on standard input and output, and by HTTP.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::{PATIENCE, Server};

/// The versions that begin with `initialize`, and the newest of them last.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The parameters of `initialize`.
pub fn hello(version: &str, capabilities: &Value) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": {"name": "by-hand", "version": "1"},
    })
}

/// A client, at whichever door.
pub trait Client {
    /// Sends one message; what it is answered comes with `next`.
    fn send(&mut self, message: &Value);
    /// The next message of the server's.
    fn next(&mut self) -> Value;

    /// A request and its answer; what comes before is thrown away.
    #[track_caller]
    fn ask(&mut self, id: i64, method: &str, params: &Value) -> Value {
        self.send(&request(id, method, params));
        loop {
            let message = self.next();
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The result of a request.
    #[track_caller]
    fn result(&mut self, id: i64, method: &str, params: &Value) -> Value {
        let answer = self.ask(id, method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The result of a tool's call.
    #[track_caller]
    fn call(&mut self, id: i64, tool: &str, input: &Value) -> Value {
        self.result(id, "tools/call", &json!({"name": tool, "arguments": input}))
    }

    /// Begins a session.
    #[track_caller]
    fn begin(&mut self, version: &str, capabilities: &Value) -> Value {
        let result = self.result(0, "initialize", &hello(version, capabilities));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        result
    }
}

/// A request.
pub fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// `tool-server mcp`, as a client starts it.
#[derive(Debug)]
pub struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
}

impl Pipe {
    /// Started, and nothing said.
    pub fn start(server: &Server) -> Pipe {
        let mut command = server.verb(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("spawn");
        let input = child.stdin.take();
        let (to, output) = channel();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("every line is a message");
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        Pipe { child, input, output }
    }

    /// A session of the newest version that has them.
    #[track_caller]
    pub fn begun(server: &Server) -> Pipe {
        let mut client = Pipe::start(server);
        client.begin(VERSIONS[3], &json!({}));
        client
    }

    /// Any bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("open").write_all(bytes).expect("write");
    }

    /// The client goes away; how the program ended.
    pub fn leave(&mut self) -> std::process::ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("wait")
    }

    /// Dies.
    pub fn die(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Client for Pipe {
    fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        match self.output.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("nothing comes"),
            Err(RecvTimeoutError::Disconnected) => panic!("it has ended"),
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A client by HTTP; each request on a connection of its own.
#[derive(Debug)]
pub struct Web<'a> {
    http: &'a Http,
    token: &'static str,
    /// Whose it is.
    pub session: Option<String>,
    come: VecDeque<Value>,
}

impl<'a> Web<'a> {
    /// Nothing said yet.
    pub fn new(http: &'a Http, token: &'static str) -> Web<'a> {
        Web { http, token, session: None, come: VecDeque::new() }
    }

    /// A session of the newest version that has them.
    #[track_caller]
    pub fn begun(http: &'a Http, token: &'static str) -> Web<'a> {
        let mut client = Web::new(http, token);
        client.begin(VERSIONS[3], &json!({}));
        client
    }

    /// The lines of a request's head.
    pub fn head(&self) -> String {
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\n"));
        format!(
            "Authorization: Bearer {}\nAccept: application/json, text/event-stream\n{}",
            self.token,
            session.unwrap_or_default()
        )
    }

    /// One request and its whole answer.
    #[track_caller]
    pub fn post(&self, body: &str) -> Answer {
        self.http.raw(self.http.request("POST /mcp", &self.head(), body).as_bytes())
    }

    /// A request whose answer is read as it comes.
    pub fn stream(&self, line: &str, body: &str) -> Events {
        self.stream_with(line, "", body)
    }

    /// The same, with more lines of the head.
    pub fn stream_with(&self, line: &str, more: &str, body: &str) -> Events {
        let mut stream = self.http.dial();
        let request = self.http.request(line, &format!("{}{more}", self.head()), body);
        stream.write_all(request.as_bytes()).expect("write");
        Events(BufReader::new(stream))
    }

    /// Ends the session.
    #[track_caller]
    pub fn delete(&self) -> u16 {
        self.http.raw(self.http.request("DELETE /mcp", &self.head(), "").as_bytes()).status
    }
}

/// Messages as they come.
#[derive(Debug)]
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// The next message; none at the end.
    pub fn message(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("read") == 0 {
                return None;
            }
            if let Some(data) = line.trim_end().strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("a message"));
            }
        }
    }

    /// Its status, once it begins to be answered.
    pub fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("read");
        line
    }

    /// Whatever else comes, until the end.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).ok();
        rest
    }
}

/// The messages of an answer.
pub fn messages(answer: &Answer) -> Vec<Value> {
    let lines = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).expect("a message")).collect()
}

impl Client for Web<'_> {
    #[track_caller]
    fn send(&mut self, message: &Value) {
        let answer = self.post(&message.to_string());
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        if let Some(id) = answer.header("mcp-session-id") {
            self.session = Some(id.to_owned());
        }
        self.come.extend(messages(&answer));
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        self.come.pop_front().expect("an answer")
    }
}

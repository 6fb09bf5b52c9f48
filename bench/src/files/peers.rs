//! The servers that are measured, as a client has them: a message out, an answer in.
//!
//! Owns: how each is started and spoken to, the same for both: a message is made before the
//! clock runs, an answer is read whole, and looked into when the clock has stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;

/// How much of an answer a client reads at once.
const READ: usize = 256 * 1024;

/// A server that is spoken to.
pub trait Peer {
    /// What calls a tool.
    fn message(&self, id: u64, tool: &str, input: &Value) -> Outcome<Vec<u8>>;
    fn send(&mut self, message: &[u8]) -> Outcome<()>;
    /// Adds the next answer, as it came; the number of the call.
    fn answer(&mut self, to: &mut Vec<u8>) -> Outcome<u64>;
    /// An error where an answer does not say that all went well.
    fn check(&self, answer: &[u8]) -> Outcome<()>;
}

pub struct Broker {
    child: Child,
    stream: UnixStream,
    answers: BufReader<UnixStream>,
    _scratch: tempfile::TempDir,
}

pub struct Node {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Broker {
    pub fn start(server: &Path, workspace: &Path) -> Outcome<Broker> {
        let scratch = tempfile::tempdir()?;
        let (socket, at) = (scratch.path().join("tool.sock"), scratch.path());
        fs::create_dir_all(at.join("tools.d/true"))?;
        fs::write(at.join("tools.d/true/tool.json"), "{}")?;
        let child = Command::new(server)
            .arg("serve")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TOOL_SOCKET", &socket)
            .env("TOOLS_DIR", at.join("tools.d"))
            .env("WORKSPACE", workspace)
            .env("STATE_DIR", at.join("state"))
            .stderr(fs::File::create(at.join("log"))?)
            .spawn()?;
        let until = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > until => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let answers = BufReader::with_capacity(READ, stream.try_clone()?);
        Ok(Broker { child, stream, answers, _scratch: scratch })
    }
}

impl Peer for Broker {
    fn message(&self, id: u64, tool: &str, input: &Value) -> Outcome<Vec<u8>> {
        let payload = json!({"tool": tool, "input": input, "id": id}).to_string();
        let mut message = u32::try_from(payload.len())?.to_be_bytes().to_vec();
        message.extend_from_slice(payload.as_bytes());
        Ok(message)
    }

    fn send(&mut self, message: &[u8]) -> Outcome<()> {
        Ok(self.stream.write_all(message)?)
    }

    /// A long output comes as chunks, each with a byte before it; the last message is JSON.
    fn answer(&mut self, to: &mut Vec<u8>) -> Outcome<u64> {
        loop {
            let mut length = [0; 4];
            self.answers.read_exact(&mut length)?;
            let begin = to.len();
            to.resize(begin + usize::try_from(u32::from_be_bytes(length))?, 0);
            let payload = to.get_mut(begin..).unwrap_or_default();
            self.answers.read_exact(payload)?;
            if payload.first() == Some(&b'{') {
                return id_of(payload).ok_or_else(|| "an answer has no id".into());
            }
        }
    }

    fn check(&self, answer: &[u8]) -> Outcome<()> {
        // Behind the chunks; no text that is measured has these words.
        let begin = answer.windows(11).rposition(|at| at == br#"{"success":"#).unwrap_or(0);
        let last: Value = serde_json::from_slice(answer.get(begin..).unwrap_or_default())?;
        if last["success"] != json!(true) {
            return Err(format!("the broker: {last}").into());
        }
        Ok(())
    }
}

impl Node {
    pub fn start(modules: &Path, workspace: &Path) -> Outcome<Node> {
        let program = modules.join("@modelcontextprotocol/server-filesystem/dist/index.js");
        let mut child = Command::new("node")
            .arg(program)
            .arg(workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut node = Node {
            child,
            input: input.ok_or("no stdin")?,
            output: BufReader::with_capacity(READ, output.ok_or("no stdout")?),
        };
        node.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "0"}}}))?;
        node.answer(&mut Vec::new())?;
        node.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(node)
    }

    fn say(&mut self, message: &Value) -> Outcome<()> {
        self.send(format!("{message}\n").as_bytes())
    }
}

impl Peer for Node {
    fn message(&self, id: u64, tool: &str, input: &Value) -> Outcome<Vec<u8>> {
        let params = json!({"name": tool, "arguments": input});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Ok(format!("{message}\n").into_bytes())
    }

    fn send(&mut self, message: &[u8]) -> Outcome<()> {
        self.input.write_all(message)?;
        Ok(self.input.flush()?)
    }

    /// A line; what is no answer has no id.
    fn answer(&mut self, to: &mut Vec<u8>) -> Outcome<u64> {
        loop {
            let begin = to.len();
            if self.output.read_until(b'\n', to)? == 0 {
                return Err("the Node server has ended".into());
            }
            let line = to.get(begin..).unwrap_or_default();
            if let Some(id) = id_of(line) {
                return Ok(id);
            }
            to.truncate(begin);
        }
    }

    fn check(&self, answer: &[u8]) -> Outcome<()> {
        let said: Value = serde_json::from_slice(answer)?;
        if said.get("result").is_none() || said["result"]["isError"] == json!(true) {
            let answer = String::from_utf8(answer.get(..400).unwrap_or(answer).to_vec())?;
            return Err(format!("the Node server: {answer}").into());
        }
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The number of the call that a message answers: near its beginning or its end, which are
/// looked at, and no more of it.
fn id_of(message: &[u8]) -> Option<u64> {
    const NEAR: usize = 100;
    let end = message.get(message.len().saturating_sub(NEAR)..).unwrap_or(message);
    let id = |part: &[u8]| {
        let at = part.windows(5).rposition(|at| at == br#""id":"#)?;
        let digits = part.get(at + 5..)?.iter().take_while(|byte| byte.is_ascii_digit());
        let number = |number: u64, digit: &u8| 10 * number + u64::from(digit - b'0');
        Some(digits.fold(0, number))
    };
    id(end).or_else(|| id(message.get(..NEAR).unwrap_or(message)))
}

fn end(child: &mut Child) {
    child.kill().unwrap_or_default();
    child.wait().ok();
}

//! To the broker over its socket, from another process.
//!
//! Owns: a connection for each call, so that no answer can be another call's, and who asks
//! is whom the kernel names. Must not: keep a connection after its call.

use std::io;
use std::os::unix::net::UnixStream as Connected;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tool_protocol::frame::{self, Kind};
use tool_protocol::limits;

use super::tools::definitions;
use super::way::{Asked, Listed, Seen, Way};

/// Bytes of an input in one message.
const PIECE: usize = 32 * 1024;
/// Between two tries, while nobody answers.
const PAUSE: Duration = Duration::from_secs(1);

/// Connects to a socket, whatever its name's length.
pub(super) type Connect = fn(&std::path::Path) -> io::Result<Connected>;

/// By calls with JSON.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    socket: Arc<PathBuf>,
    connect: Connect,
    workspaces: Arc<[String]>,
}

impl Remote {
    /// Asks the server once, and so knows that there is one.
    pub(super) async fn open(socket: PathBuf, connect: Connect) -> io::Result<Remote> {
        let mut remote = Remote { socket: Arc::new(socket), connect, workspaces: Arc::new([]) };
        let (_, last) = remote.ask(None).await?;
        let paths = last.get("workspaces").and_then(Value::as_array).into_iter().flatten();
        remote.workspaces = paths.filter_map(|path| path.as_str().map(str::to_owned)).collect();
        Ok(remote)
    }

    fn dial(&self) -> io::Result<UnixStream> {
        let stream = (self.connect)(&self.socket)?;
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    }

    /// The definitions, and the message after them; where `after` is said, once they are
    /// others than those, or after a while.
    async fn ask(&self, after: Option<&str>) -> io::Result<(Listed, Value)> {
        let mut stream = self.dial()?;
        let mut question = json!({"op": "tools", "format": "mcp"});
        if let (Some(after), Some(question)) = (after, question.as_object_mut()) {
            question.insert("after".to_owned(), after.into());
        }
        send(&mut stream, question.to_string().as_bytes()).await?;
        let (text, last) = last(&mut stream, |_, _| None).await?;
        if let Some(error) = last.get("error").and_then(Value::as_str) {
            return Err(io::Error::other(error.to_owned()));
        }
        let list = serde_json::from_slice(&text).map_err(|_none| {
            io::Error::other("the running server is older than this: restart it")
        })?;
        let mut listed = definitions(&list).map_err(io::Error::other)?;
        if let Some(version) = last.get("version").and_then(Value::as_str) {
            version.clone_into(&mut listed.version);
        }
        Ok((listed, last))
    }

    async fn converse(&self, asked: Asked) -> io::Result<Seen> {
        let Asked { tool, input, pieces, notices, .. } = asked;
        let mut stream = self.dial()?;
        // A server that refuses it says so, and takes no more of it.
        let sent = begin(&mut stream, &tool, input, pieces.is_some()).await;
        let answered = last(&mut stream, |name, value| {
            // What nobody takes in time comes with the whole.
            match (name, value) {
                ("piece", value) => pieces.as_ref().map(|to| Told::Piece(to.clone(), value)),
                ("notice", Value::String(line)) => {
                    notices.as_ref().map(|to| Told::Notice(to.clone(), line))
                }
                _ => None,
            }
        })
        .await;
        let (text, mut last) = match (answered, sent) {
            (Err(_), Err(error)) => return Err(error),
            (answered, _) => answered?,
        };
        if !text.is_empty() {
            let output: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
            last.as_object_mut().map(|last| last.insert("output".to_owned(), output));
        }
        // A refusal of the message itself is no observation.
        if last.get("success").is_none() {
            let said = last.get("error").and_then(Value::as_str).unwrap_or("not understood");
            return Err(io::Error::other(said.to_owned()));
        }
        serde_json::from_value(last).map_err(io::Error::other)
    }

    fn silent(&self, error: &io::Error) -> String {
        format!("no server answers at {}: {error}", self.socket.display())
    }
}

impl Way for Remote {
    async fn list(&self) -> Result<Listed, String> {
        self.ask(None).await.map(|(listed, _)| listed).map_err(|error| self.silent(&error))
    }

    async fn call(&self, asked: Asked) -> Result<Seen, String> {
        let (gone, tool) = (asked.gone.clone(), asked.tool.clone());
        tokio::select! {
            seen = self.converse(asked) => seen.map_err(|error| self.silent(&error)),
            // The connection's end takes the call along.
            () = gone.cancelled() => Err(format!("{tool}: taken back")),
        }
    }

    async fn changed(&self, from: String) -> Listed {
        loop {
            match self.ask(Some(&from)).await {
                Ok((listed, _)) if listed.version != from => return listed,
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn workspaces(&self) -> &[String] {
        &self.workspaces
    }
}

/// What a call tells before its end, and to whom.
enum Told {
    Piece(tokio::sync::mpsc::Sender<Value>, Value),
    Notice(tokio::sync::mpsc::Sender<String>, String),
}

async fn begin(
    stream: &mut UnixStream,
    tool: &str,
    input: Map<String, Value>,
    pieces: bool,
) -> io::Result<()> {
    let mut call = json!({"tool": tool, "pieces": pieces, "input": input});
    let whole = call.to_string();
    if whole.len() <= limits::MAX_FRAME {
        return send(stream, whole.as_bytes()).await;
    }
    let Some(input) = call.as_object_mut().and_then(|call| call.remove("input")) else {
        return Ok(());
    };
    let input = input.to_string();
    call.as_object_mut().map(|call| call.insert("input_bytes".to_owned(), input.len().into()));
    send(stream, call.to_string().as_bytes()).await?;
    for piece in input.as_bytes().chunks(PIECE) {
        send(stream, &[&[0], piece].concat()).await?;
    }
    Ok(())
}

async fn send(stream: &mut UnixStream, payload: &[u8]) -> io::Result<()> {
    let bad = || io::Error::other("the message does not fit");
    let prefix = frame::prefix(payload.len()).ok_or_else(bad)?;
    let mut message = BytesMut::with_capacity(payload.len() + prefix.len());
    message.put_slice(&prefix);
    message.put_slice(payload);
    stream.write_all(&message).await
}

async fn receive(stream: &mut UnixStream) -> io::Result<Bytes> {
    let bad = || io::Error::other("the answer is not understood");
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).await?;
    let length = frame::length(prefix).map_err(|_code| bad())?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok(payload.into())
}

/// All chunks together, and the last message; what is told before it goes where `told` says.
async fn last(
    stream: &mut UnixStream,
    told: impl Fn(&str, Value) -> Option<Told>,
) -> io::Result<(Vec<u8>, Value)> {
    let mut text = Vec::new();
    loop {
        let payload = receive(stream).await?;
        match frame::split(&payload) {
            Ok((Kind::Stdout, bytes)) => text.extend_from_slice(bytes),
            Ok((Kind::Json, object)) => {
                let mut message: Value =
                    serde_json::from_slice(object).map_err(io::Error::other)?;
                let before = ["piece", "notice"]
                    .into_iter()
                    .find_map(|name| Some((name, message.as_object_mut()?.remove(name)?)));
                let Some((name, value)) = before else { return Ok((text, message)) };
                match told(name, value) {
                    Some(Told::Piece(to, piece)) => drop(to.send(piece).await),
                    Some(Told::Notice(to, line)) => drop(to.try_send(line)),
                    None => {}
                }
            }
            _ => return Err(io::Error::other("the answer is not understood")),
        }
    }
}

//! A payload from a caller, parsed once into what the rest of the server works
//! on; and a request that came in several messages, joined.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::control::{Control, Signal};
use crate::strict::{self, Strict};
use crate::terminal::{CHARS, MAX_TERMINALS, Size, Terminal};
use crate::text::{self, Text};
use crate::{Code, Refusal, json, limits};

/// How input and output of a call travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdio {
    /// Empty stdin, one reply with all output.
    #[default]
    Buffered,
    /// Chunks both ways.
    Stream,
    /// The caller's own descriptors.
    Fds,
}

/// A request's name, echoed as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "id is a whole number or a text")]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// A string of at most [`limits::MAX_ID`] bytes.
    String(String),
}

/// A call, as the caller asked for it. Nothing in it has been checked against
/// the world yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Which tool; may be missing on a socket that serves exactly one.
    pub tool: Option<Text>,
    /// Without the tool's own name.
    pub args: Vec<Text>,
    /// Absolute, as the caller sees it.
    pub cwd: Option<Text>,
    /// How input and output travel.
    pub stdio: Stdio,
    /// The numbers that the passed descriptors have in the caller.
    pub fds: Vec<u32>,
    /// `NAME=value`, as offered; `NAME` alone: the caller has no such variable.
    pub env: Vec<Text>,
    /// 0 to 0o777.
    pub umask: Option<u32>,
    /// Echoed in every message about this request.
    pub id: Option<Id>,
    /// Not of the wire: how long the caller lets it run, where that is less than it may.
    pub timeout: Option<Duration>,
    /// The terminals that the tool gets.
    pub tty: Vec<Terminal>,
    /// Whether the client sends no more stdin than it has credit for.
    pub window: bool,
    /// Whether nothing else comes on this connection: it is closed after the reply.
    pub once: bool,
    /// Whether it has only the seed's members: its reply may be lossy.
    pub seed_only: bool,
}

impl Request {
    /// Bytes of memory that its strings take, about: a list of empty strings is
    /// not free.
    pub fn memory(&self) -> usize {
        self.args.iter().chain(&self.env).map(|text| text.as_bytes().len() + 56).sum()
    }

    /// All bytes of its strings, with a pointer and a NUL each, as the kernel
    /// counts a command line.
    pub fn size(&self) -> usize {
        self.args.iter().chain(&self.env).map(|text| text.as_bytes().len() + 9).sum()
    }
}

/// How a request goes on in the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// It does not.
    No,
    /// The lists go on.
    Lists,
    /// The last string of a list goes on, then the lists.
    String,
}

/// A call of a tool with JSON. docs/protocol.md, "Structured calls".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Which tool.
    pub tool: Text,
    /// What it is given.
    pub input: Input,
    /// Echoed in every message about it.
    pub id: Option<Id>,
    /// Whether results are wanted as they come.
    pub pieces: bool,
}

/// Where an input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// In the message: the text of a JSON object.
    Here(String),
    /// So many bytes of it follow, as chunks of stdin.
    Follows(usize),
}

/// The text of an input, if it is one JSON object in strict form.
pub fn input_of(bytes: Vec<u8>) -> Result<String, Refusal> {
    if !json::depth_within(&bytes, limits::MAX_DEPTH) {
        let message = format!("the input nests deeper than {}", limits::MAX_DEPTH);
        return Err(Refusal::new(Code::BadJson, message));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(bad("the input is empty: give {} where there is nothing to say"));
    }
    if !json::values_within(&bytes, limits::MAX_VALUES) {
        let message = format!(
            "the input has more than {} values: put what is long into one text, or make more calls",
            limits::MAX_VALUES
        );
        return Err(Refusal::new(Code::BadJson, message));
    }
    let understood = |error| Refusal::new(Code::BadJson, format!("the input: {error}"));
    let _form: Strict = serde_json::from_slice(&bytes).map_err(understood)?;
    let text = String::from_utf8(bytes)
        .map_err(|_bytes| Refusal::new(Code::BadJson, "the input is not UTF-8"))?;
    if !text.trim_start().starts_with('{') {
        return Err(bad("the input is no JSON object: give {} where there is nothing to say"));
    }
    Ok(text)
}

/// One message from a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A call, and whether its lists go on in the next message.
    Call(Request, More),
    /// A call of a tool with JSON.
    Tool(ToolCall),
    /// Something that is not a call: `health`, `tools`, on the control socket
    /// more.
    Op(String, Option<Id>),
    /// About a call under way.
    Control(Control),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawMore {
    Flag(bool),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawEnv {
    List(Vec<Text>),
    Map(std::collections::BTreeMap<String, Option<Text>>),
}

/// Every member that a caller's message may have.
#[derive(Deserialize)]
struct Raw {
    tool: Option<Text>,
    args: Option<Vec<Text>>,
    cwd: Option<Text>,
    #[serde(default, deserialize_with = "strict::word")]
    stdio: Option<Stdio>,
    fds: Option<Vec<u32>>,
    env: Option<RawEnv>,
    umask: Option<u32>,
    id: Option<Id>,
    more: Option<RawMore>,
    op: Option<String>,
    #[serde(default, deserialize_with = "strict::word")]
    signal: Option<Signal>,
    #[serde(default, deserialize_with = "strict::object")]
    resize: Option<Size>,
    foreground: Option<bool>,
    terminal: Option<text::Raw>,
    #[serde(default, deserialize_with = "strict::word")]
    query: Option<Query>,
    tty: Option<RawTerminals>,
    window: Option<bool>,
    once: Option<bool>,
    input: Option<Box<RawValue>>,
    input_bytes: Option<usize>,
    pieces: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTerminals {
    One(Terminal),
    List(Vec<Terminal>),
}

#[derive(Deserialize)]
enum Query {
    #[serde(rename = "started")]
    Started,
}

impl Raw {
    /// What only the first message of a call may say.
    fn begins(&self) -> bool {
        self.tool.is_some()
            || self.cwd.is_some()
            || self.stdio.is_some()
            || self.fds.is_some()
            || self.umask.is_some()
            || self.id.is_some()
            || self.op.is_some()
            || self.tty.is_some()
            || self.window.is_some()
            || self.once.is_some()
            || self.input.is_some()
            || self.input_bytes.is_some()
            || self.pieces.is_some()
    }

    /// What a call with JSON has nothing of.
    fn is_of_a_command(&self) -> bool {
        self.args.is_some()
            || self.cwd.is_some()
            || self.stdio.is_some()
            || self.fds.is_some()
            || self.env.is_some()
            || self.umask.is_some()
            || self.more.is_some()
            || self.tty.is_some()
            || self.window.is_some()
            || self.once.is_some()
    }

    /// A call with JSON, where it is one.
    fn structured(&mut self) -> Result<Option<ToolCall>, Refusal> {
        let input = match (self.input.take(), self.input_bytes) {
            (None, None) if self.pieces.is_none() => return Ok(None),
            (Some(input), None) => Input::Here(input.get().to_owned()),
            (None, Some(bytes)) => Input::Follows(bytes),
            _ => return Err(bad("a call with JSON has input, or input_bytes, and not both")),
        };
        if self.is_of_a_command() {
            let message = "a call with JSON has tool, input, id and pieces: what else there is \
                           to say is in its input";
            return Err(bad(message));
        }
        let tool = self.tool.take().ok_or_else(|| bad("the member tool is missing"))?;
        let pieces = self.pieces.unwrap_or(false);
        Ok(Some(ToolCall { tool, input, id: self.id.take(), pieces }))
    }

    /// What is said about a call under way.
    fn control(&mut self) -> Option<Control> {
        if let Some(signal) = self.signal {
            return Some(Control::Signal(signal, self.id.take()));
        }
        if let Some(size) = self.resize {
            return Some(Control::Resize(size));
        }
        if let Some(foreground) = self.foreground {
            return Some(Control::Foreground(foreground));
        }
        if let Some(text::Raw(bytes)) = self.terminal.take() {
            return Some(Control::Terminal(bytes));
        }
        self.query.as_ref().map(|Query::Started| Control::QueryStarted)
    }
}

fn bad(message: impl AsRef<str>) -> Refusal {
    Refusal::new(Code::BadRequest, message)
}

fn parse(payload: &[u8]) -> Result<Raw, Refusal> {
    if !json::depth_within(payload, limits::MAX_DEPTH) {
        let message = format!("the message nests deeper than {}", limits::MAX_DEPTH);
        return Err(Refusal::new(Code::BadJson, message));
    }
    let understood = |error: serde_json::Error, code| {
        Refusal::new(code, format!("the message is not understood: {error}"))
    };
    // What is wrong here is wrong with the JSON; what is wrong below, with what
    // it says.
    let _form: Strict =
        serde_json::from_slice(payload).map_err(|error| understood(error, Code::BadJson))?;
    serde_json::from_slice(payload).map_err(|error| understood(error, Code::BadRequest))
}

fn environment(env: Option<RawEnv>) -> Result<Vec<Text>, Refusal> {
    match env {
        None => Ok(Vec::new()),
        Some(RawEnv::List(list)) => Ok(list),
        Some(RawEnv::Map(map)) => map
            .into_iter()
            .map(|(name, value)| {
                if name.contains('=') {
                    return Err(bad("a name in env holds an ="));
                }
                let mut line = name.into_bytes();
                if let Some(value) = value {
                    line.push(b'=');
                    line.extend_from_slice(value.as_bytes());
                }
                Text::new(line).ok_or_else(|| bad("a name in env holds a NUL"))
            })
            .collect(),
    }
}

fn more(more: Option<RawMore>) -> Result<More, Refusal> {
    match more {
        None | Some(RawMore::Flag(false)) => Ok(More::No),
        Some(RawMore::Flag(true)) => Ok(More::Lists),
        Some(RawMore::Name(name)) if name == "string" => Ok(More::String),
        Some(RawMore::Name(_)) => Err(bad("more must be true or \"string\"")),
    }
}

fn terminals(tty: Option<RawTerminals>) -> Result<Vec<Terminal>, Refusal> {
    let list = match tty {
        None => Vec::new(),
        Some(RawTerminals::One(one)) => vec![one],
        Some(RawTerminals::List(list)) => list,
    };
    if list.len() > MAX_TERMINALS {
        return Err(bad(format!("tty has more than {MAX_TERMINALS} terminals")));
    }
    if list.iter().any(|terminal| terminal.chars.len() > CHARS) {
        return Err(bad(format!("tty.chars has more than {CHARS} characters")));
    }
    Ok(list)
}

impl Incoming {
    /// The id of a message that is refused for something else.
    pub fn id_of(payload: &[u8]) -> Option<Id> {
        #[derive(Deserialize)]
        struct Named {
            id: Option<Id>,
        }
        if !json::depth_within(payload, limits::MAX_DEPTH) {
            return None;
        }
        let id = serde_json::from_slice::<Named>(payload).ok()?.id;
        id.filter(|id| !matches!(id, Id::String(text) if text.len() > limits::MAX_ID))
    }

    /// Parses one JSON payload.
    pub fn parse(payload: &[u8]) -> Result<Incoming, Refusal> {
        let mut raw = parse(payload)?;
        if let Some(Id::String(id)) = &raw.id
            && id.len() > limits::MAX_ID
        {
            return Err(bad(format!("id is longer than {} bytes", limits::MAX_ID)));
        }
        if let Some(control) = raw.control() {
            return Ok(Incoming::Control(control));
        }
        if let Some(op) = raw.op {
            return Ok(Incoming::Op(op, raw.id));
        }
        if let Some(call) = raw.structured()? {
            return Ok(Incoming::Tool(call));
        }
        if raw.umask.is_some_and(|umask| umask > 0o777) {
            return Err(bad("umask must be 0 to 511"));
        }
        let seed_only = raw.stdio.is_none()
            && raw.fds.is_none()
            && raw.env.is_none()
            && raw.umask.is_none()
            && raw.id.is_none()
            && raw.more.is_none()
            && raw.tty.is_none()
            && raw.window.is_none()
            && raw.once.is_none();
        let request = Request {
            tool: raw.tool,
            args: raw.args.unwrap_or_default(),
            cwd: raw.cwd,
            stdio: raw.stdio.unwrap_or_default(),
            fds: raw.fds.unwrap_or_default(),
            env: environment(raw.env)?,
            umask: raw.umask,
            id: raw.id,
            timeout: None,
            tty: terminals(raw.tty)?,
            window: raw.window.unwrap_or(false),
            once: raw.once.unwrap_or(false),
            seed_only,
        };
        Ok(Incoming::Call(request, more(raw.more)?))
    }
}

impl Request {
    /// Whether a whole request says what it must; by itself, without a look at
    /// the world.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.tool.as_ref().is_some_and(|tool| tool.as_bytes().is_empty()) {
            return Err(bad("the member tool is empty"));
        }
        for variable in &self.env {
            if matches!(variable.as_bytes().first(), None | Some(b'=')) {
                return Err(bad("a name in env is empty"));
            }
        }
        Ok(())
    }

    /// Joins the next message of a request that said `more`; `how` is what the
    /// last message said, the answer what this one says.
    pub fn join(&mut self, payload: &[u8], how: More) -> Result<More, Refusal> {
        let mut raw = parse(payload)?;
        if raw.begins() || raw.control().is_some() {
            return Err(bad("the rest of a request has only args, env and more"));
        }
        if matches!(raw.env, Some(RawEnv::Map(_))) {
            return Err(bad("the rest of a request has env as a list"));
        }
        let next = more(raw.more)?;
        extend(&mut self.args, raw.args.unwrap_or_default(), how)?;
        extend(&mut self.env, environment(raw.env)?, how)?;
        Ok(next)
    }
}

fn extend(list: &mut Vec<Text>, rest: Vec<Text>, how: More) -> Result<(), Refusal> {
    let mut rest = rest.into_iter();
    if how == More::String
        && let Some(first) = rest.next()
    {
        let Some(last) = list.last_mut() else {
            return Err(bad("the rest of a string came, and no string before it"));
        };
        last.append(first);
    }
    list.extend(rest);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::string_slice, reason = "ASCII only")]
mod tests;

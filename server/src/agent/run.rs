//! Programs, for agents: what they take and give as JSON, by calls of the broker's.
//!
//! Owns: the types, and feeding and hearing a call. Must not: decide or start anything;
//! `Broker::call` does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_protocol::{Code, Failure, Fault, Observation, Reply, Request, Text};

use super::Invocation;
use super::kept::{Kept, text};
use crate::broker::{Broker, Call, Peer, takes};
use crate::exec::{Chunk, Event, Hear, Io, Order, Source};
use crate::registry::Tool;

/// Bytes of each stream that are given where the caller does not say.
const OUTPUT: usize = 256 * 1024;
/// And at most.
const MOST_OUTPUT: usize = 1024 * 1024;

/// An input: what is its own, and what is the same for all.
macro_rules! input {
    ($(#[$about:meta])* $name:ident { $(#[$doc:meta])* $field:ident: $kind:ty }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(#[$doc])*
            $field: $kind,
            /// The directory to run in, in the workspace; the workspace itself where unset.
            cwd: Option<String>,
            /// Given to the program as its input.
            stdin: Option<String>,
            /// How long it may run, in milliseconds; never longer than its definition lets it.
            #[schemars(range(min = 1))]
            timeout_ms: Option<u64>,
            /// Variables for the program; its definition says which it takes.
            env: Option<BTreeMap<String, String>>,
            /// How many bytes of stdout, and of stderr, to give, up to 1048576; 262144 where
            /// unset. Of more, the beginning and the end are given.
            #[schemars(range(min = 1))]
            max_output_bytes: Option<usize>,
        }

        impl $name {
            fn divide(self) -> ($kind, How) {
                let $name { $field, cwd, stdin, timeout_ms, env, max_output_bytes } = self;
                ($field, How { cwd, stdin, timeout_ms, env, max_output_bytes })
            }
        }
    };
}

input!(
    /// A program and its arguments.
    CommandInput {
        /// The program and its arguments, each a string of its own. No shell reads them.
        #[schemars(length(min = 1))]
        argv: Vec<String>
    }
);
input!(
    /// A line for a shell.
    ShellInput {
        /// One line of shell.
        #[schemars(length(min = 1))]
        command: String
    }
);
input!(
    /// A call of a tool.
    ToolInput {
        /// The arguments, without the tool's name, each a string of its own.
        #[serde(default)]
        args: Vec<String>
    }
);

/// Packages to install.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NpmInput {
    /// The directory of the package.json, in the workspace; the workspace itself where unset.
    cwd: Option<String>,
    /// Packages to add, such as "react" or "vite@6"; what package.json says where unset.
    #[serde(default)]
    packages: Vec<String>,
    /// Add them as dependencies for development.
    #[serde(default)]
    dev: bool,
    /// Further options of npm install, each beginning with "-".
    #[serde(default)]
    args: Vec<String>,
    /// How long it may run, in milliseconds; never longer than npm's definition lets it.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// How many bytes of stdout, and of stderr, to give: 262144 where unset.
    #[schemars(range(min = 1))]
    max_output_bytes: Option<usize>,
}

/// What is the same for all.
#[derive(Debug, Default)]
struct How {
    cwd: Option<String>,
    stdin: Option<String>,
    timeout_ms: Option<u64>,
    env: Option<BTreeMap<String, String>>,
    max_output_bytes: Option<usize>,
}

/// How a program ended, and what it wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunOutput {
    /// What it wrote there, or its beginning and end.
    stdout: String,
    /// What it wrote there, or its beginning and end.
    stderr: String,
    /// "utf-8", or "base64" where stdout is not that.
    stdout_encoding: &'static str,
    /// "utf-8", or "base64" where stderr is not that.
    stderr_encoding: &'static str,
    /// All bytes that it wrote there.
    stdout_bytes: u64,
    /// All bytes that it wrote there.
    stderr_bytes: u64,
    /// Whether something in the middle of stdout or stderr is left out.
    truncated: bool,
    /// 0 to 255; 128 and the signal's number where a signal ended it.
    exit_code: u8,
    /// The signal that ended it, without SIG.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// Whether it was ended because it ran too long.
    timed_out: bool,
    /// Names in `env` that the tool's definition does not take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env_left_out: Vec<String>,
}

/// A program to be called.
#[derive(Debug)]
pub(super) struct Program {
    words: Vec<String>,
    how: How,
    /// The tool that is called, where it is another than the one that was asked for.
    of: Option<&'static str>,
}

impl From<CommandInput> for Program {
    fn from(input: CommandInput) -> Program {
        let (words, how) = input.divide();
        Program { words, how, of: None }
    }
}

impl From<ShellInput> for Program {
    fn from(input: ShellInput) -> Program {
        let (command, how) = input.divide();
        Program { words: shell(command), how, of: None }
    }
}

impl From<ToolInput> for Program {
    fn from(input: ToolInput) -> Program {
        let (words, how) = input.divide();
        Program { words, how, of: None }
    }
}

impl From<NpmInput> for Program {
    fn from(input: NpmInput) -> Program {
        let NpmInput { cwd, packages, dev, args, timeout_ms, max_output_bytes } = input;
        let mut words = vec!["install".to_owned()];
        words.extend(dev.then(|| "--save-dev".to_owned()));
        words.extend(args);
        if !packages.is_empty() {
            words.push("--".to_owned());
        }
        words.extend(packages);
        let how = How { cwd, timeout_ms, max_output_bytes, ..How::default() };
        Program { words, how, of: Some("npm") }
    }
}

impl NpmInput {
    /// An option is no package, and a package no option.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |message: String| Err(Failure::new(Fault::InvalidInput, message));
        let blank = |word: &str| {
            word.is_empty() || word.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        if let Some(word) = self.packages.iter().find(|word| blank(word) || word.starts_with('-')) {
            return refuse(format!("{word:?} is no package: options are in args"));
        }
        if let Some(word) = self.args.iter().find(|word| !word.starts_with('-') || *word == "--") {
            return refuse(format!("{word:?} is no option: packages are in packages"));
        }
        Ok(())
    }
}

/// A shell that reads one line.
pub(super) fn shell(line: String) -> Vec<String> {
    vec!["sh".to_owned(), "-c".to_owned(), line]
}

/// A line with nothing in it would succeed, and do nothing.
pub(super) fn is_line(line: &str) -> Result<(), Failure> {
    if line.trim().is_empty() {
        let message = "command is empty: say what to run";
        return Err(Failure::new(Fault::InvalidInput, message));
    }
    Ok(())
}

/// The rules and the audit have nothing to say of no program at all.
pub(super) fn is_program(argv: &[String]) -> Result<(), Failure> {
    if argv.first().is_none_or(String::is_empty) {
        let message = "argv names no program: give it as the first word";
        return Err(Failure::new(Fault::InvalidInput, message));
    }
    Ok(())
}

impl CommandInput {
    /// What nothing is started for.
    pub(super) fn check(&self) -> Result<(), Failure> {
        is_program(&self.argv)
    }
}

impl ShellInput {
    /// What no shell is started for.
    pub(super) fn check(&self) -> Result<(), Failure> {
        is_line(&self.command)
    }
}

impl Program {
    /// These words, there.
    pub(super) fn new(
        words: Vec<String>,
        cwd: Option<String>,
        env: Option<BTreeMap<String, String>>,
    ) -> Program {
        Program { words, how: How { cwd, env, ..How::default() }, of: None }
    }

    /// As they are run.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    /// What no program can be given.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |message: &str| Err(Failure::new(Fault::InvalidInput, message));
        let env = self.how.env.iter().flatten();
        if self.words.iter().chain(&self.how.cwd).any(|word| word.contains('\0')) {
            return refuse("a word holds a NUL, which no program can be given");
        }
        if env.clone().any(|(name, value)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        }) {
            return refuse("a name in env is empty or holds an =, or something there holds a NUL");
        }
        if self.how.timeout_ms == Some(0) || self.how.max_output_bytes == Some(0) {
            return refuse("timeout_ms and max_output_bytes are more than 0");
        }
        Ok(())
    }

    /// What is offered for its environment and not taken.
    pub(super) fn left_out(&self, tool: Option<&Tool>) -> Vec<String> {
        let takes = |name: &str| tool.is_none_or(|tool| takes(tool, name.as_bytes()));
        let names = self.how.env.iter().flat_map(BTreeMap::keys);
        names.filter(|name| !takes(name)).cloned().collect()
    }

    /// As the caller calls its directory.
    fn said(&self) -> &str {
        self.how.cwd.as_deref().filter(|cwd| !cwd.is_empty()).unwrap_or(".")
    }

    fn request(&self, broker: &Broker) -> Request {
        let text = |text: &String| Text::new(text.as_bytes());
        let cwd = match self.said() {
            cwd if cwd.starts_with('/') => Text::new(cwd.as_bytes()),
            "." => Text::new(broker.workspace.first()),
            cwd => Text::new([broker.workspace.first(), b"/", cwd.as_bytes()].concat()),
        };
        let variable = |(name, value): (&String, &String)| text(&format!("{name}={value}"));
        Request {
            args: self.words.iter().filter_map(text).collect(),
            cwd,
            env: self.how.env.iter().flatten().filter_map(variable).collect(),
            timeout: self.how.timeout_ms.map(Duration::from_millis),
            ..Request::default()
        }
    }
}

/// A call that is under way: what comes of it, besides its reply.
pub(super) struct Wires {
    /// What the log and the audit call it.
    pub(super) call_id: String,
    pub(super) output: mpsc::Receiver<Chunk>,
    pub(super) events: mpsc::Receiver<Event>,
}

/// Makes the call, which has come by now; it runs as long as the future is waited for. `known`: the broker's own
/// tool that it is; `tells`: when the program runs.
pub(super) fn begin(
    broker: &Broker,
    known: Option<Arc<Tool>>,
    tool: String,
    program: Program,
    peer: Peer,
    gone: CancellationToken,
    tells: bool,
) -> (impl Future<Output = Reply>, Wires) {
    let request = program.request(broker);
    let (cwd, said) = (request.cwd.clone(), program.said().to_owned());
    let (to_tool, input) = mpsc::channel(1);
    let (output, from_tool) = mpsc::channel::<Chunk>(1);
    let (to_us, events) = mpsc::channel(16);
    let (give_orders, orders) = mpsc::channel(1);
    if tells {
        // There is room for one.
        give_orders.try_send(Order::QueryStarted).ok();
    }
    let io = Io::Streamed { input, typed: None, output, credit: None, terminals: Vec::new() };
    let hear = Hear::new(orders, Some(to_us), gone, broker.stop.clone());
    let call = Call { peer, tool, request, io, known };
    let ticket = broker.open(&call);
    let call_id = ticket.call_id().to_owned();
    let stdin = program.how.stdin.map(Bytes::from);
    let feed = async move {
        if let Some(stdin) = stdin.filter(|stdin| !stdin.is_empty()) {
            // A program that ends without having read it is no failure.
            to_tool.send(stdin).await.ok();
        }
    };
    let carried = async move {
        let (mut reply, ()) = tokio::join!(broker.call_opened(ticket, call, hear), feed);
        drop(give_orders);
        if matches!(reply.code, Some(Code::CwdOutside | Code::CwdNotFound))
            && let (Some(error), Some(cwd)) = (&mut reply.error, cwd)
        {
            // Where the workspace lies here is nothing to whoever named a place in it.
            let real = cwd.as_bytes().escape_ascii().to_string();
            *error = error.replacen(&real, &said.escape_default().to_string(), 1);
        }
        reply
    };
    (carried, Wires { call_id, output: from_tool, events })
}

/// Calls it; `known`: the broker's own tool that it is.
pub(super) async fn run(
    broker: &Broker,
    known: Option<Arc<Tool>>,
    name: String,
    program: Program,
    asked: Invocation,
) -> Observation {
    let Invocation { peer, pieces, notices, gone, .. } = asked;
    let most = program.how.max_output_bytes.unwrap_or(OUTPUT).min(MOST_OUTPUT);
    let of = program.of;
    let tool = of.map_or_else(|| name.clone(), str::to_owned);
    let definition = known.clone().or_else(|| broker.registry.find(&tool));
    let env_left_out = program.left_out(definition.as_deref());
    let asked_for = program.how.timeout_ms;
    // Less than the definition gives: then it is not the definition that ended it.
    let own_time = asked_for
        .filter(|time| definition.is_none_or(|tool| Duration::from_millis(*time) < tool.timeout));
    let left = gone.clone();
    let (carried, wires) = begin(broker, known, tool, program, peer, gone, false);
    let Wires { output: mut from_tool, mut events, .. } = wires;
    let (mut stdout, mut stderr) = (Kept::new(most), Kept::new(most));
    let listen = async {
        while let Some(Chunk { source, bytes }) = from_tool.recv().await {
            let (kept, stream) = match source {
                Source::Stdout => (&mut stdout, "stdout"),
                Source::Stderr => (&mut stderr, "stderr"),
                Source::Terminal | Source::Stopped(_) => continue,
            };
            kept.take(&bytes);
            if let Some(pieces) = pieces.as_ref().filter(|_| !bytes.is_empty()) {
                let (text, encoding) = text(bytes.to_vec());
                let piece = json!({"stream": stream, "text": text, "encoding": encoding});
                pieces.send(piece).await.ok();
            }
        }
    };
    let told = async {
        while let Some(event) = events.recv().await {
            if let (Event::Notice(line), Some(notices)) = (event, &notices) {
                notices.try_send(line).ok();
            }
        }
    };
    let (reply, (), ()) = tokio::join!(carried, listen, told);
    let ran = matches!(reply.code, None | Some(Code::TimedOut | Code::Interrupted));
    let output = ran.then(|| {
        let truncated = stdout.truncated() || stderr.truncated();
        let (stdout_bytes, stderr_bytes) = (stdout.seen(), stderr.seen());
        let ((stdout, stdout_encoding), (stderr, stderr_encoding)) = (stdout.end(), stderr.end());
        let output = RunOutput {
            stdout,
            stderr,
            stdout_encoding,
            stderr_encoding,
            stdout_bytes,
            stderr_bytes,
            truncated,
            exit_code: reply.exit_code,
            signal: reply.signal,
            timed_out: reply.code == Some(Code::TimedOut),
            env_left_out,
        };
        serde_json::value::to_raw_value(&output).ok()
    });
    let error = match (reply.code, of) {
        (Some(Code::UnknownTool), Some(of)) => Some(missing(&name, of)),
        (Some(code @ Code::TimedOut), _) if own_time.is_some() => {
            let time = own_time.unwrap_or_default();
            let message = format!(
                "it ran longer than the {time} ms of the call and was ended: give it more time, \
                 or less to do"
            );
            Some(Failure::new(Fault::Broker(code), message))
        }
        (Some(code @ Code::Interrupted), _) if left.is_cancelled() => {
            Some(Failure::new(Fault::Broker(code), "the caller took it back, and it was ended"))
        }
        (Some(code), _) => Some(failure(code, reply.error, reply.rule, reply.hint)),
        (None, _) => None,
    };
    Observation {
        success: error.is_none(),
        tool: name,
        output: output.flatten(),
        error,
        duration_ms: reply.duration_ms.unwrap_or(0),
        call_id: reply.call_id,
    }
}

/// What the broker said. Out of the workspace is the same to agents whoever finds it.
pub(super) fn failure(
    code: Code,
    error: Option<String>,
    rule: Option<String>,
    hint: Option<String>,
) -> Failure {
    let mut message = error.unwrap_or_default();
    if matches!(code, Code::CwdOutside | Code::CwdNotFound) {
        message.push_str(": give one of the workspace as cwd");
    }
    let code = match code {
        Code::CwdOutside => Fault::PathOutsideWorkspace,
        code => Fault::Broker(code),
    };
    Failure { code, message, rule, hint }
}

/// That the tool it is a call of is not there.
fn missing(name: &str, of: &str) -> Failure {
    let message = format!(
        "{name} is a call of the tool {of}, which is not there: put the definition of {of} \
         into tools.d, as the broker ships it"
    );
    Failure::new(Fault::Broker(Code::NotInstalled), message)
}

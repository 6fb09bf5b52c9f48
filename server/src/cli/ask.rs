//! `tools`, `status`, `health`, `reload`, `metrics`: questions to the running server.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tool_protocol::frame::{self, Kind};

use super::{complain, say, status};
use crate::config::Config;
use crate::listen::serve_stdio;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks, and prints the answer.
pub(super) fn run(config: &Config, verb: &str, as_json: bool) -> ExitCode {
    let control = matches!(verb, "status" | "reload" | "metrics");
    let socket = if control { &config.control_socket } else { &config.socket };
    let (said, answer) = match converse(socket, &serde_json::json!({ "op": verb })) {
        Ok(answer) => answer,
        Err(error) => {
            let variable =
                if control { "TOOL_CONTROL_SOCKET (or STATE_DIR)" } else { "TOOL_SOCKET" };
            complain(&format!(
                "no server answers at {}: {error}; start `tool-server serve`, or set {variable}",
                socket.display()
            ));
            return ExitCode::from(1);
        }
    };
    let refused = answer.get("error").and_then(Value::as_str);
    if let Some(error) = refused {
        complain(error);
        return ExitCode::from(1);
    }
    if verb == "metrics" {
        // A reader that went away is the end of it.
        drop(io::stdout().lock().write_all(&said));
    } else if as_json {
        say(&answer.to_string());
    } else {
        print(verb, &answer);
    }
    // A reload that found problems.
    let well = answer.get("ok").and_then(Value::as_bool).unwrap_or(true);
    ExitCode::from(u8::from(!well))
}

/// Prints the tools' definitions as models want them.
pub(super) fn definitions(
    config: &Config,
    format: Option<&String>,
    set: Option<&String>,
) -> ExitCode {
    let mut question = serde_json::json!({ "op": "tools" });
    for (name, value) in [("format", format), ("set", set)] {
        if let Some(value) = value {
            question.as_object_mut().map(|all| all.insert(name.to_owned(), value.as_str().into()));
        }
    }
    let (said, answer) = match converse(&config.socket, &question) {
        Ok(answer) => answer,
        Err(error) => {
            complain(&format!(
                "no server answers at {}: {error}; start `tool-server serve`, or set TOOL_SOCKET",
                config.socket.display()
            ));
            return ExitCode::from(1);
        }
    };
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => complain(error),
        None if said.is_empty() => complain("the running server is older than this: restart it"),
        None => {
            // A reader that went away is the end of it.
            drop(io::stdout().lock().write_all(&[&said, b"\n".as_slice()].concat()));
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::from(1)
}

/// A session of MCP on standard input and output.
pub(super) fn mcp(config: &Config) -> ExitCode {
    match serve_stdio(&config.socket, connect) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(1)
        }
    }
}

/// Asks the server one thing, and takes its answer.
pub(super) fn exchange(socket: &Path, question: &Value) -> io::Result<Value> {
    Ok(converse(socket, question)?.1)
}

/// The longest name that connect(2) takes, with its end.
const LONGEST: usize = 108;

/// Connects; a longer name too, as of an instance's socket deep in somebody's home, by way
/// of its directory.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let short = socket.as_os_str().len() < LONGEST;
    let (Some(directory), Some(name), false) = (socket.parent(), socket.file_name(), short) else {
        return UnixStream::connect(socket);
    };
    let directory = std::fs::File::open(directory)?;
    let place = format!("/proc/self/fd/{}", directory.as_raw_fd());
    UnixStream::connect(Path::new(&place).join(name))
}

/// The answer, and the text that comes before it.
pub(super) fn converse(socket: &Path, question: &Value) -> io::Result<(Vec<u8>, Value)> {
    let mut stream = connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let payload = question.to_string().into_bytes();
    let bad = || io::Error::other("the answer is not understood");
    let prefix = frame::prefix(payload.len()).ok_or_else(bad)?;
    stream.write_all(&[prefix.as_slice(), &payload].concat())?;
    let mut said = Vec::new();
    loop {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix)?;
        let length = frame::length(prefix).map_err(|_code| bad())?;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        match frame::split(&payload) {
            Ok((Kind::Stdout, bytes)) => said.extend_from_slice(bytes),
            Ok((Kind::Json, object)) => {
                return Ok((said, serde_json::from_slice(object).map_err(io::Error::other)?));
            }
            _ => return Err(bad()),
        }
    }
}

fn print(verb: &str, answer: &Value) {
    match verb {
        "health" => say(&format!("ok: tool-server {}", text(answer, "version"))),
        "tools" => {
            for tool in list(answer, "tools").iter().chain(list(answer, "own")) {
                let (name, default) = (text(tool, "name"), text(tool, "default"));
                let loud = match text(tool, "sandbox") {
                    "" => "",
                    _ => "sandbox: off  ",
                };
                let description = text(tool, "description");
                say(format!("{name:<16} {default:<12} {loud}{description}").trim_end());
            }
        }
        "reload" => {
            for what in ["added", "changed", "removed"] {
                for name in list(answer, what) {
                    say(&format!("{what} {}", name.as_str().unwrap_or_default()));
                }
            }
            print_problems(answer);
        }
        _ => status::print(answer),
    }
}

fn print_problems(answer: &Value) {
    for problem in list(answer, "problems") {
        say(&format!("problem: {}", problem.as_str().unwrap_or_default()));
    }
}

/// A member that is a text; empty where there is none.
pub(super) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A member that is a list; empty where there is none.
pub(super) fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

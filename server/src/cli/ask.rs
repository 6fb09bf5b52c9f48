//! `tools`, `status`, `health`, `reload`: questions to the running server.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tool_protocol::frame;

use super::{complain, say};
use crate::config::Config;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks, and prints the answer.
pub(super) fn run(config: &Config, verb: &str, as_json: bool) -> ExitCode {
    let control = matches!(verb, "status" | "reload");
    let socket = if control { &config.control_socket } else { &config.socket };
    let answer = match ask(socket, verb) {
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
    if as_json {
        say(&answer.to_string());
    } else {
        print(verb, &answer);
    }
    // A reload that found problems, a server that is stopping.
    let well = answer.get("ok").and_then(Value::as_bool).unwrap_or(true);
    ExitCode::from(u8::from(!well))
}

fn ask(socket: &Path, verb: &str) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let payload = serde_json::json!({ "op": verb }).to_string().into_bytes();
    let bad = || io::Error::other("the answer is not understood");
    let prefix = frame::prefix(payload.len()).ok_or_else(bad)?;
    stream.write_all(&[prefix.as_slice(), &payload].concat())?;
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let length = frame::length(prefix).map_err(|_code| bad())?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    serde_json::from_slice(&payload).map_err(io::Error::other)
}

fn print(verb: &str, answer: &Value) {
    match verb {
        "health" => say(&format!("ok: tool-server {}", text(answer, "version"))),
        "tools" => {
            for tool in list(answer, "tools") {
                let (name, default) = (text(tool, "name"), text(tool, "default"));
                say(format!("{name:<16} {default:<12} {}", text(tool, "description")).trim_end());
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
        _ => print_status(answer),
    }
}

fn print_status(answer: &Value) {
    let calls = answer.get("calls").unwrap_or(&Value::Null);
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    say(&format!(
        "tool-server {}, pid {}, up {} s",
        text(answer, "version"),
        number(answer, "pid"),
        number(answer, "uptime_seconds")
    ));
    for socket in list(answer, "sockets") {
        say(&format!("socket: {}", socket.as_str().unwrap_or_default()));
    }
    say(&format!(
        "calls: {} running, {} waiting, {} finished",
        number(calls, "running"),
        number(calls, "waiting"),
        number(calls, "finished")
    ));
    say(&format!("peers: told apart {}", text(answer, "peers")));
    say(&format!("process trees: ended {}", text(answer, "tree")));
    for tool in list(answer, "tools") {
        let setup = match text(tool, "setup") {
            "" => String::new(),
            state => format!(", setup {state}"),
        };
        say(&format!(
            "tool {}: {}, {}{setup}",
            text(tool, "name"),
            text(tool, "runs"),
            text(tool, "default")
        ));
        for warning in list(tool, "warnings") {
            say(&format!("  warning: {}", warning.as_str().unwrap_or_default()));
        }
    }
    print_problems(answer);
    for daemon in list(answer, "left_behind") {
        let pid = daemon.get("pid").and_then(Value::as_i64).unwrap_or(0);
        say(&format!(
            "left by call {}: pid {pid}: {}",
            text(daemon, "call"),
            text(daemon, "command")
        ));
    }
    if answer.get("truncated").is_some() {
        say("(more than fits one answer: not all is shown)");
    }
}

fn print_problems(answer: &Value) {
    for problem in list(answer, "problems") {
        say(&format!("problem: {}", problem.as_str().unwrap_or_default()));
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

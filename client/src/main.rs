//! `tool-client`: runs a tool in another container, through tool-server. Under
//! a tool's name (a symlink) it forwards that tool; nobody can tell the
//! difference.
//!
//! Owns: the main path, below, from top to bottom. Must not: hold anything but
//! that; there is no allocator, no libc and no std here, on purpose: a call
//! costs little more than the process itself.
#![no_std]
#![no_main]

mod environment;
mod message;
mod os;
mod reply;
mod request;
mod stream;

use core::convert::Infallible;
use environment::Settings;
use message::{Failure, Line};
use os::{Memory, SocketPath, Strings};
use reply::{Incoming, Member};
use request::{Connection, Request, Stdio};

const OWN_NAME: &[u8] = b"tool-client";

const VERSION: &[u8] = concat!("tool-client ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();

const HELP: &[u8] = b"\
tool-client runs a tool in another container, through tool-server.

  NAME ARGS...                by a symlink with the tool's name
  tool-client TOOL ARGS...    the same, for any tool
  tool-client --health        asks the server whether it is well
  tool-client --version
  tool-client --help

Environment:
  TOOL_SOCKET       the server's socket; if unset /run/sockets/tool-$INSTANCE_ID.sock,
                    without INSTANCE_ID /run/sockets/tool.sock
  TOOL_FORWARD_ENV  variables to offer to the tool beside the usual ones (TERM, LANG,
                    ...), such as A:B_*; * is all. The tool's definition decides.

The exit code is the tool's own, or the broker's: 124 timed out, 125 the broker
failed or cannot be reached, 126 refused by the tool's rules, 127 no such tool.
";

/// The program; `os` calls it once.
fn main(mut arguments: Strings, environment: Strings, memory: &'static mut Memory) -> ! {
    let open = reply::Open::look();
    let called = arguments.next().unwrap_or_default();
    let called = called.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let settings = Settings::read(environment.clone());
    let own = called == OWN_NAME;
    let tool = if own { arguments.next() } else { Some(called) };
    let tool = tool.unwrap_or_default();

    let mut path = SocketPath::new();
    let mut program = Program { open, path: &mut path, memory, name: OWN_NAME };
    let ended = if own && tool.starts_with(b"-") {
        program.own_option(tool, arguments, &settings)
    } else if tool.is_empty() {
        Err(Failure::Usage)
    } else {
        program.name = tool;
        let forward = settings.forward;
        program.call(&settings, Request { tool, arguments, environment, forward, open })
    };
    match ended {
        Ok(never) => match never {},
        Err(failure) => program.fail(failure),
    }
}

/// What every step may need.
struct Program<'a> {
    open: reply::Open,
    path: &'a mut SocketPath,
    memory: &'a mut Memory,
    /// What a message to people begins with.
    name: &'a [u8],
}

impl Program<'_> {
    /// One call, from the request to the tool's own end.
    fn call(&mut self, settings: &Settings, request: Request) -> Result<Infallible, Failure> {
        settings.socket(self.path)?;
        let Memory { frame, side, line } = &mut *self.memory;
        let mut line = Line::new(line, self.open);
        let mut connection = Connection::new(self.path);

        request.send(Stdio::Passed, &mut connection, frame, side)?;
        let socket = connection.socket()?;
        let mut incoming = Incoming::new(frame);
        let mut last = reply::wait(&mut incoming, socket, &mut line)?;
        if last.wants_stream() {
            request.send(Stdio::Stream, &mut connection, frame, side)?;
            incoming = Incoming::new(frame);
            last = stream::relay(&mut incoming, socket, self.open, side, &mut line)?;
        }
        last.output(side, self.open)?;
        last.end(self.name, &mut line)
    }

    /// What is asked of the client itself.
    fn own_option(
        &mut self,
        option: &[u8],
        mut rest: Strings,
        settings: &Settings,
    ) -> Result<Infallible, Failure> {
        if rest.next().is_some() {
            return Err(Failure::Usage);
        }
        if option == b"--version" {
            self.print(VERSION)
        } else if option == b"--help" {
            self.print(HELP)
        } else if option == b"--health" {
            self.health(settings)
        } else {
            Err(Failure::Usage)
        }
    }

    fn print(&self, text: &[u8]) -> Result<Infallible, Failure> {
        os::write_all(1, text).map_err(Failure::Output)?;
        os::exit(0)
    }

    fn health(&mut self, settings: &Settings) -> Result<Infallible, Failure> {
        settings.socket(self.path)?;
        let socket = Connection::new(self.path).socket()?;
        let Memory { side, line, .. } = &mut *self.memory;
        let health = request::health(socket, side)?;
        let mut line = Line::to_stdout(line, self.open);
        line.push(b"ok: tool-server ");
        if let Some(version) = health.text(Member::Version) {
            line.text(version);
        }
        line.push(b" at ");
        line.push(self.path.bytes());
        line.end();
        line.written().map_err(Failure::Output)?;
        os::exit(0)
    }

    /// Says what went wrong, and ends.
    fn fail(&mut self, failure: Failure) -> ! {
        let mut line = Line::new(&mut self.memory.line, self.open);
        if let Failure::Refused = failure
            && let Ok(refusal) = request::last_health(&mut self.memory.side)
            && refusal.text(Member::Error).is_some()
        {
            // In the server's own words.
            refusal.end(self.name, &mut line);
        }
        failure.tell(self.name, self.path.bytes(), &mut line);
        os::exit(125)
    }
}

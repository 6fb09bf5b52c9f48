//! `tool-client`: runs a tool in another container, through tool-server. Under
//! a tool's name (a symlink) it forwards that tool; nobody can tell the
//! difference.
//!
//! Owns: the main path, below, from top to bottom. Must not: hold anything but
//! that; there is no allocator, no libc and no std here, on purpose: a call
//! costs little more than the process itself.
#![no_std]
#![no_main]

mod call;
mod descriptors;
mod environment;
mod jobs;
mod message;
mod os;
mod outbox;
mod outgoing;
mod pty;
mod reply;
mod request;
mod signals;
mod stream;
mod terminal;

use call::Call;
use core::convert::Infallible;
use descriptors::Descriptors;
use environment::Settings;
use message::{Failure, Line};
use os::{Errno, Memory, SocketPath, Strings};
use reply::{Incoming, Member, Reply};
use request::{Connection, Means, Request, Stdio};
use signals::Signals;
use terminal::Terminal;

const OWN_NAME: &[u8] = b"tool-client";

const VERSION: &[u8] = concat!("tool-client ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();

const HELP: &[u8] = b"\
tool-client runs a tool in another container, by tool-server.

NAME ARGS...\t\t\tby a symlink with the tool's name
tool-client TOOL ARGS...\tthe same, for any tool
tool-client --health\t\tasks how the server is
tool-client --version, --help

Environment:
TOOL_SOCKET\t\tthe server's socket; else /run/sockets/tool-$INSTANCE_ID.sock,
\t\t\tor without INSTANCE_ID /run/sockets/tool.sock
TOOL_FORWARD_ENV\tmore variables to offer (beside TERM, LANG, ...): A:B_*
\t\t\tor *. The tool's definition decides.

The exit code is the tool's own, or 124 timed out, 125 the broker failed or cannot
be reached, 126 refused by the tool's rules, 127 no such tool.
";

/// The program; `os` calls it once.
fn main(mut arguments: Strings, environment: Strings, memory: &'static mut Memory) -> ! {
    let mut descriptors = Descriptors::look(&mut memory.frame);
    let called = arguments.next().unwrap_or_default();
    let called = called.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let settings = Settings::read(environment.clone());
    let own = called == OWN_NAME;
    let tool = if own { arguments.next() } else { Some(called) };
    let tool = tool.unwrap_or_default();

    let mut path = SocketPath::new();
    let descriptors = &mut descriptors;
    let signals = Signals::new();
    let mut program = Program { descriptors, path: &mut path, memory, signals, name: OWN_NAME };
    let ended = if own && tool.starts_with(b"-") {
        program.own_option(tool, arguments, &settings)
    } else if tool.is_empty() {
        Err(Failure::Usage)
    } else {
        program.name = tool;
        let (forward, umask) = (settings.forward, os::umask());
        program.call(&settings, &Request { tool, arguments, environment, umask, forward })
    };
    match ended {
        Ok(never) => match never {},
        Err(failure) => program.fail(failure),
    }
}

/// What every step may need.
struct Program<'a> {
    descriptors: &'a mut Descriptors,
    path: &'a mut SocketPath,
    memory: &'a mut Memory,
    signals: Signals,
    /// What a message to people begins with.
    name: &'a [u8],
}

impl Program<'_> {
    /// One call, from the request to the tool's own end.
    fn call(&mut self, settings: &Settings, request: &Request) -> Result<Infallible, Failure> {
        settings.socket(self.path)?;
        let Memory { frame, side, line, out, terminals, ptys, keys, screen } = &mut *self.memory;
        let mut line = Line::new(line, self.descriptors.stderr(), self.name);
        let terminals = Terminal::look(self.descriptors, terminals);
        let mut means = Means {
            connection: Connection::new(self.path),
            signals: &mut self.signals,
            descriptors: &mut *self.descriptors,
            terminals,
        };

        let mut stdio = Stdio::Passed;
        let last = loop {
            request.send(stdio, &mut means, frame, side)?;
            let socket = means.connection.socket()?;
            let mut call =
                Call::new(stdio, socket, &mut means, ptys, [out, keys, screen], &mut line);
            let last = call.run(&mut Incoming::new(frame))?;
            if !last.wants_stream || stdio == Stdio::Stream {
                break last;
            }
            stdio = Stdio::Stream;
            means.keep_standard_terminals();
        };
        os::restore();
        let last = Reply::read(frame.get(last.range).unwrap_or_default())?;
        // As chunks nobody saw what the tool's terminal did with a key. Where the
        // tool ended of it the others, whom it would have reached, do.
        if stdio == Stdio::Stream
            && means.terminals.first().is_some_and(|terminal| terminal.held && terminal.raw)
            && let Some(signal @ (signals::INT | signals::QUIT)) = last.signal()
        {
            os::signal_others(signal);
        }
        last.output(side, self.descriptors)?;
        last.end(&mut line)
    }

    /// What is asked of the client itself. Apart from the rest: a call shall not
    /// pay for its place on the stack.
    #[inline(never)]
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
        if health.has(Member::Ok) && !health.is_true(Member::Ok) {
            return Err(Failure::Refused);
        }
        let mut line = Line::new(line, self.descriptors.has(1).then_some(1), self.name);
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
    #[inline(never)]
    fn fail(&mut self, failure: Failure) -> ! {
        if let Failure::Output(Errno::EPIPE) = failure
            && self.signals.ends_by_pipe()
        {
            os::die_of(signals::PIPE);
        }
        os::restore();
        let mut line = Line::new(&mut self.memory.line, self.descriptors.stderr(), self.name);
        if let Failure::Refused = failure
            && let Ok(refusal) = request::last_health(&mut self.memory.side)
            && refusal.text(Member::Error).is_some()
        {
            // In the server's own words.
            refusal.end(&mut line);
        }
        failure.tell(self.path.bytes(), &mut line);
        os::exit(125)
    }
}

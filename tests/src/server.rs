//! A running server.

use std::fs::OpenOptions;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;

use crate::process::{self, Process};
use crate::{PATIENCE, Setup, Wire, run};

/// A server under test. It derefs to its [`Setup`] for paths, definitions and
/// clients. Dropped, it is killed, with every process that it left, and its
/// directory removed; in a failing test its log is printed first.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ended: Option<ExitStatus>,
    /// Only `stop` takes it.
    setup: Option<Setup>,
}

impl Deref for Server {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        self.setup.as_ref().expect("only a stopped server has none")
    }
}

impl Server {
    /// Makes a setup, lets `prepare` add to it, starts the server in it and
    /// waits until it answers `health`.
    #[track_caller]
    pub fn start(prepare: impl FnOnce(&mut Setup)) -> Server {
        let mut setup = Setup::new();
        prepare(&mut setup);
        Server::start_in(setup)
    }

    /// Starts a server in a setup that is there already.
    #[track_caller]
    pub fn start_in(setup: Setup) -> Server {
        let command = setup.serve();
        Server::start_command(setup, command)
    }

    /// The same with a command of the test's own (`sh -c 'exec tool-server …'`).
    #[track_caller]
    pub fn start_command(setup: Setup, command: Command) -> Server {
        match Server::try_start(setup, command) {
            Ok(server) => server,
            Err((status, log)) => panic!("the server ended at once, {status}:\n{log}"),
        }
    }

    /// Starts a server that may refuse to: then its exit status and its log.
    #[track_caller]
    pub fn try_start(setup: Setup, command: Command) -> Result<Server, (ExitStatus, String)> {
        let mut server = Server::spawn(setup, command);
        let start = Instant::now();
        loop {
            if let Some(status) = server.child.try_wait().expect("wait") {
                server.ended = Some(status);
                return Err((status, server.log()));
            }
            if healthy(&server.socket()) {
                return Ok(server);
            }
            assert!(start.elapsed() < PATIENCE, "the server does not get ready");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a server and does not wait for it.
    pub fn spawn(setup: Setup, mut command: Command) -> Server {
        let log = OpenOptions::new().create(true).append(true).open(setup.path("server.log"));
        let log = log.expect("server.log");
        crate::sys::die_with_parent(&mut command);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("dup")).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Server { child, ended: None, setup: Some(setup) }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// A raw connection to its socket.
    pub fn connect(&self) -> Wire {
        Wire::connect(&self.socket())
    }

    /// A raw connection to its control socket.
    pub fn control(&self) -> Wire {
        Wire::connect(&self.control_socket())
    }

    /// The answer to `status` on the control socket.
    pub fn status(&self) -> serde_json::Value {
        self.control().call(&json!({"op":"status"}))
    }

    /// Waits until its log has this: a thread of its own writes it, later than what it tells of.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < PATIENCE, "no {text:?} in the log");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Signals the server process alone.
    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(Pid::from_raw(self.pid()), signal).expect("kill");
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("wait");
        }
        self.ended.is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        crate::eventually("the server ends", || !self.is_running());
        self.ended.expect("ended")
    }

    /// Ends it (with a signal, unless it has ended), keeps its directory, and gives
    /// that back.
    #[track_caller]
    pub fn stop(mut self, signal: Signal) -> Setup {
        if self.is_running() {
            self.signal(signal);
        }
        self.wait();
        self.setup.take().expect("the setup")
    }

    /// Resident memory, in KiB.
    pub fn rss(&self) -> u64 {
        process::status_number(self.pid(), "VmRSS").expect("VmRSS of the server")
    }

    /// Open descriptors of the server, those of kept cgroups left out.
    pub fn fd_count(&self) -> usize {
        process::descriptors(self.pid()).len()
    }

    /// Its children, zombies among them.
    pub fn children(&self) -> Vec<Process> {
        process::children(self.pid())
    }

    /// Everything below it.
    pub fn descendants(&self) -> Vec<Process> {
        process::descendants(self.pid())
    }

    /// Waits until the server has no child and as many descriptors as before:
    /// nothing of a call is left. Take `before` with [`Server::settled`].
    #[track_caller]
    pub fn nothing_left(&self, before: usize) {
        let start = Instant::now();
        loop {
            let (fds, children) = (self.fd_count(), self.children());
            if fds <= before && children.is_empty() {
                return;
            }
            if start.elapsed() > PATIENCE {
                let open = process::descriptors(self.pid());
                panic!(
                    "left: {fds} descriptors (before {before}): {open:?}; children {children:?}"
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The number of descriptors of a server that has served a call and is
    /// idle again.
    #[track_caller]
    pub fn settled(&self) -> usize {
        still_works(self);
        crate::eventually("no children", || self.children().is_empty());
        let mut last = self.fd_count();
        let mut same = 0;
        crate::eventually("the number of descriptors settles", || {
            let now = self.fd_count();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same >= 5
        });
        last
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What it started first: killed, the server can no longer be asked.
        let left = if self.is_running() { self.descendants() } else { Vec::new() };
        let _ = self.child.kill();
        let _ = self.child.wait();
        left.iter().for_each(process::kill);
        if thread::panicking() && self.setup.is_some() {
            eprintln!("--- the server's log\n{}---", self.log());
        }
    }
}

/// Whether a server answers `health` on this socket.
pub fn healthy(socket: &Path) -> bool {
    let Ok(mut wire) = Wire::try_connect(socket) else { return false };
    wire.try_call(&json!({"op":"health"})).is_some_and(|reply| reply["ok"] == json!(true))
}

/// The next call works: through the client, with input and output, and raw.
#[track_caller]
pub fn still_works(server: &Server) {
    let outcome = run(server.client("sh").args(["-c", "cat; echo fine >&2; exit 3"]), b"through");
    assert_eq!(
        (outcome.code(), outcome.out().as_str(), outcome.err().as_str()),
        (Some(3), "through", "fine\n"),
        "{outcome:?}"
    );
    let reply =
        server.connect().call(&json!({"tool":"sh","args":["-c","echo raw"],"cwd":server.ws()}));
    assert_eq!((&reply["exit_code"], &reply["stdout"]), (&json!(0), &json!("raw\n")), "{reply}");
}

//! A command, its input, and what came of it; never without a deadline.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// How a command ended and what it said.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// The exit status, `None` where a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Stdout as text; for tests that know it to be text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stderr as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Asserts exit status 0 and gives stdout.
    #[track_caller]
    pub fn success(&self) -> String {
        assert_eq!(self.code(), Some(0), "{self:?}");
        self.out()
    }

    /// Asserts an exit status of the broker's own, with one line on stderr and
    /// nothing on stdout, and gives that line.
    #[track_caller]
    pub fn refused(&self, exit: i32) -> String {
        assert_eq!(self.code(), Some(exit), "{self:?}");
        assert_eq!(self.out(), "", "{self:?}");
        let text = self.err();
        assert!(text.ends_with('\n') && text.trim_end().lines().count() == 1, "{self:?}");
        text
    }
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |bytes: &[u8]| -> String {
            let text = bytes.iter().take(2000).map(|b| b.escape_ascii().to_string());
            let more =
                if bytes.len() > 2000 { format!("… {} bytes", bytes.len()) } else { "".into() };
            text.collect::<String>() + &more
        };
        write!(
            f,
            "{} stdout \"{}\" stderr \"{}\"",
            self.status,
            cut(&self.stdout),
            cut(&self.stderr)
        )
    }
}

/// A command under way; killed and reaped when dropped.
pub struct Running {
    pub child: Child,
    what: String,
    stdout: Option<Receiver<Vec<u8>>>,
    stderr: Option<Receiver<Vec<u8>>>,
}

/// Runs a command to its end with `input` on its stdin (and then end of file).
#[track_caller]
pub fn run(command: &mut Command, input: &[u8]) -> Outcome {
    let mut running = spawn(command.stdin(Stdio::piped()));
    if let Some(mut stdin) = running.child.stdin.take() {
        let input = input.to_vec();
        // A tool may end without reading: then this fails, and that is right.
        thread::spawn(move || stdin.write_all(&input));
    }
    running.wait()
}

/// Starts a command with its stdout and stderr collected; stdin as the caller
/// set it (`Command` gives the parent's where unset, so this sets /dev/null
/// through [`run`] only).
#[track_caller]
pub fn spawn(command: &mut Command) -> Running {
    crate::sys::die_with_parent(command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    Running { child, what: format!("{command:?}"), stdout, stderr }
}

fn collect(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        let _ = send.send(all);
    });
    receive
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Sends a signal to this process alone.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("kill");
    }

    /// Waits for the end of the process; panics after [`PATIENCE`].
    #[track_caller]
    pub fn wait_status(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "hangs: {}", self.what);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of the process and of its output.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        let status = self.wait_status();
        let (stdout, stderr) = self.output().unwrap_or_else(|why| panic!("{why}: {}", self.what));
        Outcome { status, stdout, stderr }
    }

    /// Waits for the end of its output, stdout and stderr.
    ///
    /// # Errors
    ///
    /// That somebody holds it open for longer than [`PATIENCE`].
    pub fn output(&mut self) -> Result<(Vec<u8>, Vec<u8>), String> {
        self.output_within(PATIENCE)
    }

    /// The same within another time.
    ///
    /// # Errors
    ///
    /// That somebody holds it open for longer.
    pub fn output_within(&mut self, patience: Duration) -> Result<(Vec<u8>, Vec<u8>), String> {
        let take = |from: Option<Receiver<Vec<u8>>>| match from {
            None => Ok(Vec::new()),
            Some(from) => from
                .recv_timeout(patience)
                .map_err(|_| "ended, but its output stays open".to_owned()),
        };
        Ok((take(self.stdout.take())?, take(self.stderr.take())?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

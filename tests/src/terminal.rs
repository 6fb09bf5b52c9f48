//! A command on a pseudo-terminal: what a person would see and type.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, Termios};

/// A command whose stdin, stdout and stderr are one terminal, its controlling
/// one. Killed and reaped when dropped.
pub struct OnTerminal {
    pub child: Child,
    /// Its modes before anything ran.
    pub begun: Termios,
    /// `None` once the terminal was hung up.
    master: Option<File>,
    reader: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<u8>>>,
    /// How much of the screen [`OnTerminal::next`] has been through.
    passed: usize,
}

impl OnTerminal {
    #[track_caller]
    pub fn start(command: Command) -> OnTerminal {
        OnTerminal::start_with(command, |_| ())
    }

    /// `set` may redirect what is not to be the terminal, after all three are.
    /// The controlling terminal is taken from stdin: that one must stay.
    #[track_caller]
    pub fn start_with(mut command: Command, set: impl FnOnce(&mut Command)) -> OnTerminal {
        let (master, slave) = pair();
        crate::sys::set_window(master.as_raw_fd(), 24, 100).expect("TIOCSWINSZ");
        let begun = termios::tcgetattr(&slave).expect("modes");
        crate::sys::die_with_parent(&mut command);
        command.stdin(Stdio::from(slave.try_clone().expect("dup")));
        command.stdout(Stdio::from(slave.try_clone().expect("dup")));
        command.stderr(Stdio::from(slave));
        set(&mut command);
        crate::sys::controlling_terminal(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        drop(command); // and with it our copies of the slave
        let master = File::from(master);
        let (seen, closing) = (Arc::default(), Arc::default());
        let from = master.try_clone().expect("dup");
        let (into, end) = (Arc::clone(&seen), Arc::clone(&closing));
        let reader = Some(thread::spawn(move || read(from, &into, &end)));
        OnTerminal { child, begun, master: Some(master), reader, closing, seen, passed: 0 }
    }

    /// What a person would type.
    pub fn type_text(&mut self, text: &str) {
        self.type_bytes(text.as_bytes());
    }

    /// The same for what is no text. Nobody may be there to read it any more.
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        if let Some(master) = &mut self.master {
            let _ = master.write_all(bytes);
        }
    }

    /// Everything that came so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().expect("lock").clone()
    }

    /// What is on the screen so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        let start = Instant::now();
        while !self.screen().contains(text) {
            assert!(start.elapsed() < crate::PATIENCE, "no {text:?} on:\n{}", self.screen());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the screen shows a text behind the last one that was waited
    /// for so.
    ///
    /// # Errors
    ///
    /// That it does not within this time, or cannot any more, with the screen.
    pub fn next(&mut self, text: &[u8], patience: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            // In this order: what came before the end counts.
            let over = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            let seen = self.bytes();
            let rest = &seen[self.passed..];
            if let Some(at) = rest.windows(text.len()).position(|part| part == text) {
                self.passed += at + text.len();
                return Ok(());
            }
            if over || start.elapsed() > patience {
                let (text, rest) = (text.escape_ascii(), rest.escape_ascii());
                let all = String::from_utf8_lossy(&seen);
                return Err(format!("no \"{text}\" in \"{rest}\"; the screen:\n{all}"));
            }
            thread::sleep(Duration::from_millis(3));
        }
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        if let Some(master) = &self.master {
            crate::sys::set_window(master.as_raw_fd(), rows, columns).expect("TIOCSWINSZ");
        }
    }

    /// The modes of the terminal.
    pub fn modes(&self) -> Option<Termios> {
        termios::tcgetattr(self.master.as_ref()?).ok()
    }

    /// The process that leads the foreground group.
    pub fn foreground(&self) -> Option<i32> {
        Some(nix::unistd::tcgetpgrp(self.master.as_ref()?).ok()?.as_raw())
    }

    /// Closes the terminal, as a window that is closed or a line that breaks.
    pub fn hang_up(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master = None;
    }

    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        crate::eventually_some("the command on the terminal ends", || {
            self.child.try_wait().expect("wait")
        })
    }

    /// Whether all that can come has come: nobody has the terminal open.
    pub fn is_over(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hang_up();
    }
}

/// Collects what comes until the last slave is closed (EIO) or we are to close.
fn read(mut from: File, into: &Mutex<Vec<u8>>, end: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !end.load(Ordering::SeqCst) {
        let mut ready = [PollFd::new(std::os::fd::AsFd::as_fd(&from), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::from(20_u8)).unwrap_or(0) == 0 {
            continue;
        }
        match from.read(&mut buffer) {
            Ok(some @ 1..) => into.lock().expect("lock").extend_from_slice(&buffer[..some]),
            _ => return,
        }
    }
}

/// The two ends of a new terminal, closed on exec from the first moment: other
/// tests of this process start programs meanwhile.
pub fn pair() -> (OwnedFd, OwnedFd) {
    use nix::fcntl::{OFlag, open};
    use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).expect("posix_openpt");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname_r(&master).expect("ptsname");
    let slave = open(name.as_str(), flags, nix::sys::stat::Mode::empty()).expect("the slave");
    (OwnedFd::from(master), slave)
}

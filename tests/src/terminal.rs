//! A command on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A command whose stdin, stdout and stderr are one terminal, its controlling
/// one. Killed and reaped when dropped.
pub struct OnTerminal {
    pub child: Child,
    master: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    #[track_caller]
    pub fn start(mut command: Command) -> OnTerminal {
        let (master, slave) = pair();
        crate::sys::die_with_parent(&mut command);
        command.stdin(Stdio::from(slave.try_clone().expect("dup")));
        command.stdout(Stdio::from(slave.try_clone().expect("dup")));
        command.stderr(Stdio::from(slave));
        crate::sys::controlling_terminal(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        drop(command); // and with it our copies of the slave
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, into) = (master.try_clone().expect("dup"), Arc::clone(&seen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // EIO once the last slave is closed.
            while let Ok(some @ 1..) = from.read(&mut buffer) {
                into.lock().expect("lock").extend_from_slice(&buffer[..some]);
            }
        });
        OnTerminal { child, master, seen }
    }

    /// What a person would type.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal");
    }

    /// What is on the screen so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("lock")).into_owned()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        let start = std::time::Instant::now();
        while !self.screen().contains(text) {
            assert!(start.elapsed() < crate::PATIENCE, "no {text:?} on:\n{}", self.screen());
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        crate::sys::set_window(self.master.as_raw_fd(), rows, columns).expect("TIOCSWINSZ");
    }

    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        crate::eventually_some("the command on the terminal ends", || {
            self.child.try_wait().expect("wait")
        })
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

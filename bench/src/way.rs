//! A way to have work done: directly, through the broker, through a peer.
//!
//! Owns: the shape of a way, and the end of what was started for it. Must not:
//! measure.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::site::{Site, Work};

/// The names of the two that all others stand beside.
pub const DIRECT: &str = "direct";
pub const BROKER: &str = "tool broker";

type Make = Box<dyn Fn(Work) -> Command + Send + Sync>;

pub struct Way {
    pub name: &'static str,
    /// How it was set up, for people.
    pub how: String,
    /// Whether the caller gets the tool's exit code.
    pub exit_code: bool,
    /// Why it cannot carry a GiB, if so.
    pub no_bulk: Option<&'static str>,
    make: Make,
    /// What has to run meanwhile; ended in this order.
    running: Vec<Running>,
}

impl Way {
    pub fn new(
        name: &'static str,
        how: impl Into<String>,
        running: Vec<Running>,
        make: impl Fn(Work) -> Command + Send + Sync + 'static,
    ) -> Way {
        let make = Box::new(make);
        Way { name, how: how.into(), exit_code: true, no_bulk: None, make, running }
    }

    /// The command that has the work done; input and output are still to be set.
    pub fn command(&self, work: Work) -> Command {
        (self.make)(work)
    }

    /// The process number of what runs for it.
    pub fn server(&self) -> Option<u32> {
        self.running.first().map(Running::id)
    }
}

/// The work itself, with nothing between.
pub fn direct(site: &std::sync::Arc<Site>) -> Way {
    let at = site.clone();
    Way::new(DIRECT, "posix_spawn and wait", Vec::new(), move |work| {
        let words = work.words();
        let mut command = at.plain(&words[0]);
        command.args(&words[1..]);
        command
    })
}

/// A process that was started for a way: of this session (with one of its own
/// it would be in another group of the scheduler, kernel.sched_autogroup_enabled),
/// ended by its number.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Result<Running, String> {
        Running::with_log(command, Stdio::null())
    }

    /// As above; what it says on standard error goes there.
    pub fn with_log(command: &mut Command, log: Stdio) -> Result<Running, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        child.map(Running).map_err(|error| format!("{}: {error}", command.get_program().display()))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until that is there, ten seconds at most.
    pub fn wait_for(&mut self, socket: &Path) -> Result<(), String> {
        self.wait_until(&|| socket.exists())
    }

    pub fn wait_until(&mut self, ready: &dyn Fn() -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !ready() {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("it ended with {status} instead of serving"));
            }
            if start.elapsed() > Duration::from_secs(10) {
                return Err("it does not serve after ten seconds".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: a plain signal to our own child, which is not reaped yet.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if let Ok(Some(_)) = self.0.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

//! Whoever a child becomes can stop it before it has executed; the thread that
//! waits for it there would wait as long as they like, and the whole server with
//! it. A second thread sees to that: it lets such a child go on, and ends it if that
//! does not help.
//!
//! Owns: that thread, which sleeps but for such a moment. Must not: look at
//! processes that run their program, or at /proc, where a leader may see the machine's
//! numbers and not those of its own namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Pid;

use super::process::{Handle, is_stopped};

/// How long a child may take before anybody looks, and between two looks.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often it is let go on.
const NUDGES: u32 = 10;

/// No child's number: there will be none any more.
const OVER: i32 = -1;

/// Watches one child at a time.
#[derive(Debug)]
pub(super) struct Nudge {
    timer: Arc<TimerFd>,
    /// The child, written by itself; 0: none.
    child: Arc<AtomicI32>,
}

impl Nudge {
    /// Starts the thread.
    pub(super) fn new() -> Result<Nudge, Errno> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        let (timer, child) = (Arc::new(timer), Arc::new(AtomicI32::new(0)));
        let (ticks, watched) = (Arc::clone(&timer), Arc::clone(&child));
        thread::Builder::new()
            .name("nudge".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || watch(&ticks, &watched))
            .map_err(|error| error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw))?;
        Ok(Nudge { timer, child })
    }

    /// A child is about to be made; it is to write its number there.
    pub(super) fn begin(&self) -> *const AtomicI32 {
        let every = Expiration::Interval(PATIENCE.into());
        self.timer.set(every, TimerSetTimeFlags::empty()).ok();
        Arc::as_ptr(&self.child)
    }

    /// It runs its program, or is gone.
    pub(super) fn end(&self) {
        self.child.store(0, Ordering::SeqCst);
        self.timer.unset().ok();
    }
}

impl Drop for Nudge {
    fn drop(&mut self) {
        self.child.store(OVER, Ordering::SeqCst);
        let now = Expiration::OneShot(Duration::from_nanos(1).into());
        self.timer.set(now, TimerSetTimeFlags::empty()).ok();
    }
}

fn watch(timer: &TimerFd, child: &AtomicI32) {
    let (mut last, mut nudges) = (0, 0);
    while matches!(timer.wait(), Ok(()) | Err(Errno::EINTR)) {
        let pid = child.load(Ordering::SeqCst);
        if pid == OVER {
            return;
        }
        if pid != last {
            (last, nudges) = (pid, 0);
        }
        if pid == 0 {
            continue;
        }
        let Ok(handle) = Handle::open(Pid::from_raw(pid)) else { continue };
        // Nobody reaps it while it is watched: asked in this order, all three are about
        // one process.
        if !is_stopped(Pid::from_raw(pid)) || child.load(Ordering::SeqCst) != pid {
            continue;
        }
        nudges += 1;
        let signal = if nudges > NUDGES { Signal::SIGKILL } else { Signal::SIGCONT };
        handle.signal(signal).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::kill;
    use std::time::Instant;

    /// A child of this process, by the number that the kernel gave it: /proc is not asked.
    #[test]
    fn a_child_that_is_stopped_is_let_go_on_and_then_ended() {
        #[allow(clippy::disallowed_methods, reason = "a child for a test")]
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        assert!(!is_stopped(pid));
        let nudge = Nudge::new().unwrap();
        nudge.begin();
        nudge.child.store(pid.as_raw(), Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(120);
        let status = loop {
            // Over and over, as an owner would.
            kill(pid, Signal::SIGSTOP).ok();
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it was not ended");
        };
        nudge.end();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }
}

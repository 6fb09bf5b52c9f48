//! Whoever a child becomes can stop it before it has executed; the thread that
//! waits for it there would wait as long as they like, and the whole server with
//! it. A second thread sees to that: it lets such a child go on, and ends it if that
//! does not help.
//!
//! Owns: that thread, which sleeps but for such a moment. Must not: look at
//! processes that run their program.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Pid;

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
        if pid == 0 || !is_stopped(pid) {
            continue;
        }
        nudges += 1;
        let signal = if nudges > NUDGES { Signal::SIGKILL } else { Signal::SIGCONT };
        kill(Pid::from_raw(pid), signal).ok();
    }
}

fn is_stopped(pid: i32) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return false };
    let end = stat.iter().rposition(|byte| *byte == b')');
    end.and_then(|end| stat.get(end + 2)) == Some(&b'T')
}

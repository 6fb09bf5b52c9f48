//! Waits that are cut short. A socket that lingers has whoever closes it last wait for
//! as long as somebody else has said; but no longer than until a signal comes for that
//! thread. Then the kernel sends what is left by itself, as it does for a socket that
//! does not linger.
//!
//! Owns: that signal, its handler, which does nothing, and the timers that send it, each
//! to its own thread. Must not: reach a thread that did not ask for it.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Of no use to the server otherwise, and ignored where there is no handler.
const SIGNAL: Signal = Signal::SIGURG;
/// How long one wait lasts, and each after it.
const PATIENCE: Duration = Duration::from_millis(20);

/// There is something to run: what is ignored cuts nothing short.
extern "C" fn nothing(_signal: libc::c_int) {}

/// Has the signal come to threads that ask for it, and to no other that is started
/// after this.
pub(super) fn prepare() {
    let mut only = SigSet::empty();
    only.add(SIGNAL);
    only.thread_block().ok();
    handle();
}

/// What the signal does. It may run in a child that shares this memory until it has
/// executed, on the child's own stack, where it does nothing either.
pub(super) fn handle() {
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler touches nothing.
    unsafe { sigaction(SIGNAL, &action).ok() };
}

/// A timer for this thread.
#[derive(Debug)]
pub(super) struct Hurry(Option<libc::timer_t>);

impl Hurry {
    /// For the thread that calls this; where the kernel has none, nothing is cut short.
    pub(super) fn here() -> Hurry {
        let mut only = SigSet::empty();
        only.add(SIGNAL);
        only.thread_unblock().ok();
        if super::weaken::is("hurry") {
            return Hurry(None);
        }
        // SAFETY: all-zero bytes are a valid sigevent; the kernel reads it, and writes the
        // timer's name where there is room for it.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGNAL as libc::c_int;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = MaybeUninit::<libc::timer_t>::zeroed();
            let made =
                libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr());
            Hurry((made == 0).then(|| timer.assume_init()))
        }
    }

    /// Does it, and cuts its waits short.
    pub(super) fn with<T>(&self, does: impl FnOnce() -> T) -> T {
        self.every(PATIENCE);
        let done = does();
        self.every(Duration::ZERO);
        done
    }

    fn every(&self, patience: Duration) {
        let Some(timer) = self.0 else { return };
        let tv_nsec = libc::c_long::from(patience.subsec_millis().cast_signed()) * 1_000_000;
        let every = libc::timespec { tv_sec: 0, tv_nsec };
        let set = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: the timer is there as long as this is.
        unsafe { libc::timer_settime(timer, 0, &raw const set, ptr::null_mut()) };
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        if let Some(timer) = self.0 {
            // SAFETY: nobody has it after this.
            unsafe { libc::timer_delete(timer) };
        }
    }
}

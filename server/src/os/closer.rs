//! Closing what may take long to close, where nobody waits for it.
//!
//! close(2) waits for a socket that lingers, for the blocks of a file without a name to
//! be freed, for a file system in user space. How long that is, whoever made the
//! descriptor has chosen.
//!
//! Owns: the threads that close. One is always free, as long as there may be more: what
//! holds one does not hold up what comes behind it, and a socket that lingers holds none
//! for long (`hurry`). Must not: have its callers wait.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::sync::oneshot;

use super::foreign::Place;
use super::hurry::{self, Hurry};

/// Those of this process.
static CLOSER: OnceLock<Arc<Pool<Closing>>> = OnceLock::new();

/// Dropped, one more of a call's descriptors is closed.
pub(super) type Token = Arc<oneshot::Sender<()>>;

/// A descriptor, and until it is closed its place, and what tells of that.
pub(super) type Closing = (OwnedFd, Option<Place>, Option<Token>);

/// Descriptors that wait to be closed.
const QUEUE: usize = 16_384;
/// Threads at once: so many may be held before others wait behind them.
const THREADS: usize = 64;
/// Threads that stay without work.
const IDLE: usize = 2;
/// Of a thread that does nothing but close.
const STACK: usize = 128 * 1024;

/// Starts the first thread; once, at the start.
pub(crate) fn start_closer() -> std::io::Result<()> {
    hurry::prepare();
    let pool = Pool::start(close)?;
    CLOSER.set(pool).ok();
    Ok(())
}

/// Has it closed, and its place given back then.
pub(super) fn close_elsewhere(descriptor: OwnedFd, place: Option<Place>) {
    put((descriptor, place, None));
}

/// Has it closed.
pub(super) fn put(closing: Closing) {
    #[cfg(test)]
    let Some(closing) = kept::keep(closing) else { return };
    let Some(closer) = CLOSER.get() else { return };
    if let Err(closing) = closer.put(closing) {
        // All are held, and thousands wait: better to lose a descriptor, and its place,
        // than to be held as well.
        std::mem::forget(closing);
    }
}

// As short as can be: whoever has it may set it again meanwhile, or it is a socket in whose
// queue others lie, and then it is this thread that waits, and no other, and not for long.
pub(super) fn close((descriptor, place, token): Closing) {
    let linger = libc::linger { l_onoff: 0, l_linger: 0 };
    setsockopt(&descriptor, sockopt::Linger, &linger).ok();
    drop(descriptor);
    drop((place, token));
}

/// Threads that do one thing, each with what comes next.
#[derive(Debug)]
struct Pool<T> {
    state: Mutex<State<T>>,
    work: Condvar,
    does: fn(T),
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    /// Threads that wait for work.
    idle: usize,
    threads: usize,
}

impl<T: Send + 'static> Pool<T> {
    /// With one thread.
    fn start(does: fn(T)) -> std::io::Result<Arc<Pool<T>>> {
        let state = State { queue: VecDeque::new(), idle: 0, threads: 1 };
        let pool = Arc::new(Pool { state: Mutex::new(state), work: Condvar::new(), does });
        pool.more()?;
        Ok(pool)
    }

    /// One more; it never starts a thread itself, nor waits for one.
    fn put(&self, one: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.queue.len() >= QUEUE {
            return Err(one);
        }
        state.queue.push_back(one);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    fn more(self: &Arc<Self>) -> std::io::Result<()> {
        let pool = Arc::clone(self);
        let thread = std::thread::Builder::new().name("closer".to_owned()).stack_size(STACK);
        thread.spawn(move || pool.work()).map(drop)
    }

    fn work(self: &Arc<Self>) {
        let hurry = Hurry::here();
        let mut state = self.lock();
        loop {
            let Some(one) = state.queue.pop_front() else {
                if state.idle >= IDLE {
                    state.threads -= 1;
                    return;
                }
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            // Whatever it is, somebody is there for the next one.
            let alone = state.idle == 0 && state.threads < THREADS;
            state.threads += usize::from(alone);
            drop(state);
            if alone && self.more().is_err() {
                self.lock().threads -= 1;
            }
            hurry.with(|| (self.does)(one));
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a test's own thread would have closed elsewhere.
#[cfg(test)]
pub(crate) mod kept {
    use std::cell::RefCell;

    use super::Closing;

    thread_local! {
        static KEPT: RefCell<Option<Vec<Closing>>> = const { RefCell::new(None) };
    }

    /// From now on it is kept.
    pub(crate) fn begin() {
        KEPT.set(Some(Vec::new()));
    }

    /// How many were kept since, which are closed now.
    pub(crate) fn end() -> usize {
        KEPT.take().map_or(0, |kept| kept.len())
    }

    pub(super) fn keep(closing: Closing) -> Option<Closing> {
        KEPT.with_borrow_mut(|kept| match kept {
            Some(kept) => {
                kept.push(closing);
                None
            }
            None => Some(closing),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    type Job = Box<dyn FnOnce() + Send>;

    fn held(pool: &Pool<Job>) -> Sender<()> {
        let (go, wait): (Sender<()>, Receiver<()>) = channel();
        assert!(pool.put(Box::new(move || assert!(wait.recv().is_err()))).is_ok());
        go
    }

    #[test]
    fn what_holds_a_closing_thread_holds_up_nothing_behind_it() {
        let pool: Arc<Pool<Job>> = Pool::start(|job: Job| job()).unwrap();
        let mut holding = Vec::new();
        for _ in 1..THREADS {
            holding.push(held(&pool));
            let (done, is_done) = channel();
            assert!(pool.put(Box::new(move || done.send(()).unwrap())).is_ok());
            is_done.recv_timeout(Duration::from_secs(60)).expect("it waits behind another");
        }
        // No more than so many, and what is too much is given back.
        holding.push(held(&pool));
        let (done, is_done) = channel();
        assert!(pool.put(Box::new(move || done.send(()).unwrap())).is_ok());
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err());
        assert!(pool.lock().threads <= THREADS);
        let full = std::iter::repeat_with(|| pool.put(Box::new(|| ()))).take(QUEUE + 1);
        assert!(full.filter(Result::is_err).count() >= 1);
        // Once they go on all is done, and most of them end.
        drop(holding);
        is_done.recv_timeout(Duration::from_secs(60)).expect("done");
        let (_nobody, nothing) = channel::<()>();
        let few = |pool: &Pool<Job>| pool.lock().threads <= IDLE + 1;
        for _ in 0..6000 {
            if few(&pool) {
                break;
            }
            assert!(nothing.recv_timeout(Duration::from_millis(10)).is_err());
        }
        assert!(few(&pool));
    }
}

//! A thread that has done some work stays a moment where more of it would come from.
//!
//! Owns: what the work that a thread does may say to that thread, and how long it waits there.
//! Must not: know what comes, or keep anybody else waiting.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::told::Told;
use super::{Crew, CrewError, State, Whose, Work};
use crate::os::descriptors::readable_within;

/// How long it waits where its last work came from. A caller that takes longer to go on than
/// this does not notice the thread that is woken more.
const LINGER: Duration = Duration::from_millis(2);
/// How long it looks again and again before it sleeps there: to be woken takes as long, and who
/// has its answer mostly goes on sooner.
const LOOKING: Duration = Duration::from_micros(50);

/// How long somebody looks already.
#[derive(Debug, Default)]
pub(crate) struct Looking(Option<Instant>);

impl Looking {
    /// Whether that was not for long. Who looks again lets others run before.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.0.get_or_insert_with(Instant::now).elapsed() < LOOKING
    }
}

/// Whether something comes there soon.
fn comes(source: BorrowedFd<'_>) -> bool {
    let mut looking = Looking::default();
    while looking.goes_on() {
        if readable_within(source, Duration::ZERO) {
            return true;
        }
        std::thread::yield_now();
    }
    readable_within(source, LINGER)
}

/// Where more work would come from, and what does it.
pub(crate) trait Stay: Send {
    /// Whose it is.
    fn whose(&self) -> Whose;
    /// Whether there is some already.
    fn has_more(&self) -> bool;
    /// What is readable when there is.
    fn source(&self) -> BorrowedFd<'_>;
    /// One piece of it; whether to come there again.
    fn go(self: Box<Self>, fit: Result<(), CrewError>) -> Option<Come>;
    /// Nothing has come, or others wait.
    fn leave(self: Box<Self>);
}

/// Comes to where more work would come from, if there is a place. Called when nothing else is to
/// be done: what a thread has there, it keeps from others.
pub(crate) type Come = Box<dyn FnOnce() -> Option<Box<dyn Stay>> + Send>;

/// What the work that a thread does says to the thread.
#[derive(Default)]
struct Here {
    come: Option<Come>,
    /// The next piece of work that is given from here is done here.
    catches: bool,
    caught: Option<Work>,
    /// It reaches the workspace alone.
    confined: bool,
}

thread_local! {
    static HERE: RefCell<Here> = RefCell::default();
}

/// To be waited at when the work that this thread does is done.
pub(crate) fn stay(come: Come) {
    HERE.with_borrow_mut(|here| here.come = Some(come));
}

/// Work that was given to a crew by one of its threads, for itself.
pub(crate) struct Caught(Work);

impl Caught {
    /// Does it.
    pub(crate) fn go(self, fit: Result<(), CrewError>) {
        (self.0)(fit).into_iter().for_each(Told::say);
    }
}

/// Does that, and catches the first piece of work that it gives to this thread's crew.
pub(crate) fn catch<T>(giving: impl FnOnce() -> T) -> (T, Option<Caught>) {
    HERE.with_borrow_mut(|here| here.catches = true);
    let done = giving();
    let caught = HERE.with_borrow_mut(|here| {
        here.catches = false;
        here.caught.take()
    });
    (done, caught.map(Caught))
}

/// The work back, where nobody catches it.
pub(super) fn caught(work: Work) -> Option<Work> {
    HERE.with_borrow_mut(|here| {
        if !std::mem::take(&mut here.catches) {
            return Some(work);
        }
        here.caught = Some(work);
        None
    })
}

/// What is to be waited at, by what this thread has done.
pub(super) fn stays() -> Option<Come> {
    HERE.with_borrow_mut(|here| here.come.take())
}

/// This thread reaches the workspace alone from now on.
pub(super) fn confined() {
    HERE.with_borrow_mut(|here| here.confined = true);
}

/// Whether the calling thread does.
pub(crate) fn is_confined() -> bool {
    HERE.with_borrow(|here| here.confined)
}

impl State {
    /// Whether work of theirs may be done that came to one who stays: nobody waits for whom no
    /// other comes, and they have less than one may have.
    fn may_go_on(&self, whose: Whose, of_one: usize) -> bool {
        (self.on_the_way || self.ready(of_one).is_none()) && self.has_less(&whose, of_one)
    }
}

impl Crew {
    /// Has a thread come, for that caller; whether one will.
    pub(crate) fn invite(
        self: &Arc<Crew>,
        whose: Whose,
        come: impl FnOnce() + Send + 'static,
    ) -> bool {
        let come: Work = Box::new(move |_| {
            come();
            None
        });
        self.give(whose, come).is_ok()
    }

    /// Waits where more work would come from, and does what comes, as long as it comes soon and
    /// nobody else is kept waiting.
    pub(super) fn linger<'a>(
        self: &'a Arc<Crew>,
        mut state: MutexGuard<'a, State>,
        mut stay: Option<Box<dyn Stay>>,
        fit: Result<(), CrewError>,
    ) -> MutexGuard<'a, State> {
        while let Some(there) = stay.take() {
            let whose = there.whose();
            let mut more = there.has_more();
            if !more && state.stay < self.most / 2 && state.may_go_on(whose, self.of_one) {
                state.stay += 1;
                drop(state);
                more = comes(there.source());
                state = self.lock();
                state.stay -= 1;
            }
            if !more || !state.may_go_on(whose, self.of_one) {
                drop(state);
                there.leave();
                return self.lock();
            }
            state.begun(whose);
            drop(state);
            (_, stay) = self.at_work(whose, || (None, there.go(fit)));
            state = self.lock();
            state.ended(whose);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const SOMEBODY: Whose = (0, 1, 1);

    /// Says how often its thread has slept since it came.
    struct There {
        source: UnixStream,
        slept: u64,
        say: Sender<u64>,
    }

    impl Stay for There {
        fn whose(&self) -> Whose {
            SOMEBODY
        }

        fn has_more(&self) -> bool {
            false
        }

        fn source(&self) -> BorrowedFd<'_> {
            self.source.as_fd()
        }

        fn go(self: Box<Self>, _: Result<(), CrewError>) -> Option<Come> {
            self.say.send(slept() - self.slept).unwrap();
            None
        }

        fn leave(self: Box<Self>) {
            self.say.send(u64::MAX).unwrap();
        }
    }

    /// How often this thread has slept until it was woken.
    fn slept() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let of = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
        status.lines().find_map(of).unwrap()
    }

    #[test]
    fn who_goes_on_soon_is_heard_by_a_thread_that_is_awake() {
        let crew = Crew::new(2, None, None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // Where the machine is busy it may sleep before: then it is tried again.
        let hears = |_: &usize| {
            let (mut peer, source) = UnixStream::pair().unwrap();
            let (say, said) = channel();
            let there = move || Some(Box::new(There { source, slept: slept(), say }) as Box<_>);
            runtime.block_on(crew.run(SOMEBODY, || stay(Box::new(there)))).unwrap();
            while crew.lock().stay == 0 {
                // It has waited, and gone.
                if said.try_recv().is_ok() {
                    return false;
                }
                std::thread::yield_now();
            }
            // By now it would sleep, if it did not look.
            let since = Instant::now();
            while since.elapsed() < LOOKING / 2 {
                std::hint::spin_loop();
            }
            // Nobody reads it where that took too long.
            peer.write_all(b"more").ok();
            said.recv().unwrap() == 0
        };
        assert_eq!((0..2000).filter(hears).take(20).count(), 20);
    }
}

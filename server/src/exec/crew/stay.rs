//! A thread that has done some work stays a moment where more of it would come from.
//!
//! Owns: what the work that a thread does may say to that thread, and how long it waits there.
//! Must not: know what comes, or keep anybody else waiting.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::told::Told;
use super::{Crew, CrewError, State, Whose, Work};
use crate::os::descriptors::readable_within;

/// How long it waits where its last work came from. A caller that takes longer to go on than
/// this does not notice the thread that is woken more.
const LINGER: Duration = Duration::from_millis(2);

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
                more = readable_within(there.source(), LINGER);
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

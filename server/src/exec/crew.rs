//! Threads for work on the workspace's files, which blocks as long as a file system likes.
//!
//! Owns: how many there are, and that none of them reaches anything but the workspace
//! (`os::thread`), and that one caller's work does not hold all of them. One is started
//! where work comes and none is free, and goes when there has been none for a while.
//!
//! To wake a thread takes longer than to read a small file. So who was free last is called
//! first, and nobody is called while somebody is on the way: who comes and finds more than
//! one piece of work calls the next. Pieces that are short are done by few threads, one
//! after the other; behind one that blocks, another thread is always on its way.
//!
//! And a thread that has done some work may stay a moment where more of it would come from
//! (`Stay`): who makes one call mostly makes the next, and to wake another thread for it takes
//! longer than to read a small file. At most half of all stay, and none goes on there where
//! others wait.
//!
//! Must not: know what the work is, or do any unconfined.
//!
//! - `told`   who hears that work has ended
//! - `help`   what one does of another's work
//! - `later`  what they do when nobody waits for it
//! - `stay`   where they wait for more of the same

mod help;
mod later;
mod stay;
mod told;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use tokio::sync::oneshot;
use tool_files::help::Part;
use tool_files::{after, spare};

use self::help::Place;
use self::later::Later;
pub(crate) use self::stay::{Come, Looking, Stay, catch, is_confined, stay};
use self::stay::{caught, confined, stays};
use self::told::Told;
use crate::os::identity::Identity;
use crate::os::landlock::Domain;
use crate::os::thread::confine;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);
/// Why work was not done.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum CrewError {
    /// No thread could be started.
    #[error("no thread can be started: {0}")]
    Thread(Errno),
    /// One could be, and not be confined.
    #[error("a thread cannot be confined: {0}")]
    Confine(Errno),
}

/// Whose work it is: a socket, a uid and a gid.
pub(crate) type Whose = (usize, u32, u32);

/// Gives who waits for its end, where that may be told a moment later.
type Work = Box<dyn FnOnce(Result<(), CrewError>) -> Option<Told> + Send>;

/// The threads.
#[derive(Debug)]
pub(crate) struct Crew {
    most: usize,
    /// Of one caller, at once.
    of_one: usize,
    /// As many threads can be at work at once.
    cores: usize,
    identity: Option<Identity>,
    domain: Option<Domain>,
    state: Mutex<State>,
    later: Later,
}

#[derive(Default)]
struct State {
    work: VecDeque<(Whose, Work)>,
    /// Of work that is being done, for whoever comes and finds no other.
    help: Option<(Whose, Part)>,
    /// Somebody would have helped, and there was nobody.
    missed: bool,
    /// How much is done for whom.
    done_for: HashMap<Whose, usize>,
    threads: usize,
    /// Who has no work, those last who have had none for the shortest time.
    free: Vec<Arc<Seat>>,
    /// Somebody was called, or is being started, and has not come.
    on_the_way: bool,
    /// Who waits where their last work came from.
    stay: usize,
    /// To be told that what they wait for has ended. Somebody is on the way as long as there
    /// are any, or about to tell them.
    told: Vec<Told>,
}

/// Where a thread without work waits.
#[derive(Debug)]
struct Seat {
    thread: Thread,
    place: Mutex<Place>,
    called: AtomicBool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let State { work, threads, free, .. } = self;
        write!(to, "{} waiting, {} of {threads} threads free", work.len(), free.len())
    }
}

impl State {
    /// The first whose caller has not all that one may have.
    fn ready(&self, of_one: usize) -> Option<usize> {
        self.work.iter().position(|(whose, _)| self.has_less(whose, of_one))
    }

    fn has_less(&self, whose: &Whose, of_one: usize) -> bool {
        self.done_for.get(whose).is_none_or(|threads| *threads < of_one)
    }

    fn next(&mut self, of_one: usize) -> Option<(Whose, Work)> {
        let (whose, work) = self.work.remove(self.ready(of_one)?)?;
        self.begun(whose);
        Some((whose, work))
    }

    fn begun(&mut self, whose: Whose) {
        *self.done_for.entry(whose).or_default() += 1;
    }

    fn ended(&mut self, whose: Whose) {
        match self.done_for.get_mut(&whose) {
            Some(threads) if *threads > 1 => *threads -= 1,
            _ => drop(self.done_for.remove(&whose)),
        }
    }
}

impl Crew {
    /// At most so many, half of them for one caller, each that user where one is given, and held by that domain.
    pub(crate) fn new(
        most: usize,
        identity: Option<Identity>,
        domain: Option<Domain>,
    ) -> Arc<Crew> {
        let (most, of_one) = (most.max(1), (most / 2).max(1));
        let (state, later) = (Mutex::default(), Later::new());
        let cores = help::offer();
        Arc::new(Crew { most, of_one, cores, identity, domain, state, later })
    }

    /// Does it on one of the threads. What is given up is done all the same, and nobody
    /// hears of it.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Crew>,
        whose: Whose,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CrewError> {
        self.run_and_answer(whose, work, |_| false).await
    }

    /// The same. Where that is so of what comes of it, whoever asked has it already, and the
    /// end is told together with others'.
    pub(crate) async fn run_and_answer<T: Send + 'static>(
        self: &Arc<Crew>,
        whose: Whose,
        work: impl FnOnce() -> T + Send + 'static,
        is_answered: fn(&T) -> bool,
    ) -> Result<T, CrewError> {
        let (done, hear) = oneshot::channel();
        let work: Work = Box::new(move |fit| {
            let came = fit.map(|()| work());
            let answered = came.as_ref().is_ok_and(is_answered);
            let told = Told::new(move || drop(done.send(came)));
            answered.then_some(told)
        });
        if let Some(work) = caught(work) {
            self.give(whose, work)?;
        }
        // Each piece of work is called, or the process is gone.
        hear.await.unwrap_or(Err(CrewError::Thread(Errno::EAGAIN)))
    }

    fn give(self: &Arc<Crew>, whose: Whose, work: Work) -> Result<(), CrewError> {
        let mut state = self.lock();
        state.work.push_back((whose, work));
        let called = self.call(&mut state);
        // Where there are others, one of them comes to it.
        if called.is_err() && state.threads == 0 {
            state.work.pop_back();
        } else {
            drop(state);
            called.ok().flatten().into_iter().for_each(|seat| seat.thread.unpark());
            return Ok(());
        }
        called.map(drop)
    }

    /// Sees to it that somebody comes to the work, where anybody can. Who is to be woken, once
    /// the lock is free.
    fn call(self: &Arc<Crew>, state: &mut State) -> Result<Option<Arc<Seat>>, CrewError> {
        // What its caller may not have yet is taken by whoever ends something of theirs.
        if state.on_the_way || state.ready(self.of_one).is_none() {
            return Ok(None);
        }
        self.have_one_come(state, None)
    }

    /// Who is to be woken, on any core but that one. Nobody: one is started, or all are there.
    fn have_one_come(
        self: &Arc<Crew>,
        state: &mut State,
        off: Option<usize>,
    ) -> Result<Option<Arc<Seat>>, CrewError> {
        if let Some(seat) = state.free.pop() {
            // It may be awake still: where it runs is settled before it knows.
            seat.keep(off);
            seat.called.store(true, Ordering::Release);
            state.on_the_way = true;
            return Ok(Some(seat));
        }
        if state.threads >= self.most {
            return Ok(None);
        }
        (state.threads, state.on_the_way) = (state.threads + 1, true);
        let hired = if is_confined() { self.have_hired() } else { self.hire() };
        if hired.is_err() {
            (state.threads, state.on_the_way) = (state.threads - 1, false);
        }
        hired.map(|()| None)
    }

    /// Starts a thread. By one that is confined it would be so already, which it may not add
    /// to: not another user's groups, and no more than 16 times Landlock.
    fn hire(self: &Arc<Crew>) -> Result<(), CrewError> {
        let crew = Arc::clone(self);
        let thread = std::thread::Builder::new().name("files".to_owned());
        let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        thread.spawn(move || crew.serve()).map_err(|error| CrewError::Thread(errno(error)))?;
        Ok(())
    }

    /// Has the runtime's thread do that.
    fn have_hired(self: &Arc<Crew>) -> Result<(), CrewError> {
        let Some(runtime) = self.later.runtime() else { return self.hire() };
        let crew = Arc::clone(self);
        runtime.spawn(async move {
            if crew.hire().is_err() {
                let mut state = crew.lock();
                (state.threads, state.on_the_way) = (state.threads - 1, false);
                // Others may have become free that nobody has called since.
                let next = crew.call(&mut state).ok().flatten();
                let told = std::mem::take(&mut state.told);
                drop(state);
                next.into_iter().for_each(|next| next.thread.unpark());
                crew.tell(told);
            }
        });
        Ok(())
    }

    fn serve(self: &Arc<Crew>) {
        confined();
        let fit = confine(self.identity, self.domain.as_ref()).map_err(CrewError::Confine);
        let seat = Arc::new(Seat {
            thread: std::thread::current(),
            place: Mutex::new(Place::new()),
            called: AtomicBool::new(false),
        });
        let mut state = self.lock();
        state.on_the_way = false;
        let mut helped = false;
        loop {
            while let Some((whose, work)) = state.next(self.of_one) {
                // That it cannot be started is no matter: this one is here.
                let next = self.call(&mut state).ok().flatten();
                let told = state.due();
                drop(state);
                next.into_iter().for_each(|next| next.thread.unpark());
                self.tell(told);
                seat.keep(None);
                let (told, stay) = self.at_work(whose, || (work(fit), None));
                state = self.lock();
                state.ended(whose);
                state.told.extend(told);
                state = self.linger(state, stay, fit);
            }
            // Who has as many threads as one may have does it alone.
            let part = state.help.take().filter(|(whose, _)| state.has_less(whose, self.of_one));
            if let Some((whose, part)) = part {
                state.begun(whose);
                let told = std::mem::take(&mut state.told);
                drop(state);
                self.tell(told);
                self.help(whose, part, fit);
                state = self.lock();
                state.ended(whose);
                helped = true;
                continue;
            }
            seat.called.store(false, Ordering::Relaxed);
            state.free.push(Arc::clone(&seat));
            let told = std::mem::take(&mut state.told);
            drop(state);
            self.tell(told);
            let called = std::mem::take(&mut helped) && seat.look() || seat.wait();
            state = self.lock();
            // Somebody may have called it just then.
            if called || seat.called.load(Ordering::Acquire) {
                state.on_the_way = false;
                continue;
            }
            state.free.retain(|other| !Arc::ptr_eq(other, &seat));
            if state.ready(self.of_one).is_some() {
                continue;
            }
            (state.threads, state.missed) = (state.threads - 1, false);
            if state.threads == 0 {
                spare::let_go();
            }
            return;
        }
    }

    /// Does a piece of work; who is to be told, and where this thread is to stay.
    fn at_work(
        self: &Arc<Crew>,
        whose: Whose,
        work: impl FnOnce() -> (Option<Told>, Option<Come>),
    ) -> (Option<Told>, Option<Box<dyn Stay>>) {
        let _under_way = self.later.under_way();
        help::here(self, whose);
        let (mut told, come) = work();
        let left = after::left();
        let come = come.or_else(stays);
        if come.is_some() || !left.written.is_empty() {
            // Both may take a while.
            told.take().into_iter().for_each(Told::say);
        }
        // Who asked has the answer: now what nobody waits for.
        self.later(whose, left);
        (told, come.and_then(|come| come()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Until it is called; `false`: for long enough.
    fn wait(&self) -> bool {
        let until = Instant::now() + IDLE;
        loop {
            if self.called.load(Ordering::Acquire) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::park_timeout(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_no_more_threads_than_there_may_be_and_all_of_it() {
        let crew = Crew::new(2, None, None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for number in 0..50 {
                let crew = Arc::clone(&crew);
                all.spawn(async move { crew.run((0, 0, 0), move || number).await.unwrap() });
            }
            let mut sum = 0;
            while let Some(one) = all.join_next().await {
                sum += one.unwrap();
            }
            assert_eq!(sum, (0..50).sum::<i32>());
        });
        assert!(crew.lock().threads <= 2);
    }

    #[test]
    fn one_caller_holds_half_of_them_and_what_it_wants_beyond_is_done_later() {
        let crew = Crew::new(4, None, None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (go, held) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(0)));
        let gate = go.lock().unwrap();
        runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for _ in 0..20 {
                let (crew, go, held) = (Arc::clone(&crew), Arc::clone(&go), Arc::clone(&held));
                all.spawn(async move {
                    let wait = move || drop(go.lock().map(|_gate| *held.lock().unwrap() += 1));
                    crew.run((0, 1, 1), wait).await.unwrap();
                });
            }
            // Each of them has been given before this is.
            tokio::task::yield_now().await;
            for number in 0..20 {
                assert_eq!(crew.run((1, 1, 1), move || number).await.unwrap(), number);
            }
            assert_eq!(*held.lock().unwrap(), 0, "nothing of the other's has ended");
            drop(gate);
            while all.join_next().await.is_some() {}
        });
        assert_eq!(*held.lock().unwrap(), 20);
        // An answer comes a moment before its thread is free.
        while !crew.lock().done_for.is_empty() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_that_does_not_end_keeps_no_other_waiting() {
        let crew = Crew::new(3, None, None);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let stuck = Arc::clone(&crew);
            let stuck =
                tokio::spawn(
                    async move { stuck.run((0, 1, 1), move || ends.recv().is_err()).await },
                );
            tokio::task::yield_now().await;
            for round in 0..20 {
                let mut all = tokio::task::JoinSet::new();
                for number in 0..round {
                    let crew = Arc::clone(&crew);
                    all.spawn(async move { crew.run((1, 1, 1), move || number).await.unwrap() });
                }
                assert_eq!(all.join_all().await.len(), round);
            }
            assert!(!stuck.is_finished());
            drop(end);
            assert!(stuck.await.unwrap().unwrap());
        });
    }
}

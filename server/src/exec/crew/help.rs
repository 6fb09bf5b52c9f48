//! A thread that has nothing to do takes a part of another's work.
//!
//! Owns: when one is asked, and on which core it comes. Must not: keep any work waiting for it:
//! that comes first, and a part that nobody takes is done by who has asked.

use std::cell::RefCell;
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Pid, gettid};
use tool_files::help::{Part, ask_through};

use super::{Crew, CrewError, Seat, State, Whose};
use crate::os::cores::Cores;

/// How long who has helped looks for more before it sleeps: longer than a listing of some hundred
/// files and its client's next one take, and not much more than that.
const LOOKING: Duration = Duration::from_micros(400);
/// How often it looks before it lets others run.
const LOOKS: usize = 20;

/// Where a thread runs.
#[derive(Debug)]
pub(super) struct Place {
    thread: Pid,
    /// A core that it is kept off, and where it may run otherwise.
    kept: Option<(usize, Cores)>,
}

/// Where a thread is at work.
struct Here {
    crew: Weak<Crew>,
    whose: Whose,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// This thread does work for that caller from now on.
pub(super) fn here(crew: &Arc<Crew>, whose: Whose) {
    HERE.with_borrow_mut(|here| match here {
        Some(here) => here.whose = whose,
        None => *here = Some(Here { crew: Arc::downgrade(crew), whose }),
    });
}

/// Threads of a crew ask there.
fn asked(make: &mut dyn FnMut() -> Part) -> bool {
    let here = HERE.with_borrow(|here| {
        let Here { crew, whose } = here.as_ref()?;
        Some((crew.upgrade()?, *whose))
    });
    here.is_some_and(|(crew, whose)| crew.ask(whose, make))
}

/// Has threads of a crew asked; how many can be at work at once, each on a core.
pub(super) fn offer() -> usize {
    ask_through(asked);
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl State {
    /// Whether there is room for more than what is done just now, and nobody else to do it.
    fn is_quiet(&self, cores: usize) -> bool {
        let at_work = self.threads.saturating_sub(self.free.len() + self.stay);
        // A part that is there is nobody's any more, where nobody is on the way.
        at_work < cores && self.work.is_empty() && !self.on_the_way
    }
}

impl Crew {
    fn ask(self: &Arc<Crew>, whose: Whose, make: &mut dyn FnMut() -> Part) -> bool {
        let may = |state: &mut State| {
            let may = state.is_quiet(self.cores) && state.has_less(&whose, self.of_one);
            // To start a thread takes longer than to do without one. Who asks again has one.
            let hires = |state: &mut State| {
                state.threads < self.most && std::mem::replace(&mut state.missed, true)
            };
            may && (!state.free.is_empty() || hires(state))
        };
        if !may(&mut self.lock()) {
            return false;
        }
        let part = make();
        let mut state = self.lock();
        if !may(&mut state) {
            return false;
        }
        state.help = Some((whose, part));
        let Ok(called) = self.have_one_come(&mut state, Cores::here().ok()) else {
            state.help = None;
            return false;
        };
        drop(state);
        called.into_iter().for_each(|seat| seat.thread.unpark());
        true
    }

    /// Does what there is to help with, if this thread is fit to.
    pub(super) fn help(self: &Arc<Crew>, whose: Whose, part: Part, fit: Result<(), CrewError>) {
        if fit.is_ok() {
            self.at_work(whose, || {
                part();
                (None, None)
            });
        }
    }
}

impl Place {
    /// The calling thread's.
    pub(super) fn new() -> Place {
        Place { thread: gettid(), kept: None }
    }

    /// Keeps it off that core; without one, it runs where it may. Mostly it is so already.
    fn keep(&mut self, off: Option<usize>) -> Result<(), Errno> {
        if self.kept.map(|(core, _)| core) != off {
            let before = self.kept.map_or_else(|| Cores::of(self.thread), |(_, all)| Ok(all))?;
            before.give(self.thread, off)?;
            self.kept = off.map(|core| (core, before));
        }
        Ok(())
    }
}

impl Seat {
    /// Looks for a moment whether it is called: who is awake comes at once, and who asks has
    /// nobody to wake. Other threads that wait for this core run in between.
    pub(super) fn look(&self) -> bool {
        let until = Instant::now() + LOOKING;
        while Instant::now() < until {
            for _ in 0..LOOKS {
                if self.called.load(Ordering::Acquire) {
                    return true;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        false
    }

    /// The same of its thread. Where that may not be, the kernel chooses.
    pub(super) fn keep(&self, off: Option<usize>) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).keep(off).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::ThreadId;

    use tokio::runtime::Runtime;
    use tokio::sync::oneshot;

    use super::*;

    const SOMEBODY: Whose = (0, 1, 1);
    const ANOTHER: Whose = (1, 1, 1);

    /// On so many cores, whatever there are.
    fn crew(cores: usize) -> (Runtime, Arc<Crew>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut crew = runtime.block_on(async { Crew::new(4, None, None) });
        Arc::get_mut(&mut crew).unwrap().cores = cores;
        (runtime, crew)
    }

    /// As work does it: whether one comes, and which thread that is.
    fn ask_and_hear() -> Option<ThreadId> {
        let (say, said) = channel();
        let mut make = || {
            let say = say.clone();
            Box::new(move || say.send(std::thread::current().id()).unwrap()) as Part
        };
        asked(&mut make).then(|| said.recv().unwrap())
    }

    /// A thread that is held until what comes back is dropped, once it is there.
    fn hold(runtime: &Runtime, crew: &Arc<Crew>, whose: Whose) -> Sender<()> {
        let (hold, held) = channel::<()>();
        let (say, there) = oneshot::channel();
        let crew = Arc::clone(crew);
        let work = move || {
            say.send(()).unwrap();
            held.recv().ok();
        };
        runtime.spawn(async move { crew.run(whose, work).await });
        runtime.block_on(there).unwrap();
        hold
    }

    fn work<T: Send + 'static>(
        runtime: &Runtime,
        crew: &Arc<Crew>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let done = runtime.block_on(crew.run(SOMEBODY, work)).unwrap();
        settle(crew);
        done
    }

    /// Whoever has answered is free a moment later.
    fn settle(crew: &Crew) {
        loop {
            let state = crew.lock();
            let held: usize = state.done_for.get(&ANOTHER).copied().unwrap_or(0);
            if state.free.len() + held == state.threads && !state.on_the_way {
                return;
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_asks_again_is_helped_by_another_thread_that_reaches_as_little() {
        let (runtime, crew) = crew(2);
        // Nobody is there yet, and for the first time nobody is fetched.
        assert_eq!(work(&runtime, &crew, ask_and_hear), None);
        for _ in 0..20 {
            let (own, other) =
                work(&runtime, &crew, || (std::thread::current().id(), ask_and_hear()));
            assert!(other.is_some_and(|other| other != own), "{own:?} {other:?}");
        }
        assert_eq!(crew.lock().threads, 2);
        let unfit = Err(CrewError::Confine(Errno::EPERM));
        crew.help(SOMEBODY, Box::new(|| panic!("done by who reaches more")), unfit);
    }

    #[test]
    fn who_has_helped_looks_for_more_and_hears_it_without_being_woken() {
        let (runtime, crew) = crew(2);
        assert_eq!(work(&runtime, &crew, ask_and_hear), None);
        // Where the machine is busy it may sleep before: then it is woken, and tried again.
        let hears = |_: &usize| {
            let helper = work(&runtime, &crew, ask_and_hear).unwrap();
            // By now it would sleep, if it did not look.
            let since = Instant::now();
            while since.elapsed() < LOOKING / 8 {
                std::hint::spin_loop();
            }
            let (say, said) = channel();
            let mut state = crew.lock();
            state.help = Some((SOMEBODY, Box::new(move || say.send(()).unwrap())));
            let at = state.free.iter().position(|seat| seat.thread.id() == helper).unwrap();
            let seat = state.free.remove(at);
            state.free.push(seat);
            let seat = crew.have_one_come(&mut state, None).unwrap().unwrap();
            drop(state);
            let unwoken = said.recv_timeout(5 * LOOKING).is_ok();
            if !unwoken {
                seat.thread.unpark();
                said.recv().unwrap();
            }
            settle(&crew);
            unwoken
        };
        assert_eq!((0..2000).filter(hears).take(5).count(), 5);
    }

    #[test]
    fn nobody_is_asked_where_others_are_at_work() {
        let (runtime, crew) = crew(2);
        let held = hold(&runtime, &crew, ANOTHER);
        for _ in 0..3 {
            assert_eq!(work(&runtime, &crew, ask_and_hear), None);
        }
        drop(held);
        while crew.lock().done_for.contains_key(&ANOTHER) {
            std::thread::yield_now();
        }
        settle(&crew);
        assert!(work(&runtime, &crew, ask_and_hear).is_some());
    }

    #[test]
    fn where_there_is_one_core_nobody_is_asked_or_fetched() {
        let (runtime, crew) = crew(1);
        for _ in 0..3 {
            assert_eq!(work(&runtime, &crew, ask_and_hear), None);
        }
        assert_eq!(crew.lock().threads, 1);
    }

    #[test]
    fn work_comes_before_help_and_on_any_core() {
        let (runtime, crew) = crew(2);
        assert_eq!(work(&runtime, &crew, ask_and_hear), None);
        assert!(work(&runtime, &crew, ask_and_hear).is_some());
        settle(&crew);
        let (say, said) = channel();
        let (help, other) = (say.clone(), say);
        // Both are there when the one comes that is called.
        let mut state = crew.lock();
        state.help = Some((SOMEBODY, Box::new(move || help.send("help").unwrap())));
        state.work.push_back((
            ANOTHER,
            Box::new(move |_| {
                other.send("work").unwrap();
                None
            }),
        ));
        let seat = crew.have_one_come(&mut state, Cores::here().ok()).unwrap().unwrap();
        drop(state);
        seat.thread.unpark();
        assert_eq!([said.recv().unwrap(), said.recv().unwrap()], ["work", "help"]);
        assert!(seat.place.lock().unwrap().kept.is_none());
    }

    #[test]
    fn who_has_all_threads_that_one_may_have_is_not_helped() {
        // One may have two of four.
        let (runtime, crew) = crew(4);
        let held = hold(&runtime, &crew, SOMEBODY);
        for _ in 0..3 {
            assert_eq!(runtime.block_on(crew.run(SOMEBODY, ask_and_hear)).unwrap(), None);
        }
        // That is all that keeps it from it.
        while runtime.block_on(crew.run(ANOTHER, ask_and_hear)).unwrap().is_none() {}
        // Nor where it has them by the time that one comes.
        let another = hold(&runtime, &crew, SOMEBODY);
        while crew.lock().done_for != [(SOMEBODY, 2)].into() || crew.lock().free.is_empty() {
            std::thread::yield_now();
        }
        let mut state = crew.lock();
        state.help = Some((SOMEBODY, Box::new(|| panic!("a third thread"))));
        let seat = crew.have_one_come(&mut state, None).unwrap().unwrap();
        drop(state);
        seat.thread.unpark();
        while crew.lock().on_the_way || crew.lock().help.is_some() {
            std::thread::yield_now();
        }
        assert_eq!(crew.lock().done_for, [(SOMEBODY, 2)].into());
        drop((held, another));
    }
}

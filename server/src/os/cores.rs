//! Which cores a thread runs on.
//!
//! Owns: keeping a thread off a core. Who is woken to work beside another belongs on another
//! core. The kernel sees to that where one is idle, but not where the machine is virtual: a core
//! that sleeps there is taken for one that the host has given to somebody else. Must not: choose
//! who works.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Cores that a thread may run on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores(CpuSet);

impl Cores {
    /// Those of a thread.
    pub(crate) fn of(thread: Pid) -> Result<Cores, Errno> {
        sched_getaffinity(thread).map(Cores)
    }

    /// Where the calling thread runs just now.
    pub(crate) fn here() -> Result<usize, Errno> {
        sched_getcpu()
    }

    /// Lets a thread run on these, but for that one.
    pub(crate) fn give(mut self, thread: Pid, off: Option<usize>) -> Result<(), Errno> {
        off.map_or(Ok(()), |core| self.0.unset(core))?;
        sched_setaffinity(thread, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use nix::unistd::gettid;

    use super::*;

    fn own() -> Cores {
        Cores::of(gettid()).unwrap()
    }

    fn has(cores: &Cores, core: usize) -> bool {
        cores.0.is_set(core).unwrap()
    }

    #[test]
    fn a_thread_is_kept_off_a_core_and_let_back() {
        let (all, here) = (own(), Cores::here().unwrap());
        let others = (0..CpuSet::count()).any(|core| core != here && has(&all, core));
        let (ask, asked) = channel::<()>();
        let (say, said) = channel();
        let thread = std::thread::spawn(move || {
            say.send((gettid(), own())).unwrap();
            for () in asked {
                say.send((gettid(), own())).unwrap();
            }
        });
        let look = || {
            ask.send(()).unwrap();
            said.recv().unwrap().1
        };
        let (other, _) = said.recv().unwrap();
        // Nowhere at all the kernel lets nobody be.
        assert_eq!(all.give(other, Some(here)).is_ok(), others);
        assert_eq!(has(&look(), here), !others);
        assert_eq!(Cores::of(other).unwrap().0, look().0);
        all.give(other, None).unwrap();
        assert_eq!(look().0, all.0);
        assert_eq!(own().0, all.0, "and nobody else");
        drop(ask);
        thread.join().unwrap();
    }
}

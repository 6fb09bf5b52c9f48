//! A directory's files, looked at by two threads.
//!
//! Owns: which of them has which: one goes from the first on, the other, if it comes, from the
//! last back, a few at a time. What the other has not taken the first does itself, so it waits
//! for nothing but what is under way. Must not: say what is told of a file, or keep the
//! directory open once it is over.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, statat};

use crate::help;

/// No more are taken at once, and fewer towards the end: one of the two waits for the other's.
const PIECE: usize = 8;
/// How often the first looks for the end of what the other has under way before it sleeps, which
/// takes longer than a piece.
const LOOKS: usize = 300;

/// What a look at a file says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) mode: u32,
    pub(super) size: i64,
    /// When it was changed, since 1970.
    pub(super) seconds: i64,
    pub(super) nanoseconds: i64,
}

impl Seen {
    /// Of what has that name in a directory; nothing, where it is gone.
    pub(super) fn at(directory: BorrowedFd<'_>, name: &CStr) -> Option<Seen> {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Seen {
            mode: stat.st_mode,
            size: stat.st_size,
            seconds: stat.st_mtime,
            nanoseconds: stat.st_mtime_nsec.cast_signed(),
        })
    }
}

/// What the first thread has of it.
#[derive(Debug)]
pub(super) struct Ahead {
    both: Arc<Both>,
    /// The next to be asked for.
    at: usize,
    /// What this thread has taken.
    own: Range<usize>,
    /// What the other has seen, from the last on; once all are taken.
    others: Vec<Option<Seen>>,
}

#[derive(Debug)]
struct Both {
    /// Of the files, each with its NUL.
    names: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// None: it is over.
    directory: Option<Arc<OwnedFd>>,
    /// Nobody's yet.
    left: Range<usize>,
    /// By the other thread, from the last on.
    seen: Vec<Option<Seen>>,
    /// The other thread has some that it has not seen yet.
    busy: bool,
    /// The first thread sleeps until it has.
    awaited: bool,
}

impl Ahead {
    /// Of these files, each with its NUL, in the order in which they are asked for. Nothing where
    /// no other thread is free.
    pub(super) fn of(
        directory: &Arc<OwnedFd>,
        files: &mut dyn ExactSizeIterator<Item = &[u8]>,
    ) -> Option<Ahead> {
        let mut both = None;
        let comes = help::ask(|| {
            let other = Arc::new(Both::new(directory, files));
            both = Some(Arc::clone(&other));
            Box::new(move || other.help())
        });
        let both = both.filter(|_| comes)?;
        Some(Ahead { both, at: 0, own: 0..0, others: Vec::new() })
    }

    /// The next of the files, that is said to have that name; what is none of them is looked at
    /// all the same.
    pub(super) fn next(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> Option<Seen> {
        if self.both.name(self.at) != Some(name) {
            return Seen::at(directory, name);
        }
        self.at += 1;
        if self.own.is_empty() && self.others.is_empty() {
            self.take();
        }
        match self.own.next() {
            Some(_) => Seen::at(directory, name),
            None => self.others.pop().flatten(),
        }
    }

    /// Some more of them, or what the other has seen.
    fn take(&mut self) {
        let mut state = self.both.state();
        if !state.left.is_empty() {
            let end = state.left.start + piece(&state.left);
            self.own = std::mem::replace(&mut state.left.start, end)..end;
            return;
        }
        for _ in 0..LOOKS {
            if !state.busy {
                break;
            }
            drop(state);
            std::hint::spin_loop();
            state = self.both.state();
        }
        while state.busy {
            state.awaited = true;
            state = self.both.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.others = std::mem::take(&mut state.seen);
        state.directory = None;
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.both.state();
        (state.directory, state.left) = (None, 0..0);
    }
}

impl Both {
    fn new(directory: &Arc<OwnedFd>, files: &mut dyn ExactSizeIterator<Item = &[u8]>) -> Both {
        let (mut names, mut ends) = (Vec::new(), Vec::with_capacity(files.len()));
        for name in files {
            names.extend_from_slice(name);
            ends.push(names.len());
        }
        let state = State {
            directory: Some(Arc::clone(directory)),
            left: 0..ends.len(),
            seen: Vec::with_capacity(ends.len()),
            busy: false,
            awaited: false,
        };
        Both { names, ends, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, index: usize) -> Option<&CStr> {
        let end = self.ends.get(index)?;
        let begin = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        CStr::from_bytes_with_nul(self.names.get(begin..*end)?).ok()
    }

    /// The other thread's part.
    fn help(&self) {
        let mut some = Vec::with_capacity(PIECE);
        let mut state = self.state();
        while let Some(directory) = state.directory.clone().filter(|_| !state.left.is_empty()) {
            let begin = state.left.end - piece(&state.left);
            let taken = begin..std::mem::replace(&mut state.left.end, begin);
            state.busy = true;
            drop(state);
            let seen = |index| Seen::at(directory.as_fd(), self.name(index)?);
            some.extend(taken.rev().map(seen));
            drop(directory);
            state = self.state();
            state.seen.append(&mut some);
            state.busy = false;
            // To wake is to ask the kernel, even where nobody sleeps.
            if std::mem::take(&mut state.awaited) {
                self.changed.notify_one();
            }
        }
    }
}

/// How many are taken of what is left; not one of nothing.
fn piece(left: &Range<usize>) -> usize {
    (left.len() / 4).clamp(1, PIECE).min(left.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::MetadataExt;

    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;

    use super::*;
    use crate::fixture::Workspace;
    use crate::help::{Part, ask_through};
    use crate::list::{Input, ListDirectory};

    /// When the other thread does its part.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Comes {
        Never,
        AtOnce,
        Meanwhile,
        TooLate,
    }

    thread_local! {
        static ASKED: Cell<usize> = const { Cell::new(0) };
        static COMES: Cell<Option<Comes>> = const { Cell::new(None) };
        static LATE: Cell<Option<Part>> = const { Cell::new(None) };
    }

    fn asked(make: &mut dyn FnMut() -> Part) -> bool {
        ASKED.set(ASKED.get() + 1);
        match COMES.get() {
            None => return false,
            Some(Comes::Never) => drop(make()),
            Some(Comes::AtOnce) => make()(),
            Some(Comes::Meanwhile) => drop(std::thread::spawn(make())),
            Some(Comes::TooLate) => LATE.set(Some(make())),
        }
        true
    }

    fn comes(when: Option<Comes>) {
        ask_through(asked);
        COMES.set(when);
    }

    const ALL: [Comes; 4] = [Comes::Never, Comes::AtOnce, Comes::Meanwhile, Comes::TooLate];

    #[test]
    fn a_listing_is_the_same_whenever_the_other_comes() {
        let workspace = Workspace::new();
        std::fs::create_dir(workspace.at("d")).unwrap();
        for number in 0..300 {
            workspace.put(&format!("d/{number}"), "x".repeat(number));
        }
        std::fs::create_dir(workspace.at("d/directory")).unwrap();
        std::os::unix::fs::symlink("1", workspace.at("d/link")).unwrap();
        // And as many deeper, which are none of the first directory.
        std::fs::create_dir_all(workspace.at("e/deep")).unwrap();
        (0..60).for_each(|number| workspace.put(&format!("e/deep/{number}"), "deep"));
        let input = |limit| Input {
            path: Some("d".to_owned()),
            depth: None,
            all: false,
            gitignore: None,
            limit: Some(limit),
            after: None,
        };
        let listed = |limit| {
            let listed = workspace.run::<ListDirectory>(input(limit)).unwrap();
            serde_json::to_value(&listed).unwrap()
        };
        for limit in [302, 1000, 60] {
            comes(None);
            let alone = listed(limit);
            assert_eq!(alone["entries"].as_array().unwrap().len(), limit.min(302));
            for when in ALL {
                for _ in 0..20 {
                    comes(Some(when));
                    let before = ASKED.get();
                    assert_eq!(listed(limit), alone, "{when:?}");
                    // Where not all are wanted nobody is.
                    assert_eq!(ASKED.get() - before, usize::from(limit >= 302));
                }
            }
        }
        let deep = || {
            let input = Input { path: Some("e".to_owned()), depth: Some(3), ..input(100) };
            serde_json::to_value(workspace.run::<ListDirectory>(input).unwrap()).unwrap()
        };
        comes(None);
        let alone = deep();
        assert_eq!(alone["entries"].as_array().unwrap().len(), 61);
        for when in ALL {
            comes(Some(when));
            assert_eq!(deep(), alone, "{when:?}");
        }
    }

    #[test]
    fn each_file_is_seen_as_it_is_by_one_of_the_two_and_the_directory_is_left() {
        let workspace = Workspace::new();
        let names: Vec<String> = (0..100).map(|number| format!("{number:03}\0")).collect();
        for name in &names {
            workspace.put(name.trim_end_matches('\0'), name);
        }
        // One is gone by then.
        std::fs::remove_file(workspace.at("050")).unwrap();
        for when in ALL {
            comes(Some(when));
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let directory = Arc::new(open(&workspace.at(""), flags, Mode::empty()).unwrap());
            let mut all = names.iter().map(String::as_bytes);
            let mut ahead = Ahead::of(&directory, &mut all).unwrap();
            for name in &names {
                let c = CStr::from_bytes_with_nul(name.as_bytes()).unwrap();
                let seen = ahead.next(directory.as_fd(), c);
                let there = std::fs::metadata(workspace.at(name.trim_end_matches('\0')));
                let times = |seen: Seen| (seen.size, seen.seconds, seen.nanoseconds);
                let same = there.ok().map(|there| {
                    (i64::try_from(there.size()).unwrap(), there.mtime(), there.mtime_nsec())
                });
                assert_eq!(seen.map(times), same, "{name:?} {when:?}");
            }
            // What was never said to come is seen all the same.
            assert!(ahead.next(directory.as_fd(), c"007").is_some());
            drop(ahead);
            assert_eq!(Arc::strong_count(&directory), 1, "{when:?}");
            LATE.take().into_iter().for_each(|late| late());
        }
    }

    #[test]
    fn who_needs_no_more_leaves_nothing_to_do() {
        let workspace = Workspace::new();
        workspace.put("a", "");
        comes(Some(Comes::TooLate));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let directory = Arc::new(open(&workspace.at(""), flags, Mode::empty()).unwrap());
        let ahead = Ahead::of(&directory, &mut [&b"a\0"[..]; 60].into_iter()).unwrap();
        let both = Arc::clone(&ahead.both);
        drop(ahead);
        assert_eq!(Arc::strong_count(&directory), 1);
        LATE.take().unwrap()();
        assert!(both.state().seen.is_empty());
    }
}

//! What is done once an answer is on its way.
//!
//! Owns: files that a thread has done with and not closed, and those among them that are
//! gathered: what is to be written out, and what was replaced. To close the last descriptor of
//! a file that was replaced is to remove it from the disk, and to write one out is to wake the
//! disk: either takes longer than an edit, and neither who asked for it nor who asks next need
//! wait. What was replaced again before it was written out need not be written at all. Must
//! not: keep anything else beyond the work of its thread ([`left`] is called after each; a
//! thread that does not call it closes them at its end), write out, or wait.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::FileStat;

use crate::lock::Key;
use crate::opened::{again, look, regular, stat_of};

/// More than this many are not left by one work.
const MOST: usize = 64;

/// How long what is gathered waits for more.
pub const WAIT: Duration = Duration::from_millis(10);
/// More than this many of either kind are not gathered, of all callers.
pub const MANY: usize = 16;

/// What a thread has left to do.
#[derive(Debug, Default)]
pub struct Left {
    /// To be written out, begun and not waited for: they replaced something.
    pub written: Vec<Written>,
    /// The last of files that were replaced, to be closed.
    pub replaced: Vec<OwnedFd>,
    closed: Vec<OwnedFd>,
}

/// A file that is to be written out. Nothing has it open: most are replaced again before, and
/// what somebody has open to write to it cannot be run (ETXTBSY).
#[derive(Debug)]
pub struct Written {
    directory: OwnedFd,
    /// Its name, and that directory's numbers.
    key: Key,
    /// Its own.
    file: (u64, u64),
}

impl Written {
    /// Whether it has its name still.
    fn is_there(&self) -> bool {
        let now = stat_of(self.directory.as_fd(), &self.key.2).ok().flatten();
        now.is_some_and(|now| numbers(&now) == self.file)
    }

    /// Itself, to be written out; nothing where it has its name no more, or may not be read: the
    /// kernel writes it out when it likes.
    pub fn open(&self) -> Option<OwnedFd> {
        let there = look(self.directory.as_fd(), &self.key.2).ok()??;
        // The number may be another's by now, that is no file.
        let stat = regular(there.as_fd(), &self.key.2).ok()?;
        (numbers(&stat) == self.file).then(|| again(there.as_fd(), OFlag::O_RDONLY).ok())?
    }
}

fn numbers(stat: &FileStat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl From<Written> for OwnedFd {
    fn from(written: Written) -> OwnedFd {
        written.directory
    }
}

thread_local! {
    static LEFT: RefCell<Left> = RefCell::default();
}

/// Takes what this thread has left to do; what is dropped is closed.
pub fn left() -> Left {
    LEFT.take()
}

/// It is to be closed.
pub(crate) fn close(file: impl Into<OwnedFd>) {
    let file = file.into();
    LEFT.with_borrow_mut(|left| {
        if left.closed.len() < MOST {
            left.closed.push(file);
        }
    });
}

/// It is to be closed, and is perhaps the last of a file that has no name any more.
pub(crate) fn replaced(file: OwnedFd) {
    LEFT.with_borrow_mut(|left| {
        if left.replaced.len() < MOST {
            left.replaced.push(file);
        }
    });
}

/// That file, which has this name now, is to be written out.
pub(crate) fn write_out(directory: OwnedFd, key: Key, file: &FileStat) {
    LEFT.with_borrow_mut(|left| {
        if left.written.len() < MOST {
            left.written.push(Written { directory, key, file: numbers(file) });
        }
    });
}

/// Those that have their name still. What was replaced meanwhile and has no place on the disk
/// by then never gets one.
pub fn still_named(files: Vec<Written>) -> Vec<Written> {
    files.into_iter().filter(Written::is_there).collect()
}

/// What is to be done later, of each caller.
#[derive(Debug)]
pub struct Gathered<Whose>(HashMap<Whose, Files>);

/// Of one.
#[derive(Debug, Default)]
pub struct Files {
    /// To be written out.
    pub written: Vec<Written>,
    /// To be closed.
    pub replaced: Vec<OwnedFd>,
}

/// What comes next for what was gathered.
#[derive(Debug)]
pub enum Next {
    /// They are taken with what was there before them.
    Wait,
    /// Somebody is to take them, after [`WAIT`].
    Take,
    /// Too much: all of this caller's, to be looked at now.
    Look(Vec<Written>),
}

impl<Whose> Default for Gathered<Whose> {
    fn default() -> Gathered<Whose> {
        Gathered(HashMap::new())
    }
}

impl<Whose: Eq + Hash> Gathered<Whose> {
    /// Takes out what had the names that these have now: a number may be another file's by then.
    pub fn replaced_by(&mut self, whose: &Whose, written: &[Written]) -> Vec<Written> {
        let Some(all) = self.0.get_mut(whose) else { return Vec::new() };
        let has_name = |old: &mut Written| written.iter().any(|new| new.key == old.key);
        all.written.extract_if(.., has_name).collect()
    }

    /// Adds what is to be written out.
    pub fn add(&mut self, whose: Whose, written: Vec<Written>) -> Next {
        if self.count(|of| of.written.len()) + written.len() > MANY {
            let own = self.0.get_mut(&whose);
            let mut all = own.map(|of| std::mem::take(&mut of.written)).unwrap_or_default();
            all.extend(written);
            return Next::Look(all);
        }
        let mut next = Next::Wait;
        let all = self.0.entry(whose).or_insert_with(|| {
            next = Next::Take;
            Files::default()
        });
        all.written.extend(written);
        next
    }

    /// Adds what is to be closed, where somebody takes it and there is room; else gives it.
    pub fn add_replaced(&mut self, whose: &Whose, replaced: Vec<OwnedFd>) -> Vec<OwnedFd> {
        let fits = self.count(|of| of.replaced.len()) + replaced.len() <= MANY;
        match self.0.get_mut(whose).filter(|_| fits) {
            Some(all) => {
                all.replaced.extend(replaced);
                Vec::new()
            }
            None => replaced,
        }
    }

    /// Puts back what was looked at, where somebody takes it and there is room for some more,
    /// so that not each that comes is a reason to look; else gives it, to be written out now.
    pub fn put_back(&mut self, whose: &Whose, written: Vec<Written>) -> Vec<Written> {
        let fits = self.count(|of| of.written.len()) + written.len() <= MANY / 4 * 3;
        match self.0.get_mut(whose).filter(|_| fits) {
            Some(all) => {
                all.written.extend(written);
                Vec::new()
            }
            None => written,
        }
    }

    /// All of that caller's. Nobody is to take the next.
    pub fn take(&mut self, whose: &Whose) -> Files {
        self.0.remove(whose).unwrap_or_default()
    }

    fn count(&self, which: impl Fn(&Files) -> usize) -> usize {
        self.0.values().map(which).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use nix::fcntl::open;
    use nix::sys::stat::{Mode, fstat};
    use nix::unistd::mkfifo;

    use super::*;
    use crate::fixture::Workspace;

    fn made(workspace: &Workspace, names: std::ops::Range<usize>) -> Vec<OwnedFd> {
        let make = |name: usize| File::create(workspace.at(&name.to_string())).unwrap().into();
        names.map(make).collect()
    }

    fn some(workspace: &Workspace, names: std::ops::Range<usize>) -> Vec<Written> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let written = |(name, file): (usize, OwnedFd)| Written {
            directory: open(&workspace.at("."), flags, Mode::empty()).unwrap(),
            key: (0, 0, name.to_string().into_bytes()),
            file: numbers(&fstat(&file).unwrap()),
        };
        names.clone().zip(made(workspace, names)).map(written).collect()
    }

    #[test]
    fn what_was_replaced_has_its_name_no_more() {
        let workspace = Workspace::new();
        let files = some(&workspace, 0..3);
        std::fs::write(workspace.at("0"), "text").unwrap();
        let number = |file: &Written| file.open().map(|file| fstat(&file).unwrap().st_ino);
        assert_eq!(number(&files[0]), Some(files[0].file.1));
        std::fs::rename(workspace.at("0"), workspace.at("1")).unwrap();
        assert_eq!(
            files.iter().map(|file| file.open().is_some()).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(still_named(files).len(), 1);
    }

    #[test]
    fn what_has_the_name_and_number_of_a_file_and_is_none_is_not_opened() {
        let workspace = Workspace::new();
        mkfifo(&workspace.at("0"), Mode::S_IRWXU).unwrap();
        let stat = nix::sys::stat::stat(&workspace.at("0")).unwrap();
        let written = Written { file: numbers(&stat), ..some(&workspace, 1..2).remove(0) };
        let written = Written { key: (0, 0, b"0".to_vec()), ..written };
        assert!(written.is_there() && written.open().is_none());
    }

    #[test]
    fn of_one_name_only_the_last_is_kept() {
        let workspace = Workspace::new();
        let mut gathered = Gathered::default();
        gathered.add('a', some(&workspace, 0..4));
        let again = some(&workspace, 2..6);
        assert_eq!(gathered.replaced_by(&'b', &again).len(), 0);
        assert_eq!(gathered.replaced_by(&'a', &again).len(), 2);
        gathered.add('a', again);
        assert_eq!(gathered.take(&'a').written.len(), 6);
    }

    #[test]
    fn who_gathers_first_is_come_for_and_no_more_are_gathered_than_there_may_be() {
        let workspace = Workspace::new();
        let mut gathered = Gathered::default();
        assert!(matches!(gathered.add('a', some(&workspace, 0..1)), Next::Take));
        assert!(matches!(gathered.add('a', some(&workspace, 1..4)), Next::Wait));
        assert!(matches!(gathered.add('b', some(&workspace, 4..MANY)), Next::Take));
        assert_eq!(gathered.count(|of| of.written.len()), MANY);
        let Next::Look(of_a) = gathered.add('a', some(&workspace, 0..1)) else { panic!() };
        assert_eq!((of_a.len(), gathered.count(|of| of.written.len())), (5, MANY - 4));
        assert_eq!(gathered.put_back(&'a', of_a).len(), 5, "there is no room");
        assert_eq!(gathered.take(&'b').written.len(), MANY - 4);
        assert_eq!(gathered.put_back(&'a', some(&workspace, 0..5)).len(), 0);
        assert_eq!(gathered.take(&'a').written.len(), 5);
        assert_eq!(gathered.put_back(&'a', some(&workspace, 0..1)).len(), 1, "nobody takes it");
        assert_eq!(gathered.count(|of| of.written.len()), 0);
    }
    #[test]
    fn what_was_replaced_is_closed_by_who_comes_and_no_more_is_kept_than_there_may_be() {
        let workspace = Workspace::new();
        let mut gathered = Gathered::default();
        assert_eq!(gathered.add_replaced(&'a', made(&workspace, 0..1)).len(), 1, "nobody comes");
        assert!(matches!(gathered.add('a', some(&workspace, 0..1)), Next::Take));
        assert!(gathered.add_replaced(&'a', made(&workspace, 0..MANY)).is_empty());
        assert_eq!(gathered.add_replaced(&'a', made(&workspace, 0..1)).len(), 1, "too many");
        assert!(matches!(gathered.add('b', some(&workspace, 0..1)), Next::Take));
        assert_eq!(gathered.add_replaced(&'b', made(&workspace, 0..1)).len(), 1, "too many");
        assert_eq!(gathered.take(&'a').replaced.len(), MANY);
        assert!(gathered.add_replaced(&'b', made(&workspace, 0..1)).is_empty());
    }
}

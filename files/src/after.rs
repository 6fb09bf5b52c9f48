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
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::stat::fstat;

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
    pub written: Vec<OwnedFd>,
    /// The last of files that were replaced, to be closed.
    pub replaced: Vec<OwnedFd>,
    closed: Vec<OwnedFd>,
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

/// It is to be written out, and closed.
pub(crate) fn write_out(file: impl Into<OwnedFd>) {
    let file = file.into();
    LEFT.with_borrow_mut(|left| {
        if left.written.len() < MOST {
            left.written.push(file);
        }
    });
}

/// Those that have a name still. The others were replaced meanwhile: they are closed, and
/// what has no place on the disk by then never gets one.
pub fn still_named(files: Vec<OwnedFd>) -> Vec<OwnedFd> {
    let named = |file: &OwnedFd| fstat(file).map_or(true, |stat| stat.st_nlink > 0);
    files.into_iter().filter(named).collect()
}

/// What is to be done later, of each caller.
#[derive(Debug)]
pub struct Gathered<Whose>(HashMap<Whose, Files>);

/// Of one.
#[derive(Debug, Default)]
pub struct Files {
    /// To be written out.
    pub written: Vec<OwnedFd>,
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
    Look(Vec<OwnedFd>),
}

impl<Whose> Default for Gathered<Whose> {
    fn default() -> Gathered<Whose> {
        Gathered(HashMap::new())
    }
}

impl<Whose: Eq + Hash> Gathered<Whose> {
    /// Adds what is to be written out.
    pub fn add(&mut self, whose: Whose, written: Vec<OwnedFd>) -> Next {
        if self.count(|of| &of.written) + written.len() > MANY {
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
        let fits = self.count(|of| &of.replaced) + replaced.len() <= MANY;
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
    pub fn put_back(&mut self, whose: &Whose, written: Vec<OwnedFd>) -> Vec<OwnedFd> {
        let fits = self.count(|of| &of.written) + written.len() <= MANY / 4 * 3;
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

    fn count(&self, which: impl Fn(&Files) -> &Vec<OwnedFd>) -> usize {
        self.0.values().map(|of| which(of).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::fixture::Workspace;

    fn some(workspace: &Workspace, names: std::ops::Range<usize>) -> Vec<OwnedFd> {
        let make = |name: usize| File::create(workspace.at(&name.to_string())).unwrap().into();
        names.map(make).collect()
    }

    #[test]
    fn what_was_replaced_has_no_name_any_more() {
        let workspace = Workspace::new();
        let files = some(&workspace, 0..3);
        std::fs::rename(workspace.at("0"), workspace.at("1")).unwrap();
        assert_eq!(still_named(files).len(), 2);
    }

    #[test]
    fn who_gathers_first_is_come_for_and_no_more_are_gathered_than_there_may_be() {
        let workspace = Workspace::new();
        let mut gathered = Gathered::default();
        assert!(matches!(gathered.add('a', some(&workspace, 0..1)), Next::Take));
        assert!(matches!(gathered.add('a', some(&workspace, 1..4)), Next::Wait));
        assert!(matches!(gathered.add('b', some(&workspace, 4..MANY)), Next::Take));
        assert_eq!(gathered.count(|of| &of.written), MANY);
        let Next::Look(of_a) = gathered.add('a', some(&workspace, 0..1)) else { panic!() };
        assert_eq!((of_a.len(), gathered.count(|of| &of.written)), (5, MANY - 4));
        assert_eq!(gathered.put_back(&'a', of_a).len(), 5, "there is no room");
        assert_eq!(gathered.take(&'b').written.len(), MANY - 4);
        assert_eq!(gathered.put_back(&'a', some(&workspace, 0..5)).len(), 0);
        assert_eq!(gathered.take(&'a').written.len(), 5);
        assert_eq!(gathered.put_back(&'a', some(&workspace, 0..1)).len(), 1, "nobody takes it");
        assert_eq!(gathered.count(|of| &of.written), 0);
    }
    #[test]
    fn what_was_replaced_is_closed_by_who_comes_and_no_more_is_kept_than_there_may_be() {
        let workspace = Workspace::new();
        let mut gathered = Gathered::default();
        assert_eq!(gathered.add_replaced(&'a', some(&workspace, 0..1)).len(), 1, "nobody comes");
        assert!(matches!(gathered.add('a', some(&workspace, 0..1)), Next::Take));
        assert!(gathered.add_replaced(&'a', some(&workspace, 0..MANY)).is_empty());
        assert_eq!(gathered.add_replaced(&'a', some(&workspace, 0..1)).len(), 1, "too many");
        assert!(matches!(gathered.add('b', some(&workspace, 0..1)), Next::Take));
        assert_eq!(gathered.add_replaced(&'b', some(&workspace, 0..1)).len(), 1, "too many");
        assert_eq!(gathered.take(&'a').replaced.len(), MANY);
        assert!(gathered.add_replaced(&'b', some(&workspace, 0..1)).is_empty());
    }
}

//! A thread of a search by name.
//!
//! Owns: matching names and telling of files. A file is looked at only where it is a
//! result. Must not: open one.

use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};
use serde_json::Value;

use super::pattern::Named;
use super::{File, Found, Search, Searching, Tally, give};
use crate::best::Best;
use crate::shown::Bytes;
use crate::walk::{self, Kind, Visit, What};
use crate::when;

pub(super) struct Names<'a> {
    search: &'a Search,
    names: &'a Named,
    best: &'a Best<Found>,
    give: Option<SyncSender<Value>>,
    tally: Tally,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        search: &'a Search,
        names: &'a Named,
        best: &'a Best<Found>,
        give: Option<SyncSender<Value>>,
    ) -> Names<'a> {
        Names { search, names, best, give, tally: Tally::default() }
    }

    fn wants(&mut self, path: &[u8]) -> bool {
        let below = self.search.below(path);
        self.tally.searched += 1;
        self.names.is(below) && self.search.filter.takes(below)
    }

    fn offer(&mut self, path: &[u8], stat: impl FnOnce() -> Option<FileStat>) -> ControlFlow<()> {
        let mut value = None;
        let offered = self.best.offer(path, 0, || {
            let stat = stat().filter(|stat| Kind::of(stat.st_mode) == Kind::File)?;
            let file = Found::File(File {
                path: Bytes(self.search.start.show(path)),
                size: u64::try_from(stat.st_size).unwrap_or(0),
                mtime: when::modified(&stat),
            });
            value = self.give.as_ref().and_then(|_| serde_json::to_value(&file).ok());
            Some(file)
        });
        match offered {
            ControlFlow::Continue(kept) => {
                give(self.give.as_ref().filter(|_| kept), value);
                ControlFlow::Continue(())
            }
            ControlFlow::Break(()) => ControlFlow::Break(()),
        }
    }
}

impl Visit for Names<'_> {
    fn enter(&mut self, path: &[u8]) -> bool {
        self.search.enters(path, self.best)
    }

    fn found(&mut self, found: &walk::Found<'_>) -> ControlFlow<()> {
        if found.kind != Kind::File || !self.wants(found.path) {
            return ControlFlow::Continue(());
        }
        let stat = || fstatat(found.directory, found.name, AtFlags::AT_SYMLINK_NOFOLLOW).ok();
        self.offer(found.path, stat)
    }
}

impl Searching for Names<'_> {
    fn one(&mut self, file: &What, path: &[u8]) {
        if let What::File(_, _, stat) = file
            && self.wants(path)
        {
            // There is no other result to stop for.
            self.offer(path, || Some(**stat)).is_break();
        }
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

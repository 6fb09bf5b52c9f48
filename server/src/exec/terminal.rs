//! A call's terminals, as the server has them: ptys.
//!
//! Owns: making them, and which ends go where. Must not: read or write a terminal,
//! or keep its master: whoever relays can hang it up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use tool_protocol::Terminal as Wanted;

use crate::os::terminal::Pair;

/// The terminals of a call before anything runs.
#[derive(Debug)]
pub(crate) struct Laid {
    /// In the order in which they were asked for.
    pairs: Vec<(Pair, Wanted)>,
}

impl Laid {
    /// Makes them.
    pub(crate) fn new(wanted: &[Wanted]) -> Result<Laid, Errno> {
        let pairs = wanted.iter().map(|wanted| Ok((Pair::new(wanted)?, wanted.clone())));
        Ok(Laid { pairs: pairs.collect::<Result<Vec<_>, Errno>>()? })
    }

    /// The one that controls the tool's session, and whether the tool begins in its
    /// foreground.
    pub(crate) fn controlling(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let mut pairs = self.pairs.iter();
        let (pair, wanted) = pairs.find(|(_, wanted)| wanted.controlling)?;
        Some((pair.slave.as_fd(), wanted.foreground))
    }

    /// What the tool has of them.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, RawFd)> {
        self.pairs.iter().flat_map(|(pair, wanted)| {
            let numbers = wanted.fds.iter().filter_map(|number| RawFd::try_from(*number).ok());
            numbers.map(|number| (pair.slave.as_fd(), number))
        })
    }

    /// What stays here once the process runs: its ends are closed.
    pub(crate) fn keep_ours(self) -> Vec<OwnedFd> {
        self.pairs.into_iter().map(|(pair, _)| pair.master).collect()
    }
}

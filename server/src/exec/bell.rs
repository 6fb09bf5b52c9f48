//! A descriptor that every process of a call has and can ask something by, whatever
//! else it may not do: no socket is made, no name is looked up. What comes by it is
//! handed to whoever listens; nothing of it is read here.
//!
//! Owns: both ends, until the call is over. Must not: know what is said.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram as StdDatagram;

use tokio::io::Interest;
use tokio::net::{UnixDatagram, UnixStream};
use tokio::runtime::Handle;
use tool_protocol::limits::MAX_FD;

use super::stranger::{Queue, Stranger};
use crate::os::bell;

/// The bell of one call, part of its plan.
#[derive(Debug)]
pub(crate) struct Bell {
    ours: Queue<StdDatagram>,
    theirs: StdDatagram,
    number: RawFd,
}

impl Bell {
    /// Under the highest number that the call's own descriptors leave free: programs
    /// give and close low ones.
    pub(crate) fn new(taken: &[RawFd]) -> io::Result<Bell> {
        let highest = bell::highest(RawFd::try_from(MAX_FD).unwrap_or(RawFd::MAX));
        let free = (3..=highest).rev().find(|number| !taken.contains(number));
        let number = free.ok_or(io::ErrorKind::ResourceBusy)?;
        let (ours, theirs) = bell::pair()?;
        Ok(Bell { ours: Queue::new(ours, |ours| Some(ours.into())), theirs, number })
    }

    /// What the tool has it under.
    pub(crate) fn number(&self) -> RawFd {
        self.number
    }

    /// What the tool gets.
    pub(super) fn theirs(&self) -> (BorrowedFd<'_>, RawFd) {
        (self.theirs.as_fd(), self.number)
    }

    /// Who rings from now on.
    pub(crate) fn rings(&self, runtime: &Handle) -> io::Result<Rings> {
        // The call may have been started by a thread that is not the runtime's.
        let _entered = runtime.enter();
        let ours = self.ours.get()?.try_clone()?;
        let ours = UnixDatagram::from_std(ours)?;
        Ok(Rings(Queue::new(ours, |ours| ours.into_std().ok().map(OwnedFd::from))))
    }
}

/// Who rings.
#[derive(Debug)]
pub(crate) struct Rings(Queue<UnixDatagram>);

impl Rings {
    /// The next one; `None` where the bell is broken.
    pub(crate) async fn next(&self) -> Option<Stranger> {
        let ours = self.0.get().ok()?;
        loop {
            let heard = ours.async_io(Interest::READABLE, || bell::hear(ours.as_fd())).await;
            // One that is no connection is nobody.
            if let Some(stream) = heard.ok()?
                && let Ok(stream) = UnixStream::from_std(stream)
            {
                return Some(Stranger::shared(stream));
            }
        }
    }
}

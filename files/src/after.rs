//! What is done once an answer is on its way.
//!
//! Owns: files that a thread has done with and not closed, and those among them that are to
//! be written out. To close the last descriptor of a file that was replaced is to remove it
//! from the disk, and to write one out is to wake the disk: either takes longer than an edit,
//! and who asked for it need not wait. Must not: keep them beyond the work of their thread
//! ([`left`] is called after each; a thread that does not call it closes them at its end).

use std::cell::RefCell;
use std::os::fd::OwnedFd;

/// More than this many are not left.
const MOST: usize = 64;

/// What a thread has left to do.
#[derive(Debug, Default)]
pub struct Left {
    /// To be written out, begun and not waited for: they replaced something.
    pub written: Vec<OwnedFd>,
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

/// It is to be written out, and closed.
pub(crate) fn write_out(file: impl Into<OwnedFd>) {
    let file = file.into();
    LEFT.with_borrow_mut(|left| {
        if left.written.len() < MOST {
            left.written.push(file);
        }
    });
}

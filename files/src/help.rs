//! Another thread's help, for a part of what one has to do.
//!
//! Owns: whom a thread that works on files asks. Must not: start a thread, wait for one, or be
//! needed: who asks does all of it where nobody comes.

use std::sync::OnceLock;

/// A part of some work, which may block as the whole does. Nothing is lost with one that is
/// dropped.
pub type Part = Box<dyn FnOnce() + Send>;

/// Gives a part to a thread that has nothing else to do, and says whether it did. Nothing is
/// made where there is none.
pub type Asked = fn(make: &mut dyn FnMut() -> Part) -> bool;

static ASKED: OnceLock<Asked> = OnceLock::new();

/// Who asks for help asks there from now on. Said once, for the process.
pub fn ask_through(asked: Asked) {
    // Who is said a second time is the same.
    ASKED.set(asked).ok();
}

/// Has another thread do what that makes, if one is free; whether one comes.
pub(crate) fn ask(mut make: impl FnMut() -> Part) -> bool {
    ASKED.get().is_some_and(|asked| asked(&mut make))
}

//! The signals that are handed on to the tool: their names, and how they wait
//! until the call has time for them.
//!
//! Must not: hand on what whoever started the client had ignored or blocked
//! (nohup, a background job of a shell without job control).

use crate::os::{self, Fd};
use tool_wire::json::Text;

pub(crate) const HUP: u8 = 1;
pub(crate) const INT: u8 = 2;
pub(crate) const QUIT: u8 = 3;
const USR1: u8 = 10;
const USR2: u8 = 12;
pub(crate) const PIPE: u8 = 13;
const TERM: u8 = 15;
pub(crate) const CONT: u8 = 18;
pub(crate) const TSTP: u8 = 20;
pub(crate) const TTIN: u8 = 21;
pub(crate) const TTOU: u8 = 22;
pub(crate) const WINCH: u8 = 28;

/// Their names, by their numbers from 1: both machines have the same. Those that
/// nobody names here are dashes.
const NAMES: &str = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM \
    STKFLT - CONT STOP TSTP TTIN TTOU - XCPU XFSZ VTALRM PROF WINCH IO PWR SYS";

/// What is handed on.
const SET: u64 = bit(HUP)
    | bit(INT)
    | bit(QUIT)
    | bit(USR1)
    | bit(USR2)
    | bit(TERM)
    | bit(CONT)
    | bit(TSTP)
    | bit(WINCH);

const fn bit(signal: u8) -> u64 {
    1 << (signal - 1)
}

/// The signals of this process during a call.
pub(crate) struct Signals {
    /// What was blocked at the start, once more is.
    before: Option<u64>,
    /// Those that the client blocked itself, to hand them on.
    ours: u64,
    /// What they are read from, once somebody looks.
    fd: Option<Fd>,
}

impl Signals {
    pub(crate) fn new() -> Signals {
        Signals { before: None, ours: 0, fd: None }
    }

    /// Lets them wait from now on; that a reader went away becomes an error.
    pub(crate) fn block(&mut self) {
        if self.before.is_none() {
            let before = os::block(SET | bit(PIPE));
            self.before = Some(before);
            self.ours = SET & !before;
        }
    }

    /// What was blocked at the start: for waits that a signal may still end.
    pub(crate) fn before(&self) -> Option<&u64> {
        self.before.as_ref()
    }

    /// Those that the client blocked itself.
    pub(crate) fn ours(&self) -> u64 {
        self.ours
    }

    /// Makes a place where they can be waited for and read. Where no descriptor is
    /// left for that, they do what they would do without the client.
    pub(crate) fn open(&mut self) {
        if self.fd.is_none() && self.ours != 0 {
            self.fd = os::signal_descriptor(self.ours).ok();
            if self.fd.is_none() {
                os::unblock(self.ours);
                self.ours = 0;
            }
        }
    }

    pub(crate) fn fd(&self) -> Option<Fd> {
        self.fd
    }

    /// The next one that came.
    pub(crate) fn next(&self) -> Option<u8> {
        self.fd.and_then(os::next_signal)
    }

    /// Whether a reader that went away is to end the client: it would have, had
    /// the signal not been blocked here.
    pub(crate) fn ends_by_pipe(&self) -> bool {
        self.before.is_some_and(|before| before & bit(PIPE) == 0) && !os::ignored(PIPE)
    }
}

fn names() -> impl Iterator<Item = &'static [u8]> {
    NAMES.as_bytes().split(|byte| *byte == b' ')
}

/// The name of a signal.
pub(crate) fn name(signal: u8) -> &'static [u8] {
    names().nth(usize::from(signal).saturating_sub(1)).unwrap_or_default()
}

/// Whether that signal ends a program that does nothing about it.
pub(crate) fn ends(signal: u8) -> bool {
    !matches!(signal, CONT..=TTOU | WINCH)
}

/// The signal of this name.
pub(crate) fn named(name: Text<'_>) -> Option<u8> {
    let at = names().position(|known| known != b"-" && name.is_bytes(known))?;
    u8::try_from(at).ok()?.checked_add(1)
}

//! The relay between one of the caller's terminals and the tool's, whose master
//! the server passed: keys one way, output the other.
//!
//! Nothing here waits for one side. Must not: read keys that the tool has no
//! right to, or change what passes beyond what its two terminals do: it is the
//! tool's, byte for byte.

use crate::os::{self, Errno, Fd, Modes, Poll};
use crate::signals;
use crate::terminal::{Terminal, flag};
use core::ops::Range;

/// What is read at once: of output, of keys.
const PIECE: usize = 16_384;
const KEYS: usize = 4_096;

/// The relay, and what is on its way in either direction.
pub(crate) struct Pty {
    master: Fd,
    keys: [u8; KEYS],
    typed: Range<usize>,
    screen: [u8; PIECE],
    shown: Range<usize>,
    /// The caller's terminal is gone, or not to be read.
    deaf: bool,
    /// Output has nowhere to go any more.
    blind: bool,
    /// The tool has closed its side for now; it may open it again.
    resting: bool,
    /// The caller's terminal is gone, and the tool's follows when the server has
    /// handed on what it was sent before: the signal that says so among it.
    ending: bool,
}

impl Pty {
    pub(crate) const NONE: Pty = Pty {
        master: 0,
        keys: [0; KEYS],
        typed: 0..0,
        screen: [0; PIECE],
        shown: 0..0,
        deaf: false,
        blind: false,
        resting: false,
        ending: false,
    };

    /// Relays to that master from now on.
    pub(crate) fn open(&mut self, master: Fd) {
        self.master = master;
    }

    /// Whether it is to be looked at again soon, whatever happens.
    pub(crate) fn rests(&self) -> bool {
        self.resting
    }

    /// What to wait for: keys, the master, the screen. `listens` where keys may go
    /// to the tool now.
    pub(crate) fn polls(&self, terminal: &Terminal, listens: bool) -> [Poll; 3] {
        let takes = self.shown.is_empty() && !self.resting;
        let master = if takes { Poll::READ } else { 0 }
            | if self.typed.is_empty() { 0 } else { Poll::WRITE };
        let keys = if self.deaf || !self.typed.is_empty() {
            Poll::new(-1, 0)
        } else if listens && terminal.held {
            Poll::new(terminal.input, Poll::READ)
        } else if terminal.controlling {
            Poll::new(-1, 0)
        } else {
            // Nothing, but whether it is gone.
            Poll::of(terminal.input)
        };
        [keys, Poll::new(self.master, master), self.screen_poll(terminal)]
    }

    /// What to wait for to show more.
    pub(crate) fn screen_poll(&self, terminal: &Terminal) -> Poll {
        Poll::new(terminal.output, if self.shown.is_empty() { 0 } else { Poll::WRITE })
    }

    /// Moves what can be moved; whether it is to end from now on.
    pub(crate) fn step(&mut self, polls: &[Poll; 3], terminal: &Terminal) -> bool {
        let [keys, master, screen] = polls;
        self.resting = false;
        let gone = if keys.is(Poll::READ) {
            match os::read(terminal.input, &mut self.keys) {
                Ok(count @ 1..) => {
                    self.typed = 0..count;
                    if terminal.raw {
                        self.signal_others();
                    }
                    false
                }
                // Another reader of the same terminal was faster.
                Err(Errno::EAGAIN) => false,
                Ok(0) | Err(_) => true,
            }
        } else {
            keys.has_hung_up()
        };
        if master.is(Poll::WRITE) {
            self.type_some();
        }
        if master.is(Poll::READ) {
            self.take_output(terminal);
        }
        if screen.is(Poll::WRITE) {
            self.show(terminal);
        }
        gone && self.hang_up(terminal)
    }

    /// Keys that send signals reach all that the shell started together with the
    /// client, as they would from the terminal itself.
    fn signal_others(&self) {
        let Ok(Modes { flags: [_, _, _, local], chars: [interrupt, quit, ..], .. }) =
            os::modes(self.master)
        else {
            return;
        };
        let keys = self.keys.get(self.typed.clone()).unwrap_or_default();
        for (key, signal) in [(interrupt, signals::INT), (quit, signals::QUIT)] {
            // 0 stands for no key.
            if local & flag::ISIG != 0 && key != 0 && keys.contains(&key) {
                os::signal_others(signal);
            }
        }
    }

    /// The caller's terminal is gone, and so is the tool's (true), once what the
    /// server was sent before has reached the tool.
    fn hang_up(&mut self, terminal: &Terminal) -> bool {
        if terminal.controlling && os::ignored(signals::HUP) {
            // It goes on without: it would be ended by what the caller ignores.
            self.end_keys(terminal.end_of_input());
        } else {
            (self.deaf, self.ending) = (true, true);
        }
        self.ending
    }

    /// What the server was sent has reached the tool. Closing the master hangs the
    /// tool's terminal up.
    pub(crate) fn settled(&mut self) {
        if self.ending {
            os::close(self.master);
            (self.master, self.ending) = (-1, false);
        }
    }

    /// No more keys come. A tool that waits for some is told so, as it would be
    /// by the terminal.
    pub(crate) fn end_keys(&mut self, end_of_input: u8) {
        if !self.deaf
            && let Some(place) = self.keys.first_mut()
        {
            *place = end_of_input;
            self.typed = 0..1;
        }
        self.deaf = true;
    }

    fn type_some(&mut self) {
        let bytes = self.keys.get(self.typed.clone()).unwrap_or_default();
        match os::write(self.master, bytes) {
            Ok(count) => self.typed.start = self.typed.start.wrapping_add(count),
            Err(Errno::EAGAIN) => {}
            // Nobody has the other side open: nobody will read them.
            Err(_) => self.typed = 0..0,
        }
    }

    /// Takes what the tool has written, if there is room; how much it was.
    pub(crate) fn take_output(&mut self, terminal: &Terminal) -> usize {
        if !self.shown.is_empty() || self.master < 0 {
            return 0;
        }
        match os::read(self.master, &mut self.screen) {
            Ok(count @ 1..) => {
                if !self.blind {
                    let bytes = self.screen.get_mut(..count).unwrap_or_default();
                    self.shown = 0..terminal.untreat(bytes);
                }
                return count;
            }
            Err(Errno::EAGAIN) => {}
            // The tool has closed it everywhere.
            Ok(0) | Err(_) => self.resting = true,
        }
        0
    }

    /// Shows some of it.
    pub(crate) fn show(&mut self, terminal: &Terminal) {
        let bytes = self.screen.get(self.shown.clone()).unwrap_or_default();
        match os::write(terminal.output, bytes) {
            Ok(count) => self.shown.start = self.shown.start.wrapping_add(count),
            Err(Errno::EAGAIN) => {}
            // The terminal is gone. The tool is not held by that.
            Err(_) => {
                self.blind = true;
                self.shown = 0..0;
            }
        }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.shown.is_empty()
    }

    /// Gives the tool's terminal the size of the caller's.
    pub(crate) fn resize(&self, terminal: &Terminal) {
        if let Some(window) = terminal.window() {
            os::set_window(self.master, window);
        }
    }
}

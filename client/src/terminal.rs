//! The caller's terminals: which of the descriptors they are, what the tool's own
//! begin with, and when one is given up to the tool.
//!
//! The controlling one has two ways. Where input and output both are that terminal
//! and this is its foreground, the tool has it from the start: no mode is left that
//! does anything to what passes, and the tool's terminal does it all. Else
//! (`tool | less`, `tool &`) it stays as it is, and nothing is read from it until
//! the tool asks. One that controls nobody here is read from the start if it is the
//! input, and never if it is only output: others may read there.
//!
//! Must not: change a terminal in whose foreground another group is, or read one
//! that the tool did not ask for.

use crate::descriptors::{Descriptors, Set};
use crate::os::{self, Fd, Modes, Window};
use tool_wire::json::Writer;

/// The flags of struct termios that are needed here.
pub(crate) mod flag {
    pub(super) const IGNBRK: u32 = 0o1;
    pub(super) const BRKINT: u32 = 0o2;
    pub(super) const PARMRK: u32 = 0o10;
    pub(super) const ISTRIP: u32 = 0o40;
    pub(super) const INLCR: u32 = 0o100;
    pub(super) const IGNCR: u32 = 0o200;
    pub(super) const ICRNL: u32 = 0o400;
    pub(super) const IXON: u32 = 0o2000;
    pub(super) const OPOST: u32 = 0o1;
    pub(super) const ONLCR: u32 = 0o4;
    pub(crate) const ISIG: u32 = 0o1;
    pub(super) const ICANON: u32 = 0o2;
    pub(super) const ECHO: u32 = 0o10;
    pub(super) const ECHONL: u32 = 0o100;
    pub(super) const IEXTEN: u32 = 0o100_000;
}

/// Where the client stands to its terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It may read it and set it.
    Front,
    /// Others may.
    Behind,
    /// There is no terminal any more.
    Gone,
}

/// One of the caller's terminals.
pub(crate) struct Terminal {
    /// The caller's descriptors that are this one.
    pub(crate) fds: Set,
    /// Which one it is.
    device: u32,
    /// It is the one that controls the caller.
    pub(crate) controlling: bool,
    /// Where it is read, asked and set.
    pub(crate) input: Fd,
    /// Where it is written.
    pub(crate) output: Fd,
    /// 0 and 1 both are this one.
    whole: bool,
    /// The tool has it.
    pub(crate) held: bool,
    /// Keys that send signals go to the tool as they are, when it has it.
    pub(crate) raw: bool,
    /// How it was at the start.
    modes: Modes,
}

impl Terminal {
    pub(crate) const NONE: Terminal = Terminal {
        fds: Set::NONE,
        device: 0,
        controlling: false,
        input: 0,
        output: 0,
        whole: false,
        held: false,
        raw: false,
        modes: Modes::NONE,
    };

    /// The different terminals among the descriptors, by their first ones, at the
    /// start of `list`. Those beyond its end are left out.
    pub(crate) fn look<'a>(
        descriptors: &Descriptors,
        list: &'a mut [Terminal],
    ) -> &'a mut [Terminal] {
        let mut count = 0_usize;
        for fd in descriptors.terminals.iter() {
            Terminal::sort(fd, list, &mut count);
        }
        let found = list.get_mut(..count).unwrap_or_default();
        for terminal in &mut *found {
            terminal.arrange();
        }
        found
    }

    /// Adds the descriptor to its terminal.
    fn sort(fd: Fd, list: &mut [Terminal], count: &mut usize) {
        let device = os::device(fd).unwrap_or_default();
        for (at, terminal) in list.iter_mut().enumerate() {
            if at == *count {
                *count = at.wrapping_add(1);
                (terminal.input, terminal.device) = (fd, device);
            }
            if terminal.device == device {
                return terminal.fds.add(fd);
            }
        }
    }

    /// Finds out how it stands. Apart from the rest: most calls have none.
    #[inline(never)]
    fn arrange(&mut self) {
        let first = self.input;
        self.output = [1, 2].into_iter().find(|fd| self.fds.has(*fd)).unwrap_or(first);
        self.whole = first == 0 && self.output == 1;
        let front = os::in_foreground(first);
        self.controlling = front.is_ok();
        self.held = front.map_or(first == 0, |front| front && self.whole);
        self.modes = os::modes(first).unwrap_or(Modes::NONE);
        let [input, output, _, local] = &mut self.modes.flags;
        if self.controlling && !self.held && *local & flag::ICANON == 0 {
            // Somebody edits a line or shows a page there, such as the shell that
            // started this behind its prompt, or another client has it for its
            // tool. It will undo what it does before this tool ever has the terminal.
            *input |= flag::ICRNL;
            *output |= flag::OPOST;
            *local |= flag::ICANON | flag::ECHO | flag::ISIG | flag::IEXTEN;
        }
    }

    /// Writes what describes it, with those of its descriptors up to `most`.
    #[inline(never)]
    pub(crate) fn describe(&self, most: Fd, writer: &mut Writer<'_>) {
        let Modes { flags, chars, .. } = self.modes;
        let fds = self.fds.iter().take_while(|fd| *fd <= most);
        writer.raw(b"{\"fds\":[");
        list(&mut fds.map(i32::unsigned_abs), writer);
        writer.raw(b"],");
        size(self.window().unwrap_or_default(), writer);
        for (name, value) in [(FOREGROUND, self.held), (CONTROLLING, self.controlling)] {
            writer.raw(name);
            writer.raw(if value { b"true" } else { b"false" });
        }
        writer.raw(b",\"modes\":[");
        list(&mut flags.into_iter(), writer);
        writer.raw(b"],\"chars\":[");
        list(&mut chars.into_iter().map(u32::from), writer);
        writer.raw(b"]}");
    }

    /// Opens it anew where that is possible: what is read and written here does
    /// not wait.
    pub(crate) fn open(&mut self) {
        if let Some(fd) = os::reopen(self.input) {
            (self.input, self.output) = (fd, fd);
        }
    }

    /// Its size, as long as it is there.
    pub(crate) fn window(&self) -> Option<Window> {
        os::window(self.input).ok()
    }

    /// Where the client stands.
    pub(crate) fn place(&self) -> Place {
        match os::in_foreground(self.input) {
            Ok(true) => Place::Front,
            Ok(false) => Place::Behind,
            Err(_) => Place::Gone,
        }
    }

    /// The character that ends input, as it was at the start.
    pub(crate) fn end_of_input(&self) -> u8 {
        const VEOF: usize = 4;
        self.modes.chars.get(VEOF).copied().unwrap_or(4)
    }

    /// Gives it to the tool, until it is restored. Where both directions are its,
    /// nothing is done any more to what passes; else output stays the caller's:
    /// others may write there too. So do keys that send signals where nobody can
    /// see what the tool's terminal would do with them: `seen` tells.
    pub(crate) fn take(&mut self, seen: bool) {
        // Where it is changed already, others may have changed it since.
        let before = os::changed(self.input).or_else(|| os::modes(self.input).ok());
        let Some(before) = before else { return };
        let mut to = before;
        let [input, output, _, local] = &mut to.flags;
        *input &= !(flag::ISTRIP | flag::INLCR | flag::IGNCR | flag::ICRNL);
        *local &= !(flag::ECHO | flag::ECHONL | flag::ICANON);
        self.held = true;
        self.raw = self.controlling && (seen || self.whole);
        if self.raw {
            *input &= !(flag::IGNBRK | flag::BRKINT | flag::PARMRK | flag::IXON);
            *local &= !(flag::ISIG | flag::IEXTEN);
            if self.whole {
                *output &= !flag::OPOST;
            }
        }
        let [_, _, _, _, _, time, least, ..] = &mut to.chars;
        (*time, *least) = (0, 1);
        os::change(self.input, &before, &to);
    }

    /// Makes bytes that the tool's terminal has treated ready for this one: where
    /// it puts a carriage return before each new line itself, the tool's is taken
    /// away. How many are left.
    pub(crate) fn untreat(&self, bytes: &mut [u8]) -> usize {
        const TREATS: u32 = flag::OPOST | flag::ONLCR;
        let treats = os::modes(self.output)
            .is_ok_and(|Modes { flags: [_, output, ..], .. }| output & TREATS == TREATS);
        let mut count = 0_usize;
        for at in 0..bytes.len() {
            let next = bytes.get(at.wrapping_add(1)).copied();
            let byte = bytes.get(at).copied().unwrap_or_default();
            if treats && byte == b'\r' && next == Some(b'\n') {
                continue;
            }
            if let Some(place) = bytes.get_mut(count) {
                *place = byte;
            }
            count = count.wrapping_add(1);
        }
        count
    }
}

const FOREGROUND: &[u8] = b",\"foreground\":";
const CONTROLLING: &[u8] = b",\"controlling\":";

/// Writes the members that tell a size.
pub(crate) fn size([rows, cols, ..]: Window, writer: &mut Writer<'_>) {
    writer.raw(b"\"rows\":");
    writer.number(rows.into());
    writer.raw(b",\"cols\":");
    writer.number(cols.into());
}

/// Writes the items of a list of numbers.
pub(crate) fn list(numbers: &mut dyn Iterator<Item = u32>, writer: &mut Writer<'_>) {
    for (at, number) in numbers.enumerate() {
        if at > 0 {
            writer.raw(b",");
        }
        writer.number(number);
    }
}

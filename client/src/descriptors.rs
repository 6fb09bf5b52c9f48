//! The caller's descriptors: which are open, which of them are terminals. Those
//! that are no terminal are passed to the tool, each with its number.
//!
//! Must not: count a descriptor that the client opened itself: the look comes
//! before anything is opened.

use crate::os::{self, Fd};
use tool_wire::limits::MAX_FDS;

/// Numbers of descriptors, 0 to 1023.
pub(crate) struct Set([u64; 16]);

impl Set {
    pub(crate) const NONE: Set = Set([0; 16]);

    fn place(&mut self, fd: Fd) -> Option<(&mut u64, u64)> {
        let word = self.0.get_mut(usize::try_from(fd / 64).ok()?)?;
        Some((word, 1_u64.rotate_left(u32::try_from(fd % 64).ok()?)))
    }

    pub(crate) fn add(&mut self, fd: Fd) {
        if let Some((word, bit)) = self.place(fd) {
            *word |= bit;
        }
    }

    fn remove(&mut self, fd: Fd) {
        if let Some((word, bit)) = self.place(fd) {
            *word &= !bit;
        }
    }

    pub(crate) fn has(&self, fd: Fd) -> bool {
        let word = usize::try_from(fd / 64).ok().and_then(|at| self.0.get(at));
        word.is_some_and(|word| word.rotate_right(fd.unsigned_abs() % 64) & 1 == 1)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> Numbers<'_> {
        Numbers { set: self, next: 0 }
    }
}

/// The numbers of a set, one by one.
pub(crate) struct Numbers<'a> {
    set: &'a Set,
    next: Fd,
}

impl Iterator for Numbers<'_> {
    type Item = Fd;

    // In one place: as part of each loop it would be most of the loop.
    #[inline(never)]
    fn next(&mut self) -> Option<Fd> {
        loop {
            let word = self.set.0.get(usize::try_from(self.next / 64).ok()?)?;
            let rest = word >> (self.next % 64);
            if rest != 0 {
                let found = self.next.wrapping_add(rest.trailing_zeros().cast_signed());
                self.next = found.wrapping_add(1);
                return Some(found);
            }
            self.next = (self.next | 63).wrapping_add(1);
        }
    }
}

/// What the caller has open.
pub(crate) struct Descriptors {
    others: Set,
    pub(crate) terminals: Set,
}

impl Descriptors {
    /// Looks; `scratch` is written to.
    pub(crate) fn look(scratch: &mut [u8]) -> Descriptors {
        let mut found = Descriptors { others: Set::NONE, terminals: Set::NONE };
        os::open_descriptors(scratch, |fd| {
            // Of one that was found before the same is found again.
            let set = if os::modes(fd).is_ok() { &mut found.terminals } else { &mut found.others };
            set.add(fd);
        });
        found
    }

    pub(crate) fn has(&self, fd: Fd) -> bool {
        self.others.has(fd) || self.terminals.has(fd)
    }

    /// Whether it is open, and no terminal.
    pub(crate) fn passes(&self, fd: Fd) -> bool {
        self.others.has(fd)
    }

    /// Those that are passed, in order: as many as the kernel takes at once.
    pub(crate) fn passed(&self) -> impl Iterator<Item = Fd> {
        self.others.iter().take(MAX_FDS)
    }

    /// Passes 0, 1 and 2 alone from now on; false if it is so already.
    pub(crate) fn pass_standard_only(&mut self) -> bool {
        let beyond = self.passed().any(|fd| fd > 2);
        for fd in 3..1024 {
            self.others.remove(fd);
        }
        beyond
    }

    /// Closes what the tool has now, so that the other ends see when the tool
    /// closes it. 2 stays: what the client itself has to say goes there.
    pub(crate) fn close_passed(&mut self) {
        let last = self.passed().last().unwrap_or(-1);
        for fd in (0..=last).filter(|fd| *fd != 2) {
            self.close(fd);
        }
    }

    /// Closes one that is no terminal.
    pub(crate) fn close(&mut self, fd: Fd) {
        if self.others.has(fd) {
            os::close(fd);
            self.others.remove(fd);
        }
    }

    /// Where lines for people go: nowhere, if 2 is not open: its number may be
    /// the socket's.
    pub(crate) fn stderr(&self) -> Option<Fd> {
        self.has(2).then_some(2)
    }
}

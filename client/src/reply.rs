//! What the server says: frames off the socket, the members that the client
//! knows, and the end of the program as the last message asks for it.
//!
//! Must not: write to a descriptor that the caller did not have open (its
//! number may be the socket's), or guess at a message that it cannot read.

use crate::descriptors::Descriptors;
use crate::message::{Failure, Line};
use crate::os::{self, Came, Fd};
use crate::signals;
use core::ops::Range;
use tool_wire::json::{Malformed, Object, Text, Value};
use tool_wire::limits::{MAX_FRAME, PREFIX};
use tool_wire::{Code, frame};

/// Messages as they come off the socket.
pub(crate) struct Incoming<'a> {
    memory: &'a mut [u8],
    start: usize,
    end: usize,
    /// Descriptors that came with them.
    fds: Came,
}

impl<'a> Incoming<'a> {
    /// Takes messages in through `memory`: one frame and its prefix at least.
    pub(crate) fn new(memory: &'a mut [u8]) -> Incoming<'a> {
        Incoming { memory, start: 0, end: 0, fds: Came::NONE }
    }

    /// Looks at memory that messages have come into already.
    pub(crate) fn come(memory: &'a mut [u8]) -> Incoming<'a> {
        let end = memory.len();
        Incoming { memory, start: 0, end, fds: Came::NONE }
    }

    /// Where the next whole payload lies, if it has come. It stays there until
    /// the next [`Incoming::fill`].
    pub(crate) fn take(&mut self) -> Result<Option<Range<usize>>, Failure> {
        let come = self.memory.get(self.start..self.end).unwrap_or_default();
        let Some((prefix, rest)) = come.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let Ok(length) = frame::length(*prefix) else { return Err(Failure::BadReply) };
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.start.wrapping_add(PREFIX);
        let end = start.wrapping_add(length);
        self.start = end;
        Ok(Some(start..end))
    }

    pub(crate) fn payload(&self, range: Range<usize>) -> &[u8] {
        self.memory.get(range).unwrap_or_default()
    }

    /// Takes in what is there, or waits for it.
    pub(crate) fn fill(&mut self, socket: Fd) -> Result<(), Failure> {
        let come = self.end.saturating_sub(self.start);
        if come == 0 {
            (self.start, self.end) = (0, 0);
        } else if self.memory.len().saturating_sub(self.start) < MAX_FRAME + PREFIX {
            // Less than a frame has come, and it lies behind the first one's
            // place: the two do not overlap.
            if let Some((front, back)) = self.memory.split_at_mut_checked(self.start)
                && let Some(from) = back.get(..come)
                && frame::copy(from, front)
            {
                (self.start, self.end) = (0, come);
            }
        }
        let room = self.memory.get_mut(self.end..).unwrap_or_default();
        match os::receive(socket, room, &mut self.fds) {
            Ok(0) | Err(_) => Err(Failure::BrokenOff),
            Ok(count) => {
                self.end = self.end.wrapping_add(count);
                Ok(())
            }
        }
    }

    /// The descriptors that came: they belong to one message.
    pub(crate) fn descriptors(&self) -> &[Fd] {
        self.fds.numbers()
    }

    /// Waits for the next whole payload.
    pub(crate) fn next(&mut self, socket: Fd) -> Result<Range<usize>, Failure> {
        loop {
            if let Some(range) = self.take()? {
                return Ok(range);
            }
            self.fill(socket)?;
        }
    }
}

/// A member that the client knows, of any message.
#[derive(Clone, Copy)]
pub(crate) enum Member {
    ExitCode,
    Signal,
    Stdout,
    Stderr,
    Error,
    Hint,
    Code,
    Notice,
    Protocol,
    Version,
    Pty,
    Started,
    Stopped,
    Terminal,
    Window,
    Ok,
}

/// How many there are, and their names in that order.
const MEMBERS: usize = 16;
const NAMES: &str = "exit_code signal stdout stderr error hint code notice protocol version \
    pty started stopped terminal window ok";

/// One message: its known members, those that it does not have as null.
pub(crate) struct Reply<'a>([Value<'a>; MEMBERS]);

impl<'a> Reply<'a> {
    /// Reads a whole object, unknown members too: a message that is cut off is
    /// not taken for one that ends.
    pub(crate) fn read(payload: &'a [u8]) -> Result<Reply<'a>, Failure> {
        let mut reply = Reply([Value::Null; MEMBERS]);
        match reply.members(payload) {
            Ok(()) => Ok(reply),
            Err(Malformed) => Err(Failure::BadReply),
        }
    }

    fn members(&mut self, payload: &'a [u8]) -> Result<(), Malformed> {
        let mut object = Object::new(payload)?;
        while let Some((name, value)) = object.next_member()? {
            let names = NAMES.as_bytes().split(|byte| *byte == b' ');
            for (place, known) in self.0.iter_mut().zip(names) {
                if name.is_bytes(known) {
                    *place = value;
                }
            }
        }
        // What must be a number is one, or the message means something else.
        match self.value(Member::ExitCode) {
            Value::Null => Ok(()),
            code => code.integer().map(|_| ()).ok_or(Malformed),
        }
    }

    pub(crate) fn value(&self, member: Member) -> Value<'a> {
        self.0.get(member as usize).copied().unwrap_or(Value::Null)
    }

    pub(crate) fn has(&self, member: Member) -> bool {
        !matches!(self.value(member), Value::Null)
    }

    pub(crate) fn is_true(&self, member: Member) -> bool {
        matches!(self.value(member), Value::Bool(true))
    }

    /// A member that is a string.
    pub(crate) fn text(&self, member: Member) -> Option<Text<'a>> {
        if let Value::Text(text) = self.value(member) { Some(text) } else { None }
    }

    /// A member that is a whole number.
    pub(crate) fn integer(&self, member: Member) -> Option<i64> {
        self.value(member).integer()
    }

    /// The last message of a call is the one with an exit code.
    pub(crate) fn is_last(&self) -> bool {
        self.integer(Member::ExitCode).is_some()
    }

    /// Whether the call is to be repeated with chunks.
    pub(crate) fn wants_stream(&self) -> bool {
        self.text(Member::Code).is_some_and(|code| code.is(Code::UseStream.as_str()))
    }

    /// Prints what a message during a call has for people.
    pub(crate) fn tell_notice(&self, line: &mut Line<'_>) {
        if let Some(notice) = self.text(Member::Notice) {
            line.begin();
            line.text(notice);
            line.end();
        }
    }

    /// Writes the output of a buffered call.
    pub(crate) fn output(
        &self,
        scratch: &mut [u8],
        descriptors: &Descriptors,
    ) -> Result<(), Failure> {
        for (fd, member) in [(1, Member::Stdout), (2, Member::Stderr)] {
            if !self.has(member) {
                continue;
            }
            let bytes = self.value(member).bytes(scratch).ok_or(Failure::BadReply)?;
            if descriptors.has(fd) {
                os::write_all(fd, bytes).map_err(Failure::Output)?;
            }
        }
        Ok(())
    }

    /// The signal that the tool ended of.
    #[inline(never)]
    pub(crate) fn signal(&self) -> Option<u8> {
        self.text(Member::Signal).and_then(signals::named)
    }

    /// Ends as the tool ended: with its exit code, or of the same signal.
    pub(crate) fn end(&self, line: &mut Line<'_>) -> ! {
        if let Some(error) = self.text(Member::Error) {
            line.begin();
            line.text(error);
            if let Some(hint) = self.text(Member::Hint) {
                line.push(b" (");
                line.text(hint);
                line.push(b")");
            }
            line.end();
        }
        if let Some(signal) = self.signal() {
            os::die_of(signal);
            os::exit(signal | 128);
        }
        // Of a number that is none of 0 to 255 the low byte counts, as for exit(2).
        let [low, ..] = self.integer(Member::ExitCode).unwrap_or(125).to_le_bytes();
        os::exit(low)
    }
}

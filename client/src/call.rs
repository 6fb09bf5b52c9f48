//! A call under way: waits for everything that may happen at once, and hands
//! each to what knows about it.
//!
//! Owns: the loop, the messages that come, the signals that go. Must not: wait
//! for one side only, or treat a signal in the midst of something else.

use crate::descriptors::Descriptors;
use crate::message::{Failure, Line};
use crate::os::{self, Fd, Poll, Time};
use crate::outbox::Outbox;
use crate::pty::Pty;
use crate::reply::{Incoming, Member, Reply};
use crate::request::{Means, Stdio};
use crate::signals::{self, Signals};
use crate::stream::Stream;
use crate::terminal::Terminal;
use core::ops::Range;
use tool_wire::frame::{self, Kind};
use tool_wire::limits::MAX_TERMINALS;

/// How long a call is waited for before anything else is done about it: most
/// are over by then, and pay for nothing more.
const FIRST: Time = [0, 20_000_000];

/// How long a server that has said nothing yet has to answer a signal.
const PATIENCE: Time = [1, 0];

/// When to look again whether a terminal that is closed is open again.
const REST: Time = [0, 50_000_000];

/// The last message.
pub(crate) struct Last {
    /// Where it lies among what has come.
    pub(crate) range: Range<usize>,
    /// It ends nothing: the call is to be repeated with chunks.
    pub(crate) wants_stream: bool,
}

/// How input and output travel.
pub(crate) enum Path<'a> {
    /// All of it by descriptors: nothing to do.
    Passed,
    /// The tool has terminals of its own, whose masters are here.
    Pty(&'a mut [Pty]),
    /// As chunks.
    Stream(Stream<'a>),
}

/// Asks whether the tool has started, and what it was sent has reached it.
pub(crate) const QUERY: &str = "{\"query\":\"started\"}";

/// What is waited for, three by three: the socket and signals, and each relay.
const RELAYS: usize = 1 + MAX_TERMINALS;

/// The one terminal whose keys go as chunks, or beside them: the input, else that
/// of the caller.
pub(crate) fn keys_from(terminals: &[Terminal]) -> Option<&Terminal> {
    let input = terminals.iter().find(|terminal| terminal.fds.has(0));
    input.or_else(|| terminals.iter().find(|terminal| terminal.controlling))
}

/// A call, once its request is sent.
pub(crate) struct Call<'a, 'l> {
    pub(crate) socket: Fd,
    pub(crate) signals: &'a mut Signals,
    pub(crate) descriptors: &'a mut Descriptors,
    pub(crate) terminals: &'a mut [Terminal],
    pub(crate) out: Outbox<'a>,
    pub(crate) path: Path<'a>,
    /// For terminals that are to be relayed.
    pub(crate) spare: Option<&'a mut [Pty]>,
    pub(crate) line: &'a mut Line<'l>,
    /// Asked whether the tool has started.
    pub(crate) asked: bool,
    /// It has.
    pub(crate) started: bool,
    /// The server has shown that it knows more than the seed's protocol.
    pub(crate) proven: bool,
    /// The tool has its terminal, and the caller's is its if it should be.
    pub(crate) begun: bool,
    /// The tool is told to go on: keys wait until it does, or what they send
    /// would come before that.
    pub(crate) settling: bool,
    /// A stop was handed on, and the tool has not stopped yet.
    pub(crate) stopping: bool,
    /// A signal that an unproven server has not answered, and how much time it
    /// still has.
    pub(crate) unanswered: Option<(u8, Time)>,
}

impl<'a, 'l> Call<'a, 'l> {
    /// A call whose request is sent; `memory` is for what goes to the server, for
    /// keys as chunks, and for what a terminal shows of chunks.
    pub(crate) fn new(
        stdio: Stdio,
        socket: Fd,
        means: &'a mut Means<'_, '_>,
        ptys: &'a mut [Pty],
        [out, keys, screen]: [&'a mut [u8]; 3],
        line: &'a mut Line<'l>,
    ) -> Call<'a, 'l> {
        let streams = stdio == Stdio::Stream;
        let mut call = Call {
            socket,
            signals: means.signals,
            terminals: means.terminals,
            descriptors: means.descriptors,
            out: Outbox::new(out),
            path: Path::Passed,
            spare: Some(ptys),
            line,
            asked: false,
            started: false,
            begun: false,
            // Only a server that knows this protocol asks for a stream.
            proven: streams,
            stopping: false,
            settling: false,
            unanswered: None,
        };
        if streams {
            call.path = Path::Stream(Stream::new(call.descriptors, &mut call.out, keys, screen));
            call.terminals.iter_mut().for_each(Terminal::open);
            if !call.terminals.is_empty() {
                // The terminal is the tool's when it runs, and not before: until
                // then a key may still end the call.
                call.ask();
            }
            call.asked = true;
        }
        call
    }

    /// Waits for the last message.
    pub(crate) fn run(&mut self, incoming: &mut Incoming<'_>) -> Result<Last, Failure> {
        let mut first = self.signals.fd().is_none();
        loop {
            while !self.is_busy() {
                let Some(range) = incoming.take()? else { break };
                if let Some(last) = self.message(incoming, range)? {
                    self.show_rest(true);
                    return Ok(last);
                }
            }
            if !first {
                self.signals.open();
                self.ask();
            }
            self.wait(incoming, first)?;
            first = false;
        }
    }

    fn is_busy(&self) -> bool {
        if let Path::Stream(stream) = &self.path { stream.is_busy() } else { false }
    }

    /// Asks whether the tool has started, once.
    ///
    /// Whether the server knows the question is not known yet, and need not be. The
    /// seed's protocol is one request and one reply, without a name for either: a
    /// server that read on could not answer the second before the first, and the
    /// first is the last message here. One that closes with the question unread
    /// resets the connection, but what it had sent before is read first.
    pub(crate) fn ask(&mut self) {
        if !self.asked && !self.started {
            self.asked = true;
            self.out.text(QUERY);
            self.out.send(self.socket);
        }
    }

    /// Waits until something happens, and sees to it.
    fn wait(&mut self, incoming: &mut Incoming<'_>, first: bool) -> Result<(), Failure> {
        let events = if self.is_busy() { 0 } else { Poll::READ }
            | if self.out.is_empty() { 0 } else { Poll::WRITE };
        // As long as there is no room for more, signals wait as well.
        let listens = if self.out.has_room() { Poll::READ } else { 0 };
        let signals = self.signals.fd().map_or(Poll::new(-1, 0), |fd| Poll::new(fd, listens));
        let mut polls = [Poll::NONE; RELAYS];
        let (mut count, mut rests) = (2_usize, false);
        let [[server, second, _], relays @ ..] = &mut polls;
        (*server, *second) = (Poll::new(self.socket, events), signals);
        match &self.path {
            Path::Passed if first => count = 1,
            Path::Passed => {}
            Path::Pty(ptys) => {
                count = 3;
                for ((pty, terminal), place) in ptys.iter().zip(&*self.terminals).zip(relays) {
                    *place = pty.polls(terminal, !self.settling);
                    rests |= pty.rests();
                    count = count.wrapping_add(3);
                }
            }
            Path::Stream(stream) => {
                let from = keys_from(self.terminals).filter(|_| !self.settling);
                let [place, ..] = relays;
                *place = stream.polls(from, &self.out);
                count = 6;
            }
        }
        let (mut early, mut rest) = (FIRST, REST);
        let time = match &mut self.unanswered {
            _ if first => Some(&mut early),
            Some((_, time)) => Some(time),
            _ if rests => Some(&mut rest),
            _ => None,
        };
        // No more than there may be: the limit on descriptors holds here too.
        let all = polls.as_flattened_mut();
        let happened = os::poll(all.get_mut(..count).unwrap_or_default(), time, None)
            .map_err(Failure::Wait)?;
        if happened == 0 && !first {
            self.give_up_waiting();
        }
        let [[server, ..], relays @ ..] = &polls;
        if server.is(Poll::WRITE) {
            self.out.send(self.socket);
        }
        // First, and asked for anew: one that came while the list was looked through
        // is why something else of it has happened, such as the end of a terminal.
        if self.out.has_room()
            && let Some(signal) = self.signals.next()
        {
            // Much may be different afterwards: the rest is looked at anew.
            self.signal(signal);
            return Ok(());
        }
        match &mut self.path {
            Path::Passed => {}
            Path::Pty(ptys) => {
                let terminals = ptys.iter_mut().zip(&*self.terminals);
                for ((pty, terminal), polls) in terminals.zip(relays) {
                    if pty.step(polls, terminal) {
                        self.out.text(QUERY);
                    }
                }
            }
            Path::Stream(stream) => {
                let from = keys_from(self.terminals);
                let [polls, ..] = relays;
                stream.step(polls, incoming, &mut self.out, from)?;
            }
        }
        if server.is(Poll::READ) { incoming.fill(self.socket) } else { Ok(()) }
    }

    /// Takes in a message; the last one is handed back.
    fn message(
        &mut self,
        incoming: &Incoming<'_>,
        range: Range<usize>,
    ) -> Result<Option<Last>, Failure> {
        let payload = incoming.payload(range.clone());
        let chunk = match frame::split(payload) {
            Ok((Kind::Json, _)) => {
                let reply = Reply::read(payload)?;
                if !reply.is_last() {
                    return self.object(&reply, incoming).map(|()| None);
                }
                let wants_stream = reply.wants_stream();
                if wants_stream {
                    // The next request comes behind it on the same connection.
                    self.out.send_all(self.socket)?;
                }
                return Ok(Some(Last { range, wants_stream }));
            }
            Ok((Kind::Stdout, _)) => 1,
            Ok((Kind::Stderr, _)) => 2,
            _ => return Err(Failure::BadReply),
        };
        self.begin();
        let Path::Stream(stream) = &mut self.path else { return Err(Failure::BadReply) };
        let range = range.start.wrapping_add(1)..range.end;
        stream.output(chunk, range, incoming, self.descriptors, self.terminals);
        Ok(None)
    }

    /// Takes in what the server says during a call.
    #[inline(never)]
    fn object(&mut self, reply: &Reply<'_>, incoming: &Incoming<'_>) -> Result<(), Failure> {
        self.proven = true;
        self.unanswered = None;
        reply.tell_notice(self.line);
        if reply.is_true(Member::Started) {
            self.started();
        }
        if reply.is_true(Member::Pty) {
            self.relay(incoming.descriptors())?;
        }
        if let Path::Stream(stream) = &mut self.path {
            stream.widen(reply.integer(Member::Window).unwrap_or(0));
            if reply.has(Member::Terminal) {
                stream.terminal(reply.value(Member::Terminal), self.terminals)?;
                self.begin();
            }
        }
        if let Some(name) = reply.text(Member::Stopped) {
            self.stopped(signals::named(name).unwrap_or(signals::TSTP));
        }
        Ok(())
    }

    /// The tool runs, and what it was sent has reached it.
    fn started(&mut self) {
        (self.started, self.settling) = (true, false);
        match &mut self.path {
            Path::Stream(_) => return self.begin(),
            Path::Pty(ptys) => ptys.iter_mut().for_each(Pty::settled),
            Path::Passed => {}
        }
        self.descriptors.close_passed();
    }

    /// The tool's own terminals have come.
    fn relay(&mut self, masters: &[Fd]) -> Result<(), Failure> {
        self.started();
        let ptys = self.spare.take().unwrap_or_default();
        let Some(ptys) =
            ptys.get_mut(..self.terminals.len()).filter(|ptys| ptys.len() == masters.len())
        else {
            return Err(Failure::BadReply);
        };
        for ((pty, terminal), master) in ptys.iter_mut().zip(&mut *self.terminals).zip(masters) {
            terminal.open();
            pty.open(*master);
        }
        self.path = Path::Pty(ptys);
        self.begin();
        Ok(())
    }

    /// The terminal that controls the caller.
    pub(crate) fn main(&mut self) -> Option<&mut Terminal> {
        self.terminals.iter_mut().find(|terminal| terminal.controlling)
    }

    /// Hands a signal on.
    fn signal(&mut self, signal: u8) {
        let ignored = os::ignored(signal);
        match signal {
            signals::CONT => return self.go_on(!ignored),
            _ if ignored => return,
            signals::WINCH if self.main().is_some() => return self.resize(),
            signals::TSTP => self.stopping = true,
            _ => {}
        }
        self.hand_on(signal);
        let waits = signals::ends(signal) || signal == signals::TSTP;
        if waits && !self.proven && self.unanswered.is_none() {
            self.ask();
            self.unanswered = Some((signal, PATIENCE));
        }
    }

    pub(crate) fn hand_on(&mut self, signal: u8) {
        self.out.object(&|writer| {
            writer.raw(b"{\"signal\":\"");
            writer.raw(signals::name(signal));
            writer.raw(b"\"}");
        });
    }

    /// A server that knows only the seed's protocol knows no signals: the client
    /// does what it would have done without waiting.
    fn give_up_waiting(&mut self) {
        if let Some((signal, _)) = self.unanswered.take() {
            if signals::ends(signal) {
                os::die_of(signal);
                os::exit(signal | 128);
            }
            self.stop_alone();
        }
    }
}

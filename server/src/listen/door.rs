//! The door: one plain thread that takes connections, begins the calls that
//! nothing has to be waited for, and ends those to which nothing happens but
//! their tool's end. No task, no timer and no other thread is on the way of such
//! a call (docs/decisions/0008-the-door.md).
//!
//! Everything else becomes a session of the runtime: a connection that says
//! anything else, a call whose caller says something, goes away, or waits longer
//! than it may. Nothing of it is done twice: what was received goes along, and a
//! call that has begun is attended to from where it is.
//!
//! Owns: the listening sockets, the collecting of ended children. Must not: wait
//! for anything but its descriptors.
//!
//! - `listeners`  the sockets, and room for their connections
//! - `guest`      one connection at the door

mod guest;
mod listeners;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender as SignalSender;
use tokio_util::sync::CancellationToken;

use self::guest::{Guest, Next};
use self::listeners::Listeners;
use super::accept::{Context, Limits};
use crate::broker::Broker;
use crate::os::process::Change;
use crate::os::signals::Signals;

/// How long a connection may say nothing at the door.
const QUIET: Duration = Duration::from_millis(50);
/// Events that are taken at once.
const EVENTS: usize = 64;
/// What an event is about: a bell, signals, a listener (from
/// `LISTENERS`), a guest (from `GUESTS`).
const BELL: u64 = 0;
const SIGNALS: u64 = 1;
const LISTENERS: u64 = 2;
const GUESTS: u64 = 1 << 16;

/// What the runtime tells the door.
enum Word {
    /// There is room for a connection on this listener.
    Room(usize, OwnedSemaphorePermit),
    /// Hand over every call: the server stops.
    HandOver,
    /// Take no more connections.
    Close,
    /// End: nothing runs any more.
    Shut,
}

/// A way for the runtime to tell it something.
#[derive(Clone)]
struct Bell {
    words: Sender<Word>,
    wake: Arc<EventFd>,
}

impl Bell {
    fn ring(&self, word: Word) {
        // A door that is gone needs to be told nothing.
        if self.words.send(word).is_ok() {
            self.wake.write(1).ok();
        }
    }
}

/// The door, to be opened.
pub(crate) struct Door {
    epoll: Arc<Epoll>,
    signals: Signals,
    /// Those that are for the server itself.
    tell: SignalSender<Signal>,
    listeners: Listeners,
    guests: HashMap<u64, Guest>,
    next: u64,
    deadlines: BTreeSet<(Instant, u64)>,
    words: Receiver<Word>,
    bell: Bell,
    runtime: Handle,
    /// What is received, before it is known what it is.
    buffer: Vec<u8>,
}

/// A door that is open.
pub(crate) struct OpenDoor {
    bell: Bell,
    thread: JoinHandle<()>,
}

impl OpenDoor {
    /// Ends it: to be called when nothing runs any more.
    pub(crate) fn shut(self) {
        self.bell.ring(Word::Shut);
        // It has nothing to wait for; that it panicked would have ended us all.
        self.thread.join().ok();
    }
}

impl Door {
    /// With room for so many connections, on so many sockets: each socket holds
    /// one place while it waits for a connection, so that none can shut another
    /// out. `signals` has SIGCHLD among them; the others are told.
    pub(crate) fn new(
        limits: &Limits,
        sockets: usize,
        signals: Signals,
        tell: SignalSender<Signal>,
    ) -> io::Result<Door> {
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        epoll.add(wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        epoll.add(signals.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        let (sender, words) = channel();
        let bell = Bell { words: sender, wake };
        Ok(Door {
            epoll,
            signals,
            tell,
            listeners: Listeners::new(limits.connections.saturating_add(sockets), bell.clone()),
            guests: HashMap::new(),
            next: GUESTS,
            deadlines: BTreeSet::new(),
            words,
            bell,
            runtime: Handle::current(),
            buffer: vec![0; guest::BUFFER],
        })
    }

    /// One more socket to take connections from.
    pub(crate) fn listen(&mut self, socket: UnixListener, context: Context) -> io::Result<()> {
        self.listeners.add(socket, context);
        Ok(())
    }

    /// Opens the door. It is closed when `closed` is cancelled, and goes on
    /// collecting children until it is shut.
    pub(crate) fn open(
        mut self,
        broker: Arc<Broker>,
        closed: CancellationToken,
    ) -> io::Result<OpenDoor> {
        self.listeners.open(&self.epoll);
        let (bell, stop, shut) = (self.bell.clone(), broker.stop.clone(), self.bell.clone());
        tokio::spawn(async move {
            stop.cancelled().await;
            bell.ring(Word::HandOver);
            closed.cancelled().await;
            bell.ring(Word::Close);
        });
        let body = move || {
            if let Err(errno) = self.run(&broker) {
                // Nothing would be answered any more: crash-only.
                tracing::error!(%errno, "the door cannot wait for its descriptors");
                std::process::abort();
            }
        };
        let thread = std::thread::Builder::new().name("door".to_owned()).spawn(body)?;
        Ok(OpenDoor { bell: shut, thread })
    }

    fn run(&mut self, broker: &Broker) -> Result<(), Errno> {
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let count = match self.epoll.wait(&mut events, self.patience()) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            let happened = events.get(..count).unwrap_or_default();
            // A tool that has ended first: its caller may have gone since.
            if happened.iter().any(|event| event.data() == SIGNALS) {
                self.hear_signal(broker);
            }
            for event in happened {
                match event.data() {
                    BELL if self.hear(broker) => return Ok(()),
                    BELL => {}
                    SIGNALS => {}
                    listener @ LISTENERS..GUESTS => {
                        self.take(usize::try_from(listener - LISTENERS).unwrap_or(0), broker);
                    }
                    guest => self.serve(guest, broker),
                }
            }
            self.look_at_clock(broker);
        }
    }

    /// How long to wait for descriptors.
    fn patience(&self) -> EpollTimeout {
        let Some((first, _)) = self.deadlines.first() else { return EpollTimeout::NONE };
        // Rounded up: one that wakes too early only waits again.
        let left = first.saturating_duration_since(Instant::now()).as_millis() + 1;
        EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX)
    }

    /// Hears one signal; there is another event where there are more.
    fn hear_signal(&mut self, broker: &Broker) {
        match self.signals.next() {
            // As many as wait are as good as any more.
            Ok(Some(signal)) if signal != Signal::SIGCHLD => drop(self.tell.try_send(signal)),
            Ok(Some(_)) => self.collect(broker),
            Ok(None) | Err(_) => {}
        }
    }

    /// One signal stands for every child that had ended by then. Each is answered
    /// before the next is asked for.
    fn collect(&mut self, broker: &Broker) {
        while let Some((number, change)) = broker.executor.reaper().collect() {
            let Some(guest) = self.dismiss(number) else { continue };
            match change {
                Change::Ended(exit) => {
                    if let Next::Session(guest) = guest.end(broker, exit) {
                        self.hand_over(*guest, broker, None);
                    }
                }
                Change::Stopped(signal) => self.hand_over(guest, broker, Some(signal)),
            }
        }
    }

    /// Hears what the runtime says; whether that it is over.
    fn hear(&mut self, broker: &Broker) -> bool {
        self.bell.wake.read().ok();
        while let Ok(word) = self.words.try_recv() {
            match word {
                Word::Room(index, room) => self.listeners.give_room(&self.epoll, index, room),
                Word::HandOver => {
                    let numbers: Vec<u64> = self.guests.keys().copied().collect();
                    for number in numbers {
                        if let Some(guest) = self.dismiss(number) {
                            self.hand_over(guest, broker, None);
                        }
                    }
                }
                Word::Close => self.listeners.close(&self.epoll),
                Word::Shut => return true,
            }
        }
        false
    }

    fn take(&mut self, index: usize, broker: &Broker) {
        let Some((socket, room)) = self.listeners.take(&self.epoll, index) else { return };
        let number = self.next;
        self.next += 1;
        if let Some(guest) = Guest::welcome(socket, room) {
            self.go_on(number, guest, broker, false);
        }
    }

    fn serve(&mut self, number: u64, broker: &Broker) {
        if let Some(guest) = self.dismiss(number) {
            self.go_on(number, guest, broker, true);
        }
    }

    /// One step of a guest: what it says is heard, and it is kept or goes.
    fn go_on(&mut self, number: u64, guest: Guest, broker: &Broker, watched: bool) {
        match guest.listen(&mut self.buffer, broker, number) {
            Next::Gone => {}
            Next::Session(guest) => self.hand_over(*guest, broker, None),
            Next::Wait(guest) => {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, number);
                if !watched && self.epoll.add(guest.socket().as_fd(), event).is_err() {
                    return self.hand_over(*guest, broker, None);
                }
                if let Some(patience) = guest.patience(QUIET) {
                    self.deadlines.insert((patience, number));
                }
                self.guests.insert(number, *guest);
            }
        }
    }

    /// Lets a guest go from the door, but not from epoll, which forgets it when
    /// its socket is closed.
    fn dismiss(&mut self, number: u64) -> Option<Guest> {
        let guest = self.guests.remove(&number)?;
        if let Some(patience) = guest.patience(QUIET) {
            self.deadlines.remove(&(patience, number));
        }
        Some(guest)
    }

    fn hand_over(&self, guest: Guest, broker: &Broker, stopped: Option<i32>) {
        self.epoll.delete(guest.socket().as_fd()).ok();
        guest.hand_over(&self.runtime, broker, stopped);
    }

    fn look_at_clock(&mut self, broker: &Broker) {
        let Some((first, _)) = self.deadlines.first() else { return };
        let now = Instant::now();
        if *first > now {
            return;
        }
        while let Some((deadline, number)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, number));
            if let Some(guest) = self.guests.remove(&number) {
                self.hand_over(guest, broker, None);
            }
        }
    }
}

//! The sockets that connections come from, and room for them.
//!
//! Each connection has a place, and each socket holds one place while it waits for
//! a connection, so that none can shut another out. Without a place nothing is
//! taken: connections wait in the kernel's queue. Must not: look at a connection.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::guest::Room;
use super::{Bell, LISTENERS, Word};
use crate::listen::accept::Context;
use crate::os::descriptors::accept;

/// Connections at once on the control socket, beside all others.
const CONTROL_CONNECTIONS: usize = 16;
/// How long nothing is taken after an error.
const PAUSE: Duration = Duration::from_millis(50);

struct Listener {
    socket: UnixListener,
    context: Arc<Context>,
    /// Room for the next connection; without it none is taken.
    room: Option<OwnedSemaphorePermit>,
    /// Whether epoll tells of connections.
    watched: bool,
}

/// All of them.
pub(super) struct Listeners {
    list: Vec<Listener>,
    room: Arc<Semaphore>,
    control: Arc<Semaphore>,
    bell: Bell,
    runtime: Handle,
    warned: Option<Instant>,
}

impl Listeners {
    /// With room for so many connections.
    pub(super) fn new(room: usize, bell: Bell) -> Listeners {
        Listeners {
            list: Vec::new(),
            room: Arc::new(Semaphore::new(room)),
            control: Arc::new(Semaphore::new(CONTROL_CONNECTIONS)),
            bell,
            runtime: Handle::current(),
            warned: None,
        }
    }

    /// One more.
    pub(super) fn add(&mut self, socket: UnixListener, context: Context) {
        let context = Arc::new(context);
        self.list.push(Listener { socket, context, room: None, watched: false });
    }

    /// Begins to take connections.
    pub(super) fn open(&mut self, epoll: &Epoll) {
        for index in 0..self.list.len() {
            self.seek_room(epoll, index);
        }
    }

    /// Takes no more.
    pub(super) fn close(&mut self, epoll: &Epoll) {
        for listener in self.list.drain(..) {
            epoll.delete(listener.socket.as_fd()).ok();
        }
    }

    /// A connection of this one, with its place.
    pub(super) fn take(&mut self, epoll: &Arc<Epoll>, index: usize) -> Option<(UnixStream, Room)> {
        let listener = self.list.get_mut(index)?;
        let room = listener.room.take()?;
        let context = Arc::clone(&listener.context);
        match accept(listener.socket.as_fd()) {
            Ok(socket) => {
                self.seek_room(epoll, index);
                let counted = (!context.rules.control).then(|| context.broker.metrics.connected());
                let epoll = Arc::clone(epoll);
                Some((socket, Room { context, epoll, _room: room, _counted: counted }))
            }
            Err(error) => {
                if error.kind() == ErrorKind::WouldBlock {
                    listener.room = Some(room);
                } else {
                    self.pause(epoll, index, room, &error);
                }
                None
            }
        }
    }

    /// Room for one more connection of this one: now, or when there is some.
    fn seek_room(&mut self, epoll: &Epoll, index: usize) {
        let Some(listener) = self.list.get(index) else { return };
        let control = listener.context.rules.control;
        let room = Arc::clone(if control { &self.control } else { &self.room });
        if let Ok(room) = Arc::clone(&room).try_acquire_owned() {
            return self.give_room(epoll, index, room);
        }
        // Whoever is idle makes room; else somebody has to be done first.
        listener.context.shared.crowded.notify_one();
        self.look_away(epoll, index);
        let bell = self.bell.clone();
        self.runtime.spawn(async move {
            if let Ok(room) = room.acquire_owned().await {
                bell.ring(Word::Room(index, room));
            }
        });
    }

    /// There is room for a connection of this one.
    pub(super) fn give_room(&mut self, epoll: &Epoll, index: usize, room: OwnedSemaphorePermit) {
        let Some(listener) = self.list.get_mut(index) else { return };
        listener.room = Some(room);
        if listener.watched {
            return;
        }
        let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENERS + index as u64);
        match epoll.add(listener.socket.as_fd(), event) {
            Ok(()) => listener.watched = true,
            Err(errno) => warn!(%errno, "cannot listen"),
        }
    }

    /// Connections of this one wait in the kernel's queue.
    fn look_away(&mut self, epoll: &Epoll, index: usize) {
        if let Some(listener) = self.list.get_mut(index)
            && std::mem::take(&mut listener.watched)
        {
            epoll.delete(listener.socket.as_fd()).ok();
        }
    }

    /// Out of descriptors or memory: that passes. A pause, so as not to spin.
    fn pause(&mut self, epoll: &Epoll, index: usize, room: OwnedSemaphorePermit, why: &io::Error) {
        if self.warned.is_none_or(|last| last.elapsed() > Duration::from_secs(10)) {
            warn!(error = %why, "cannot take a connection; trying again");
            self.warned = Some(Instant::now());
        }
        self.look_away(epoll, index);
        let bell = self.bell.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(PAUSE).await;
            bell.ring(Word::Room(index, room));
        });
    }
}

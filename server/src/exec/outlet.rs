//! The way out of a confined call, as its processes see it: one address to connect
//! to, and for gh a Unix socket. What comes by it is handed to whoever made the
//! outlet; nothing of it is read here.
//!
//! Owns: the listener, until the call is over. Must not: know what is said.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::debug;

use super::connector;
use super::room::{Place, Room};
use super::stranger::Stranger;
use crate::os::notify::Questions;

/// Where the gate of a call is in a network of its own.
pub(crate) const PORT: u16 = 8118;

/// Connections that were taken and not yet handed on.
const WAITING: usize = 16;

/// Something that one of the call's processes has connected.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// By the address.
    Proxy(TcpStream, Place),
    /// By a Unix socket.
    Unix(Stranger, Place),
}

/// What arrives at an outlet.
#[derive(Debug)]
pub(crate) struct Arrivals(mpsc::Receiver<Arrival>);

impl Arrivals {
    /// The next one; `None` once the call is over, or never began.
    pub(crate) async fn next(&mut self) -> Option<Arrival> {
        self.0.recv().await
    }
}

/// The way out of one call, part of its plan.
#[derive(Debug)]
pub(crate) struct Outlet {
    address: SocketAddr,
    /// On the machine's own loopback; else it is made in the call's network.
    listener: Option<StdListener>,
    /// It is taken from already.
    opened: AtomicBool,
    arrivals: mpsc::Sender<Arrival>,
    /// Given when the call begins: one that is asked about may wait for long.
    room: OnceLock<Arc<Room>>,
}

impl Outlet {
    /// For a call with namespaces: in its own network.
    pub(crate) fn inside() -> (Outlet, Arrivals) {
        Outlet::of(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), None)
    }

    /// For a call without: on a port of the machine's loopback, which others can
    /// connect to as well, so that whoever connects is to be asked for a secret.
    pub(crate) fn on_machine() -> io::Result<(Outlet, Arrivals)> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Outlet::of(listener.local_addr()?, Some(listener)))
    }

    fn of(address: SocketAddr, listener: Option<StdListener>) -> (Outlet, Arrivals) {
        let (arrivals, came) = mpsc::channel(WAITING);
        let (opened, room) = (AtomicBool::new(false), OnceLock::new());
        (Outlet { address, listener, opened, arrivals, room }, Arrivals(came))
    }

    /// Gives it room for connections, without which it takes none.
    pub(crate) fn furnish(&self, room: Room) {
        drop(self.room.set(Arc::new(room)));
    }

    /// Where the call's processes connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes what comes from now on: at the listener that was made in the call's
    /// network, or at our own; and what is asked of the listener of its filter.
    pub(super) fn open(
        &self,
        runtime: &Handle,
        inside: Option<OwnedFd>,
        questions: Option<OwnedFd>,
    ) -> io::Result<Open> {
        // The call may have been started by a thread that is not the runtime's.
        let _entered = runtime.enter();
        let mut open = Open(Vec::new());
        let Some(room) = self.room.get() else { return Ok(open) };
        let listener = match (inside, &self.listener) {
            (Some(listener), _) => Some(StdListener::from(listener)),
            (None, Some(listener)) if !self.opened.swap(true, Ordering::Relaxed) => {
                Some(listener.try_clone()?)
            }
            (None, _) => None,
        };
        if let Some(listener) = listener {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let taken = runtime.spawn(take(listener, self.arrivals.clone(), Arc::clone(room)));
            open.0.push(taken.abort_handle());
        }
        if let Some(questions) = questions {
            let questions = Questions::new(questions)?;
            let machines = self.listener.as_ref().map(|_| self.address);
            let answered =
                connector::answer(questions, self.arrivals.clone(), Arc::clone(room), machines);
            let answered = runtime.spawn(answered);
            open.0.push(answered.abort_handle());
        }
        Ok(open)
    }
}

/// An outlet that takes what comes, until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Open(Vec<AbortHandle>);

impl Open {
    /// Takes from these as well.
    pub(super) fn join(&mut self, mut other: Open) {
        self.0.append(&mut other.0);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

async fn take(listener: TcpListener, arrivals: mpsc::Sender<Arrival>, room: Arc<Room>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // The others wait in the kernel's queue.
                let Some(place) = room.take().await else { return };
                if arrivals.send(Arrival::Proxy(stream, place)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                debug!(%error, "a connection of a call could not be taken");
                // No descriptors, perhaps: there may be some in a moment.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

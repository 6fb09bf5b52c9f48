//! What a call hears from its caller while it is under way, and what it tells
//! beside its output.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_protocol::Signal;
use tool_protocol::terminal::Size;

use super::pause::Pause;

/// What a caller may ask of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Send this signal.
    Signal(Signal),
    /// The caller's terminal has another size.
    Resize(Size),
    /// The tool's group is to be its terminal's foreground group, or not.
    Foreground(bool),
    /// Tell when the tool's program runs.
    QueryStarted,
}

/// What a call tells.
#[derive(Debug)]
pub(crate) enum Event {
    /// The tool's program runs.
    Started,
    /// The ends of its terminals that relay.
    Pty(Vec<OwnedFd>),
    /// The tool was stopped by that signal.
    Stopped(i32),
    /// So many more bytes of its input may come.
    Credit(usize),
    /// One line for people.
    Notice(String),
}

/// A call's ear and mouth.
#[derive(Debug)]
pub(crate) struct Hear {
    /// What the caller asks.
    pub(crate) orders: mpsc::Receiver<Order>,
    /// To the caller.
    pub(crate) events: Option<mpsc::Sender<Event>>,
    /// Cancelled when the caller is gone.
    pub(crate) gone: CancellationToken,
    /// Cancelled when the server's patience with running calls is over.
    pub(crate) stop: CancellationToken,
    /// What was asked before there was anything to ask it of; the last of each
    /// kind.
    waiting: Vec<Order>,
    /// Time that does not count against the call's own.
    pub(crate) pause: Option<Arc<Pause>>,
}

impl Hear {
    /// Hears all that these say.
    pub(crate) fn new(
        orders: mpsc::Receiver<Order>,
        events: Option<mpsc::Sender<Event>>,
        gone: CancellationToken,
        stop: CancellationToken,
    ) -> Hear {
        Hear { orders, events, gone, stop, waiting: Vec::new(), pause: None }
    }

    /// Waits, before the tool runs, for a signal that would end it; keeps what
    /// else is asked.
    pub(crate) async fn ending_signal(&mut self) -> Signal {
        loop {
            match self.orders.recv().await {
                Some(Order::Signal(signal)) if ends(signal) => return signal,
                // There is nothing yet to be stopped or told of a window.
                Some(Order::Signal(_)) => {}
                Some(order) => {
                    let kind = std::mem::discriminant(&order);
                    self.waiting.retain(|other| std::mem::discriminant(other) != kind);
                    self.waiting.push(order);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// What was asked before the tool ran.
    pub(crate) fn early(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.waiting)
    }

    /// Tells the caller, unless it has not read what it was told before.
    pub(crate) fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            events.try_send(event).ok();
        }
    }
}

/// Whether a program that does nothing about this signal ends of it.
fn ends(signal: Signal) -> bool {
    !matches!(signal, Signal::Cont | Signal::Tstp | Signal::Winch)
}

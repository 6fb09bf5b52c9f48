//! What a running call hears, and what ends it.

use std::time::Duration;

use nix::unistd::Pid;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::hear::{Event, Hear, Order};
use super::terminal::{Terminal, Told};
use crate::os::process::{Exit, signal_group, takes_by_default};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The tool's process ended by itself.
    Exited(Exit),
    /// It ran longer than it may.
    TimedOut,
    /// The caller went away.
    CallerGone,
    /// The server stops.
    Interrupted,
    /// More output than fits a reply; so many bytes were seen.
    OutputTooLarge(usize),
}

/// What a call's signals and sizes go to.
#[derive(Debug)]
pub(crate) struct Reins {
    /// The tool's own process, or the leader of its session.
    pub(crate) pid: Pid,
    /// What it runs beneath.
    pub(crate) terminal: Option<Terminal>,
}

/// Waits for the first thing that ends the call. The tree is still to be ended
/// where that was not the process itself.
pub(crate) async fn supervise(
    reins: &mut Reins,
    end: &mut oneshot::Receiver<Exit>,
    hear: &mut Hear,
    timeout: Option<Duration>,
    overflow: oneshot::Receiver<usize>,
) -> Outcome {
    // No clock is started where there is nothing to wait for.
    let deadline = async {
        match timeout {
            Some(timeout) => sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(deadline, overflow);
    let mut capturing = true;
    let mut leader = reins.terminal.is_some();
    for order in hear.early() {
        follow(reins, hear, order);
    }
    loop {
        tokio::select! {
            biased;
            exit = &mut *end => {
                // The sender lives in the reaper until the process has ended.
                return Outcome::Exited(exit.unwrap_or(Exit::Code(125)));
            }
            () = hear.gone.cancelled() => return Outcome::CallerGone,
            () = hear.stop.cancelled() => return Outcome::Interrupted,
            Some(order) = hear.orders.recv() => follow(reins, hear, order),
            told = told(&mut reins.terminal), if leader => match told {
                Some(Told::Stopped(number)) => hear.tell(Event::Stopped(number)),
                Some(_) => {}
                // Its own end comes by the reaper.
                None => leader = false,
            },
            seen = &mut overflow, if capturing => match seen {
                Ok(bytes) => return Outcome::OutputTooLarge(bytes),
                Err(_) => capturing = false,
            },
            () = &mut deadline => return Outcome::TimedOut,
        }
    }
}

async fn told(terminal: &mut Option<Terminal>) -> Option<Told> {
    match terminal {
        Some(terminal) => terminal.told().await,
        None => None,
    }
}

fn follow(reins: &Reins, hear: &Hear, order: Order) {
    match (order, &reins.terminal) {
        (Order::QueryStarted, _) => hear.tell(Event::Started),
        (Order::Signal(signal), Some(terminal)) => terminal.signal(signal.number()),
        (Order::Resize(size), Some(terminal)) => terminal.resize(size),
        (Order::Foreground(front), Some(terminal)) => terminal.set_foreground(front),
        (Order::Signal(signal), None) => signal_tool(reins.pid, signal.number(), hear),
        (Order::Resize(_) | Order::Foreground(_), None) => {}
    }
}

/// Signals the group of a tool that leads a session. The kernel does not stop
/// such a group at SIGTSTP where that has its default action: SIGSTOP does.
fn signal_tool(pid: Pid, number: i32, hear: &Hear) {
    let stops = number == libc::SIGTSTP && takes_by_default(pid, number);
    let number = if stops { libc::SIGSTOP } else { number };
    match signal_group(pid, number) {
        Ok(()) if stops => hear.tell(Event::Stopped(libc::SIGTSTP)),
        Ok(()) => {}
        Err(errno) => tracing::debug!(%pid, number, %errno, "the signal did not reach the tool"),
    }
}

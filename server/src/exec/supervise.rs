//! What a running call hears, and what ends it.

use std::time::Duration;

use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::hear::{Event, Hear, Order};
use super::led::{Leader, Told};
use super::pause::over;
use super::reaper::Reaper;
use crate::os::process::{Exit, takes_by_default};

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
    /// Where the tool has no leader: the signals that stopped it.
    pub(crate) stops: mpsc::Receiver<i32>,
    /// Where its terminal is relayed here: who tells of stops, in their place.
    pub(crate) relay: Option<mpsc::Sender<i32>>,
    /// That leader.
    pub(crate) leader: Option<Leader>,
}

/// Waits for the first thing that ends the call. The tree is still to be ended
/// where that was not the process itself.
pub(super) async fn supervise(
    reaper: &Reaper,
    reins: &mut Reins,
    end: &mut oneshot::Receiver<Exit>,
    hear: &mut Hear,
    timeout: Option<Duration>,
    overflow: oneshot::Receiver<usize>,
) -> Outcome {
    // No clock is started where there is nothing to wait for.
    let pause = hear.pause.clone();
    let deadline = over(timeout, pause.as_deref());
    tokio::pin!(deadline, overflow);
    let mut capturing = true;
    // Whether SIGSTOP was sent where SIGTSTP was asked for.
    let mut masked = false;
    // A leader that is stopped is not the tool, before its end and after.
    let led = reins.leader.is_some();
    let mut leader = led;
    for order in hear.early() {
        masked |= follow(reaper, reins, hear, order);
    }
    loop {
        tokio::select! {
            biased;
            exit = &mut *end => {
                // The sender lives in the reaper until the process has ended.
                let exit = exit.unwrap_or(Exit::Code(125));
                let told = reins.leader.as_mut().map(|leader| leader.end(exit));
                return Outcome::Exited(told.unwrap_or(exit));
            }
            () = hear.gone.cancelled() => return Outcome::CallerGone,
            () = hear.stop.cancelled() => return Outcome::Interrupted,
            Some(order) = hear.orders.recv() => masked |= follow(reaper, reins, hear, order),
            Some(signal) = reins.stops.recv(), if !led => {
                // What was sent in place of SIGTSTP is told as that.
                let masked = std::mem::take(&mut masked) && signal == libc::SIGSTOP;
                hear.tell(Event::Stopped(if masked { libc::SIGTSTP } else { signal }));
            }
            told = told(&mut reins.leader), if leader => match told {
                Some(Told::Stopped(number)) => match &reins.relay {
                    // As good as told once it waits: more are as good as one.
                    Some(relay) => drop(relay.try_send(number)),
                    None => hear.tell(Event::Stopped(number)),
                },
                Some(Told::Runs) => hear.tell(Event::Started),
                // Before it ran, and was heard then.
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

/// Ready when the time is over; never where there is none.
pub(super) async fn after(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => sleep(timeout).await,
        None => std::future::pending().await,
    }
}

async fn told(leader: &mut Option<Leader>) -> Option<Told> {
    match leader {
        Some(leader) => leader.told().await,
        None => None,
    }
}

/// Does what is asked; says whether the tool was stopped in place of SIGTSTP.
fn follow(reaper: &Reaper, reins: &Reins, hear: &Hear, order: Order) -> bool {
    match (order, &reins.leader) {
        // A leader answers when it has done what it was told before: whoever lets a
        // tool go on is to know that keys come after that.
        (Order::QueryStarted, Some(leader)) if leader.query() => {}
        (Order::QueryStarted, _) => hear.tell(Event::Started),
        (Order::Signal(signal), Some(leader)) => leader.signal(signal.number()),
        (Order::Resize(size), Some(leader)) => leader.resize(size),
        (Order::Foreground(front), Some(leader)) => leader.set_foreground(front),
        (Order::Signal(signal), None) => return signal_tool(reaper, reins.pid, signal.number()),
        (Order::Resize(_) | Order::Foreground(_), None) => {}
    }
    false
}

/// Signals the group of a tool that leads a session. The kernel does not stop
/// such a group at SIGTSTP where that has its default action: SIGSTOP does, and
/// this says so.
fn signal_tool(reaper: &Reaper, pid: Pid, number: i32) -> bool {
    let stops = number == libc::SIGTSTP && takes_by_default(pid, number);
    let number = if stops { libc::SIGSTOP } else { number };
    if let Err(errno) = reaper.signal(pid, number) {
        tracing::debug!(%pid, number, %errno, "the signal did not reach the tool");
    }
    stops
}

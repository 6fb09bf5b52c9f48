//! What a running call hears, and what ends it.

use std::time::Duration;

use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tool_protocol::Signal;

use crate::os::process::{Exit, signal_group};

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

/// What supervision listens to beside the process itself.
#[derive(Debug)]
pub(crate) struct Hear {
    /// Signals that the caller sends.
    pub(crate) signals: mpsc::Receiver<Signal>,
    /// Cancelled when the caller is gone.
    pub(crate) gone: CancellationToken,
    /// Cancelled when the server's patience with running calls is over.
    pub(crate) stop: CancellationToken,
}

/// Waits for the first thing that ends the call. The tree is still to be ended
/// where that was not the process itself.
pub(crate) async fn supervise(
    pid: Pid,
    end: &mut oneshot::Receiver<Exit>,
    hear: &mut Hear,
    timeout: Duration,
    overflow: oneshot::Receiver<usize>,
) -> Outcome {
    let deadline = sleep_until(Instant::now() + timeout);
    tokio::pin!(deadline, overflow);
    let mut capturing = true;
    loop {
        tokio::select! {
            biased;
            exit = &mut *end => {
                // The sender lives in the reaper until the process has ended.
                return Outcome::Exited(exit.unwrap_or(Exit::Code(125)));
            }
            () = hear.gone.cancelled() => return Outcome::CallerGone,
            () = hear.stop.cancelled() => return Outcome::Interrupted,
            Some(signal) = hear.signals.recv() => {
                if let Err(errno) = signal_group(pid, signal.number()) {
                    tracing::debug!(%pid, ?signal, %errno, "the signal did not reach the tool");
                }
            }
            seen = &mut overflow, if capturing => match seen {
                Ok(bytes) => return Outcome::OutputTooLarge(bytes),
                Err(_) => capturing = false,
            },
            () = &mut deadline => return Outcome::TimedOut,
        }
    }
}

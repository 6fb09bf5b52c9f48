//! The descriptors of a call: those that the tool gets, and those that stay here
//! and carry its bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_gate::redact::Live;
use tool_protocol::Terminal;

use super::hear::Event;
use super::output::{self, Capture, Chunk, Seen, Source, Spout};
use crate::os::descriptors::{self, Here};
use crate::os::foreign::{Foreign, HandedOn};

/// How input and output of a call travel.
#[derive(Debug)]
pub(crate) enum Io {
    /// The caller's own descriptors, each with its number, and its terminals.
    Passed(Vec<(RawFd, Foreign)>, Vec<Terminal>),
    /// Empty input, all output in the report.
    Captured,
    /// Chunks both ways.
    Streamed {
        /// From the caller; an empty one is the end.
        input: mpsc::Receiver<Bytes>,
        /// Typed for a terminal that is not standard input.
        typed: Option<mpsc::Receiver<Bytes>>,
        /// To the caller.
        output: mpsc::Sender<Chunk>,
        /// Told how much of the input was taken.
        credit: Option<mpsc::Sender<Event>>,
        /// In place of those of the three that they name.
        terminals: Vec<Terminal>,
    },
}

impl Io {
    /// The numbers that the tool's own descriptors have.
    pub(crate) fn numbers(&self) -> Vec<RawFd> {
        let behind = self.terminals().iter().flat_map(|terminal| terminal.fds.iter());
        let behind = behind.filter_map(|number| RawFd::try_from(*number).ok());
        match self {
            Io::Passed(passed, _) => {
                passed.iter().map(|(number, _)| *number).chain(behind).collect()
            }
            Io::Captured | Io::Streamed { .. } => behind.collect(),
        }
    }

    /// The terminals that the tool gets.
    pub(crate) fn terminals(&self) -> &[Terminal] {
        match self {
            Io::Passed(_, terminals) | Io::Streamed { terminals, .. } => terminals,
            Io::Captured => &[],
        }
    }
}

/// The descriptors of a call.
pub(super) struct Plumbing<'a> {
    theirs: Theirs<'a>,
    ours: Ours,
}

enum Theirs<'a> {
    Passed(Vec<(RawFd, Foreign)>),
    Made { null: Option<&'a OwnedFd>, pipes: Vec<(RawFd, OwnedFd)> },
}

/// What stays here once the child runs.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    captured: Option<(OwnedFd, OwnedFd)>,
    streamed: Option<Streamed>,
}

#[derive(Debug)]
struct Streamed {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    input: mpsc::Receiver<Bytes>,
    typed: Option<mpsc::Receiver<Bytes>>,
    output: mpsc::Sender<Chunk>,
    credit: Option<mpsc::Sender<Event>>,
    terminals: Vec<Terminal>,
}

impl<'a> Plumbing<'a> {
    pub(super) fn lay(io: Io, null: &'a OwnedFd) -> Result<Plumbing<'a>, Errno> {
        match io {
            Io::Passed(descriptors, _) => {
                Ok(Plumbing { theirs: Theirs::Passed(descriptors), ours: Ours::default() })
            }
            Io::Captured => {
                let (out, out_child) = descriptors::pipe(&Here::Read)?;
                let (err, err_child) = descriptors::pipe(&Here::Read)?;
                let pipes = vec![(1, out_child), (2, err_child)];
                let ours = Ours { captured: Some((out, err)), streamed: None };
                Ok(Plumbing { theirs: Theirs::Made { null: Some(null), pipes }, ours })
            }
            Io::Streamed { input, typed, output, credit, terminals } => {
                let behind =
                    |number: u32| terminals.iter().any(|terminal| terminal.fds.contains(&number));
                let mut pipes = Vec::with_capacity(3);
                let mut make = |number: u8, here| -> Result<Option<OwnedFd>, Errno> {
                    if behind(u32::from(number)) {
                        return Ok(None);
                    }
                    let (read, write) = descriptors::pipe(&here)?;
                    let (ours, theirs) = match here {
                        Here::Read => (read, write),
                        Here::Write => (write, read),
                    };
                    pipes.push((RawFd::from(number), theirs));
                    Ok(Some(ours))
                };
                let stdin = make(0, Here::Write)?;
                let stdout = make(1, Here::Read)?;
                let stderr = make(2, Here::Read)?;
                let streamed =
                    Streamed { stdin, stdout, stderr, input, typed, output, credit, terminals };
                let ours = Ours { captured: None, streamed: Some(streamed) };
                Ok(Plumbing { theirs: Theirs::Made { null: None, pipes }, ours })
            }
        }
    }

    /// The tool's own, with their numbers.
    pub(super) fn theirs(&self) -> Vec<(BorrowedFd<'_>, RawFd)> {
        match &self.theirs {
            Theirs::Passed(descriptors) => descriptors
                .iter()
                .filter_map(|(number, foreign)| Some((foreign.as_fd()?, *number)))
                .collect(),
            Theirs::Made { null, pipes } => {
                let null = null.iter().map(|null| (null.as_fd(), 0));
                null.chain(pipes.iter().map(|(number, pipe)| (pipe.as_fd(), *number))).collect()
            }
        }
    }

    /// Closes the child's ends here: the child has its own copies, and a pipe
    /// whose writing end is open here would never end.
    pub(super) fn keep_ours(self) -> (Ours, HandedOn) {
        let handed = match self.theirs {
            Theirs::Passed(passed) => HandedOn::close(passed.into_iter().map(|(_, one)| one)),
            Theirs::Made { .. } => HandedOn::default(),
        };
        (self.ours, handed)
    }
}

impl Ours {
    /// Whether a terminal is relayed here, and not by the caller.
    pub(super) fn relays(&self) -> bool {
        self.streamed.is_some()
    }

    /// Carries bytes until `finish`; `masters` are of the terminals that are
    /// relayed here, in their order; of the controlling one `stops` tells.
    pub(super) async fn carry(
        self,
        masters: Vec<OwnedFd>,
        stops: mpsc::Receiver<i32>,
        capture: &Capture,
        redact: Option<&Arc<Live>>,
        finish: &CancellationToken,
        stall: Duration,
    ) -> (Vec<u8>, Vec<u8>, Seen) {
        if let Some((stdout, stderr)) = self.captured {
            let (stdout, stderr) = tokio::join!(
                capture.collect(stdout, finish, redact),
                capture.collect(stderr, finish, redact)
            );
            let seen = Seen::captured(&stdout, &stderr);
            return (stdout, stderr, seen);
        }
        let Some(streamed) = self.streamed else {
            return (Vec::new(), Vec::new(), Seen::default());
        };
        let Streamed { mut stdin, stdout, stderr, input, typed, output, credit, terminals } =
            streamed;
        let (output, taken) = (Spout::new(output, redact.cloned()), AtomicU64::new(0));
        // There are three descriptors here, so three terminals at most.
        let mut stops = Some(stops);
        let mut screens = terminals.iter().zip(masters).map(|(terminal, master)| {
            let over = finish.child_token();
            let stops = if terminal.controlling { stops.take() } else { None };
            Screen { of: terminal, master: Mutex::new(Some((master, stops))), over }
        });
        let screens = [screens.next(), screens.next(), screens.next()];
        let all = || screens.iter().flatten();
        // What is typed goes to the terminal that is standard input, or to the
        // first.
        let in_front = all().find(|screen| screen.of.fds.contains(&0));
        let keyboard = if in_front.is_none() { all().next().and_then(Screen::copy) } else { None };
        if let Some(screen) = in_front {
            stdin = screen.copy();
        }
        let fed = async {
            let gone = output::feed(stdin, input, credit.as_ref(), &taken, finish).await;
            if let (true, Some(screen)) = (gone, in_front) {
                screen.over.cancel();
            }
        };
        let typed = async {
            if let Some(typed) = typed {
                output::feed(keyboard, typed, None, &taken, finish).await;
            }
        };
        let [first, second, third] =
            screens.each_ref().map(|screen| show(screen.as_ref(), &output, stall));
        tokio::join!(
            fed,
            typed,
            output::stream(stdout, Source::Stdout, &output, finish, stall),
            output::stream(stderr, Source::Stderr, &output, finish, stall),
            first,
            second,
            third,
        );
        (Vec::new(), Vec::new(), output.seen(taken.load(Ordering::Relaxed)))
    }
}

/// A terminal that is relayed here.
struct Screen<'a> {
    of: &'a Terminal,
    /// Until it is shown.
    master: Mutex<Option<(OwnedFd, Option<mpsc::Receiver<i32>>)>>,
    /// Cancelled when the call is over, or the caller's terminal is gone.
    over: CancellationToken,
}

impl Screen<'_> {
    fn copy(&self) -> Option<OwnedFd> {
        let master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
        master.as_ref()?.0.try_clone().ok()
    }

    /// The end itself: whoever shows it closes it.
    fn take(&self) -> Option<(OwnedFd, Option<mpsc::Receiver<i32>>)> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn show(screen: Option<&Screen<'_>>, output: &Spout, stall: Duration) {
    let Some(screen) = screen else { return };
    let streams = [(1, Source::Stdout), (2, Source::Stderr)];
    let mut behind = streams.into_iter().filter(|(number, _)| screen.of.fds.contains(number));
    let source = behind.next().map_or(Source::Terminal, |(_, source)| source);
    let Some((master, stops)) = screen.take() else { return };
    output::show(Some(master), source, output, &screen.over, stall, stops).await;
    for (_, source) in behind {
        output::end(source, output, &screen.over, stall).await;
    }
}

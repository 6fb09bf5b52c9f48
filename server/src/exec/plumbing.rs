//! The descriptors of a call: those that the tool gets, and those that stay here
//! and carry its bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool_protocol::Terminal;

use super::hear::Event;
use super::output::{self, Capture, Chunk, Source};
use crate::os::descriptors::{self, Here};
use crate::os::foreign::Foreign;

/// How input and output of a call travel.
#[derive(Debug)]
pub(crate) enum Io {
    /// The caller's own descriptors, each with its number, and a terminal where
    /// it has one.
    Passed(Vec<(RawFd, Foreign)>, Option<Terminal>),
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
        /// In place of those of the three that it names.
        terminal: Option<Terminal>,
    },
}

impl Io {
    /// The terminal that the tool gets.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        match self {
            Io::Passed(_, terminal) | Io::Streamed { terminal, .. } => terminal.as_ref(),
            Io::Captured => None,
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
#[derive(Default)]
pub(super) struct Ours {
    captured: Option<(OwnedFd, OwnedFd)>,
    streamed: Option<Streamed>,
}

struct Streamed {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    input: mpsc::Receiver<Bytes>,
    typed: Option<mpsc::Receiver<Bytes>>,
    output: mpsc::Sender<Chunk>,
    credit: Option<mpsc::Sender<Event>>,
    /// Where what a terminal shows goes.
    screen: Source,
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
            Io::Streamed { input, typed, output, credit, terminal } => {
                let behind = |number: u32| {
                    terminal.as_ref().is_some_and(|terminal| terminal.fds.contains(&number))
                };
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
                let screen = match (&stdout, &stderr) {
                    (None, _) => Source::Stdout,
                    (_, None) => Source::Stderr,
                    _ => Source::Terminal,
                };
                let streamed =
                    Streamed { stdin, stdout, stderr, input, typed, output, credit, screen };
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
    pub(super) fn keep_ours(self) -> Ours {
        self.ours
    }
}

impl Ours {
    /// Whether a terminal is relayed here, and not by the caller.
    pub(super) fn relays(&self) -> bool {
        self.streamed.is_some()
    }

    /// Carries bytes until `finish`; `master` is the terminal that is relayed
    /// here.
    pub(super) async fn carry(
        self,
        master: Option<OwnedFd>,
        capture: &Capture,
        finish: &CancellationToken,
        stall: Duration,
    ) -> (Vec<u8>, Vec<u8>) {
        if let Some((stdout, stderr)) = self.captured {
            return tokio::join!(capture.collect(stdout, finish), capture.collect(stderr, finish));
        }
        let Some(streamed) = self.streamed else { return (Vec::new(), Vec::new()) };
        let Streamed { stdin, stdout, stderr, input, typed, output, credit, screen } = streamed;
        let screen_end = master.as_ref().and_then(|master| master.try_clone().ok());
        // What is typed goes to the terminal: as standard input, or beside it.
        let (stdin, keyboard) = match stdin {
            Some(stdin) => (Some(stdin), master),
            None => (master, None),
        };
        let both = stdout.is_none() && stderr.is_none();
        let show = async {
            output::stream(screen_end, screen, &output, finish, stall).await;
            if both {
                output::end(Source::Stderr, &output, finish, stall).await;
            }
        };
        let typed = async {
            if let Some(typed) = typed {
                output::feed(keyboard, typed, None, finish).await;
            }
        };
        tokio::join!(
            output::feed(stdin, input, credit.as_ref(), finish),
            typed,
            output::stream(stdout, Source::Stdout, &output, finish, stall),
            output::stream(stderr, Source::Stderr, &output, finish, stall),
            show,
        );
        (Vec::new(), Vec::new())
    }
}

//! What is done for a call, in two steps, and where its results go as they come.
//!
//! Owns: the form that one of the tools has for the broker, and how long a thread waits for
//! who takes results. Must not: decide, or choose a thread.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tool_files::{FileError, Operation, Roots, Stop, Target};

use crate::os::json;

/// How long a call's thread waits, in all, for who takes its results as they come: others
/// wait for the thread.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(2);

/// Where results go as they come.
pub(crate) type Pieces = mpsc::Sender<serde_json::Value>;

/// One of the tools with its input, and then with what the input means.
pub(crate) trait Work: Send {
    /// Opens what is meant; gives the real names.
    fn find(&mut self, roots: &Roots) -> Result<Vec<Vec<u8>>, FileError>;
    /// Does it, once.
    fn run(&mut self, stop: &Stop, pieces: Option<&Pieces>) -> Result<Box<RawValue>, FileError>;
}

/// A file operation of the catalogue's.
#[derive(Debug)]
pub(crate) struct OnFiles<O: Operation> {
    input: Option<O::Input>,
    target: Option<O::Target>,
}

impl<O: Operation> OnFiles<O> {
    /// With that input.
    pub(crate) fn new(input: O::Input) -> OnFiles<O> {
        OnFiles { input: Some(input), target: None }
    }
}

impl<O: Operation> Work for OnFiles<O> {
    fn find(&mut self, roots: &Roots) -> Result<Vec<Vec<u8>>, FileError> {
        let input = self.input.take().ok_or(FileError::Stopped)?;
        let target = O::find(roots, input)?;
        let names = target.names();
        self.target = Some(target);
        Ok(names)
    }

    fn run(&mut self, stop: &Stop, pieces: Option<&Pieces>) -> Result<Box<RawValue>, FileError> {
        let target = self.target.take().ok_or(FileError::Stopped)?;
        let mut patience = PATIENCE;
        let mut give = pieces.map(|pieces| {
            move |piece| {
                // Who does not take them gets no more: the whole comes at the end.
                hand_over(pieces, piece, &mut patience, stop);
            }
        });
        let give = give.as_mut().map(|give| give as &mut dyn FnMut(serde_json::Value));
        target.json(stop, give).map(json::written)
    }
}

/// Gives a result to who takes them, for as long as there is patience left.
fn hand_over(pieces: &Pieces, piece: serde_json::Value, patience: &mut Duration, stop: &Stop) {
    let mut piece = piece;
    loop {
        piece = match pieces.try_send(piece) {
            Err(TrySendError::Full(back)) => back,
            Ok(()) | Err(TrySendError::Closed(_)) => return,
        };
        if patience.is_zero() || stop.check().is_err() {
            return;
        }
        let began = Instant::now();
        std::thread::park_timeout(LOOK);
        *patience = patience.saturating_sub(began.elapsed());
    }
}

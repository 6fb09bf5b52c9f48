//! Bytes for a tool that it has not taken yet.
//!
//! A client that keeps within its window is never held up by them: what it sends
//! behind them, a signal, is heard at once. One that does not is read again when
//! the tool has taken what is here.

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tool_protocol::limits::WINDOW;

/// The most bytes that are handed on at once.
const PIECE: usize = 16 * 1024;

/// Standard input on its way, and what is typed beside it.
#[derive(Debug)]
pub(super) struct Input {
    to_tool: Option<mpsc::Sender<Bytes>>,
    typed: Option<mpsc::Sender<Bytes>>,
    held: BytesMut,
    /// How much may be held before the connection is not read.
    room: usize,
    ended: bool,
}

impl Input {
    /// Of a client that keeps to a window, or does not.
    pub(super) fn new(
        to_tool: mpsc::Sender<Bytes>,
        typed: Option<mpsc::Sender<Bytes>>,
        window: bool,
    ) -> Input {
        let room = if window { WINDOW } else { 1 };
        Input { to_tool: Some(to_tool), typed, held: BytesMut::new(), room, ended: false }
    }

    /// Takes a chunk; an empty one is the end.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.ended = true;
        } else if self.to_tool.is_some() && !self.ended {
            self.held.extend_from_slice(bytes);
        }
    }

    /// Takes what was typed. Beyond what waits already it is lost, as it is
    /// beyond the buffer of a terminal.
    pub(super) fn take_typed(&self, bytes: Vec<u8>) {
        if let Some(typed) = &self.typed {
            typed.try_send(Bytes::from(bytes)).ok();
        }
    }

    /// Whether more may come.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() < self.room
    }

    /// Hands a piece on as soon as the tool takes it, and the end after the last.
    /// Giving up the future loses nothing.
    pub(super) async fn hand_on(&mut self) {
        let Some(to_tool) = &self.to_tool else { return std::future::pending().await };
        if self.held.is_empty() && !self.ended {
            return std::future::pending().await;
        }
        let over = match to_tool.reserve().await {
            Ok(room) => {
                let piece = self.held.split_to(self.held.len().min(PIECE)).freeze();
                let last = piece.is_empty();
                room.send(piece);
                last
            }
            // Nobody wants it any more.
            Err(_) => true,
        };
        if over {
            (self.to_tool, self.held) = (None, BytesMut::new());
        }
    }
}

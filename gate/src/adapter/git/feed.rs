//! A body whose beginning is read before the rest of it may go on.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use crate::body::{self, Body};
use crate::refusal::Refusal;

/// A body, and what was read of it.
pub(super) struct Feed {
    read: BytesMut,
    rest: Body,
    ended: bool,
}

impl Feed {
    pub(super) fn new(rest: Body) -> Feed {
        Feed { read: BytesMut::new(), rest, ended: false }
    }

    /// What was read so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.read
    }

    /// Reads more; `false` at the end.
    pub(super) async fn more(&mut self) -> Result<bool, Refusal> {
        while !self.ended {
            let Some(frame) = self.rest.frame().await else {
                self.ended = true;
                break;
            };
            let frame = frame.map_err(|_broken| Refusal::Malformed("the body breaks off"))?;
            if let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) {
                self.read.extend_from_slice(data);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads what is left and drops it: git reads no answer before it has sent all.
    pub(super) async fn drain(&mut self) -> Result<(), Refusal> {
        while self.more().await? {
            self.read.clear();
        }
        Ok(())
    }

    /// All of it, to go on.
    pub(super) fn into_body(self) -> Body {
        let read: Bytes = self.read.freeze();
        if self.ended { body::full(read) } else { body::chain(read, self.rest) }
    }
}

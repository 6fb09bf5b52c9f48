//! An answer that ends where there is no room for what comes.
//!
//! A call has room for its answer where it was asked for. But a client may have the answer come
//! with another request: a stream that it resumes, or one with the same number.
//!
//! Owns: that such an answer counts where it is read. Must not: look at what passes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::listen::unread::Room;

/// A body, as far as there is room.
pub(super) struct Counted {
    body: Body,
    room: Room,
}

impl Counted {
    /// In that room.
    pub(super) fn new(body: Body, room: Room) -> Counted {
        Counted { body, room }
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && frame.data_ref().is_some_and(|part| !self.room.covers(part))
        {
            let message = "too many answers wait to be read";
            return Poll::Ready(Some(Err(axum::Error::new(message))));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

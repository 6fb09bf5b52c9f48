//! An answer that ends when the token is gone that it was asked for with.
//!
//! Owns: that. Must not: look at what passes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A body, until then.
pub(super) struct Until {
    body: Body,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Until {
    /// Of this token.
    pub(super) fn new(body: Body, gone: CancellationToken) -> Until {
        Until { body, gone: Box::pin(gone.cancelled_owned()) }
    }
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.gone.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

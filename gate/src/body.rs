//! Bodies of messages, piece by piece.
//!
//! Owns: the one type that bodies have here, and making one. Must not: hold a whole
//! body, but for those that somebody has to read before they go on, and then within a
//! bound.
//!
//! - `shown`  what an approver sees of one

mod shown;

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

use crate::refusal::Refusal;

pub(crate) use self::shown::{HELD, show};

/// Why a body broke off.
pub type BodyError = Box<dyn Error + Send + Sync>;

/// A body on its way, of a request or an answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Nothing.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// These bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// What hyper receives.
pub fn incoming(body: Incoming) -> Body {
    Data(body).boxed_unsync()
}

/// What a client of ours sends. Where nobody reads it to its end, the rest is thrown
/// away for a while as it comes: who is refused while it sends would otherwise be cut
/// off, and not hear why.
pub(crate) fn received(body: Incoming) -> Body {
    Received(Some(body)).boxed_unsync()
}

/// These bytes, which were read from it before, and the rest of the body.
pub fn chain(first: Bytes, rest: Body) -> Body {
    Chain { first, rest }.boxed_unsync()
}

/// The same body, with something that is dropped when it is.
pub(crate) fn with(body: Body, kept: impl Send + Unpin + 'static) -> Body {
    With { body, _kept: kept }.boxed_unsync()
}

/// The whole of a body, where it is no longer than `limit`.
pub async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_broken| Refusal::Malformed("the body breaks off"))?;
        if let Some(data) = frame.data_ref() {
            if whole.len().saturating_add(data.len()) > limit {
                return Err(Refusal::TooLong { limit });
            }
            whole.extend_from_slice(data);
        }
    }
    Ok(whole.into())
}

// What comes after a body is headers again, which nobody looked at: it is left out.
fn next_data(
    body: &mut Incoming,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    loop {
        let frame = hyper::body::Body::poll_frame(Pin::new(&mut *body), context);
        return match std::task::ready!(frame) {
            Some(Ok(frame)) if !frame.is_data() => continue,
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(error)) => Poll::Ready(Some(Err(Box::new(error)))),
            None => Poll::Ready(None),
        };
    }
}

struct Data(Incoming);

impl hyper::body::Body for Data {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        next_data(&mut self.0, context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// As long as the rest of a body is thrown away.
const UNREAD: Duration = Duration::from_secs(5);

struct Received(Option<Incoming>);

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Some(body) => next_data(body, context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, hyper::body::Body::size_hint)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let unread = self.0.take().filter(|body| !hyper::body::Body::is_end_stream(body));
        let Some((mut body, runtime)) = unread.zip(Handle::try_current().ok()) else { return };
        runtime.spawn(async move {
            let rest = async { while let Some(Ok(_)) = body.frame().await {} };
            // Whoever sends for longer is cut off.
            drop(tokio::time::timeout(UNREAD, rest).await);
        });
    }
}

struct Chain {
    first: Bytes,
    rest: Body,
}

impl hyper::body::Body for Chain {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

struct With<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> hyper::body::Body for With<T> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

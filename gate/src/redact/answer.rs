//! Answers that go to whoever must not have the credential, with nothing between that
//! takes it out: a host may show what it was sent.
//!
//! Owns: asking for what can be looked through, and taking values out of headers and
//! body, piece by piece. Must not: hold a body, but for a short one, and what may be the
//! beginning of a value.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body as _, Frame};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE};

use super::{Live, Scrubber, TooMany};
use crate::body::{self, Body, BodyError};
use crate::credential::Secret;
use crate::refusal::Refusal;
use crate::upstream::UpstreamError;

/// Answers up to this length, where it is known, are looked through as a whole.
const SHORT: u64 = 64 * 1024;

/// The value that was added last, and what is looked for then.
#[derive(Default)]
pub struct Answers(Mutex<Option<(Secret, Arc<Live>)>>);

impl fmt::Debug for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Answers")
    }
}

impl Answers {
    /// What to look for in an answer to a request with this value.
    pub(crate) fn of(&self, secret: &Secret) -> Result<Arc<Live>, TooMany> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) =
            last.as_ref().filter(|(known, _)| known.expose() == secret.expose())
        {
            return Ok(Arc::clone(live));
        }
        let live = Arc::new(Live::new(Vec::new(), None));
        live.learn(secret)?;
        *last = Some((secret.clone(), Arc::clone(&live)));
        Ok(live)
    }
}

/// Asks for an answer that can be read, and for the whole of it: in pieces that somebody
/// chooses no value is whole.
pub(crate) fn ask(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
}

/// The same answer, without the values.
pub(crate) async fn clean(
    mut answer: Response<Body>,
    live: &Arc<Live>,
    host: &str,
) -> Result<Response<Body>, Refusal> {
    let codings = answer.headers().get_all(CONTENT_ENCODING);
    let coded = codings.iter().any(|one| !one.as_bytes().eq_ignore_ascii_case(b"identity"));
    let ended = answer.body().is_end_stream();
    if coded && !ended {
        return Err(Refusal::Coded { host: host.to_owned() });
    }
    // As good as none: whoever shows it there says nothing else.
    let (_, values) = live.now();
    let has = |bytes: &[u8]| values.as_ref().is_some_and(|values| values.finder.is_match(bytes));
    let shows = |(name, value): (&hyper::header::HeaderName, &HeaderValue)| {
        has(value.as_bytes()).then(|| name.clone())
    };
    let shown: Vec<_> = answer.headers().iter().filter_map(shows).collect();
    for name in shown {
        answer.headers_mut().remove(name);
    }
    if ended {
        return Ok(answer);
    }
    let short = answer.body().size_hint().exact().is_some_and(|length| length <= SHORT);
    let scrubber = Some(Scrubber::new(Arc::clone(live)));
    let (parts, body) = answer.into_parts();
    let body = Scrubbed { body, scrubber }.boxed_unsync();
    if !short {
        return Ok(Response::from_parts(parts, body));
    }
    // What has a length keeps one.
    let broken =
        |error: BodyError| UpstreamError::Broken { host: host.to_owned(), why: error.to_string() };
    let whole = body.collect().await.map_err(broken)?.to_bytes();
    Ok(Response::from_parts(parts, body::full(whole)))
}

/// How long it is nobody knows before its end.
struct Scrubbed {
    body: Body,
    /// None once it is over.
    scrubber: Option<Scrubber>,
}

impl hyper::body::Body for Scrubbed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            let out = match frame.map(|frame| frame.map(Frame::into_data)) {
                // What was held is not let go: it broke off.
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Ok(data))) => match &mut self.scrubber {
                    Some(scrubber) => scrubber.push(data),
                    None => return Poll::Ready(None),
                },
                // Headers again, which bodies leave out.
                Some(Ok(Err(_))) => continue,
                None => match self.scrubber.take() {
                    Some(mut scrubber) => scrubber.finish(),
                    None => return Poll::Ready(None),
                },
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
            if self.scrubber.is_none() {
                return Poll::Ready(None);
            }
        }
    }
}

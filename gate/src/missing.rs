//! A host refuses a request that nobody is logged in for: the gate's credential is not
//! there.
//!
//! Owns: seeing that, and saying it to the tool in the words of its protocol, and once
//! in the log. Must not: refuse; what is public needs no credential, so such a request
//! goes on.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tool_policy::definition::gate::Adapter;

use crate::body::{self, Body};

/// What is said with the host's answer; shown, it is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Where the credential would be.
    name: String,
    host: String,
    status: StatusCode,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { name, host, status } = self;
        write!(
            formatter,
            "the broker has no log-in for {host}, which answers {status}: the credential {name} is not there, or empty; tell who runs the broker"
        )
    }
}

/// Names of credentials that somebody was told of already.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashSet<String>>);

impl Told {
    /// Says so in the log, once until it is there again.
    fn tell(&self, missing: &Missing) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(missing.name.clone()) {
            let Missing { name, host, status } = missing;
            tracing::warn!(
                credential = name,
                host,
                status = status.as_u16(),
                "a host refuses requests that have no credential, since it is not there or empty: put it there"
            );
        }
    }

    /// It is there.
    pub(crate) fn found(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// Marks the answer to a request that went on without this credential, where the host
/// may want it: some hide what is private behind a 404.
pub(crate) fn mark(
    answer: &mut Response<Body>,
    told: &Told,
    adapter: Adapter,
    name: String,
    host: &str,
) {
    let status = answer.status();
    let hides = matches!(adapter, Adapter::Git | Adapter::Github);
    let refuses = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
        StatusCode::NOT_FOUND => hides,
        _ => false,
    };
    if refuses {
        let missing = Missing { name, host: host.to_owned(), status };
        told.tell(&missing);
        // To gh a 404 may be an answer like any other, and a script reads it.
        if (status, adapter) != (StatusCode::NOT_FOUND, Adapter::Github) {
            answer.extensions_mut().insert(missing);
        }
    }
}

/// What was marked.
pub(crate) fn of(answer: &Response<Body>) -> Option<Missing> {
    answer.extensions().get::<Missing>().cloned()
}

/// The same answer with this for a body, of this kind.
pub(crate) fn instead(answer: Response<Body>, text: String, kind: &'static str) -> Response<Body> {
    let mut answer = answer.map(|_what_the_host_says| body::full(text));
    let headers = answer.headers_mut();
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

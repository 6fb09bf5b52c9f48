//! Why a request does not go on, and how the caller is told.

use hyper::header::{CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Response, StatusCode};

use crate::body::{self, Body};
use crate::credential::CredentialError;
use crate::upstream::UpstreamError;

/// Why a request does not go on. Shown, it is one line for people.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It does not name the call's secret.
    #[error(
        "this way out belongs to another call: use the proxy that the call's environment names"
    )]
    Stranger,
    /// It is not what HTTP allows, or what is taken here.
    #[error("the request is not taken: {0}")]
    Malformed(&'static str),
    /// No gate of the tool names this host and port.
    #[error(
        "{host}:{port} is not a host that this tool may reach: its definition lists those under [[gate]]"
    )]
    Host {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// A list of the gate does not have it, or the call's grant; in words.
    #[error("{0}")]
    Unlisted(String),
    /// A rule, or the gate's default.
    #[error("{reason}{}", instead.as_ref().map(|instead| format!(": {instead}")).unwrap_or_default())]
    Ruled {
        /// The rule's id.
        rule: String,
        /// Why.
        reason: String,
        /// What to do instead.
        instead: Option<String>,
    },
    /// A message that has to be read before it goes on is too long.
    #[error("the request is longer than the {limit} bytes that are looked at: split it")]
    TooLong {
        /// How long it may be.
        limit: usize,
    },
    /// The host sent the caller somewhere else.
    #[error(
        "{from} answers with a redirect to {to}, which is not followed: {to} would have to be listed under [[gate]]"
    )]
    Redirected {
        /// The host that was asked.
        from: String,
        /// Where it points to.
        to: String,
    },
    /// Its answer cannot be looked through.
    #[error(
        "{host} compresses its answer, unasked: it cannot be looked through for the credential"
    )]
    Coded {
        /// The host that was asked.
        host: String,
    },
    /// There is no credential.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The host cannot be reached.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl Refusal {
    /// The status that says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Stranger => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
            Refusal::Host { .. } | Refusal::Unlisted(_) | Refusal::Ruled { .. } => {
                StatusCode::FORBIDDEN
            }
            Refusal::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Redirected { .. } | Refusal::Coded { .. } | Refusal::Credential(_) => {
                StatusCode::BAD_GATEWAY
            }
            Refusal::Upstream(error) => error.status(),
        }
    }

    /// Whether the audit hears of it from here: of rules the judge has told already.
    pub fn is_news(&self) -> bool {
        !matches!(self, Refusal::Ruled { .. })
    }

    /// The one line, by whom and why.
    pub fn line(&self) -> String {
        format!("refused by the broker: {self}")
    }

    /// An answer of plain text.
    pub fn response(&self) -> Response<Body> {
        let mut response = Response::new(body::full(format!("{}\n", self.line())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if matches!(self, Refusal::Stranger) {
            headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"call\""));
        }
        response
    }
}

//! Answers to questions, by the forms of a page of this door.
//!
//! Owns: the nonces of pages, and what becomes of a form. Must not: decide what may be
//! approved; `broker.approvals` does, as for the control socket.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, ORIGIN};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};
use subtle::ConstantTimeEq as _;
use tokio::time::timeout;
use tool_protocol::{Code, Refusal};
use tracing::info;

use super::super::House;
use super::super::answer::{Problem, json};
use super::super::guard::Caller;
use super::super::page::Forms;
use crate::broker::{BY_HTTP, Viewer};

/// Pages of one operator whose forms are taken.
const PAGES: usize = 64;
/// How long a page's are.
const LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// Bytes of a form.
const FORM: usize = 8 * 1024;
/// Bytes of a nonce, before they are text.
const NONCE: usize = 16;

/// What belongs to operators.
#[derive(Debug, Default)]
pub(in super::super) struct Desk(Mutex<HashMap<Arc<str>, Pages>>);

/// Of one operator.
#[derive(Debug, Default)]
struct Pages {
    nonces: VecDeque<(String, Instant)>,
    told: Option<(bool, String)>,
}

impl Desk {
    /// For a new page.
    pub(in super::super) fn forms(&self, name: &Arc<str>) -> Forms {
        let nonce = nonce();
        let mut all = self.lock();
        let pages = all.entry(Arc::clone(name)).or_default();
        // Where there is no chance there is no form that is taken.
        if !nonce.is_empty() {
            pages.nonces.push_back((nonce.clone(), Instant::now()));
        }
        while pages.nonces.len() > PAGES {
            pages.nonces.pop_front();
        }
        Forms { nonce, told: pages.told.take() }
    }

    fn knows(&self, name: &Arc<str>, nonce: &str) -> bool {
        let all = self.lock();
        let own = all.get(name).into_iter().flat_map(|pages| &pages.nonces);
        let mut own = own.filter(|(_, since)| since.elapsed() < LASTS);
        own.any(|(known, _)| bool::from(known.as_bytes().ct_eq(nonce.as_bytes())))
    }

    fn tell(&self, name: &Arc<str>, well: bool, text: String) {
        self.lock().entry(Arc::clone(name)).or_default().told = Some((well, text));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Pages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing where the kernel gives none.
fn nonce() -> String {
    use std::fmt::Write as _;
    let mut bytes = [0u8; NONCE];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    let mut text = String::new();
    if read.is_ok() {
        for byte in bytes {
            write!(text, "{byte:02x}").ok();
        }
    }
    text
}

/// A form.
#[derive(Default)]
struct Said {
    what: String,
    approval: String,
    nonce: String,
    for_seconds: Option<u64>,
    reason: String,
    unseen: bool,
}

impl Said {
    fn parse(bytes: &[u8]) -> Option<Said> {
        let mut said = Said::default();
        for (name, value) in form_urlencoded::parse(bytes) {
            match &*name {
                "do" => said.what = value.into_owned(),
                "approval" => said.approval = value.into_owned(),
                "nonce" => said.nonce = value.into_owned(),
                "reason" => said.reason = value.into_owned(),
                "for_seconds" => said.for_seconds = Some(value.parse().ok()?),
                "unseen" => said.unseen = value == "1",
                _ => return None,
            }
        }
        Some(said)
    }
}

/// `GET /approvals`
pub(super) async fn list(State(house): State<Arc<House>>) -> Response {
    json(StatusCode::OK, &house.agent.broker().approvals_seen(Viewer::Operator))
}

/// `POST /approvals`
pub(super) async fn answer(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let refuse =
        |status, code: &'static str, message: &'static str| Problem::new(status, code, message);
    // `guard::names` has compared it where it is there; a browser always sends it here.
    if !request.headers().contains_key(ORIGIN) {
        let message = "an answer has an Origin: it comes from a page of this door";
        return Err(refuse(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", message));
    }
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind != Some(b"application/x-www-form-urlencoded") {
        let message = "an answer is a form: application/x-www-form-urlencoded";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message));
    }
    let body = Limited::new(request.into_body(), FORM).collect();
    let Ok(Ok(body)) = timeout(house.left(&caller), body).await else {
        let message = "the form did not come whole, or has more than 8 KiB";
        return Err(refuse(StatusCode::BAD_REQUEST, "BAD_REQUEST", message));
    };
    let Some(said) = Said::parse(&body.to_bytes()) else {
        let message = "no form of this page";
        return Err(refuse(StatusCode::BAD_REQUEST, "BAD_REQUEST", message));
    };
    let Some(desk) = &house.desk else {
        return Err(refuse(StatusCode::NOT_FOUND, "NOT_FOUND", "no operator is here"));
    };
    if !desk.knows(&caller.name, &said.nonce) {
        let message = "the form is of no page of yours, or of an old one: load the page again";
        return Err(refuse(StatusCode::FORBIDDEN, "STALE_PAGE", message));
    }
    let told = heed(&house, &said);
    if let Ok(told) = &told {
        info!(operator = %caller.name, approval = %said.approval.escape_default(), "by HTTP: {told}");
    }
    match told {
        Ok(told) => desk.tell(&caller.name, true, told),
        Err(refusal) => desk.tell(&caller.name, false, refusal.message),
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    Ok(response)
}

fn heed(house: &House, said: &Said) -> Result<String, Refusal> {
    let approvals = &house.agent.broker().approvals;
    let Said { what, approval: id, for_seconds, reason, unseen, .. } = said;
    match what.as_str() {
        "approve" => approvals.approve(id, BY_HTTP, None, *unseen),
        "approve_for" => {
            let bad = || Refusal::new(Code::BadRequest, "for how long?");
            let lasts = for_seconds.filter(|seconds| (1..=86_400).contains(seconds));
            let lasts = Duration::from_secs(lasts.ok_or_else(bad)?);
            approvals.approve(id, BY_HTTP, Some(lasts), *unseen)
        }
        "deny" => approvals.deny(id, BY_HTTP, reason),
        "revoke" => approvals.revoke(id),
        _ => Err(Refusal::new(Code::BadRequest, "approve, approve_for, deny or revoke")),
    }
}

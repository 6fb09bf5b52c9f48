//! The tools by their names.
//!
//! Owns: lists and definitions, a call and its observation. Must not: know what a tool
//! does; `agent` does.

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, HeaderMap};
use axum::response::Response;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tool_protocol::Observation;

use super::House;
use super::answer::{Problem, json, status_of};
use super::body::Said;
use super::events;
use super::guard::Caller;
use crate::agent::Invocation;
use crate::agent::format;

/// `GET /tools?format=…&set=…`
pub(super) async fn list(
    State(house): State<Arc<House>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut asked = format::Asked::default();
    for pair in query.iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        asked.say(name, value).map_err(bad)?;
    }
    let tools = house.agent.tools(None);
    Ok(json(StatusCode::OK, &asked.answer(&tools)))
}

/// `GET /tools/NAME`
pub(super) async fn one(
    State(house): State<Arc<House>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_wrong| unknown())?;
    let tools = house.agent.tools(Some(std::slice::from_ref(&name)));
    let tool = tools.first().ok_or_else(unknown)?;
    Ok(json(StatusCode::OK, &format::own(tool)))
}

/// `POST /tools/NAME`
pub(super) async fn call(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_wrong| unknown())?;
    let streamed = wants_events(request.headers());
    let said = house.body(&caller, request).await?;
    if streamed {
        return Ok(events::call(&house, &caller, name, said));
    }
    let seen = house.call(&caller, name, said).await?;
    let status = seen.error.as_ref().map_or(StatusCode::OK, status_of);
    Ok(json(status, &seen))
}

/// As often an answer is in memory until it is written.
pub(super) const ONCE: usize = 1;

impl House {
    /// A call, ended where nobody waits for it any more or it takes too long.
    pub(super) async fn call(
        &self,
        caller: &Caller,
        tool: String,
        said: Said,
    ) -> Result<Observation, Problem> {
        let _busy = self.busy.token();
        let gone = CancellationToken::new();
        // The connection's end drops this.
        let _gone = gone.clone().drop_guard();
        let Said { bytes, room } = said;
        let _room = room;
        let answers = caller.answers.clone();
        let called = self
            .agent
            .dispatch(invocation(caller, tool, bytes, gone), move |seen| answers.take(seen, ONCE));
        match timeout(self.left(caller), called).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => {
                let message = "the call took longer than a request by HTTP may, and was ended: \
                               see http.request_timeout_ms (REQUEST_TIMEOUT), or ask for \
                               text/event-stream";
                Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "TIMED_OUT", message))
            }
        }
    }
}

/// A call whose pieces and notices nobody takes.
pub(super) fn invocation(
    caller: &Caller,
    tool: String,
    input: Vec<u8>,
    gone: CancellationToken,
) -> Invocation {
    let (pieces, notices, tell) = (None, None, None);
    Invocation { peer: caller.peer, tool, input, only: None, pieces, notices, gone, tell }
}

/// The same, with what it tells meanwhile.
pub(super) fn telling(
    asked: &mut Invocation,
    many: usize,
) -> (mpsc::Receiver<Value>, mpsc::Receiver<String>) {
    let (piece, pieces) = mpsc::channel(many);
    let (notice, notices) = mpsc::channel(many);
    (asked.pieces, asked.notices) = (Some(piece), Some(notice));
    (pieces, notices)
}

/// The server is on its end.
pub(super) fn stopping() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "DRAINING", "the server is stopping").after(1)
}

fn unknown() -> Problem {
    let message = "no such tool: GET /tools lists them";
    Problem::new(StatusCode::NOT_FOUND, "UNKNOWN_TOOL", message)
}

fn bad(message: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

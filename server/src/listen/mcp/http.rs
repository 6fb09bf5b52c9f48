//! Requests by HTTP: the SDK's transport, and what it does not do.
//!
//! Owns: errors that are JSON-RPC's, whose session a request means, the end of streams when
//! the server stops. Must not: know tokens; who asks is known before.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool_protocol::{json as text, limits};

use super::counted::Counted;
use super::direct::Direct;
use super::service::Service;
use super::sessions::{Entry, Sessions};
use super::way::Visitor;
use crate::agent::Agent;
use crate::broker::Peer;
use crate::listen::unread::Room;

const SESSION: &str = "mcp-session-id";
/// Between two looks for sessions of nobody.
const LOOK: Duration = Duration::from_secs(5);
/// From the last call's end to the end of all streams: its answer has to be written.
const LAST: Duration = Duration::from_millis(300);

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const SESSION_NOT_FOUND: i32 = -32001;
const BUSY: i32 = -32000;

/// Bytes of the message that begins a session: the session keeps it.
const MOST_INITIALIZE: usize = 64 * 1024;
/// Bytes of any other message that is no call of a tool: a session may have some waiting,
/// whoever sent them gone.
const MOST_OTHER: usize = 256 * 1024;

/// Everything about MCP by HTTP.
pub(in crate::listen) struct Mcp {
    service: StreamableHttpService<Service<Direct>, LocalSessionManager>,
    sessions: Sessions,
    calls: TaskTracker,
    over: CancellationToken,
}

impl std::fmt::Debug for Mcp {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Mcp").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// What a message is, as far as it has to be known here.
#[derive(Deserialize)]
struct Glance {
    method: Option<String>,
}

impl Glance {
    /// How many bytes such a message may have. A call has what any request by HTTP may.
    fn most(&self) -> usize {
        match self.method.as_deref() {
            Some("tools/call") => usize::MAX,
            Some("initialize") => MOST_INITIALIZE,
            _ => MOST_OTHER,
        }
    }
}

impl Mcp {
    /// `busy`: what a stop waits for. `hosts`, `origins`: by whom it may be asked, a second
    /// time: the guard before has looked already. `most`: bytes of a message.
    pub(in crate::listen) fn new(
        agent: Agent,
        busy: TaskTracker,
        hosts: Vec<String>,
        origins: Vec<String>,
        most: usize,
    ) -> Mcp {
        let (calls, over) = (TaskTracker::new(), CancellationToken::new());
        let mut manager = LocalSessionManager::default();
        // How long a session stays is said in `sessions`: a call may be quiet for long.
        manager.session_config.keep_alive = None;
        // What is answered is not kept: it may be large.
        manager.session_config.completed_cache_ttl = Duration::ZERO;
        // Clients of the first versions do not know an event without data.
        manager.session_config.sse_retry = None;
        let manager = Arc::new(manager);
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(most)
            .with_cancellation_token(over.clone());
        config.sse_retry = None;
        let way = Direct::new(agent, [busy, calls.clone()]);
        let make = move || Ok(Service::new(way.clone()));
        let service = StreamableHttpService::new(make, Arc::clone(&manager), config);
        Mcp { service, sessions: Sessions::new(manager), calls, over }
    }

    /// Ends what is over, until the server stops; then every stream, after the last call.
    pub(in crate::listen) async fn keep(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(LOOK) => self.sessions.sweep().await,
            }
        }
        self.calls.close();
        self.calls.wait().await;
        sleep(LAST).await;
        self.over.cancel();
    }

    /// Ends every session of a client that may not ask any more, and its calls.
    pub(in crate::listen) async fn end_all_of(&self, socket: usize) {
        self.sessions.end_all_of(socket).await;
    }

    /// One request of somebody's, whose answers have room there. `held` is given back when its
    /// answer is over.
    pub(in crate::listen) async fn answer(
        &self,
        (peer, answers): (Peer, Room),
        mut head: Parts,
        said: Vec<u8>,
        held: impl Send + Sync + 'static,
    ) -> Response {
        let id = head.headers.get(SESSION).map(|id| id.to_str().unwrap_or_default().to_owned());
        let mut glance = Glance { method: None };
        if head.method == Method::POST {
            if !text::values_within(&said, limits::MAX_VALUES) {
                let most = limits::MAX_VALUES;
                let message = format!("one message has at most {most} values: make more calls");
                return wrong(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &message);
            }
            if serde_json::from_slice::<IgnoredAny>(&said).is_err() {
                return wrong(StatusCode::BAD_REQUEST, PARSE_ERROR, "the message is no JSON");
            }
            match serde_json::from_slice(&said) {
                Ok(message) => glance = message,
                Err(_) => {
                    let message = "one message is one JSON object: batches are not taken";
                    return wrong(StatusCode::BAD_REQUEST, INVALID_REQUEST, message);
                }
            }
        }
        let most = glance.most();
        if said.len() > most {
            let message = format!("a message that is no call of a tool has at most {most} bytes");
            return wrong(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &message);
        }
        let entry = match &id {
            Some(id) => match self.sessions.find(id, peer.socket) {
                Some(entry) => entry,
                None => {
                    let message = "no such session: begin a new one with initialize";
                    return wrong(StatusCode::NOT_FOUND, SESSION_NOT_FOUND, message);
                }
            },
            None => Entry::new(peer.socket),
        };
        let begins = id.is_none() && glance.method.as_deref() == Some("initialize");
        let mut place = None;
        if begins {
            place = self.sessions.admit(peer.socket).await;
            if place.is_none() {
                let message =
                    "too many sessions are in use: end one with DELETE, or try again later";
                let mut response = wrong(StatusCode::SERVICE_UNAVAILABLE, BUSY, message);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
                return response;
            }
        }
        head.extensions.insert(Visitor { peer, calls: entry.calls(), answers: answers.clone() });
        let ends = head.method == Method::DELETE;
        let posted = head.method == Method::POST;
        let listening = entry.listen();
        let request = Request::from_parts(head, Full::new(Bytes::from(said)));
        let mut response = self.service.handle(request).await;
        if posted && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // Its kind was looked at before: it is the message.
            let message = "the message is none of MCP's";
            return wrong(StatusCode::BAD_REQUEST, INVALID_REQUEST, message);
        }
        if let (true, Some(id)) = (ends && response.status().is_success(), &id) {
            self.sessions.end(id).await;
            // It is done, not begun; some clients take no other word for it.
            *response.status_mut() = StatusCode::OK;
        }
        let made = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        if let (Some(place), Some(made)) = (place, made) {
            place.take(made.to_owned(), entry);
        }
        response.map(|body| {
            let body = Counted::new(Body::new(body), answers);
            Body::new(body.map_frame(move |frame| {
                let _until_its_end = (&listening, &held);
                frame
            }))
        })
    }
}

/// An error that belongs to no request.
fn wrong(status: StatusCode, code: i32, message: &str) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

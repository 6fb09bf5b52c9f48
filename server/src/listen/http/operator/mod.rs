//! The operators' door: the same page with all calls, and questions that can be answered.
//!
//! Owns: its listener, its tokens, its few routes, and that an answer comes from a page of
//! this door. Must not: serve a tool, or open with a caller's token.
//!
//! - `desk`  answers, by forms

mod desk;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

pub(super) use self::desk::Desk;
use super::answer::Problem;
use super::clients::Clients;

use super::{House, HttpDoor, HttpError, guard, headers, page};
use crate::config::{Config, Http};

/// Connections at once.
pub(super) const CONNECTIONS: usize = 16;

/// An address that is taken, and who may answer there.
#[derive(Debug)]
pub(crate) struct OperatorDoor {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) clients: Arc<Clients>,
    pub(super) settings: Http,
}

impl OperatorDoor {
    /// Takes the address, where there is to be one. A token opens one door or the other.
    pub(crate) fn bind(
        config: &Config,
        callers: Option<&HttpDoor>,
    ) -> Result<Option<OperatorDoor>, HttpError> {
        let (Some(address), Some(path)) =
            (config.http.operator_listen, &config.http.operator_token_file)
        else {
            return Ok(None);
        };
        let clients = Arc::new(Clients::read(path.clone())?);
        if let Some(callers) = callers {
            if clients.share_with(&callers.clients) {
                let wrong = "a token of http.token_file is in it: an operator's opens nothing else";
                return Err(HttpError::Tokens { path: path.clone(), line: None, wrong });
            }
            // From here on one that is put into both opens neither.
            clients.never_with(&callers.clients);
        }
        let failed = |source| HttpError::Operator { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // No page but its own, by no name but loopback's, and always strict.
        let settings = Http {
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            helmet: true,
            ..config.http.clone()
        };
        Ok(Some(OperatorDoor { listener, address, clients, settings }))
    }

    /// Where, with the port that the kernel chose where none was given.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The table.
pub(super) fn router(house: Arc<House>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/events", get(page::events))
        .route("/assets/page.css", get(page::style))
        .route("/assets/page.js", get(page::script))
        .route("/assets/icon.svg", get(page::icon))
        .route("/approvals", get(desk::list).post(desk::answer))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(Arc::clone(&house), guard::callers))
        .layer(from_fn_with_state(Arc::clone(&house), guard::names))
        .layer(from_fn_with_state(Arc::clone(&house), headers::dress))
        .with_state(house)
}

async fn nothing() -> Problem {
    let message = "nothing is here: GET / is the operators' page; tools are at http.listen";
    Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
}

async fn not_so() -> Problem {
    let message = "not by this method: the header Allow names those that are";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
}

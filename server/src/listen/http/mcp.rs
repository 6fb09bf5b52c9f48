//! MCP, by the streamable transport of HTTP.
//!
//! Owns: what of the settings counts there. Must not: know MCP; `listen::mcp` does.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use tokio_util::task::TaskTracker;

use super::House;
use super::answer::Problem;
use super::guard::Caller;
use crate::agent::Agent;
use crate::config::Http;
use crate::listen::mcp::Mcp;

/// `/mcp`, by every method.
pub(super) async fn answer(
    State(house): State<Arc<House>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    if request.method() != Method::POST {
        let (head, _body) = request.into_parts();
        return Ok(house.mcp.answer((caller.peer, caller.answers), head, Vec::new(), ()).await);
    }
    let (head, body) = request.into_parts();
    let said = house.body(&caller, Request::from_parts(head.clone(), body)).await?;
    Ok(house.mcp.answer((caller.peer, caller.answers), head, said.bytes, said.room).await)
}

/// As the settings have it.
pub(super) fn open(agent: Agent, busy: TaskTracker, settings: &Http, at: SocketAddr) -> Mcp {
    let mut hosts = vec!["localhost".to_owned(), "[::1]".to_owned(), at.ip().to_string()];
    hosts.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    hosts.extend(settings.hosts.iter().cloned());
    // Pages of its own: the port is looked at by the guard before.
    let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}:*")).collect();
    origins.extend(settings.cors_origins.iter().cloned());
    Mcp::new(agent, busy, hosts, origins, settings.max_request)
}

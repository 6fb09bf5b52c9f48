//! Which path is what, and what every request passes on its way there.
//!
//! Owns: the table. Must not: answer anything but what no path is.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, get, post};
use serde_json::json;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::answer::{Problem, json};
use super::{House, guard, headers, mcp, openapi, original, page, tools, trial};
use crate::metrics;

/// How long a browser remembers that it may.
const PREFLIGHT: Duration = Duration::from_secs(600);

/// Headers of MCP, for pages.
const MCP: [HeaderName; 5] = [
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("last-event-id"),
];

/// The table.
pub(super) fn table() -> Vec<(&'static str, MethodRouter<Arc<House>>)> {
    vec![
        ("/", get(page::page)),
        ("/events", get(page::events)),
        ("/assets/page.css", get(page::style)),
        ("/assets/page.js", get(page::script)),
        ("/assets/icon.svg", get(page::icon)),
        ("/health", get(health)),
        ("/metrics", get(figures)),
        ("/openapi.json", get(openapi::document)),
        ("/mcp", any(mcp::answer)),
        ("/tools", get(tools::list)),
        ("/tools/{name}", get(tools::one).post(tools::call)),
        ("/search", post(original::search)),
        ("/read", post(original::read)),
        ("/command", post(original::command)),
        ("/edit", post(original::edit)),
        ("/container-operation", post(original::container)),
        ("/api/test-tool", post(trial::test_tool)),
    ]
}

/// What answers.
pub(super) fn router(house: Arc<House>) -> Router {
    let add = |router: Router<Arc<House>>, (path, answers)| router.route(path, answers);
    let routes = table()
        .into_iter()
        .fold(Router::new(), add)
        .fallback(nothing)
        .method_not_allowed_fallback(not_so);
    // From the innermost to the outermost: a browser asks without a token whether it may.
    let mut app = routes.layer(from_fn_with_state(Arc::clone(&house), guard::callers));
    if !house.settings.cors_origins.is_empty() {
        app = app.layer(cors(&house.settings.cors_origins));
    }
    app.layer(from_fn_with_state(Arc::clone(&house), guard::names))
        .layer(from_fn_with_state(Arc::clone(&house), headers::dress))
        .with_state(house)
}

fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::list([AUTHORIZATION, CONTENT_TYPE].into_iter().chain(MCP)))
        .expose_headers(MCP)
        .max_age(PREFLIGHT)
}

async fn health(State(house): State<Arc<House>>) -> Response {
    let broker = house.agent.broker();
    let refusing = broker.audit.as_ref().and_then(crate::audit::Audit::is_refusing).is_some();
    let well = !refusing && !broker.draining.is_cancelled();
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &json!({"ok": well, "version": env!("CARGO_PKG_VERSION")}))
}

async fn figures(State(house): State<Arc<House>>) -> Response {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], house.agent.broker().figures()).into_response()
}

async fn nothing() -> Problem {
    let message = "nothing is here: GET /tools lists the tools, GET /openapi.json the rest";
    Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
}

async fn not_so() -> Problem {
    let message = "not by this method: the header Allow names those that are";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
}

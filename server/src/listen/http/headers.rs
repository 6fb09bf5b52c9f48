//! What browsers are told with every answer: to run nothing of it, frame nothing, guess
//! nothing, keep nothing.
//!
//! Owns: these headers, and the log's line for each request. Must not: replace what an
//! answer says itself.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_DNS_PREFETCH_CONTROL, X_FRAME_OPTIONS, X_XSS_PROTECTION,
};
use axum::middleware::Next;
use axum::response::Response;
use tracing::info;

use super::House;
use super::answer::render;
use super::guard::{Caller, Remote};

/// Characters of a path that the log's line has.
const LOGGED: usize = 200;

/// What the widely used middleware of that name sends, as strict as it can be.
const HELMET: [(HeaderName, &str); 11] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (X_DNS_PREFETCH_CONTROL, "off"),
    (X_XSS_PROTECTION, "0"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("origin-agent-cluster"), "?1"),
    (HeaderName::from_static("x-download-options"), "noopen"),
    (HeaderName::from_static("x-permitted-cross-domain-policies"), "none"),
];

/// Around everything: an error gets its form, an answer its headers, the log its line.
pub(super) async fn dress(
    State(house): State<Arc<House>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let remote = request.extensions().get::<Remote>().copied();
    let mut response = render(next.run(request).await, &method, &path);
    let headers = response.headers_mut();
    if house.settings.helmet {
        for (name, value) in HELMET {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if house.settings.log {
        let client = response.extensions().get::<Caller>();
        info!(
            %method,
            path = path.chars().take(LOGGED).flat_map(char::escape_default).collect::<String>(),
            status = response.status().as_u16(),
            ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            client = client.map(|caller| tracing::field::display(caller.name.to_string())),
            remote = remote.map(|remote| tracing::field::display(remote.0)),
            "http"
        );
    }
    response
}

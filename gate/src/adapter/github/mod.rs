//! GitHub's API, as gh speaks it.
//!
//! Owns: which hosts and paths are the API, deciding on a request, and what passes
//! of its headers and answers. gh sends plain HTTP, so all of it is in plain sight.
//! A request that is not GET or HEAD, and a mutation, changes something.
//!
//! - `rest`      endpoints: what a method and a path mean
//! - `graphql`   bodies of GraphQL, and what rules hear of them
//! - `document`  GraphQL documents: the operation that is meant
//! - `reach`     whether a query stays with the repositories that it names
//! - `json`      JSON, read strictly
//!
//! A token that an endpoint makes would be a credential in the tool's hands: such
//! endpoints do not pass.

pub mod document;
pub mod graphql;
mod json;
mod reach;
mod rest;

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response};
use serde_json::json;
use tool_policy::definition::gate::Gate;
use tool_policy::facts::{Facts, Value};

use self::graphql::texts;
use self::rest::{Endpoint, Surface};
use crate::adapter::follow::{self, Again};
use crate::body::{self, Body};
use crate::hygiene::headers;
use crate::judge::{Part, Rest};
use crate::missing::{self, Missing};
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site, To};

const ANSWER: &[&str] = &[
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-range",
    "content-type",
    "date",
    "deprecation",
    "etag",
    "last-modified",
    "link",
    "retry-after",
    "sunset",
    "vary",
    "x-accepted-oauth-scopes",
    "x-github-api-version-selected",
    "x-github-media-type",
    "x-github-request-id",
    "x-oauth-scopes",
    "x-poll-interval",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-resource",
    "x-ratelimit-used",
];

const REST: Keeps = Keeps {
    request: &[
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "range",
        "time-zone",
        "user-agent",
        "x-github-api-version",
    ],
    answer: ANSWER,
    redirects: Redirects::Adapter,
};

// The body is written anew, so what is said of it is not the caller's.
const GRAPHQL: Keeps = Keeps {
    request: &[
        "accept",
        "accept-encoding",
        "accept-language",
        "graphql-features",
        "time-zone",
        "user-agent",
        "x-github-api-version",
        "x-github-next-global-id",
    ],
    answer: ANSWER,
    redirects: Redirects::Adapter,
};

// gh takes every scheme to the same socket.
const AGAIN: Again = Again { scheme: "https", has_host };

/// Whether the gate has this host. github.com in a gate's list means its API too,
/// which has names of its own; the site itself is git's and not the API.
pub(crate) fn has_host(gate: &Gate, host: &str) -> bool {
    let listed = |host: &str| gate.hosts.iter().any(|wanted| wanted.matches(host.as_bytes()));
    match Surface::site(host) {
        Some(site) => listed(host) || listed(site),
        None => host != "github.com" && listed(host),
    }
}

/// Whether the gate has this path: an enterprise host serves git and pages beside.
pub(crate) fn has_path(host: &str, path: &str) -> bool {
    Surface::site(host).is_some() || path == "/api" || path.starts_with("/api/")
}

/// Decides on a request and sends it on.
pub(crate) async fn handle(site: &Site, mut asked: Asked) -> Result<Response<Body>, Refusal> {
    let endpoint = Endpoint::read(&site.host, &asked.path)?;
    let method = asked.method.clone();
    let headers = asked.headers.clone();
    let answer = if endpoint.surface == Surface::Graphql {
        graphql(site, asked, &endpoint).await?
    } else {
        endpoint.check(&asked)?;
        let mut part = endpoint.part(&asked);
        let (mut rest, mut body_shown) = (Rest::Nothing, false);
        if part.changes {
            let asks = site.asks(&[], &part);
            let shown = body::show(asked.body, &asked.headers, asks).await?;
            (asked.body, rest) = (shown.body, shown.rest);
            part.shown.push_str(&shown.text);
            body_shown = !shown.text.is_empty();
        }
        let beside = headers::told(&asked.headers, REST.request, body_shown);
        site.allow_with(&[], part, beside, rest, body::HELD).await?;
        site.send(Onward::of(asked, &REST)).await?
    };
    let answer = follow::answer(site, AGAIN, &method, &headers, answer).await?;
    match missing::of(&answer).filter(|_| method != Method::HEAD) {
        Some(missing) => Ok(wanting(answer, &missing).await),
        None => Ok(answer),
    }
}

/// The host's message, with what may be why: gh prints both.
async fn wanting(mut answer: Response<Body>, missing: &Missing) -> Response<Body> {
    let said = std::mem::replace(answer.body_mut(), body::empty());
    let said = body::collect(said, 64 * 1024).await.unwrap_or_default();
    let said: Option<serde_json::Value> = serde_json::from_slice(&said).ok();
    let said = said.as_ref().and_then(|said| said.get("message")?.as_str());
    let message = match said {
        Some(said) => format!("{said} ({missing})"),
        None => missing.to_string(),
    };
    missing::instead(answer, json!({ "message": message }).to_string(), JSON)
}

const JSON: &str = "application/json; charset=utf-8";

async fn graphql(
    site: &Site,
    asked: Asked,
    endpoint: &Endpoint,
) -> Result<Response<Body>, Refusal> {
    // Of a document in the address there may be another one in the body.
    if asked.method != Method::POST || asked.query.is_some() {
        return Err(Refusal::Malformed(
            "GraphQL has to be asked by POST, without a query behind ?",
        ));
    }
    if asked.headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::Malformed("the body of GraphQL may not be encoded"));
    }
    let Asked { headers, path, body, .. } = asked;
    let body = body::collect(body, graphql::LIMIT).await?;
    let request = graphql::read(&body).map_err(|error| Refusal::Unlisted(error.to_string()))?;
    let mut facts = vec![
        ("method", texts(["POST".to_owned()], false)),
        ("endpoint", texts(["graphql".to_owned()], false)),
        ("resource", texts([], false)),
        ("operation", texts([request.kind().to_owned()], false)),
        ("field", texts(request.fields().into_iter().map(str::to_owned), false)),
        ("event", request.events()),
        ("repo", request.repositories()),
    ];
    facts.push(("host", texts([endpoint.host.clone()], true)));
    let part = Part {
        changes: request.operation.mutation,
        facts: facts.into_iter().collect(),
        shown: request.shown(&endpoint.host),
    };
    let beside = headers::told(&headers, GRAPHQL.request, true);
    // Beside the body there is what was read in it.
    let held = body.len().saturating_mul(8);
    site.allow_with(&[], part, beside, Rest::Nothing, held).await?;
    let onward = Onward {
        method: Method::POST,
        to: To::Gate(path),
        headers,
        extra: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        body: body::full(request.body()),
        keeps: &GRAPHQL,
    };
    site.send(onward).await
}

impl Endpoint {
    /// What rules hear of a request of REST.
    fn part(&self, asked: &Asked) -> Part {
        let none = || Value::Texts(Vec::new());
        let query = asked.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let shown = format!("{} {}{query} at {}", asked.method, self.path, self.host);
        let facts: Facts = [
            ("method", texts([asked.method.as_str().to_owned()], false)),
            ("endpoint", texts([self.path.clone()], false)),
            ("resource", texts([self.resource.clone()], false)),
            ("operation", none()),
            ("field", none()),
            ("event", none()),
            ("repo", self.repository.clone()),
            ("host", texts([self.host.clone()], true)),
        ]
        .into_iter()
        .collect();
        let changes = !matches!(asked.method, Method::GET | Method::HEAD);
        Part { changes, facts, shown: shown.escape_debug().to_string() }
    }
}

/// A refusal as gh shows it: `HTTP 403: …`, and with `gh api` the same.
pub(crate) fn refuse(refusal: &Refusal) -> Response<Body> {
    let mut response = refusal.response();
    let message = json!({ "message": refusal.line() });
    *response.body_mut() = body::full(message.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

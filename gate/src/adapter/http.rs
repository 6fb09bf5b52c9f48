//! HTTP in plain sight, for curl and whatever else can use a proxy.
//!
//! Owns: methods and paths of a gate, and the facts of a request. A request that is
//! not GET, HEAD or OPTIONS, or has a body, changes something.

use hyper::{Method, Response};
use tool_policy::definition::gate::Gate;
use tool_policy::facts::{Text, Value};

use crate::body::{self, Body};
use crate::hygiene::headers;
use crate::judge::{Part, Rest};
use crate::missing;
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site};

const KEEPS: Keeps = Keeps {
    request: &[
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-encoding",
        "content-language",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "pragma",
        "range",
        "user-agent",
        "x-request-id",
        "x-requested-with",
    ],
    answer: &[
        "accept-ranges",
        "age",
        "allow",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-range",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "link",
        "retry-after",
        "server",
        "vary",
        "x-request-id",
    ],
    redirects: Redirects::Gates,
};

/// Whether the gate has this path.
pub(crate) fn has_path(gate: &Gate, path: &str) -> bool {
    gate.paths.is_empty() || gate.paths.iter().any(|wanted| wanted.matches(path.as_bytes()))
}

/// Decides on a request and sends it on.
pub(crate) async fn handle(site: &Site, mut asked: Asked) -> Result<Response<Body>, Refusal> {
    let gate = site.gate();
    let method = asked.method.as_str();
    if !gate.methods.is_empty() && !gate.methods.iter().any(|wanted| wanted == method) {
        return Err(Refusal::Unlisted(format!("{method} is not a method of this gate")));
    }
    if !has_path(gate, &asked.path) {
        return Err(Refusal::Unlisted(format!("{} is not a path of this gate", asked.path)));
    }
    let reads = matches!(asked.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let read = reads && !asked.has_body();
    let shown = format!("{method} http://{}{}", site.authority(), asked.target());
    let mut part = part(site, method, Some(&asked.path), !read, shown);
    let (mut rest, mut body_shown) = (Rest::Nothing, false);
    if asked.has_body() && site.asks(&[], &part) {
        let shown = body::show(asked.body, &asked.headers, true).await?;
        (asked.body, rest) = (shown.body, shown.rest);
        part.shown.push_str(&shown.text);
        body_shown = !shown.text.is_empty();
    }
    let mut beside = headers::told(&asked.headers, KEEPS.request, body_shown);
    beside.extend(headers::told_of(&headers::more(&asked.headers, gate)));
    site.allow_with(&[], part, beside, rest, body::HELD).await?;
    let head = asked.method == Method::HEAD;
    let answer = site.send(Onward::of(asked, &KEEPS)).await?;
    Ok(match missing::of(&answer).filter(|_| !head) {
        Some(missing) => {
            missing::instead(answer, format!("{missing}\n"), "text/plain; charset=utf-8")
        }
        None => answer,
    })
}

/// What rules hear of.
pub(super) fn part(
    site: &Site,
    method: &str,
    path: Option<&str>,
    changes: bool,
    shown: String,
) -> Part {
    let text = |text: &str| Value::Texts(vec![Text::new(text.as_bytes().to_vec())]);
    let mut facts = vec![("method", text(method)), ("host", text(&site.host))];
    if let Some(path) = path {
        facts.push(("path", text(path)));
    }
    Part { changes, facts: facts.into_iter().collect(), shown }
}

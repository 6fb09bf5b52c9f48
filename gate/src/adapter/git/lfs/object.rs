//! One object, there or back: by a link of the host's, with what the host gave for it.

use hyper::body::Body as _;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::json;

use super::handles::{Action, Link};
use crate::adapter::git::place::Place;
use crate::body::{self, Body};
use crate::missing;
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site, To};

/// Of objects.
const KEEPS: Keeps = Keeps {
    request: &["accept", "range", "user-agent"],
    answer: &["accept-ranges", "content-range", "content-type", "etag", "retry-after"],
    redirects: Redirects::Refuse,
};

pub(super) async fn handle(
    site: &Site,
    asked: Asked,
    place: &Place,
    handle: &str,
) -> Result<Response<Body>, Refusal> {
    let unknown = || {
        Refusal::Unlisted("this link of a large file is not of this call: run git lfs again".into())
    };
    let link = site.grant().git.handles.get(handle).ok_or_else(unknown)?;
    let fits = match link.action {
        Action::Download => asked.method == Method::GET,
        Action::Upload => asked.method == Method::PUT,
        Action::Verify => asked.method == Method::POST,
    };
    if !fits || asked.query.is_some() || link.of != super::owner(site, place) {
        return Err(unknown());
    }
    let Asked { method, headers, body, .. } = asked;
    let length = body.size_hint().exact();
    let mut extra = link.headers.clone();
    let body = match link.action {
        Action::Download => body::empty(),
        Action::Upload if length.is_some_and(|length| length != link.size) => {
            return Err(Refusal::Malformed("the file is not as long as was said before"));
        }
        Action::Upload => {
            typed(&mut extra, "application/octet-stream");
            body
        }
        Action::Verify => {
            typed(&mut extra, super::KIND);
            body::full(json!({ "oid": link.oid, "size": link.size }).to_string())
        }
    };
    let to = to(site, &link);
    let onward = Onward { method, to, headers, extra, body, keeps: &KEEPS };
    let answer = site.send(onward).await?;
    if answer.status() == StatusCode::UNAUTHORIZED || missing::of(&answer).is_some() {
        return Ok(super::upstream_says(site, answer).await);
    }
    Ok(answer)
}

fn typed(headers: &mut Vec<(HeaderName, HeaderValue)>, kind: &'static str) {
    if !headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
        headers.push((CONTENT_TYPE, HeaderValue::from_static(kind)));
    }
}

/// At the repository's own host, where it gave no token, the gate's credential is
/// meant; anywhere else there is none but what the host gave.
fn to(site: &Site, link: &Link) -> To {
    let elsewhere = || To::Elsewhere(link.url.clone());
    let own = link.headers.iter().any(|(name, _)| *name == AUTHORIZATION);
    let Ok(route) = site.grant().upstream.route(site.gate(), &site.host, site.port) else {
        return elsewhere();
    };
    if own || route.url().origin() != link.url.origin() {
        return elsewhere();
    }
    let Some(path) = link.url.path().strip_prefix(route.base_path()) else { return elsewhere() };
    let query = link.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    To::Gate(format!("{path}{query}"))
}

//! Answers that point elsewhere.
//!
//! A link within a gate goes back to the tool, which asks anew and is decided on
//! anew: so of a repository that was renamed. Logs, archives, files of releases and
//! of packages lie at hosts that no gate lists, under links that are good for
//! minutes: those the gate fetches itself, without the credential, so that the link
//! never is in the tool's hands. Must not: follow anything but what was read.

use hyper::header::{HeaderMap, HeaderValue, LOCATION};
use hyper::{Method, Response};
use tool_policy::definition::gate::Gate;
use url::Url;

use crate::body::{self, Body};
use crate::refusal::Refusal;
use crate::site::{Keeps, Onward, Redirects, Site, To};

/// A download goes on this often.
const HOPS: usize = 3;

const DOWNLOAD: Keeps = Keeps {
    request: &["accept", "accept-encoding", "if-range", "range", "user-agent"],
    answer: &[
        "accept-ranges",
        "content-disposition",
        "content-encoding",
        "content-range",
        "content-type",
        "date",
        "etag",
        "last-modified",
    ],
    redirects: Redirects::Adapter,
};

/// How a tool asks again where it is told to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    /// The scheme that brings it here.
    pub(super) scheme: &'static str,
    /// Whether a gate is meant by a host.
    pub(super) has_host: fn(&Gate, &str) -> bool,
}

/// The answer for the tool.
pub(super) async fn answer(
    site: &Site,
    again: Again,
    method: &Method,
    headers: &HeaderMap,
    mut answer: Response<Body>,
) -> Result<Response<Body>, Refusal> {
    let own = Url::parse(&format!("https://{}/", site.host));
    let mut base = own.map_err(|_unreadable| Refusal::Malformed("its host is no host"))?;
    for hop in 0..=HOPS {
        let location = answer.headers_mut().remove(LOCATION);
        // Of what was made, and of what is still as it was, nobody follows it.
        let Some(location) = location.filter(|_| answer.status().is_redirection()) else {
            return Ok(answer);
        };
        let to = location.to_str().ok().and_then(|location| base.join(location).ok());
        let away = |to: Option<&Url>| Refusal::Redirected {
            from: site.host.clone(),
            to: to.and_then(Url::host_str).unwrap_or("a place that cannot be read").to_owned(),
        };
        let Some(to) = to else { return Err(away(None)) };
        if crate::weaken::is("gate-redirects") {
            answer.headers_mut().insert(LOCATION, location);
            return Ok(answer);
        }
        if let Some(back) = back(site, again, &to) {
            if hop > 0 {
                return Err(away(Some(&to)));
            }
            answer.headers_mut().insert(LOCATION, back);
            return Ok(answer);
        }
        let plain = site.gate().upstream.as_deref().is_some_and(|url| url.starts_with("http:"));
        let scheme = to.scheme() == "https" || plain && to.scheme() == "http";
        let login = !to.username().is_empty() || to.password().is_some();
        let reads = *method == Method::GET || *method == Method::HEAD;
        if hop == HOPS || !scheme || login || !reads {
            return Err(away(Some(&to)));
        }
        let onward = Onward {
            method: method.clone(),
            to: To::Elsewhere(to.clone()),
            headers: headers.clone(),
            extra: Vec::new(),
            body: body::empty(),
            keeps: &DOWNLOAD,
        };
        answer = site.send(onward).await?;
        base = to;
    }
    Ok(answer)
}

/// The link, where it leads to the gate again.
fn back(site: &Site, again: Again, to: &Url) -> Option<HeaderValue> {
    let query = to.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{}{query}", to.path());
    let host = to.host_str()?.to_ascii_lowercase();
    let upstream = site.gate().upstream.as_deref().and_then(|url| Url::parse(url).ok());
    if let Some(upstream) = upstream.filter(|upstream| upstream.origin() == to.origin()) {
        let path = path.strip_prefix(upstream.path().trim_end_matches('/'))?;
        return HeaderValue::from_str(path).ok();
    }
    if host == site.host {
        return HeaderValue::from_str(&path).ok();
    }
    if (again.has_host)(site.gate(), &host) {
        return HeaderValue::from_str(&format!("{}://{host}{path}", again.scheme)).ok();
    }
    None
}

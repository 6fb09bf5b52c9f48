//! What comes back: headers by a list, redirects by their host.

use hyper::Response;
use hyper::header::{CONTENT_LENGTH, HeaderValue, LOCATION};
use url::Url;

use super::headers::{self, join};
use crate::body::Body;
use crate::refusal::Refusal;
use crate::site::{Keeps, Redirects, Site};
use crate::upstream::Route;

/// The answer, as the tool may see it.
pub(crate) fn clean(
    answer: Response<Body>,
    head: bool,
    keeps: &Keeps,
    route: &Route,
    site: &Site,
) -> Result<Response<Body>, Refusal> {
    let (parts, body) = answer.into_parts();
    let mut picked = headers::pick(&parts.headers, keeps.answer);
    join(&mut picked, headers::more(&parts.headers, site.gate()));
    // Of what has no body the length says what it would be.
    if head && let Some(length) = parts.headers.get(CONTENT_LENGTH) {
        picked.insert(CONTENT_LENGTH, length.clone());
    }
    if let Some(location) = parts.headers.get(LOCATION) {
        match keeps.redirects {
            Redirects::Adapter => drop(picked.insert(LOCATION, location.clone())),
            Redirects::Gates if crate::weaken::is("gate-redirects") => {
                drop(picked.insert(LOCATION, location.clone()));
            }
            // Of what was made it says where it is; nobody follows that.
            _ if !parts.status.is_redirection() => {}
            Redirects::Refuse => return Err(away(location, route, site)),
            Redirects::Gates => {
                let back =
                    back(location, route, site).ok_or_else(|| away(location, route, site))?;
                drop(picked.insert(LOCATION, back));
            }
        }
    }
    let mut answer = Response::new(body);
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = picked;
    Ok(answer)
}

fn url(location: &HeaderValue, route: &Route) -> Option<Url> {
    route.url().join(location.to_str().ok()?).ok()
}

fn away(location: &HeaderValue, route: &Route, site: &Site) -> Refusal {
    let to = url(location, route).and_then(|url| url.host_str().map(str::to_owned));
    Refusal::Redirected {
        from: site.host.clone(),
        to: to.unwrap_or_else(|| "a place that cannot be read".to_owned()),
    }
}

// Written so that the tool comes here again, in plain sight.
fn back(location: &HeaderValue, route: &Route, site: &Site) -> Option<HeaderValue> {
    let mut url = url(location, route)?;
    let base = route.url();
    let same = url.scheme() == base.scheme()
        && url.host_str() == base.host_str()
        && url.port_or_known_default() == base.port_or_known_default();
    let (host, port, path) = if same {
        let path = url.path().strip_prefix(route.base_path())?.to_owned();
        (site.host.clone(), site.port, path)
    } else {
        let port = url.port_or_known_default()?;
        (url.host_str()?.to_ascii_lowercase(), port, url.path().to_owned())
    };
    let known = |gate| crate::adapter::has_host(gate, crate::serve::Came::Proxy, &host, port);
    if !matches!(url.scheme(), "http" | "https") || !(same || site.grant().gates.iter().any(known))
    {
        return None;
    }
    url.set_query(url.query().map(str::to_owned).as_deref());
    let port = if matches!(port, 80 | 443) { String::new() } else { format!(":{port}") };
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    HeaderValue::from_str(&format!("http://{host}{port}{path}{query}")).ok()
}

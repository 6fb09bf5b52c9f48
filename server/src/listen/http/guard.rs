//! Before anything of a request is read but its head: was it asked by a name of ours, by a
//! page of ours, by somebody with a token, and not too often?
//!
//! Owns: who a caller is. Must not: know what is asked for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, ORIGIN, WWW_AUTHENTICATE,
};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use super::House;
use super::answer::Problem;
use super::clients::{Found, Known};
use super::ending::Until;
use super::rate::{Client, Taken};
use crate::broker::Peer;
use crate::listen::share::Share;
use crate::listen::unread::{Held, Room};

/// Nobody's uid: who is at the other end of TCP, no kernel tells.
const NOBODY: u32 = 65_534;
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// From where a connection comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote(pub(super) IpAddr);

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// For the broker.
    pub(super) peer: Peer,
    /// For the log.
    pub(super) name: Arc<str>,
    /// When it asked.
    pub(super) began: Instant,
    /// Where its answers find room.
    pub(super) answers: Room,
}

/// Names of ours and pages of ours; nothing else is told even that this is a tool server.
pub(super) async fn names(
    State(house): State<Arc<House>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let Some(host) = host(&house, headers, request.uri().authority()) else {
        let message = "not asked by a name of this server: use localhost, its address, or name \
                       the host in http.hosts (TOOL_HTTP_HOSTS)";
        return Problem::new(StatusCode::FORBIDDEN, "HOST_NOT_ALLOWED", message).into_response();
    };
    if !is_from_a_page_of_ours(&house, request.method(), headers, &host) {
        let message = "asked by a page of another origin: name it in http.cors_origins \
                       (CORS_ORIGINS), whole, if it may";
        return Problem::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", message).into_response();
    }
    next.run(request).await
}

/// The one host of a request, if it is a name of ours.
fn host(house: &House, headers: &HeaderMap, asked: Option<&Authority>) -> Option<String> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host = host.to_str().ok()?.parse::<Authority>().ok()?;
    let ours = |authority: &Authority| {
        let host = authority.host().to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        let by_address = bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback() || address == house.address.ip());
        let named = host == "localhost" || house.settings.hosts.iter().any(|name| name == bare);
        !authority.as_str().contains('@') && (by_address || named)
    };
    let same = asked.is_none_or(|asked| asked.as_str().eq_ignore_ascii_case(host.as_str()));
    (ours(&host) && same).then(|| host.as_str().to_ascii_lowercase())
}

fn is_from_a_page_of_ours(house: &House, method: &Method, headers: &HeaderMap, host: &str) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) => {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let same = origin.strip_prefix("http://").is_some_and(|authority| authority == host);
            same || house.settings.cors_origins.contains(&origin)
        }
        (Some(_), Some(_)) => false,
        // Old browsers send neither; a link somewhere may lead to a page of ours.
        (None, _) => {
            let is = |name: &HeaderName, value: &str| {
                headers.get(name).is_some_and(|said| said.as_bytes() == value.as_bytes())
            };
            let elsewhere = is(&SEC_FETCH_SITE, "cross-site") || is(&SEC_FETCH_SITE, "same-site");
            let followed = is(&SEC_FETCH_MODE, "navigate") && method.is_safe();
            !elsewhere || followed
        }
    }
}

/// A token, where tokens are needed, and not too often.
pub(super) async fn callers(
    State(house): State<Arc<House>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let remote = request.extensions().get::<Remote>().map(|remote| remote.0);
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let endpoint = path.unwrap_or_default();
    let address = remote.map_or(Client::Others, Client::Address);
    let open_to_all = endpoint == "/health" && request.method().is_safe();
    let (client, name, socket, gone) = if !house.clients.are_known() || open_to_all {
        (address, "anybody".into(), house.clients.nobodys_number(), None)
    } else {
        let token = token(request.headers());
        let refusal = match token.map_or(Found::Nobody, |token| house.clients.find(&token)) {
            Found::Known(known) => Ok(known),
            Found::Nobody => Err(unauthorized()),
            Found::Unreadable => Err(unreadable()),
        };
        match refusal {
            Ok(Known { index, number, name, gone }) => {
                (Client::Token(index), name, number, Some(gone))
            }
            Err(response) => {
                return match house.rates.take(address, "") {
                    Ok(_) => response,
                    Err(taken) => too_many(taken),
                };
            }
        }
    };
    let peer = Peer { socket, uid: NOBODY, gid: NOBODY };
    let number = if let Client::Token(index) = client { index } else { usize::MAX };
    let held = request.extensions().get::<Held>().cloned().unwrap_or_default();
    let answers = Room::new(&house.unread, number, house.clients.count(), held);
    let caller = Caller { peer, name, began, answers };
    let taken = match house.rates.take(client, &endpoint) {
        Ok(taken) => taken,
        Err(taken) => {
            let mut response = too_many(taken);
            response.extensions_mut().insert(caller);
            return response;
        }
    };
    // Who has no token is told at once what there is to be told.
    let share = match client {
        Client::Token(index) => match house.shares.enter(index, house.clients.count(), 1) {
            Some(share) => Some(share),
            None => {
                let mut response = too_many_at_once(&house).into_response();
                response.extensions_mut().insert(caller);
                return response;
            }
        },
        _ => None,
    };
    request.extensions_mut().insert(caller.clone());
    let mut response = match gone {
        None => next.run(request).await,
        Some(gone) => {
            let answered = tokio::select! {
                biased;
                response = next.run(request) => response,
                () = gone.cancelled() => unauthorized(),
            };
            answered.map(|body| Body::new(Until::new(body, gone)))
        }
    };
    taken.tell(response.headers_mut());
    response.extensions_mut().insert(caller);
    match share {
        None => response,
        Some(share) => until_its_end(response, share),
    }
}

/// The share is given back when the answer is sent, or its client is gone.
fn until_its_end(mut response: Response, share: Share) -> Response {
    match response.body().size_hint().exact() {
        Some(0) => return response,
        // What is wrapped does not tell its length any more.
        Some(length) => drop(response.headers_mut().insert(CONTENT_LENGTH, length.into())),
        None => {}
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_its_end = &share;
            frame
        }))
    })
}

fn too_many_at_once(house: &House) -> Problem {
    let message = format!(
        "{} requests of this client are under way, which is its share: end some first",
        house.shares.most(house.clients.count())
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message).after(1)
}

/// The token of a request: a bearer's, or the password of a browser.
fn token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return None };
    let (scheme, rest) = given.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

fn unauthorized() -> Response {
    let message = "no token, or one that is not known: send Authorization: Bearer TOKEN";
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message);
    let mut response = problem.into_response();
    for scheme in ["Bearer realm=\"tool-server\"", "Basic realm=\"tool-server\", charset=\"UTF-8\""]
    {
        response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    }
    response
}

fn unreadable() -> Response {
    let message = "the server's file of tokens cannot be used, so that nobody is let in: its log \
                   and `tool-server status` say why";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NO_TOKENS", message);
    problem.after(10).into_response()
}

fn too_many(taken: Taken) -> Response {
    let message = format!(
        "too many requests: {} of one client to one endpoint are taken in {} s; try again in {} s",
        taken.limit, taken.window, taken.reset
    );
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message);
    let mut response = problem.after(taken.reset).into_response();
    taken.tell(response.headers_mut());
    response
}

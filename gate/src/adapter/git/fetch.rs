//! What is read of a repository: its refs, before a fetch or a push, and the fetch.
//!
//! Owns: what goes on of such a request, and what git is told where the host says no.

use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Method, Response, StatusCode};

use super::place::{Place, Service, What};
use super::{Memory, told};
use crate::body::{self, Body};
use crate::judge::Part;
use crate::missing;
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site};

/// What git sends and hosts go by.
pub(super) const KEEPS: Keeps = Keeps {
    request: &[
        "accept",
        "accept-encoding",
        "accept-language",
        "content-encoding",
        "content-type",
        "git-protocol",
        "pragma",
        "user-agent",
    ],
    answer: &["cache-control", "content-encoding", "content-type", "expires", "pragma"],
    redirects: Redirects::Adapter,
};

/// Reads, after the rules were asked, once a call for each repository.
pub(super) async fn read(
    site: &Site,
    mut asked: Asked,
    place: &Place,
) -> Result<Response<Body>, Refusal> {
    let method = match place.what {
        What::Refs(_) => Method::GET,
        _ => Method::POST,
    };
    if asked.method != method {
        return Err(Refusal::Malformed("git does not ask by this method"));
    }
    if matches!(place.what, What::Talk(_)) && !is_kind(&asked, "git-upload-pack") {
        return Err(Refusal::Malformed("its content is not what git sends"));
    }
    permitted(site, place).await?;
    if method == Method::GET {
        asked.body = body::empty();
    }
    answered(site, asked).await
}

/// The rules are asked, where they have not been for this repository in this call.
pub(super) async fn permitted(site: &Site, place: &Place) -> Result<(), Refusal> {
    let memory: &Memory = &site.grant().git;
    let at = site.authority();
    let repository = format!("{} {at}/{}", site.index(), place.repository);
    if memory.may(&repository) {
        return Ok(());
    }
    let folded = super::place::folds(&site.host);
    let facts = tool_policy::facts::git::wire::asked(&at, &place.repository, folded);
    let shown = match place.what {
        What::Refs(Service::Receive) => "before a push, the refs of",
        _ => "read",
    };
    let shown = format!("{shown} {at}/{}", place.repository);
    site.allow(&[], Part { changes: false, facts, shown }).await?;
    memory.remember(repository);
    Ok(())
}

/// Whether the body says that it is a request of this service.
pub(super) fn is_kind(asked: &Asked, service: &str) -> bool {
    let mut kinds = asked.headers.get_all(CONTENT_TYPE).iter();
    let wanted = format!("application/x-{service}-request");
    kinds.next().is_some_and(|kind| kind.as_bytes() == wanted.as_bytes()) && kinds.next().is_none()
}

/// Sends it on, and gives the host's answer. In words of ours: what would make git ask
/// for a password that nobody here has, and where a repository has moved to.
pub(super) async fn answered(site: &Site, asked: Asked) -> Result<Response<Body>, Refusal> {
    let mut answer = site.send(Onward::of(asked, &KEEPS)).await?;
    let to = answer.headers_mut().remove(LOCATION);
    if let Some(missing) = missing::of(&answer) {
        // At 401 git would ask for a password.
        if answer.status() == StatusCode::UNAUTHORIZED {
            *answer.status_mut() = StatusCode::FORBIDDEN;
        }
        return Ok(missing::instead(answer, format!("{missing}\n"), PLAIN));
    }
    let said = match answer.status() {
        StatusCode::UNAUTHORIZED => unauthorized(site),
        status if status.is_redirection() => moved(site, to.as_ref()),
        _ => return Ok(answer),
    };
    let mut answer = Response::new(body::full(format!("{said}\n")));
    *answer.status_mut() = StatusCode::FORBIDDEN;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    Ok(answer)
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// A host's redirect is not followed: where it leads was not decided on.
fn moved(site: &Site, to: Option<&HeaderValue>) -> String {
    let host = &site.host;
    let to = to.and_then(|to| to.to_str().ok()).unwrap_or_default();
    let whole = to.split(['?', '#']).next().unwrap_or_default();
    let path = whole.split_once("://").and_then(|(_, rest)| Some(rest.split_once('/')?.1));
    let path = path.or_else(|| whole.strip_prefix('/')).unwrap_or_default();
    // Whatever service was asked for, its repository is meant.
    let service = format!("/{path}?service=git-upload-pack");
    let (path, query) = service.split_once('?').unwrap_or_default();
    let place = super::place::read(path, Some(query)).or_else(|_| super::place::read(path, None));
    told(&match place {
        Ok(place) => format!(
            "{host} has this repository at another place, {}: use its address, git remote set-url origin URL",
            place.repository
        ),
        Err(_) => format!("{host} sends git to another place, which is not followed"),
    })
}

/// What to do where the host does not take the credential.
pub(super) fn unauthorized(site: &Site) -> String {
    let host = &site.host;
    told(&match &site.gate().credential {
        Some(credential) => format!(
            "{host} refuses the credential {}: put one that is good for this repository there",
            credential.name()
        ),
        None => format!(
            "{host} wants a credential, and this tool has none for it: name one in its [[gate]]"
        ),
    })
}

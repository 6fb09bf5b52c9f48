//! Large files: LFS, whose objects lie at hosts that a repository's host names.
//!
//! Owns: which requests of LFS there are, and what each needs. The links and tokens
//! of a reply stay here; the tool gets addresses of the same host, and asks again.
//!
//! - `batch`   which objects, and the reply rewritten
//! - `object`  one object, there or back
//! - `message` the two messages of a batch, within bounds
//! - `handles` the links and tokens of a call
//!
//! Must not: hand out a token, or hold an object.

mod batch;
mod handles;
mod message;
mod object;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};

pub(super) use self::handles::Handles;
use super::place::Place;
use super::{fetch, may_push, told};
use crate::body::{self, Body};
use crate::judge::Part;
use crate::missing;
use crate::refusal::Refusal;
use crate::site::{Asked, Keeps, Onward, Redirects, Site};

/// What LFS says its messages are.
const KIND: &str = "application/vnd.git-lfs+json";

/// Of messages; objects have others.
const KEEPS: Keeps = Keeps {
    request: &["accept", "content-type", "user-agent"],
    answer: &["cache-control", "content-type", "retry-after"],
    redirects: Redirects::Refuse,
};

/// Takes a request to what follows `/info/lfs/`, of a repository that may be `listed`.
pub(super) async fn handle(
    site: &Site,
    asked: Asked,
    place: &Place,
    rest: &str,
    listed: Result<(), Refusal>,
) -> Result<Response<Body>, Refusal> {
    let answer = match listed {
        Ok(()) => take(site, asked, place, rest).await,
        Err(refusal) => Err(refusal),
    };
    match answer {
        Ok(answer) => Ok(answer),
        Err(refusal) => {
            if refusal.is_news() {
                let judge = &site.grant().judge;
                judge.refused(Some(site.gate().adapter), &site.host, &refusal.to_string());
            }
            Ok(said(refusal.status(), &refusal.line()))
        }
    }
}

async fn take(
    site: &Site,
    asked: Asked,
    place: &Place,
    rest: &str,
) -> Result<Response<Body>, Refusal> {
    if !site.gate().lfs {
        return Err(Refusal::Unlisted(
            "large files (LFS) are not passed on: set lfs = true in the [[gate]] of the tool's definition, or GIT_LFS_SKIP_SMUDGE=1 to work without them".to_owned(),
        ));
    }
    let parts: Vec<&str> = rest.split('/').collect();
    match (&asked.method, parts.as_slice()) {
        (&Method::POST, ["objects", "batch"]) => batch::handle(site, asked, place).await,
        (_, [handles::PLACE, handle]) => object::handle(site, asked, place, handle).await,
        (&Method::GET, ["locks"]) | (&Method::POST, ["locks", "verify"]) => {
            fetch::permitted(site, place).await?;
            locks(site, asked).await
        }
        (&Method::POST, ["locks"] | ["locks", _, "unlock"]) => {
            write(site, place, "change a lock of").await?;
            locks(site, asked).await
        }
        _ => Err(Refusal::Unlisted(
            "only batches, objects and locks of LFS go this way: use git lfs".to_owned(),
        )),
    }
}

async fn locks(site: &Site, asked: Asked) -> Result<Response<Body>, Refusal> {
    let answer = site.send(Onward::of(asked, &KEEPS)).await?;
    match answer.status() == StatusCode::UNAUTHORIZED || missing::of(&answer).is_some() {
        true => Ok(upstream_says(site, answer).await),
        false => Ok(answer),
    }
}

/// Something that only a call that pushes may do; the rules are asked once.
async fn write(site: &Site, place: &Place, what: &str) -> Result<(), Refusal> {
    if !may_push(site) {
        return Err(Refusal::Unlisted(
            "this call may fetch large files and not push them: git push is a call of its own"
                .to_owned(),
        ));
    }
    fetch::permitted(site, place).await?;
    let at = site.authority();
    let once = format!("{what} {} {at}/{}", site.index(), place.repository);
    if site.grant().git.may(&once) {
        return Ok(());
    }
    let folded = super::place::folds(&site.host);
    let facts = tool_policy::facts::git::wire::asked(&at, &place.repository, folded);
    let shown = format!("{what} {at}/{}", place.repository);
    site.allow(&["push"], Part { changes: true, facts, shown }).await?;
    site.grant().git.remember(once);
    Ok(())
}

/// Whose a link is: which gate's, and which repository's at which host.
fn owner(site: &Site, place: &Place) -> (usize, String) {
    (site.index(), format!("{}/{}", site.authority(), place.repository))
}

/// A message of LFS.
fn said(status: StatusCode, message: &str) -> Response<Body> {
    // Other answers than these make git-lfs try again, or ask for a password.
    let status = if status.is_client_error() { StatusCode::FORBIDDEN } else { status };
    json(status, &serde_json::json!({ "message": message }))
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    let mut answer = Response::new(body::full(value.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
    answer
}

/// What the host says instead of what was asked for, in words of LFS.
async fn upstream_says(site: &Site, answer: Response<Body>) -> Response<Body> {
    let status = answer.status();
    let host = &site.host;
    if let Some(missing) = missing::of(&answer) {
        return said(status, &missing.to_string());
    }
    if status == StatusCode::UNAUTHORIZED {
        return said(status, &fetch::unauthorized(site));
    }
    let text = body::collect(answer.into_body(), 64 * 1024).await.unwrap_or_default();
    let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    let message = value.as_ref().and_then(|value| value.get("message")?.as_str());
    let message = message.map_or_else(|| format!("{host} answers {status}"), str::to_owned);
    json(status, &serde_json::json!({ "message": message }))
}

/// A message that goes on as this text.
fn onward(asked: Asked, text: String) -> Onward {
    let mut onward = Onward::of(asked, &KEEPS);
    onward.body = body::full(text);
    onward
}

/// The line of a refusal that names who refused.
fn refused(what: &str) -> String {
    told(what)
}

//! Git's smart HTTP.
//!
//! Owns: the order in which a request is looked at: path, repository, grant, rules.
//! Everything is read before a byte of it goes on.
//!
//! - `place`        which repository a path means, and what is asked of it
//! - `fetch`        what is read: refs, and the fetch itself
//! - `push`         what is written, ref by ref
//! - `commands`     what a push asks for; `certificate` where it is signed
//! - `ancestry`     whether it drops commits; `pack`, `delta`, `ask` find out
//! - `lfs`          large files
//! - `report`       the answer to a push that was refused
//! - `line`, `name` pkt-lines; refs and ids; `feed` a body that is read ahead
//! - `memory`       what a call has been allowed already
//!
//! Must not: connect but through the site, or hold a pack.

mod ancestry;
mod ask;
mod certificate;
pub mod commands;
mod delta;
mod feed;
mod fetch;
mod lfs;
pub mod line;
mod memory;
pub mod name;
pub mod pack;
pub mod place;
mod push;
pub mod report;

use hyper::Response;
use tool_policy::definition::gate::Gate;

pub use self::memory::Memory;
use self::place::{Service, What};
use crate::body::Body;
use crate::refusal::Refusal;
use crate::site::{Asked, Site};

/// Whether the gate has this path. Its host is not known here: letters of both sizes
/// are the same, and `handle` looks again.
pub(crate) fn has_path(gate: &Gate, path: &str) -> bool {
    let cut = ["/info/refs", "/git-upload-pack", "/git-receive-pack"];
    let before = match path.split_once("/info/lfs/") {
        Some((before, _)) => before,
        None => cut.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path),
    };
    let name = before.strip_prefix('/').unwrap_or(before);
    let name = name.strip_suffix(".git").unwrap_or(name);
    let fits = |one: &tool_policy::pattern::Pattern| one.matches_folded(name.as_bytes());
    gate.repositories.is_empty() || gate.repositories.iter().any(fits)
}

/// Decides on a request and sends it on.
pub(crate) async fn handle(site: &Site, asked: Asked) -> Result<Response<Body>, Refusal> {
    let place = place::read(&asked.path, asked.query.as_deref())
        .map_err(|wrong| Refusal::Unlisted(wrong.to_string()))?;
    let listed = listed(site, &place);
    if let What::Lfs(rest) = &place.what {
        return lfs::handle(site, asked, &place, rest, listed).await;
    }
    listed?;
    match place.what {
        What::Refs(Service::Receive) | What::Talk(Service::Receive) if !may_push(site) => {
            Err(Refusal::Unlisted(
                "this call may fetch and not push: git push is a call of its own".to_owned(),
            ))
        }
        What::Talk(Service::Receive) => push::push(site, asked, &place).await,
        _ => fetch::read(site, asked, &place).await,
    }
}

fn listed(site: &Site, place: &place::Place) -> Result<(), Refusal> {
    let (host, repository) = (&site.host, &place.repository);
    let listed = place::is_listed(site.gate(), host, repository);
    if listed || crate::weaken::is("gate-repositories") {
        return Ok(());
    }
    Err(Refusal::Unlisted(format!(
        "{host}/{repository} is not a repository that this tool may reach: its definition lists those as `repositories` under [[gate]]"
    )))
}

fn may_push(site: &Site) -> bool {
    site.grant().push || crate::weaken::is("gate-grant")
}

/// A refusal as the tool shows it best.
pub(crate) fn refuse(refusal: &Refusal) -> Response<Body> {
    refusal.response()
}

/// By whom.
fn told(said: &str) -> String {
    format!("refused by the broker: {said}")
}

//! Who understands what is asked.
//!
//! Owns: which adapter has which hosts and paths, and handing it the request. An
//! adapter reads a request (`Asked`), asks for a decision (`Site::allow`, `judge`),
//! and sends it on (`Site::send`) or gives a `Refusal`. Must not: connect anywhere
//! but through its `Site`.
//!
//! - `git`     smart HTTP
//! - `github`  the API that gh speaks
//! - `npm`     registries
//! - `http`    everything else, in plain sight
//! - `follow`  answers that point elsewhere
//! - `connect` tunnels, which nobody sees into; `hello` the first message of TLS,
//!   `retry` a second one

pub mod connect;
mod follow;
pub mod git;
pub mod github;
mod hello;
pub mod http;
pub mod npm;
mod retry;

use hyper::Response;
use tool_policy::definition::gate::{Adapter, Gate};

use crate::body::Body;
use crate::refusal::Refusal;
use crate::serve::Came;
use crate::site::{Asked, Site};

/// Whether the gate is meant by this host and port, which came so.
pub(crate) fn has_host(gate: &Gate, came: Came, host: &str, port: u16) -> bool {
    let named = match (came, gate.adapter) {
        (_, Adapter::Github) => github::has_host(gate, host),
        (Came::Github, _) => false,
        (Came::Proxy | Came::Own, _) => names(gate, host),
    };
    named && has_port(gate, port)
}

/// Whether a gate lists this host: an address of IPv6 without its brackets.
pub(crate) fn names(gate: &Gate, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    gate.hosts.iter().any(|wanted| wanted.matches(host.as_bytes()))
}

/// Whether it is meant by this path too: of several gates of one host, each may have
/// paths of its own. Where none is meant the first of the host refuses, in its words.
pub(crate) fn has_path(gate: &Gate, host: &str, path: &str) -> bool {
    match gate.adapter {
        Adapter::Git => git::has_path(gate, path),
        Adapter::Github => github::has_path(host, path),
        Adapter::Npm => npm::has_path(gate, path),
        Adapter::Http => http::has_path(gate, path),
    }
}

/// Refuses a slash that is encoded, except where it is part of a name: npm's
/// `@scope%2fname`, GitHub's `branches/feature%2fx`. Those adapters look at it.
pub(crate) fn takes_path(adapter: Adapter, path: &str) -> Result<(), Refusal> {
    match adapter {
        Adapter::Github | Adapter::Npm => Ok(()),
        Adapter::Git | Adapter::Http if !path.contains("%2f") => Ok(()),
        Adapter::Git | Adapter::Http => Err(Refusal::Malformed("its path has an encoded slash")),
    }
}

/// Refuses what reads and has a body.
fn reads_plainly(asked: &Asked) -> Result<(), Refusal> {
    let reads = matches!(asked.method, hyper::Method::GET | hyper::Method::HEAD);
    match reads && asked.has_body() {
        true => Err(Refusal::Malformed("what only reads has no body")),
        false => Ok(()),
    }
}

fn has_port(gate: &Gate, port: u16) -> bool {
    matches!(port, 80 | 443) || gate.ports.contains(&port)
}

/// Hands it over.
pub(crate) async fn handle(site: &Site, asked: Asked) -> Result<Response<Body>, Refusal> {
    match site.gate().adapter {
        Adapter::Git => git::handle(site, asked).await,
        Adapter::Github => {
            reads_plainly(&asked)?;
            github::handle(site, asked).await
        }
        Adapter::Npm => {
            reads_plainly(&asked)?;
            npm::handle(site, asked).await
        }
        Adapter::Http => http::handle(site, asked).await,
    }
}

/// A refusal as the tool behind this adapter shows it best.
pub(crate) fn refuse(adapter: Option<Adapter>, refusal: &Refusal) -> Response<Body> {
    match adapter {
        Some(Adapter::Git) => git::refuse(refusal),
        Some(Adapter::Github) => github::refuse(refusal),
        Some(Adapter::Npm) => npm::refuse(refusal),
        Some(Adapter::Http) | None => refusal.response(),
    }
}

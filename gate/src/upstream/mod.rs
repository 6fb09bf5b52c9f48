//! Connections to hosts: names to addresses once, private ranges refused, TLS.
//!
//! Owns: every connection that leaves the machine for a call. Must not: know calls,
//! rules or credentials; a credential has a name here, never a value.
//!
//! - `route`    which scheme, host and port stand for the one that was asked
//! - `resolve`  names to addresses
//! - `lookup`   how many names are looked up at once
//! - `address`  which addresses may be connected to
//! - `dial`     one connection, to an address that was looked at
//! - `tls`      who is trusted
//! - `pool`     connections that are used again
//!
//! The server's own HTTPS_PROXY is not used: a connection goes to the host itself.

pub mod address;
mod dial;
mod lookup;
mod pool;
pub mod resolve;
mod route;
mod tls;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpStream;

pub use self::lookup::{LOOKUPS, LOOKUPS_OF_CALL};
pub use self::resolve::{Resolve, System};
pub use self::route::Route;

use crate::body::Body;

/// Connections to hosts, for one call: what is kept is shared by all of a server.
pub struct Upstream {
    lookups: lookup::Lookups,
    trust: Arc<tls::Trust>,
    pool: Arc<pool::Pool>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Upstream")
    }
}

impl Default for Upstream {
    fn default() -> Upstream {
        Upstream::new(Arc::new(System))
    }
}

/// Why a host cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// `upstream` of a definition is not a URL to go to.
    #[error("`upstream` is not http:// or https:// with a host: correct the tool's definition")]
    Setting,
    /// There is no such name.
    #[error("{host} has no address: {why}")]
    Unnamed {
        /// The name.
        host: String,
        /// What the resolver says.
        why: String,
    },
    /// It is a place that is not public, or this machine itself.
    #[error(
        "{host} is {address}, a private address or one of this machine's own: where that is meant, list its network in the gate's `private`, and the name in its `hosts`"
    )]
    Private {
        /// The name.
        host: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// It does not answer.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The name.
        host: String,
        /// What the kernel says.
        why: String,
    },
    /// It takes too long.
    #[error("{host} does not answer in time: try again later")]
    Slow {
        /// The name.
        host: String,
    },
    /// It is not who it says.
    #[error(
        "{host} is not trusted: {why}: where it has certificates of its own, name their file in the gate's `ca`"
    )]
    Untrusted {
        /// The name.
        host: String,
        /// What TLS says.
        why: String,
    },
    /// `ca` cannot be read.
    #[error("the certificates of `ca` cannot be read from {}: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It broke off.
    #[error("{host} broke off: {why}")]
    Broken {
        /// The name.
        host: String,
        /// What HTTP says.
        why: String,
    },
}

impl UpstreamError {
    /// The status that says it.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            UpstreamError::Private { .. } => StatusCode::FORBIDDEN,
            UpstreamError::Slow { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

impl Upstream {
    /// Connections, with names resolved by this.
    pub fn new(resolver: Arc<dyn Resolve>) -> Upstream {
        let lookups = lookup::Lookups::new(resolver);
        Upstream { lookups, trust: Arc::default(), pool: Arc::default() }
    }

    /// The same for another call: with places of its own for lookups of names.
    #[must_use]
    pub fn of_call(&self) -> Upstream {
        Upstream {
            lookups: self.lookups.of_call(),
            trust: Arc::clone(&self.trust),
            pool: Arc::clone(&self.pool),
        }
    }

    /// Sends a request, with headers that are ready, and gives the answer as it comes.
    /// `credential` names the one that was added: connections with different ones are
    /// kept apart.
    pub(crate) async fn send(
        &self,
        route: &Route,
        credential: Option<String>,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, UpstreamError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        *request.uri_mut() = route.uri(target)?;
        let place = pool::Place { route: route.clone(), credential };
        self.pool.send(self, &place, request).await
    }

    /// A connection without anything on it, for a tunnel.
    pub(crate) async fn tunnel(&self, route: &Route) -> Result<TcpStream, UpstreamError> {
        dial::tcp(&self.lookups, route).await
    }
}

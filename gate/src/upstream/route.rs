//! Which scheme, host and port stand for the one that a call asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use hyper::Uri;
use ipnet::IpNet;
use tool_policy::definition::gate::{Adapter, Gate};
use url::Url;

use super::{Upstream, UpstreamError};

/// Where a request really goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    base: Url,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) ca: Option<PathBuf>,
    pub(super) private: Vec<IpNet>,
}

impl Route {
    fn new(gate: &Gate, base: Url) -> Result<Route, UpstreamError> {
        let host = base.host_str().ok_or(UpstreamError::Setting)?.to_ascii_lowercase();
        let port = base.port_or_known_default().ok_or(UpstreamError::Setting)?;
        let plain = base.username().is_empty() && base.password().is_none();
        if !matches!(base.scheme(), "http" | "https") || !plain {
            return Err(UpstreamError::Setting);
        }
        let private = gate.private.iter().filter_map(|net| net.parse().ok()).collect();
        Ok(Route { base, host, port, ca: gate.ca.clone(), private })
    }

    // An address that `upstream` itself names is listed by that. A name is not: others
    // say what it stands for, but for this machine's own.
    fn named(mut self, gate: &Gate) -> Route {
        let named = gate.upstream.is_some();
        let literal = self.host.trim_start_matches('[').trim_end_matches(']');
        if let (true, Ok(address)) = (named, literal.parse::<IpAddr>()) {
            self.private.push(IpNet::from(address.to_canonical()));
        } else if named && self.host == "localhost" {
            let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
            self.private.extend(loopback.map(IpNet::from));
        }
        self
    }

    /// Its URL, with the path that stands before each.
    pub fn url(&self) -> &Url {
        &self.base
    }

    /// The path that stands before each; without a slash at its end.
    pub fn base_path(&self) -> &str {
        self.base.path().trim_end_matches('/')
    }

    /// Whether TLS is spoken there.
    pub(super) fn is_secure(&self) -> bool {
        self.base.scheme() == "https"
    }

    // Scheme, authority, path and query.
    pub(super) fn uri(&self, target: &str) -> Result<Uri, UpstreamError> {
        let host = &self.host;
        let authority = match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        };
        Uri::builder()
            .scheme(self.base.scheme())
            .authority(authority)
            .path_and_query(format!("{}{target}", self.base_path()))
            .build()
            .map_err(|_unreadable| UpstreamError::Setting)
    }
}

impl Upstream {
    /// Where a gate's request for this host and port goes: to its `upstream`, else to
    /// the host itself, by https. Only plain requests without a credential, of a gate
    /// of the adapter http, go on as they came.
    pub fn route(&self, gate: &Gate, host: &str, port: u16) -> Result<Route, UpstreamError> {
        let base = match &gate.upstream {
            Some(upstream) => upstream.clone(),
            None if gate.adapter == Adapter::Http && gate.credential.is_none() && port != 443 => {
                format!("http://{host}:{port}")
            }
            None if port == 80 => format!("https://{host}"),
            None => format!("https://{host}:{port}"),
        };
        let base = Url::parse(&base).map_err(|_unreadable| UpstreamError::Setting)?;
        Ok(Route::new(gate, base)?.named(gate))
    }

    /// Where this URL is, and its path and query. An answer named it: where that is no
    /// host of the gate's own, the networks of `private` are not for it.
    pub fn elsewhere(&self, gate: &Gate, url: &Url) -> Result<(Route, String), UpstreamError> {
        let mut target = url.path().to_owned();
        if let Some(query) = url.query() {
            target = format!("{target}?{query}");
        }
        let mut base = url.clone();
        base.set_path("");
        base.set_query(None);
        base.set_fragment(None);
        let mut route = Route::new(gate, base)?;
        if !is_own(gate, &route.host) && !crate::weaken::is("gate-elsewhere") {
            route.private.clear();
        }
        Ok((route, target))
    }

    /// Where a tunnel goes: to the gate's `upstream`, else to the host itself.
    pub(crate) fn through(
        &self,
        gate: &Gate,
        host: &str,
        port: u16,
    ) -> Result<Route, UpstreamError> {
        let own = format!("https://{host}:{port}");
        let base = Url::parse(gate.upstream.as_ref().unwrap_or(&own));
        Ok(Route::new(gate, base.map_err(|_unreadable| UpstreamError::Setting)?)?.named(gate))
    }
}

/// Whether the gate lists this host, or has it for its `upstream`.
fn is_own(gate: &Gate, host: &str) -> bool {
    let upstream = gate.upstream.as_deref().and_then(|upstream| Url::parse(upstream).ok());
    let is_upstream = upstream.is_some_and(|upstream| upstream.host_str() == Some(host));
    let name = host.trim_start_matches('[').trim_end_matches(']');
    is_upstream || gate.hosts.iter().any(|wanted| wanted.matches(name.as_bytes()))
}

//! One connection, to an address that was looked at.
//!
//! A name is resolved once for it; the address that was found allowed is the one that is
//! connected to, and nobody resolves the name again.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::lookup::Lookups;
use super::{Route, Upstream, UpstreamError, address};
use crate::body::Body;

const RESOLVING: Duration = Duration::from_secs(10);
const CONNECTING: Duration = Duration::from_secs(10);
/// As many addresses of a name are tried.
const TRIED: usize = 4;

/// Connects.
pub(super) async fn tcp(lookups: &Lookups, route: &Route) -> Result<TcpStream, UpstreamError> {
    let host = route.host.as_str();
    let addresses = addresses(lookups, host).await?;
    // One address that is refused refuses the name: it is being played with.
    if let Some(found) =
        addresses.iter().find(|found| !address::is_allowed(**found, &route.private))
    {
        return Err(UpstreamError::Private { host: host.to_owned(), address: *found });
    }
    let mut last = UpstreamError::Unnamed { host: host.to_owned(), why: "none".to_owned() };
    for found in addresses.into_iter().take(TRIED) {
        match timeout(CONNECTING, TcpStream::connect(SocketAddr::new(found, route.port))).await {
            Ok(Ok(stream)) => {
                // Slower without, and no worse.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Ok(Err(error)) => {
                last = UpstreamError::Unreachable { host: host.to_owned(), why: error.to_string() };
            }
            Err(_elapsed) => last = UpstreamError::Slow { host: host.to_owned() },
        }
    }
    Err(last)
}

async fn addresses(lookups: &Lookups, host: &str) -> Result<Vec<IpAddr>, UpstreamError> {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = literal.parse::<IpAddr>() {
        return Ok(vec![address.to_canonical()]);
    }
    match timeout(RESOLVING, lookups.addresses(host)).await {
        Ok(Ok(found)) => Ok(found.into_iter().map(|address| address.to_canonical()).collect()),
        Ok(Err(why)) => Err(UpstreamError::Unnamed { host: host.to_owned(), why }),
        Err(_elapsed) => Err(UpstreamError::Slow { host: host.to_owned() }),
    }
}

/// A connection that requests can be sent on.
pub(super) enum Sender {
    /// HTTP/1.1: one at a time.
    One(http1::SendRequest<Body>),
    /// HTTP/2.
    Many(http2::SendRequest<Body>),
}

impl Sender {
    /// Whether it takes a request now.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Sender::One(sender) => sender.is_ready(),
            Sender::Many(sender) => sender.is_ready(),
        }
    }
}

/// HTTP/2: what a host may send before it is read; less would slow a fetch down.
const WINDOW: u32 = 1 << 20;
/// HTTP/2: a host that is silent while it is waited for is asked whether it lives.
const SILENT: Duration = Duration::from_secs(30);
/// An answer's head may have this many headers.
const HEADERS: usize = 200;
const HEAD_BYTES: u32 = 128 * 1024;

/// Connects, speaks TLS where that is meant, and HTTP as the host likes best.
pub(super) async fn open(upstream: &Upstream, route: &Route) -> Result<Sender, UpstreamError> {
    let stream = tcp(&upstream.lookups, route).await?;
    if !route.is_secure() {
        return one(stream, route).await;
    }
    let stream = upstream.trust.shake(route, stream).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => many(stream, route).await,
        _ => one(stream, route).await,
    }
}

async fn one<S>(stream: S, route: &Route) -> Result<Sender, UpstreamError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_headers(HEADERS);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(route, &error))?;
    drop(tokio::spawn(connection));
    Ok(Sender::One(sender))
}

async fn many<S>(stream: S, route: &Route) -> Result<Sender, UpstreamError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(HEAD_BYTES)
        .keep_alive_interval(SILENT)
        .keep_alive_timeout(SILENT);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(route, &error))?;
    drop(tokio::spawn(connection));
    Ok(Sender::Many(sender))
}

fn broken(route: &Route, error: &hyper::Error) -> UpstreamError {
    UpstreamError::Broken { host: route.host.clone(), why: error.to_string() }
}

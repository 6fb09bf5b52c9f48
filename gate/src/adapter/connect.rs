//! Tunnels: CONNECT to a listed host, bytes that nobody sees into.
//!
//! Owns: deciding on a tunnel, the name that TLS asks for in it, and copying. No
//! credential is added: what is in a tunnel cannot be read, so nothing is put into it.
//! A tunnel may change whatever its host allows, and is decided on as a change.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Request;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tool_policy::definition::gate::{Adapter, Gate};

use super::hello::{self, Hello};
use super::{http, retry};
use crate::refusal::Refusal;
use crate::site::Site;

/// The first message has to come within this time.
const GREETING: Duration = Duration::from_secs(10);
/// A fatal alert of TLS, `unrecognized_name`: clients say so.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Whether the gate lets tunnels through to this host and port.
pub(crate) fn has_host(gate: &Gate, host: &str, port: u16) -> bool {
    gate.adapter == Adapter::Http
        && (port == 443 || gate.ports.contains(&port))
        && super::names(gate, host)
}

/// Whether it lets any through: not where methods or paths are to be looked at.
pub(crate) fn is_open(gate: &Gate) -> bool {
    let plain = gate.upstream.as_ref().is_some_and(|upstream| upstream.starts_with("http:"));
    gate.methods.is_empty() && gate.paths.is_empty() && !plain
}

/// Decides on a tunnel, and connects to its host.
pub(crate) async fn open<B>(site: Site, request: Request<B>) -> Result<Tunnel, Refusal> {
    let (host, port) = (&site.host, site.port);
    if !is_open(site.gate()) {
        let why = format!(
            "this gate looks at what is sent to {host}, and cannot look into a tunnel: use http:// for https://"
        );
        return Err(Refusal::Unlisted(why));
    }
    let shown = format!("CONNECT {host}:{port} (encrypted: what is sent there is not seen)");
    site.allow(&[], http::part(&site, "CONNECT", None, true, shown)).await?;
    let upstream = &site.grant().upstream;
    let route = upstream.through(site.gate(), host, port)?;
    let far = upstream.tunnel(&route).await?;
    Ok(Tunnel { near: hyper::upgrade::on(request), far, site })
}

/// A tunnel that was decided on.
pub(crate) struct Tunnel {
    near: OnUpgrade,
    far: TcpStream,
    site: Site,
}

impl Tunnel {
    /// Copies until both ends have ended, if it begins as it has to.
    pub(crate) async fn run(self) {
        let Tunnel { near, mut far, site } = self;
        let Ok(near) = near.await else { return };
        let mut near = TokioIo::new(near);
        let begun = begin(&mut near, &mut far, &site.host).await;
        let ended = match begun {
            Ok(()) => copy_bidirectional(&mut near, &mut far).await,
            Err(Broken::Io(error)) => Err(error),
            Err(Broken::Refused(why)) => {
                let why = format!("{why}: a tunnel to {} is for TLS with that name", site.host);
                site.grant().judge.refused(Some(site.gate().adapter), &site.host, &why);
                // The tool's own end may be gone already.
                drop(near.write_all(&ALERT).await);
                drop(near.shutdown().await);
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, host = site.host, "a tunnel broke off");
        }
    }
}

/// Why a tunnel ends where it begins.
pub(super) enum Broken {
    /// It is not what it was opened for.
    Refused(String),
    /// One of its ends broke off.
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Io(error)
    }
}

// As far as it is looked at: the first message, and a second one.
async fn begin<S>(near: &mut S, far: &mut TcpStream, host: &str) -> Result<(), Broken>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let greeted = timeout(GREETING, greeting(near, host)).await;
    let (mut first, end) =
        greeted.map_err(|_elapsed| Broken::Io(io::ErrorKind::TimedOut.into()))??;
    let held = first.split_off(end.min(first.len()));
    far.write_all(&first).await?;
    match crate::weaken::is("gate-sni") {
        true => Ok(far.write_all(&held).await?),
        false => retry::pass(near, far, host, held).await,
    }
}

// What came first, once it asks for the tunnel's host, and where that ends.
async fn greeting<S>(near: &mut S, host: &str) -> Result<(Vec<u8>, usize), Broken>
where
    S: AsyncRead + Unpin,
{
    let refused = |why: &str| Broken::Refused(why.to_owned());
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = near.read(&mut piece).await.map_err(|error| refused(&error.to_string()))?;
        if count == 0 {
            return Err(refused("it ended before it began"));
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if crate::weaken::is("gate-sni") {
            let end = bytes.len();
            return Ok((bytes, end));
        }
        match hello::read(&bytes) {
            Hello::More if bytes.len() > hello::LOOKED_AT => {
                return Err(refused("the first message of TLS is too long"));
            }
            Hello::More => {}
            Hello::Bad(why) => return Err(refused(why)),
            Hello::Whole { name, end } => {
                checked(name.as_deref(), host)?;
                return Ok((bytes, end));
            }
        }
    }
}

/// Whether a hello asks for the tunnel's host.
pub(super) fn checked(name: Option<&str>, host: &str) -> Result<(), Broken> {
    match fits(name, host) {
        true => Ok(()),
        false => Err(Broken::Refused(format!("it asks for {}", name.unwrap_or("no name")))),
    }
}

// An address has no name to ask for.
fn fits(name: Option<&str>, host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    match name {
        Some(name) => !literal && name == host,
        None => literal,
    }
}

/// Where a connection's tunnel waits until its answer is written.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Tunnel>>>);

impl Slot {
    pub(crate) fn put(&self, tunnel: Tunnel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(crate) fn take(&self) -> Option<Tunnel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

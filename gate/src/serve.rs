//! One connection of a call, request by request: the main path.
//!
//! Owns: the order of the steps. Nothing is sent to a host before all of them but the
//! last have been taken. Must not: understand what is asked (adapters do) or hold a
//! body.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tool_policy::definition::gate::Adapter;

use crate::adapter;
use crate::adapter::connect::{self, Tunnel};
use crate::body::{self, Body};
use crate::door;
use crate::grant::Grant;
use crate::hygiene::target::{self, Target};
use crate::refusal::Refusal;
use crate::site::{Asked, Site};

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// By the proxy's address: absolute requests and CONNECT.
    Proxy,
    /// By the Unix socket: gh's requests.
    Github,
    /// By a socket of the server's own, which belongs to no call: as by the proxy's address,
    /// and requests for the grant's `base`. Who may connect there may ask.
    Own,
}

/// A head has to come within this time.
const HEAD: Duration = Duration::from_secs(15);
/// A head may be this long.
const HEAD_BYTES: usize = 64 * 1024;
/// A head may have this many headers.
const HEADERS: usize = 100;

/// Serves one connection until it ends; dropped, it ends at once, with all that it
/// has begun.
pub async fn connection<S>(stream: S, came: Came, grant: Arc<Grant>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Ok(_place) = Arc::clone(&grant.places).try_acquire_owned() else { return };
    let tunnel = connect::Slot::default();
    let service = service_fn(|request| {
        let (grant, tunnel) = (Arc::clone(&grant), tunnel.clone());
        boxed(async move { Ok::<_, Infallible>(answer(request, came, grant, &tunnel).await) })
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a call broke off");
    }
    if let Some(tunnel) = tunnel.take() {
        tunnel.run().await;
    }
}

fn boxed<T>(
    future: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(future)
}

// One request: an answer in any case.
async fn answer(
    request: Request<Incoming>,
    came: Came,
    grant: Arc<Grant>,
    tunnel: &connect::Slot,
) -> Response<Body> {
    let mut known = Known::default();
    let request = request.map(body::received);
    match take(request, came, &grant, tunnel, &mut known).await {
        Ok(response) => response,
        Err(refusal) => {
            if refusal.is_news() {
                grant.judge.refused(known.adapter, &known.host, &refusal.to_string());
            }
            // gh shows what it knows, whichever host it asked for.
            let github = (came == Came::Github).then_some(Adapter::Github);
            adapter::refuse(known.adapter.or(github), &refusal)
        }
    }
}

/// What is known of a request when it is refused.
#[derive(Default)]
struct Known {
    adapter: Option<Adapter>,
    host: String,
}

async fn take(
    request: Request<Body>,
    came: Came,
    grant: &Arc<Grant>,
    tunnel: &connect::Slot,
    known: &mut Known,
) -> Result<Response<Body>, Refusal> {
    // 1. It belongs to this call.
    let ours = door::is_ours(request.headers(), &grant.door.secret);
    if came == Came::Proxy && !ours && !crate::weaken::is("gate-secret") {
        return Err(Refusal::Stranger);
    }
    // 2. Where to, read one way only.
    let target = target::read(&request, came, grant.base.as_deref())?;
    known.host.clone_from(&target.host);
    // 3. A gate of the definition.
    let site = find(grant, came, &target, request.method())?;
    known.adapter = Some(site.gate().adapter);
    adapter::takes_path(site.gate().adapter, &target.path)?;
    // 4. A tunnel: decided on, opened, and then nobody looks in.
    if request.method() == Method::CONNECT {
        let opened: Tunnel = connect::open(site, request).await?;
        tunnel.put(opened);
        return Ok(Response::new(body::empty()));
    }
    // 5. In plain sight: understood, decided on, sent with the credential, answered.
    let (head, body) = request.into_parts();
    let asked = Asked {
        method: head.method,
        path: target.path,
        query: target.query,
        headers: head.headers,
        body,
    };
    boxed_ref(adapter::handle(&site, asked)).await
}

fn boxed_ref<'a, T>(
    future: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(future)
}

fn find(grant: &Arc<Grant>, came: Came, target: &Target, method: &Method) -> Result<Site, Refusal> {
    let unknown = || Refusal::Host { host: target.host.clone(), port: target.port };
    let mut of_host = grant.gates.iter().enumerate().filter(|(_, gate)| {
        if method == Method::CONNECT {
            connect::has_host(gate, &target.host, target.port)
        } else {
            adapter::has_host(gate, came, &target.host, target.port)
        }
    });
    let (first, gate) = of_host.next().ok_or_else(unknown)?;
    let meant = |gate| match *method == Method::CONNECT {
        true => connect::is_open(gate),
        false => adapter::has_path(gate, &target.host, &target.path),
    };
    let index = match meant(gate) {
        true => first,
        false => of_host.find(|(_, gate)| meant(gate)).map_or(first, |(index, _)| index),
    };
    Site::new(Arc::clone(grant), index, target.host.clone(), target.port).ok_or_else(unknown)
}

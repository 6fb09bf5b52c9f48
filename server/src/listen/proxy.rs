//! The proxy's socket: connections that belong to no call.
//!
//! Owns: who may connect, how many at once, and how long one may be silent. Must not:
//! understand what is asked, or be in the way of a call.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::accept::Rules;
use crate::broker::{Proxy, proxy_stranger};
use crate::os::descriptors::peer;

/// Connections at once, where there are descriptors for them; more wait in the kernel.
const CONNECTIONS: u64 = 128;
/// Descriptors that one may need: itself, the one on to the host, one that is kept for the
/// next request.
const EACH: u64 = 3;
/// Of a limit of descriptors so much at most, one in so many.
const SHARE: u64 = 8;
/// How long neither end may say anything; a model thinks for less.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// How long nothing is taken after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// Of those who may not be here the log has one in each span, and how many there were.
const SPAN: Duration = Duration::from_secs(60);

/// How many connections a limit of descriptors pays for.
pub(crate) fn proxy_places(descriptors: u64) -> u64 {
    (descriptors / SHARE / EACH).clamp(1, CONNECTIONS)
}

/// Descriptors that so many need, and the socket itself.
pub(crate) fn proxy_descriptors(places: u64) -> u64 {
    places.saturating_mul(EACH).saturating_add(2)
}

/// Serves what connects until the server ends.
pub(crate) async fn serve_proxy(
    listener: std::os::unix::net::UnixListener,
    rules: Rules,
    proxy: Arc<Proxy>,
    places: u64,
    closed: CancellationToken,
) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "the proxy's socket cannot be listened at"),
    };
    let places = Arc::new(Semaphore::new(usize::try_from(places).unwrap_or(1)));
    let mut turned = Turned::default();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = tokio::select! {
            () = closed.cancelled() => return,
            taken = listener.accept() => match taken {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "cannot take a connection for the proxy");
                    sleep(PAUSE).await;
                    continue;
                }
            }
        };
        let may = may(&stream, &rules, &mut turned);
        // What it may have sent with its first bytes is closed elsewhere.
        let stream = proxy_stranger(stream);
        if !may {
            continue;
        }
        let (proxy, closed) = (Arc::clone(&proxy), closed.clone());
        tokio::spawn(async move {
            let (heard, last) = Heard::new(stream);
            tokio::select! {
                () = closed.cancelled() => {}
                () = silent(last, SILENCE) => debug!("a connection of the proxy was silent for too long"),
                () = proxy.serve(heard) => {}
            }
            drop(place);
        });
    }
}

/// As at the calls' socket: by uid and gid, where settings name them.
fn may(stream: &UnixStream, rules: &Rules, turned: &mut Turned) -> bool {
    let Ok((uid, gid)) = peer(stream.as_fd()) else { return false };
    let is = |known: &Option<Vec<u32>>, id: u32| known.as_ref().is_none_or(|all| all.contains(&id));
    let may = is(&rules.uids, uid) && is(&rules.gids, gid);
    if !may && let Some(times) = turned.away(Instant::now(), SPAN) {
        warn!(uid, gid, times, "may not use the proxy: see peers.uids and peers.gids");
    }
    may
}

/// Who may not be here, as the log has it.
#[derive(Debug, Default)]
struct Turned {
    told: Option<Instant>,
    times: u64,
}

impl Turned {
    /// One more; how many it were since the last line, where there is to be one.
    fn away(&mut self, now: Instant, span: Duration) -> Option<u64> {
        self.times = self.times.saturating_add(1);
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < span) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

/// Returns when nothing was said for too long.
async fn silent(last: Arc<Last>, most: Duration) {
    loop {
        let quiet = last.since();
        match most.checked_sub(quiet) {
            Some(left) if !left.is_zero() => sleep(left).await,
            _ => return,
        }
    }
}

/// When something was said last.
#[derive(Debug)]
struct Last {
    start: Instant,
    millis: AtomicU64,
}

impl Last {
    fn now(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn since(&self) -> Duration {
        let last = Duration::from_millis(self.millis.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }
}

/// A stream, and when something was said on it.
#[derive(Debug)]
struct Heard<S> {
    stream: S,
    last: Arc<Last>,
}

impl<S> Heard<S> {
    fn new(stream: S) -> (Heard<S>, Arc<Last>) {
        let last = Arc::new(Last { start: Instant::now(), millis: AtomicU64::new(0) });
        (Heard { stream, last: Arc::clone(&last) }, last)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.last.now();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.last.now();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[test]
    fn a_connection_ends_when_nothing_was_said_for_so_long_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(64);
            let (mut heard, last) = Heard::new(near);
            let most = Duration::from_millis(200);
            let quiet = tokio::spawn(silent(last, most));
            let (mut byte, mut said) = ([0], Instant::now());
            for _ in 0..5 {
                sleep(Duration::from_millis(80)).await;
                // On a busy machine that may have been long.
                assert!(!quiet.is_finished() || said.elapsed() >= most, "too early");
                said = Instant::now();
                far.write_all(b"x").await.unwrap();
                heard.read_exact(&mut byte).await.unwrap();
                heard.write_all(b"y").await.unwrap();
            }
            let over = quiet.is_finished();
            quiet.await.unwrap();
            assert!(over || said.elapsed() >= most);
        });
    }

    #[test]
    fn who_may_not_use_the_proxy_does_not_fill_the_log() {
        let (mut turned, start) = (Turned::default(), Instant::now());
        assert_eq!(turned.away(start, SPAN), Some(1));
        for _ in 0..1000 {
            assert_eq!(turned.away(start + SPAN / 2, SPAN), None);
        }
        assert_eq!(turned.away(start + SPAN, SPAN), Some(1001));
        assert_eq!(turned.away(start + SPAN, SPAN), None);
    }

    #[test]
    fn a_limit_of_descriptors_pays_for_the_proxys_connections_and_leaves_the_most() {
        for descriptors in [64, 256, 1024, 20_000, 1_000_000] {
            let places = proxy_places(descriptors);
            assert!((1..=CONNECTIONS).contains(&places));
            assert!(proxy_descriptors(places) <= descriptors / 8 + 5, "{descriptors}");
        }
    }
}

//! Connections that are used again.
//!
//! A connection serves one request at a time, with HTTP/2 too: a call that does not
//! read holds up nobody else. It is used again only for the same place: same scheme,
//! host, port, trusted certificates, allowed networks and credential. That is safe
//! because each request carries its credential itself and is framed by us alone: a
//! connection that broke off, or whose answer was not read to its end, is not used
//! again, and a host that knows its callers by the connection would know the
//! credential's owner, no other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};

use super::dial::{self, Sender};
use super::{Route, Upstream, UpstreamError};
use crate::body::{self, Body};

/// Connections with the same are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) route: Route,
    pub(super) credential: Option<String>,
}

/// As many wait for one place, or for all together.
const KEPT: usize = 8;
const KEPT_ALL: usize = 64;
/// As long may one wait; where a request cannot be sent twice, not as long: the host
/// may be about to close it.
const WAITS: Duration = Duration::from_secs(20);
const WAITS_CHANGE: Duration = Duration::from_secs(2);

/// Connections by place.
#[derive(Default)]
pub(super) struct Pool {
    shelves: Arc<Mutex<Shelves>>,
}

/// Connections that nobody uses, and since when.
type Shelf = Vec<(Instant, Sender)>;

#[derive(Default)]
struct Shelves {
    by_place: HashMap<Place, Shelf>,
    /// A task looks after them, while something is on them.
    swept: bool,
}

impl Pool {
    /// Sends it on a connection that waits, or on a new one.
    pub(super) async fn send(
        &self,
        upstream: &Upstream,
        place: &Place,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, UpstreamError> {
        while let Some(sender) = self.take(place, request.method().is_safe()) {
            match self.on(place, sender, request).await {
                Ok(answer) => return Ok(answer),
                // It was closed before anything of it was sent.
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(error),
            }
        }
        let sender = dial::open(upstream, &place.route).await?;
        self.on(place, sender, request).await.map_err(|(error, _)| error)
    }

    async fn on(
        &self,
        place: &Place,
        sender: Sender,
        request: Request<Body>,
    ) -> Result<Response<Body>, (UpstreamError, Option<Request<Body>>)> {
        let broken = |error: &hyper::Error| UpstreamError::Broken {
            host: place.route.host.clone(),
            why: error.to_string(),
        };
        let home = Home { shelves: Arc::downgrade(&self.shelves), place: place.clone() };
        match sender {
            Sender::One(mut sender) => {
                let uri = request.uri().clone();
                let request = origin(request).map_err(|error| (error, None))?;
                match sender.try_send_request(request).await {
                    Ok(answer) => {
                        home.take_when_read(sender);
                        Ok(answer.map(body::incoming))
                    }
                    Err(mut error) => {
                        let unsent = error.take_message().map(|mut request| {
                            *request.uri_mut() = uri;
                            request
                        });
                        Err((broken(error.error()), unsent))
                    }
                }
            }
            Sender::Many(mut sender) => match sender.try_send_request(request).await {
                Ok(answer) => {
                    // Whoever drops the body gives the connection back.
                    let back = Back(Some((home, sender)));
                    Ok(answer.map(|answer| body::with(body::incoming(answer), back)))
                }
                Err(mut error) => Err((broken(error.error()), error.take_message())),
            },
        }
    }

    fn take(&self, place: &Place, safe: bool) -> Option<Sender> {
        let mut shelves = lock(&self.shelves);
        let shelf = shelves.by_place.get_mut(place)?;
        let waits = if safe { WAITS } else { WAITS_CHANGE };
        while let Some((since, sender)) = shelf.pop() {
            if sender.is_ready() && since.elapsed() < waits {
                return Some(sender);
            }
        }
        None
    }
}

/// Where a connection goes when it is not used.
struct Home {
    shelves: Weak<Mutex<Shelves>>,
    place: Place,
}

impl Home {
    fn take(self, sender: Sender) {
        let Some(shelves) = self.shelves.upgrade() else { return };
        let mut open = lock(&shelves);
        make_room(&mut open);
        let shelf = open.by_place.entry(self.place).or_default();
        if shelf.len() < KEPT {
            shelf.push((Instant::now(), sender));
        }
        sweep_later(&mut open, &shelves);
    }

    // HTTP/1.1: the connection says that it is ready again when the answer has been
    // read to its end; where it was not, it is closed.
    fn take_when_read(self, mut sender: http1::SendRequest<Body>) {
        drop(tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                self.take(Sender::One(sender));
            }
        }));
    }
}

/// HTTP/2: gives a connection back when its answer is dropped.
struct Back(Option<(Home, http2::SendRequest<Body>)>);

impl Drop for Back {
    fn drop(&mut self) {
        if let Some((home, sender)) = self.0.take()
            && sender.is_ready()
        {
            home.take(Sender::Many(sender));
        }
    }
}

fn lock(shelves: &Mutex<Shelves>) -> MutexGuard<'_, Shelves> {
    shelves.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_room(shelves: &mut Shelves) {
    if shelves.by_place.len() >= KEPT_ALL {
        shelves.by_place.clear();
    }
}

fn sweep(shelves: &mut Shelves) {
    shelves.by_place.retain(|_, shelf| {
        shelf.retain(|(since, sender)| since.elapsed() < WAITS && sender.is_ready());
        !shelf.is_empty()
    });
}

fn sweep_later(open: &mut Shelves, shelves: &Arc<Mutex<Shelves>>) {
    // A body may be dropped where nothing runs any more.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if std::mem::replace(&mut open.swept, true) {
        return;
    }
    let shelves: Weak<Mutex<Shelves>> = Arc::downgrade(shelves);
    drop(runtime.spawn(async move {
        loop {
            tokio::time::sleep(WAITS).await;
            let Some(shelves) = shelves.upgrade() else { return };
            let mut open = lock(&shelves);
            sweep(&mut open);
            if open.by_place.is_empty() {
                open.swept = false;
                return;
            }
        }
    }));
}

// HTTP/1.1 has the host in a header, and the path alone in its first line.
fn origin(mut request: Request<Body>) -> Result<Request<Body>, UpstreamError> {
    let setting = || UpstreamError::Setting;
    let authority = request.uri().authority().ok_or_else(setting)?.as_str();
    let host = HeaderValue::from_str(authority).map_err(|_unreadable| setting())?;
    let target = request.uri().path_and_query().cloned().ok_or_else(setting)?;
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = Uri::from(target);
    Ok(request)
}

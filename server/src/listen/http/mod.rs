//! The door for HTTP: tools by JSON, for whoever has a token.
//!
//! Owns: its listener, its thread and the runtime there, who may ask, and the forms of
//! requests and answers. Must not: run or decide anything; every call goes to the broker's
//! own thread, by `Agent::dispatch`. Where it is off there is nothing of it.
//!
//! - `token`       the file of tokens
//! - `clients`     who may ask, by that file as it is now
//! - `ending`      what was begun with a token ends with it
//! - `serve`       connections: how many, how long, how they end
//! - `seat`        the places of connections, and who gives one up
//! - `guard`       before anything is read: Host, Origin, the token, the rate
//! - `rate`        how many requests of a client
//! - `headers`     what browsers are told
//! - `body`        what comes: its kind, its size, its time
//! - `answer`      what goes: the three forms of an error
//! - `routes`      which path is what
//! - `tools`       the tools by their names
//! - `events`      the same, as it happens
//! - `mcp`         all of it, by the Model Context Protocol
//! - `original`    the routes that the first tool server had
//! - `trial`       the one route that the second had
//! - `page`        for people
//! - `operator`    a door of its own, for those who answer questions
//! - `openapi`     all of it, for programs

mod answer;
mod body;
mod clients;
mod ending;
mod events;
mod guard;
mod headers;
mod mcp;
mod openapi;
mod operator;
mod original;
mod page;
mod rate;
mod routes;
mod seat;
mod serve;
mod token;
mod tools;
mod trial;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use self::clients::Clients;
pub(crate) use self::operator::OperatorDoor;
use self::operator::{CONNECTIONS as OPERATORS, Desk};
use self::page::Listeners;
use self::rate::Rates;
use crate::agent::Agent;
use crate::config::{Config, Http};
use crate::listen::mcp::Mcp;
use crate::listen::share::Shares;
use crate::listen::unread::UNREAD;

/// Connections at once, where there are descriptors enough.
const CONNECTIONS: u64 = 256;
/// One descriptor in so many is for them.
const SHARE: u64 = 8;
/// Descriptors beside those of connections: the listener, and what a runtime has.
const OWN: u64 = 8;
/// From the word to stop to the end of whatever is still open.
const LAST: Duration = Duration::from_secs(10);

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The address.
    #[error(
        "cannot listen at {address} for HTTP: {source}; choose another http.listen (TOOL_SERVER_PORT)"
    )]
    Bind {
        /// As the settings have it.
        address: SocketAddr,
        /// The kernel's word.
        source: io::Error,
    },
    /// The operators' address.
    #[error(
        "cannot listen at {address} for operators: {source}; choose another http.operator_listen"
    )]
    Operator {
        /// As the settings have it.
        address: SocketAddr,
        /// The kernel's word.
        source: io::Error,
    },
    /// The file of tokens.
    #[error("cannot read the tokens in {path}: {source}; see http.token_file", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// What is in it, or who may read it.
    #[error("{path}{line}: {wrong}", path = .path.display(), line = .line.map_or_else(String::new, |line| format!(":{line}")))]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Where it is about one.
        line: Option<usize>,
        /// What is wrong, and what to do.
        wrong: &'static str,
    },
}

/// An address that is taken, and who may ask there.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    listener: TcpListener,
    address: SocketAddr,
    clients: Arc<Clients>,
    settings: Http,
}

/// What all requests share.
#[derive(Debug)]
struct House {
    agent: Agent,
    clients: Arc<Clients>,
    settings: Http,
    address: SocketAddr,
    rates: Rates,
    shares: Arc<Shares>,
    /// Bytes of answers that are not read, all together.
    unread: Arc<Shares>,
    /// Held by calls: what a stop waits for.
    busy: TaskTracker,
    mcp: Mcp,
    /// Bytes that bodies may hold, all together.
    room: Arc<Semaphore>,
    /// Who listens to what happens.
    listeners: Listeners,
    /// At the operators' door.
    desk: Option<Desk>,
}

/// What a door begins with.
struct Opening {
    listener: TcpListener,
    address: SocketAddr,
    clients: Arc<Clients>,
    settings: Http,
    agent: Agent,
    busy: TaskTracker,
    most: usize,
    desk: Option<Desk>,
}

/// The door, open.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: CancellationToken,
    over: oneshot::Receiver<()>,
    cut: CancellationToken,
}

/// How many connections a limit of descriptors pays for.
fn places(descriptors: u64) -> u64 {
    (descriptors / SHARE).clamp(4, CONNECTIONS)
}

/// Descriptors that the operators' door needs.
pub(crate) const OPERATOR_DESCRIPTORS: u64 = OPERATORS as u64 + OWN;

/// Descriptors that the door needs, of a limit of them.
pub(crate) fn http_descriptors(limit: u64) -> u64 {
    places(limit) + OWN
}

impl HttpDoor {
    /// Takes the address, where there is to be one.
    pub(crate) fn bind(config: &Config) -> Result<Option<HttpDoor>, HttpError> {
        let settings = config.http.clone();
        let Some(address) = settings.listen else { return Ok(None) };
        let clients = match &settings.token_file {
            Some(path) => Clients::read(path.clone())?,
            None => Clients::anybody(),
        };
        let clients = Arc::new(clients);
        let failed = |source| HttpError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() {
            warn!(
                %address,
                "HTTP is open to other machines, and has no TLS: tokens and files pass in the \
                 clear; put a proxy with TLS before it"
            );
        }
        if settings.token_file.is_none() {
            warn!(%address, "insecure_no_auth: whoever is on this machine may call tools by HTTP");
        }
        Ok(Some(HttpDoor { listener, address, clients, settings }))
    }

    /// Where, with the port that the kernel chose where none was given.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to answer, on a thread of its own. `descriptors`: the limit that the door has
    /// a share of.
    pub(crate) fn open(
        self,
        agent: Agent,
        descriptors: u64,
        busy: TaskTracker,
    ) -> io::Result<Serving> {
        let HttpDoor { listener, address, clients, settings } = self;
        // As the audit calls them.
        clients.open(agent.broker(), Some("http:"));
        let most = usize::try_from(places(descriptors)).unwrap_or(1);
        let desk = None;
        Opening { listener, address, clients, settings, agent, busy, most, desk }.begin()
    }
}

impl OperatorDoor {
    /// Begins to answer, on a thread of its own.
    pub(crate) fn open(self, agent: Agent, busy: TaskTracker) -> io::Result<Serving> {
        let OperatorDoor { listener, address, clients, settings } = self;
        clients.open(agent.broker(), None);
        let (most, desk) = (OPERATORS, Some(Desk::default()));
        Opening { listener, address, clients, settings, agent, busy, most, desk }.begin()
    }
}

impl Opening {
    fn begin(self) -> io::Result<Serving> {
        let Opening { listener, address, clients, settings, agent, busy, most, desk } = self;
        agent.broker().watch.open();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _within = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        // Of the largest there may be a few at once, of ordinary ones very many.
        let room = settings.max_request.saturating_mul(2).min(Semaphore::MAX_PERMITS);
        let mcp = mcp::open(agent.clone(), busy.clone(), &settings, address);
        let house = House {
            mcp,
            rates: Rates::new(settings.rate_max, settings.rate_window),
            shares: Shares::of(most),
            unread: Shares::of(UNREAD),
            room: Arc::new(Semaphore::new(room)),
            agent,
            clients,
            settings,
            address,
            busy,
            listeners: Listeners::of_connections(most),
            desk,
        };
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let (tell, over) = oneshot::channel();
        let told = (stop.clone(), cut.clone());
        let name = if house.desk.is_some() { "operator" } else { "http" };
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let house = Arc::new(house);
            let app = match house.desk {
                Some(_) => operator::router(Arc::clone(&house)),
                None => routes::router(Arc::clone(&house)),
            };
            let (stop, cut) = told;
            let kept = house.mcp.keep(stop.clone());
            let known = house.clients.keep(&house.mcp, stop.clone());
            let served = serve::serve(listener, app, (most, serve::DEAF), stop, cut);
            runtime.block_on(async { tokio::join!(served, kept, known) });
            // Nobody waits any more where the server itself has ended.
            tell.send(()).ok();
        })?;
        Ok(Serving { stop, over, cut })
    }
}

impl Serving {
    /// No more connections, and each that is open ends with the request that it has.
    pub(crate) fn begin_stop(&self) -> tokio::task::JoinHandle<()> {
        self.stop.cancel();
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LAST).await;
            cut.cancel();
        })
    }

    /// Waits for the end, which comes at the latest ten seconds after the stop began.
    pub(crate) async fn end(self) {
        if self.over.await.is_err() {
            error!("the thread for HTTP ended by itself");
        }
    }
}

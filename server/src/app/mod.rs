//! A server: built from its settings, run until a signal, stopped in order.
//!
//! Order of the stop: no new connections and calls; the calls under way get
//! their time, then their trees end; what they wrote is written out; what earlier
//! calls left behind ends; the sockets' files go; the log is written out.
//!
//! - `build`      a broker from the settings
//! - `sockets`    where it listens
//! - `state`      the state directory
//! - `restarts`   how often it was not stopped in order
//! - `registry`   what follows from a change in tools.d

mod build;
mod error;
mod registry;
mod restarts;
mod sockets;
mod state;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool_gate::upstream::LOOKUPS;
use tracing::{debug, info, warn};

pub(crate) use self::build::{Built, For, build, environment, registry_options};
pub(crate) use self::error::AppError;
use self::registry::{keep_links, keep_registry};
use self::restarts::Mark;
use self::sockets::{limits, main_place, open_proxy, open_sockets};
use self::state::{lock_state, make_state_directory};
use crate::agent::{Agent, fits_nothing};
use crate::broker::{Broker, proxy_in_words};
use crate::config::Config;
use crate::listen::{
    Context, Door, HttpDoor, LEAST_DESCRIPTORS, Listening, OperatorDoor, Reload, Scrape, Serving,
    Shared, SocketError, serve_proxy,
};
use crate::os::apart;
use crate::os::closer;
use crate::os::program::forget_the_start;
use crate::os::signals::Signals;
use crate::os::startup;
use crate::registry::in_reach;

/// Threads for what blocks, each there while it is needed: as many as names are looked up
/// at once, and some that lookups never take.
const BLOCKING_THREADS: usize = LOOKUPS + 4;

/// Runs a server until a signal stops it.
pub(crate) fn serve(config: &Config) -> Result<(), AppError> {
    // Before anything else is opened: their numbers are given.
    let promised = sd_notify::listen_fds().map_err(AppError::Promised)?;
    let passed =
        startup::take_passed(promised).map_err(|errno| AppError::Promised(errno.into()))?;
    // Before any thread is made: one that had SIGCHLD unblocked would swallow it.
    let signals =
        open_signals(&[Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    #[cfg(target_env = "gnu")]
    startup::keep_memory_small();
    startup::reset_umask();
    startup::hide().map_err(|errno| AppError::System("hide this process's memory", errno))?;
    startup::seal_descriptors().map_err(|errno| AppError::System("seal descriptors", errno))?;
    apart::keep_low().map_err(|errno| AppError::System("keep low numbers", errno))?;
    closer::start_closer()?;
    let _log = crate::log::start(config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(1))
        .build()?;
    let ended = runtime.block_on(run(config, passed, signals));
    // A name that is looked up does not hold up the stop.
    runtime.shutdown_background();
    ended
}

/// What tells of children's ends; to be opened before any thread is made.
pub(crate) fn open_ends() -> Result<Signals, AppError> {
    open_signals(&[Signal::SIGCHLD])
}

fn open_signals(signals: &[Signal]) -> Result<Signals, AppError> {
    Signals::open(signals).map_err(|errno| AppError::System("take signals", errno))
}

async fn run(config: &Config, passed: Vec<OwnedFd>, signals: Signals) -> Result<(), AppError> {
    if let Some(name) = fits_nothing(&config.agent.tools) {
        return Err(AppError::NoOwnTool(name.clone()));
    }
    make_state_directory(&config.state_dir)?;
    let _lock = take_over(config, passed.is_empty()).await?;
    let sockets = open_sockets(config, passed)?;
    let way = open_proxy(config)?;
    let scrape = open_scrape(config)?;
    check_tokens(config)?;
    let http = HttpDoor::bind(config)?;
    let operator = OperatorDoor::bind(config, http.as_ref())?;
    let Built { broker, files, proxy } = build(config, For::Serving)?;
    if files.now < LEAST_DESCRIPTORS {
        return Err(AppError::FewDescriptors { now: files.now, least: LEAST_DESCRIPTORS });
    }
    let limits = limits(config).within(files.now);
    let (reload, reloads) = mpsc::channel(16);
    let closed = CancellationToken::new();
    let (tell, told) = mpsc::channel(16);
    let mut door = Door::new(&limits, sockets.len() - 1, signals, tell)?;
    let busy = TaskTracker::new();
    let shared = Shared::new(config.limits.waiting_bytes, files.now);
    let agent = Agent::new(Arc::clone(&broker));
    for (listening, rules) in &sockets {
        let context = Context {
            broker: Arc::clone(&broker),
            agent: agent.clone(),
            rules: rules.clone(),
            limits,
            reload: reload.clone(),
            busy: busy.clone(),
            shared: shared.clone(),
        };
        door.listen(listening.listener()?, context)?;
        info!(socket = %listening.path().display(), control = rules.control, "listening");
    }
    let mark = Mark::set(&config.state_dir);
    broker.metrics.unclean_restarts(mark.unclean);
    if let Some((scrape, address)) = scrape {
        info!(%address, "listening for requests of the figures");
        broker.facts.figures_at.set(address).ok();
        tokio::spawn(scrape.serve(Arc::clone(&broker)));
    }
    let http = http.map(|http| {
        let address = http.address();
        info!(%address, "listening for HTTP");
        broker.facts.http_at.set(address).ok();
        http.open(agent.clone(), files.now, busy.clone())
    });
    let http = http.transpose()?;
    let operator = operator.map(|operator| {
        let address = operator.address();
        info!(%address, "listening for operators by HTTP");
        broker.facts.operator_at.set(address).ok();
        operator.open(agent.clone(), busy.clone())
    });
    let by_http: Vec<Serving> = http.into_iter().chain(operator.transpose()?).collect();
    // Whoever is answered finds them.
    keep_links(config, &broker);
    if let (Some((listening, rules)), Some((proxy, places))) = (&way, proxy) {
        let (socket, to) = (listening.path().display(), proxy_in_words(&proxy.tool));
        info!(%socket, to, "listening for the agent's own requests");
        let listener = listening.listener()?;
        tokio::spawn(serve_proxy(listener, rules.clone(), proxy, places, closed.clone()));
    }
    let door = door.open(Arc::clone(&broker), closed.clone())?;
    tell_the_start(config, &broker, limits.connections);
    let tools: Vec<_> = broker.registry.snapshot().tools.values().cloned().collect();
    broker.setups.start(&broker, &tools);
    broker.begin_project();
    keep_registry(config, &broker, reloads);
    notify(&[sd_notify::NotifyState::Ready]);
    tokio::spawn(async {
        // What was just begun needs some of that code.
        sleep(Duration::from_secs(1)).await;
        forget_the_start();
    });
    let stopped_by = wait_for_stop(told, reload).await?;
    info!(signal = stopped_by.as_str(), "stopping");
    notify(&[sd_notify::NotifyState::Stopping]);
    let cuts: Vec<_> = by_http.iter().map(Serving::begin_stop).collect();
    stop(config, &broker, &agent, &busy, &closed).await;
    for http in by_http {
        http.end().await;
    }
    for cut in cuts {
        cut.abort();
    }
    door.shut();
    drop((sockets, way));
    mark.clear();
    info!("stopped");
    Ok(())
}

/// Whoever could read a file of tokens could ask with each of them, or answer as an operator.
fn check_tokens(config: &Config) -> Result<(), AppError> {
    let files = [&config.http.token_file, &config.http.operator_token_file];
    for file in files.into_iter().flatten() {
        if let Some(open) = in_reach(file, &config.workspace, &config.state_dir) {
            return Err(AppError::TokensInReach(file.clone(), open));
        }
    }
    Ok(())
}

/// The address for the figures, where there is to be one.
fn open_scrape(config: &Config) -> Result<Option<(Scrape, SocketAddr)>, AppError> {
    let Some(address) = config.metrics_listen else { return Ok(None) };
    let failed = |source| AppError::Figures(address, source);
    let scrape = Scrape::bind(address).map_err(failed)?;
    let address = scrape.address().map_err(failed)?;
    Ok(Some((scrape, address)))
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "cannot tell the service manager");
    }
}

/// Makes sure that there is no other server, and that none comes. One that was
/// just killed may live on for a moment, in a child that was being started.
async fn take_over(config: &Config, binds: bool) -> Result<Flock<std::fs::File>, AppError> {
    let mut tries = 20;
    loop {
        let free = if binds { Listening::check(&main_place(config)) } else { Ok(()) };
        let taken = free.map_err(AppError::from).and_then(|()| lock_state(&config.state_dir));
        match taken {
            Err(AppError::StateInUse(_) | AppError::Socket(SocketError::Live(_))) if tries > 0 => {
                tries -= 1;
                sleep(Duration::from_millis(50)).await;
            }
            other => return other,
        }
    }
}

fn tell_the_start(config: &Config, broker: &Broker, connections: usize) {
    let snapshot = broker.registry.snapshot();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        tools = snapshot.tools.len(),
        tools_dir = %config.tools_dir.display(),
        connections,
        trees = broker.facts.tree,
        confinement = broker.confines.level(broker.executor.ground()).as_str(),
        "started"
    );
    for problem in &snapshot.problems {
        warn!("{problem}");
    }
    for exposed in broker.confines.exposed(&broker.workspace) {
        warn!("{exposed}");
    }
    broker.confines.heed(&snapshot);
    for left_out in broker.confines.left_out(&broker.workspace, &snapshot) {
        warn!("{left_out}");
    }
    let own: Vec<_> = snapshot.own(broker.registry.options()).collect();
    let names: Vec<&str> = own.iter().map(|tool| tool.name.as_str()).collect();
    let names = names.join(" ");
    info!(tools = names, "served of its own: agent.tools chooses, none for none");
    for tool in own.iter().filter(|tool| !tool.ships()) {
        let rules = snapshot.rules_in_words(tool);
        info!(tool = tool.name, rules, "by a definition of yours ({})", tool.origin);
    }
    for tool in snapshot.tools.values().chain(own) {
        if tool.unrestricted() {
            warn!(tool = tool.name, "unrestricted: neither rules nor a default ({})", tool.origin);
        }
        if !tool.is_confined() {
            warn!(tool = tool.name, "sandbox: off: it is not confined ({})", tool.origin);
        } else if !tool.sandbox_said {
            debug!(tool = tool.name, "{}", tool.sandbox_in_words());
        }
        for warning in &tool.warnings {
            warn!(tool = tool.name, "{warning}");
        }
    }
}

/// Waits for a signal that stops the server. One descriptor hears all signals:
/// with a second one the end of every child would wake two threads.
async fn wait_for_stop(mut told: Receiver<Signal>, reload: Reload) -> Result<Signal, AppError> {
    loop {
        match told.recv().await {
            Some(Signal::SIGHUP) => {
                let (sender, _receiver) = oneshot::channel();
                // A full queue means that a look is due anyway.
                drop(reload.try_send(sender));
            }
            Some(signal) => return Ok(signal),
            None => return Err(AppError::System("read signals", Errno::EPIPE)),
        }
    }
}

async fn stop(
    config: &Config,
    broker: &Broker,
    agent: &Agent,
    busy: &TaskTracker,
    closed: &CancellationToken,
) {
    // Who connects now is told so: the sockets stay open until the calls are over
    // and their callers have read what they wrote.
    broker.draining.cancel();
    busy.close();
    if timeout(config.timeouts.drain, busy.wait()).await.is_err() {
        warn!(calls = broker.admission.load().0, "ending the calls that are still under way");
    }
    broker.stop.cancel();
    // A caller that does not read its last reply is not waited for much longer.
    timeout(config.timeouts.grace + Duration::from_secs(3), busy.wait()).await.ok();
    timeout(config.timeouts.grace + Duration::from_secs(3), broker.project.rest()).await.ok();
    timeout(config.timeouts.grace + Duration::from_secs(3), agent.rest()).await.ok();
    broker.rest_files().await;
    closed.cancel();
    if let Some(audit) = &broker.audit {
        audit.rest();
    }
    let left = broker.executor.trees().end_all(config.timeouts.grace).await;
    if left > 0 {
        warn!(processes = left, "could not be ended");
    }
}

//! A server: built from its settings, run until a signal, stopped in order.
//!
//! Order of the stop: no new connections and calls; the calls under way get
//! their time, then their trees end; what earlier calls left behind ends; the
//! sockets' files go; the log is written out.
//!
//! - `build`      a broker from the settings
//! - `sockets`    where it listens
//! - `state`      the state directory
//! - `registry`   what follows from a change in tools.d

mod build;
mod error;
mod registry;
mod sockets;
mod state;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

pub(crate) use self::build::{For, build, environment, registry_options};
pub(crate) use self::error::AppError;
use self::registry::{keep_links, keep_registry};
use self::sockets::{limits, main_place, open_sockets};
use self::state::{lock_state, make_state_directory};
use crate::broker::Broker;
use crate::config::Config;
use crate::listen::{Acceptor, Context, LEAST_DESCRIPTORS, Listening, Reload, Shared, SocketError};
use crate::os::signals::Signals;
use crate::os::startup;
use crate::os::{foreign, readiness};

/// Runs a server until a signal stops it.
pub(crate) fn serve(config: &Config) -> Result<(), AppError> {
    // Before anything else is opened: their numbers are given.
    let promised = sd_notify::listen_fds().map_err(AppError::Promised)?;
    let passed =
        startup::take_passed(promised).map_err(|errno| AppError::Promised(errno.into()))?;
    // Before any thread is made: one that had SIGCHLD unblocked would swallow it.
    let signals = open_signals()?;
    #[cfg(target_env = "gnu")]
    startup::keep_memory_small();
    startup::reset_umask();
    startup::hide().map_err(|errno| AppError::System("hide this process's memory", errno))?;
    startup::seal_descriptors().map_err(|errno| AppError::System("seal descriptors", errno))?;
    foreign::start_closer()?;
    let _log = crate::log::start(config);
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(1))
        .build()?
        .block_on(run(config, passed, signals))
}

/// The signals of the server; to be taken before any thread is made.
pub(crate) fn open_signals() -> Result<Signals, AppError> {
    Signals::open().map_err(|errno| AppError::System("take signals", errno))
}

async fn run(config: &Config, passed: Vec<OwnedFd>, signals: Signals) -> Result<(), AppError> {
    make_state_directory(&config.state_dir)?;
    let _lock = take_over(config, passed.is_empty()).await?;
    let sockets = open_sockets(config, passed)?;
    let (broker, files) = build(config, For::Serving)?;
    if files.now < LEAST_DESCRIPTORS {
        return Err(AppError::FewDescriptors { now: files.now, least: LEAST_DESCRIPTORS });
    }
    let limits = limits(config).within(files.now);
    let (reload, reloads) = mpsc::channel(16);
    let closed = CancellationToken::new();
    let acceptor = Arc::new(Acceptor::new(&limits, sockets.len() - 1, closed.clone()));
    let busy = TaskTracker::new();
    let shared = Shared::new(config.limits.waiting_bytes, files.now);
    for (listening, rules) in &sockets {
        let context = Context {
            broker: Arc::clone(&broker),
            rules: rules.clone(),
            limits,
            reload: reload.clone(),
            busy: busy.clone(),
            shared: shared.clone(),
        };
        let listener = listening.listener()?;
        let acceptor = Arc::clone(&acceptor);
        tokio::spawn(async move { acceptor.run(listener, context).await });
        info!(socket = %listening.path().display(), control = rules.control, "listening");
    }
    tell_the_start(config, &broker, limits.connections);
    let tools: Vec<_> = broker.registry.snapshot().tools.values().cloned().collect();
    broker.setups.start(&broker, &tools);
    keep_registry(config, &broker, reloads);
    notify(&[sd_notify::NotifyState::Ready]);
    let stopped_by = wait_for_stop(&broker, signals, reload).await?;
    info!(signal = stopped_by.as_str(), "stopping");
    notify(&[sd_notify::NotifyState::Stopping]);
    stop(config, &broker, &busy, &closed).await;
    drop(sockets);
    info!("stopped");
    Ok(())
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
        "started"
    );
    for problem in &snapshot.problems {
        warn!("{problem}");
    }
    for tool in snapshot.tools.values() {
        if tool.unrestricted() {
            warn!(tool = tool.name, "unrestricted: neither rules nor a default ({})", tool.origin);
        }
        for warning in &tool.warnings {
            warn!(tool = tool.name, "{warning}");
        }
    }
    keep_links(config, broker);
}

async fn wait_for_stop(
    broker: &Broker,
    signals: Signals,
    reload: Reload,
) -> Result<Signal, AppError> {
    let signals = readiness::watch(signals, Interest::READABLE)?;
    loop {
        let mut guard = signals.readable().await?;
        loop {
            let next = signals.get_ref().next();
            match next.map_err(|errno| AppError::System("read signals", errno))? {
                None => break,
                Some(Signal::SIGCHLD) => broker.executor.reaper().collect(),
                Some(Signal::SIGHUP) => {
                    let (sender, _receiver) = oneshot::channel();
                    // A full queue means that a look is due anyway.
                    drop(reload.try_send(sender));
                }
                Some(signal) => {
                    // Children go on ending while the server stops.
                    let executor = broker.facts.this.upgrade();
                    tokio::spawn(collect_on(signals, executor));
                    return Ok(signal);
                }
            }
        }
        guard.clear_ready();
    }
}

/// Reaps until the server is gone.
async fn collect_on(signals: AsyncFd<Signals>, broker: Option<Arc<Broker>>) {
    let Some(broker) = broker else { return };
    broker.executor.reaper().collect();
    while let Ok(mut guard) = signals.readable().await {
        while let Ok(Some(_)) = signals.get_ref().next() {}
        broker.executor.reaper().collect();
        guard.clear_ready();
    }
}

async fn stop(config: &Config, broker: &Broker, busy: &TaskTracker, closed: &CancellationToken) {
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
    closed.cancel();
    let left = broker.executor.trees().end_all(config.timeouts.grace).await;
    if left > 0 {
        warn!(processes = left, "could not be ended");
    }
}

//! A server: built from its settings, run until a signal, stopped in order.
//!
//! Order of the stop: no new connections and calls; the calls under way get
//! their time, then their trees end; what earlier calls left behind ends; the
//! sockets' files go; the log is written out.

use std::collections::HashSet;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool_protocol::limits as wire;
use tracing::{info, warn};

use crate::broker::{Admission, Bounds, Broker, Environment, Facts, Homes, Setups, Workspace};
use crate::config::{Cgroup, Config, WatchMode};
use crate::exec::{Executor, Trees, sweep_leftovers};
use crate::listen::{
    Acceptor, Context, Limits, Listening, Place, Rules, Shared, SocketError, paid_for,
};
use crate::os::cgroup::Tree;
use crate::os::mark::Marks;
use crate::os::readiness;
use crate::os::signals::Signals;
use crate::os::startup;
use crate::registry::watch::{Mode, WatchSettings, watch};
use crate::registry::{Change, Pattern, Registry, RegistryOptions};
use crate::{links, listen};

/// Why there is no server. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// A root.
    #[error("{0}")]
    Root(#[from] crate::broker::RootError),
    /// A socket.
    #[error("{0}")]
    Socket(#[from] crate::listen::SocketError),
    /// The state directory.
    #[error("{0}")]
    State(#[from] StateError),
    /// Another server has the state directory.
    #[error("another server uses the state directory {0}: stop it, or set STATE_DIR")]
    StateInUse(std::path::PathBuf),
    /// The kernel.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] nix::errno::Errno),
    /// Socket activation that is none.
    #[error(
        "cannot take the sockets that LISTEN_FDS promises: {0}; start the server from its socket unit, or unset LISTEN_FDS"
    )]
    Promised(#[source] std::io::Error),
    /// Too few descriptors to serve anything.
    #[error(
        "the limit of open files is {now}, and {least} are needed: raise it (ulimit -n, LimitNOFILE=)"
    )]
    FewDescriptors {
        /// The limit.
        now: u64,
        /// What one call needs.
        least: u64,
    },
    /// openat2 is not there.
    #[error(
        "this kernel or container does not allow openat2(2), without which directories cannot be \
         confined: use Linux 5.6 or later, and a seccomp profile that lets openat2 through"
    )]
    NoOpenat2,
    /// The runtime.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the state directory {path}: {source}; make it writable, or set STATE_DIR", path = path.display())]
pub(crate) struct StateError {
    path: std::path::PathBuf,
    source: std::io::Error,
}

/// What the registry needs of the settings.
pub(crate) fn registry_options(config: &Config) -> RegistryOptions {
    RegistryOptions {
        tools_dir: config.tools_dir.clone(),
        restricted_dir: config.restricted_dir.clone(),
        owner: config.definitions_owner,
        workspace: config.workspace.clone(),
        default_timeout: config.timeouts.tool,
        require_rules: config.require_rules,
        env_path: config.env_path.clone(),
        env_inherit: config.env_inherit.iter().filter_map(|text| Pattern::parse(text)).collect(),
        binary_dirs: crate::registry::BINARY_DIRS.iter().map(Into::into).collect(),
    }
}

/// What environments are made from.
pub(crate) fn environment(config: &Config) -> Environment {
    let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    Environment { path: config.env_path.clone(), own: own.collect() }
}

/// Runs a server until a signal stops it.
pub(crate) fn serve(config: &Config) -> Result<(), AppError> {
    // Before anything else is opened: their numbers are given.
    let promised = sd_notify::listen_fds().map_err(AppError::Promised)?;
    let passed =
        startup::take_passed(promised).map_err(|errno| AppError::Promised(errno.into()))?;
    // Before any thread is made: one that had SIGCHLD unblocked would swallow it.
    let signals = open_signals()?;
    startup::reset_umask();
    startup::hide().map_err(|errno| AppError::System("hide this process's memory", errno))?;
    startup::seal_descriptors().map_err(|errno| AppError::System("seal descriptors", errno))?;
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

async fn run(
    config: &Config,
    passed: Vec<std::os::fd::OwnedFd>,
    signals: Signals,
) -> Result<(), AppError> {
    make_state_directory(&config.state_dir)?;
    let _lock = take_over(config, passed.is_empty()).await?;
    let sockets = open_sockets(config, passed)?;
    let (broker, files) = build(config, For::Serving)?;
    if files.now < listen::LEAST_DESCRIPTORS {
        return Err(AppError::FewDescriptors { now: files.now, least: listen::LEAST_DESCRIPTORS });
    }
    let limits = limits(config).within(files.now);
    let (reload, reloads) = mpsc::channel(16);
    let closed = CancellationToken::new();
    let acceptor = Arc::new(Acceptor::new(&limits, sockets.len() - 1, closed.clone()));
    let busy = TaskTracker::new();
    let shared = Shared::new(config.limits.waiting_bytes);
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

/// What a broker is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// The one server of its state directory.
    Serving,
    /// Running setups, perhaps beside a server, whose processes are not ours.
    Setup,
}

/// Everything but the sockets.
pub(crate) fn build(
    config: &Config,
    purpose: For,
) -> Result<(Arc<Broker>, startup::FileLimit), AppError> {
    let system = |what| move |errno| AppError::System(what, errno);
    make_state_directory(&config.state_dir)?;
    startup::reset_dispositions();
    startup::become_subreaper().map_err(system("become the reaper of orphans"))?;
    let files = startup::raise_file_limit().map_err(system("read the limit of descriptors"))?;
    let sealed = startup::drop_resource_capability();
    let number = match purpose {
        For::Serving => instance_number(&config.state_dir)?,
        For::Setup => random(&config.state_dir)?,
    };
    let map = config.path_map.iter().map(|pair| (pair.client.clone(), pair.server.clone()));
    let workspace = Workspace::open(&config.workspace, map)?;
    probe_openat2()?;
    let marks = Marks::new(number);
    if let Some(marks) = marks
        && purpose == For::Serving
    {
        let left = sweep_leftovers(marks);
        if left > 0 {
            warn!(processes = left, "ended what a server that was killed had left");
        }
    }
    let cgroups = match (&config.cgroup, purpose) {
        (Cgroup::Off, _) | (_, For::Setup) => None,
        (Cgroup::Auto, For::Serving) => Tree::find(None, number),
        (Cgroup::Path(path), For::Serving) => Tree::find(Some(path), number),
    };
    let inherited = (files.inherited.0 != files.now).then_some(files.inherited);
    let executor = Executor::new(
        Trees::new(marks)?,
        cgroups,
        inherited,
        config.timeouts.grace,
        config.timeouts.frame,
    )
    .map_err(system("set up the start of processes"))?;
    let tree = describe_tree(marks.is_some(), sealed, executor.cgroups());
    let registry = Arc::new(Registry::open(registry_options(config)));
    let mut instance = number;
    instance = instance.rotate_left(8) ^ std::process::id();
    let broker = Arc::new_cyclic(|this: &Weak<Broker>| Broker {
        registry,
        admission: Admission::new(bounds(config, files.now)),
        workspace,
        environment: environment(config),
        homes: Homes::new(&config.state_dir),
        setups: Setups::new(config.timeouts.setup),
        executor,
        draining: CancellationToken::new(),
        stop: CancellationToken::new(),
        facts: Facts {
            this: Weak::clone(this),
            instance,
            started: Instant::now(),
            tree,
            hidden_peers: AtomicBool::new(false),
            sockets: std::iter::once(&config.socket)
                .chain(config.listen.iter().map(|listen| &listen.path))
                .map(|path| path.display().to_string())
                .collect(),
        },
        calls: AtomicU32::new(1),
        running: Mutex::new(HashSet::new()),
        finished: AtomicU64::new(0),
    });
    Ok((broker, files))
}

fn state_error(path: &Path) -> impl Fn(std::io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError { path: path.clone(), source }
}

fn make_state_directory(path: &Path) -> Result<(), StateError> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path).map_err(state_error(path))
}

/// Takes the state directory for this server alone: two would end each other's
/// calls as leftovers.
fn lock_state(path: &Path) -> Result<Flock<std::fs::File>, AppError> {
    make_state_directory(path)?;
    let file = std::fs::File::create(path.join("lock")).map_err(state_error(path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_held| AppError::StateInUse(path.to_owned()))
}

/// This instance's number, which stays the same from start to start: by it a
/// new server finds what a killed one left.
fn instance_number(path: &Path) -> Result<u32, StateError> {
    let file = path.join("instance");
    // A copy of a state directory is another instance, and must not end the
    // calls of the first as leftovers. After a reboot there are none.
    let own = std::fs::metadata(path).map_err(state_error(path))?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let here = format!("{}:{} {}", own.dev(), own.ino(), boot.trim());
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some((number, place)) = known.trim().split_once(' ')
        && place == here
        && let Ok(number) = number.parse()
    {
        return Ok(number);
    }
    let number = random(path)?;
    std::fs::write(&file, format!("{number} {here}\n")).map_err(state_error(path))?;
    Ok(number)
}

fn random(path: &Path) -> Result<u32, StateError> {
    let mut bytes = [0u8; 4];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut bytes))
        .map_err(state_error(path))?;
    Ok(u32::from_le_bytes(bytes))
}

fn probe_openat2() -> Result<(), AppError> {
    let root = crate::os::root::Root::open(Path::new("/"));
    match root.and_then(|root| root.directory(".".as_ref())) {
        Ok(_) => Ok(()),
        Err(_) => Err(AppError::NoOpenat2),
    }
}

fn describe_tree(marked: bool, sealed: bool, cgroups: Option<PathBuf>) -> String {
    let mark = match (marked, sealed) {
        (true, true) => "by a mark that tools cannot shed",
        (true, false) => "by a mark (WEAK: tools have CAP_SYS_RESOURCE and could shed it)",
        (false, _) => "by ancestry alone (WEAK: the resource limits leave no room for a mark)",
    };
    match cgroups {
        Some(path) => format!("{mark}, and by cgroup.kill beneath {}", path.display()),
        None => mark.to_owned(),
    }
}

fn bounds(config: &Config, descriptors: u64) -> Bounds {
    Bounds {
        calls: config.limits.calls.min(paid_for(descriptors)),
        per_tool: config.limits.calls_per_tool,
        per_peer: config.limits.calls_per_peer,
        waiting: config.limits.waiting,
        waiting_bytes: config.limits.waiting_bytes,
    }
}

fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        connections: limits.connections,
        calls_per_connection: limits.calls_per_connection,
        request_bytes: limits.request_bytes.min(wire::MAX_COMMAND),
        arguments: limits.arguments,
        environment: limits.environment,
        patience: Limits::patience(config.timeouts.first_message, config.timeouts.frame),
    }
}

fn main_place(config: &Config) -> Place {
    Place {
        path: config.socket.clone(),
        mode: config.socket_mode,
        group: config.socket_group.clone(),
    }
}

fn open_sockets(
    config: &Config,
    passed: Vec<std::os::fd::OwnedFd>,
) -> Result<Vec<(Listening, Rules)>, AppError> {
    let rules = |socket, tools, control| Rules {
        socket,
        tools,
        uids: config.peers_uids.clone(),
        gids: config.peers_gids.clone(),
        control,
    };
    let mut passed: Vec<Listening> =
        passed.into_iter().map(Listening::passed).collect::<Result<_, _>>()?;
    let mut open = |place: &Place| match passed.iter().position(|one| one.path() == place.path) {
        Some(index) => Ok(passed.swap_remove(index)),
        None => Listening::bind(place),
    };
    let control = Place { path: config.control_socket.clone(), mode: 0o600, group: None };
    let mut sockets = vec![(open(&main_place(config))?, rules(0, None, false))];
    for (index, spec) in config.listen.iter().enumerate() {
        let place = Place { path: spec.path.clone(), mode: spec.mode, group: spec.group.clone() };
        sockets.push((open(&place)?, rules(index + 1, spec.tools.clone(), false)));
    }
    let mut own = rules(usize::MAX, None, true);
    own.uids = Some(vec![0, nix::unistd::geteuid().as_raw()]);
    own.gids = None;
    sockets.push((open(&control)?, own));
    for unknown in passed {
        warn!(socket = %unknown.path().display(), "passed by the service manager, and not a socket of the settings: not used");
    }
    Ok(sockets)
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

/// Watches tools.d, and answers those who ask for a look.
fn keep_registry(
    config: &Config,
    broker: &Arc<Broker>,
    mut reloads: mpsc::Receiver<oneshot::Sender<Value>>,
) {
    let settings = WatchSettings {
        mode: match config.registry.watch {
            WatchMode::Auto => Mode::Auto,
            WatchMode::Inotify => Mode::Inotify,
            WatchMode::Poll => Mode::Poll,
        },
        debounce: config.registry.debounce,
        poll: config.registry.poll,
        rescan: config.registry.rescan,
    };
    let (one, registry) = ((config.clone(), Arc::clone(broker)), Arc::clone(&broker.registry));
    tokio::spawn(async move {
        watch(registry, settings, move |change| changed(&one.0, &one.1, &change)).await;
    });
    let (config, broker) = (config.clone(), Arc::clone(broker));
    tokio::spawn(async move {
        while let Some(answer) = reloads.recv().await {
            let change = broker.registry.rescan();
            changed(&config, &broker, &change);
            let names = |tools: &[Arc<crate::registry::Tool>]| -> Vec<String> {
                tools.iter().map(|tool| tool.name.clone()).collect()
            };
            let problems = &broker.registry.snapshot().problems;
            // Whoever asked may have gone.
            drop(answer.send(json!({
                "ok": problems.is_empty(),
                "added": names(&change.added),
                "changed": names(&change.changed),
                "removed": change.removed,
                "problems": problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })));
        }
    });
}

fn changed(config: &Config, broker: &Broker, change: &Change) {
    for tool in &change.added {
        info!(tool = tool.name, "added ({})", tool.origin);
    }
    for tool in &change.changed {
        info!(tool = tool.name, "changed ({})", tool.origin);
    }
    for name in &change.removed {
        info!(tool = name, "removed");
    }
    for problem in &change.problems {
        warn!("{problem}");
    }
    broker.setups.start(broker, &change.added);
    keep_links(config, broker);
}

fn keep_links(config: &Config, broker: &Broker) {
    let Some(directory) = &config.links else { return };
    let snapshot = broker.registry.snapshot();
    let client = links::client(directory, config.links_client.as_deref());
    match links::sync(directory, &client, snapshot.tools.keys().map(String::as_str)) {
        Ok(linked) => {
            for name in linked.taken {
                warn!(tool = name, directory = %directory.display(), "no link: something else has this name");
            }
        }
        Err(error) => warn!("{error}"),
    }
}

async fn wait_for_stop(
    broker: &Broker,
    signals: Signals,
    reload: crate::listen::Reload,
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

//! A broker, put together from the settings; what the machine gives and what it
//! lacks is found out here, once.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tool_gate::credential::Keeper;
use tool_policy::{Mode, NamePattern};
use tracing::warn;

use super::error::{AppError, StateError};
use super::state::{instance_number, make_state_directory, random};
use crate::audit::{self, Audit};
use crate::broker::{
    Admission, ApprovalSettings, Approvals, Bounds, Broker, Callers, Commands, Confines,
    Environment, Facts, Files, Gates, Homes, ProjectSetup, Proxy, Rates, Recent, Redact, Setups,
    Signing, Watch, Workspace,
};
use crate::config::{Cgroup, Config, SandboxLevel};
use crate::exec::{Crew, Executor, Ground, Rooms, Trees, sweep_leftovers};
use crate::listen::{
    OPERATOR_DESCRIPTORS, SCRAPE_DESCRIPTORS, gate_places, http_descriptors, paid_for,
    proxy_descriptors, proxy_places,
};
use crate::metrics::Metrics;
use crate::os::cgroup::Tree;
use crate::os::mark::Marks;
use crate::os::startup;
use crate::registry::{Registry, RegistryOptions, define_proxy};

/// Work on files at once, at most. A file system that does not answer holds one of them,
/// or two where one was asked to help.
const FILE_THREADS: u64 = 16;
/// Descriptors that one of them may have open: a search keeps as many directories open, and a
/// file for each of its own threads.
const FILE_EACH: u64 = 72;
/// That they have gathered: to be written out, and of files that were replaced.
const FILE_LEFT: u64 = 2 * tool_files::after::MANY as u64;
/// One in so many is kept for them.
const FILE_SHARE: u64 = 8;

/// Fewer than usual.
const FEW: u64 = 1024;

/// Of a limit of descriptors, how many may work on files at once.
fn file_threads(descriptors: u64) -> u64 {
    ((descriptors / FILE_SHARE).saturating_sub(FILE_LEFT) / FILE_EACH).clamp(1, FILE_THREADS)
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
        observe: config.mode == Mode::Observe,
        env_path: config.env_path.clone(),
        env_inherit: patterns(&config.env_inherit),
        binary_dirs: crate::registry::BINARY_DIRS.iter().map(Into::into).collect(),
        hidden: hidden(config),
        proxy: None,
        builtin_dir: config.agent.definitions.clone(),
        served: patterns(&config.agent.tools),
    }
}

fn patterns(texts: &[String]) -> Vec<NamePattern> {
    texts.iter().filter_map(|text| NamePattern::parse(text)).collect()
}

/// The same, with the definition of the proxy, if there is one.
fn options_with_proxy(config: &Config) -> Result<RegistryOptions, AppError> {
    let mut options = registry_options(config);
    if let Some(path) = &config.proxy_definition {
        let proxy = define_proxy(path, &options);
        options.proxy = Some(proxy.map_err(|error| AppError::Proxy(path.clone(), error))?);
    }
    Ok(options)
}

/// What is the server's own, and none of a tool's business.
fn hidden(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let sockets = [&config.socket, &config.control_socket];
    let listen = config.listen.iter().map(|listen| &listen.path);
    let sockets = sockets
        .into_iter()
        .chain(listen)
        .chain(&config.proxy_socket)
        .map(|path| ("a socket", path.clone()));
    let tokens = [&config.http.token_file, &config.http.operator_token_file];
    let tokens = tokens.into_iter().flatten().map(|path| ("a file of tokens", path.clone()));
    let state = ("the server's state", config.state_dir.clone());
    std::iter::once(state).chain(sockets).chain(tokens).collect()
}

/// What environments are made from.
pub(crate) fn environment(config: &Config) -> Environment {
    let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    Environment { path: config.env_path.clone(), own: own.collect() }
}

/// Where credentials come from.
fn credentials(broker: &Weak<Broker>) -> Keeper {
    Keeper::of_process(Some(Arc::new(Commands(Weak::clone(broker)))))
}

/// What a broker is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// The one server of its state directory.
    Serving,
    /// Running setups, perhaps beside a server, whose processes are not ours.
    Setup,
}

/// What was built.
pub(crate) struct Built {
    pub(crate) broker: Arc<Broker>,
    pub(crate) files: startup::FileLimit,
    /// And how many connections it may have.
    pub(crate) proxy: Option<(Arc<Proxy>, u64)>,
}

/// Everything but the sockets.
pub(crate) fn build(config: &Config, purpose: For) -> Result<Built, AppError> {
    let system = |what| move |errno| AppError::System(what, errno);
    make_state_directory(&config.state_dir)?;
    startup::reset_dispositions();
    startup::become_subreaper().map_err(system("become the reaper of orphans"))?;
    let mut files = startup::raise_file_limit().map_err(system("read the limit of descriptors"))?;
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
    let asked = purpose == For::Serving && !matches!(config.cgroup, Cgroup::Off);
    let cgroups = match (&config.cgroup, purpose) {
        (Cgroup::Off, _) | (_, For::Setup) => None,
        (Cgroup::Auto, For::Serving) => Tree::find(None, number),
        (Cgroup::Path(path), For::Serving) => Tree::find(Some(path), number),
    };
    let inherited = (files.inherited.0 != files.now).then_some(files.inherited);
    if config.metrics_listen.is_some() {
        files.now = files.now.saturating_sub(SCRAPE_DESCRIPTORS);
    }
    if config.http.listen.is_some() {
        files.now = files.now.saturating_sub(http_descriptors(files.now));
    }
    if config.http.operator_listen.is_some() {
        files.now = files.now.saturating_sub(OPERATOR_DESCRIPTORS);
    }
    let places = proxy_places(files.now);
    if config.proxy_socket.is_some() {
        files.now = files.now.saturating_sub(proxy_descriptors(places));
    }
    let kept = Confines::room(files.now);
    files.now = files.now.saturating_sub(u64::try_from(kept).unwrap_or(u64::MAX));
    let workers = file_threads(files.now);
    // Of few none are kept: calls come first.
    if files.now >= FEW {
        files.now -= (workers * FILE_EACH + FILE_LEFT).min(files.now / FILE_SHARE);
    }
    let executor = Executor::new(
        Trees::new(marks)?,
        asked,
        cgroups,
        inherited,
        config.timeouts.grace,
        config.timeouts.frame,
    )
    .map_err(system("set up the start of processes"))?;
    let homes = Homes::new(&config.state_dir);
    if executor.ground().switches {
        let failed = |source| StateError { path: config.state_dir.clone(), source };
        homes.open_ways().map_err(failed)?;
    }
    let tree = describe_tree(marks.is_some(), sealed, executor.cgroups());
    let registry = Arc::new(Registry::open(options_with_proxy(config)?));
    // Another one at each start: a call's id is nobody else's, in the audit too.
    let instance = random(&config.state_dir)?;
    let audit = match purpose {
        For::Serving => Some(open_audit(config)?),
        For::Setup => None,
    };
    let confines = Confines::new(
        config.sandbox_level == SandboxLevel::Landlock,
        Rooms::new(gate_places(files.now)),
        &config.env_path,
        hidden(config).into_iter().map(|(_, path)| path).collect(),
        kept,
        &config.state_dir,
    );
    let own = open_files(config, &confines, executor.ground(), &workspace, workers)?;
    let broker = Arc::new_cyclic(|this: &Weak<Broker>| {
        let keeper = Arc::new(credentials(this));
        Broker {
            registry,
            admission: Admission::new(bounds(config, files.now)),
            rates: Rates::new(config.limits.rate),
            workspace,
            environment: environment(config),
            homes,
            confines,
            setups: Setups::new(config.timeouts.setup),
            project: ProjectSetup::new(&config.state_dir, config.timeouts.setup),
            audit,
            approvals: Approvals::open(approval_settings(config)),
            redact: Redact::new(Arc::clone(&keeper)),
            signing: Signing::new(Arc::clone(&keeper)),
            gates: Gates::new(keeper),
            executor,
            files: own,
            draining: CancellationToken::new(),
            stop: CancellationToken::new(),
            facts: Facts {
                this: Weak::clone(this),
                instance,
                started: Instant::now(),
                tree,
                hidden_peers: AtomicBool::new(false),
                figures_at: OnceLock::new(),
                http_at: OnceLock::new(),
                operator_at: OnceLock::new(),
                callers: Callers::of(
                    std::iter::once(&config.socket)
                        .chain(config.listen.iter().map(|listen| &listen.path))
                        .map(|path| path.display().to_string()),
                ),
            },
            calls: AtomicU32::new(1),
            recent: Recent::default(),
            watch: Watch::default(),
            metrics: Metrics::new(),
            finished: AtomicU64::new(0),
        }
    });
    let tool = broker.registry.options().proxy.clone();
    let most = usize::try_from(places).unwrap_or(1);
    let proxy = tool.map(|tool| (Arc::new(broker.open_proxy(tool, most)), places));
    Ok(Built { broker, files, proxy })
}

/// The workspace's files, and threads that reach nothing else.
fn open_files(
    config: &Config,
    confines: &Confines,
    ground: &Ground,
    workspace: &Workspace,
    workers: u64,
) -> Result<Files, AppError> {
    let open = |path: &PathBuf| tool_files::Root::open(path);
    let roots: Result<Vec<_>, _> = config.workspace.iter().map(open).collect();
    let roots = roots.map_err(|errno| AppError::System("open the workspace's roots", errno))?;
    let (identity, domain) = confines
        .of_files(ground, workspace)
        .map_err(|errno| AppError::System("make Landlock's ruleset of the workspace", errno))?;
    let workers = usize::try_from(workers).unwrap_or(1);
    let roots = tool_files::Roots::new(roots).lasting(config.agent.durable);
    Ok(Files::new(roots, Crew::new(workers, identity, domain)))
}

fn open_audit(config: &Config) -> Result<Audit, AppError> {
    let (audit, recovered) = Audit::open(audit::Options {
        state_dir: config.state_dir.clone(),
        sync: config.audit.sync,
        on_failure: config.audit.on_failure,
        max_bytes: u64::try_from(config.audit.max_bytes).unwrap_or(u64::MAX),
        keep: config.audit.keep,
        stdout: config.audit.stdout,
    })?;
    let audit::Recovered { interrupted, torn } = recovered;
    if interrupted > 0 {
        warn!(
            calls = interrupted,
            "were under way when a server was killed: the audit has them as interrupted"
        );
    }
    if torn > 0 {
        warn!(bytes = torn, "of a line of the audit that was not complete were cut off");
    }
    Ok(audit)
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

fn approval_settings(config: &Config) -> ApprovalSettings {
    let approvals = &config.approvals;
    ApprovalSettings {
        timeout: approvals.timeout,
        waiting: approvals.waiting,
        per_peer: approvals.per_peer,
        notify: approvals.notify.clone(),
        file: config.state_dir.join("approvals.json"),
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

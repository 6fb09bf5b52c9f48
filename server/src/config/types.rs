//! The shape of the configuration.
//!
//! Owns: the types that the rest of the server reads its settings from.
//! Must not: know how a value is written; `field` does.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tool_policy::Rate;

use super::Effective;

/// Every setting. Documented in `settings`, the one table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    pub(crate) socket: PathBuf,
    pub(crate) socket_mode: u32,
    pub(crate) socket_group: Option<String>,
    /// Further sockets beside `socket`.
    pub(crate) listen: Vec<ListenSpec>,
    pub(crate) control_socket: PathBuf,
    pub(crate) tools_dir: PathBuf,
    pub(crate) restricted_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) workspace: Vec<PathBuf>,
    pub(crate) path_map: Vec<PathMap>,
    pub(crate) peers_uids: Option<Vec<u32>>,
    pub(crate) peers_gids: Option<Vec<u32>>,
    pub(crate) definitions_owner: Option<u32>,
    pub(crate) require_rules: bool,
    /// Of every tool, whatever its definition says.
    pub(crate) mode: tool_policy::Mode,
    pub(crate) env_path: String,
    pub(crate) env_inherit: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) approvals: Approvals,
    pub(crate) agent: Agent,
    pub(crate) http: Http,
    /// Whether callers by HTTP need no token.
    pub(crate) insecure_no_auth: bool,
    pub(crate) registry: Rescan,
    pub(crate) audit: AuditSettings,
    /// Where the figures are given by HTTP: a loopback address.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Where the agent's own requests are taken.
    pub(crate) proxy_socket: Option<PathBuf>,
    pub(crate) proxy_definition: Option<PathBuf>,
    pub(crate) links: Option<PathBuf>,
    pub(crate) links_client: Option<PathBuf>,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    pub(crate) cgroup: Cgroup,
    pub(crate) sandbox_level: SandboxLevel,
    pub(super) effective: Vec<Effective>,
}

/// A further socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListenSpec {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) group: Option<String>,
    /// The tools that it serves; `None`: all.
    pub(crate) tools: Option<Vec<String>>,
}

/// A directory that clients see by another name than the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathMap {
    pub(crate) client: PathBuf,
    pub(crate) server: PathBuf,
}

/// The broker's own tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agent {
    /// Which of them are served, as names and patterns.
    pub(crate) tools: Vec<String>,
    /// Definitions in place of those that ship.
    pub(crate) definitions: Option<PathBuf>,
    /// Whether what they write is on disk before that is told.
    pub(crate) durable: bool,
}

/// The door for HTTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Http {
    /// Where it is; unset: nowhere.
    pub(crate) listen: Option<SocketAddr>,
    /// Of `listen`, where that is not given.
    pub(crate) host: Option<IpAddr>,
    /// Of `listen`, where that is not given.
    pub(crate) port: Option<u16>,
    pub(crate) token_file: Option<PathBuf>,
    /// Names that it is asked by, beside loopback's and its own address.
    pub(crate) hosts: Vec<String>,
    /// Whose pages may ask.
    pub(crate) cors_origins: Vec<String>,
    pub(crate) rate_window: Duration,
    pub(crate) rate_max: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) max_request: usize,
    pub(crate) log: bool,
    pub(crate) helmet: bool,
    /// Where operators answer; unset: nowhere by HTTP.
    pub(crate) operator_listen: Option<SocketAddr>,
    pub(crate) operator_token_file: Option<PathBuf>,
}

/// How much of everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) calls: usize,
    pub(crate) calls_per_tool: usize,
    pub(crate) calls_per_peer: usize,
    /// How often one peer may call.
    pub(crate) rate: Option<Rate>,
    /// Requests that wait for one of the above.
    pub(crate) waiting: usize,
    pub(crate) waiting_bytes: usize,
    pub(crate) connections: usize,
    pub(crate) calls_per_connection: usize,
    pub(crate) request_bytes: usize,
    /// Counts, not bytes.
    pub(crate) arguments: usize,
    pub(crate) environment: usize,
}

/// How long for everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeouts {
    pub(crate) tool: Duration,
    pub(crate) first_message: Duration,
    pub(crate) frame: Duration,
    pub(crate) grace: Duration,
    pub(crate) drain: Duration,
    pub(crate) setup: Duration,
}

/// Calls that wait for an operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Approvals {
    pub(crate) timeout: Duration,
    pub(crate) waiting: usize,
    pub(crate) per_peer: usize,
    /// A shell command.
    pub(crate) notify: Option<String>,
}

/// When tools.d is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rescan {
    pub(crate) watch: WatchMode,
    pub(crate) debounce: Duration,
    pub(crate) poll: Duration,
    pub(crate) rescan: Duration,
}

/// How calls are recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditSettings {
    pub(crate) sync: AuditSync,
    pub(crate) on_failure: AuditFailure,
    pub(crate) max_bytes: usize,
    pub(crate) keep: usize,
    pub(crate) stdout: bool,
}

/// When the audit is made to last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AuditSync {
    /// When the kernel likes.
    Never,
    /// Each second.
    #[default]
    Seconds,
    /// Before a tool starts, and before its caller is answered.
    Each,
}

/// What becomes of a call that cannot be recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AuditFailure {
    #[default]
    Refuse,
    Continue,
}

/// How changes of tools.d are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchMode {
    #[default]
    Auto,
    Inotify,
    Poll,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    Text,
    Json,
}

/// Where calls get a cgroup of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Cgroup {
    #[default]
    Auto,
    Off,
    Path(PathBuf),
}

/// How much of what the machine has is used to confine tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SandboxLevel {
    /// All of it.
    #[default]
    Auto,
    /// No namespaces, as where the machine has none.
    Landlock,
}

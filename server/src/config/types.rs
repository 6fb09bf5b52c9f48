//! The shape of the configuration.
//!
//! Owns: the types that the rest of the server reads its settings from.
//! Must not: know how a value is written; `field` does.

use std::path::PathBuf;
use std::time::Duration;

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
    pub(crate) env_path: String,
    pub(crate) env_inherit: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) registry: Rescan,
    pub(crate) links: Option<PathBuf>,
    pub(crate) links_client: Option<PathBuf>,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    pub(crate) cgroup: Cgroup,
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

/// How much of everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) calls: usize,
    pub(crate) calls_per_tool: usize,
    pub(crate) calls_per_peer: usize,
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

/// When tools.d is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rescan {
    pub(crate) watch: WatchMode,
    pub(crate) debounce: Duration,
    pub(crate) poll: Duration,
    pub(crate) rescan: Duration,
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

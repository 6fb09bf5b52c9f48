//! Why there is no server. Each error says what to do.

/// Why there is no server. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// A root.
    #[error("{0}")]
    Root(#[from] crate::broker::RootError),
    /// A socket.
    #[error("{0}")]
    Socket(#[from] crate::listen::SocketError),
    /// The figures' address.
    #[error("cannot listen at {0} for the figures: {1}; choose another metrics.listen")]
    Figures(std::net::SocketAddr, #[source] std::io::Error),
    /// The door for HTTP.
    #[error("{0}")]
    Http(#[from] crate::listen::HttpError),
    /// A file of tokens that tools could read.
    #[error("{file} is a file of tokens, and lies beneath {open}, which tools reach: move it elsewhere, as /etc/tool-server", file = .0.display(), open = .1.display())]
    TokensInReach(std::path::PathBuf, std::path::PathBuf),
    /// The proxy's definition.
    #[error("the proxy's definition {file}{line} {1}", file = .0.display(), line = .1.line().map_or_else(|| ":".to_owned(), |line| format!(":{line}:")))]
    Proxy(std::path::PathBuf, #[source] crate::registry::LoadError),
    /// The state directory.
    #[error("{0}")]
    State(#[from] StateError),
    /// The audit.
    #[error("{0}")]
    Audit(#[from] crate::audit::AuditError),
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
    /// A setting that names no tool.
    #[error(
        "agent.tools: none of the broker's own tools is called {name}: they are {all}",
        name = .0.escape_debug(),
        all = crate::agent::own_names()
    )]
    NoOwnTool(String),
    /// The runtime.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the state directory {path}: {source}; make it writable, or set STATE_DIR", path = path.display())]
pub(crate) struct StateError {
    pub(super) path: std::path::PathBuf,
    pub(super) source: std::io::Error,
}

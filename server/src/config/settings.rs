//! Every setting: one row of one table.
//!
//! Owns: a setting's names in the file, as a flag and in the environment, its
//! default and its sentence of help. A list replaces the default's or the
//! file's, it is not added to it. Must not: read anything.

use super::error::ConfigError;
use super::field::Field;
use super::types::Config;
use Initial::{Computed, Text, Unset};

/// A row.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) flag: &'static str,
    pub(super) env: &'static str,
    pub(super) default: Initial,
    pub(super) field: Field,
    pub(super) help: &'static str,
}

/// A setting's value where nobody gives one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Initial {
    Unset,
    /// As it would be written in the environment.
    Text(&'static str),
    /// What to tell people, and how it is found.
    Computed(&'static str, Compute),
}

type Variable<'a> = &'a dyn Fn(&str) -> Result<Option<String>, ConfigError>;
type Compute = fn(Variable<'_>, &Config, u32) -> Result<String, ConfigError>;

/// A default may depend on the rows above it.
#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    row("socket", "socket", "TOOL_SOCKET", Computed("/run/sockets/tool-$INSTANCE_ID.sock", socket),
        Field::Socket(|c| &mut c.socket),
        "The socket that clients call; without INSTANCE_ID it is /run/sockets/tool.sock"),
    row("socket_mode", "socket-mode", "TOOL_SOCKET_MODE", Text("0660"),
        Field::Mode(|c| &mut c.socket_mode),
        "The socket's file mode"),
    row("socket_group", "socket-group", "TOOL_SOCKET_GROUP", Unset,
        Field::Group(|c| &mut c.socket_group),
        "The socket's group"),
    row("listen", "listen", "TOOL_LISTEN", Unset,
        Field::Listen(|c| &mut c.listen),
        "A further socket, with its mode, group and tools; several are separated by ;"),
    row("state_dir", "state-dir", "STATE_DIR", Computed("/var/lib/tool-server, or ~/.local/state/tool-server", state_dir),
        Field::Directory(|c| &mut c.state_dir),
        "What the server keeps: a HOME for each tool; one per instance"),
    row("control_socket", "control-socket", "TOOL_CONTROL_SOCKET", Computed("STATE_DIR/control.sock", control_socket),
        Field::Socket(|c| &mut c.control_socket),
        "The operator's socket, mode 0600; never give it to clients"),
    row("tools_dir", "tools-dir", "TOOLS_DIR", Text("/app/tools/tools.d"),
        Field::Directory(|c| &mut c.tools_dir),
        "The tools' definitions"),
    row("restricted_dir", "restricted-dir", "RESTRICTED_DIR", Text("/app/restricted"),
        Field::Directory(|c| &mut c.restricted_dir),
        "Wrappers for tools that bring none of their own; need not exist"),
    row("workspace", "workspace", "WORKSPACE", Text("/workspace"),
        Field::Roots(|c| &mut c.workspace),
        "The directories in which tools may be run"),
    row("path_map", "path-map", "TOOL_PATH_MAP", Unset,
        Field::PathMap(|c| &mut c.path_map),
        "Directories that clients know by another name"),
    row("peers.uids", "peers-uids", "TOOL_PEERS_UIDS", Unset,
        Field::Ids(|c| &mut c.peers_uids),
        "The uids that may call; unset: whoever the socket's mode lets in"),
    row("peers.gids", "peers-gids", "TOOL_PEERS_GIDS", Unset,
        Field::Ids(|c| &mut c.peers_gids),
        "The gids that may call; unset: whoever the socket's mode lets in"),
    row("definitions_owner", "definitions-owner", "TOOL_DEFINITIONS_OWNER", Unset,
        Field::User(|c| &mut c.definitions_owner),
        "Who may own definitions besides root and the server's own user"),
    row("require_rules", "require-rules", "TOOL_REQUIRE_RULES", Text("false"),
        Field::Flag(|c| &mut c.require_rules),
        "Refuse definitions that have neither rules, nor `default`, nor a wrapper"),
    row("mode", "mode", "TOOL_MODE", Text("enforce"),
        Field::Rules(|c| &mut c.mode),
        "Whether rules are carried out, or with observe only logged; observe holds for every tool"),
    row("env.path", "env-path", "TOOL_ENV_PATH", Text("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        Field::Text(|c| &mut c.env_path),
        "The PATH of every tool"),
    row("env.inherit", "env-inherit", "TOOL_ENV_INHERIT", Unset,
        Field::Patterns(|c| &mut c.env_inherit),
        "What tools without [env] get of the server's own environment"),
    row("limits.calls", "limits-calls", "TOOL_LIMITS_CALLS", Text("256"),
        Field::Count(|c| &mut c.limits.calls),
        "How many calls run at once"),
    row("limits.calls_per_tool", "limits-calls-per-tool", "TOOL_LIMITS_CALLS_PER_TOOL", Text("256"),
        Field::Count(|c| &mut c.limits.calls_per_tool),
        "How many calls of one tool run at once"),
    row("limits.calls_per_peer", "limits-calls-per-peer", "TOOL_LIMITS_CALLS_PER_PEER", Text("256"),
        Field::Count(|c| &mut c.limits.calls_per_peer),
        "How many calls of one peer run at once"),
    row("limits.rate", "limits-rate", "TOOL_LIMITS_RATE", Unset,
        Field::Rate(|c| &mut c.limits.rate),
        "How often one peer may call, as 600/minute, or 600/minute, burst 50"),
    row("limits.waiting", "limits-waiting", "TOOL_LIMITS_WAITING", Text("16384"),
        Field::Count(|c| &mut c.limits.waiting),
        "How many requests wait for their turn"),
    row("limits.waiting_bytes", "limits-waiting-bytes", "TOOL_LIMITS_WAITING_BYTES", Text("67108864"),
        Field::Count(|c| &mut c.limits.waiting_bytes),
        "How many bytes the waiting requests may have together"),
    row("limits.connections", "limits-connections", "TOOL_LIMITS_CONNECTIONS", Text("4096"),
        Field::Count(|c| &mut c.limits.connections),
        "How many connections are open at once"),
    row("limits.calls_per_connection", "limits-calls-per-connection", "TOOL_LIMITS_CALLS_PER_CONNECTION", Text("16"),
        Field::Count(|c| &mut c.limits.calls_per_connection),
        "How many calls one connection has under way"),
    row("limits.request_bytes", "limits-request-bytes", "TOOL_LIMITS_REQUEST_BYTES", Text("2097152"),
        Field::Count(|c| &mut c.limits.request_bytes),
        "How many bytes one request may have"),
    row("limits.arguments", "limits-arguments", "TOOL_LIMITS_ARGUMENTS", Text("131072"),
        Field::Count(|c| &mut c.limits.arguments),
        "How many arguments one request may have"),
    row("limits.environment", "limits-environment", "TOOL_LIMITS_ENVIRONMENT", Text("8192"),
        Field::Count(|c| &mut c.limits.environment),
        "How many variables one request may offer"),
    row("timeouts.tool", "timeouts-tool", "TOOL_TIMEOUTS_TOOL", Text("300"),
        Field::Seconds(|c| &mut c.timeouts.tool),
        "How long a call may run where its definition does not say"),
    row("timeouts.first_message", "timeouts-first-message", "TOOL_TIMEOUTS_FIRST_MESSAGE", Text("5"),
        Field::Seconds(|c| &mut c.timeouts.first_message),
        "How long a connection may wait with its first message"),
    row("timeouts.frame", "timeouts-frame", "TOOL_TIMEOUTS_FRAME", Text("30"),
        Field::Seconds(|c| &mut c.timeouts.frame),
        "How long a message may take from its first byte to its last"),
    row("timeouts.grace", "timeouts-grace", "TOOL_TIMEOUTS_GRACE", Text("2"),
        Field::SecondsOrNone(|c| &mut c.timeouts.grace),
        "How long a tool has between TERM and KILL"),
    row("timeouts.drain", "timeouts-drain", "TOOL_TIMEOUTS_DRAIN", Text("10"),
        Field::SecondsOrNone(|c| &mut c.timeouts.drain),
        "How long calls may go on when the server stops"),
    row("timeouts.setup", "timeouts-setup", "TOOL_TIMEOUTS_SETUP", Text("120"),
        Field::Seconds(|c| &mut c.timeouts.setup),
        "How long a setup.sh may run"),
    row("approvals.timeout", "approvals-timeout", "TOOL_APPROVALS_TIMEOUT", Text("300"),
        Field::Seconds(|c| &mut c.approvals.timeout),
        "How long a call waits for an operator before it is refused"),
    row("approvals.waiting", "approvals-waiting", "TOOL_APPROVALS_WAITING", Text("64"),
        Field::Count(|c| &mut c.approvals.waiting),
        "How many calls wait for an operator"),
    row("approvals.per_peer", "approvals-per-peer", "TOOL_APPROVALS_PER_PEER", Text("8"),
        Field::Count(|c| &mut c.approvals.per_peer),
        "How many calls of one peer wait for an operator"),
    row("approvals.notify", "approvals-notify", "TOOL_APPROVALS_NOTIFY", Unset,
        Field::MaybeText(|c| &mut c.approvals.notify),
        "A shell command that is run for each call that begins to wait"),
    row("agent.tools", "agent-tools", "TOOL_AGENT_TOOLS", Text("*"),
        Field::Patterns(|c| &mut c.agent.tools),
        "Which of the broker's own tools (read_file, run_command and so on) are served; none: none"),
    row("agent.definitions", "agent-definitions", "TOOL_AGENT_DEFINITIONS", Unset,
        Field::MaybeDirectory(|c| &mut c.agent.definitions),
        "A directory of NAME.toml, each in place of what ships for the broker's own tool of that name"),
    row("agent.durable", "agent-durable", "TOOL_AGENT_DURABLE", Text("false"),
        Field::Flag(|c| &mut c.agent.durable),
        "Whether what the broker's own tools write would survive a power cut when they answer: fsync of file and directory"),
    row("http.token_file", "http-token-file", "TOOL_HTTP_TOKEN_FILE", Unset,
        Field::MaybeDirectory(|c| &mut c.http.token_file),
        "A file with the tokens of callers by HTTP, a line each: TOKEN or NAME:TOKEN; mode 0600 or 0640"),
    row("insecure_no_auth", "insecure-no-auth", "TOOL_INSECURE_NO_AUTH", Text("false"),
        Field::Flag(|c| &mut c.insecure_no_auth),
        "Take calls by HTTP without a token, on a loopback address alone: from everybody on this machine"),
    row("http.host", "http-host", "TOOL_SERVER_HOST", Unset,
        Field::Host(|c| &mut c.http.host),
        "The address for HTTP; 127.0.0.1 where unset"),
    row("http.port", "http-port", "TOOL_SERVER_PORT", Unset,
        Field::Port(|c| &mut c.http.port),
        "The port for HTTP; 3001 where unset"),
    row("http.listen", "http-listen", "TOOL_HTTP_LISTEN", Computed("http.host and http.port where one of the four above is given, else unset", http_listen),
        Field::Address(|c| &mut c.http.listen),
        "Where tools are called by HTTP; needs http.token_file or insecure_no_auth"),
    row("http.hosts", "http-hosts", "TOOL_HTTP_HOSTS", Unset,
        Field::Hosts(|c| &mut c.http.hosts),
        "Names by which HTTP may be asked, beside localhost and its own address"),
    row("http.cors_origins", "http-cors-origins", "CORS_ORIGINS", Unset,
        Field::Origins(|c| &mut c.http.cors_origins),
        "Origins whose pages may call by HTTP, as https://app.example.com; unset: none"),
    row("http.rate_window_ms", "http-rate-window-ms", "RATE_LIMIT_WINDOW_MS", Text("60000"),
        Field::Window(|c| &mut c.http.rate_window),
        "The time in which http.rate_max requests are taken"),
    row("http.rate_max", "http-rate-max", "RATE_LIMIT_MAX", Text("1000"),
        Field::Count(|c| &mut c.http.rate_max),
        "How many requests of one client to one endpoint are taken in that time"),
    row("http.request_timeout_ms", "http-request-timeout-ms", "REQUEST_TIMEOUT", Text("60000"),
        Field::LongMillis(|c| &mut c.http.request_timeout),
        "How long a request by HTTP may take until its answer"),
    row("http.max_request", "http-max-request", "MAX_REQUEST_SIZE", Text("50mb"),
        Field::Bytes(|c| &mut c.http.max_request),
        "How many bytes the body of a request by HTTP may have"),
    row("http.log", "http-log", "LOGGING_ENABLED", Text("true"),
        Field::Flag(|c| &mut c.http.log),
        "Log a line for each request by HTTP"),
    row("http.helmet", "http-helmet", "ENABLE_HELMET", Text("true"),
        Field::Flag(|c| &mut c.http.helmet),
        "Send the headers that tell browsers to be strict"),
    row("http.operator_listen", "http-operator-listen", "TOOL_HTTP_OPERATOR_LISTEN", Unset,
        Field::Address(|c| &mut c.http.operator_listen),
        "Where operators see all calls and answer questions by HTTP: a loopback address; needs http.operator_token_file"),
    row("http.operator_token_file", "http-operator-token-file", "TOOL_HTTP_OPERATOR_TOKEN_FILE", Unset,
        Field::MaybeDirectory(|c| &mut c.http.operator_token_file),
        "A file with the tokens of operators, as http.token_file; no token is in both"),
    row("registry.watch", "registry-watch", "TOOL_REGISTRY_WATCH", Text("auto"),
        Field::Watch(|c| &mut c.registry.watch),
        "How changes of definitions are noticed; auto polls where inotify sees nothing"),
    row("registry.debounce_ms", "registry-debounce-ms", "TOOL_REGISTRY_DEBOUNCE_MS", Text("50"),
        Field::Millis(|c| &mut c.registry.debounce),
        "How long it must be quiet after a change before it is read"),
    row("registry.poll_seconds", "registry-poll-seconds", "TOOL_REGISTRY_POLL_SECONDS", Text("2"),
        Field::Seconds(|c| &mut c.registry.poll),
        "How often definitions are looked at where they are polled"),
    row("registry.rescan_seconds", "registry-rescan-seconds", "TOOL_REGISTRY_RESCAN_SECONDS", Text("30"),
        Field::Seconds(|c| &mut c.registry.rescan),
        "How often they are looked at all the same where they are watched"),
    row("audit.sync", "audit-sync", "TOOL_AUDIT_SYNC", Text("seconds"),
        Field::AuditSync(|c| &mut c.audit.sync),
        "When the audit is made to last: each is before a tool starts and before its caller is answered"),
    row("audit.on_failure", "audit-on-failure", "TOOL_AUDIT_ON_FAILURE", Text("refuse"),
        Field::AuditFailure(|c| &mut c.audit.on_failure),
        "What becomes of calls that cannot be recorded, on a full disk for one"),
    row("audit.max_bytes", "audit-max-bytes", "TOOL_AUDIT_MAX_BYTES", Text("67108864"),
        Field::Count(|c| &mut c.audit.max_bytes),
        "How long a file of the audit becomes before another one is begun"),
    row("audit.keep", "audit-keep", "TOOL_AUDIT_KEEP", Text("8"),
        Field::CountOrNone(|c| &mut c.audit.keep),
        "How many complete files of the audit are kept; 0 keeps all"),
    row("audit.stdout", "audit-stdout", "TOOL_AUDIT_STDOUT", Text("false"),
        Field::Flag(|c| &mut c.audit.stdout),
        "Write each line of the audit to stdout too, for a collector"),
    row("metrics.listen", "metrics-listen", "TOOL_METRICS_LISTEN", Unset,
        Field::Loopback(|c| &mut c.metrics_listen),
        "Where GET /metrics is answered by HTTP, as 127.0.0.1:9464: only on this machine"),
    row("proxy.socket", "proxy-socket", "TOOL_PROXY_SOCKET", Unset,
        Field::MaybeDirectory(|c| &mut c.proxy_socket),
        "A socket that sends the agent's own HTTP requests on, with a credential; needs proxy.definition"),
    row("proxy.definition", "proxy-definition", "TOOL_PROXY_DEFINITION", Unset,
        Field::MaybeDirectory(|c| &mut c.proxy_definition),
        "Its [[gate]]s and [[rule]]s, a TOML file as a tool's definition"),
    row("links", "links", "TOOL_LINKS", Unset,
        Field::MaybeDirectory(|c| &mut c.links),
        "A directory in which the server keeps a symlink for each tool"),
    row("links_client", "links-client", "TOOL_LINKS_CLIENT", Unset,
        Field::MaybeDirectory(|c| &mut c.links_client),
        "What those symlinks lead to"),
    row("log.level", "log-level", "TOOL_LOG", Text("info"),
        Field::Level(|c| &mut c.log_level),
        "How much is logged"),
    row("log.format", "log-format", "TOOL_LOG_FORMAT", Text("auto"),
        Field::Format(|c| &mut c.log_format),
        "How it is logged; auto is text on a terminal and JSON elsewhere"),
    row("cgroup", "cgroup", "TOOL_CGROUP", Text("off"),
        Field::Cgroup(|c| &mut c.cgroup),
        "Where each call gets a cgroup of its own: auto, off or a path"),
    row("sandbox.level", "sandbox-level", "TOOL_SANDBOX_LEVEL", Text("auto"),
        Field::SandboxLevel(|c| &mut c.sandbox_level),
        "With what tools are confined; landlock leaves namespaces out"),
];

/// Further variables of a setting, for those who come from other tool servers: the first
/// that is set counts, where the setting's own is not.
pub(super) const ALSO: &[(&str, &[&str])] =
    &[("workspace", &["PROJECT_ROOT", "WORKSPACE_ROOT"]), ("log.level", &["LOG_LEVEL"])];

const fn row(
    key: &'static str,
    flag: &'static str,
    env: &'static str,
    default: Initial,
    field: Field,
    help: &'static str,
) -> Setting {
    Setting { key, flag, env, default, field, help }
}

fn socket(variable: Variable<'_>, _: &Config, _: u32) -> Result<String, ConfigError> {
    match variable("INSTANCE_ID")? {
        None => Ok("/run/sockets/tool.sock".to_owned()),
        Some(id) if id.contains('/') => Err(ConfigError::BadValue {
            setting: "socket",
            value: format!("{id:?}"),
            origin: "env INSTANCE_ID".to_owned(),
            expected: "a name without a slash".to_owned(),
        }),
        Some(id) => Ok(format!("/run/sockets/tool-{id}.sock")),
    }
}

fn state_dir(variable: Variable<'_>, _: &Config, uid: u32) -> Result<String, ConfigError> {
    if uid == 0 {
        return Ok("/var/lib/tool-server".to_owned());
    }
    let missing = || ConfigError::NoDefault {
        setting: "state_dir",
        reason: "HOME is not set: say --state-dir, or STATE_DIR in the environment".to_owned(),
    };
    let home = variable("HOME")?.ok_or_else(missing)?;
    Ok(format!("{home}/.local/state/tool-server"))
}

fn control_socket(_: Variable<'_>, config: &Config, _: u32) -> Result<String, ConfigError> {
    Ok(format!("{}/control.sock", config.state_dir.display()))
}

/// Empty: unset.
fn http_listen(_: Variable<'_>, config: &Config, _: u32) -> Result<String, ConfigError> {
    Ok(super::http::usual(config).map_or_else(String::new, |address| address.to_string()))
}

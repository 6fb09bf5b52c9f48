//! What can be wrong with a setting.
//!
//! Owns: the one error type; each message is one line that names the setting,
//! its value, its place and what is expected. Must not: hold more than text.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the settings file {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: has more than {limit} bytes: this is no settings file", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{}:{line}: is not UTF-8", path.display())]
    FileNotText { path: PathBuf, line: usize },
    #[error("{}:{line}: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
    #[error("{}:{line}: {key} is not a setting; `tool-server config` lists them all", path.display())]
    UnknownKey { path: PathBuf, line: usize, key: String },
    #[error("{setting} = {value} ({origin}): expected {expected}")]
    BadValue { setting: &'static str, value: String, origin: String, expected: String },
    #[error("{origin}: is not UTF-8; settings are text")]
    NotText { origin: String },
    #[error("{setting} has no default here: {reason}")]
    NoDefault { setting: &'static str, reason: String },
    #[error("two sockets have the path {}: give each its own (socket, control_socket, listen)", path.display())]
    SocketTwice { path: PathBuf },
    #[error("proxy.socket and proxy.definition belong together: set both, or neither")]
    HalfAProxy,
    #[error(
        "calls by HTTP at {at} need tokens: set http.token_file (TOOL_HTTP_TOKEN_FILE); on a loopback address --insecure-no-auth does without"
    )]
    NobodyByHttp { at: SocketAddr },
    #[error(
        "http.operator_listen and http.operator_token_file go together: set both, or neither (operators always need a token)"
    )]
    HalfAnOperator,
    #[error(
        "operators answer by HTTP on a loopback address alone, and http.operator_listen is {at}: use an SSH tunnel to reach it from elsewhere"
    )]
    OperatorElsewhere { at: SocketAddr },
    #[error("insecure_no_auth and http.token_file exclude one another: set one of them")]
    TokensForNothing,
    #[error(
        "insecure_no_auth is for loopback addresses alone, and HTTP is to be at {at}: set http.token_file (TOOL_HTTP_TOKEN_FILE) instead"
    )]
    OpenToOthers { at: SocketAddr },
}

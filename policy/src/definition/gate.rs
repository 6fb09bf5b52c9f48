//! The `[[gate]]` tables: where a tool may connect, and what is added there.
//!
//! Owns: what they mean. Reading them is `gates`.

use std::path::PathBuf;
use std::time::Duration;

use crate::Decision;
use crate::pattern::Pattern;

/// One `[[gate]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its line in the definition.
    pub line: usize,
    /// Who understands what goes through.
    pub adapter: Adapter,
    /// Names of hosts, in small letters; `*.example.com` is any below.
    pub hosts: Vec<Pattern>,
    /// Ports beside the scheme's own; empty: that one alone.
    pub ports: Vec<u16>,
    /// git: OWNER/NAME patterns, without `.git`; empty: all of the hosts.
    pub repositories: Vec<Pattern>,
    /// http: methods; empty: all.
    pub methods: Vec<String>,
    /// http, npm: patterns of paths, with the slash; empty: all.
    pub paths: Vec<Pattern>,
    /// http: headers that pass beside the usual ones, both ways; in small letters.
    pub headers: Vec<Pattern>,
    /// What is added; none is nothing.
    pub credential: Option<Credential>,
    /// How it is added.
    pub scheme: Scheme,
    /// Base URL that stands for the host; none is https to the host itself.
    pub upstream: Option<String>,
    /// A file of certificates (PEM) that are trusted beside the system's.
    pub ca: Option<PathBuf>,
    /// Networks (CIDR) that may be connected to although they are private.
    pub private: Vec<String>,
    /// What happens to a request that changes something and that no rule is about.
    pub default: Decision,
    /// git: objects of LFS pass.
    pub lfs: bool,
}

/// `adapter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Adapter {
    /// Git's smart HTTP.
    Git,
    /// GitHub's API.
    Github,
    /// A registry of npm.
    Npm,
    /// Plain HTTP, and CONNECT.
    Http,
}

impl Adapter {
    /// Every one.
    pub const ALL: [Adapter; 4] = [Adapter::Git, Adapter::Github, Adapter::Npm, Adapter::Http];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Adapter::Git => "git",
            Adapter::Github => "github",
            Adapter::Npm => "npm",
            Adapter::Http => "http",
        }
    }
}

/// Headers that no gate's `headers` lets pass: what is between two neighbours alone, who
/// somebody is, and by which servers are told another method or path.
pub const NO_HEADERS: [&str; 23] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-forwarded-for",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// `credential`: where it is, never what it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// `file:PATH`, read anew for each call.
    File(PathBuf),
    /// `env:NAME`, of the server.
    Env(String),
    /// `command:PROGRAM ARGS`, which prints it; kept as long as `credential_ttl`.
    Command {
        /// Words, split at blanks; no shell.
        words: Vec<String>,
        /// How long what it printed is good.
        ttl: Duration,
    },
}

impl Credential {
    /// As it is written: where it is, for people.
    pub fn name(&self) -> String {
        match self {
            Credential::File(path) => format!("file:{}", path.display()),
            Credential::Env(name) => format!("env:{name}"),
            Credential::Command { words, .. } => {
                format!("command:{}", words.first().map_or("", String::as_str))
            }
        }
    }
}

/// `scheme`: how a credential is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer`; what npm and http have where it is unset.
    Bearer,
    /// `Authorization: token`; what github has.
    Token,
    /// `Authorization: Basic`, with this user; what git has, `x-access-token`.
    Basic(String),
    /// This header, with the credential as it is.
    Header(String),
}

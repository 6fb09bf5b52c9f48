//! The definitions that attacks are tried with: nothing is refused by its arguments, so
//! that what holds is confinement and the gate.
//!
//! `{forge}`, `{token}`, `{port}` are filled in by the world.

/// What every row begins with.
pub const REPOSITORY: &str = "git init -q --template= -b work && mkdir -p .git/hooks .git/info && git config user.name 'Some One' && git config user.email some.one@example.org && \
    echo one > a.txt && git add a.txt && git commit -qm one && echo two >> a.txt && git commit -qam two && \
    git checkout -q -b topic && echo three > b.txt && git add b.txt && git commit -qm three && git checkout -q work && \
    git rev-parse topic > .head && git remote add origin https://github.com/o/r.git";

/// git without rules about calls: what holds is confinement and the gate.
pub const GIT: &str = r#"
binary = "/usr/bin/git"
default = "allow"
unread = "allow"
timeout = 60
[env]
forward = ["LANG", "GIT_AUTHOR_*", "GIT_COMMITTER_*"]
set = { GIT_TERMINAL_PROMPT = "0", TERM = "dumb" }
[[gate]]
adapter = "git"
hosts = ["github.com"]
repositories = ["o/*"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
[[rule]]
id = "protected"
decision = "deny"
subcommand = "push"
facts.ref = ["main", "protected"]
reason = "others build on it"
"#;

/// A program that is given anything, without the network.
pub const SH: &str = "binary = \"/bin/sh\"\ndefault = \"allow\"\nfacts = \"none\"\n";

/// The same with gates.
pub const NET: &str = r#"
binary = "/bin/sh"
default = "allow"
facts = "none"
[[gate]]
adapter = "git"
hosts = ["github.com"]
repositories = ["o/*"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
[[gate]]
adapter = "http"
hosts = ["example.org"]
credential = "file:{token}"
[[rule]]
id = "protected"
decision = "deny"
on = "wire"
subcommand = "push"
facts.ref = ["main", "protected"]
reason = "others build on it"
"#;

/// curl, by a gate to any host.
pub const CURL: &str = r#"
binary = "/usr/bin/curl"
default = "allow"
unread = "allow"
[[gate]]
adapter = "http"
hosts = ["*"]
ports = [{port}]
default = "allow"
"#;

/// npm, by the gate of its registry.
pub const NPM: &str = r#"
binary = "{npm}"
default = "allow"
unread = "allow"
timeout = 120
[[gate]]
adapter = "npm"
hosts = ["registry.npmjs.org"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
"#;

/// gh, by the gate of its host and that of git.
pub const GH: &str = r#"
binary = "/usr/bin/gh"
default = "allow"
unread = "allow"
[[gate]]
adapter = "github"
hosts = ["github.com"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
[[gate]]
adapter = "git"
hosts = ["github.com"]
repositories = ["o/*"]
credential = "file:{token}"
upstream = "{forge}"
private = ["127.0.0.0/8"]
"#;

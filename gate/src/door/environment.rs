//! The variables that make a tool use its gate. They are for convenience: a tool that
//! does not heed them reaches nothing.

use tool_policy::definition::gate::{Adapter, Gate};

use super::Door;

/// What gh gets in the place of a token: without one it does not begin.
pub const STAND_IN: &str = "added-by-the-gate";

type Variables = Vec<(String, String)>;

/// The variables that make a tool with these gates use the door.
pub fn environment(gates: &[Gate], door: &Door) -> Vec<(String, String)> {
    if gates.is_empty() {
        return Vec::new();
    }
    let of = |adapter| gates.iter().filter(move |gate| gate.adapter == adapter).collect::<Vec<_>>();
    let mut variables = everybody(door);
    let (git, github, npm) = (of(Adapter::Git), of(Adapter::Github), of(Adapter::Npm));
    if !git.is_empty() {
        variables.extend(for_git(&git, door));
    }
    if !github.is_empty() {
        variables.extend(for_gh());
    }
    if !npm.is_empty() {
        variables.extend(for_npm(&npm, door));
    }
    variables
}

fn everybody(door: &Door) -> Variables {
    let url = door.url();
    let mut variables = Variables::new();
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        variables.push((name.to_owned(), url.clone()));
    }
    for name in ["no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"] {
        variables.push((name.to_owned(), String::new()));
    }
    variables
}

// The keys stand before the repository's own configuration, and are inherited by what
// git starts. The true URL stays in .git/config.
fn for_git(gates: &[&Gate], door: &Door) -> Variables {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut pin = |key: String, value: &str| pairs.push((key, value.to_owned()));
    pin("http.proxy".to_owned(), &door.url());
    pin("http.proxyAuthMethod".to_owned(), "basic");
    pin("http.followRedirects".to_owned(), "false");
    pin("credential.helper".to_owned(), "");
    pin("gc.autoDetach".to_owned(), "false");
    pin("maintenance.autoDetach".to_owned(), "false");
    pin("safe.directory".to_owned(), "*");
    for gate in gates {
        for host in names(gate) {
            let key = format!("url.http://{host}/.insteadOf");
            for instead in
                [format!("https://{host}/"), format!("git@{host}:"), format!("ssh://git@{host}/")]
            {
                pin(key.clone(), &instead);
            }
            for port in &gate.ports {
                pin(
                    format!("url.http://{host}:{port}/.insteadOf"),
                    &format!("https://{host}:{port}/"),
                );
            }
        }
    }
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), pairs.len().to_string())];
    for (number, (key, value)) in pairs.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value));
    }
    variables.push(("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()));
    variables
}

// The socket, and hosts that gh does not know by itself, are in its configuration.
fn for_gh() -> Variables {
    let names = ["GH_TOKEN", "GH_ENTERPRISE_TOKEN"];
    names.map(|name| (name.to_owned(), STAND_IN.to_owned())).to_vec()
}

// These stand before a project's .npmrc: what that says of registries, tokens and
// proxies is not in force. npm does not publish where it has no token at all.
fn for_npm(gates: &[&Gate], door: &Door) -> Variables {
    let mut variables = Variables::new();
    let mut set = |name: &str, value: &str| {
        variables.push((format!("npm_config_{name}"), value.to_owned()));
    };
    set("proxy", &door.url());
    set("https_proxy", &door.url());
    set("noproxy", "");
    let hosts = gates.iter().flat_map(|gate| names(gate).map(move |host| (*gate, host)));
    for (number, (gate, host)) in hosts.enumerate() {
        let port = gate.ports.first().map(|port| format!(":{port}")).unwrap_or_default();
        if number == 0 {
            set("registry", &format!("http://{host}{port}/"));
            // Addresses of archives, in answers and lock files, name the host by https.
            set("replace_registry_host", archives(gate, host));
        }
        set(&format!("//{host}{port}/:_authToken"), STAND_IN);
    }
    variables
}

/// Which host stands in the addresses of archives: the one that npm asks, unless
/// another one stands for it.
fn archives<'a>(gate: &Gate, host: &'a str) -> &'a str {
    let url = gate.upstream.as_deref().and_then(|url| url::Url::parse(url).ok());
    match url {
        Some(url) if url.host_str() != Some(host) => "always",
        _ => host,
    }
}

/// The hosts that are names, not patterns: only those can be written in a URL.
pub(super) fn names(gate: &Gate) -> impl Iterator<Item = &str> {
    let plain = |host: &&str| !host.contains(['*', '?', '\\']);
    gate.hosts.iter().map(|host| host.as_str()).filter(plain)
}

//! Files that make a tool use its gate, where variables cannot say it.
//!
//! Owns: what they hold. Must not: write them. They belong to the server: a tool that
//! could change them would change them for the next call.

use serde_json::Value;
use tool_policy::definition::gate::{Adapter, Gate};

use super::environment::{STAND_IN, names};

/// The files of gh's configuration, for the directory that GH_CONFIG_DIR names, if a
/// gate is gh's. `socket` is where gh connects to. Of hosts but github.com gh knows
/// those alone that it is logged in at.
pub fn gh(gates: &[Gate], socket: &str) -> Option<Vec<(&'static str, String)>> {
    let mut gates = gates.iter().filter(|gate| gate.adapter == Adapter::Github).peekable();
    gates.peek()?;
    // A string of JSON is one of YAML.
    let quoted = |text: &str| Value::from(text).to_string();
    let socket = quoted(socket);
    // The version says that there is nothing to convert.
    let config = format!("version: \"1\"\ngit_protocol: https\nhttp_unix_socket: {socket}\n");
    let host = |name: &str| {
        let (name, token) = (quoted(name), quoted(STAND_IN));
        format!("{name}:\n    git_protocol: https\n    user: gate\n    oauth_token: {token}\n")
    };
    let mut hosts: Vec<&str> = gates.flat_map(names).filter(|name| !is_github(name)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let hosts: String = hosts.into_iter().map(host).collect();
    Some(vec![("config.yml", config), ("hosts.yml", hosts)])
}

fn is_github(name: &str) -> bool {
    matches!(name, "github.com" | "api.github.com" | "uploads.github.com")
}

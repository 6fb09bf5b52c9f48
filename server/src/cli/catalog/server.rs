//! Whether a running server has taken up what changed in tools.d.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use serde_json::json;

use crate::cli::ask::{exchange, list, text};
use crate::config::Config;

/// What a server says of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// It can be called.
    InForce,
    /// It would be, if its program were there.
    NotInstalled,
    /// Something is wrong with it; what, in a line.
    Wrong(String),
    /// The server does not have it: it looks at another tools.d.
    Absent,
    /// No server answers there; why.
    Nobody(String),
}

/// The control sockets to ask.
pub(super) fn sockets(config: &Config, arguments: &ArgMatches) -> Vec<PathBuf> {
    let said: Vec<PathBuf> = arguments.get_many("server").into_iter().flatten().cloned().collect();
    if said.is_empty() { vec![config.control_socket.clone()] } else { said }
}

/// Makes a server look at tools.d, and asks it about one tool.
pub(super) fn ask(socket: &Path, tool: &str) -> Said {
    let answers = exchange(socket, &json!({ "op": "reload" }))
        .and_then(|looked| Ok((looked, exchange(socket, &json!({ "op": "status" }))?)));
    let (looked, status) = match answers {
        Ok(answers) => answers,
        Err(error) => return Said::Nobody(error.to_string()),
    };
    let found = list(&status, "tools").iter().find(|one| text(one, "name") == tool);
    let of_it = |problem: &&str| problem.contains(&format!("/{tool}/"));
    let problem = list(&looked, "problems").iter().filter_map(|one| one.as_str()).find(of_it);
    match (found.map(|found| text(found, "state")), problem) {
        (Some("missing binary"), _) => Said::NotInstalled,
        (Some("last good kept") | None, Some(problem)) => Said::Wrong(problem.to_owned()),
        (Some(_), _) => Said::InForce,
        (None, None) => Said::Absent,
    }
}

//! `link DIR`: the symlinks that agents call.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;

use super::{complain, fail, say, snapshot};
use crate::config::Config;
use crate::links;

/// Makes the links right, once; `serve` with the setting `links` keeps them so.
pub(super) fn run(config: &Config, arguments: &ArgMatches) -> ExitCode {
    let Some(directory) = arguments.get_one::<PathBuf>("directory") else {
        return ExitCode::from(2);
    };
    let snapshot = snapshot(config);
    let client = links::client(directory, config.links_client.as_deref());
    let linked = match links::sync(directory, &client, snapshot.tools.keys().map(String::as_str)) {
        Ok(linked) => linked,
        Err(error) => return fail(&error),
    };
    for name in &linked.made {
        say(&format!("made {name} -> {}", client.display()));
    }
    for name in &linked.removed {
        say(&format!("removed {name}"));
    }
    for name in &linked.taken {
        complain(&format!("{name} is there and is no link to tool-client: move it away"));
    }
    ExitCode::from(u8::from(!linked.taken.is_empty()))
}

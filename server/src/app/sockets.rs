//! The sockets of a server: its own, further ones, the operator's; bound, or
//! taken over from a service manager.

use std::os::fd::OwnedFd;

use tool_protocol::limits as wire;
use tracing::warn;

use super::error::AppError;
use crate::config::Config;
use crate::listen::{Limits, Listening, Place, Rules};

pub(super) fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        connections: limits.connections,
        calls_per_connection: limits.calls_per_connection,
        request_bytes: limits.request_bytes.min(wire::MAX_COMMAND),
        arguments: limits.arguments,
        environment: limits.environment,
        patience: Limits::patience(config.timeouts.first_message, config.timeouts.frame),
    }
}

pub(super) fn main_place(config: &Config) -> Place {
    Place {
        path: config.socket.clone(),
        mode: config.socket_mode,
        group: config.socket_group.clone(),
    }
}

pub(super) fn open_sockets(
    config: &Config,
    passed: Vec<OwnedFd>,
) -> Result<Vec<(Listening, Rules)>, AppError> {
    let rules = |socket, tools, control| Rules {
        socket,
        tools,
        uids: config.peers_uids.clone(),
        gids: config.peers_gids.clone(),
        control,
    };
    let mut passed: Vec<Listening> =
        passed.into_iter().map(Listening::passed).collect::<Result<_, _>>()?;
    let mut open = |place: &Place| match passed.iter().position(|one| one.path() == place.path) {
        Some(index) => Ok(passed.swap_remove(index)),
        None => Listening::bind(place),
    };
    let control = Place { path: config.control_socket.clone(), mode: 0o600, group: None };
    let mut sockets = vec![(open(&main_place(config))?, rules(0, None, false))];
    for (index, spec) in config.listen.iter().enumerate() {
        let place = Place { path: spec.path.clone(), mode: spec.mode, group: spec.group.clone() };
        sockets.push((open(&place)?, rules(index + 1, spec.tools.clone(), false)));
    }
    let mut own = rules(usize::MAX, None, true);
    own.uids = Some(vec![0, nix::unistd::geteuid().as_raw()]);
    own.gids = None;
    sockets.push((open(&control)?, own));
    for unknown in passed {
        warn!(socket = %unknown.path().display(), "passed by the service manager, and not a socket of the settings: not used");
    }
    Ok(sockets)
}

/// The socket of the proxy, where there is to be one, with the calls' socket's mode and
/// group and for the same peers.
pub(super) fn open_proxy(config: &Config) -> Result<Option<(Listening, Rules)>, AppError> {
    let Some(path) = &config.proxy_socket else { return Ok(None) };
    let (mode, group) = (config.socket_mode, config.socket_group.clone());
    let place = Place { path: path.clone(), mode, group };
    let rules = Rules {
        socket: usize::MAX,
        tools: None,
        uids: config.peers_uids.clone(),
        gids: config.peers_gids.clone(),
        control: false,
    };
    Ok(Some((Listening::bind(&place)?, rules)))
}

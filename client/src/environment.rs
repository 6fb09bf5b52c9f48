//! The caller's environment: the client's own settings, and what is offered to
//! the tool.
//!
//! Must not: decide what the tool gets (its definition does), or offer a name
//! that neither the list below nor TOOL_FORWARD_ENV has.

use crate::message::Failure;
use crate::os::{SocketPath, Strings};

/// What is offered always, as patterns.
const USUAL: &[u8] = b"TERM:LANG:LC_*:TZ:COLUMNS:LINES:NO_COLOR:CI:GIT_AUTHOR_*:GIT_COMMITTER_*";

/// The client's own settings; an empty one is as good as none.
pub(crate) struct Settings {
    socket: &'static [u8],
    instance: &'static [u8],
    /// More patterns of names to offer.
    pub(crate) forward: &'static [u8],
}

impl Settings {
    pub(crate) fn read(environment: Strings) -> Settings {
        let mut settings = Settings { socket: b"", instance: b"", forward: b"" };
        for entry in environment {
            for (name, place) in [
                (&b"TOOL_SOCKET="[..], &mut settings.socket),
                (b"INSTANCE_ID=", &mut settings.instance),
                (b"TOOL_FORWARD_ENV=", &mut settings.forward),
            ] {
                // The first of several counts, as for getenv.
                if place.is_empty()
                    && let Some(value) = entry.strip_prefix(name)
                {
                    *place = value;
                }
            }
        }
        settings
    }

    /// Where the server listens.
    pub(crate) fn socket(&self, path: &mut SocketPath) -> Result<(), Failure> {
        let fits = if !self.socket.is_empty() {
            path.push(self.socket)
        } else if !self.instance.is_empty() {
            path.push(b"/run/sockets/tool-") && path.push(self.instance) && path.push(b".sock")
        } else {
            path.push(b"/run/sockets/tool.sock")
        };
        if fits { Ok(()) } else { Err(Failure::PathTooLong) }
    }
}

/// Whether this entry is offered to the tool.
pub(crate) fn offered(entry: &[u8], forward: &[u8]) -> bool {
    let name = name(entry);
    // What is no NAME=value is no variable.
    !name.is_empty() && name.len() < entry.len() && (matches(USUAL, name) || matches(forward, name))
}

fn name(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'=').next().unwrap_or_default()
}

fn matches(patterns: &[u8], name: &[u8]) -> bool {
    patterns.split(|byte| *byte == b':').any(|pattern| match pattern.strip_suffix(b"*") {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

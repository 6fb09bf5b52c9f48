//! The caller's environment: the client's own settings, and what is offered to
//! the tool.
//!
//! Must not: decide what the tool gets (its definition does), or offer a name
//! that neither the list below nor TOOL_FORWARD_ENV has.

use crate::message::Failure;
use crate::os::{SocketPath, Strings};

/// What is offered always, as patterns.
const USUAL: &[u8] = b"TERM:LANG:LC_*:TZ:COLUMNS:LINES:NO_COLOR:CI:GIT_AUTHOR_*:GIT_COMMITTER_*";

/// What the server would set where the caller does not have it.
pub(crate) const NAMED_IF_ABSENT: [&[u8]; 2] = [b"HOME", b"PATH"];

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

/// Whether this entry is offered to the tool. One that is a name alone says that
/// the environment has no such variable: the tool shall not get one from elsewhere.
pub(crate) fn offered(entry: &[u8], forward: &[u8], mut environment: Strings) -> bool {
    match entry.iter().position(|byte| *byte == b'=') {
        Some(0) => false,
        Some(end) => {
            let name = entry.get(..end).unwrap_or_default();
            matches(USUAL, name) || matches(forward, name)
        }
        None => {
            NAMED_IF_ABSENT.contains(&entry)
                && matches(forward, entry)
                && !environment.any(|other| is_of(other, entry))
        }
    }
}

/// Whether the entry is a variable of that name.
fn is_of(entry: &[u8], name: &[u8]) -> bool {
    entry.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'='))
}

fn matches(patterns: &[u8], name: &[u8]) -> bool {
    patterns.split(|byte| *byte == b':').any(|pattern| match pattern.strip_suffix(b"*") {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

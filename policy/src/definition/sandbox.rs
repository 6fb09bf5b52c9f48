//! The `[sandbox]` table: what a tool may touch.
//!
//! Owns: its members and their checks. Must not: look at the disk.

use std::path::{Path, PathBuf};

use super::credential::absolute;
use super::read::{Entry, Source, Wrong, chosen, flag, list, table, unknown};

/// What a tool may touch. Without the table it is all defaults: confined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether it is confined at all.
    pub mode: Confined,
    /// Absolute paths that it may read beside the system's, with all beneath.
    pub read: Vec<PathBuf>,
    /// Absolute paths that it may write beside the roots, its HOME and TMPDIR.
    pub write: Vec<PathBuf>,
    /// Kinds of sockets that it may make beside those of the gate.
    pub sockets: Sockets,
    /// Which calls get a way to the gate.
    pub network: Network,
    /// Whether git runs the hooks of repositories.
    pub hooks: Hooks,
    /// Values of credentials are removed from what it prints.
    pub redact: bool,
    /// The lines of `read` and `write`, path by path.
    pub lines: Vec<(PathBuf, usize)>,
}

impl Sandbox {
    /// The line of a path of `read` or `write`.
    pub fn line_of(&self, path: &Path) -> usize {
        self.lines.iter().find(|(known, _)| known == path).map_or(1, |(_, line)| *line)
    }
}

/// `mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confined {
    /// All that the machine has; what a call needs and the machine lacks refuses it.
    #[default]
    Strict,
    /// Not at all: loud, and without any credential.
    Off,
}

/// `sockets`: what socket(2) may make. TCP is for the gate to say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sockets {
    /// "unix".
    pub unix: bool,
    /// "udp".
    pub udp: bool,
    /// "raw".
    pub raw: bool,
}

/// `network`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    /// "verbs": those that the facts module says talk to a server; all, where it
    /// does not know.
    #[default]
    Verbs,
    /// "always".
    Always,
    /// "never".
    Never,
}

/// `hooks`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hooks {
    /// They run, confined as everything else.
    #[default]
    Run,
    /// They do not.
    Off,
}

/// Reads the table.
pub(super) fn read(entry: Entry<'_, '_>, source: Source<'_>) -> Result<Sandbox, Wrong> {
    let mut sandbox = Sandbox::default();
    let mut other = None;
    for member in table(entry)? {
        let name = member.0.get_ref().as_ref();
        match name {
            "mode" => {
                let known = [("strict", Confined::Strict), ("off", Confined::Off)];
                sandbox.mode = chosen(member, &known)?;
                continue;
            }
            "read" => sandbox.read = paths(member, source, &mut sandbox.lines)?,
            "write" => sandbox.write = paths(member, source, &mut sandbox.lines)?,
            "sockets" => sandbox.sockets = sockets(member)?,
            "network" => {
                let known = [
                    ("verbs", Network::Verbs),
                    ("always", Network::Always),
                    ("never", Network::Never),
                ];
                sandbox.network = chosen(member, &known)?;
            }
            _ if beside(&mut sandbox, member)? => {}
            _ => return Err(unknown(member.0, "[sandbox] ")),
        }
        other = Some(member.0);
    }
    match other.filter(|_| sandbox.mode == Confined::Off) {
        Some(key) => {
            let message = format!("[sandbox] {} has no effect with mode = \"off\"", key.get_ref());
            Err((key.span(), message))
        }
        None => Ok(sandbox),
    }
}

/// Reads a member that may stand at the top of a definition as well, for it is about more
/// than files and sockets. Says whether it is one.
pub(super) fn beside(sandbox: &mut Sandbox, member: Entry<'_, '_>) -> Result<bool, Wrong> {
    match member.0.get_ref().as_ref() {
        "hooks" => sandbox.hooks = chosen(member, &[("run", Hooks::Run), ("off", Hooks::Off)])?,
        "redact" => sandbox.redact = flag(member)?,
        _ => return Ok(false),
    }
    if sandbox.mode == Confined::Off {
        let message =
            format!("{} has no effect with mode = \"off\" of [sandbox]", member.0.get_ref());
        return Err((member.0.span(), message));
    }
    Ok(true)
}

fn paths(
    entry: Entry<'_, '_>,
    source: Source<'_>,
    lines: &mut Vec<(PathBuf, usize)>,
) -> Result<Vec<PathBuf>, Wrong> {
    let name = entry.0.get_ref();
    let mut all = Vec::new();
    for (span, text) in list(entry)? {
        let wrong = |what: &str| (span.clone(), format!("each of {name} must be {what}: {text:?}"));
        let path = absolute(text).ok_or_else(|| wrong("an absolute path without .."))?;
        // It would be everything: the keys of others, the server's own state.
        if path.parent().is_none() {
            return Err(wrong("less than all that there is"));
        }
        lines.push((path.clone(), source.line(&span)));
        all.push(path);
    }
    Ok(all)
}

fn sockets(entry: Entry<'_, '_>) -> Result<Sockets, Wrong> {
    let mut sockets = Sockets::default();
    for (span, text) in list(entry)? {
        match text {
            "unix" => sockets.unix = true,
            "udp" => sockets.udp = true,
            "raw" => sockets.raw = true,
            _ => {
                let message =
                    format!("each of sockets must be one of unix, udp, raw, not {text:?}");
                return Err((span, message));
            }
        }
    }
    Ok(sockets)
}

//! What every tool reaches, what none may: a definition does not open it.
//!
//! Owns: the system's paths that confined tools read, and the checks of a
//! definition's own paths and variables against what must stay hidden. Must not:
//! confine anything; it would only be refused later, or worse, not at all.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool_policy::definition::gate::Credential;
use tool_policy::definition::sandbox::Sandbox;

use super::RegistryOptions;
use super::error::LoadError;
use super::snapshot::{Problem, Snapshot};
use super::tool::Tool;

/// What every confined tool reads: programs, libraries, what they look up. Of
/// /etc only what programs need; others' files of /proc are kept by Landlock.
pub(crate) const SYSTEM: [&str; 58] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/default/locale",
    "/etc/gai.conf",
    "/etc/gitattributes",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/magic",
    "/etc/mailcap",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/npmrc",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/rpc",
    "/etc/services",
    "/etc/shells",
    "/etc/skel",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/vim",
    "/etc/xdg",
    "/var/lib/extrausers",
];

/// Devices of everybody.
pub(crate) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// A definition's paths against what the settings say is the server's own; a
/// line and what is wrong there.
pub(super) fn check(sandbox: &Sandbox, options: &RegistryOptions) -> Result<(), (usize, String)> {
    for (path, writes) in paths(sandbox) {
        let hidden = options.hidden.iter().find(|(_, hidden)| touches(path, hidden));
        if let Some((what, hidden)) = hidden {
            return Err(refusal(sandbox, path, what, hidden));
        }
        let definitions = [&options.tools_dir, &options.restricted_dir];
        if let Some(directory) = definitions.into_iter().find(|own| writes && touches(path, own)) {
            return Err(refusal(sandbox, path, "definitions", directory));
        }
    }
    Ok(())
}

fn refusal(sandbox: &Sandbox, path: &Path, what: &str, hidden: &Path) -> (usize, String) {
    let (shown, hidden) = (path.display(), hidden.display());
    let message =
        format!("[sandbox] {shown} would open {hidden} ({what}), which no tool may reach");
    (sandbox.line_of(path), message)
}

/// Takes those out of the snapshot that would see what another one's gates need.
pub(super) fn settle(snapshot: &mut Snapshot, options: &RegistryOptions) {
    let all = snapshot.tools.values().chain(&options.proxy);
    let secrets: Vec<Secret> = all.flat_map(secrets).collect();
    if secrets.is_empty() {
        return;
    }
    let wrong: Vec<(String, Problem)> = snapshot
        .tools
        .values()
        .filter_map(|tool| {
            let (line, message) = exposes(tool, &secrets, options)?;
            let path = tool.origin.file.clone();
            let mut problem =
                Problem::new(Some(&tool.name), &LoadError::Syntax { path, line: 0, message });
            problem.line = (line > 0).then_some(line);
            Some((tool.name.clone(), problem))
        })
        .collect();
    for (name, problem) in wrong {
        snapshot.tools.remove(&name);
        snapshot.problems.push(problem);
    }
}

/// What a definition relies on nobody to see, or to change.
enum Secret {
    /// A file with a credential.
    File(PathBuf),
    /// A variable of the server.
    Variable(OsString),
    /// What the server runs or trusts: it may be read.
    Trusted(PathBuf),
}

fn credentials(tool: &Tool) -> impl Iterator<Item = (&Credential, usize)> {
    let gates = tool.gates.iter();
    let gates = gates.filter_map(|gate| Some((gate.credential.as_ref()?, gate.line)));
    gates.chain(tool.signing.iter().map(|signing| (&signing.key, signing.line)))
}

fn secrets(tool: &Arc<Tool>) -> Vec<Secret> {
    let credential = |(credential, _): (&Credential, usize)| match credential {
        Credential::File(path) => Some(Secret::File(path.clone())),
        Credential::Env(name) => Some(Secret::Variable(name.into())),
        Credential::Command { words, .. } => {
            words.first().map(|program| Secret::Trusted(program.into()))
        }
    };
    let authorities = tool.gates.iter().filter_map(|gate| gate.ca.clone()).map(Secret::Trusted);
    credentials(tool).filter_map(credential).chain(authorities).collect()
}

fn exposes(tool: &Tool, secrets: &[Secret], options: &RegistryOptions) -> Option<(usize, String)> {
    lies_open(tool, options).or_else(|| secrets.iter().find_map(|secret| shows(tool, secret)))
}

/// What every tool reads, or one of them, that this path lies beneath.
pub(crate) fn in_reach(path: &Path, workspace: &[PathBuf], state: &Path) -> Option<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from);
    let all = workspace.iter().cloned().chain([state.join("home")]).chain(system);
    let mut all = all.filter(|open| holds(open, path));
    all.next()
}

/// A credential of its own that every tool can read.
pub(super) fn lies_open(tool: &Tool, options: &RegistryOptions) -> Option<(usize, String)> {
    let everybodys = || {
        let roots = options.workspace.iter().map(PathBuf::as_path);
        SYSTEM.iter().map(Path::new).chain(roots)
    };
    credentials(tool).find_map(|(credential, line)| {
        let Credential::File(path) = credential else { return None };
        let open = everybodys().find(|open| holds(open, path))?;
        let (path, open) = (path.display(), open.display());
        Some((
            line,
            format!("the credential {path} lies beneath {open}, where tools read: move it"),
        ))
    })
}

fn shows(tool: &Tool, secret: &Secret) -> Option<(usize, String)> {
    let (hidden, only_writes) = match secret {
        Secret::Variable(name) => {
            let matches = tool.env.inherit.iter().any(|pattern| pattern.matches(OsStr::new(name)));
            let name = name.display();
            return matches.then(|| {
                let message = format!(
                    "[env] inherit, or the setting env.inherit, gives it {name}, which holds a \
                     credential: take that name out"
                );
                (0, message)
            });
        }
        Secret::File(path) => (path, false),
        Secret::Trusted(path) => (path, true),
    };
    let mut opened = paths(&tool.sandbox).filter(|(_, writes)| *writes || !only_writes);
    let (path, _) = opened.find(|(path, _)| touches(path, hidden))?;
    let what = if only_writes { "the server runs or trusts it" } else { "a credential" };
    Some(refusal(&tool.sandbox, path, what, hidden))
}

/// The paths that a definition adds, and whether they may be written.
fn paths(sandbox: &Sandbox) -> impl Iterator<Item = (&Path, bool)> {
    let read = sandbox.read.iter().map(|path| (path.as_path(), false));
    read.chain(sandbox.write.iter().map(|path| (path.as_path(), true)))
}

/// Whether one holds the other.
fn touches(path: &Path, hidden: &Path) -> bool {
    holds(path, hidden) || holds(hidden, path)
}

/// Whether a path lies beneath another, by their names or by what these lead to.
#[expect(
    clippy::disallowed_methods,
    reason = "names that an operator wrote, by components, with links and without"
)]
pub(crate) fn holds(above: &Path, beneath: &Path) -> bool {
    let (real_above, real_beneath) = (resolved(above), resolved(beneath));
    beneath.starts_with(above)
        || beneath.starts_with(&real_above)
        || real_beneath.starts_with(above)
        || real_beneath.starts_with(&real_above)
}

/// A path without symlinks, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

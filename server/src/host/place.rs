//! What a compose file is given for a project: ids, paths, and the options by which
//! the engine at hand lets the server confine its tools.
//!
//! Owns: refusing a project that cannot be one. Must not: make anything.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::instance::instance;
use super::{HostError, failed, refused};

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Podman,
    Docker,
}

/// Under which name the containers see the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Workspace {
    /// The one that it has on the host: linked worktrees have absolute paths in them.
    Same,
    At(String),
}

/// What is known of the engine and the caller.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) project: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) engine: Engine,
    pub(crate) rootless: bool,
    pub(crate) caller: Ids,
    /// The project's, where it cannot be seen from here.
    pub(crate) owner: Option<Ids>,
    pub(crate) workspace: Workspace,
    /// The profile for docker that lets the server confine tools.
    pub(crate) seccomp: Option<&'a str>,
    /// Whether the compose program can leave /proc unmasked for docker.
    pub(crate) systempaths: bool,
}

/// What a compose file is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) variables: Vec<(&'static str, String)>,
    /// As whom the containers run, in numbers of the host.
    pub(crate) ids: Ids,
    /// For people: what is not as usual.
    pub(crate) notes: Vec<String>,
}

/// Where nothing may be mounted over: the containers have their own there.
const TAKEN: [&str; 17] = [
    "/app",
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/opt/agent",
    "/proc",
    "/run",
    "/sbin",
    "/scratch",
    "/sys",
    "/tmp",
    "/usr",
    "/var/lib/extrausers",
    "/var/lib/tool-server",
    "/home/agent",
];

/// Works out everything for a project.
pub(crate) fn place(asked: &Asked) -> Result<Place, HostError> {
    let project = match asked.owner {
        None => fs::canonicalize(asked.project).map_err(failed("find", asked.project))?,
        Some(_) => asked.project.to_owned(),
    };
    // By name, too, for where it cannot be seen.
    apart(&project, asked.home, |inner, outer| inner.ancestors().any(|above| above == outer))?;
    let owner = match asked.owner {
        Some(owner) => owner,
        None => looked_at(&project, asked.home)?,
    };
    let text = mountable(&project)?;
    let home = mountable(asked.home)?;
    let mut notes = Vec::new();
    let ids = ids(asked, &project, owner, &mut notes)?;
    // In a user namespace whose root is the caller, he has that number.
    let inside = match (asked.engine, asked.rootless) {
        (Engine::Docker, true) => Ids { uid: 0, gid: 0 },
        _ => ids,
    };
    let workspace = match &asked.workspace {
        Workspace::At(path) => path.clone(),
        Workspace::Same => text.clone(),
    };
    usable(&workspace)?;
    let (userns, proc) = match (asked.engine, asked.rootless) {
        (Engine::Podman, true) => ("keep-id", "unmask=/proc/*"),
        (Engine::Podman, false) => ("host", "unmask=/proc/*"),
        (Engine::Docker, _) if asked.systempaths => ("host", "systempaths=unconfined"),
        // Changes nothing: status says what is missing.
        (Engine::Docker, _) => ("host", "no-new-privileges"),
    };
    let id = instance(&project);
    let variables = vec![
        ("INSTANCE_ID", id.clone()),
        ("COMPOSE_PROJECT_NAME", format!("claude-{id}")),
        ("CLAUDE_HOME", home),
        ("PROJECT_DIR", text),
        ("WORKSPACE_PATH", workspace),
        ("HOST_UID", inside.uid.to_string()),
        ("HOST_GID", inside.gid.to_string()),
        ("USERNS_MODE", userns.to_owned()),
        ("SERVER_PROC", proc.to_owned()),
        ("SERVER_SECCOMP", asked.seccomp.unwrap_or("unconfined").to_owned()),
    ];
    Ok(Place { variables, ids, notes })
}

/// The owner of a directory that may be a project.
fn looked_at(project: &Path, home: &Path) -> Result<Ids, HostError> {
    let about = fs::metadata(project).map_err(failed("look at", project))?;
    if !about.is_dir() {
        return Err(refused(project, "is not a directory: name the one that holds the project"));
    }
    let inside = |inner: &Path, outer: &Path| -> bool {
        let Ok(outer) = fs::metadata(outer) else { return false };
        let same = |path: &Path| {
            fs::metadata(path).is_ok_and(|at| (at.dev(), at.ino()) == (outer.dev(), outer.ino()))
        };
        fs::canonicalize(inner).is_ok_and(|inner| inner.ancestors().any(same))
    };
    apart(project, home, inside)?;
    Ok(Ids { uid: about.uid(), gid: about.gid() })
}

/// Refuses a project that the agent's keys and rules lie in, or that lies among them.
fn apart(
    project: &Path,
    home: &Path,
    inside: impl Fn(&Path, &Path) -> bool,
) -> Result<(), HostError> {
    if inside(home, project) {
        return Err(refused(
            project,
            format!(
                "holds {}, with the keys and the rules, which the agent must not reach: run it for \
                 the project's own directory",
                home.display()
            ),
        ));
    }
    if inside(project, home) {
        return Err(refused(
            project,
            format!("lies in {}: a project has a directory of its own", home.display()),
        ));
    }
    Ok(())
}

/// As whom the containers run: as the owner of the project, so that its files stay his.
fn ids(
    asked: &Asked,
    project: &Path,
    owner: Ids,
    notes: &mut Vec<String>,
) -> Result<Ids, HostError> {
    let Ids { uid, .. } = owner;
    let caller = asked.caller.uid;
    if uid != caller && caller != 0 {
        let chown =
            format!("sudo chown -R {caller} {}", super::quoted(&project.display().to_string()));
        return Err(refused(
            project,
            format!(
                "belongs to uid {uid}, you are {caller}: the containers could not write to it; \
                 run this as its owner or as root, or make it yours: {chown}"
            ),
        ));
    }
    if uid != caller {
        notes.push(format!(
            "{} belongs to uid {uid}, you are root: the containers run as {uid}:{}",
            project.display(),
            owner.gid
        ));
    } else if uid == 0 {
        notes.push(format!(
            "{} belongs to root: the containers run as root, without its capabilities (the tools' \
             has SETFCAP alone); as an ordinary user, with a project of yours, less is at stake",
            project.display()
        ));
    }
    // Another group of the caller's has no number in his namespace.
    let gid = if asked.rootless { asked.caller.gid } else { owner.gid };
    Ok(Ids { uid, gid })
}

/// A path that can be written into a compose file's `FROM:TO`.
fn mountable(path: &Path) -> Result<String, HostError> {
    let why = match path.to_str() {
        None => "its name is not UTF-8",
        Some(text) if text.contains(':') => "there is a colon in it, which separates paths",
        Some(text) if text.chars().any(char::is_control) => "there is a control character in it",
        Some(_) if !path.is_absolute() => {
            return Err(refused(path, "is not an absolute path"));
        }
        Some("/") => "it is the whole machine",
        Some(text) => return Ok(text.to_owned()),
    };
    Err(refused(path, format!("cannot be mounted into a container: {why}; take another directory")))
}

/// A path that the workspace can have in the containers.
fn usable(workspace: &str) -> Result<(), HostError> {
    let path = PathBuf::from(workspace);
    let top = |taken: &&str| {
        let (taken, path) = (Path::new(taken).components(), path.components());
        let (taken, path): (Vec<_>, Vec<_>) = (taken.collect(), path.collect());
        path.iter().zip(&taken).all(|(one, other)| one == other)
    };
    if mountable(&path)? != workspace || path.components().any(|part| part.as_os_str() == "..") {
        return Err(refused(&path, "cannot be the workspace's path: give a plain absolute one"));
    }
    match TAKEN.iter().find(|taken| top(taken)) {
        None => Ok(()),
        Some(taken) => Err(refused(
            &path,
            format!("cannot be the workspace's path: the containers have {taken} for themselves"),
        )),
    }
}

#[cfg(test)]
mod tests;

//! What holds a call of a tool: whose process it is, what it reaches, or why it
//! cannot be held and so is not run.
//!
//! Owns: choosing that from the definition, the machine and the root of the call,
//! and keeping what many calls share. Must not: run anything, or let a call run
//! with less than its definition says.
//!
//! - `loose`  paths that a tool could lead somewhere else
//! - `own`    what a tool of the same user does to the server's own files
//! - `reach`  the paths of a tool, and whether what was made of them still holds
//! - `settings`  files that tell a tool of its gate
//! - `told`   what operators are told of paths
//! - `way`    the way out of a call that talks to a server

mod loose;
mod own;
mod reach;
mod settings;
mod told;
mod way;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use tool_policy::definition::gate::Adapter;
use tool_policy::definition::sandbox::Sandbox;
use tool_protocol::{Code, Refusal};

use self::loose::Written;
use self::reach::{Common, Reach, Seen};
use self::settings::Settings;
pub(crate) use self::way::Way;
use super::{Homes, Workspace};
use crate::exec::ground::{LANDLOCK_FILES, LANDLOCK_TCP, LANDLOCK_TRUNCATE};
use crate::exec::{Confinement, Ground, Outlet, Plan, Rooms};
use crate::os::identity::{Identity, own_groups};
use crate::os::landlock::{Access, Domain};
use crate::os::seccomp::{Allowed, Filter};
use crate::os::weaken;
use crate::registry::{Snapshot, Tool};

/// How much confines a call, as `status` and the audit say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// It is refused.
    None,
    /// Landlock and seccomp.
    Landlock,
    /// These, and namespaces.
    Namespaces,
}

impl Level {
    /// As it is shown.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Landlock => "landlock",
            Level::Namespaces => "namespaces",
        }
    }
}

/// Who a call is, and where it keeps things.
#[derive(Debug)]
pub(crate) struct Footing {
    /// `None`: the server's own user.
    pub(crate) identity: Option<Identity>,
    /// HOME.
    pub(crate) home: PathBuf,
}

/// A group of nobody's, on every Linux.
const NOBODYS: u32 = 65534;

/// What calls share.
#[derive(Debug)]
pub(crate) struct Confines {
    /// Namespaces are not to be used.
    held_back: bool,
    /// Of PATH: every tool reads them.
    programs: Vec<PathBuf>,
    /// What is not opened even if PATH names it.
    hidden: Vec<PathBuf>,
    /// As many domains are kept: each is a descriptor.
    most: usize,
    settings: Settings,
    state: PathBuf,
    /// The server's own.
    groups: Vec<u32>,
    /// What calls may connect at their gates.
    rooms: Rooms,
    /// What tools could lead somewhere else.
    written: Written,
    common: Mutex<Common>,
    domains: Mutex<HashMap<Key, Kept>>,
    filters: Mutex<HashMap<Allowed, Arc<Filter>>>,
}

/// Of one tool, one user, and calls or setups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    tool: String,
    uid: Option<u32>,
    setup: bool,
}

#[derive(Debug)]
struct Kept {
    definition: String,
    seen: Seen,
    domain: Arc<Domain>,
}

impl Confines {
    /// How many domains are kept where there may be so many descriptors.
    pub(crate) fn room(descriptors: u64) -> usize {
        usize::try_from(descriptors / 64).unwrap_or(usize::MAX).clamp(1, 64)
    }

    /// `held_back`: without namespaces, whatever the machine has. `most`: as many
    /// descriptors are kept.
    pub(crate) fn new(
        held_back: bool,
        rooms: Rooms,
        path: &str,
        hidden: Vec<PathBuf>,
        most: usize,
        state: &Path,
    ) -> Confines {
        let programs = std::env::split_paths(path).filter(|program| program.is_absolute());
        Confines {
            held_back,
            programs: programs.collect(),
            hidden,
            most,
            settings: Settings::new(state),
            state: state.to_owned(),
            groups: own_groups(),
            rooms,
            written: Written::new(state),
            common: Mutex::default(),
            domains: Mutex::default(),
            filters: Mutex::default(),
        }
    }

    /// Notes what the tools of this moment may write: it is to be known before one of
    /// them is confined.
    pub(crate) fn heed(&self, snapshot: &Snapshot) {
        self.written.heed(snapshot);
    }

    /// How much the machine gives.
    pub(crate) fn level(&self, ground: &Ground) -> Level {
        match ground.landlock {
            Some(abi) if abi >= LANDLOCK_FILES && ground.seccomp => {
                let spaces = ground.namespaces && !self.held_back && !weaken::is("namespaces");
                if spaces { Level::Namespaces } else { Level::Landlock }
            }
            _ => Level::None,
        }
    }

    /// Whether no call sees what others were called with: each has a pid namespace.
    pub(crate) fn hides(&self, ground: &Ground) -> bool {
        let spaces = self.level(ground) == Level::Namespaces && ground.own_proc;
        spaces && !ground.holds_signals()
    }

    /// What keeps a tool from ending other processes of its user, where nothing does:
    /// what to do. Where that user is the server's own, it is not run.
    pub(crate) fn lets_signals_out(&self, ground: &Ground) -> Option<&'static str> {
        (self.level(ground) == Level::Landlock && !ground.holds_signals()).then_some(
            "signals: a tool can send them to every process of its user: Linux 6.12 or newer, \
             or user namespaces",
        )
    }

    /// Who a call in a directory is: the owner of the root that it lies in, where
    /// the server can be somebody else; never root. An error, where it lies in none by
    /// now: who moves a directory, or a root, does not become the server by that.
    pub(crate) fn identity(
        &self,
        ground: &Ground,
        workspace: &Workspace,
        place: &[u8],
    ) -> Result<Option<Identity>, Refusal> {
        if !ground.switches || weaken::is("uid") {
            return Ok(None);
        }
        let root = workspace.root_of(place).ok_or(Errno::ENOENT);
        let found = root.and_then(|(root, _)| nix::sys::stat::fstat(root.as_fd()));
        let found = found.map_err(|_errno| {
            let message = "the call's directory does not lie beneath a workspace root any more";
            let hint = "it was moved, or the root was: then restart the server";
            Refusal::new(Code::CwdOutside, message).hint(hint)
        })?;
        let own = nix::unistd::geteuid().as_raw();
        let identity = Identity { uid: found.st_uid, gid: self.group(found.st_gid, found.st_uid) };
        Ok((identity.uid != 0 && identity.uid != own).then_some(identity))
    }

    /// The one group of a user whose root has that group. What is readable by root's group,
    /// or by one of the server's, a credential perhaps, is no business of somebody else's.
    fn group(&self, gid: u32, uid: u32) -> u32 {
        let theirs = |gid: &u32| *gid != 0 && !self.groups.contains(gid);
        [gid, uid].into_iter().find(theirs).unwrap_or(NOBODYS)
    }

    /// Who a call in a directory is, and its HOME, there. `guards`: the server has
    /// credentials.
    pub(crate) fn footing(
        &self,
        ground: &Ground,
        workspace: &Workspace,
        homes: &Homes,
        tool: &Tool,
        place: &[u8],
        guards: bool,
    ) -> Result<Footing, Refusal> {
        if !tool.is_confined() && !guards {
            return Ok(Footing { identity: None, home: homes.ensure(&tool.name, None, None)? });
        }
        let identity = self.identity(ground, workspace, place)?;
        let first = self.identity(ground, workspace, workspace.first())?;
        let home = homes.ensure(&tool.name, identity, first)?;
        Ok(Footing { identity, home })
    }

    /// What a tool that is not to be confined gets where the server has credentials:
    /// it is not the server's user, and so cannot read them; that is all.
    pub(crate) fn release(
        &self,
        ground: &Ground,
        tool: &Tool,
        footing: &Footing,
    ) -> Result<Confinement, Refusal> {
        let identity = footing.identity.ok_or_else(|| unconfined(tool))?;
        let abi = ground.landlock.ok_or_else(|| unavailable(tool, &missing(ground)))?;
        let all = [(Path::new("/"), Access::Write), (Path::new("/dev"), Access::Device)];
        let domain = Domain::new(abi, &all, None).map_err(|errno| {
            unavailable(tool, &format!("Landlock's ruleset cannot be made: {}", errno.desc()))
        })?;
        Ok(Confinement {
            identity: Some(identity),
            domain: Arc::new(domain),
            filter: Arc::new(Filter::from_numbers(&[], false)),
            spaces: false,
            outlet: None,
        })
    }

    /// Who works on the workspace's files in this process, and what is in reach then;
    /// no domain where the machine has no Landlock.
    pub(crate) fn of_files(
        &self,
        ground: &Ground,
        workspace: &Workspace,
    ) -> Result<(Option<Identity>, Option<Domain>), Errno> {
        // Where it lies in no root there is no root, and nothing to work on.
        let identity = self.identity(ground, workspace, workspace.first()).ok().flatten();
        let Some(abi) = ground.landlock else { return Ok((identity, None)) };
        let roots: Vec<_> = workspace.paths().map(|path| (path, Access::Write)).collect();
        let ports: Option<&[u16]> = (abi >= LANDLOCK_TCP).then_some(&[]);
        Ok((identity, Some(Domain::new(abi, &roots, ports)?)))
    }

    /// What holds a call of that tool. `setup`: its setup, which reads its folder.
    pub(crate) fn confine(
        &self,
        ground: &Ground,
        workspace: &Workspace,
        tool: &Tool,
        footing: &Footing,
        outlet: Option<Outlet>,
        setup: bool,
    ) -> Result<Confinement, Refusal> {
        let level = self.level(ground);
        let Some(abi) = ground.landlock.filter(|_| level > Level::None) else {
            return Err(unavailable(tool, &missing(ground)));
        };
        let outside = outlet.is_some();
        if outside && level == Level::Landlock && abi < LANDLOCK_TCP {
            let what = "this verb needs the network, which this machine cannot limit: it needs \
                        user namespaces, or Linux 6.7 for Landlock's TCP rules";
            return Err(unavailable(tool, what));
        }
        let mut allowed = allowed(&tool.sandbox, abi, outside, outside && asks_github(tool));
        // Without Landlock's own scope only a pid namespace keeps signals within.
        let spaces = level == Level::Namespaces && (outside || !ground.holds_signals());
        // Another user's processes are not the server; this one's it could end.
        if footing.identity.is_none()
            && let Some(lack) = self.lets_signals_out(ground)
        {
            let what = format!("it would run as the server's own user, and could end it: {lack}");
            return Err(unavailable(tool, &what));
        }
        // Landlock knows ports and no addresses: whoever may connect to the listener's
        // port may do so everywhere. So such a call connects nothing itself, unless its
        // definition leaves it other sockets, which connect(2) has to be there for.
        let others = allowed.unix || allowed.udp || allowed.raw;
        allowed.given = outside && !spaces && !others && !weaken::is("landlock-net");
        // Nor does it see who listens without a bind(2): a network of its own holds that.
        allowed.listens = !outside || spaces;
        let reach = Reach { confines: self, workspace, tool, footing, setup };
        let domain = match &outlet {
            // Its /proc is made for it, and the rule for that with it.
            _ if spaces => Domain::new(abi, &reach.rules_without("/proc"), None).map(Arc::new),
            // To the port of the call's own listener and to no other.
            Some(outlet) if !allowed.given => {
                let port = outlet.address().port();
                Domain::new(abi, &reach.rules(), Some(&[port])).map(Arc::new)
            }
            _ => self.domain(abi, &reach),
        };
        let domain = domain.map_err(|errno| {
            unavailable(tool, &format!("Landlock's ruleset cannot be made: {}", errno.desc()))
        })?;
        Ok(Confinement {
            identity: footing.identity,
            domain,
            filter: self.filter(allowed),
            spaces,
            outlet,
        })
    }

    fn domain(&self, abi: u32, reach: &Reach<'_>) -> Result<Arc<Domain>, Errno> {
        let Reach { tool, footing, setup, .. } = *reach;
        let uid = footing.identity.map(|identity| identity.uid);
        let key = Key { tool: tool.name.clone(), uid, setup };
        let seen = reach.look();
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = domains.get(&key);
        let kept = kept.filter(|kept| kept.definition == tool.hash && kept.seen == seen);
        if let Some(kept) = kept {
            return Ok(Arc::clone(&kept.domain));
        }
        let domain = Arc::new(Domain::new(abi, &reach.rules(), Some(&[]))?);
        let kept = Kept { definition: tool.hash.clone(), seen, domain: Arc::clone(&domain) };
        // The one that is given up is made again for its next call.
        if domains.len() >= self.most
            && !domains.contains_key(&key)
            && let Some(other) = domains.keys().next().cloned()
        {
            domains.remove(&other);
        }
        domains.insert(key, kept);
        Ok(domain)
    }

    fn filter(&self, allowed: Allowed) -> Arc<Filter> {
        let mut filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let filter = filters.entry(allowed).or_insert_with(|| Arc::new(Filter::new(&allowed)));
        Arc::clone(filter)
    }
}

/// With what a plan's process is confined, for its line in the audit.
pub(super) fn in_audit(tool: &Tool, plan: &Plan) -> &'static str {
    match &plan.confinement {
        _ if !tool.is_confined() => "off",
        None => "off",
        Some(confinement) if confinement.spaces => Level::Namespaces.as_str(),
        Some(_) => Level::Landlock.as_str(),
    }
}

fn allowed(sandbox: &Sandbox, abi: u32, tcp: bool, notify_unix: bool) -> Allowed {
    let sockets = sandbox.sockets;
    Allowed {
        tcp,
        given: false,
        listens: false,
        unix: sockets.unix,
        udp: sockets.udp,
        raw: sockets.raw,
        truncate: abi >= LANDLOCK_TRUNCATE,
        notify_unix: notify_unix && !sockets.unix,
    }
}

fn asks_github(tool: &Tool) -> bool {
    tool.gates.iter().any(|gate| gate.adapter == Adapter::Github)
}

/// What the machine lacks, for whoever has to give it.
fn missing(ground: &Ground) -> String {
    match ground.missing.as_slice() {
        [] => "the kernel needs Landlock (CONFIG_SECURITY_LANDLOCK, and landlock in lsm=) and \
               seccomp"
            .to_owned(),
        all => all.join("; "),
    }
}

fn unavailable(tool: &Tool, what: &str) -> Refusal {
    let message = format!("{} cannot be confined here: {what}", tool.name);
    Refusal::new(Code::ConfinementUnavailable, message)
        .hint("see confinement in `tool-server status`")
}

/// A tool that is not confined could read what the server reads.
fn unconfined(tool: &Tool) -> Refusal {
    let message = format!(
        "{} has [sandbox] mode = \"off\", and would run as the user whose files hold credentials",
        tool.name
    );
    Refusal::new(Code::ConfinementUnavailable, message).hint(
        "confine it, or take the credentials out of the definitions of this server, or let it \
         switch uids (CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE) beneath a \
         root that an ordinary user owns",
    )
}

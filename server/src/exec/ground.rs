//! What this machine gives to hold tools with, found out when the server starts: a
//! process of this program is confined as a tool would be, and tries to get out
//! (`trial`).
//!
//! Owns: the facts. Must not: choose what is made of them.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::trial;
use crate::os::identity::{Identity, can_switch};
use crate::os::landlock::{self, Access, Domain};
use crate::os::limit::Limit;
use crate::os::mark::{Found, Marks};
use crate::os::process::{Exit, Handle, reap_ended};
use crate::os::restrain::Restraint;
use crate::os::seccomp::{Allowed, Filter};
use crate::os::spawn::{Image, Leads, Program, Spawner, Step};
use crate::os::weaken;

/// The first version of Landlock that is of use: no file leaves its directory.
pub(crate) const LANDLOCK_FILES: u32 = 2;
/// The first one that limits truncation.
pub(crate) const LANDLOCK_TRUNCATE: u32 = 3;
/// The first one that limits TCP.
pub(crate) const LANDLOCK_TCP: u32 = 4;
/// The first one that limits signals.
const LANDLOCK_SIGNALS: u32 = 6;

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Ground {
    /// The version of Landlock, where a process was seen to be held by it.
    pub(crate) landlock: Option<u32>,
    /// Whether a process was seen to be held by seccomp.
    pub(crate) seccomp: bool,
    /// Whether it could not even send a signal to the server.
    pub(crate) signals: bool,
    /// Whether processes can be started as another user, found and ended.
    pub(crate) switches: bool,
    /// Whether processes can have namespaces of their own.
    pub(crate) namespaces: bool,
    /// Whether those have a /proc that shows nothing of the machine's processes.
    pub(crate) own_proc: bool,
    /// For people: what is not there, and what to do about it.
    pub(crate) missing: Vec<String>,
}

/// Who nobody is on every Linux: the trial's user.
pub(super) const NOBODY: Identity = Identity { uid: 65534, gid: 65534 };

/// How long a trial may take, in milliseconds.
const PATIENCE: u16 = 5000;

impl Ground {
    /// Tries it.
    pub(super) fn find(own: Option<&OwnedFd>, null: &OwnedFd, marks: Option<Marks>) -> Ground {
        let mut ground = Ground::default();
        let abi = landlock::probe();
        let Some(abi) = abi.filter(|abi| *abi >= LANDLOCK_FILES) else {
            ground.missing.push(without_landlock(abi));
            return ground;
        };
        let Some(own) = own else {
            ground.missing.push("/proc: mount it where the server runs".to_owned());
            return ground;
        };
        let trial = match Trial::new(own, null, abi) {
            Ok(trial) => trial,
            Err(errno) => {
                ground.missing.push(format!("Landlock: no ruleset: {}", errno.desc()));
                return ground;
            }
        };
        match trial.run(None, marks) {
            Ok(seen) => ground.learn(abi, seen),
            Err(failure) => ground.missing.push(failure.to_string()),
        }
        if ground.landlock.is_some() && can_switch() {
            match trial.run(Some(NOBODY), marks) {
                Ok(seen) if seen == 0 || weaken::is("trial") => ground.switches = true,
                Ok(seen) => ground.missing.push(format!("another user: not held ({seen})")),
                Err(failure) => ground.missing.push(format!("another user: {failure}")),
            }
        }
        ground
    }

    /// Whether Landlock alone keeps a process from sending signals to others of its user.
    pub(crate) fn holds_signals(&self) -> bool {
        self.signals && self.landlock.is_some_and(|abi| abi >= LANDLOCK_SIGNALS)
    }

    fn learn(&mut self, abi: u32, seen: u8) {
        let seen = if weaken::is("trial") { 0 } else { seen };
        if seen & (trial::READ | trial::POWERS) == 0 {
            self.landlock = Some(abi);
        } else {
            self.missing.push("Landlock: a process that entered it was not held".to_owned());
        }
        self.seccomp = seen & trial::SOCKET == 0;
        if !self.seccomp {
            self.missing.push("seccomp: a process that entered a filter was not held".to_owned());
        }
        self.signals = seen & trial::SIGNAL == 0;
    }
}

fn without_landlock(abi: Option<u32>) -> String {
    match abi {
        Some(abi) => format!("Landlock: version {abi} is too old: Linux 5.19 or newer"),
        None => "Landlock: Linux 5.19 or newer, with `landlock` in its option lsm=, and a \
                 container runtime that allows it"
            .to_owned(),
    }
}

/// Why a trial told nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no process can be confined: {0:?}: {1}")]
    Start(Step, #[source] Errno),
    #[error("a confined process did not end as it should: {0:?}")]
    End(Option<Exit>),
    #[error("a process of another user could not be found by its mark, or signalled")]
    Lost,
}

struct Trial<'a> {
    own: &'a OwnedFd,
    null: &'a OwnedFd,
    domain: Domain,
    filter: Filter,
}

impl<'a> Trial<'a> {
    fn new(own: &'a OwnedFd, null: &'a OwnedFd, abi: u32) -> Result<Trial<'a>, Errno> {
        let read = ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"];
        let own_file = Path::new("/proc/self/exe");
        let paths: Vec<(&Path, Access)> = read
            .iter()
            .map(Path::new)
            .chain([own_file, Path::new("/proc")])
            .map(|path| (path, Access::Read))
            .collect();
        let domain = Domain::new(abi, &paths, Some(&[]))?;
        let filter = Filter::new(&Allowed { truncate: abi >= LANDLOCK_TRUNCATE, ..NOTHING });
        Ok(Trial { own, null, domain, filter })
    }

    /// What a process could do that it should not.
    fn run(&self, identity: Option<Identity>, marks: Option<Marks>) -> Result<u8, Failure> {
        let prepare = |errno| Failure::Start(Step::Prepare, errno);
        let word = |text: &str| CString::new(text).map_err(|_nul| prepare(Errno::EINVAL));
        let limits: Vec<Limit> =
            marks.map(|marks| marks.mark(TRIAL).as_limits()).into_iter().flatten().collect();
        let null = self.null.as_fd();
        let image = Image {
            program: Program::Open(self.own.as_fd()),
            arguments: &[word("tool-server")?, word(trial::VERB)?],
            environment: &[],
            directory: None,
            descriptors: &[(null, 0), (null, 1), (null, 2)],
            umask: 0o077,
            limits: &limits,
            leads: Leads::Session,
            restraint: Some(Restraint::new(identity, &self.domain, &self.filter)),
            cgroup: None,
            spaces: false,
        };
        let mut spawner = Spawner::new().map_err(prepare)?;
        let pid = spawner.spawn(&image).map_err(|error| {
            error.unreaped.map(reap_ended);
            Failure::Start(error.step, error.errno)
        })?;
        if Handle::open(pid).is_ok_and(|handle| !handle.wait_end(PATIENCE)) {
            kill(pid, Signal::SIGKILL).ok();
        }
        let known = identity.is_none() || is_ours(pid, marks);
        match reap_ended(pid).map(|(_, exit)| exit) {
            Some(Exit::Code(seen)) if seen < trial::FAILED && known => Ok(seen),
            Some(Exit::Code(seen)) if seen < trial::FAILED => Err(Failure::Lost),
            other => Err(Failure::End(other)),
        }
    }
}

const NOTHING: Allowed = Allowed {
    tcp: false,
    given: false,
    listens: false,
    unix: false,
    udp: false,
    raw: false,
    truncate: false,
    notify_unix: false,
};

/// A call's number for trials: no call's own.
const TRIAL: u32 = u32::MAX;

/// Whether a process that has ended and is not reaped yet can be found and ended.
fn is_ours(pid: Pid, marks: Option<Marks>) -> bool {
    let found = marks.is_none_or(|marks| marks.read(pid) == Ok(Found::Call(TRIAL)));
    found && kill(pid, None).is_ok()
}

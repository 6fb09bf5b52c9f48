//! What confines tools here, in words and for programs.
//!
//! Owns: how it is told. Must not: find it out.

use serde::Serialize;

use crate::broker::{Broker, Level};

/// What Landlock does not hold, and how it is held.
const SHARED: &str = "a user of their own for tools: as the server's user they can change mode \
    and times of its files, not their bytes: let the server switch (CAP_SETUID, CAP_SETGID, \
    CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE), and give the workspace root to an ordinary user";

/// What is active.
#[derive(Debug, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ConfinementStatus {
    /// `namespaces`, `landlock` or `none`.
    level: &'static str,
    /// The version of Landlock; 0: there is none.
    landlock_abi: u32,
    seccomp: bool,
    namespaces: bool,
    /// `owner`: tools run as the owner of the root of the call; `shared`: as the
    /// server's own user.
    uid: &'static str,
    /// Whether a tool sees what others were called with.
    argv: &'static str,
    /// What each call has a cgroup for: `kill`, `pids`, `memory`; nothing: it has none.
    cgroups: Vec<&'static str>,
    /// What is not there, and what to do about it.
    missing: Vec<String>,
}

impl ConfinementStatus {
    pub(super) fn of(broker: &Broker) -> ConfinementStatus {
        let ground = broker.executor.ground();
        let level = broker.confines.level(ground);
        let first = broker.workspace.first();
        let identity = broker.confines.identity(ground, &broker.workspace, first);
        let shared = !matches!(identity, Ok(Some(_)));
        let mut missing = ground.missing.clone();
        let lack = broker.confines.lets_signals_out(ground);
        missing.extend(lack.map(str::to_owned));
        missing.extend(shared.then(|| SHARED.to_owned()));
        let (cgroups, unbounded) = broker.executor.cgroup_uses();
        missing.extend(unbounded);
        // It is refused then.
        let level = if shared && lack.is_some() { Level::None } else { level };
        ConfinementStatus {
            level: level.as_str(),
            landlock_abi: ground.landlock.unwrap_or(0),
            seccomp: ground.seccomp,
            namespaces: level == Level::Namespaces,
            uid: if shared { "shared" } else { "owner" },
            argv: if broker.confines.hides(ground) { "hidden" } else { "visible" },
            cgroups,
            missing,
        }
    }

    /// What there is to look at.
    pub(super) fn attention(&self, broker: &Broker) -> Vec<String> {
        let missing = self.missing.join("; ");
        let none = (self.level == Level::None.as_str()).then(|| {
            format!("confinement: none: tools that are to be confined are refused: {missing}")
        });
        let shared = self.uid == "shared";
        let open = if shared { broker.confines.laid_open() } else { Vec::new() };
        none.into_iter().chain(open).collect()
    }
}

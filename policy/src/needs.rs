//! Which calls talk to a server, and so get a way to the gate.
//!
//! Owns: the verbs that need one, tool by tool. It is about cost and about what a
//! call may be granted, not about safety: a call without the gate reaches nothing,
//! and what passes the gate is decided on there. Must not: know what a server is
//! asked; rules on the wire do.

use crate::definition::sandbox::Network;
use crate::facts::{Module, Wants, gh, git, options};
use crate::grammar::CommandLine;
use crate::judge::Policy;
use crate::scene::Scene;

/// What a call needs of the world outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it has no network at all.
    #[default]
    Local,
    /// The gate.
    Gate {
        /// What changes refs of a remote may pass.
        push: bool,
    },
}

/// Fetches, or what may fetch.
const READS: Needs = Needs::Gate { push: false };
/// Pushes, or what may push.
const PUSHES: Needs = Needs::Gate { push: true };

impl Policy {
    /// What a call needs; `network` is what the definition says of it.
    pub fn needs(&self, args: &[&[u8]], scene: &Scene<'_>, network: Network) -> Needs {
        match (self.way.is_closed(), network) {
            (true, _) | (_, Network::Never) => Needs::Local,
            _ => self.needs_of(&self.read(args), scene, network),
        }
    }

    /// The same of a line that was read.
    pub(crate) fn needs_of(
        &self,
        line: &CommandLine<'_>,
        scene: &Scene<'_>,
        network: Network,
    ) -> Needs {
        if self.way.is_closed() || network == Network::Never {
            return Needs::Local;
        }
        let verb = self.verb(line);
        match verb {
            // What its objects are missing it fetches, whatever it does.
            Needs::Local if scene.observed.promisor => READS,
            Needs::Local if network == Network::Always => READS,
            verb => verb,
        }
    }

    /// What has to be observed for this: whether objects may be missing.
    pub(crate) fn wants_of(&self, line: &CommandLine<'_>) -> Wants {
        let verbs = !self.way.is_closed() && self.way.network == Network::Verbs;
        if verbs && self.module == Module::Git && self.verb(line) == Needs::Local {
            return git::wants_promisor(line);
        }
        Wants::Nothing
    }

    fn verb(&self, line: &CommandLine<'_>) -> Needs {
        // Nobody knows what it does: what it asks for is seen at the gate.
        if self.grammar().is_none() {
            return PUSHES;
        }
        let known = match self.module {
            Module::Git => of_git(line),
            Module::Gh => of_gh(line),
            Module::Npm => of_npm(line),
            Module::None | Module::Command => PUSHES,
        };
        match known {
            // An alias, a program of the name, an option of another version.
            Needs::Local if line.unread.is_some() => READS,
            known => known,
        }
    }
}

fn of_git(line: &CommandLine<'_>) -> Needs {
    let given = |spellings: &[&str]| options::any_own(line, spellings);
    let talks = match line.subcommand.as_slice() {
        ["push" | "send-pack", ..] => return PUSHES,
        // All that follows are its operands.
        ["lfs", ..] => return of_lfs(line),
        [
            "clone" | "fetch" | "pull" | "ls-remote" | "fetch-pack" | "svn" | "p4" | "request-pull"
            | "for-each-repo" | "maintenance",
            ..,
        ]
        | ["remote", "update" | "prune", ..]
        | ["submodule", "add" | "update" | "foreach", ..] => true,
        ["remote", "show", ..] => !given(&["-n"]),
        ["remote", "set-head", ..] => given(&["--auto"]),
        ["remote", "add", ..] => given(&["-f", "--fetch"]),
        ["archive", ..] => given(&["--remote"]),
        _ => false,
    };
    if talks { READS } else { Needs::Local }
}

/// `git lfs`, whose objects are pushed before or beside a push.
fn of_lfs(line: &CommandLine<'_>) -> Needs {
    match line.operands.first().copied() {
        Some(b"push" | b"lock" | b"unlock") => PUSHES,
        None
        | Some(
            b"track" | b"untrack" | b"ls-files" | b"install" | b"uninstall" | b"status"
            | b"version" | b"env" | b"pointer" | b"checkout" | b"update" | b"logs" | b"help",
        ) => Needs::Local,
        Some(_) => READS,
    }
}

fn of_gh(line: &CommandLine<'_>) -> Needs {
    if gh::only_helps(line) && line.unread.is_none() {
        return Needs::Local;
    }
    match line.subcommand.as_slice() {
        ["help" | "version" | "completion" | "config" | "alias", ..] | ["extension", "list"] => {
            Needs::Local
        }
        // They push a branch, by git.
        ["pr", "create", ..] | ["repo", "create" | "fork" | "sync", ..] => PUSHES,
        _ => READS,
    }
}

fn of_npm(line: &CommandLine<'_>) -> Needs {
    let local = match line.subcommand.as_slice() {
        [] => true,
        [
            "run" | "test" | "start" | "stop" | "restart" | "version" | "config" | "get" | "set"
            | "ls" | "ll" | "root" | "prefix" | "pkg" | "help" | "help-search" | "explain"
            | "query" | "completion" | "rebuild" | "shrinkwrap" | "sbom" | "explore" | "edit",
            ..,
        ]
        | ["cache", "ls" | "verify" | "clean", ..] => true,
        // Of this folder; a word is a package that is fetched.
        ["pack" | "init" | "fund", ..] => line.operands.is_empty(),
        ["exec", ..] => options::surely_not(line, &["--yes"]),
        _ => options::surely(line, &["--help"]),
    };
    if local { Needs::Local } else { READS }
}

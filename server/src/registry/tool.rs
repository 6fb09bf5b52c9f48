//! A loaded tool: everything that a call needs to know of it.
//!
//! Owns: the types of a definition after it was checked. A `Tool` is immutable;
//! a change on disk makes a new one, and calls keep the one they began with.
//! Must not: read anything.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tool_policy::definition::gate::Gate;
use tool_policy::definition::sandbox::{Confined, Network, Sandbox};
use tool_policy::definition::signing::Signing;
use tool_policy::{Mode, NamePattern, Policy, Rate};

use super::builtin::is_a_call_of;
use crate::os::limit::Limit;

/// The binary of what has none of its own.
pub(super) const NO_PROGRAM: &str = "/nonexistent";

/// A tool, as the folder `tools.d/NAME` defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Absolute. That it exists is known only when it is run: `missing` asks.
    pub(crate) binary: PathBuf,
    /// The first word of a call is the program, and there is no binary.
    pub(crate) any: bool,
    /// Run instead of the binary.
    pub(crate) wrapper: Option<Wrapper>,
    pub(crate) timeout: Duration,
    /// Whether the definition says so itself: only then does it also hold
    /// while a terminal is attached.
    pub(crate) timeout_set: bool,
    /// What may run.
    pub(crate) policy: Arc<Policy>,
    /// Of all files that it was loaded from: hex of SHA-256.
    pub(crate) hash: String,
    pub(crate) origin: Origin,
    pub(crate) env: EnvRules,
    /// How many calls may run at once.
    pub(crate) concurrent: Option<usize>,
    /// How often one peer may call it.
    pub(crate) rate: Option<Rate>,
    /// Resource limits of its processes.
    pub(crate) limits: Vec<Limit>,
    /// Its input and output pass the broker, never by the caller's descriptors.
    pub(crate) stream: bool,
    /// What it may touch.
    pub(crate) sandbox: Sandbox,
    /// Its definition says so itself.
    pub(crate) sandbox_said: bool,
    /// Where it may connect.
    pub(crate) gates: Arc<[Gate]>,
    /// How commits and tags are signed.
    pub(crate) signing: Option<Signing>,
    /// `setup.sh`, run as `bash FILE`.
    pub(crate) setup: Option<PathBuf>,
    pub(crate) description: Option<String>,
    /// What `check`, `status` and the start log say about it.
    pub(crate) warnings: Vec<String>,
}

impl Tool {
    /// No program of its own is started: it is the broker's own work, or another tool's call.
    pub(crate) fn runs_nothing(&self) -> bool {
        !self.any && self.wrapper.is_none() && self.binary == Path::new(NO_PROGRAM)
    }

    /// Nothing restricts it: neither rules, nor `default`, nor a wrapper.
    pub(crate) fn unrestricted(&self) -> bool {
        self.policy.is_unrestricted() && self.wrapper.is_none()
    }

    /// What it runs, in words.
    pub(crate) fn runs_in_words(&self) -> String {
        match &self.wrapper {
            None if self.runs_nothing() => match is_a_call_of(&self.name) {
                Some(other) => format!("what the tool {other} runs"),
                None => "no program: the broker does it itself".to_owned(),
            },
            None if self.any => "the program that its first word names".to_owned(),
            Some(wrapper) => format!("wrapper {}", wrapper.path.display()),
            None => self.binary.display().to_string(),
        }
    }

    /// What decides about its calls, in words.
    pub(crate) fn rules_in_words(&self) -> String {
        if self.unrestricted() {
            return "unrestricted".to_owned();
        }
        let (default, ..) = self.policy.unmatched();
        let count = self.policy.rules().len();
        let mut words = match count {
            0 => default.to_string(),
            1 => format!("{default}, 1 rule"),
            count => format!("{default}, {count} rules"),
        };
        if self.policy.mode() == Mode::Observe {
            words.push_str(", only observed");
        }
        words
    }

    /// Whether it is confined.
    pub(crate) fn is_confined(&self) -> bool {
        self.sandbox.mode == Confined::Strict
    }

    /// How it is confined, in words.
    pub(crate) fn sandbox_in_words(&self) -> String {
        if !self.is_confined() {
            return "sandbox: off".to_owned();
        }
        let gates = self.gates.len();
        match (gates, self.sandbox.network) {
            (0, _) if self.sandbox_said => "confined, no network".to_owned(),
            (0, _) => "confined, no network: no [[gate]]".to_owned(),
            (_, Network::Never) => "confined, no network".to_owned(),
            (1, _) => "confined, 1 gate".to_owned(),
            (count, _) => format!("confined, {count} gates"),
        }
    }

    /// Whether the server has something for it that no tool may hold.
    pub(crate) fn holds_credential(&self) -> bool {
        self.signing.is_some() || self.gates.iter().any(|gate| gate.credential.is_some())
    }

    /// Where a line of its definition stands.
    pub(crate) fn at(&self, line: usize) -> Origin {
        Origin { file: self.origin.file.clone(), line }
    }

    /// What is not installed at this moment, as a sentence; asks the disk.
    pub(crate) fn missing(&self) -> Option<String> {
        match &self.wrapper {
            Some(wrapper) => wrapper.missing(),
            None if self.any || self.runs_nothing() => None,
            None if super::binary::is_executable(&self.binary) => None,
            None => Some(format!("{} is not installed", self.binary.display())),
        }
    }
}

/// Where the default decision stands: the line of `default`, or line 1 of the
/// definition, or (line 1 of) the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file.display(), self.line)
    }
}

/// A program that is run instead of the binary, with the call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrapper {
    pub(crate) path: PathBuf,
    /// For `.py` and `.sh`, and for a plain `restricted` whose `#!` line names
    /// something that is not installed. `None`: the file is run as it is.
    pub(crate) interpreter: Option<Interpreter>,
}

/// What a wrapper is run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// As people know it: `python3`, `bash`, or the `#!` line's path.
    pub(crate) program: String,
    /// Where it was found; `None`: it is not installed.
    pub(crate) path: Option<PathBuf>,
}

impl Wrapper {
    /// The program to start and what stands before the call's own arguments;
    /// `None` where `missing` has something to say.
    pub(crate) fn command(&self) -> Option<(PathBuf, Vec<OsString>)> {
        match &self.interpreter {
            None => Some((self.path.clone(), Vec::new())),
            Some(interpreter) => {
                let program = interpreter.path.clone()?;
                Some((program, vec![self.path.clone().into_os_string()]))
            }
        }
    }

    /// What is not installed, as a sentence.
    pub(crate) fn missing(&self) -> Option<String> {
        let interpreter = self.interpreter.as_ref().filter(|found| found.path.is_none())?;
        let (program, file) = (&interpreter.program, self.path.display());
        Some(format!("{program} is not installed, needed by {file}"))
    }
}

/// Which variables a tool gets besides PATH, HOME and the broker's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvRules {
    /// From what the caller offers.
    pub(crate) forward: Vec<NamePattern>,
    /// From the server's own environment.
    pub(crate) inherit: Vec<NamePattern>,
    /// Names and values that the definition fixes.
    pub(crate) set: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_without_its_interpreter_says_what_is_missing() {
        let interpreter = |path| Some(Interpreter { program: "python3".into(), path });
        let path = PathBuf::from("/t/restricted.py");
        let found = Wrapper { path: path.clone(), interpreter: interpreter(Some("/p".into())) };
        assert_eq!(found.command(), Some(("/p".into(), vec!["/t/restricted.py".into()])));
        assert_eq!(found.missing(), None);
        let lost = Wrapper { path: path.clone(), interpreter: interpreter(None) };
        assert_eq!(lost.command(), None);
        let sentence = "python3 is not installed, needed by /t/restricted.py";
        assert_eq!(lost.missing().as_deref(), Some(sentence));
        let plain = Wrapper { path: path.clone(), interpreter: None };
        assert_eq!(plain.command(), Some((path, vec![])));
    }
}

//! A loaded tool: everything that a call needs to know of it.
//!
//! Owns: the types of a definition after it was checked. A `Tool` is immutable;
//! a change on disk makes a new one, and calls keep the one they began with.
//! Must not: read anything.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::os::limit::Limit;

/// A tool, as the folder `tools.d/NAME` defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Absolute. That it exists is known only when it is run: `missing` asks.
    pub(crate) binary: PathBuf,
    /// Run instead of the binary.
    pub(crate) wrapper: Option<Wrapper>,
    pub(crate) timeout: Duration,
    /// Whether the definition says so itself: only then does it also hold
    /// while a terminal is attached.
    pub(crate) timeout_set: bool,
    /// What happens to a call that no rule matches.
    pub(crate) default: Decision,
    /// Whether the definition says so itself.
    pub(crate) default_set: bool,
    pub(crate) origin: Origin,
    pub(crate) env: EnvRules,
    /// How many calls may run at once.
    pub(crate) concurrent: Option<usize>,
    /// Resource limits of its processes.
    pub(crate) limits: Vec<Limit>,
    /// Its input and output pass the broker, never by the caller's descriptors.
    pub(crate) stream: bool,
    /// The module that knows the tool's arguments, where the definition names one.
    pub(crate) facts: Option<String>,
    /// `setup.sh`, run as `bash FILE`.
    pub(crate) setup: Option<PathBuf>,
    pub(crate) description: Option<String>,
    /// What `check`, `status` and the start log say about it.
    pub(crate) warnings: Vec<String>,
}

impl Tool {
    /// Nothing restricts it: neither `default` nor a wrapper.
    pub(crate) fn unrestricted(&self) -> bool {
        !self.default_set && self.wrapper.is_none()
    }

    /// What is not installed at this moment, as a sentence; asks the disk.
    pub(crate) fn missing(&self) -> Option<String> {
        match &self.wrapper {
            Some(wrapper) => wrapper.missing(),
            None if super::binary::is_executable(&self.binary) => None,
            None => Some(format!("{} is not installed", self.binary.display())),
        }
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    /// As it is written in a definition.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }

    /// The only way from text.
    pub(crate) fn parse(text: &str) -> Option<Decision> {
        [Decision::Allow, Decision::Ask, Decision::Deny].into_iter().find(|d| d.as_str() == text)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
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
    pub(crate) forward: Vec<Pattern>,
    /// From the server's own environment.
    pub(crate) inherit: Vec<Pattern>,
    /// Names and values that the definition fixes.
    pub(crate) set: Vec<(String, String)>,
}

/// A variable's name, or a prefix of names written with a final `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    prefix: bool,
}

/// What is expected of a pattern, for messages.
pub(crate) const PATTERN: &str = "a variable's name, a prefix as LC_*, or *";

impl Pattern {
    /// The only way to make one.
    pub(crate) fn parse(text: &str) -> Option<Pattern> {
        let (name, prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let plain = !name.contains(['=', '\0', '*']) && (prefix || !name.is_empty());
        plain.then(|| Pattern { text: name.to_owned(), prefix })
    }

    /// Whether a variable's name is meant.
    pub(crate) fn matches(&self, name: &OsStr) -> bool {
        let (name, text) = (name.as_bytes(), self.text.as_bytes());
        if self.prefix { name.starts_with(text) } else { name == text }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.text, if self.prefix { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_or_prefixes() {
        let matches = |pattern: &str, name: &str| {
            Pattern::parse(pattern).map(|pattern| pattern.matches(OsStr::new(name)))
        };
        assert_eq!(matches("TERM", "TERM"), Some(true));
        assert_eq!(matches("TERM", "TERMINFO"), Some(false));
        assert_eq!(matches("LC_*", "LC_ALL"), Some(true));
        assert_eq!(matches("LC_*", "LC"), Some(false));
        assert_eq!(matches("*", "ANY"), Some(true));
        for bad in ["", "A=B", "A\0", "A*B", "**", "*A"] {
            assert_eq!(Pattern::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Pattern::parse("LC_*").unwrap().to_string(), "LC_*");
    }

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

//! Programs that run another one, and how they are told which.
//!
//! Owns: their options. Must not: pass over an option that it does not know:
//! what it takes for the program might be its value.

use super::found::{Sure, Unclear};
use super::word::Word;

/// The options of a program before the one that it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrapper {
    name: &'static str,
    /// Letters without a value, or with one in the same word.
    flags: &'static str,
    /// Letters with a value, in the same word or the next.
    values: &'static str,
    long_flags: &'static [&'static str],
    long_values: &'static [&'static str],
    /// Operands of its own, before the program.
    operands: usize,
    /// `NAME=VALUE` before the program.
    assigns: bool,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: "",
    values: "",
    long_flags: &[],
    long_values: &[],
    operands: 0,
    assigns: false,
};

/// Those that are seen through.
#[rustfmt::skip]
const ALL: [Wrapper; 19] = [
    Wrapper { name: "env", flags: "i0v", values: "uC", long_flags: &["ignore-environment", "null", "debug"], long_values: &["unset", "chdir"], assigns: true, ..PLAIN },
    Wrapper { name: "command", flags: "p", ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "exec", flags: "cl", values: "a", ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper { name: "nice", values: "n", long_values: &["adjustment"], ..PLAIN },
    Wrapper { name: "ionice", flags: "t", values: "cn", long_flags: &["ignore"], long_values: &["class", "classdata"], ..PLAIN },
    Wrapper { name: "timeout", flags: "fpv", values: "ks", long_flags: &["foreground", "preserve-status", "verbose"], long_values: &["kill-after", "signal"], operands: 1, ..PLAIN },
    Wrapper { name: "time", flags: "pvaqV", values: "fo", long_flags: &["append", "verbose", "portability", "quiet"], long_values: &["format", "output"], ..PLAIN },
    Wrapper { name: "stdbuf", values: "ioe", long_values: &["input", "output", "error"], ..PLAIN },
    Wrapper { name: "setsid", flags: "cfw", long_flags: &["ctty", "fork", "wait"], ..PLAIN },
    Wrapper { name: "chroot", long_flags: &["skip-chdir"], long_values: &["userspec", "groups"], operands: 1, ..PLAIN },
    Wrapper { name: "taskset", flags: "ac", long_flags: &["all-tasks", "cpu-list"], operands: 1, ..PLAIN },
    Wrapper { name: "xargs", flags: "0rtxopeil", values: "aEdILnPs", long_flags: &["null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty", "show-limits"], long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var", "replace", "max-lines", "eof"], ..PLAIN },
    Wrapper { name: "sudo", flags: "AbEHknPSB", values: "ugCDhpRrTtU", long_flags: &["askpass", "background", "preserve-env", "set-home", "non-interactive", "stdin", "preserve-groups", "reset-timestamp", "bell"], long_values: &["user", "group", "close-from", "chdir", "host", "prompt", "chroot", "role", "command-timeout", "type", "other-user"], assigns: true, ..PLAIN },
    Wrapper { name: "doas", flags: "n", values: "uC", ..PLAIN },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
    Wrapper { name: "watch", flags: "bcdegtxw", values: "nq", long_flags: &["beep", "color", "differences", "errexit", "chgexit", "no-title", "exec", "no-wrap", "precise"], long_values: &["interval", "equexit"], ..PLAIN },
];

/// What stands before the program.
#[derive(Debug, Default)]
pub(super) struct Before<'w> {
    /// Its options, a letter or a name, with their values.
    pub(super) options: Vec<(String, Option<Vec<u8>>)>,
    /// The variables that it sets.
    pub(super) variables: Vec<Vec<u8>>,
    /// The program and its words.
    pub(super) rest: &'w [Word],
}

impl Before<'_> {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&[u8]> {
        let found = self.options.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.as_deref())
    }
}

/// The wrapper of that name.
pub(super) fn named(name: &[u8]) -> Option<&'static Wrapper> {
    ALL.iter().find(|one| one.name.as_bytes() == name)
}

impl Wrapper {
    /// Reads the words behind its name.
    pub(super) fn read<'w>(&self, words: &'w [Word]) -> Sure<Before<'w>> {
        let mut before = Before { rest: words, ..Before::default() };
        self.options(&mut before)?;
        for _ in 0..self.operands {
            let (operand, rest) = before.rest.split_first().ok_or(Unclear)?;
            operand.fixed().ok_or(Unclear)?;
            before.rest = rest;
        }
        while let (true, Some((word, rest))) = (self.assigns, before.rest.split_first()) {
            let word = word.fixed().ok_or(Unclear)?;
            let Some(end) = word.iter().position(|byte| *byte == b'=') else { break };
            before.variables.push(word.get(..end).unwrap_or_default().to_vec());
            before.rest = rest;
        }
        Ok(before)
    }

    fn options(&self, before: &mut Before<'_>) -> Sure<()> {
        while let Some((word, rest)) = before.rest.split_first() {
            let word = word.fixed().ok_or(Unclear)?;
            match word.as_slice() {
                b"--" => {
                    before.rest = rest;
                    return Ok(());
                }
                b"-" if self.name == "env" => before.rest = rest,
                [b'-', b'-', long @ ..] => {
                    before.rest = rest;
                    self.long(long, before)?;
                }
                [b'-', digits @ ..] if self.name == "nice" && number(digits) => before.rest = rest,
                [b'-', letters @ ..] if !letters.is_empty() => {
                    before.rest = rest;
                    self.letters(letters, before)?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn long(&self, long: &[u8], before: &mut Before<'_>) -> Sure<()> {
        let long = std::str::from_utf8(long).map_err(|_not_one| Unclear)?;
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.as_bytes().to_vec())),
            None => (long, None),
        };
        // `--replace` and the like have their value in the same word, or none.
        let optional = matches!(name, "replace" | "max-lines" | "eof");
        let value = match value {
            None if self.long_values.contains(&name) && !optional => Some(next(before)?),
            value if self.long_values.contains(&name) || self.long_flags.contains(&name) => value,
            _ => return Err(Unclear),
        };
        before.options.push((name.to_owned(), value));
        Ok(())
    }

    fn letters(&self, letters: &[u8], before: &mut Before<'_>) -> Sure<()> {
        let mut letters = letters.iter();
        while let Some(letter) = letters.next() {
            let name = char::from(*letter);
            if self.values.contains(name) {
                let rest = letters.as_slice().to_vec();
                let value = if rest.is_empty() { next(before)? } else { rest };
                before.options.push((name.to_string(), Some(value)));
                return Ok(());
            }
            if !self.flags.contains(name) {
                return Err(Unclear);
            }
            // xargs -i, -e and -l have what follows in the same word for a value.
            if self.name == "xargs" && matches!(letter, b'i' | b'e' | b'l') {
                before.options.push((name.to_string(), Some(letters.as_slice().to_vec())));
                return Ok(());
            }
            before.options.push((name.to_string(), None));
        }
        Ok(())
    }
}

fn next(before: &mut Before<'_>) -> Sure<Vec<u8>> {
    let (value, rest) = before.rest.split_first().ok_or(Unclear)?;
    before.rest = rest;
    value.fixed().ok_or(Unclear)
}

fn number(digits: &[u8]) -> bool {
    let digits = digits.strip_prefix(b"-").unwrap_or(digits);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

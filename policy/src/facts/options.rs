//! Asking a command line for its options, by any of their spellings.
//!
//! Owns: what counts as given. Where an option is given and taken back, it
//! counts as given for what it does, and as not given for what it prevents.

use crate::grammar::{CommandLine, Given};

/// Whether this is one of these options, however it was written.
fn is_one(given: &Given<'_>, spellings: &[&str]) -> bool {
    given.option.spellings().any(|known| spellings.contains(&known))
}

/// The options of these spellings that were given, and hold.
fn all<'l, 'a>(
    line: &'l CommandLine<'a>,
    spellings: &'l [&str],
) -> impl Iterator<Item = &'l Given<'a>> {
    line.options.iter().filter(|given| !given.negated && is_one(given, spellings))
}

/// Whether one of them was given, and holds.
pub(crate) fn any(line: &CommandLine<'_>, spellings: &[&str]) -> bool {
    all(line, spellings).next().is_some()
}

/// Whether one of them was given, and nothing takes it back.
pub(crate) fn surely(line: &CommandLine<'_>, spellings: &[&str]) -> bool {
    let mut all = line.options.iter().filter(|given| is_one(given, spellings)).peekable();
    all.peek().is_some() && all.all(|given| !given.negated)
}

/// Whether one of them was taken back, and never given.
pub(crate) fn surely_not(line: &CommandLine<'_>, spellings: &[&str]) -> bool {
    let mut all = line.options.iter().filter(|given| is_one(given, spellings)).peekable();
    all.peek().is_some() && all.all(|given| given.negated)
}

/// The values of those that were given.
pub(crate) fn values<'l, 'a>(
    line: &'l CommandLine<'a>,
    spellings: &'l [&str],
) -> impl Iterator<Item = &'a [u8]> {
    all(line, spellings).filter_map(|given| given.value)
}

/// Whether one of the command's own was given: `git switch -C` is another
/// option than `git -C`.
pub(crate) fn any_own(line: &CommandLine<'_>, spellings: &[&str]) -> bool {
    all(line, spellings).any(|given| !given.option.global())
}

/// The values of the command's own.
pub(crate) fn own_values<'l, 'a>(
    line: &'l CommandLine<'a>,
    spellings: &'l [&str],
) -> impl Iterator<Item = &'a [u8]> {
    all(line, spellings).filter(|given| !given.option.global()).filter_map(|given| given.value)
}

/// Whether one of the tool's own was given, before the command.
pub(crate) fn any_global(line: &CommandLine<'_>, spellings: &[&str]) -> bool {
    all(line, spellings).any(|given| given.option.global())
}

/// The values of the tool's own.
pub(crate) fn global_values<'l, 'a>(
    line: &'l CommandLine<'a>,
    spellings: &'l [&str],
) -> impl Iterator<Item = &'a [u8]> {
    all(line, spellings).filter(|given| given.option.global()).filter_map(|given| given.value)
}

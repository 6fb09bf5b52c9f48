//! Which options a rule names, and whether a call has them.
//!
//! Owns: `--option` and `--option=PATTERN` of a rule. Every spelling of an
//! option means all of them, but those that negate it. Must not: know a tool.

use crate::grammar::{CommandLine, Given, Grammar, OptionId};
use crate::pattern::Pattern;

/// One option that a rule names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OptionTest {
    /// The same spelling may be another option of another command.
    options: Vec<(OptionId, bool)>,
    /// What its value is to be.
    value: Option<Vec<Pattern>>,
}

impl OptionTest {
    /// Looks an option up in the commands that a rule is about.
    pub(super) fn find(
        grammar: &Grammar,
        paths: &[Vec<String>],
        spelling: &str,
        value: Option<Vec<Pattern>>,
    ) -> Option<OptionTest> {
        let mut options = Vec::new();
        let mut add = |path: &[&str]| {
            let found = grammar.options_beneath(path, spelling);
            options.extend(found.iter().map(|found| (found.option.id(), found.negated)));
        };
        for path in paths {
            add(&path.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if paths.is_empty() {
            add(&[]);
        } else if options.is_empty() {
            // One of the tool itself, before its command: `git -c` is another
            // option than `git commit -c`.
            let found = grammar.option(&[], spelling);
            options.extend(found.map(|found| (found.option.id(), found.negated)));
        }
        options.sort_unstable();
        options.dedup();
        (!options.is_empty()).then_some(OptionTest { options, value })
    }

    /// It was given, whatever follows it.
    pub(super) fn is_given(&self, line: &CommandLine<'_>) -> bool {
        line.options.iter().any(|given| self.means(given))
    }

    /// It was given, and nothing of the call takes it back.
    pub(super) fn holds_to_the_end(&self, line: &CommandLine<'_>) -> bool {
        let id = |given: &&Given<'_>| self.options.iter().any(|(id, _)| *id == given.option.id());
        let mut all = line.options.iter().filter(id).peekable();
        all.peek().is_some() && all.all(|given| self.means(given))
    }

    /// The values that it was given.
    pub(super) fn values<'a>(&self, line: &CommandLine<'a>) -> impl Iterator<Item = &'a [u8]> {
        line.options.iter().filter(|given| self.means(given)).filter_map(|given| given.value)
    }

    /// The name of the first that was given.
    pub(super) fn name<'a>(&self, line: &CommandLine<'a>) -> Option<&'a str> {
        line.options.iter().find(|given| self.means(given)).map(|given| given.option.name())
    }

    fn means(&self, given: &Given<'_>) -> bool {
        let named = self.options.contains(&(given.option.id(), given.negated));
        let value = given.value.unwrap_or_default();
        named && self.value.as_ref().is_none_or(|all| all.iter().any(|one| one.matches(value)))
    }
}

/// Whether a call has no option beyond those that a rule allows. Where it names
/// none, those of the command itself are no matter; the tool's own are always to
/// be named, unless the grammar calls them harmless.
/// An option whose values a rule bounds is named by that.
pub(super) fn bound<T>(
    allowed: Option<&[OptionTest]>,
    values: &[(OptionTest, T)],
    line: &CommandLine<'_>,
) -> bool {
    line.options.iter().all(|given| {
        let named = allowed.is_some_and(|tests| tests.iter().any(|test| test.means(given)))
            || values.iter().any(|(test, _)| test.means(given));
        let free = allowed.is_none() && !given.option.global();
        named || free || given.option.harmless()
    })
}

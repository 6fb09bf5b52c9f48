//! `[[example]]`: calls, and requests, that a definition says what happens to.
//!
//! Owns: reading an example of a call, and trying all; `request` has the others. A definition whose examples do not
//! come out is none. Must not: be used for anything but that.

mod request;

use std::ops::Range;

use toml::de::DeTable;

use crate::Decision;
use crate::definition::SyntaxError;
use crate::definition::read::{Entry, Source, Wrong, array, decision, string, tables, unknown};
use crate::facts::{Observed, git};
use crate::judge::{Policy, Verdict};
use crate::scene::Scene;

/// Where an example is called, if it does not say.
const DIRECTORY: &str = "/workspace";

/// An example, before it is tried.
struct Example {
    args: Vec<Vec<u8>>,
    is: Decision,
    rule: Option<String>,
    directory: String,
    head: String,
    config: String,
}

/// Tries every `[[example]]`.
pub(crate) fn check(
    policy: &Policy,
    entry: Entry<'_, '_>,
    source: Source<'_>,
) -> Result<(), SyntaxError> {
    for (span, table) in tables(entry).map_err(|wrong| source.at(wrong))? {
        let checked = match table.iter().any(|(key, _)| key.get_ref() == "wire") {
            true => request::check(policy, span, table),
            false => read(span.clone(), table).and_then(|it| try_out(policy, &it, span)),
        };
        checked.map_err(|wrong| source.at(wrong))?;
    }
    Ok(())
}

fn read(span: Range<usize>, table: &DeTable<'_>) -> Result<Example, Wrong> {
    let (mut args, mut is, mut rule) = (None, None, None);
    let mut directory = DIRECTORY.to_owned();
    let (mut head, mut config) = (String::new(), String::new());
    for entry in table {
        let (key, value) = entry;
        let name = key.get_ref().as_ref();
        let next = match name {
            "call" => Some(words(string(entry)?).map_err(|message| (value.span(), message))?),
            "args" => Some(plain(entry)?),
            "is" => {
                is = Some(decision(entry)?);
                None
            }
            "rule" => {
                rule = Some(string(entry)?.to_owned());
                None
            }
            "directory" => {
                directory = string(entry)?.to_owned();
                None
            }
            "head" => {
                head = format!("ref: refs/heads/{}\n", string(entry)?);
                None
            }
            "config" => {
                config = string(entry)?.to_owned();
                None
            }
            _ => return Err(unknown(key, "[[example]] ")),
        };
        if next.is_some() && args.is_some() {
            return Err((key.span(), "an example has call or args, not both".to_owned()));
        }
        args = args.or(next);
    }
    let missing = |what: &str| (span.clone(), format!("an example needs {what}"));
    Ok(Example {
        args: args.ok_or_else(|| missing("call = \"WORDS\" or args = [\"WORD\"]"))?,
        is: is.ok_or_else(|| missing("is = \"allow\", \"ask\" or \"deny\""))?,
        rule,
        directory,
        head,
        config,
    })
}

fn try_out(policy: &Policy, example: &Example, span: Range<usize>) -> Result<(), Wrong> {
    let args: Vec<&[u8]> = example.args.iter().map(Vec::as_slice).collect();
    let observed: Observed = git::observe(example.head.as_bytes(), example.config.as_bytes());
    let scene = Scene {
        directory: example.directory.as_bytes(),
        roots: &[DIRECTORY.as_bytes().to_vec()],
        observed: &observed,
    };
    let verdict = policy.judge(&args, &scene);
    compare(&verdict, example.is, example.rule.as_deref(), span)
}

/// Whether it came out.
fn compare(
    verdict: &Verdict,
    is: Decision,
    rule: Option<&str>,
    span: Range<usize>,
) -> Result<(), Wrong> {
    let by = verdict.rule.as_str();
    if verdict.meant() == is && rule.is_none_or(|rule| rule == by) {
        return Ok(());
    }
    let wanted = match rule {
        Some(rule) => format!("{is} by {rule}"),
        None => is.to_string(),
    };
    Err((span, format!("this example is to be {wanted}, and is {}", told(verdict))))
}

fn told(verdict: &Verdict) -> String {
    let Verdict { rule, line, .. } = verdict;
    let why = match &verdict.reason {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    };
    format!("{} by {} in line {line}{why}", verdict.meant(), rule.as_str())
}

fn plain(entry: Entry<'_, '_>) -> Result<Vec<Vec<u8>>, Wrong> {
    let word = |value: &toml::Spanned<toml::de::DeValue<'_>>| match value.get_ref().as_str() {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => Err((value.span(), "each of args must be a string".to_owned())),
    };
    array(entry)?.iter().map(word).collect()
}

/// Words as a shell splits them: `'…'`, `"…"` and `\`; nothing is expanded.
fn words(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = letters.next().ok_or("the call ends in a \\")?;
                let word = word.get_or_insert_default();
                // Between "…" only these lose their meaning.
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(next);
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("the call has a quote that is not closed".to_owned());
    }
    words.extend(word);
    Ok(words.into_iter().map(String::into_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_split_as_a_shell_splits_them() {
        let split = |text: &str| {
            words(text).map(|words| {
                words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect::<Vec<_>>()
            })
        };
        for (text, wanted) in [
            ("push  --force\torigin", &["push", "--force", "origin"][..]),
            ("commit -m 'a b' \"c d\"", &["commit", "-m", "a b", "c d"]),
            (r#"a\ b "c\"d" "e\f" 'g\h'"#, &["a b", "c\"d", r"e\f", r"g\h"]),
            ("a'b'\"c\"d '' \"\"", &["abcd", "", ""]),
            ("$HOME *.c ~", &["$HOME", "*.c", "~"]),
            ("", &[]),
        ] {
            assert_eq!(split(text).unwrap(), wanted, "{text}");
        }
        for text in ["'a", "\"a", "a\\", "'\\''"] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}

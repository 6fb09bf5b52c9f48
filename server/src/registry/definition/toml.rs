//! `tool.toml`.
//!
//! Owns: its members, each checked with its line. Must not: pass over anything
//! that it does not know.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{Definition, Env, NOT_YET, SyntaxError, check_binary, check_timeout, line_at};
use crate::os::limit::Limit;
use crate::registry::tool::{Decision, PATTERN, Pattern};

/// A message and the bytes that it is about.
type Wrong = (Range<usize>, String);
type Entry<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// Parses the text of a `tool.toml`.
pub(in crate::registry) fn parse(text: &str) -> Result<Definition, SyntaxError> {
    let at = |(span, message): Wrong| SyntaxError { line: line_at(text, span.start), message };
    // An editor that writes in place begins by emptying the file: that is no
    // definition, least of all one without restrictions.
    if text.trim().is_empty() {
        let message =
            "is empty: write the definition, or a comment where it has no members".to_owned();
        return Err(SyntaxError { line: 1, message });
    }
    let table = DeTable::parse(text).map_err(|error| {
        let whole = text.len()..text.len();
        at((error.span().unwrap_or(whole), error.message().replace('\n', ", ")))
    })?;
    let mut definition = Definition::default();
    for entry in table.get_ref() {
        take(&mut definition, entry, text).map_err(at)?;
    }
    Ok(definition)
}

fn take(definition: &mut Definition, entry: Entry<'_, '_>, text: &str) -> Result<(), Wrong> {
    let (key, value) = entry;
    let wrong = |message| (value.span(), message);
    match key.get_ref().as_ref() {
        "binary" => {
            definition.binary = Some(check_binary(string(entry)?).map_err(wrong)?);
        }
        "timeout" => {
            definition.timeout = Some(check_timeout(number(entry)?).map_err(wrong)?);
        }
        "default" => {
            let said = string(entry)?;
            let decision = Decision::parse(said).ok_or_else(|| {
                wrong(format!("default must be \"allow\", \"ask\" or \"deny\", not {said:?}"))
            })?;
            definition.default = Some((decision, line_at(text, key.span().start)));
        }
        "facts" => definition.facts = Some(string(entry)?.to_owned()),
        "description" => definition.description = Some(string(entry)?.to_owned()),
        // What the image installs for it: a catalog's business, not ours.
        "packages" => {}
        "env" => definition.env = Some(env(entry)?),
        "limits" => limits(definition, entry)?,
        "stdio" => {
            definition.stream = match string(entry)? {
                "stream" => true,
                "any" => false,
                other => {
                    let message = format!("stdio must be \"stream\" or \"any\", not {other:?}");
                    return Err(wrong(message));
                }
            }
        }
        name if NOT_YET.contains(&name) => {
            return Err((key.span(), super::not_supported(name)));
        }
        _ => return Err(unknown(key, "")),
    }
    Ok(())
}

fn env(entry: Entry<'_, '_>) -> Result<Env, Wrong> {
    let mut env = Env::default();
    for entry in table(entry)? {
        match entry.0.get_ref().as_ref() {
            "forward" => env.forward = Some(patterns(entry)?),
            "inherit" => env.inherit = patterns(entry)?,
            "set" => {
                for variable in table(entry)? {
                    env.set.push(assignment(variable)?);
                }
            }
            _ => return Err(unknown(entry.0, "[env] ")),
        }
    }
    Ok(env)
}

fn limits(definition: &mut Definition, entry: Entry<'_, '_>) -> Result<(), Wrong> {
    for entry in table(entry)? {
        let (key, value) = entry;
        let name = key.get_ref().as_ref();
        let number = integer(value).and_then(|number| u64::try_from(number).ok());
        let wrong =
            |least| (value.span(), format!("{name} must be a whole number, at least {least}"));
        if name == "concurrent" {
            let count = number.and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            definition.concurrent = Some(count.ok_or_else(|| wrong(1))?);
        } else if Limit::named(name, 0).is_some() {
            let number = number.ok_or_else(|| wrong(0))?;
            definition.limits.extend(Limit::named(name, number));
        } else {
            return Err(unknown(key, "[limits] "));
        }
    }
    Ok(())
}

fn patterns(entry: Entry<'_, '_>) -> Result<Vec<Pattern>, Wrong> {
    let name = entry.0.get_ref();
    let list = entry.1.get_ref().as_array();
    let list = list.ok_or_else(|| mismatch(entry, "a list of strings"))?;
    let pattern = |element: &Spanned<DeValue<'_>>| {
        let said = element.get_ref().as_str().and_then(Pattern::parse);
        said.ok_or_else(|| (element.span(), format!("each of {name} must be {PATTERN}")))
    };
    list.iter().map(pattern).collect()
}

fn assignment(entry: Entry<'_, '_>) -> Result<(String, String), Wrong> {
    let (name, value) = (entry.0.get_ref().as_ref(), string(entry)?);
    let refuse = |message: &str| Err((entry.0.span(), format!("{message}: {name:?}")));
    if name.is_empty() || name.contains(['=', '\0']) {
        return refuse("not a variable's name");
    }
    if name.starts_with("TOOL_") {
        return refuse("TOOL_ names are the broker's own and cannot be set");
    }
    if value.contains('\0') {
        return refuse("a variable cannot hold a NUL");
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn string<'a>(entry: Entry<'a, '_>) -> Result<&'a str, Wrong> {
    entry.1.get_ref().as_str().ok_or_else(|| mismatch(entry, "a string"))
}

fn table<'a, 'i>(entry: Entry<'a, 'i>) -> Result<&'a DeTable<'i>, Wrong> {
    entry.1.get_ref().as_table().ok_or_else(|| mismatch(entry, "a table"))
}

fn number(entry: Entry<'_, '_>) -> Result<f64, Wrong> {
    let float = || entry.1.get_ref().as_float()?.as_str().parse().ok();
    let whole = || integer(entry.1).and_then(|whole| u32::try_from(whole).ok()).map(f64::from);
    // A whole number beyond u32 is out of every range: let the check say so.
    let beyond = || integer(entry.1).map(|_| f64::INFINITY);
    float().or_else(whole).or_else(beyond).ok_or_else(|| mismatch(entry, "a number of seconds"))
}

fn integer(value: &Spanned<DeValue<'_>>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn mismatch(entry: Entry<'_, '_>, expected: &str) -> Wrong {
    let (name, found) = (entry.0.get_ref(), entry.1.get_ref().type_str());
    (entry.1.span(), format!("{name} must be {expected}, not of type {found}"))
}

fn unknown(key: &Spanned<DeString<'_>>, table: &str) -> Wrong {
    let name = key.get_ref().escape_debug();
    (key.span(), format!("{table}{name} is not a member of tool.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn every_member_of_tool_toml_is_read() {
        let text = r#"
            binary = "/usr/bin/git"   # comment
            timeout = 1.5
            default = "ask"
            facts = "git"
            description = "version control"
            packages = ["git"]
            [env]
            forward = ["TERM", "LC_*"]
            inherit = ["HTTPS_PROXY"]
            set = { A = "1", B = "two = 2" }
            [limits]
            concurrent = 16
            memory_bytes = 1_000_000_000
            core_bytes = 0
        "#;
        let definition = parse(text).unwrap();
        assert_eq!(definition.binary.as_deref(), Some(Path::new("/usr/bin/git")));
        assert_eq!(definition.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(definition.default, Some((Decision::Ask, 4)));
        assert_eq!(definition.facts.as_deref(), Some("git"));
        assert_eq!(definition.description.as_deref(), Some("version control"));
        assert_eq!(definition.concurrent, Some(16));
        let limits: Vec<_> =
            definition.limits.iter().filter_map(|limit| limit.describe()).collect();
        assert_eq!(limits, [("core_bytes", 0), ("memory_bytes", 1_000_000_000)]);
        assert!(parse("stdio = \"stream\"").unwrap().stream);
        let env = definition.env.unwrap();
        let texts = |list: Vec<Pattern>| list.iter().map(Pattern::to_string).collect::<Vec<_>>();
        assert_eq!(texts(env.forward.unwrap()), ["TERM", "LC_*"]);
        assert_eq!(texts(env.inherit), ["HTTPS_PROXY"]);
        assert_eq!(env.set, [("A".into(), "1".into()), ("B".into(), "two = 2".into())]);
        assert_eq!(parse("# the binary is found by name\n").unwrap(), Definition::default());
        assert!(parse(" \n").is_err(), "a file that is being written is no definition");
        assert_eq!(parse("timeout = 600").unwrap().timeout, Some(Duration::from_secs(600)));
    }

    #[test]
    fn what_is_wrong_in_tool_toml_has_its_line() {
        let cases = [
            ("binary = ", 1, ""),
            ("timeout = 1\ntimeout = 2", 2, "duplicate"),
            ("\nbinry = \"/x\"", 2, "binry is not a member"),
            ("binary = \"git\"", 1, "absolute path"),
            ("binary = 5", 1, "must be a string, not of type integer"),
            ("\n\ntimeout = \"5\"", 3, "number of seconds"),
            ("timeout = 0", 1, "more than 0"),
            ("timeout = -5", 1, "more than 0"),
            ("timeout = nan", 1, "more than 0"),
            ("timeout = inf", 1, "at most 7 days"),
            ("timeout = 99999999999", 1, "at most 7 days"),
            ("default = \"yes\"", 1, "\"allow\", \"ask\" or \"deny\", not \"yes\""),
            ("[env]\nforwards = []", 2, "[env] forwards is not"),
            ("[env]\nforward = [\n\"A\",\n\"B=C\"]", 4, "each of forward must be"),
            ("[env]\ninherit = \"A\"", 2, "a list of strings"),
            ("[env]\n[env.set]\nTOOL_X = \"1\"", 3, "broker's own"),
            ("[env]\nset = { \"A=B\" = \"1\" }", 2, "not a variable's name"),
            ("[env]\nset = { A = \"\\u0000\" }", 2, "NUL"),
            ("[env]\nset = { A = 1 }", 2, "must be a string"),
            ("env = 1", 1, "env must be a table"),
            ("[limits]\nconcurrent = 0", 2, "at least 1"),
            ("[limits]\nmemory = 1", 2, "[limits] memory is not"),
            ("[limits]\nopen_files = -1", 2, "at least 0"),
            ("stdio = \"fds\"", 1, "must be \"stream\" or \"any\""),
        ];
        for (text, line, message) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error:?}");
            assert!(error.message.contains(message), "{text}: {error:?}");
        }
    }

    #[test]
    fn what_would_not_be_enforced_is_refused() {
        let later = [
            "[sandbox]\nmode = \"off\"",
            "[[gate]]\nadapter = \"git\"",
            "[[rule]]",
            "[[example]]",
            "protected = [\".git\"]",
            "mode = \"x\"",
        ];
        for text in later {
            let error = parse(text).unwrap_err();
            let expected = "is not supported by this version: it would not be enforced";
            assert!(error.message.ends_with(expected), "{error:?}");
        }
    }
}

//! `tool.toml`.
//!
//! Owns: its members, each checked with its line. Must not: pass over anything
//! that it does not know.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::{Entry, Source, Wrong, array, integer, number, string, table, unknown};
use super::sandbox::{Confined, Network};
use super::{
    Definition, Env, LIMITS, NAME_PATTERN, NamePattern, Place, SyntaxError, check_binary,
    check_timeout, gates, sandbox, signing,
};
use crate::rule;
use crate::wire::Way;

/// Parses the text of a `tool.toml`, and of the `grammar.toml` beside it.
pub(super) fn parse(
    tool: &str,
    text: &str,
    grammar: Option<&str>,
) -> Result<Definition, SyntaxError> {
    let source = Source { place: Place::Definition, text };
    let parsed = source.parse()?;
    let mut definition = Definition::default();
    let mut said = rule::Said::default();
    for entry in parsed.get_ref() {
        take(&mut definition, &mut said, entry, source).map_err(|wrong| source.at(wrong))?;
    }
    for entry in parsed.get_ref() {
        sandbox::beside(&mut definition.sandbox, entry).map_err(|wrong| source.at(wrong))?;
    }
    agree(&mut definition, &parsed).map_err(|wrong| source.at(wrong))?;
    let binary = definition.binary.as_deref().and_then(|path| path.file_name()?.to_str());
    let way = Way::new(&definition);
    definition.policy = rule::read(tool, binary.unwrap_or(tool), &said, way, source, grammar)?;
    Ok(definition)
}

fn take<'a, 'i>(
    definition: &mut Definition,
    said: &mut rule::Said<'a, 'i>,
    entry: Entry<'a, 'i>,
    source: Source<'_>,
) -> Result<(), Wrong> {
    let (key, value) = entry;
    let wrong = |message| (value.span(), message);
    match key.get_ref().as_ref() {
        "binary" => {
            definition.binary = Some(check_binary(string(entry)?).map_err(wrong)?);
        }
        "timeout" => {
            definition.timeout = Some(check_timeout(number(entry)?).map_err(wrong)?);
        }
        "default" => said.default = Some((rule::answer(entry)?, source.line(&key.span()))),
        "facts" => said.facts = Some(entry),
        "protected" => said.protected = Some(entry),
        "mode" => said.mode = Some(entry),
        "unread" => said.unread = Some(entry),
        "grammar" => said.grammar = Some(entry),
        "rule" => said.rules = Some(entry),
        "example" => said.examples = Some(entry),
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
        "sandbox" => {
            definition.sandbox = sandbox::read(entry, source)?;
            definition.sandbox_said = true;
        }
        // The sandbox's, written shorter: read after it.
        "hooks" | "redact" => {}
        "gate" => definition.gates = gates::read(entry, source)?,
        "signing" => definition.signing = Some(signing::read(entry, source)?),
        _ => return Err(unknown(key, "")),
    }
    Ok(())
}

/// What members say together; a member that would have no effect is refused.
fn agree(definition: &mut Definition, parsed: &Spanned<DeTable<'_>>) -> Result<(), Wrong> {
    let sandbox = &definition.sandbox;
    // What `stream` serves is what can be looked through.
    definition.stream |= sandbox.redact;
    let members =
        [("gate", !definition.gates.is_empty()), ("signing", definition.signing.is_some())];
    for (name, said) in members {
        let wrong = match (sandbox.mode, sandbox.network) {
            _ if !said => continue,
            (Confined::Off, _) => format!(
                "{name} and [sandbox] mode = \"off\" are in one definition: a tool that is not \
                 confined gets no credential"
            ),
            (_, Network::Never) if name == "gate" => {
                "gate has no effect with [sandbox] network = \"never\"".to_owned()
            }
            _ => continue,
        };
        return Err((place(parsed, name), wrong));
    }
    if sandbox.network == Network::Always && definition.gates.is_empty() {
        let message = "[sandbox] network = \"always\" needs a [[gate]]: there is no other way out";
        return Err((place(parsed, "sandbox"), message.to_owned()));
    }
    Ok(())
}

/// Where a member is.
fn place(parsed: &Spanned<DeTable<'_>>, name: &str) -> Range<usize> {
    let found = parsed.get_ref().iter().find(|(key, _)| key.get_ref() == name);
    found.map_or(0..0, |(key, _)| key.span())
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
        if name == "rate" {
            let rate = string(entry)?
                .parse()
                .map_err(|error| (value.span(), format!("rate must be {error}")))?;
            definition.rate = Some(rate);
        } else if name == "concurrent" {
            let count = number.and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            definition.concurrent = Some(count.ok_or_else(|| wrong(1))?);
        } else if let Some(known) = LIMITS.into_iter().find(|known| *known == name) {
            definition.limits.push((known, number.ok_or_else(|| wrong(0))?));
        } else {
            return Err(unknown(key, "[limits] "));
        }
    }
    Ok(())
}

fn patterns(entry: Entry<'_, '_>) -> Result<Vec<NamePattern>, Wrong> {
    let name = entry.0.get_ref();
    let list = array(entry)?;
    let pattern = |element: &Spanned<DeValue<'_>>| {
        let said = element.get_ref().as_str().and_then(NamePattern::parse);
        said.ok_or_else(|| (element.span(), format!("each of {name} must be {NAME_PATTERN}")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decision;
    use std::path::Path;
    use std::time::Duration;

    fn parse(text: &str) -> Result<Definition, SyntaxError> {
        super::parse("tool", text, None)
    }

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
            rate = "60/minute, burst 10"
            memory_bytes = 1_000_000_000
            core_bytes = 0
        "#;
        let definition = parse(text).unwrap();
        assert_eq!(definition.binary.as_deref(), Some(Path::new("/usr/bin/git")));
        assert_eq!(definition.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(definition.policy.unmatched(), (Decision::Ask, 4, true));
        assert_eq!(definition.policy.module(), crate::facts::Module::Git);
        assert_eq!(definition.description.as_deref(), Some("version control"));
        assert_eq!(definition.concurrent, Some(16));
        let rate = definition.rate.map(|rate| rate.to_string());
        assert_eq!(rate.as_deref(), Some("60/minute, burst 10"));
        assert_eq!(definition.limits, [("core_bytes", 0), ("memory_bytes", 1_000_000_000)]);
        assert!(parse("stdio = \"stream\"").unwrap().stream);
        let env = definition.env.unwrap();
        let texts =
            |list: Vec<NamePattern>| list.iter().map(NamePattern::to_string).collect::<Vec<_>>();
        assert_eq!(texts(env.forward.unwrap()), ["TERM", "LC_*"]);
        assert_eq!(texts(env.inherit), ["HTTPS_PROXY"]);
        assert_eq!(env.set, [("A".into(), "1".into()), ("B".into(), "two = 2".into())]);
        let named = parse("# the binary is found by name\n").unwrap();
        assert!(named.binary.is_none() && named.policy.is_unrestricted());
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
            ("[limits]\n\nrate = \"60\"", 3, "rate must be COUNT/PERIOD, as \"60/minute\""),
            ("[limits]\nrate = 60", 2, "must be a string"),
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
}

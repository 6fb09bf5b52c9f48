//! A further socket, as a `[[listen]]` table or as
//! `PATH[,mode=0660][,group=NAME][,tools=git:gh]`.
//!
//! Owns: both ways to write one. Must not: open it.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::given::{Given, Wrong, absolute, quoted};
use super::types::ListenSpec;

/// Linux's sun_path, without its NUL.
const MAX_SOCKET: usize = 107;

/// What a socket's path must be, for messages.
pub(super) const SOCKET: &str = "a path of at most 107 bytes (the kernel's limit for a socket)";
/// What a socket's mode must be, for messages.
pub(super) const MODE: &str = "a file mode in octal, as \"0660\"";
const LISTEN: &str = "PATH[,mode=0660][,group=NAME][,tools=git:gh]";

/// Reads every further socket.
pub(super) fn parse(given: &Given<'_>) -> Result<Vec<ListenSpec>, Wrong> {
    match given {
        Given::Texts(texts) => {
            let split = texts.iter().flat_map(|text| text.split(';'));
            split.filter(|text| !text.is_empty()).map(from_text).collect()
        }
        Given::Toml(value) => {
            let tables = value.as_array().ok_or(Wrong::from("[[listen]] tables"))?;
            tables.iter().map(from_table).collect()
        }
    }
}

/// Makes a socket's path absolute and checks its length.
pub(super) fn socket(text: &str) -> Option<PathBuf> {
    absolute(text).filter(|path| path.as_os_str().len() <= MAX_SOCKET)
}

fn from_text(text: &str) -> Result<ListenSpec, Wrong> {
    let wrong = || Wrong::of(LISTEN, text, None);
    let mut parts = text.split(',');
    let path = parts.next().and_then(socket).ok_or_else(wrong)?;
    let mut spec = ListenSpec { path, mode: 0o660, group: None, tools: None };
    for part in parts {
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        match name {
            "mode" => {
                let given = Given::Texts(vec![value.to_owned()]);
                spec.mode = given.mode().ok_or_else(|| Wrong::of(MODE, value, None))?;
            }
            "group" if !value.is_empty() => spec.group = Some(value.to_owned()),
            "tools" if !value.is_empty() => {
                spec.tools = Some(value.split(':').map(str::to_owned).collect());
            }
            _ => return Err(wrong()),
        }
    }
    Ok(spec)
}

fn from_table(table: &Spanned<DeValue<'_>>) -> Result<ListenSpec, Wrong> {
    let at = |span: std::ops::Range<usize>, expected: &str| Wrong {
        expected: expected.to_owned(),
        value: Some("[[listen]]".to_owned()),
        at: Some(span.start),
    };
    let members = table.get_ref().as_table();
    let members = members.ok_or_else(|| at(table.span(), "a table in each [[listen]]"))?;
    let mut path = None;
    let mut spec = ListenSpec { mode: 0o660, ..ListenSpec::default() };
    for (key, value) in members {
        let given = Given::Toml(value.get_ref());
        let wrong = |expected: &str| at(value.span(), expected);
        match key.get_ref().as_ref() {
            "path" => path = Some(given.text().and_then(socket).ok_or_else(|| wrong(SOCKET))?),
            "mode" => spec.mode = given.mode().ok_or_else(|| wrong(MODE))?,
            "group" => {
                let group = given.text().filter(|group| !group.is_empty());
                spec.group = Some(group.ok_or_else(|| wrong("the name of a group"))?.to_owned());
            }
            "tools" => {
                let tools = given.list(&[':']).filter(|tools| !tools.is_empty());
                let tools = tools.ok_or_else(|| wrong("a list of tools' names"))?;
                spec.tools = Some(tools.into_iter().map(|(name, _)| name).collect());
            }
            other => {
                let expected = format!("path, mode, group or tools, not {other}");
                return Err(at(key.span(), &expected));
            }
        }
    }
    spec.path = path.ok_or_else(|| at(table.span(), "a path in each [[listen]]"))?;
    Ok(spec)
}

/// All of them as one TOML value.
pub(super) fn show(specs: &[ListenSpec]) -> String {
    let one = |spec: &ListenSpec| {
        let path = quoted(&spec.path.display().to_string());
        let mut members = vec![format!("path = {path}"), format!("mode = \"{:04o}\"", spec.mode)];
        members.extend(spec.group.as_deref().map(|group| format!("group = {}", quoted(group))));
        let tools = spec.tools.as_ref().map(|tools| {
            let names: Vec<String> = tools.iter().map(|name| quoted(name)).collect();
            format!("tools = [{}]", names.join(", "))
        });
        members.extend(tools);
        format!("{{ {} }}", members.join(", "))
    };
    let all: Vec<String> = specs.iter().map(one).collect();
    format!("[{}]", all.join(", "))
}

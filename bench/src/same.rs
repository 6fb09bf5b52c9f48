//! Whether all ways do the same work: what each shows of its directory and its
//! environment, and whether git says the same.
//!
//! Owns: the comparison. A way that does other work is not measured.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::site::{PATH, Site, Work};
use crate::way::Way;

/// Variables that a tool finds there beside HOME and PATH, by name; or why the
/// way is not to be measured.
pub fn look(site: &Site, way: &Way, direct: &Way) -> Result<Vec<String>, String> {
    for work in [Work::Version, Work::Status] {
        let (one, other) = (said(direct.command(work))?, said(way.command(work))?);
        if one != other {
            return Err(format!("{} says {other:?}, directly {one:?}", work.name()));
        }
    }
    let shown = said(way.command(Work::Where))?;
    let mut lines = shown.lines();
    let directory = lines.next().unwrap_or_default();
    // The shell's own are there in every way.
    let mut variables: BTreeMap<&str, &str> = lines
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    for (what, seen, wanted) in [
        ("directory", Some(directory), site.text("workspace")),
        ("HOME", variables.remove("HOME"), site.text("home")),
    ] {
        if seen != Some(&wanted) {
            return Err(format!("its {what} is {seen:?}, not {wanted:?}"));
        }
    }
    let mut more: Vec<String> = Vec::new();
    if variables.remove("PATH") != Some(PATH) {
        more.push("another PATH".to_owned());
    }
    if let Some(locale) = variables.keys().find(|name| **name == "LANG" || name.starts_with("LC_"))
    {
        return Err(format!("{locale} is set there: git would load a locale"));
    }
    more.extend(variables.keys().map(|name| (*name).to_owned()));
    Ok(more)
}

fn said(mut command: Command) -> Result<String, String> {
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
        return Err(format!("{}: {words}", done.status));
    }
    String::from_utf8(done.stdout).map_err(|error| error.to_string())
}

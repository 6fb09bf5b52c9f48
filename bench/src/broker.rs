//! The broker as a way: a server in the scratch directory, a definition for each
//! program, the client by a symlink.
//!
//! Owns: how the broker is set up for measuring. Must not: measure.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::forge::Forge;
use crate::gated::{HOST, NET};
use crate::site::{Site, Work};
use crate::way::{Running, Way};

/// How much of what the broker does it does here.
#[derive(Clone, Copy)]
pub enum Stage<'a> {
    /// Every call is allowed, and nothing confines it. Each call is audited always.
    Bare,
    /// The shipped rules, and for `/bin/true` as many as an operator may write.
    Rules,
    /// These, and every tool is confined; git and another one have a gate to that
    /// forge.
    Everything(&'a Forge),
}

/// Rules for `/bin/true`, none of which matches: each is looked at.
const EXAMPLE: &str = include_str!("../rules/true.toml");

/// Starts a server, its files in `folder` of the site.
pub fn start(
    site: &Arc<Site>,
    name: &'static str,
    folder: &str,
    cgroup: &str,
    stage: Stage<'_>,
) -> Result<Way, String> {
    let at = site.path(folder);
    for directory in ["bin", "state", "tools.d"] {
        std::fs::create_dir_all(at.join(directory)).expect("a directory");
    }
    for program in Work::PROGRAMS {
        define(site, &at, program, stage);
    }
    if let Stage::Everything(forge) = stage {
        let own = format!("HOME = {:?}", site.text("home"));
        let text =
            format!("binary = \"/bin/true\"\ndefault = \"allow\"\n[env]\nset = {{ {own} }}\n");
        let sandbox = format!("[sandbox]\nnetwork = \"always\"\n{}", gate("http", forge));
        put(&at, NET, &[text, sandbox].concat());
    }
    let socket = at.join("socket");
    let mut command = site.plain(&built("tool-server").display().to_string());
    command
        .arg("serve")
        .env("TOOL_SOCKET", &socket)
        .env("TOOLS_DIR", at.join("tools.d"))
        .env("WORKSPACE", site.path("workspace"))
        .env("STATE_DIR", at.join("state"))
        .env("TOOL_CGROUP", cgroup);
    let log = std::fs::File::create(at.join("log")).expect("a file");
    let mut server = Running::with_log(&mut command, log.into())?;
    server.wait_for(&socket)?;
    if cgroup != "off" {
        // Where it may not make any it goes on without.
        let log = at.join("log");
        let says = || std::fs::read_to_string(&log).unwrap_or_default();
        server.wait_until(&|| says().contains("\"started\""))?;
        if !says().contains("cgroup.kill") {
            return Err("the server may not make cgroups of version 2 here".into());
        }
    }
    let more = match stage {
        Stage::Bare => ", no rules, `[sandbox] mode = \"off\"`",
        Stage::Rules => ", the shipped rules, `[sandbox] mode = \"off\"`",
        Stage::Everything(_) => ", the shipped rules, every tool confined",
    };
    let how =
        format!("`tool-server serve`, `TOOL_CGROUP={cgroup}`{more}, `tool-client` by a symlink");
    let workspace = site.path("workspace");
    Ok(Way::new(name, how, vec![server], move |work| {
        let words = work.words();
        let tool = Path::new(&words[0]).file_name().expect("a name");
        let mut command = Command::new(at.join("bin").join(tool));
        command.args(&words[1..]).env_clear().env("TOOL_SOCKET", &socket).current_dir(&workspace);
        command
    }))
}

/// As short as a definition is, but for HOME: where all others have it.
fn define(site: &Site, at: &Path, program: &str, stage: Stage<'_>) {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).expect("a name");
    let home = site.text("home");
    let own = format!("HOME = {home:?}");
    let sandbox = match stage {
        Stage::Bare | Stage::Rules => "[sandbox]\nmode = \"off\"\n".to_owned(),
        // What shows where it is lies beside the workspace.
        Stage::Everything(_) => {
            format!("[sandbox]\nwrite = [{home:?}]\nread = [{:?}]\n", site.text("where"))
        }
    };
    let bare =
        format!("binary = {program:?}\ndefault = \"allow\"\n[env]\nset = {{ {own} }}\n{sandbox}");
    let text = match (stage, name) {
        (Stage::Bare, _) => bare,
        (_, "git") => {
            let shipped = std::fs::read_to_string(project().join("tools.d/git/tool.toml"));
            let text =
                without(&shipped.expect("git's rules"), &["[sandbox]", "[[gate]]", "[[example]]"]);
            // A definition without a gate has no rules about what passes one.
            let text = match stage {
                Stage::Everything(_) => text,
                Stage::Bare | Stage::Rules => without_rules_of_the_wire(&text),
            };
            let text = text.replacen("set = { ", &format!("set = {{ {own}, "), 1);
            let text = format!("{text}\n{sandbox}");
            match stage {
                Stage::Everything(forge) => text + &gate("git", forge),
                Stage::Bare | Stage::Rules => text,
            }
        }
        (_, "true") => format!("{bare}{EXAMPLE}"),
        // A shell and the like: what shows that the same work is compared.
        _ => bare,
    };
    put(at, name, &text);
}

/// A way to the forge, and nowhere else.
fn gate(adapter: &str, forge: &Forge) -> String {
    format!(
        "\n[[gate]]\nadapter = {adapter:?}\nhosts = [{HOST:?}]\nupstream = {:?}\n\
         credential = {:?}\n",
        forge.url(),
        format!("file:{}", forge.token.display())
    )
}

/// The same without tables of these names.
fn without(text: &str, tables: &[&str]) -> String {
    let mut kept = String::new();
    let mut keeps = true;
    for line in text.split_inclusive('\n') {
        if line.starts_with('[') {
            keeps = !tables.contains(&line.trim_end());
        }
        if keeps {
            kept.push_str(line);
        }
    }
    kept
}

/// The same without rules that are about the wire alone.
fn without_rules_of_the_wire(text: &str) -> String {
    let mut tables = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.starts_with('[') {
            tables.push(String::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push_str(line);
        }
    }
    let wire = |table: &String| table.lines().any(|line| line == "on = \"wire\"");
    tables.retain(|table| !wire(table));
    tables.concat()
}

/// A definition, and the client by its name.
fn put(at: &Path, name: &str, text: &str) {
    let folder = at.join("tools.d").join(name);
    std::fs::create_dir(&folder).expect("a directory");
    std::fs::write(folder.join("tool.toml"), text).expect("a definition");
    if name == "git" && text.contains("[[rule]]") {
        let grammar = folder.join("grammar.toml");
        std::fs::copy(project().join("tools.d/git/grammar.toml"), &grammar).expect("git's grammar");
        std::fs::set_permissions(&grammar, PermissionsExt::from_mode(0o644)).expect("chmod");
    }
    // A definition that others may change is refused, whatever the umask here.
    for (path, mode) in
        [(at.join("tools.d"), 0o755), (folder.clone(), 0o755), (folder.join("tool.toml"), 0o644)]
    {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
    }
    symlink(built("tool-client"), at.join("bin").join(name)).expect("a link");
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The program of this workspace of that name, built beside this one.
pub fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let path = own.parent().unwrap_or(Path::new(".")).join(name);
    assert!(path.is_file(), "{} is not built: run cargo build --release", path.display());
    path
}

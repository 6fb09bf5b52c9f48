//! The broker as a way: a server in the scratch directory, a definition for each
//! program, the client by a symlink.
//!
//! Owns: how the broker is set up for measuring. Must not: measure.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::site::{Site, Work};
use crate::way::{Running, Way};

/// What the definitions say beside the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// That every call is allowed.
    None,
    /// What the shipped one says, and for `/bin/true` as many rules as an operator
    /// may write.
    Shipped,
}

/// Rules for `/bin/true`, none of which matches: each is looked at.
const EXAMPLE: &str = include_str!("../rules/true.toml");

/// Starts a server, its files in `folder` of the site.
pub fn start(
    site: &Arc<Site>,
    name: &'static str,
    folder: &str,
    cgroup: &str,
    rules: Rules,
) -> Result<Way, String> {
    let at = site.path(folder);
    for directory in ["bin", "state", "tools.d"] {
        std::fs::create_dir_all(at.join(directory)).expect("a directory");
    }
    for program in Work::PROGRAMS {
        define(site, &at, program, rules);
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
    let rules = if rules == Rules::Shipped { ", the shipped rules" } else { "" };
    let how =
        format!("`tool-server serve`, `TOOL_CGROUP={cgroup}`{rules}, `tool-client` by a symlink");
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
fn define(site: &Site, at: &Path, program: &str, rules: Rules) {
    let name = Path::new(program).file_name().expect("a name");
    let folder = at.join("tools.d").join(name);
    std::fs::create_dir(&folder).expect("a directory");
    let home = site.text("home");
    let own = format!("HOME = {home:?}");
    let bare = format!("binary = {program:?}\ndefault = \"allow\"\n[env]\nset = {{ {own} }}\n");
    let text = match (rules, name.to_str()) {
        (Rules::None, _) => bare,
        (Rules::Shipped, Some("git")) => {
            let shipped = project().join("tools.d/git");
            let text = std::fs::read_to_string(shipped.join("tool.toml")).expect("git's rules");
            let grammar = folder.join("grammar.toml");
            std::fs::copy(shipped.join("grammar.toml"), &grammar).expect("git's grammar");
            std::fs::set_permissions(&grammar, PermissionsExt::from_mode(0o644)).expect("chmod");
            text.replacen("set = { ", &format!("set = {{ {own}, "), 1)
        }
        (Rules::Shipped, Some("true")) => format!("{bare}{EXAMPLE}"),
        // A shell and the like: what shows that the same work is compared.
        (Rules::Shipped, _) => bare,
    };
    std::fs::write(folder.join("tool.toml"), text).expect("a definition");
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

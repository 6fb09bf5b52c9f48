//! A server with a tool that attempts things, as root whose workspace is somebody
//! else's, and as an ordinary user whose own it is.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use serde_json::json;
use tool_broker_tests::Server;

/// Who the server is, and so whose the tool's processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// Root; the workspace is the ordinary user's, and so is the tool.
    Owner,
    /// An ordinary user; the tool is the same one.
    Ordinary,
    /// Root, whose the workspace is too: so is the tool, without its powers.
    Root,
}

pub const ORDINARY: u32 = 65534;

impl As {
    pub const ALL: [As; 3] = [As::Owner, As::Ordinary, As::Root];

    /// Those that this machine's user can be.
    pub fn all() -> impl Iterator<Item = As> {
        let root = nix::unistd::geteuid().is_root();
        As::ALL.into_iter().filter(move |who| root || *who == As::Ordinary)
    }

    pub fn tool_uid(self) -> u32 {
        match self {
            As::Root => 0,
            As::Owner => ORDINARY,
            As::Ordinary if nix::unistd::geteuid().is_root() => ORDINARY,
            As::Ordinary => nix::unistd::geteuid().as_raw(),
        }
    }
}

/// A server with the tool `attempt`.
pub fn start(who: As) -> Server {
    Server::start(|setup| {
        setup.tool("attempt", "binary = \"/usr/bin/python3\"\n");
        setup.tool("other", "binary = \"/bin/sh\"\n");
        setup.file("ws/attempt.py", include_str!("attempt.py"), 0o644);
        fs::create_dir(setup.path("ws/own")).expect("own");
        let root = nix::unistd::geteuid().is_root();
        match who {
            As::Owner => {
                for name in ["ws", "ws/own", "ws/attempt.py"] {
                    chown(setup.path(name), Some(ORDINARY), Some(ORDINARY)).expect("chown");
                }
            }
            As::Ordinary if root => {
                setup.uid(ORDINARY);
                chown(setup.path("ws/own"), Some(ORDINARY), Some(ORDINARY)).expect("chown");
            }
            As::Ordinary | As::Root => {}
        }
    })
}

/// What came of each attempt.
#[track_caller]
pub fn attempt(server: &Server, words: &[&str]) -> BTreeMap<String, String> {
    let script = server.path("ws/attempt.py");
    let args: Vec<&str> =
        [script.to_str().expect("a path")].into_iter().chain(words.iter().copied()).collect();
    let reply = server.connect().call(&json!({"tool":"attempt","args":args,"cwd":server.ws()}));
    assert_eq!(reply["exit_code"], json!(0), "{reply}");
    parse(reply["stdout"].as_str().expect("stdout"))
}

/// What the attempts told.
pub fn parse(told: &str) -> BTreeMap<String, String> {
    told.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, what)| (name.trim_end_matches(':').to_owned(), what.to_owned()))
        .collect()
}

/// That every attempt was refused, but for those that are named.
#[track_caller]
pub fn refused(attempts: &BTreeMap<String, String>, but: &[&str]) {
    assert!(attempts.len() > 3, "{attempts:?}");
    for (name, what) in attempts {
        assert_eq!(what.starts_with("done"), but.contains(&name.as_str()), "{name}: {what}");
    }
}

/// A directory with what attempts look for, of somebody who lets everybody in.
pub fn prepare(path: &Path, owner: u32) {
    fs::create_dir_all(path.join("empty")).expect("a directory");
    fs::write(path.join("file"), "canary").expect("a file");
    fs::copy("/bin/true", path.join("program")).expect("a program");
    for name in ["", "empty", "file", "program"] {
        let name = path.join(name);
        // As root may do, whoever the tests are.
        chown(&name, Some(owner), Some(owner)).ok();
        fs::set_permissions(&name, Permissions::from_mode(0o777)).expect("chmod");
    }
}

/// What `prepare` made, as it was.
pub fn is_whole(path: &Path) -> bool {
    let mut names: Vec<_> =
        fs::read_dir(path).expect("list").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    names == ["empty", "file", "program"]
        && fs::read(path.join("file")).is_ok_and(|text| text == b"canary")
}

//! The same command twice: natively and through the broker. Whatever differs
//! is a fault of the broker's.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::twins::compare;
use crate::{Outcome, Server, run};

/// Runs a tool both ways in the same state of things and asserts that both
/// ended alike and said the same.
pub struct Twin<'a> {
    server: &'a Server,
    tool: &'a str,
    binary: &'a str,
}

impl<'a> Twin<'a> {
    /// `tool` is defined in the server; `binary` is what it runs.
    pub fn new(server: &'a Server, tool: &'a str, binary: &'a str) -> Twin<'a> {
        // The tool's HOME is made by the server at the latest at the first call;
        // natively it must be there as well.
        let home = server.path("state/home").join(tool);
        fs::create_dir_all(&home).expect("a home");
        Twin { server, tool, binary }
    }

    /// The command as a shell would run it without the broker: the name as
    /// argument zero, the environment that a tool gets.
    pub fn native(&self) -> Command {
        let mut command = Command::new(self.binary);
        command.arg0(self.tool).env_clear().current_dir(self.server.ws());
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", self.server.path("state/home").join(self.tool)).env("LANG", "C.UTF-8");
        command
    }

    /// Both ways with `input` on stdin; gives the outcome, which both share.
    #[track_caller]
    pub fn same_with(&self, input: &[u8], set: impl Fn(&mut Command)) -> Outcome {
        self.same_run(set, |command| run(command, input))
    }

    /// Both ways with an empty stdin.
    #[track_caller]
    pub fn same(&self, set: impl Fn(&mut Command)) -> Outcome {
        self.same_with(b"", set)
    }

    /// Both ways, each in a fresh directory `ws/twin` that `prepare` fills, and
    /// what is left of it must be the same too.
    #[track_caller]
    pub fn same_in(&self, prepare: impl Fn(&Path), set: impl Fn(&mut Command)) -> Outcome {
        let dir = self.server.ws().join("twin");
        let mut trees = Vec::new();
        let outcome = self.same_run(
            |command| {
                let _ = fs::remove_dir_all(&dir);
                fs::create_dir(&dir).expect("ws/twin");
                prepare(&dir);
                command.current_dir(&dir);
                set(command);
            },
            |command| {
                let outcome = run(command, b"");
                trees.push(tree(&dir));
                outcome
            },
        );
        assert_eq!(trees[0], trees[1], "the files differ: native, then through the broker");
        outcome
    }

    #[track_caller]
    fn same_run(
        &self,
        set: impl Fn(&mut Command),
        mut run: impl FnMut(&mut Command) -> Outcome,
    ) -> Outcome {
        let mut native = self.native();
        set(&mut native);
        let wanted = run(&mut native);
        let mut broker = self.server.client(self.tool);
        set(&mut broker);
        let got = run(&mut broker);
        if let Err(differences) = compare::outcomes(&wanted, &got) {
            panic!("{differences}\n got {got:?}\nwant {wanted:?}");
        }
        got
    }
}

/// Every path beneath a directory, with its kind, mode and size.
pub fn tree(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("metadata");
            let size = if meta.is_dir() { 0 } else { meta.size() };
            let name = path.strip_prefix(dir).expect("beneath").to_path_buf();
            found.push(format!("{name:?} {:o} {size}", meta.mode()));
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

//! The place where everything is measured: a scratch directory with a tree of
//! 1,000 files, an empty HOME, and the work itself.
//!
//! Owns: what the work is and in which environment it runs, for every way the
//! same. Must not: know any way.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Files in the tree that `git status` looks at.
pub const FILES: usize = 1_000;

/// Bytes that go through a pipe.
pub const BULK: u64 = 1 << 30;

/// What every tool finds in its environment, this and HOME: what the server gives.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is done, directly and in every other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    True,
    Version,
    Status,
    /// Shows directory and environment; not measured.
    Where,
    /// One GiB to standard output.
    Bulk,
}

impl Work {
    /// The programs that the work needs.
    pub const PROGRAMS: [&str; 4] = ["/bin/true", "/usr/bin/git", "/bin/sh", "/usr/bin/head"];

    pub fn name(self) -> &'static str {
        match self {
            Work::True => "/bin/true",
            Work::Version => "git --version",
            Work::Status => "git status",
            Work::Where => "env",
            Work::Bulk => "1 GiB",
        }
    }

    /// Program and arguments. None holds a blank or anything else that a shell
    /// would look at: some ways go through one.
    pub fn words(self) -> Vec<String> {
        let words: &[&str] = match self {
            Work::True => &["/bin/true"],
            Work::Version => &["/usr/bin/git", "--version"],
            Work::Status => &["/usr/bin/git", "status", "--short"],
            Work::Where => &["/bin/sh", "../where"],
            Work::Bulk => {
                return vec![
                    "/usr/bin/head".into(),
                    "-c".into(),
                    BULK.to_string(),
                    "/dev/zero".into(),
                ];
            }
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

pub struct Site {
    scratch: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Site {
        let mut scratch = tempfile::tempdir().expect("a scratch directory");
        if scratch.path().as_os_str().len() > 60 {
            // A socket's path has at most 107 bytes.
            scratch = tempfile::tempdir_in("/tmp").expect("a scratch directory");
        }
        let site = Site { scratch };
        for directory in ["workspace", "home"] {
            std::fs::create_dir(site.path(directory)).expect("a directory");
        }
        site.write("where", "pwd\n/usr/bin/env\n");
        let mut script = "set -e\n/usr/bin/git init -q .\n".to_owned();
        for number in 0..FILES {
            writeln!(script, "echo {number} >f{number}").expect("a string");
        }
        script.push_str(
            "/usr/bin/git add .\n\
             /usr/bin/git -c user.name=b -c user.email=b@b commit -qm files\n",
        );
        site.write("make-tree", &script);
        let status = site.plain("/bin/sh").arg("../make-tree").status().expect("/bin/sh");
        assert!(status.success(), "the tree for git status could not be made");
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// As above, for command lines and settings.
    pub fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("a scratch directory in UTF-8")
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("a file in the scratch directory");
    }

    /// A command in the workspace with PATH and HOME, and nothing else.
    pub fn plain(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.path("home"))
            .current_dir(self.path("workspace"));
        command
    }
}

//! A server for the bench, in a scratch directory, in the session of the bench:
//! with a session of its own the scheduler would put it in another group
//! (kernel.sched_autogroup_enabled), and bulk output would read a third less.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::built;

pub struct Broker {
    scratch: tempfile::TempDir,
    server: Child,
}

const TOOLS: [(&str, &str); 3] =
    [("true", "/bin/true"), ("git", "/usr/bin/git"), ("sh", "/bin/sh")];

impl Broker {
    pub fn start(cgroup: &str) -> Broker {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        for directory in ["ws", "bin", "state", "tools.d"] {
            std::fs::create_dir(at(directory)).expect("a directory");
        }
        for (name, binary) in TOOLS {
            let folder = at("tools.d").join(name);
            std::fs::create_dir(&folder).expect("a directory");
            let text = format!("binary = {binary:?}\ndefault = \"allow\"\n");
            std::fs::write(folder.join("tool.toml"), text).expect("a definition");
            symlink(built("tool-client"), at("bin").join(name)).expect("a link");
        }
        let status = Command::new("chmod").args(["-R", "go-w"]).arg(at("tools.d")).status();
        assert!(status.expect("chmod").success());
        let server = Command::new(built("tool-server"))
            .arg("serve")
            .env("TOOL_SOCKET", at("socket"))
            .env("TOOLS_DIR", at("tools.d"))
            .env("WORKSPACE", at("ws"))
            .env("STATE_DIR", at("state"))
            .env("TOOL_CGROUP", cgroup)
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let broker = Broker { scratch, server };
        while !broker.at("socket").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        broker.repository();
        broker
    }

    /// 1,000 files, for git status.
    fn repository(&self) {
        let script = "git init -q . && for i in $(seq 1000); do echo $i > f$i; done && git add . && \
            git -c user.name=b -c user.email=b@b commit -qm files";
        let status = self.directly("sh", &["-c", script]).status().expect("git");
        assert!(status.success());
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The tool through the client.
    pub fn call(&self, tool: &str) -> Command {
        let mut command = Command::new(self.at("bin").join(tool));
        command.env_clear().env("TOOL_SOCKET", self.at("socket")).current_dir(self.at("ws"));
        command
    }

    /// The same without it, in the same environment that a tool gets.
    pub fn directly(&self, tool: &str, args: &[&str]) -> Command {
        let binary = TOOLS.iter().find(|(name, _)| *name == tool).map_or("", |(_, path)| *path);
        let mut command = Command::new(binary);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.at("state"))
            .current_dir(self.at("ws"));
        command
    }

    /// Memory that is the server's alone.
    pub fn private_kib(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.server.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("Private_"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // SAFETY: a plain signal to our own child.
        unsafe { libc::kill(self.server.id() as i32, libc::SIGTERM) };
        self.server.wait().ok();
    }
}

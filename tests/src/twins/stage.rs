//! What a row finds: the tools under their names each way, the helpers, data
//! that is only read, and an empty directory.
//!
//! Everything lies in the directory of one [`Setup`], whose server may run or
//! not: natively against natively needs none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::{self, Row};
use crate::{Setup, run};

/// The tools: names whose binaries are `/usr/bin/NAME`.
const TOOLS: [&str; 41] = [
    "bash", "cat", "cmp", "cut", "date", "dd", "echo", "env", "false", "find", "git", "grep",
    "head", "less", "ls", "mkdir", "mktemp", "nl", "perl", "printf", "pwd", "python3", "sed",
    "seq", "sh", "sleep", "sort", "stat", "stty", "tail", "tar", "tee", "touch", "tr", "true",
    "tty", "uniq", "wc", "xargs", "yes", "vi",
];

/// The names that definitions forward; `helpers/native.c` has the same list.
const FORWARD: &str = "[\"TERM\", \"LANG\", \"LC_*\", \"TZ\", \"COLUMNS\", \"LINES\", \
                       \"NO_COLOR\", \"CI\", \"GIT_*\", \"FWD_*\"]";

/// The setting env.path, where unset.
const TOOL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One way to run a tool by its name.
#[derive(Clone, Debug)]
pub struct Way {
    /// `native`, `client`, `stream`, `broken`.
    pub name: &'static str,
    /// The directory that comes first in the caller's PATH.
    pub bin: PathBuf,
    pub env: Vec<(&'static str, String)>,
}

/// A setup that has what rows need.
pub struct Stage<'a> {
    setup: &'a Setup,
}

/// Writes the tools' definitions; before the server starts. `more` is added to
/// each `tool.toml`, at its top.
pub fn define(setup: &mut Setup, more: &str) {
    define_with(setup, more, "");
}

/// The same with a gate, so that each call of each tool has namespaces of its own
/// where there are any.
pub fn define_gated(setup: &mut Setup) {
    let gate = "network = \"always\"\n[[gate]]\nadapter = \"http\"\nhosts = [\"example.org\"]\n";
    define_with(setup, "", gate);
}

/// `gate` begins in `[sandbox]`.
fn define_with(setup: &mut Setup, more: &str, gate: &str) {
    setup.limit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    let fds = setup.path("lib/fds").display().to_string();
    // What rows run that lies outside the workspace.
    let read = [table::directory().join("helpers"), setup.path("lib")];
    let tools = TOOLS.map(|name| (name, format!("/usr/bin/{name}")));
    for (name, binary) in tools.into_iter().chain([("fds", fds)]) {
        let _ = fs::remove_file(setup.path(format!("tools.d/{name}/tool.json")));
        setup.tool(
            name,
            &format!(
                "binary = \"{binary}\"\ndefault = \"allow\"\n{more}\n[env]\nforward = {FORWARD}\n\
                      [limits]\nconcurrent = 64\n[sandbox]\nread = {read:?}\n{gate}"
            ),
        );
    }
}

/// Whether a program is there, by name or path.
pub fn installed(program: &str) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "command -v \"$1\"", "sh", program]);
    run(&mut command, b"").code() == Some(0)
}

impl<'a> Stage<'a> {
    /// Compiles the helpers, makes the symlinks and the data.
    pub fn new(setup: &'a Setup) -> Stage<'a> {
        let stage = Stage { setup };
        let lib = setup.path("lib");
        for dir in ["native", "broken", "binaries", "lib"] {
            fs::create_dir(setup.path(dir)).expect(dir);
        }
        for name in ["native", "ends", "fds", "broken"] {
            let source = table::directory().join(format!("helpers/{name}.c"));
            let mut cc = Command::new("cc");
            cc.args(["-O1", "-o"]).arg(lib.join(name)).arg(source);
            assert_eq!(run(&mut cc, b"").code(), Some(0), "{cc:?}");
        }
        for name in TOOLS.into_iter().chain(["fds"]) {
            let link = |to: &Path, dir: &str| {
                symlink(to, setup.path(dir).join(name)).expect("symlink");
            };
            link(&lib.join("native"), "native");
            link(&lib.join("broken"), "broken");
            match name {
                "fds" => link(&lib.join("fds"), "binaries"),
                _ => link(&Path::new("/usr/bin").join(name), "binaries"),
            }
            let home = setup.path("state/home").join(name).join("tmp");
            fs::create_dir_all(home).expect("a home");
            drop(setup.client(name)); // makes the symlink
        }
        stage.data();
        stage
    }

    fn data(&self) {
        let dir = self.setup.ws().join("data");
        fs::create_dir(&dir).expect("ws/data");
        let large: Vec<u8> =
            (0..1u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let every: Vec<u8> = (0..=255).collect();
        let files: [(&str, &[u8]); 4] =
            [("lines", b"one\ntwo\nthree\n"), ("every", &every), ("large", &large), ("empty", b"")];
        for (name, content) in files {
            fs::write(dir.join(name), content).expect(name);
        }
        let mut script = Command::new("/bin/bash");
        script.arg(table::directory().join("helpers/repository.sh")).arg(dir.join("repository"));
        script.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        let made = run(&mut script, b"");
        assert_eq!(made.code(), Some(0), "{made:?}");
    }

    /// Where a row runs: the same path each way.
    pub fn directory_of(&self, row: &Row) -> PathBuf {
        self.setup.ws().join(format!("{}-{}", row.kind, row.number))
    }

    /// Without a broker, by `helpers/native.c`.
    pub fn native(&self) -> Way {
        Way { name: "native", bin: self.setup.path("native"), env: Vec::new() }
    }

    /// Through the client; `name` is what the tables call it.
    pub fn client(&self, name: &'static str) -> Way {
        Way { name, bin: self.setup.path("bin"), env: Vec::new() }
    }

    /// Natively, but for one thing: `helpers/broken.c` has the list.
    pub fn broken(&self, what: &str) -> Way {
        let env = vec![("TWIN_BREAK", what.to_owned())];
        Way { name: "broken", bin: self.setup.path("broken"), env }
    }

    /// A program of the caller's, in the caller's environment.
    pub fn caller(&self, program: &str, way: &Way, dir: &Path) -> Command {
        let path = |name: &str| self.setup.path(name).into_os_string();
        let mut command = Command::new(program);
        command.env_clear().current_dir(dir);
        command.env("PATH", format!("{}:/usr/bin:/bin", way.bin.display()));
        command.env("HOME", path("home")).env("LANG", "C.UTF-8").env("TERM", "dumb");
        command.env("TOOL_SOCKET", self.setup.socket()).env("TOOL_FORWARD_ENV", "GIT_*:FWD_*");
        command.env("TWIN_BINARIES", path("binaries")).env("TWIN_HOMES", path("state/home"));
        command.env("TWIN_PATH", TOOL_PATH).env("TWIN_INNER", path("native"));
        command.env("H", table::directory().join("helpers")).env("L", path("lib"));
        command.env("D", self.setup.ws().join("data"));
        // For the tools, which get nothing else of it.
        command.env("FWD_H", table::directory().join("helpers"));
        command.env("FWD_D", self.setup.ws().join("data"));
        // On a busy machine git would show progress that nobody asked for.
        command.env("GIT_PROGRESS_DELAY", "1000");
        command.env("FWD_ONE", "one").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Some One");
            command.env(format!("GIT_{who}_EMAIL"), "some.one@example.org");
            command.env(format!("GIT_{who}_DATE"), "2024-05-06T07:08:09 +0200");
        }
        command.envs(way.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

//! A tool three ways: by the shipped definition, by the same without its rules,
//! and natively.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::state::{self, State};
use super::stub::{Seen, Stub};
use super::table::{Answer, text};
use crate::{Outcome, Server, Setup, run};

/// By which way a line is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The real client, the real server, the shipped definition.
    Rules,
    /// The same without rules, everything allowed.
    NoRules,
    /// No broker.
    Native,
}

/// What came of a line.
#[derive(Debug)]
pub struct Result {
    pub outcome: Outcome,
    pub state: State,
    pub seen: Vec<Seen>,
}

/// The servers of one tool.
#[derive(Debug)]
pub struct Stand {
    tool: String,
    binary: PathBuf,
    ruled: Server,
    free: Server,
    stub: Stub,
    prepared: BTreeMap<String, PathBuf>,
}

impl Stand {
    /// `None` where the tool is not installed; that is said.
    pub fn start(tool: &str, test: &str, answers: &[Answer]) -> Option<Stand> {
        Stand::start_in("tools.d", tool, test, answers)
    }

    /// With the definition in another folder of the project.
    pub fn start_in(folder: &str, tool: &str, test: &str, answers: &[Answer]) -> Option<Stand> {
        let from = crate::project().join(folder).join(tool);
        let definition = text(&from.join("tool.toml"));
        let Some(binary) = installed(&definition) else {
            crate::skipped(test, &format!("{tool} is not installed"));
            return None;
        };
        let definition = with_binary(&definition, &binary);
        let setup = Setup::new();
        let ws = setup.ws();
        let stub = Stub::start(answers, &setup.path("run/stub.sock"), ws.join("day"));
        let start = |mut setup: Setup, definition: &str, grammar: bool| {
            setup.tool(tool, &gated(tool, definition, stub.port));
            for (name, mode) in [("grammar.toml", 0o644), ("setup.sh", 0o755)] {
                if let Ok(content) = fs::read(from.join(name))
                    && (grammar || name != "grammar.toml")
                {
                    setup.file(format!("tools.d/{tool}/{name}"), content, mode);
                }
            }
            home(&setup, tool, &stub, &ws);
            setup.env("WORKSPACE", &ws);
            setup.env("GH_TOKEN", "a-token-of-the-test");
            // An ask that nobody answers is to end.
            setup.env("TOOL_APPROVALS_TIMEOUT", "0.2");
            drop(setup.client(tool)); // makes the symlink
            Server::start_in(setup)
        };
        let ruled = start(setup, &definition, true);
        let free = start(Setup::new(), &without_rules(&definition), false);
        Some(Stand { tool: tool.to_owned(), binary, ruled, free, stub, prepared: BTreeMap::new() })
    }

    /// The definition as the server reads it.
    pub fn definition(&self) -> PathBuf {
        self.ruled.path("tools.d").join(&self.tool).join("tool.toml")
    }

    /// The directory that a line is run in.
    pub fn dir(&self) -> PathBuf {
        self.ruled.ws().join("day")
    }

    /// Makes the directory as a preparation leaves it: the script is run once.
    pub fn prepare(&mut self, scripts: &BTreeMap<String, String>, name: &str) {
        let dir = self.dir();
        let _ = fs::remove_dir_all(&dir);
        let script = scripts.get(name).unwrap_or_else(|| panic!("no preparation {name}"));
        let kept = self.prepared.entry(name.to_owned()).or_insert_with(|| {
            fs::create_dir(&dir).expect("ws/day");
            let mut sh = Command::new("/bin/sh");
            let script = script.replace("{port}", &self.stub.port.to_string());
            sh.args(["-ec", &script]).env_clear().current_dir(&dir).env("HOME", "/nonexistent");
            let path = format!("{}:/usr/bin:/bin", parent(&self.binary).display());
            identity(sh.env("PATH", path));
            let outcome = run(&mut sh, b"");
            assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
            let kept = self.ruled.path(format!("prepared-{name}"));
            fs::rename(&dir, &kept).expect("rename");
            kept
        });
        let mut cp = Command::new("cp");
        assert_eq!(run(cp.arg("-a").arg(kept).arg(&dir), b"").code(), Some(0), "cp");
        self.stub.take();
        // npm keeps what it has fetched.
        for server in [&self.ruled, &self.free] {
            let _ = fs::remove_dir_all(server.path(format!("state/home/{}/.npm", self.tool)));
        }
    }

    /// What `TOOL --version` says.
    pub fn version(&self) -> String {
        run(Command::new(&self.binary).arg("--version").env_clear(), b"").out()
    }

    /// What is there now.
    pub fn state(&self) -> State {
        state::of(&self.dir(), Path::new("/usr/bin/git"))
    }

    /// Runs a line of a shell in the prepared directory.
    pub fn run(&self, way: Way, directory: &str, line: &str) -> Result {
        let server = if way == Way::NoRules { &self.free } else { &self.ruled };
        let first = match way {
            Way::Native => self.native(),
            Way::Rules | Way::NoRules => server.path("bin"),
        };
        let mut path = OsString::from(first);
        path.push(":/usr/bin:/bin");
        let mut sh = Command::new("/bin/sh");
        sh.args(["-c", &line.replace("{port}", &self.stub.port.to_string())]);
        sh.env_clear()
            .current_dir(self.dir().join(directory))
            .env("PATH", path)
            .env("LANG", "C.UTF-8");
        sh.env("HOME", self.ruled.path("state/home").join(&self.tool));
        sh.env("TOOL_SOCKET", server.socket());
        if way == Way::Native {
            // As the definitions set it.
            for name in ["GIT_TERMINAL_PROMPT", "GH_PROMPT_DISABLED", "GH_NO_UPDATE_NOTIFIER"] {
                sh.env(name, if name.starts_with("GIT") { "0" } else { "1" });
            }
            sh.env("NPM_CONFIG_UPDATE_NOTIFIER", "false").env("GH_TOKEN", "a-token-of-the-test");
        }
        identity(&mut sh);
        crate::sys::only_standard(&mut sh);
        let outcome = run(&mut sh, b"");
        Result { outcome, state: self.state(), seen: self.stub.take() }
    }

    /// A directory that has nothing but the tool.
    fn native(&self) -> PathBuf {
        let dir = self.ruled.path("native");
        if !dir.exists() {
            fs::create_dir(&dir).expect("native");
            symlink(&self.binary, dir.join(&self.tool)).expect("symlink");
        }
        dir
    }
}

/// What an operator adds to curl's definition to let it reach a server on this machine.
const LOCAL: &str = r#"[[rule]]
id = "local"
decision = "allow"
operands = { host = ["localhost", "127.0.0.1"] }
options = [
    "--include", "--head", "--request", "--header", "--compressed", "--data", "--data-binary",
    "--data-urlencode", "--json", "--get", "--form", "--output", "--write-out", "--max-time",
    "--retry",
]
reason = "a server that is being tried out"
"#;

/// The definition with the stub behind each of its gates; for curl, which has no host
/// of its own, with a gate to the stub's address.
pub fn gated(tool: &str, definition: &str, port: u16) -> String {
    let private = "private = [\"127.0.0.0/8\"]";
    if tool == "curl" {
        let hosts = "hosts = [\"localhost\", \"127.0.0.1\"]";
        let gate = format!(
            "[[gate]]\nadapter = \"http\"\n{hosts}\nports = [{port}, 1]\n{private}\ndefault = \"allow\"\n"
        );
        let known = "\"raw.githubusercontent.com\"]\nreason = \"{value}";
        let more = known.replace("\"]", "\", \"localhost\", \"127.0.0.1\"]");
        let definition = definition.replace(known, &more);
        let definition = definition.replacen("\n[[gate]]", &format!("\n{gate}[[gate]]"), 1);
        return match definition.contains("[[rule]]") {
            true => format!("{definition}\n{LOCAL}"),
            false => definition,
        };
    }
    let each = |line: &str| match line.starts_with("adapter = ") {
        true => format!("{line}\nupstream = \"http://127.0.0.1:{port}\"\n"),
        false => format!("{line}\n"),
    };
    definition.lines().map(each).collect()
}

/// What an operator keeps in the tool's HOME: where gh and npm find the stub.
fn home(setup: &Setup, tool: &str, stub: &Stub, ws: &Path) {
    let socket = ws.parent().expect("a parent").join("run/stub.sock");
    let at = |name: &str| format!("state/home/{tool}/{name}");
    match tool {
        "gh" => {
            let config = format!("http_unix_socket: {}\n", socket.display());
            setup.file(at(".config/gh/config.yml"), config, 0o600);
        }
        "npm" => {
            let config =
                format!("registry=http://127.0.0.1:{}/\nfund=false\nprogress=false\n", stub.port);
            setup.file(at(".npmrc"), config, 0o600);
        }
        _ => {}
    }
    let home = setup.path(format!("state/home/{tool}"));
    fs::create_dir_all(&home).expect("a home");
    crate::setup::mode(&home, 0o700);
}

/// Whose commits, and when: so that every way makes the same objects.
fn identity(command: &mut Command) {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Some One");
        command.env(format!("GIT_{who}_EMAIL"), "some.one@example.org");
        command.env(format!("GIT_{who}_DATE"), "2024-05-06T07:08:09 +0200");
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().expect("a program lies in a directory")
}

/// The definition's program, or one of its name elsewhere.
fn installed(definition: &str) -> Option<PathBuf> {
    let said = definition.lines().find_map(|line| line.strip_prefix("binary = \""))?;
    let said = PathBuf::from(said.trim_end_matches('"'));
    let name = said.file_name()?.to_owned();
    let others = ["/usr/local/bin", "/bin"].map(|dir| Path::new(dir).join(&name));
    std::iter::once(said).chain(others).find(|path| path.exists())
}

fn with_binary(definition: &str, binary: &Path) -> String {
    let each = |line: &str| match line.starts_with("binary = ") {
        true => format!("binary = {binary:?}\n"),
        false => format!("{line}\n"),
    };
    definition.lines().map(each).collect()
}

/// The same program, environment and limits; everything is allowed.
fn without_rules(definition: &str) -> String {
    let kept = |line: &&str| line.starts_with("binary = ") || line.starts_with("timeout = ");
    let top: Vec<&str> = definition.lines().filter(kept).collect();
    let rest = definition.split_once("\n[env]").map_or("", |(_, rest)| rest);
    let rest = rest.split_once("\n[[rule]]").map_or(rest, |(rest, _)| rest);
    let gates = |word: &str| format!("\ndefault = \"{word}\"\n");
    let rest =
        rest.replace(&gates("ask"), &gates("allow")).replace(&gates("deny"), &gates("allow"));
    format!("default = \"allow\"\n{}\n[env]{rest}\n", top.join("\n"))
}

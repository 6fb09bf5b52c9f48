//! What a server is started in: its directories, definitions and environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::Resource;
use tempfile::TempDir;

use crate::binaries::binaries;

/// A directory of its own with everything that one server needs:
///
/// | path | what |
/// | --- | --- |
/// | `ws/` | the workspace, `WORKSPACE` |
/// | `tools.d/` | the definitions, `TOOLS_DIR`; `sh` is there from the start |
/// | `restricted/` | `RESTRICTED_DIR` |
/// | `state/` | `STATE_DIR` |
/// | `run/` | `tool.sock` and `control.sock` |
/// | `bin/` | the symlinks to tool-client |
/// | `server.log` | what the server says |
///
/// The environment of the server has nothing else but PATH and HOME.
#[derive(Debug)]
pub struct Setup {
    dir: TempDir,
    env: BTreeMap<OsString, OsString>,
    flags: Vec<OsString>,
    limits: Vec<(Resource, u64, u64)>,
    uid: Option<u32>,
    server: PathBuf,
}

impl Setup {
    #[allow(clippy::new_without_default, reason = "makes directories")]
    pub fn new() -> Setup {
        static SEALED: std::sync::Once = std::sync::Once::new();
        SEALED.call_once(crate::sys::seal_descriptors);
        let dir = tempfile::Builder::new().prefix("tb").tempdir().expect("a temporary directory");
        mode(dir.path(), 0o755);
        for name in ["ws", "tools.d", "restricted", "state", "run", "bin", "home"] {
            fs::create_dir(dir.path().join(name)).expect(name);
            mode(&dir.path().join(name), 0o755);
        }
        symlink(&binaries().client, dir.path().join("bin/tool-client")).expect("symlink");
        let mut setup = Setup {
            dir,
            env: BTreeMap::new(),
            flags: Vec::new(),
            limits: Vec::new(),
            uid: None,
            server: binaries().server.clone(),
        };
        assert!(
            setup.socket().as_os_str().len() < 100,
            "the temporary directory's name is too long"
        );
        let path = |name: &str| setup.dir.path().join(name).into_os_string();
        setup.env = BTreeMap::from([
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), path("home")),
            ("TOOL_SOCKET".into(), path("run/tool.sock")),
            ("TOOL_CONTROL_SOCKET".into(), path("run/control.sock")),
            ("TOOLS_DIR".into(), path("tools.d")),
            ("WORKSPACE".into(), path("ws")),
            ("RESTRICTED_DIR".into(), path("restricted")),
            ("STATE_DIR".into(), path("state")),
        ]);
        setup.tool("sh", r#"{"binary":"/bin/sh"}"#);
        setup
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The workspace.
    pub fn ws(&self) -> PathBuf {
        self.path("ws")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/tool.sock")
    }

    pub fn control_socket(&self) -> PathBuf {
        self.path("run/control.sock")
    }

    /// Writes `tools.d/NAME/tool.json` where the text begins with `{`, else
    /// `tool.toml`: by rename, so that no server ever sees half of it.
    pub fn tool(&self, name: &str, definition: &str) {
        let form = if definition.trim_start().starts_with('{') { "json" } else { "toml" };
        self.file(format!("tools.d/{name}/tool.{form}"), definition, 0o644);
    }

    /// Tools by their binaries: `("cat", "/bin/cat")`.
    pub fn tools(&self, tools: &[(&str, &str)]) {
        for (name, binary) in tools {
            self.tool(name, &format!("{{\"binary\":\"{binary}\"}}"));
        }
    }

    /// Writes a file with its mode, its directories 0755, by rename.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>, bits: u32) -> PathBuf {
        let path = self.path(name);
        let parent = path.parent().expect("a parent");
        let mut missing: Vec<&Path> = parent.ancestors().take_while(|dir| !dir.exists()).collect();
        while let Some(dir) = missing.pop() {
            fs::create_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
            mode(dir, 0o755);
        }
        let new = self.path(format!("new-{}", path.file_name().expect("a name").display()));
        write(&new, content.as_ref(), bits & 0o111 != 0);
        mode(&new, bits);
        fs::rename(&new, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// The server's config file; also passes `--config`.
    pub fn config(&mut self, toml: &str) {
        let path = self.file("server.toml", toml, 0o644);
        self.flag("--config");
        self.flag(path);
    }

    /// Sets a variable of the server's environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        self.env.insert(name.as_ref().into(), value.as_ref().into());
    }

    /// Takes one away.
    pub fn without_env(&mut self, name: impl AsRef<OsStr>) {
        self.env.remove(name.as_ref());
    }

    /// A flag (or its value) for `serve` and every other verb.
    pub fn flag(&mut self, flag: impl AsRef<OsStr>) {
        self.flags.push(flag.as_ref().into());
    }

    /// A resource limit of the server.
    pub fn limit(&mut self, resource: Resource, soft: u64, hard: u64) {
        self.limits.push((resource, soft, hard));
    }

    /// Runs the server as another user (the tests must run as root); what it
    /// writes to is made that user's.
    pub fn uid(&mut self, uid: u32) {
        for name in ["ws", "state", "run", "home"] {
            std::os::unix::fs::chown(self.path(name), Some(uid), Some(uid)).expect("chown");
        }
        self.uid = Some(uid);
    }

    /// `tool-server VERB…` in this environment, with the configured flags.
    pub fn verb(&self, words: &[&str]) -> Command {
        let mut command = match self.uid {
            None => self.command(&self.server),
            Some(_) => self.command(&self.reachable(&self.server)),
        };
        command.args(words).args(&self.flags);
        command
    }

    /// `tool-server serve`, with the limits and the user; see `Server::start`.
    pub fn serve(&self) -> Command {
        let mut command = self.verb(&["serve"]);
        self.confine(&mut command);
        command
    }

    /// Any program in the server's environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.env).current_dir(self.dir()).stdin(Stdio::null());
        command
    }

    /// Runs this server instead of the ordinary one.
    pub fn server(&mut self, program: &Path) {
        self.server = program.to_owned();
    }

    /// Applies the limits and the user to a command.
    pub fn confine(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt as _;
        for (resource, soft, hard) in &self.limits {
            crate::sys::limit(command, *resource, *soft, *hard);
        }
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
    }

    /// A symlink of that name to tool-client, run in the workspace. Its
    /// environment is PATH, HOME, LANG and TOOL_SOCKET, and what the tests have
    /// open above 2 stays theirs.
    pub fn client(&self, tool: &str) -> Command {
        let link = self.path("bin").join(tool);
        if fs::symlink_metadata(&link).is_err() {
            match symlink("tool-client", &link) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made.expect("symlink"),
            }
        }
        let mut command = Command::new(link);
        command.env_clear().current_dir(self.ws()).stdin(Stdio::null());
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.path("home")).env("LANG", "C.UTF-8");
        command.env("TOOL_SOCKET", self.socket());
        crate::sys::only_standard(&mut command);
        command
    }

    /// A copy of a program where every user may run it: the build directory may
    /// lie where only we can go.
    pub fn reachable(&self, program: &Path) -> PathBuf {
        let copy = self.path(program.file_name().expect("a name"));
        if !copy.exists() {
            // By cp: see `write` below.
            let done = Command::new("cp").arg(program).arg(&copy).status().expect("cp");
            assert!(done.success());
            mode(&copy, 0o755);
        }
        copy
    }

    /// What the server said so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("server.log")).unwrap_or_default()).into_owned()
    }
}

/// A killed server cannot remove the cgroups that it made; its log names them.
impl Drop for Setup {
    fn drop(&mut self) {
        for rest in self.log().split("cgroup.kill beneath ").skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            if name.starts_with("/sys/fs/cgroup/") && name.contains("/tool-server-") {
                for entry in fs::read_dir(name).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir(entry.path());
                }
                let _ = fs::remove_dir(name);
            }
        }
    }
}

/// Writes a file. A program is written by another process: a test beside us
/// that forks at that moment would hold our descriptor open for writing, and the
/// kernel refuses to run such a file (ETXTBSY).
fn write(path: &Path, content: &[u8], program: bool) {
    if !program {
        fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", "cat > \"$1\"", "sh"]).arg(path);
    assert_eq!(crate::run(&mut sh, content).code(), Some(0), "{}", path.display());
}

/// Sets the mode of a path.
pub fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

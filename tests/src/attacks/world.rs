//! A server, what it protects, and an attacker's workspace.
//!
//! | path | what |
//! | --- | --- |
//! | `ws/row/day` | the repository of a row; all of `ws` is the attacker's |
//! | `ws/attack/` | the attacker's program, and what it got |
//! | `outside/` | open to every user: what is there is safe by confinement alone |
//! | `secrets/token` | the credential, which every user could read |
//! | `forge/` | repositories that only the credential opens |

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::harm::{Harm, Listing, Secrets, listing};
use super::recorder::Recorder;
use super::table::Row;
use crate::process::descendants;
use crate::setup::mode;
use crate::{Forge, Outcome, Running, Server, Setup, eventually_some, is_root, run, spawn};

/// As whom tools run, and how they are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The server is root, and tools run as the workspace's owner.
    pub owner: bool,
    /// `sandbox.level`.
    pub level: &'static str,
}

/// Those that this machine can show: each user and each level once, or with
/// `TOOL_TESTS_LONG` each of the one with each of the other.
pub fn modes() -> Vec<Mode> {
    let all = [(true, "auto"), (false, "landlock"), (false, "auto"), (true, "landlock")];
    let wanted = if std::env::var_os("TOOL_TESTS_LONG").is_some() || !is_root() { 4 } else { 2 };
    let here = |(owner, level): (bool, _)| (!owner || is_root()).then_some(Mode { owner, level });
    all.into_iter().take(wanted).filter_map(here).collect()
}

/// The attacker, whoever runs the tests.
const NOBODY: u32 = 65534;

/// The world.
#[allow(missing_debug_implementations, reason = "holds a running command")]
pub struct World {
    pub server: Option<Server>,
    pub forge: Forge,
    setup: Option<Setup>,
    victim: Option<Running>,
    victims: Vec<i32>,
    recorder: Recorder,
    secrets: Secrets,
    outside: Listing,
    others: Listing,
    refs: String,
    base: PathBuf,
}

impl World {
    /// With these definitions, in which `{forge}` and `{token}` are filled in;
    /// without a mode there is no server: calls are native.
    pub fn new(held: Option<Mode>, tools: &[(&str, &str)]) -> World {
        World::with(held, tools, |_| {})
    }

    /// The same, with more said about the server.
    pub fn with(
        held: Option<Mode>,
        tools: &[(&str, &str)],
        prepare: impl FnOnce(&mut Setup),
    ) -> World {
        let mut setup = Setup::new();
        let base = setup.dir().to_owned();
        let outside = base.join("outside");
        fs::create_dir(&outside).expect("outside");
        let secret = |name: &str| format!("CANARY-{name}-{}-q8Zt", std::process::id());
        let (token, kept, theirs, other) =
            (secret("token"), secret("outside"), secret("environment"), secret("home"));
        furnish(&outside, &kept);
        let recorder = Recorder::start(&outside);
        let forge = Forge::start(&base.join("forge"), &token);
        for name in ["o/r", "private/secrets"] {
            forge.repository(name);
        }
        setup.file("secrets/token", format!("{token}\n"), 0o644);
        let fill = |text: &str| {
            text.replace("{forge}", &forge.url())
                .replace("{token}", &base.join("secrets/token").display().to_string())
                .replace("{base}", &base.display().to_string())
                .replace("{port}", &recorder.port.to_string())
        };
        for (name, definition) in tools {
            setup.tool(name, &fill(definition));
            let grammar = crate::project().join("tools.d").join(name).join("grammar.toml");
            if let Ok(text) = fs::read(grammar) {
                setup.file(format!("tools.d/{name}/grammar.toml"), text, 0o644);
            }
        }
        let victim = format!(
            "binary = \"/bin/sleep\"\ndefault = \"allow\"\nfacts = \"none\"\n[env]\nset = {{ THEIRS = \"{theirs}\" }}\n"
        );
        setup.tool("victim", &victim);
        if let Some(held) = held {
            if !held.owner && is_root() {
                setup.uid(NOBODY);
            }
            setup.env("TOOL_SANDBOX_LEVEL", held.level);
            // Nobody answers.
            setup.env("TOOL_APPROVALS_TIMEOUT", "0.2");
        }
        // What a call must not have of the server's own.
        setup.env("FORGE_TOKEN", &token);
        prepare(&mut setup);
        if is_root() {
            chown(setup.ws(), Some(NOBODY), Some(NOBODY)).expect("chown");
            chown(&outside, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
        setup.file("state/home/other/secret", format!("{other}\n"), 0o644);
        for name in ["state/home", "state/home/other"] {
            mode(&base.join(name), 0o755);
            if held.is_some_and(|held| !held.owner) && is_root() {
                chown(base.join(name), Some(NOBODY), Some(NOBODY)).expect("chown");
            }
        }
        let mut world = World {
            server: None,
            refs: forge.refs("o/r"),
            forge,
            setup: Some(setup),
            victim: None,
            victims: Vec::new(),
            recorder,
            secrets: Secrets::new(&[
                ("the token", &token),
                ("the secret outside", &kept),
                ("another call's environment", &theirs),
                ("another tool's secret", &other),
            ]),
            outside: Listing::new(),
            others: Listing::new(),
            base,
        };
        if held.is_some() {
            world.serve();
        }
        world.arm(held);
        world.outside = listing(&world.base.join("outside"));
        world.others = world.protected();
        world
    }

    fn serve(&mut self) {
        let server = Server::start_in(self.setup.take().expect("a setup"));
        if server.status()["confinement"]["level"] == json!("none") {
            self.victims = vec![server.pid()];
            self.server = Some(server);
            return;
        }
        // Another call, with a secret in its environment, for as long as all this
        // takes.
        self.victim = Some(spawn(server.client("victim").arg("3000")));
        let sleeper = eventually_some("the other call runs", || {
            let all = descendants(server.pid());
            all.into_iter().find(|process| {
                fs::read(format!("/proc/{}/cmdline", process.pid))
                    .is_ok_and(|line| line.ends_with(b"\x003000\0"))
            })
        });
        self.victims = vec![server.pid(), sleeper.pid];
        self.server = Some(server);
    }

    /// Puts the attacker's program where it may lie.
    fn arm(&self, held: Option<Mode>) {
        let home = self.ws().join("attack");
        fs::create_dir(&home).expect("attack");
        let from = crate::project().join("tests/attacks/payload.py");
        fs::copy(from, home.join("payload.py")).expect("payload.py");
        let text = |name: &str| self.base.join(name).display().to_string();
        let world = json!({
            "base": text(""), "outside": text("outside"), "token": text("secrets/token"),
            "state": text("state"), "tools": text("tools.d"), "log": text("server.log"),
            "control": text("run/control.sock"), "socket": text("run/tool.sock"),
            "unix": self.recorder.unix, "unix_datagram": self.recorder.datagram,
            "abstract": self.recorder.hidden, "port": self.recorder.port,
            "victims": self.victims, "gate": true,
            "shared": held.is_none_or(|held| !held.owner),
            "level": held.map_or("native", |held| held.level),
        });
        fs::write(home.join(".world.json"), world.to_string()).expect(".world.json");
        let start =
            format!("#!/bin/sh\nexec /usr/bin/python3 -IS {}/payload.py \"$@\"\n", home.display());
        fs::write(home.join("payload"), start).expect("payload");
        // Whoever runs it may write there.
        for path in [home.clone(), home.join("payload"), home.join(".world.json")] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("chmod");
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("chown");
            }
        }
    }

    fn setup(&self) -> &Setup {
        match (&self.server, &self.setup) {
            (Some(server), _) => server,
            (None, Some(setup)) => setup,
            (None, None) => unreachable!("a world has one of them"),
        }
    }

    pub fn ws(&self) -> PathBuf {
        self.base.join("ws")
    }

    /// The directory in which a row is run.
    pub fn day(&self) -> PathBuf {
        self.ws().join("row/day")
    }

    /// Runs lines of a shell as the attacker, without the broker.
    pub fn plant(&self, lines: &str) -> Outcome {
        self.shell(lines, Path::new("/nonexistent"), true)
    }

    fn shell(&self, lines: &str, first: &Path, natively: bool) -> Outcome {
        let mut sh = Command::new("/bin/sh");
        sh.args(["-c", lines]).env_clear().current_dir(self.day());
        sh.env("PATH", format!("{}:/usr/bin:/bin", first.display())).env("LANG", "C.UTF-8");
        sh.env("HOME", self.ws()).env("TOOL_SOCKET", self.base.join("run/tool.sock"));
        // Whatever the caller has is offered.
        sh.env("TOOL_FORWARD_ENV", "*");
        for who in ["AUTHOR", "COMMITTER"] {
            sh.env(format!("GIT_{who}_NAME"), "Some One");
            sh.env(format!("GIT_{who}_EMAIL"), "some.one@example.org");
        }
        crate::sys::only_standard(&mut sh);
        if is_root() && natively {
            sh.uid(NOBODY).gid(NOBODY);
        }
        run(&mut sh, b"")
    }

    /// The places that rows name.
    fn lines(&self, row: &Row) -> (String, String) {
        let (payload, outside) = (self.ws().join("attack/payload"), self.base.join("outside"));
        let token = self.base.join("secrets/token");
        let victim =
            PathBuf::from(self.victims.last().map_or_else(|| "self".to_owned(), i32::to_string));
        let (port, hidden) = (self.recorder.port.to_string(), self.recorder.hidden.as_str());
        let (port, hidden) = (Path::new(&port), Path::new(hidden));
        row.lines(&[
            ("port", port),
            ("hidden", hidden),
            ("p", &payload),
            ("o", &outside),
            ("token", &token),
            ("victim", &victim),
            ("base", &self.base),
        ])
    }

    /// Makes `ws/row` anew by these lines, or as they left it the last time.
    pub fn prepare(&self, lines: &str) {
        let (row, kept) = (self.ws().join("row"), self.base.join("kept"));
        let _ = fs::remove_dir_all(&row);
        for name in [".ran", ".loot"] {
            let _ = fs::remove_file(self.ws().join("attack").join(name));
        }
        if !kept.exists() {
            fs::create_dir_all(self.day()).expect("ws/row/day");
            if is_root() {
                for path in [row.clone(), self.day()] {
                    chown(path, Some(NOBODY), Some(NOBODY)).expect("chown");
                }
            }
            let outcome = self.plant(lines);
            assert_eq!(outcome.code(), Some(0), "{outcome:?}");
            fs::rename(&row, &kept).expect("rename");
        }
        let mut cp = Command::new("cp");
        assert!(run(cp.arg("-a").arg(kept).arg(row), b"").code() == Some(0), "cp");
    }

    /// Leaves what the row leaves, calls what it calls; whether the attacker's
    /// program ran, and what harm was done.
    pub fn attack(&self, row: &Row, tools: &[&str]) -> (bool, Harm, Outcome) {
        let (plant, call) = self.lines(row);
        let planted = self.plant(&plant);
        let ran = self.ws().join("attack/.ran");
        let _ = fs::remove_file(&ran);
        let _ = fs::remove_file(self.ws().join("attack/.loot"));
        if let Some(server) = &self.server {
            for tool in tools {
                drop(server.client(tool)); // makes the symlink
            }
        }
        let natively = self.server.is_none();
        if natively {
            // `net` is a shell.
            let _ = symlink("/bin/sh", self.base.join("home/net"));
        }
        let first = self.base.join(if natively { "home" } else { "bin" });
        let outcome = self.shell(&call, &first, natively);
        let harm = self.harm(&outcome);
        let _ = planted;
        (ran.exists(), harm, outcome)
    }

    /// What has happened that must not.
    fn harm(&self, outcome: &Outcome) -> Harm {
        let mut harm = Harm::default();
        harm.bytes("stdout", &outcome.stdout, &self.secrets);
        harm.bytes("stderr", &outcome.stderr, &self.secrets);
        harm.files(&self.ws(), &self.secrets);
        // They would lead us where the tool could not go.
        let _ = fs::remove_file(self.day().join(".git/objects/info/alternates"));
        harm.objects(&self.day().join(".git"), &self.secrets);
        for heard in self.recorder.take() {
            harm.add(format!("somebody called: {}", heard.escape_debug()));
        }
        compare(&mut harm, "outside", &self.outside, &listing(&self.base.join("outside")));
        compare(&mut harm, "protected", &self.others, &self.protected());
        let asked = self.forge.take();
        let refs = if asked.is_empty() { self.refs.clone() } else { self.forge.refs("o/r") };
        for asked in asked {
            if asked.line.contains("/private/") {
                harm.add(format!("the forge was asked: {}", asked.line));
            }
            let foreign = ["cookie:", "x-forwarded-for:", "authorization: basic edp5"];
            let lines = asked.headers.iter().map(|line| line.to_ascii_lowercase());
            for line in lines.filter(|line| foreign.iter().any(|bad| line.starts_with(bad))) {
                harm.add(format!("the forge was told: {line}"));
            }
        }
        for line in self.refs.lines().filter(|line| !refs.contains(line)) {
            harm.add(format!("the forge has no more: {line}"));
        }
        // No rule lets a push make the one, no row pushes the other.
        for name in ["protected", "stolen"] {
            if refs.contains(name) {
                harm.add(format!("the forge has a ref {name}"));
            }
        }
        if let Some(server) = &self.server {
            for pid in &self.victims {
                if !crate::alive(*pid) {
                    harm.add(format!("process {pid} is dead"));
                }
            }
            let _ = server;
        }
        harm
    }

    /// What lies on the server's side and is no workspace and no HOME in use.
    fn protected(&self) -> Listing {
        let mut all = listing(&self.base.join("tools.d"));
        all.extend(listing(&self.base.join("state/home/other")));
        all.extend(listing(&self.base.join("secrets")));
        all
    }

    /// What the attacker's program wrote down, errors too.
    pub fn loot(&self) -> String {
        let loot = fs::read(self.ws().join("attack/.loot")).unwrap_or_default();
        String::from_utf8_lossy(&loot).into_owned()
    }

    /// Whether tools are held by namespaces here.
    pub fn has_namespaces(&self) -> bool {
        let status = self.server.as_ref().map(Server::status).unwrap_or_default();
        status["confinement"]["level"] == json!("namespaces")
    }

    /// What the server wrote, in which no token may be.
    pub fn written(&self) -> Harm {
        let mut harm = Harm::default();
        harm.files(&self.base.join("state/audit"), &self.secrets);
        harm.bytes("the log", self.setup().log().as_bytes(), &self.secrets);
        harm
    }

    /// After an attack that did harm all is made good.
    pub fn mend(&mut self) {
        let outside = self.base.join("outside");
        let sockets = [self.recorder.unix.clone(), self.recorder.datagram.clone()];
        for entry in fs::read_dir(&outside).expect("outside").flatten() {
            let path = entry.path();
            if sockets.contains(&path) {
                continue;
            }
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&path);
        }
        let kept = format!("CANARY-outside-{}-q8Zt", std::process::id());
        furnish(&outside, &kept);
        self.outside = listing(&outside);
        self.recorder.take();
        if self.forge.refs("o/r") != self.refs {
            let _ = fs::remove_dir_all(self.base.join("forge/o/r.git"));
            self.forge.repository("o/r");
            self.refs = self.forge.refs("o/r");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The server first: its end ends the other call.
        drop(self.server.take());
        if let Some(victim) = self.victim.take() {
            victim.wait();
        }
    }
}

/// What lies outside, for everybody to take.
fn furnish(outside: &Path, secret: &str) {
    let put = |name: &str, text: &str| {
        let path = outside.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        mode(&path, 0o666);
    };
    put("secret.txt", &format!("{secret}\n"));
    put("target.txt", "untouched\n");
    put("empty.txt", "");
    put("config.txt", &format!("[core]\n\tx = {secret}\n"));
    put("mailmap.txt", &format!("{secret} <some.one@example.org>\n"));
    let script = "git init -q --template= --bare repo.git; printf '%s\\n' \"$0\" | git --git-dir=repo.git hash-object -w --stdin > repo.git/secret-object; \
        t=$(git --git-dir=repo.git mktree </dev/null); c=$(git --git-dir=repo.git -c user.name=x -c user.email=x@x commit-tree -m x $t); \
        git --git-dir=repo.git update-ref refs/heads/main $c; git --git-dir=repo.git update-ref refs/blob $(cat repo.git/secret-object); chmod -R a+rwX repo.git";
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", script, secret]).current_dir(outside).env("HOME", "/nonexistent");
    let outcome = run(&mut sh, b"");
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    mode(outside, 0o777);
    if is_root() {
        let mut chown = Command::new("chown");
        run(chown.args(["-R", "65534:65534"]).arg(outside), b"");
    }
}

fn compare(harm: &mut Harm, place: &str, was: &Listing, is: &Listing) {
    for (name, what) in is {
        if was.get(name) != Some(what) {
            harm.add(format!("{place}: {name} is new or another"));
        }
    }
    for name in was.keys().filter(|name| !is.contains_key(*name)) {
        harm.add(format!("{place}: {name} is gone"));
    }
}

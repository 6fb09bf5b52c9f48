//! `[limits]` of a call as a whole, where its cgroup can have them: real controllers, in
//! a cgroup of the test's own. On many machines they belong to version 1: skipped there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, is_root, run, skipped};

/// A cgroup of version 2 with these controllers, in which nothing is.
struct Place {
    root: PathBuf,
    path: PathBuf,
    /// Was switched on for this.
    made: bool,
    controller: &'static str,
    /// One switches on what another one switches off.
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn new(test: &str, controller: &'static str) -> Option<Place> {
        if !is_root() {
            skipped(test, "no cgroup can be made");
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(at))
        });
        let has = |root: &Path, file: &str| {
            let words = fs::read_to_string(root.join(file)).unwrap_or_default();
            words.split_whitespace().any(|word| word == controller)
        };
        let Some(root) = root.filter(|root| has(root, "cgroup.controllers")) else {
            skipped(test, &format!("the controller {controller} is not in version 2 here"));
            return None;
        };
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = !has(&root, "cgroup.subtree_control");
        if made && fs::write(root.join("cgroup.subtree_control"), format!("+{controller}")).is_err()
        {
            skipped(test, &format!("the controller {controller} cannot be switched on here"));
            return None;
        }
        let path = root.join(format!("tool-tests-{controller}-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup");
        Some(Place { root, path, made, controller, _alone: alone })
    }

    /// A command that begins in it.
    fn holds(&self, command: &Command) -> Command {
        let mut within = Command::new("/bin/sh");
        within.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.path);
        within.arg(command.get_program()).args(command.get_args());
        within
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        within
    }

    fn said(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).expect(file)
    }

    fn serve(&self, prepare: impl FnOnce(&mut Setup)) -> Server {
        let mut setup = Setup::new();
        setup.env("TOOL_CGROUP", "auto");
        prepare(&mut setup);
        let command = self.holds(&setup.serve());
        Server::start_command(setup, command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if self.made {
            fs::write(self.root.join("cgroup.subtree_control"), format!("-{}", self.controller))
                .ok();
        }
    }
}

fn call(server: &Server, tool: &str, script: &str) -> Value {
    let request = json!({"tool":tool,"args":["-c",script],"cwd":server.ws()});
    server.connect().call(&request)
}

/// So many more of 60 began, each in a session of its own.
const FORK: &str = "import os, signal
made = []
for _ in range(60):
    try: pid = os.fork()
    except OSError: break
    if pid == 0: os.setsid(); signal.pause()
    made.append(pid)
print(len(made))
for pid in made: os.kill(pid, 9)";

#[test]
fn the_processes_of_a_call_are_bounded_together() {
    const NAME: &str = "the_processes_of_a_call_are_bounded_together";
    let Some(place) = Place::new(NAME, "pids") else { return };
    let python = "binary = \"/usr/bin/python3\"\n";
    let gate =
        "[sandbox]\nnetwork = \"always\"\n[[gate]]\nadapter = \"http\"\nhosts = [\"a.example\"]\n";
    let server = place.serve(|setup| {
        setup.tool("free", python);
        setup.tool("bound", &format!("{python}[limits]\nprocesses = 20\n"));
        setup.tool("gated", &format!("{python}[limits]\nprocesses = 20\n{gate}"));
    });
    let confinement = server.status()["confinement"].clone();
    let uses = confinement["cgroups"].to_string();
    assert!(uses.contains("\"kill\",\"pids\""), "{confinement}");
    // The server has gone into a leaf, so that its cgroup may have controllers.
    assert_eq!(place.said("cgroup.procs"), "");
    assert!(place.said("cgroup.subtree_control").contains("pids"));
    for _ in 0..2 {
        // The first of the twenty is the tool itself.
        assert_eq!(call(&server, "bound", FORK)["stdout"], json!("19\n"));
        assert_eq!(call(&server, "gated", FORK)["stdout"], json!("19\n"));
        // What one call is bounded by is no other one's.
        assert_eq!(call(&server, "free", FORK)["stdout"], json!("60\n"));
    }
    let told = run(&mut server.verb(&["status"]), b"").success();
    assert!(told.contains(", cgroups: kill, pids"), "{told}");
    // Nothing of it is left.
    let _setup = server.stop(Signal::SIGTERM);
    let below = || fs::read_dir(&place.path).expect("a cgroup").flatten();
    eventually("its cgroups are gone", || below().all(|entry| !entry.path().is_dir()));
}

#[test]
fn the_memory_of_a_call_is_bounded_together_and_who_ended_it_is_told() {
    const NAME: &str = "the_memory_of_a_call_is_bounded_together_and_who_ended_it_is_told";
    let Some(place) = Place::new(NAME, "memory") else { return };
    let server = place.serve(|setup| {
        // Of address space each has as much; there are four.
        setup
            .tool("bound", "binary = \"/usr/bin/python3\"\n[limits]\nmemory_bytes = 300_000_000\n");
    });
    let fill = "import os, time
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(os.urandom(1) * 150_000_000); time.sleep(60)
time.sleep(60)";
    let reply = call(&server, "bound", fill);
    assert_eq!(reply["signal"], json!("KILL"), "{reply}");
    let said = reply["error"].as_str().expect("why");
    assert!(said.contains("memory limit of its definition"), "{said}");
    let reply = call(&server, "bound", "print('fine')");
    assert_eq!((&reply["stdout"], &reply["error"]), (&json!("fine\n"), &Value::Null));
}

#[test]
fn where_others_are_in_its_cgroup_the_server_moves_nobody_and_says_what_lacks() {
    const NAME: &str = "where_others_are_in_its_cgroup_the_server_moves_nobody_and_says_what_lacks";
    let Some(place) = Place::new(NAME, "pids") else { return };
    let mut other = Command::new("sleep");
    let mut other = place.holds(other.arg("600")).spawn().expect("sleep");
    eventually("it is there", || place.said("cgroup.procs").trim() == other.id().to_string());
    let server = place.serve(|setup| setup.tool("free", "binary = \"/usr/bin/python3\"\n"));
    let confinement = server.status()["confinement"].clone();
    assert_eq!(confinement["cgroups"], json!(["kill"]), "{confinement}");
    let missing = confinement["missing"].to_string();
    assert!(missing.contains("other processes") && missing.contains("Delegate=yes"), "{missing}");
    assert!(place.said("cgroup.procs").contains(&other.id().to_string()));
    assert_eq!(call(&server, "free", FORK)["stdout"], json!("60\n"));
    drop(server);
    other.kill().expect("kill");
    other.wait().expect("wait");
}

#[test]
fn where_calls_can_have_no_cgroups_status_says_so() {
    let missing = |cgroup: &str| {
        let server = Server::start(|s| s.env("TOOL_CGROUP", cgroup));
        assert_eq!(call(&server, "sh", "echo ran")["stdout"], json!("ran\n"));
        let confinement = server.status()["confinement"].clone();
        assert_eq!(confinement["cgroups"], json!([]), "{confinement}");
        confinement["missing"].to_string().contains("cgroups: none can be made")
    };
    assert!(missing("/nonexistent/cgroup"));
    // Nobody has asked for any.
    assert!(!missing("off"));
}

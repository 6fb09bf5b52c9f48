//! The server is killed at each system call of the main path, under load, and
//! while it starts: every call that was accepted is in the audit once, as
//! finished or interrupted, and no line is torn.

mod audit_help;
mod reliability_help;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use audit_help::{Strace, directory, head, journal, lines, verb};
use nix::sys::signal::Signal;
use reliability_help::{a_moment, random};
use serde_json::{Value, json};
use tool_broker_tests::server::healthy;
use tool_broker_tests::{Running, Server, Setup, Wire, eventually, process, skipped, spawn};

/// How often; `TOOL_TESTS_LONG` makes it as often as the documents say.
fn rounds(short: usize) -> usize {
    if std::env::var_os("TOOL_TESTS_LONG").is_some() { 200 } else { short }
}

/// The calls of a round, told apart by their last word.
struct Round {
    clients: Vec<(String, Running)>,
    wires: Vec<(String, Wire)>,
}

impl Round {
    /// Begins some of every kind. Each tool leaves a file with its word as soon as
    /// it runs; some go on until they are ended.
    fn begin(server: &Server, name: &str) -> Round {
        let (mut clients, mut wires) = (Vec::new(), Vec::new());
        let text = |word: &str, stays: bool| {
            format!(": > ran/{word}; {}", if stays { "exec sleep 30" } else { "exit 3" })
        };
        for (index, stays) in [false, true, false].into_iter().enumerate() {
            let word = format!("{name}-c{index}");
            let mut client = server.client("sh");
            clients.push((word.clone(), spawn(client.args(["-c", &text(&word, stays), &word]))));
        }
        for (index, (stdio, stays)) in
            [("buffered", false), ("stream", true), ("buffered", false)].into_iter().enumerate()
        {
            let word = format!("{name}-w{index}");
            let Ok(mut wire) = Wire::try_connect(&server.socket()) else { continue };
            let request = json!({"tool":"sh","args":["-c",text(&word, stays),word],"cwd":server.ws(),"stdio":stdio});
            let frame = tool_broker_tests::wire::frame(request.to_string().as_bytes());
            if wire.try_send(&frame).is_ok() {
                wires.push((word, wire));
            }
        }
        Round { clients, wires }
    }

    /// Words of the calls whose callers were told of their tool's end.
    fn answered(self) -> Vec<String> {
        let mut answered = Vec::new();
        for (word, mut client) in self.clients {
            // Not its output: a tool that was just born when its server was killed
            // lives until the next one starts.
            if client.wait_status().code() == Some(3) {
                answered.push(word);
            }
        }
        for (word, mut wire) in self.wires {
            let told = wire.until_closed().into_iter().any(|frame| {
                let value: Value = serde_json::from_slice(&frame).unwrap_or_default();
                value["exit_code"] == json!(3)
            });
            if told {
                answered.push(word);
            }
        }
        answered
    }
}

/// What is known of accepted calls when a server is dead.
#[derive(Default)]
struct Accepted {
    /// By word: whether its caller was told of its end.
    calls: BTreeMap<String, bool>,
}

impl Accepted {
    fn note(&mut self, setup: &Setup, answered: Vec<String>) {
        let entry = |entry: Value| entry["argv"][3].as_str().map(str::to_owned);
        for word in journal(setup).into_iter().filter_map(entry) {
            self.calls.entry(word).or_default();
        }
        for file in fs::read_dir(setup.ws().join("ran")).expect("ran").flatten() {
            let word = file.file_name().into_string().expect("a word");
            self.calls.entry(word).or_default();
            fs::remove_file(file.path()).expect("rm");
        }
        for word in answered {
            self.calls.insert(word, true);
        }
    }

    /// After the next start.
    #[track_caller]
    fn check(&self, setup: &Setup) {
        head(setup);
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in lines(setup) {
            if let Some(word) = line["argv"][3].as_str() {
                found.entry(word.to_owned()).or_default().push(line);
            }
        }
        for (word, answered) in &self.calls {
            let of = found.get(word).map(Vec::as_slice).unwrap_or_default();
            let [line] = of else { panic!("{word} has {} lines: {of:?}", of.len()) };
            let ended = line["ended"].as_str().expect("an end");
            if *answered {
                assert_eq!((ended, &line["exit_code"]), ("exited", &json!(3)), "{line}");
            } else {
                let known = ["exited", "interrupted", "caller_gone", "not_started", "signaled"];
                assert!(known.contains(&ended), "{line}");
            }
        }
        for (word, of) in &found {
            assert_eq!(of.len(), 1, "{word}: {of:?}");
        }
    }
}

fn start() -> Server {
    let server = Server::start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.2");
        s.env("TOOL_AUDIT_MAX_BYTES", "30000");
        s.env("TOOL_AUDIT_KEEP", "0");
    });
    fs::create_dir(server.ws().join("ran")).expect("ran");
    server
}

#[test]
fn killed_at_each_system_call_every_accepted_call_is_in_the_audit_once() {
    let test = "killed_at_each_system_call_every_accepted_call_is_in_the_audit_once";
    let mut server = start();
    let mut accepted = Accepted::default();
    let rounds = rounds(30);
    let (mut died, mut left) = (0, 0);
    for round in 0..rounds {
        // Each thread counts its own calls. In turn those that write the audit,
        // and all that there are.
        let inject = match round % 3 {
            0 => format!("pwrite64:signal=SIGKILL:when={}", 1 + round / 3 % 6),
            1 => format!("all:signal=SIGKILL:when={}", 1 + round / 3 * 7 % 67),
            _ => format!("all:signal=SIGKILL:when={}", 1 + random() % 60),
        };
        let Some(strace) = Strace::of(server.pid(), &["tool-server", "door"], &inject) else {
            return skipped(test, "strace is not here, or may not trace");
        };
        let calls = Round::begin(&server, &format!("r{round}"));
        let start = Instant::now();
        // Some are never reached by any thread; on a busy machine the others take a while.
        while server.is_running() && start.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(2));
        }
        died += usize::from(!server.is_running());
        drop(strace);
        let setup = server.stop(Signal::SIGKILL);
        let answered = calls.answered();
        left += journal(&setup).len();
        accepted.note(&setup, answered);
        server = Server::start_in(setup);
        accepted.check(&server);
    }
    let interrupted =
        lines(&server).iter().filter(|line| line["ended"] == json!("interrupted")).count();
    eprintln!(
        "{rounds} rounds, {died} killed at a system call; {} calls accepted, {interrupted} interrupted, {left} entries left",
        accepted.calls.len()
    );
    assert!(died * 2 > rounds, "only {died} of {rounds} were killed at a system call");
    assert!(interrupted * 4 > rounds, "only {interrupted} calls were interrupted");
}

/// Without strace, which slows it down: at any moment, under load.
#[test]
fn killed_at_any_moment_under_load_every_accepted_call_is_in_the_audit_once() {
    let mut server = start();
    let mut accepted = Accepted::default();
    let rounds = rounds(12);
    for round in 0..rounds {
        let calls: Vec<Round> =
            (0..3).map(|part| Round::begin(&server, &format!("r{round}p{part}"))).collect();
        // Some began, however long that takes here; then at any moment.
        eventually("some calls run", || {
            fs::read_dir(server.ws().join("ran")).expect("ran").count() > 3
        });
        a_moment(40);
        let setup = server.stop(Signal::SIGKILL);
        let answered = calls.into_iter().flat_map(Round::answered).collect();
        accepted.note(&setup, answered);
        server = Server::start_in(setup);
        accepted.check(&server);
    }
    assert!(accepted.calls.len() > rounds * 3, "{} calls", accepted.calls.len());
}

/// Killed while it starts, at each call that changes a file, again and again.
#[test]
fn killed_while_it_recovers_it_goes_on_at_the_next_start() {
    let test = "killed_while_it_recovers_it_goes_on_at_the_next_start";
    let changes = "pwrite64,ftruncate,fallocate,fdatasync,fsync,rename,unlink,mkdir";
    for round in 0..rounds(24) / 8 {
        let server = start();
        let calls: Vec<Round> =
            (0..2).map(|part| Round::begin(&server, &format!("r{round}p{part}"))).collect();
        eventually("all of them run", || {
            fs::read_dir(server.ws().join("ran")).expect("ran").count() == 12
        });
        let mut setup = server.stop(Signal::SIGKILL);
        let mut accepted = Accepted::default();
        let answered = calls.into_iter().flat_map(Round::answered).collect();
        accepted.note(&setup, answered);
        assert!(accepted.calls.len() >= 12);
        for when in 1..=14 {
            let serve = setup.serve();
            let mut strace = setup.command("strace".as_ref());
            strace.args(["-o", "/dev/null", "-e", &format!("trace={changes}")]);
            strace.args(["-e", &format!("inject={changes}:signal=SIGKILL:when={when}")]);
            strace.arg(serve.get_program()).args(serve.get_args());
            let Some(mut began) = spawned(&mut strace) else {
                return skipped(test, "strace is not here");
            };
            eventually("it is killed, or serves", || {
                if healthy(&setup.socket()) {
                    // It has passed all that it changes: strace ends with it.
                    let pid = i32::try_from(began.0.id()).expect("a pid");
                    process::children(pid).iter().for_each(process::kill);
                }
                began.0.try_wait().expect("wait").is_some()
            });
            verb(&setup, &["--verify"]).success();
        }
        let server = Server::start_in(setup);
        accepted.check(&server);
        assert_eq!(journal(&server).len(), 0);
        assert!(!directory(&server).join("audit.jsonl.new").exists());
        setup = server.stop(Signal::SIGTERM);
        drop(setup);
    }
}

struct Began(std::process::Child);

impl Drop for Began {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawned(command: &mut Command) -> Option<Began> {
    tool_broker_tests::sys::die_with_parent(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok().map(Began)
}

//! The audit on stdout: each line as it is in the file, and a reader that
//! stalls or goes away costs lines there, never a call.

mod audit_help;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use audit_help::{head, lines, raw_lines};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::json;
use tool_broker_tests::{Exposition, Server, Setup, eventually, eventually_some, run};

const DROPPED: &str = "tool_server_audit_stdout_dropped_lines_total";

/// A server whose stdout is what the redirection says.
fn server_in(mut setup: Setup, redirection: &str) -> Server {
    setup.env("TOOL_AUDIT_STDOUT", "true");
    let serve = setup.serve();
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
    command.arg(serve.get_program()).args(serve.get_args());
    Server::start_command(setup, command)
}

fn fifo(setup: &Setup) {
    nix::unistd::mkfifo(&setup.path("out"), Mode::S_IRUSR | Mode::S_IWUSR).expect("mkfifo");
}

fn call(server: &Server, script: &str) -> Command {
    let mut command = server.client("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn each_line_of_the_audit_is_on_stdout_as_it_is_in_the_file() {
    let setup = Setup::new();
    setup.tool("never", "binary = \"/bin/true\"\ndefault = \"deny\"\n");
    let server = server_in(setup, ">>out");
    run(&mut call(&server, "exit 3"), b"");
    run(server.client("never").arg("a\nb"), b"").refused(126);
    run(server.client("nosuch").arg("\u{e9}"), b"").refused(127);
    let out = server.path("out");
    eventually("three lines are out", || fs::read_to_string(&out).unwrap().lines().count() == 3);
    // Also what a killed server has left is told by the next one.
    let mut under_way = call(&server, "echo there >flag; sleep 60").spawn().expect("spawn");
    eventually("it runs", || server.ws().join("flag").exists());
    let setup = server.stop(Signal::SIGKILL);
    under_way.wait().expect("wait");
    let server = server_in(setup, ">>out");
    run(&mut call(&server, "exit 4"), b"");
    let setup = server.stop(Signal::SIGTERM);
    let out = fs::read_to_string(out).unwrap();
    assert_eq!(out.lines().collect::<Vec<_>>(), raw_lines(&setup));
    let ended: Vec<_> = lines(&setup).iter().map(|line| line["ended"].clone()).collect();
    let wanted = ["exited", "refused", "refused", "interrupted", "exited"];
    assert_eq!(ended, wanted.map(|word| json!(word)));
}

#[test]
fn unless_it_is_asked_for_nothing_is_on_stdout() {
    let setup = Setup::new();
    let serve = setup.serve();
    let mut command = setup.command(Path::new("/bin/sh"));
    command.args(["-c", "exec \"$@\" >out", "sh"]).arg(serve.get_program()).args(serve.get_args());
    let server = Server::start_command(setup, command);
    run(&mut call(&server, "exit 3"), b"");
    assert!(server.status()["audit"].get("not_on_stdout").is_none());
    let setup = server.stop(Signal::SIGTERM);
    assert_eq!(fs::read(setup.path("out")).unwrap(), b"");
    assert_eq!(raw_lines(&setup).len(), 1);
}

#[test]
fn a_reader_that_stalls_holds_no_call_and_what_it_misses_is_counted() {
    let setup = Setup::new();
    fifo(&setup);
    let server = server_in(setup, "1<>out");
    // 60 KiB each: more than a pipe and the buffers take, by far.
    let long = "x".repeat(60 * 1024);
    let calls = 160;
    let mut wire = server.connect();
    for number in 0..calls {
        let args = json!(["-c", "exit 7", format!("{number} {long}")]);
        let reply = wire.call(&json!({"tool":"sh","args":args,"cwd":server.ws()}));
        assert_eq!(reply["exit_code"], 7);
    }
    let dropped = server.status()["audit"]["not_on_stdout"].as_u64().expect("a number");
    assert!((10..160).contains(&dropped), "{dropped}");
    let attention = server.status()["attention"].to_string();
    assert!(
        attention.contains(&format!("the audit on stdout lacks {dropped} lines")),
        "{attention}"
    );
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let wanted = Some(dropped as f64);
    assert_eq!(Exposition::of(&server).value(DROPPED, &[]), wanted);
    // The file is whole; who reads again gets whole lines, each from the file.
    let there = raw_lines(&server);
    assert_eq!(there.len(), calls);
    head(&server);
    let mut reader = BufReader::new(File::open(server.path("out")).expect("out"));
    let mut at = 0;
    for _ in 0..calls - usize::try_from(dropped).unwrap() {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let found = there.iter().skip(at).position(|whole| *whole == line.trim_end());
        at += 1 + found.unwrap_or_else(|| panic!("not in the file, or not in its order: {line}"));
    }
    run(&mut call(&server, "exit 9"), b"");
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    assert_eq!(raw_lines(&server).last().map(String::as_str), Some(line.trim_end()));
}

#[test]
fn a_stop_does_not_wait_for_a_reader_that_stalls() {
    let setup = Setup::new();
    fifo(&setup);
    let server = server_in(setup, "1<>out");
    let mut wire = server.connect();
    let long = "x".repeat(60 * 1024);
    for _ in 0..4 {
        let args = json!(["-c", "exit 7", long]);
        wire.call(&json!({"tool":"sh","args":args,"cwd":server.ws()}));
    }
    drop(wire);
    let begun = std::time::Instant::now();
    let setup = server.stop(Signal::SIGTERM);
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert_eq!(raw_lines(&setup).len(), 4);
    head(&setup);
}

#[test]
fn a_reader_that_went_away_is_no_trouble_and_is_counted() {
    let setup = Setup::new();
    fifo(&setup);
    let open = |setup: &Setup| {
        let mut options = File::options();
        options.read(true).custom_flags(nix::libc::O_NONBLOCK).open(setup.path("out")).expect("out")
    };
    let reader = open(&setup);
    let server = server_in(setup, ">out");
    drop(reader);
    for _ in 0..3 {
        assert_eq!(run(&mut call(&server, "exit 3"), b"").code(), Some(3));
    }
    eventually("three lines are counted", || server.status()["audit"]["not_on_stdout"] == 3);
    // One that comes later gets what is new.
    let mut reader = BufReader::new(open(&server));
    assert_eq!(run(&mut call(&server, "exit 4"), b"").code(), Some(4));
    let mut line = String::new();
    eventually_some("a line", || reader.read_line(&mut line).ok().filter(|_| line.ends_with('\n')));
    assert_eq!(raw_lines(&server).last().map(String::as_str), Some(line.trim_end()));
    assert_eq!(server.status()["audit"]["lines"], 4);
}

//! A full disk, by a real one that is small: what the broker needs of it is
//! refused with its code, what a tool needs of it fails in the tool.

mod reliability_help;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use reliability_help::{Tidy, script};
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, run, skipped, still_works};

/// A small file system over a directory; taken away when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        let options = "size=64k,nr_inodes=40,mode=0755";
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tool-tests"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Small(at.to_owned()))
    }

    /// Takes every inode and every block that is left.
    fn fill(&self) {
        fs::create_dir(self.0.join("filler")).expect("room for a directory");
        fs::write(self.0.join("filler/big"), "").expect("room for a file");
        let full = (0..1000).find(|n| fs::write(self.0.join(format!("filler/{n}")), "").is_err());
        assert!(full.is_some(), "a thousand files fit");
        let error = fs::write(self.0.join("filler/big"), vec![0; 1 << 20]).expect_err("1 MiB fits");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }

    fn free(&self) {
        fs::remove_dir_all(self.0.join("filler")).expect("free");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// A server with a small disk over one of its directories, and the disk. In
/// this order: the server goes first.
fn server_on(test: &str, name: &str, prepare: impl FnOnce(&mut Setup)) -> Option<(Tidy, Small)> {
    let mut setup = Setup::new();
    let Some(small) = Small::mount(&setup.path(name)) else {
        skipped(test, "no tmpfs can be mounted here");
        return None;
    };
    prepare(&mut setup);
    Some((Tidy::of(Server::start_in(setup)), small))
}

#[track_caller]
fn state_unavailable(reply: &Value) {
    let got = (&reply["code"], &reply["exit_code"]);
    assert_eq!(got, (&json!("state_unavailable"), &json!(125)), "{reply}");
}

#[test]
fn a_tool_whose_home_cannot_be_made_is_refused_until_there_is_room() {
    let test = "a_tool_whose_home_cannot_be_made_is_refused_until_there_is_room";
    let tools = |s: &mut Setup| {
        s.tools(&[("id", "/usr/bin/id"), ("echo", "/bin/echo")]);
        // Else this disk refuses every call: tests/audit_full.rs.
        s.env("TOOL_AUDIT_ON_FAILURE", "continue");
    };
    let Some((server, disk)) = server_on(test, "state", tools) else { return };
    let before = server.settled();
    disk.fill();
    let call =
        |tool: &str, stdio: &str| json!({"tool":tool,"args":["x"],"cwd":server.ws(),"stdio":stdio});
    for n in 0..50 {
        let stdio = ["buffered", "stream"][n % 2];
        let mut wire = server.connect();
        wire.send_json(&call("echo", stdio));
        let reply = if stdio == "stream" { wire.recv_stream().last } else { wire.recv_json() };
        state_unavailable(&reply);
    }
    let line = run(server.client("id").arg("x"), b"").refused(125);
    assert!(line.contains("HOME") && line.contains("space"), "does not say why: {line}");
    // One that has its HOME runs on a full disk all the same.
    still_works(&server);
    disk.free();
    assert_eq!(server.connect().call(&call("echo", "buffered"))["stdout"], json!("x\n"));
    assert_eq!(run(server.client("id").arg("-u"), b"").code(), Some(0));
    server.nothing_left(before);
    still_works(&server);
    drop((server, disk));
}

#[test]
fn a_tool_that_writes_into_a_full_workspace_fails_as_it_does_natively() {
    let test = "a_tool_that_writes_into_a_full_workspace_fails_as_it_does_natively";
    let tools = |s: &mut Setup| s.tools(&[("dd", "/bin/dd"), ("touch", "/usr/bin/touch")]);
    let Some((server, disk)) = server_on(test, "ws", tools) else { return };
    let before = server.settled();
    disk.fill();
    let dd = ["if=/dev/zero", "of=filler/big", "bs=4k", "count=100", "status=none"];
    for (tool, binary, args) in
        [("dd", "/bin/dd", &dd[..]), ("touch", "/usr/bin/touch", &["new"][..])]
    {
        let twin = tool_broker_tests::twin::Twin::new(&server, tool, binary);
        let outcome = twin.same(|command| {
            command.args(args);
        });
        assert_eq!(outcome.code(), Some(1), "{outcome:?}");
        assert!(outcome.err().contains("No space left on device"), "{outcome:?}");
    }
    still_works(&server);
    disk.free();
    assert_eq!(run(server.client("touch").arg("new"), b"").code(), Some(0));
    server.nothing_left(before);
    still_works(&server);
    drop((server, disk));
}

/// A server that finds no room at its start says so; one that has been there
/// before starts all the same, since it needs nothing new.
#[test]
fn a_server_on_a_full_state_directory_starts_or_says_why_not() {
    let test = "a_server_on_a_full_state_directory_starts_or_says_why_not";
    let mut setup = Setup::new();
    let Some(disk) = Small::mount(&setup.path("state")) else {
        return skipped(test, "no tmpfs can be mounted here");
    };
    disk.fill();
    let command = setup.serve();
    match Server::try_start(setup, command) {
        Ok(_) => panic!("it started without a lock in its state directory"),
        Err((status, log)) => {
            assert_eq!(status.code(), Some(1), "{log}");
            assert!(log.contains("state") && log.contains("space"), "does not say why: {log}");
        }
    }
    // It has taken its setup with it: another one, on the same disk's terms.
    drop(disk);
    setup = Setup::new();
    setup.env("TOOL_AUDIT_ON_FAILURE", "continue");
    let disk = Small::mount(&setup.path("state")).expect("it could be mounted before");
    let server = Server::start_in(setup);
    still_works(&server);
    setup = server.stop(Signal::SIGTERM);
    disk.fill();
    let mut server = Tidy::of(Server::start_in(setup));
    still_works(&server);
    let reply = server.connect().call(&script(&server, "buffered", "echo fine"));
    assert_eq!(reply["stdout"], json!("fine\n"), "{reply}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    drop((server, disk));
}

/// The log is on a full disk: calls are served all the same.
#[test]
fn a_log_that_cannot_be_written_does_not_stop_the_server() {
    let test = "a_log_that_cannot_be_written_does_not_stop_the_server";
    let mut setup = Setup::new();
    fs::create_dir(setup.path("log")).expect("a directory");
    let Some(disk) = Small::mount(&setup.path("log")) else {
        return skipped(test, "no tmpfs can be mounted here");
    };
    disk.fill();
    setup.env("TOOL_LOG", "debug");
    let serve = setup.serve();
    let mut command = setup.command("/bin/sh".as_ref());
    command.args(["-c", "exec \"$@\" >>filler/1 2>&1", "sh"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(setup.path("log"));
    let mut server = Tidy::of(Server::start_command(setup, command));
    let before = server.settled();
    for _ in 0..50 {
        still_works(&server);
    }
    server.nothing_left(before);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    drop((server, disk));
}

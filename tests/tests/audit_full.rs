//! An audit that cannot be written: a full disk, one that fails, each at every
//! place where it can happen. Calls are refused and nothing of one that ran is
//! lost; it goes on by itself.

mod audit_help;
mod reliability_help;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use audit_help::{Strace, head, lines};
use nix::sys::signal::Signal;
use reliability_help::{file_appears, script};
use serde_json::{Value, json};
use tool_broker_tests::{Server, Setup, eventually, run, skipped, still_works};

/// A small file system over the state directory; taken away when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,nr_inodes=60,mode=0755", "tool-tests"]).arg(at);
        mount.stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Small(at.to_owned()))
    }

    /// Takes every block that is left.
    fn fill(&self) {
        let error = fs::write(self.0.join("filler"), vec![0; 2 << 20]).expect_err("2 MiB fit");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("free");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).stderr(Stdio::null()).status();
    }
}

fn server_on_a_small_disk(test: &str, prepare: impl FnOnce(&mut Setup)) -> Option<(Server, Small)> {
    let mut setup = Setup::new();
    let Some(small) = Small::mount(&setup.path("state")) else {
        skipped(test, "no tmpfs can be mounted here");
        return None;
    };
    prepare(&mut setup);
    Some((Server::start_in(setup), small))
}

#[track_caller]
fn refused(reply: &Value) {
    let got = (&reply["code"], &reply["exit_code"]);
    assert_eq!(got, (&json!("audit_failed"), &json!(125)), "{reply}");
    let said = reply["error"].as_str().expect("an error");
    assert!(said.contains("audit") && said.contains("operator"), "says nothing to do: {said}");
}

fn ended<'a>(lines: &'a [Value], how: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["ended"] == json!(how)).collect()
}

/// Calls until one is refused: room that was kept is used up.
fn until_refused(server: &Server) -> (u32, Value) {
    for served in 0..5000 {
        let reply = server.connect().call(&script(server, "buffered", "true"));
        if reply["code"] != Value::Null {
            return (served, reply);
        }
    }
    panic!("5000 calls have room on a full disk");
}

#[test]
fn on_a_full_disk_calls_are_refused_and_those_under_way_keep_their_line() {
    let test = "on_a_full_disk_calls_are_refused_and_those_under_way_keep_their_line";
    let Some((server, disk)) = server_on_a_small_disk(test, |_| ()) else { return };
    still_works(&server);
    let mut under_way: Vec<_> = (0..4)
        .map(|n| {
            let mut wire = server.connect();
            let text = format!("touch up-{n}; until test -e go; do sleep 0.02; done");
            wire.send_json(&script(&server, "buffered", &text));
            wire
        })
        .collect();
    (0..4).for_each(|n| file_appears(&server, &format!("up-{n}")));
    disk.fill();
    let (served, reply) = until_refused(&server);
    refused(&reply);
    // Nothing runs that would not be recorded, by whatever way it comes.
    let line = run(server.client("sh").args(["-c", "touch ran"]), b"").refused(125);
    assert!(line.contains("space"), "does not say why: {line}");
    let mut wire = server.connect();
    wire.send_json(&script(&server, "stream", "touch ran"));
    refused(&wire.recv_stream().last);
    assert!(!server.ws().join("ran").exists(), "it ran");
    // Health and status tell.
    let health = server.connect().call(&json!({"op":"health"}));
    assert_eq!(health["ok"], json!(false), "{health}");
    let said = run(&mut server.verb(&["health"]), b"").refused(1);
    assert!(said.contains("audit") && said.contains("space"), "{said}");
    let said = run(server.client("tool-client").arg("--health"), b"").refused(125);
    assert!(said.contains("audit"), "{said}");
    assert_eq!(server.status()["audit"]["calls_are"], json!("refused"));
    let said = run(&mut server.verb(&["status"]), b"").success();
    assert!(said.contains("the audit cannot be written: No space left on device"), "{said}");
    let said = run(&mut server.verb(&["metrics"]), b"").success();
    let figure =
        said.lines().find_map(|line| line.strip_prefix("tool_server_audit_failures_total "));
    assert!(
        figure.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0)),
        "{said}"
    );
    // Those that were let begin have room for their lines.
    fs::write(server.ws().join("go"), "").expect("go");
    for wire in &mut under_way {
        assert_eq!(wire.recv_json()["exit_code"], json!(0));
    }
    assert_eq!(ended(&lines(&server), "exited").len(), usize::try_from(served).expect("few") + 6);
    // It goes on by itself, without a call.
    disk.free();
    eventually("the server is well again", || {
        server.connect().call(&json!({"op":"health"}))["ok"] == json!(true)
    });
    still_works(&server);
    let found = lines(&server);
    assert!(ended(&found, "refused").iter().all(|line| line["code"] == json!("audit_failed")));
    assert_eq!(ended(&found, "refused").len(), 3, "refused calls have their lines, later");
    assert_eq!(server.status()["audit"].get("trouble"), None);
    assert_eq!(server.status()["audit"]["waiting"], json!(0));
    head(&server);
    drop((server, disk));
}

#[test]
fn with_continue_calls_run_unrecorded_and_that_is_loud() {
    let test = "with_continue_calls_run_unrecorded_and_that_is_loud";
    let prepare = |s: &mut Setup| s.env("TOOL_AUDIT_ON_FAILURE", "continue");
    let Some((server, disk)) = server_on_a_small_disk(test, prepare) else { return };
    still_works(&server);
    disk.fill();
    let trouble = || server.status()["audit"]["calls_are"] == json!("run unrecorded");
    for _ in 0..5000 {
        let reply = server.connect().call(&script(&server, "buffered", "true"));
        assert_eq!(reply["exit_code"], json!(0), "{reply}");
        if trouble() {
            break;
        }
    }
    assert!(trouble(), "never full");
    still_works(&server);
    assert_eq!(server.connect().call(&json!({"op":"health"}))["ok"], json!(true));
    assert!(server.log().contains("CALLS GO ON UNRECORDED"), "{}", server.log());
    let said = run(&mut server.verb(&["status"]), b"").success();
    assert!(said.contains("calls are run unrecorded"), "{said}");
    // What could be kept in memory is written when there is room.
    let text = "true kept";
    server.connect().call(&script(&server, "buffered", text));
    disk.free();
    eventually("what waited is written", || {
        lines(&server).iter().any(|line| line["argv"][2] == json!(text))
    });
    eventually("no trouble is left", || !trouble());
    head(&server);
    drop((server, disk));
}

/// Started on a full disk it says so before the first call, and takes none. Where
/// it was killed, the room that it had kept is still there.
#[test]
fn a_server_that_starts_on_a_full_disk_refuses_until_there_is_room() {
    let test = "a_server_that_starts_on_a_full_disk_refuses_until_there_is_room";
    let Some((mut server, disk)) = server_on_a_small_disk(test, |_| ()) else { return };
    still_works(&server);
    let mut wire = server.connect();
    wire.send_json(&script(&server, "buffered", "touch up; sleep 60"));
    file_appears(&server, "up");
    disk.fill();
    server = Server::start_in(server.stop(Signal::SIGKILL));
    still_works(&server);
    assert_eq!(ended(&lines(&server), "interrupted").len(), 1);
    let setup = server.stop(Signal::SIGTERM);
    disk.fill();
    let command = setup.serve();
    server = Server::spawn(setup, command);
    eventually("it answers, and is not well", || {
        let wire = tool_broker_tests::Wire::try_connect(&server.socket());
        let health = wire.ok().and_then(|mut wire| wire.try_call(&json!({"op":"health"})));
        health.is_some_and(|health| health["ok"] == json!(false))
    });
    refused(&server.connect().call(&script(&server, "buffered", "true")));
    disk.free();
    well_again(&server);
    drop((server, disk));
}

/// All of the server's threads that write.
const WRITERS: [&str; 3] = ["tool-server", "door", "audit"];

fn failing(test: &str, server: &Server, inject: &str) -> Option<Strace> {
    let strace = Strace::of(server.pid(), &WRITERS, inject);
    if strace.is_none() {
        skipped(test, "strace is not here, or may not trace");
    }
    strace
}

fn well_again(server: &Server) {
    eventually("the server is well again", || {
        server.connect().call(&json!({"op":"health"}))["ok"] == json!(true)
    });
    still_works(server);
    head(server);
}

#[test]
fn a_disk_that_fails_at_a_write_refuses_calls_until_it_does_not() {
    let test = "a_disk_that_fails_at_a_write_refuses_calls_until_it_does_not";
    for error in ["EIO", "ENOSPC", "EDQUOT", "EROFS"] {
        let server = Server::start(|_| ());
        let inject = format!("pwrite64:error={error}");
        let Some(strace) = failing(test, &server, &inject) else { return };
        for stdio in ["buffered", "stream"] {
            let mut wire = server.connect();
            wire.send_json(&script(&server, stdio, "touch ran"));
            let last = if stdio == "stream" { wire.recv_stream().last } else { wire.recv_json() };
            refused(&last);
        }
        run(server.client("sh").args(["-c", "touch ran"]), b"").refused(125);
        assert!(!server.ws().join("ran").exists(), "{error}: it ran");
        drop(strace);
        well_again(&server);
        assert_eq!(ended(&lines(&server), "refused").len(), 3, "{error}");
    }
}

/// A server that could write a call's entry, and not its line. The second write of a
/// thread fails, and mostly one thread makes both; of a call that took long another one
/// writes the line, and it is there: then another server is tried.
fn second_write_fails(test: &str, call: impl Fn(&Server)) -> Option<(Server, Strace)> {
    for _ in 0..20 {
        let server = Server::start(|_| ());
        let strace = failing(test, &server, "pwrite64:error=EIO:when=2+")?;
        call(&server);
        if lines(&server).is_empty() {
            return Some((server, strace));
        }
    }
    panic!("each of twenty calls was ended by another thread than began it");
}

/// The entry could be written, the line cannot: the caller has its result, and
/// the line comes later, in its place.
#[test]
fn a_line_that_cannot_be_written_at_the_end_of_a_call_is_written_later() {
    let test = "a_line_that_cannot_be_written_at_the_end_of_a_call_is_written_later";
    for stdio in ["buffered", "fds"] {
        let call = |server: &Server| {
            if stdio == "buffered" {
                let reply = server.connect().call(&script(server, stdio, "exit 7"));
                let got = (&reply["exit_code"], &reply["code"]);
                assert_eq!(got, (&json!(7), &Value::Null), "{reply}");
            } else {
                assert_eq!(run(server.client("sh").args(["-c", "exit 7"]), b"").code(), Some(7));
            }
        };
        let Some((server, strace)) = second_write_fails(test, call) else { return };
        refused(&server.connect().call(&script(&server, "buffered", "touch ran")));
        drop(strace);
        well_again(&server);
        let found = lines(&server);
        let order: Vec<_> = found.iter().take(2).map(|line| &line["exit_code"]).collect();
        assert_eq!(order, [&json!(7), &json!(125)], "{found:?}");
    }
}

/// Killed before it could be written, the call is in the audit all the same.
#[test]
fn a_line_that_waits_when_the_server_is_killed_is_an_interrupted_call() {
    let test = "a_line_that_waits_when_the_server_is_killed_is_an_interrupted_call";
    let call = |server: &Server| {
        let reply = server.connect().call(&script(server, "buffered", "true"));
        assert_eq!(reply["exit_code"], json!(0));
    };
    let Some((server, strace)) = second_write_fails(test, call) else { return };
    let setup = server.stop(Signal::SIGKILL);
    drop(strace);
    let server = Server::start_in(setup);
    let found = lines(&server);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["ended"], json!("interrupted"));
    head(&server);
}

#[test]
fn a_disk_that_fails_at_fsync_refuses_calls_until_it_does_not() {
    let test = "a_disk_that_fails_at_fsync_refuses_calls_until_it_does_not";
    for sync in ["each", "seconds"] {
        let server = Server::start(|s| s.env("TOOL_AUDIT_SYNC", sync));
        let Some(strace) = failing(test, &server, "fdatasync:error=EIO") else { return };
        // With `seconds` it is known within one.
        eventually("a call is refused", || {
            let reply = server.connect().call(&script(&server, "buffered", "true"));
            if reply["code"] == Value::Null {
                assert_eq!(sync, "seconds", "a tool was started before its entry was on the disk");
                return false;
            }
            refused(&reply);
            true
        });
        drop(strace);
        well_again(&server);
    }
}

/// What a setting promises of a power cut: fsync before a tool starts and before
/// its caller is answered, each second, or never.
#[test]
fn what_is_made_to_last_and_when_is_as_the_setting_says() {
    let test = "what_is_made_to_last_and_when_is_as_the_setting_says";
    for sync in ["each", "seconds", "never"] {
        let server = Server::start(|s| s.env("TOOL_AUDIT_SYNC", sync));
        still_works(&server);
        let log = server.path("strace");
        let calls = "fdatasync,clone,clone3,vfork,fork,sendto,sendmsg,write,pwrite64";
        let Some(strace) = Strace::trace(server.pid(), &WRITERS, calls, &log) else {
            return skipped(test, "strace is not here, or may not trace");
        };
        server.connect().call(&script(&server, "buffered", "true"));
        let seen = || -> Vec<String> {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let words = ["fdatasync(", "clone(", "clone3(", "vfork(", "fork(", "pwrite64("];
            let of = |line: &str| {
                words.iter().find(|word| line.contains(*word)).map(|word| (*word).to_owned())
            };
            text.lines().filter_map(of).map(|word| word.trim_end_matches('(').to_owned()).collect()
        };
        match sync {
            "each" => {
                eventually("the reply's line is in the trace", || seen().len() >= 5);
                let seen = seen();
                let begins = ["pwrite64", "fdatasync"];
                assert_eq!(seen.iter().take(2).collect::<Vec<_>>(), begins.each_ref(), "{seen:?}");
                assert!(!begins.contains(&seen[2].as_str()), "{seen:?}");
                assert_eq!(seen[3..5], begins, "{seen:?}");
            }
            "seconds" => {
                eventually("both files are flushed", || {
                    seen().iter().filter(|word| *word == "fdatasync").count() >= 2
                });
                let seen = seen();
                assert_eq!(seen.first().map(String::as_str), Some("pwrite64"), "{seen:?}");
            }
            _ => {
                reliability_help::does_not_spin(&server);
                assert!(!seen().iter().any(|word| word == "fdatasync"), "{:?}", seen());
                assert!(seen().len() >= 3, "{:?}", seen());
            }
        }
        drop(strace);
    }
}

//! Ends of input and output that do not come, come early, or break: the call
//! ends when the tool does, as it would natively.

mod reliability_help;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use reliability_help::{Mark, Tidy, running, script, start};
use serde_json::json;
use tool_broker_tests::twin::Twin;
use tool_broker_tests::{Wire, eventually, run, spawn, still_works};

fn server() -> Tidy {
    start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.tools(&[("cat", "/bin/cat"), ("head", "/usr/bin/head"), ("yes", "/usr/bin/yes")]);
    })
}

#[test]
fn input_that_never_ends_does_not_hold_a_tool_that_does() {
    let server = server();
    let before = server.settled();
    // By the client: a pipe whose other end stays open, silent.
    let (reading, writing) = std::io::pipe().expect("pipe");
    let outcome =
        spawn(server.client("sh").args(["-c", "echo said; exit 4"]).stdin(reading)).wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(4), "said\n"), "{outcome:?}");
    drop(writing);
    // Streamed: no end of input, and some input that nobody wants.
    for input in [None, Some(vec![b'x'; 30_000])] {
        let mut wire = server.connect();
        wire.send_json(&script(&server, "stream", "echo said; exit 4"));
        if let Some(input) = &input {
            wire.send_input(input);
        }
        let got = wire.recv_stream();
        assert_eq!((&got.stdout[..], &got.last["exit_code"]), (&b"said\n"[..], &json!(4)));
        // What comes late is thrown away, and the connection goes on.
        wire.send_input(b"late");
        wire.send_input(b"");
        assert_eq!(wire.call(&json!({"op":"health"}))["ok"], json!(true));
    }
    // Buffered: there is none, and a tool that reads sees the end at once.
    let reply = server.connect().call(&script(&server, "buffered", "cat; echo said; exit 4"));
    assert_eq!((&reply["stdout"], &reply["exit_code"]), (&json!("said\n"), &json!(4)), "{reply}");
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_tool_that_reads_a_part_of_endless_input_ends_as_it_does_natively() {
    let server = server();
    let before = server.settled();
    // `yes | head`, the tool being head.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "yes | \"$0\" -n 3; echo $?"]).arg(server.client("head").get_program());
    shell.env("TOOL_SOCKET", server.socket()).current_dir(server.ws());
    assert_eq!(run(&mut shell, b"").success(), "y\ny\ny\n0\n");
    // Streamed: far more input than the tool and the pipes take.
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"head","args":["-c","5"],"cwd":server.ws(),"stdio":"stream"}));
    let mut writer = Wire { stream: wire.stream.try_clone().expect("dup") };
    let all = std::thread::spawn(move || {
        (0..200).all(|_| writer.try_send(&tool_broker_tests::wire::frame(&[0; 60_001])).is_ok())
    });
    let got = wire.recv_stream();
    assert_eq!((&got.stdout[..], &got.last["exit_code"]), (&[0; 5][..], &json!(0)));
    assert!(all.join().expect("the writer"), "input after the tool's end is taken, and dropped");
    assert_eq!(wire.call(&json!({"op":"health"}))["ok"], json!(true));
    drop(wire);
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_reader_that_goes_ends_an_endless_tool_as_it_does_natively() {
    let mark = Mark::new();
    let server = server();
    let before = server.settled();
    // `yes | head`, the tool being yes: bash tells how each one ended.
    let shell = |program: &std::ffi::OsStr| {
        let mut shell = Command::new("/bin/bash");
        shell.args(["-c", "\"$0\" \"$1\" | head -n 2; echo ${PIPESTATUS[@]}"]);
        shell.arg(program).arg(mark.of(0)).current_dir(server.ws());
        shell.env("TOOL_SOCKET", server.socket());
        run(&mut shell, b"").success()
    };
    let native = shell("/usr/bin/yes".as_ref());
    assert!(native.contains("141 0"), "{native}");
    assert_eq!(shell(server.client("yes").get_program()), native);
    mark.all_gone();
    // Streamed: the caller goes while the tool writes.
    let mut wire = server.connect();
    wire.send_json(&json!({"tool":"yes","args":[mark.of(1)],"cwd":server.ws(),"stdio":"stream"}));
    wire.stream.read_exact(&mut [0; 1000]).expect("some output");
    drop(wire);
    mark.all_gone();
    eventually("the call is over", || running(&server) == 0);
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_tool_that_closes_its_output_early_still_ends_as_it_likes() {
    let server = server();
    let before = server.settled();
    let text = "echo first; exec >&-; sleep 0.2; echo last >&2; exec 2>&-; sleep 0.2; exit 5";
    let twin = Twin::new(&server, "sh", "/bin/sh");
    assert_eq!(
        twin.same(|command| {
            command.args(["-c", text]);
        })
        .code(),
        Some(5)
    );
    let reply = server.connect().call(&script(&server, "buffered", text));
    assert_eq!(
        (&reply["exit_code"], &reply["stdout"], &reply["stderr"]),
        (&json!(5), &json!("first\n"), &json!("last\n")),
        "{reply}"
    );
    let mut wire = server.connect();
    wire.send_json(&script(&server, "stream", text));
    let got = wire.recv_stream();
    assert_eq!((&got.stdout[..], &got.stderr[..]), (&b"first\n"[..], &b"last\n"[..]));
    assert_eq!((got.ended, &got.last["exit_code"]), ((true, true), &json!(5)));
    drop(wire);
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_tool_that_closes_its_input_early_still_gets_to_its_end() {
    let server = server();
    let before = server.settled();
    let mut wire = server.connect();
    let text = "exec <&-; sleep 0.3; head -c 300000 /dev/zero; exit 6";
    wire.send_json(&script(&server, "stream", text));
    let mut writer = Wire { stream: wire.stream.try_clone().expect("dup") };
    let wrote = std::thread::spawn(move || {
        (0..100).all(|_| writer.try_send(&tool_broker_tests::wire::frame(&[0; 60_001])).is_ok())
    });
    let got = wire.recv_stream();
    assert_eq!((got.stdout.len(), &got.last["exit_code"]), (300_000, &json!(6)));
    assert!(wrote.join().expect("the writer"));
    drop(wire);
    // The client: its own reader goes, the tool is told by the pipe itself.
    let (reading, writing) = std::io::pipe().expect("pipe");
    drop(reading);
    let mut client = server.client("sh");
    client.args(["-c", "trap '' PIPE; echo lost || exit 7"]);
    tool_broker_tests::sys::die_with_parent(&mut client);
    let mut child = client.stdout(writing).stderr(Stdio::null()).spawn().expect("client");
    drop(client);
    let status =
        tool_broker_tests::eventually_some("the client ends", || child.try_wait().expect("wait"));
    assert_eq!(status.code(), Some(7));
    server.nothing_left(before);
    still_works(&server);
}

/// Half-closed both ways: the caller sends no more, and still gets its answer.
#[test]
fn a_caller_that_sends_no_more_gets_its_answer() {
    let server = server();
    let before = server.settled();
    for stdio in ["buffered", "stream"] {
        let mut wire = server.connect();
        wire.send_json(&script(&server, stdio, "sleep 0.3; cat; echo answer"));
        if stdio == "stream" {
            wire.send_input(b"input\n");
            wire.send_input(b"");
        }
        wire.no_more();
        if stdio == "stream" {
            assert_eq!(wire.recv_stream().stdout, b"input\nanswer\n");
        } else {
            assert_eq!(wire.recv_json()["stdout"], json!("answer\n"));
        }
        assert_eq!(wire.recv_frame(), None, "the server closes then");
    }
    server.nothing_left(before);
    still_works(&server);
}

/// Output into a full device is the tool's affair; a directory does not pass, and
/// the call goes on.
#[test]
fn descriptors_that_fail_fail_in_the_tool() {
    let server = server();
    let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut client = server.client("sh");
    client.args(["-c", "echo x || exit 8"]).stderr(Stdio::null());
    tool_broker_tests::sys::die_with_parent(&mut client);
    let mut child = client.stdout(full()).spawn().expect("client");
    let status =
        tool_broker_tests::eventually_some("the client ends", || child.try_wait().expect("wait"));
    assert_eq!(status.code(), Some(8));
    assert!(full().write_all(b"x").is_err());
    let dir = File::open(server.ws()).expect("a directory");
    let outcome = spawn(server.client("cat").stdin(dir)).wait();
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!(outcome.err().contains("Bad file descriptor"), "{outcome:?}");
    still_works(&server);
}

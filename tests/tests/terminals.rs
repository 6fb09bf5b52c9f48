//! A client on a terminal: the terminal itself never crosses, the tool has one of
//! its own.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tool_broker_tests::terminal::{OnTerminal, pair};
use tool_broker_tests::{Server, run, spawn};

#[test]
fn output_comes_to_the_terminal_and_the_exit_status_through() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    command.args(["-c", "echo to stdout; echo to stderr >&2; exit 3"]);
    let mut screen = OnTerminal::start(command);
    assert_eq!(screen.wait().code(), Some(3));
    screen.shows("to stdout\r\n");
    screen.shows("to stderr\r\n");
}

#[test]
fn what_is_typed_reaches_the_tool_line_by_line() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    command
        .args(["-c", "echo ready; while read line; do echo \"<$line>\"; done; echo end; exit 4"]);
    let mut screen = OnTerminal::start(command);
    screen.shows("ready");
    for word in ["first", "second"] {
        screen.type_text(&format!("{word}\n"));
        screen.shows(&format!("<{word}>"));
    }
    screen.type_text("\u{4}");
    screen.shows("end");
    assert_eq!(screen.wait().code(), Some(4));
}

#[test]
fn a_tool_has_a_terminal_of_its_own_never_the_callers() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    let script = "readlink /proc/$$/fd/0 > its; \
                  exec 3</dev/tty; echo tty: $?; read x; echo \"<$x>\"";
    command.args(["-c", script]);
    let mut screen = OnTerminal::start(command);
    screen.shows("tty: 0");
    let client = i32::try_from(screen.child.id()).expect("a pid");
    let callers = fs::read_link(format!("/proc/{client}/fd/0")).expect("the caller's terminal");
    let its = fs::read_to_string(server.ws().join("its")).expect("its");
    assert!(its.starts_with("/dev/pts/"), "{its}");
    assert_ne!(its.trim_end(), callers.display().to_string());
    screen.type_text("a line\r");
    screen.shows("<a line>");
    assert_eq!(screen.wait().code(), Some(0));
}

#[test]
fn one_terminal_among_the_three_is_enough_and_the_others_stay_what_they_are() {
    let server = Server::start(|_| ());
    let every: Vec<u8> = (0..=255).collect();
    // Stderr is the terminal, as in `tool | less`.
    let (_master, slave) = pair();
    let mut command = server.client("sh");
    command.args(["-c", "cat; exit 5"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(slave));
    tool_broker_tests::sys::die_with_parent(&mut command);
    let mut running = command.spawn().expect("the client");
    let mut stdin = running.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, &every).expect("write");
    drop(stdin);
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut running.stdout.take().expect("piped"), &mut out).expect("read");
    assert_eq!(running.wait().expect("wait").code(), Some(5));
    assert_eq!(out, every, "the bytes that do not pass the terminal are untouched");
}

#[test]
fn a_mebibyte_passes_a_streamed_client_both_ways() {
    let server = Server::start(|_| ());
    let large: Vec<u8> =
        (0..1u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let path = server.path("large");
    fs::write(&path, &large).expect("write");
    let (_master, slave): (OwnedFd, OwnedFd) = pair();
    let mut command = server.client("sh");
    command.args(["-c", "cat"]).stdin(fs::File::open(&path).expect("open"));
    command.stdout(Stdio::piped()).stderr(Stdio::from(slave));
    tool_broker_tests::sys::die_with_parent(&mut command);
    let mut child = command.spawn().expect("the client");
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().expect("piped"), &mut out).expect("read");
    assert_eq!(child.wait().expect("wait").code(), Some(0));
    assert!(out == large, "{} bytes of {}", out.len(), large.len());
}

#[test]
fn a_tool_that_a_signal_ends_takes_a_streamed_client_along() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    command.args(["-c", "echo before; kill -TERM $$"]);
    let mut screen = OnTerminal::start(command);
    let status = screen.wait();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{status}");
    screen.shows("before");
}

#[test]
fn a_tool_that_ends_does_not_wait_for_a_terminal_that_nobody_types_on() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    command.args(["-c", "echo done; exit 6"]);
    let (_master, slave) = pair();
    let running = spawn(command.stdin(Stdio::from(slave)));
    let outcome = running.wait();
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(6), "done\n"), "{outcome:?}");
    assert_eq!(run(server.client("sh").args(["-c", "exit 0"]), b"").code(), Some(0));
}

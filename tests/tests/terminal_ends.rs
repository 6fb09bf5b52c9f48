//! Whatever ends a call on a terminal, the terminal is afterwards as it was,
//! and nothing of the call is left.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::Termios;
use nix::unistd::Pid;
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{PATIENCE, Server, Setup, eventually, process, run};

/// By passed descriptors and a relay in the client, and by the server's pipes.
const WAYS: [&str; 2] = ["", "stdio = \"stream\"\n"];

fn server(more: &str) -> Server {
    Server::start(|s| {
        let _ = std::fs::remove_file(s.path("tools.d/sh/tool.json"));
        s.tool("sh", &format!("binary = \"/bin/sh\"\n{more}"));
    })
}

/// A shell runs the client, says how it ended, and waits for a key: the
/// terminal stays open behind the client, with the modes that it left.
fn start(setup: &Setup, script: &str) -> (OnTerminal, Termios) {
    let client = setup.client("sh");
    let mut command = Command::new("/bin/bash");
    command.args(["--norc", "-c", "\"$0\" -c \"$1\"; echo \"end $?\"; read -r x"]);
    command.arg(client.get_program()).arg(script);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("TOOL_SOCKET", setup.socket());
    command.current_dir(setup.ws());
    let mut screen = OnTerminal::start(command);
    let before = screen.begun.clone();
    if script.contains("ready") {
        screen.next(b"ready", PATIENCE).expect("ready");
    }
    (screen, before)
}

#[track_caller]
fn restored(mut screen: OnTerminal, before: &Termios, says: &str) {
    if let Err(why) = screen.next(says.as_bytes(), PATIENCE) {
        panic!("{why}");
    }
    let after = screen.modes().expect("modes");
    assert_eq!(&after, before, "on the screen:\n{}", screen.screen());
    screen.type_text("\r");
    assert_eq!(screen.wait().code(), Some(0));
}

/// The client: the one child of the shell that runs on the terminal.
#[track_caller]
fn client_of(screen: &OnTerminal) -> Pid {
    let shell = i32::try_from(screen.child.id()).expect("a pid");
    let children = process::children(shell);
    assert_eq!(children.len(), 1, "{children:?}");
    Pid::from_raw(children[0].pid)
}

#[test]
fn a_terminal_is_restored_after_each_end_of_the_tool() {
    for more in WAYS {
        let server = server(more);
        for (script, says) in [
            ("exit 3", "end 3"),
            ("stty raw -echo; echo ready; exit 4", "end 4"),
            ("stty raw -echo; kill -TERM $$", "end 143"),
            ("stty -echo; kill -HUP $$", "end 129"),
            ("stty raw; kill -KILL $$", "end 137"),
        ] {
            let (screen, before) = start(&server, script);
            restored(screen, &before, says);
        }
    }
}

#[test]
fn a_terminal_is_restored_when_a_signal_ends_the_client() {
    for more in WAYS {
        let server = server(more);
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1] {
            let (screen, before) = start(&server, "echo ready; exec cat");
            kill(client_of(&screen), signal).expect("kill");
            restored(screen, &before, &format!("end {}", 128 + signal as i32));
        }
    }
}

#[test]
fn a_terminal_is_restored_after_a_refusal() {
    let server = server("default = \"deny\"\n");
    let (screen, before) = start(&server, "exit 3");
    restored(screen, &before, "end 126");
}

#[test]
fn a_terminal_is_restored_where_there_is_no_server() {
    let setup = Setup::new();
    let (screen, before) = start(&setup, "exit 3");
    restored(screen, &before, "end 125");
}

#[test]
fn a_terminal_is_restored_when_the_server_is_killed_or_stops() {
    for more in WAYS {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let server = server(more);
            let (screen, before) = start(&server, "echo ready; exec cat");
            server.signal(signal);
            restored(screen, &before, "end 1");
        }
    }
}

#[test]
fn a_terminal_is_restored_when_the_call_takes_too_long() {
    for more in WAYS {
        let server = server(&format!("{more}timeout = 0.5\n"));
        let (screen, before) = start(&server, "stty -echo; exec cat");
        restored(screen, &before, "end 124");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_call_and_all_its_processes() {
    for more in WAYS {
        let server = server(more);
        let settled = server.settled();
        let (mut screen, _) = start(&server, "echo ready; exec cat");
        screen.hang_up();
        assert_eq!(screen.wait().signal(), Some(Signal::SIGHUP as i32), "the shell's end");
        server.nothing_left(settled);
    }
}

/// What the server was sent before, a HUP among it, reaches the tool first, however
/// long that takes: no clock decides. Once with a client that the kernel tells of
/// the end, once with one that only sees it.
#[test]
fn a_terminal_is_closed_once_the_tool_has_been_sent_what_came_before() {
    for (caller, log) in [("exec", "hup\nend\n"), ("trap : HUP;", "end\n")] {
        let server = server("");
        let settled = server.settled();
        let mut command = Command::new("/bin/bash");
        command.args(["--norc", "-c", &format!("{caller} \"$0\" -c \"$1\"")]);
        command.arg(server.client("sh").get_program());
        command.arg("trap 'echo hup >> log' HUP; echo ready; read -r x; echo end >> log");
        command.env("TOOL_SOCKET", server.socket()).current_dir(server.ws());
        let mut screen = OnTerminal::start(command);
        screen.next(b"ready", PATIENCE).expect("the tool runs");
        server.signal(Signal::SIGSTOP);
        screen.hang_up();
        // Time for what is not waited for; none is needed for what is.
        for _ in 0..200 {
            run(&mut Command::new("/bin/true"), b"");
        }
        let file = server.ws().join("log");
        assert!(!file.exists(), "{caller}: closed before the server has said anything");
        server.signal(Signal::SIGCONT);
        screen.wait();
        // The tool may end later than its caller.
        server.nothing_left(settled);
        let text = std::fs::read_to_string(file).expect("a log");
        assert!(text.contains(log), "{caller}: {text}");
    }
}

#[test]
fn a_client_that_is_killed_on_a_terminal_takes_its_tool_along() {
    for more in WAYS {
        let server = server(more);
        let settled = server.settled();
        let (mut screen, _) = start(&server, "trap '' HUP; echo ready; cat; cat");
        kill(client_of(&screen), Signal::SIGKILL).expect("kill");
        screen.next(b"end 137", PATIENCE).expect("the shell goes on");
        server.nothing_left(settled);
    }
}

#[test]
fn a_stopped_call_stays_and_ends_with_its_client() {
    let server = server("");
    let settled = server.settled();
    let mut command = Command::new("/bin/bash");
    command.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").env("TERM", "dumb");
    command.env("TOOL_SOCKET", server.socket()).current_dir(server.ws());
    let client = server.client("sh").get_program().display().to_string();
    let mut screen = OnTerminal::start(command);
    screen.next(b"$ ", PATIENCE).expect("a prompt");
    screen.type_text(&format!("{client} -c 'echo rea\"\"dy; exec cat'\r"));
    screen.next(b"ready", PATIENCE).expect("the tool runs");
    screen.type_text("\u{1a}");
    screen.next(b"Stopped", PATIENCE).expect("the job stops");
    let client = client_of(&screen);
    eventually("the client is stopped", || {
        process::process(client.as_raw()).is_some_and(|process| process.state == 'T')
    });
    assert!(!server.children().is_empty(), "the tool is there still");
    kill(client, Signal::SIGKILL).expect("kill");
    server.nothing_left(settled);
}

//! A client that dies takes its call along, the whole tree and nothing else; a
//! call that ends leaves what it started.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::{
    Running, Server, alive, eventually, eventually_some, process, run, spawn, still_works,
};

/// `sh -c SCRIPT` through the client, up to its line `ready` in the file `ready`.
fn ready(server: &Server, script: &str) -> Running {
    let _ = fs::remove_file(server.ws().join("ready"));
    let mut command = server.client("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    let running = spawn(&mut command);
    eventually("the tool is ready", || server.ws().join("ready").exists());
    running
}

/// A pid that a tool wrote to a file in the workspace.
fn pid_in(server: &Server, file: &str) -> i32 {
    eventually_some(file, || fs::read_to_string(server.ws().join(file)).ok()?.trim().parse().ok())
}

#[test]
fn a_client_that_a_signal_ends_ends_by_it_and_takes_the_tool_along() {
    let server = Server::start(|_| ());
    let before = server.settled();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let running = ready(&server, "echo $$ > tool; touch ready; while :; do sleep 0.02; done");
        let tool = pid_in(&server, "tool");
        running.signal(signal);
        let outcome = running.wait();
        assert_eq!(outcome.signal(), Some(signal as i32), "{outcome:?}");
        eventually("the tool ends", || !alive(tool));
        server.nothing_left(before);
        fs::remove_file(server.ws().join("tool")).expect("rm");
    }
    still_works(&server);
}

#[test]
fn a_dying_call_has_time_to_put_its_things_in_order() {
    let server = Server::start(|s| s.env("TOOL_TIMEOUTS_GRACE", "60"));
    let script =
        "trap 'echo bye > parting; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let running = ready(&server, script);
    running.signal(Signal::SIGKILL);
    eventually("TERM comes first", || server.ws().join("parting").exists());
    still_works(&server);
}

#[test]
fn calls_after_one_that_had_to_be_killed_are_not_killed_with_it() {
    let server = Server::start(|_| ());
    let before = server.settled();
    for _ in 0..3 {
        let script = "trap '' TERM HUP; touch ready; while :; do sleep 0.1; done";
        ready(&server, script).signal(Signal::SIGKILL);
        server.nothing_left(before);
        for n in 0..5 {
            let outcome = tool_broker_tests::run(
                server.client("sh").args(["-c", "echo $0", &n.to_string()]),
                b"",
            );
            assert_eq!(outcome.success(), format!("{n}\n"));
        }
    }
}

#[test]
fn a_killed_client_takes_its_whole_tree_along() {
    let server = Server::start(|_| ());
    let before = server.settled();
    // Three levels, a session of its own, a double fork, deaf to TERM and HUP.
    let script = "trap '' TERM HUP INT; echo $$ > one; \
        (setsid sh -c 'trap \"\" TERM HUP; echo $$ > two; \
            (sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > three; while :; do sleep 0.1; done\" &) ; \
            while :; do sleep 0.1; done' &) ; \
        until [ -s two ] && [ -s three ]; do sleep 0.02; done; touch ready; while :; do sleep 0.1; done";
    let running = ready(&server, script);
    let pids: Vec<i32> = ["one", "two", "three"].iter().map(|file| pid_in(&server, file)).collect();
    assert!(pids.iter().all(|pid| alive(*pid)), "{pids:?}");
    running.signal(Signal::SIGKILL);
    eventually("the whole tree is gone", || !pids.iter().any(|pid| alive(*pid)));
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_killed_client_takes_nothing_of_another_call_along() {
    let server = Server::start(|_| ());
    fs::create_dir(server.ws().join("other")).expect("mkdir");
    let mut other = server.client("sh");
    let script = "(setsid sh -c 'echo $$ > daemon; exec sleep 600' &); \
                  until [ -s daemon ]; do sleep 0.02; done; echo $$ > main; \
                  until [ -e ../stop ]; do sleep 0.02; done; echo unharmed; kill -9 $(cat daemon)";
    other.args(["-c", script]).current_dir(server.ws().join("other"));
    let other = spawn(other.stdin(Stdio::null()));
    let theirs = [pid_in(&server, "other/main"), pid_in(&server, "other/daemon")];
    let script = "(setsid sh -c 'echo $$ > daemon; exec sleep 600' &); \
                  until [ -s daemon ]; do sleep 0.02; done; touch ready; sleep 600";
    let mine = ready(&server, script);
    let daemon = pid_in(&server, "daemon");
    mine.signal(Signal::SIGKILL);
    eventually("the daemon of the dead caller is gone", || !alive(daemon));
    assert!(theirs.iter().all(|pid| alive(*pid)), "of the other call: {theirs:?}");
    fs::write(server.ws().join("stop"), "").expect("stop");
    let outcome = other.wait();
    assert_eq!(outcome.out(), "unharmed\n", "{outcome:?}");
}

#[test]
fn a_daemon_of_a_finished_call_lives_on_and_status_lists_it() {
    let server = Server::start(|_| ());
    let mut command = server.client("sh");
    let script = "(setsid sh -c 'echo $$ > daemon; exec sleep 300' > /dev/null 2>&1 &); \
                  until [ -s daemon ]; do sleep 0.02; done; echo started";
    let outcome = tool_broker_tests::run(command.args(["-c", script]), b"");
    assert_eq!(outcome.success(), "started\n");
    let daemon = pid_in(&server, "daemon");
    still_works(&server);
    assert!(alive(daemon), "the daemon ended with its call");
    let listed = eventually_some("status lists the daemon", || {
        let status = server.status().to_string();
        status.contains(&daemon.to_string()).then_some(status)
    });
    assert!(listed.contains("sleep 300"), "{listed}");
    let seen = process::process(daemon).expect("alive");
    let setup = server.stop(Signal::SIGTERM);
    eventually("the daemon ends with the server", || !alive(daemon));
    assert!(
        process::process(daemon).is_none_or(|now| now.started != seen.started || now.state == 'Z')
    );
    drop(setup);
}

#[test]
fn a_call_ends_with_its_tool_not_with_the_pipes_that_a_daemon_keeps() {
    let server = Server::start(|_| ());
    let before = server.settled();
    // The daemon has the caller's stdout: the client's exit must not wait for it.
    let mut command = server.client("sh");
    command.args(["-c", "(setsid sh -c 'echo $$ > daemon; exec sleep 300' &); until [ -s daemon ]; do sleep 0.02; done; echo out; exit 3"]);
    let mut running = spawn(command.stdin(Stdio::null()));
    assert_eq!(running.wait_status().code(), Some(3));
    let daemon = process::process(pid_in(&server, "daemon")).expect("the daemon");
    process::kill(&daemon);
    assert_eq!(running.wait().out(), "out\n");
    // The same where the server reads the pipes.
    let script = "(setsid sh -c 'echo $$ > daemon2; exec sleep 300' &); until [ -s daemon2 ]; do sleep 0.02; done; echo out; exit 3";
    let request = serde_json::json!({"tool":"sh","args":["-c",script],"cwd":server.ws()});
    let reply = server.connect().call(&request);
    assert_eq!((&reply["exit_code"], &reply["stdout"]), (&3.into(), &"out\n".into()), "{reply}");
    process::kill(&process::process(pid_in(&server, "daemon2")).expect("the daemon"));
    server.nothing_left(before);
}

#[test]
fn a_dead_server_is_an_error_of_one_line_and_125() {
    let server = Server::start(|_| ());
    let running = ready(&server, "touch ready; exec sleep 600");
    let left = server.descendants();
    let setup = server.stop(Signal::SIGKILL);
    running.wait().refused(125);
    left.iter().for_each(process::kill);
    // And without any server: a dead socket, then no socket at all.
    tool_broker_tests::run(setup.client("sh").args(["-c", "exit 0"]), b"").refused(125);
    fs::remove_file(setup.socket()).expect("the dead socket is there");
    let line = tool_broker_tests::run(setup.client("sh").args(["-c", "exit 0"]), b"").refused(125);
    assert!(line.contains(&setup.socket().display().to_string()), "names no socket: {line}");
    let health = tool_broker_tests::run(setup.client("tool-client").arg("--health"), b"");
    assert_eq!(health.code(), Some(125), "{health:?}");
    assert!(health.status.signal().is_none());
}

/// One that has no name is an end as well: it is told by its number alone.
#[test]
fn a_tool_that_a_real_time_signal_ends_has_ended() {
    let server = Server::start(|_| ());
    for stdio in ["buffered", "stream", "fds"] {
        let mut wire = server.connect();
        let mut request =
            json!({"tool":"sh","args":["-c","kill -40 $$"],"cwd":server.ws(),"stdio":stdio});
        if stdio == "fds" {
            request["fds"] = json!([]);
        }
        wire.send_json(&request);
        let last = wire.recv_stream().last;
        assert_eq!(last["exit_code"], json!(168), "{stdio}: {last}");
    }
    let outcome = run(server.client("sh").args(["-c", "kill -40 $$"]), b"");
    assert_eq!(outcome.code(), Some(168), "{outcome:?}");
}

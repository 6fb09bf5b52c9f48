//! What a tool is born with: descriptors, session, signals, limits.

use nix::sys::resource::Resource;
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsFd;
use tool_broker_tests::{Server, Setup, run, sys};

/// What a script says when it is started by fds (the client's way), buffered
/// and streamed: every start must be the same.
fn three_ways(server: &Server, script: &str) -> [String; 3] {
    let fds = run(server.client("sh").args(["-c", script]), b"").success();
    let request = json!({"tool":"sh","args":["-c",script],"cwd":server.ws()});
    let reply = server.connect().call(&request);
    assert_eq!(reply["exit_code"], json!(0), "{reply}");
    let buffered = reply["stdout"].as_str().expect("text").to_owned();
    let mut wire = server.connect();
    let mut request = request;
    request["stdio"] = json!("stream");
    wire.send_json(&request);
    wire.send_input(b"");
    let got = wire.recv_stream();
    assert_eq!(got.last["exit_code"], json!(0), "{:?}", got.last);
    [fds, buffered, String::from_utf8(got.stdout).expect("text")]
}

#[test]
fn only_the_three_standard_descriptors_are_open() {
    let server = Server::start(|_| ());
    // Other calls under way, with descriptors of theirs in the server.
    let mut busy = server.connect();
    busy.send_json(&json!({"tool":"sh","args":["-c","touch up; sleep 60"],"cwd":server.ws()}));
    tool_broker_tests::eventually("the other call runs", || server.ws().join("up").exists());
    for said in three_ways(&server, "ls /proc/$$/fd; true") {
        assert_eq!(said, "0\n1\n2\n");
    }
}

#[test]
fn descriptors_that_the_client_was_born_with_are_the_tools_and_no_others() {
    let server = Server::start(|_| ());
    let mut outer = std::process::Command::new("/bin/sh");
    outer.arg("-c").arg("exec 5</etc/passwd 9>/dev/null; \"$TOOL\" -c 'ls /proc/$$/fd; true'");
    outer
        .env("TOOL", server.path("bin/sh"))
        .env("TOOL_SOCKET", server.socket())
        .current_dir(server.ws());
    drop(server.client("sh"));
    tool_broker_tests::sys::only_standard(&mut outer);
    assert_eq!(run(&mut outer, b"").success(), "0\n1\n2\n5\n9\n");
}

#[test]
fn a_tool_leads_a_session_and_a_group_and_has_no_terminal() {
    let server = Server::start(|_| ());
    for said in three_ways(&server, "echo $$; cut -d' ' -f1,5,6,7 /proc/$$/stat; true") {
        let (pid, rest) = said.split_once('\n').expect("two lines");
        assert_eq!(rest, format!("{pid} {pid} {pid} 0\n"));
    }
}

#[test]
fn no_signal_is_blocked_or_ignored_whatever_server_and_client_were_born_with() {
    // HUP, INT, USR1, PIPE, CHLD, and one of the real-time signals.
    const SIGNALS: &[i32] = &[1, 2, 10, 13, 17, 40];
    let setup = Setup::new();
    let mut serve = setup.serve();
    sys::ignore_and_block(&mut serve, SIGNALS);
    let server = Server::start_command(setup, serve);
    // By exec: a shell blocks signals itself while it starts something.
    let script = "exec grep -E '^(SigBlk|SigIgn|ShdPnd|SigPnd)' /proc/self/status";
    for said in three_ways(&server, script) {
        clean(&said);
    }
    let mut client = server.client("sh");
    sys::ignore_and_block(&mut client, SIGNALS);
    clean(&run(client.args(["-c", script]), b"").success());
}

/// Asserts four empty sets of signals. 32 and 33 are the C library's own: its
/// posix_spawn leaves them ignored in what cargo starts, and that is inherited.
fn clean(said: &str) {
    let set = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    let sets: Vec<u64> = said.lines().map(|line| set(line).expect("a set")).collect();
    assert_eq!(sets.len(), 4, "{said}");
    assert!(sets.iter().all(|set| set & !0x1_8000_0000 == 0), "{said}");
}

#[test]
fn the_limits_on_descriptors_are_those_that_the_server_was_born_with() {
    let server = Server::start(|s| s.limit(Resource::RLIMIT_NOFILE, 777, 3000));
    for said in three_ways(&server, "ulimit -Sn; ulimit -Hn") {
        assert_eq!(said, "777\n3000\n");
    }
}

#[test]
fn nothing_is_open_in_a_tool_but_what_was_passed() {
    let server = Server::start(|_| ());
    for fds in [vec![1], vec![1, 2], vec![1, 3], vec![0, 1, 700], vec![1, 1023]] {
        let mut wire = server.connect();
        let out = tempfile::tempfile().expect("a file");
        // The shell's own: 10 is its copy of a redirected descriptor, if any.
        let script = "for n in 0 1 2 3 4 9 10 700 1023; do [ -e /proc/$$/fd/$n ] && echo $n; done";
        let request =
            json!({"tool":"sh","args":["-c",script],"cwd":server.ws(),"stdio":"fds","fds":fds});
        wire.send_with_fds(&request, &vec![out.as_fd(); fds.len()]);
        let last = wire.recv_json();
        assert!(last.get("error").is_none(), "{last}");
        let said: Vec<u32> = text(out).lines().map(|line| line.parse().expect("number")).collect();
        assert_eq!(said, fds);
    }
}

#[test]
fn passed_descriptors_are_the_callers_own_in_the_order_of_their_numbers() {
    let server = Server::start(|_| ());
    let input = server.file("ws/input", "from a file", 0o644);
    let (out, err) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
    let input = File::open(input).expect("open");
    let mut wire = server.connect();
    let request = json!({
        "tool":"sh","args":["-c","cat; echo err >&2; exit 3"],"cwd":server.ws(),
        "stdio":"fds","fds":[2,0,1],
    });
    wire.send_with_fds(&request, &[err.as_fd(), input.as_fd(), out.as_fd()]);
    let last: Value = wire.recv_json();
    assert_eq!(last["exit_code"], json!(3), "{last}");
    assert!(last.get("stdout").is_none() && last["duration_ms"].is_u64(), "{last}");
    assert!(last["call_id"].is_string(), "{last}");
    assert_eq!((text(out).as_str(), text(err).as_str()), ("from a file", "err\n"));
}

/// What was written to a file whose offset the tool moved.
fn text(mut file: File) -> String {
    use std::io::{Read as _, Seek as _};
    let mut text = String::new();
    file.rewind().expect("seek");
    file.read_to_string(&mut text).expect("text");
    text
}

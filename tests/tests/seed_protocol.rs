//! The original's protocol: its client against our server, our client against
//! its server. The Python sides in `python/` are written from the seed alone.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tool_broker_tests::{Running, Server, Setup, eventually, run, spawn};

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(script);
    command.arg("-B").arg(path).stdin(Stdio::null());
    command
}

fn seed_client(server: &Server, args: &[&str]) -> Command {
    let mut command = python("seed_client.py");
    command.args(args).current_dir(server.ws()).env("TOOL_SOCKET", server.socket());
    command
}

/// A server that knows only the seed's protocol, on the setup's socket.
fn seed_server(setup: &Setup, mode: &str) -> Running {
    let mut command = python("seed_server.py");
    let running = spawn(command.arg(setup.socket()).arg(mode));
    eventually("the seed's server listens", || setup.socket().exists());
    running
}

/// What the seed's server was asked to run.
fn asked(setup: &Setup) -> Vec<Value> {
    let log = fs::read_to_string(setup.path("run/tool.sock.log")).unwrap_or_default();
    let all = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|request| request.get("tool").is_some()).collect()
}

#[test]
fn the_seeds_client_gets_exit_code_stdout_and_stderr() {
    let server = Server::start(|_| ());
    let script = "echo out; echo err >&2; pwd -P; exit 42";
    let outcome = run(&mut seed_client(&server, &["sh", "-c", script]), b"");
    let ws = fs::canonicalize(server.ws()).expect("ws");
    let wanted = (Some(42), format!("out\n{}\n", ws.display()), "err\n".to_owned());
    assert_eq!((outcome.code(), outcome.out(), outcome.err()), wanted);
}

#[test]
fn the_seeds_client_sees_an_error_as_an_error() {
    let server = Server::start(|_| ());
    let outcome = run(&mut seed_client(&server, &["no-such-tool"]), b"");
    assert_eq!(outcome.code(), Some(127), "{outcome:?}");
    assert!(
        outcome.err().contains("error: ") && outcome.err().contains("no-such-tool"),
        "{outcome:?}"
    );
}

#[test]
fn the_seeds_client_gets_replacement_characters_and_only_it() {
    let server = Server::start(|_| ());
    let script = "printf 'a\\377b'";
    let outcome = run(&mut seed_client(&server, &["sh", "-c", script]), b"");
    assert_eq!(outcome.success(), "a\u{fffd}b");
    let mut request = json!({"tool":"sh","args":["-c",script],"cwd":server.ws()});
    assert_eq!(server.connect().call(&request)["stdout"], json!("a\u{fffd}b"));
    request["stdio"] = json!("buffered");
    assert_eq!(server.connect().call(&request)["stdout"], json!({"b64":"Yf9i"}));
}

#[test]
fn the_seeds_client_has_an_empty_stdin() {
    let server = Server::start(|_| ());
    let outcome =
        run(seed_client(&server, &["sh", "-c", "cat; echo end"]).stdin(Stdio::piped()), b"x");
    assert_eq!(outcome.success(), "end\n");
}

#[test]
fn a_client_that_closes_its_sending_half_still_gets_the_reply() {
    let server = Server::start(|_| ());
    let args = ["--half-close", "sh", "-c", "sleep 0.3; echo late; exit 7"];
    let outcome = run(&mut seed_client(&server, &args), b"");
    assert_eq!((outcome.code(), outcome.out().as_str()), (Some(7), "late\n"), "{outcome:?}");
}

#[test]
fn a_seeds_reply_has_the_seeds_members_and_only_text() {
    let server = Server::start(|_| ());
    let reply =
        server.connect().call(&json!({"tool":"sh","args":["-c","kill -9 $$"],"cwd":server.ws()}));
    assert_eq!(reply["exit_code"], json!(137), "{reply}");
    assert!(reply["stdout"].is_string() && reply["stderr"].is_string(), "{reply}");
    let reply = server.connect().call(&json!({"tool":"sh","args":["-c","true"],"cwd":server.ws()}));
    assert!(reply.get("error").is_none_or(Value::is_null), "{reply}");
}

#[test]
fn our_client_works_against_a_server_that_knows_only_the_seed() {
    let setup = Setup::new();
    let _server = seed_server(&setup, "run");
    let script = "echo out; echo err >&2; pwd -P; cat; exit 42";
    let outcome = run(setup.client("sh").args(["-c", script, "", "ü\n\"\\\u{1}🦀"]), b"ignored");
    let ws = fs::canonicalize(setup.ws()).expect("ws");
    assert_eq!(
        (outcome.code(), outcome.out(), outcome.err()),
        (Some(42), format!("out\n{}\n", ws.display()), "err\n".into())
    );
    let asked = asked(&setup);
    assert_eq!(asked.len(), 1, "asked more than once: {asked:?}");
    assert_eq!(asked[0]["args"], json!(["-c", script, "", "ü\n\"\\\u{1}🦀"]));
    assert_eq!(asked[0]["cwd"], json!(ws));
}

#[test]
fn an_error_of_the_seeds_server_is_shown() {
    let setup = Setup::new();
    let _server = seed_server(&setup, "error");
    let outcome = run(setup.client("nothing").arg("x"), b"");
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!(outcome.err().contains("Unknown tool: nothing"), "{outcome:?}");
    assert_eq!(outcome.err().lines().count(), 1, "{outcome:?}");
}

#[test]
fn what_the_seeds_server_would_misread_is_not_sent_to_it() {
    use std::os::unix::ffi::OsStrExt as _;
    let setup = Setup::new();
    let _server = seed_server(&setup, "run");
    // Not UTF-8, and too long for one message: it would run something else.
    let binary = std::ffi::OsStr::from_bytes(b"\xff");
    let line = run(setup.client("sh").args(["-c", "touch ran"]).arg(binary), b"").refused(125);
    assert!(line.contains("too old"), "{line}");
    let long = "x".repeat(100_000);
    let line = run(setup.client("sh").args(["-c", "touch ran", &long]), b"").refused(125);
    assert!(line.contains("too old"), "{line}");
    assert!(asked(&setup).is_empty(), "{:?}", asked(&setup));
    assert!(!setup.ws().join("ran").exists());
}

#[test]
fn a_seeds_server_that_breaks_off_is_an_error_of_one_line() {
    for mode in ["close", "half", "large"] {
        let setup = Setup::new();
        let _server = seed_server(&setup, mode);
        run(setup.client("sh").args(["-c", "true"]), b"").refused(125);
    }
}

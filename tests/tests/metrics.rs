//! The figures: every family with the right values after known calls, bounded
//! whatever callers send, on the control socket and by HTTP.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::{Exposition, PATIENCE, Server, Setup, Wire, eventually, run, still_works};

const CALLS: &str = "tool_server_calls_total";

/// Every family, as docs/operations.md lists them.
const FAMILIES: [(&str, &str); 18] = [
    ("tool_server_build", "info"),
    ("tool_server_start_time_seconds", "gauge"),
    ("tool_server_unclean_restarts", "counter"),
    ("tool_server_calls", "counter"),
    ("tool_server_call_duration_seconds", "histogram"),
    ("tool_server_call_start_seconds", "histogram"),
    ("tool_server_calls_running", "gauge"),
    ("tool_server_calls_waiting", "gauge"),
    ("tool_server_connections", "gauge"),
    ("tool_server_bad_requests", "counter"),
    ("tool_server_rate_limited_calls", "counter"),
    ("tool_server_tools", "gauge"),
    ("tool_server_reloads", "counter"),
    ("tool_server_registry_problems", "gauge"),
    ("tool_server_approvals", "counter"),
    ("tool_server_gate_requests", "counter"),
    ("tool_server_audit_failures", "counter"),
    ("tool_server_audit_stdout_dropped_lines", "counter"),
];

fn script(server: &Server, text: &str) -> Value {
    json!({"tool":"sh","args":["-c",text],"cwd":server.ws()})
}

fn calls(figures: &Exposition, tool: &str, decision: &str, exit: &str) -> f64 {
    let labels = [("tool", tool), ("decision", decision), ("exit", exit)];
    figures.value(CALLS, &labels).unwrap_or(0.0)
}

fn all_calls(figures: &Exposition) -> f64 {
    figures.all(CALLS).map(|(_, value)| value).sum()
}

#[test]
fn every_figure_is_there_from_the_start() {
    let server = Server::start(|_| {});
    let figures = Exposition::of(&server);
    let families = FAMILIES.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(figures.families, families.into());
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(figures.value("tool_server_build_info", &version), Some(1.0));
    assert_eq!(figures.value("tool_server_tools", &[]), Some(1.0));
    for outcome in ["asked", "approved", "denied", "timed_out", "gone"] {
        let labels = [("outcome", outcome)];
        assert_eq!(figures.value("tool_server_approvals_total", &labels), Some(0.0), "{outcome}");
    }
    assert_eq!(figures.value("tool_server_audit_failures_total", &[]), Some(0.0));
    // The verb prints the same.
    let said = run(&mut server.verb(&["metrics"]), b"").success();
    assert_eq!(Exposition::parse(&said).families, figures.families);
}

#[test]
fn calls_are_counted_by_tool_decision_and_exit() {
    let server = Server::start(|s| {
        s.tool("no", "binary = \"/bin/sh\"\ndefault = \"deny\"\n");
        s.tool("maybe", "binary = \"/bin/sh\"\ndefault = \"ask\"\n");
        s.config("[approvals]\ntimeout = 0.1\n");
        s.tool("gone", "binary = \"/no/such/binary\"\n");
        s.tool("slow", "binary = \"/bin/sh\"\ntimeout = 0.2\n");
        s.tool("pipe", "binary = \"/bin/sh\"\nstdio = \"stream\"\n");
    });
    // Through the door, and through sessions, buffered and streamed.
    for (text, exit) in [("exit 0", 0), ("exit 0", 0), ("exit 1", 1), ("exit 7", 7)] {
        assert_eq!(run(server.client("sh").args(["-c", text]), b"").code(), Some(exit));
        let mut wire = server.connect();
        assert_eq!(wire.call(&script(&server, text))["exit_code"], json!(exit));
    }
    assert_eq!(run(server.client("sh").args(["-c", "kill -9 $$"]), b"").signal(), Some(9));
    run(server.client("no").arg("x"), b"").refused(126);
    assert_eq!(run(server.client("maybe").arg("x"), b"").code(), Some(126));
    run(server.client("gone").arg("x"), b"").refused(127);
    run(server.client("slow").args(["-c", "sleep 9"]), b"").refused(124);
    run(server.client("nobody").arg("x"), b"").refused(127);
    // First by descriptors, which this tool does not take: one call all the same.
    assert_eq!(run(server.client("pipe").args(["-c", "exit 3"]), b"").code(), Some(3));
    let figures = Exposition::of(&server);
    for (tool, decision, exit, count) in [
        ("sh", "allow", "0", 4.0),
        ("sh", "allow", "1", 2.0),
        ("sh", "allow", "other", 2.0),
        ("sh", "allow", "signal", 1.0),
        ("no", "deny", "denied", 1.0),
        ("maybe", "ask", "denied", 1.0),
        ("gone", "allow", "not_installed", 1.0),
        ("slow", "allow", "timed_out", 1.0),
        ("unknown", "none", "unknown_tool", 1.0),
        ("pipe", "allow", "other", 1.0),
    ] {
        assert_eq!(calls(&figures, tool, decision, exit), count, "{tool} {decision} {exit}");
    }
    assert_eq!(all_calls(&figures), 15.0);
    let of = |name: &str, tool: &str| figures.value(name, &[("tool", tool)]).expect(name);
    assert_eq!(of("tool_server_call_duration_seconds_count", "sh"), 9.0);
    assert_eq!(of("tool_server_call_start_seconds_count", "sh"), 9.0);
    assert!(of("tool_server_call_duration_seconds_sum", "slow") >= 0.2);
    // What did not start has no time until it started.
    assert_eq!(of("tool_server_call_duration_seconds_count", "no"), 1.0);
    assert_eq!(of("tool_server_call_start_seconds_count", "no"), 0.0);
}

#[test]
fn the_brokers_own_tools_are_counted_by_their_names() {
    let server = Server::start(|s| {
        s.file("ws/a", "x\n", 0o644);
    });
    for (tool, input) in [
        ("read_file", json!({"path": "a"})),
        // By another name it is the same tool.
        ("read", json!({"path": "a"})),
        ("read_file", json!({"path": "no/such"})),
        ("run_command", json!({"argv": ["true"]})),
        ("run_shell", json!({"command": "mkfs x"})),
        ("no_such_tool", json!({})),
    ] {
        server.connect().call(&json!({"tool": tool, "input": input}));
    }
    let figures = Exposition::of(&server);
    for (tool, decision, exit, count) in [
        ("read_file", "allow", "0", 2.0),
        ("read_file", "none", "1", 1.0),
        ("run_command", "allow", "0", 1.0),
        ("run_shell", "deny", "denied", 1.0),
    ] {
        assert_eq!(calls(&figures, tool, decision, exit), count, "{tool} {decision} {exit}");
    }
    let count = [("tool", "read_file")];
    assert_eq!(figures.value("tool_server_call_duration_seconds_count", &count), Some(3.0));
}

#[test]
fn approvals_are_counted_by_how_they_came_out() {
    let server = Server::start(|s| s.tool("maybe", "binary = \"/bin/true\"\ndefault = \"ask\"\n"));
    let counts = || {
        let figures = Exposition::of(&server);
        ["asked", "approved", "denied", "timed_out", "gone"].map(|outcome| {
            let labels = [("outcome", outcome)];
            figures.value("tool_server_approvals_total", &labels).expect("a counter")
        })
    };
    let held = |asked: f64| {
        let mut wire = server.connect();
        wire.send_json(&json!({"tool":"maybe","args":[],"cwd":server.ws()}));
        eventually("it is held", || counts()[0] == asked);
        wire
    };
    let id = || {
        let listed = server.control().call(&json!({"op":"approvals"}));
        let waiting = listed["waiting"].as_array().expect("a list");
        let live = waiting.iter().find(|asked| asked["waits"] == json!(true)).expect("one");
        live["id"].as_str().expect("an id").to_owned()
    };
    let mut wire = held(1.0);
    let state = || server.status()["under_way"][0]["state"].clone();
    eventually("it says so", || state() == json!("asked"));
    server.control().call(&json!({"op":"deny","approval":id()}));
    assert_eq!(wire.recv_json()["code"], json!("denied"));
    let mut wire = held(2.0);
    server.control().call(&json!({"op":"approve","approval":id()}));
    assert_eq!(wire.recv_json()["exit_code"], json!(0));
    drop(held(3.0));
    eventually("the caller is gone", || counts()[4] == 1.0);
    assert_eq!(counts(), [3.0, 1.0, 1.0, 0.0, 1.0]);
    let figures = Exposition::of(&server);
    assert_eq!(calls(&figures, "maybe", "ask", "denied"), 1.0);
    assert_eq!(calls(&figures, "maybe", "ask", "0"), 1.0);
    // Nobody is answered when that is counted.
    eventually("the call has ended", || {
        calls(&Exposition::of(&server), "maybe", "ask", "interrupted") == 1.0
    });
}

#[test]
fn what_is_under_way_and_what_waits_is_told() {
    let server = Server::start(|s| s.config("[limits]\ncalls = 2\n"));
    let gauge = |figures: &Exposition, name: &str| figures.value(name, &[]).expect("a gauge");
    let wait = script(&server, "until [ -e go ]; do sleep 0.02; done");
    let mut wires: Vec<Wire> = (0..5).map(|_| server.connect()).collect();
    wires.iter_mut().for_each(|wire| wire.send_json(&wait));
    eventually("two run, three wait", || {
        let figures = Exposition::of(&server);
        let names = ["calls_running", "calls_waiting", "connections"];
        names.map(|name| gauge(&figures, &format!("tool_server_{name}"))) == [2.0, 3.0, 5.0]
    });
    fs::write(server.ws().join("go"), "").expect("go");
    wires.iter_mut().for_each(|wire| drop(wire.recv_json()));
    drop(wires);
    eventually("nothing is under way", || {
        let figures = Exposition::of(&server);
        let names = ["calls_running", "calls_waiting", "connections"];
        names.map(|name| gauge(&figures, &format!("tool_server_{name}"))) == [0.0, 0.0, 0.0]
    });
    assert_eq!(calls(&Exposition::of(&server), "sh", "allow", "0"), 5.0);
}

#[test]
fn looks_at_tools_d_and_what_is_wrong_there_are_counted() {
    let server = Server::start(|s| s.config("[registry]\nwatch = \"poll\"\npoll_seconds = 3600\n"));
    let reloads = |outcome: &str| {
        let figures = Exposition::of(&server);
        figures.value("tool_server_reloads_total", &[("outcome", outcome)]).expect("a counter")
    };
    let counts = || ["unchanged", "applied", "problem"].map(reloads);
    assert_eq!(counts(), [0.0; 3]);
    let reload = || run(&mut server.verb(&["reload"]), b"").code();
    assert_eq!(reload(), Some(0));
    assert_eq!(counts(), [1.0, 0.0, 0.0]);
    server.tool("new", "binary = \"/bin/echo\"\n");
    assert_eq!(reload(), Some(0));
    assert_eq!(counts(), [1.0, 1.0, 0.0]);
    server.tool("broken", "binary = \n");
    assert_eq!(reload(), Some(1));
    assert_eq!(counts(), [1.0, 1.0, 1.0]);
    let figures = Exposition::of(&server);
    assert_eq!(figures.value("tool_server_registry_problems", &[]), Some(1.0));
    assert_eq!(figures.value("tool_server_tools", &[]), Some(2.0));
}

#[test]
fn what_is_no_call_is_counted_by_its_code() {
    let server = Server::start(|_| {});
    server.connect().call(&json!({"tool":"../sh","args":[],"cwd":"/"}));
    server.connect().send_frame(b"{nonsense");
    let bad = |code: &str| {
        let figures = Exposition::of(&server);
        figures.value("tool_server_bad_requests_total", &[("code", code)]).expect("a counter")
    };
    eventually("both are counted", || (bad("unknown_tool"), bad("bad_json")) == (1.0, 1.0));
    assert_eq!(all_calls(&Exposition::of(&server)), 0.0);
}

/// Whatever a caller sends, it makes no label, and no memory is held for it.
#[test]
fn ten_thousand_names_make_no_label() {
    let server = Server::start(|s| {
        // A folder of that name is as good as none.
        s.tools(&[("unknown", "/bin/true")]);
    });
    let before = Exposition::of(&server);
    let series = |figures: &Exposition| {
        figures.families.keys().map(|name| figures.all(&format!("{name}_bucket")).count()).sum()
    };
    let buckets: usize = series(&before);
    let names = |from: usize| (from..from + 2_500).map(|n| format!("t{:x}", n * 7_919));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut wire = server.connect();
                for name in names(thread * 2_500) {
                    let reply = wire.call(&json!({"tool":name,"args":[],"cwd":server.ws()}));
                    assert_eq!(reply["code"], json!("unknown_tool"), "{reply}");
                }
            });
        }
    });
    assert_eq!(run(server.client("unknown").arg("x"), b"").code(), Some(0));
    let figures = Exposition::of(&server);
    assert_eq!(calls(&figures, "unknown", "none", "unknown_tool"), 10_000.0);
    assert_eq!(calls(&figures, "unknown", "allow", "0"), 1.0);
    assert_eq!(figures.all(CALLS).count(), 2);
    assert_eq!(series(&figures), buckets, "series of their own");
}

/// More than one message holds.
#[test]
fn figures_of_many_tools_come_whole() {
    let server = Server::start(|s| {
        for n in 0..120 {
            s.tools(&[(&format!("tool{n}"), "/bin/true")]);
        }
    });
    let mut wire = server.connect();
    for n in 0..120 {
        let reply = wire.call(&json!({"tool":format!("tool{n}"),"args":[],"cwd":server.ws()}));
        assert_eq!(reply["exit_code"], json!(0), "{reply}");
    }
    let said = run(&mut server.verb(&["metrics"]), b"").success();
    assert!(said.len() > 4 * 65_536, "only {} bytes: no proof", said.len());
    let figures = Exposition::parse(&said);
    for n in 0..120 {
        assert_eq!(calls(&figures, &format!("tool{n}"), "allow", "0"), 1.0);
    }
}

#[test]
fn the_figures_are_no_business_of_a_calls_socket() {
    let server = Server::start(|_| {});
    let reply = server.connect().call(&json!({"op":"metrics"}));
    assert_eq!(reply["code"], json!("unknown_op"), "{reply}");
}

fn unclean(server: &Server) -> f64 {
    let figures = Exposition::of(server);
    figures.value("tool_server_unclean_restarts_total", &[]).expect("a counter")
}

#[test]
fn restarts_after_a_kill_are_counted_and_those_after_a_stop_are_not() {
    let mut server = Server::start(|_| {});
    assert_eq!(unclean(&server), 0.0);
    for (signal, count) in [
        (Signal::SIGKILL, 1.0),
        (Signal::SIGTERM, 1.0),
        (Signal::SIGINT, 1.0),
        (Signal::SIGKILL, 2.0),
        (Signal::SIGKILL, 3.0),
        (Signal::SIGTERM, 3.0),
    ] {
        server = Server::start_in(server.stop(signal));
        assert_eq!(unclean(&server), count, "after {signal}");
    }
}

// By HTTP.

fn with_http(prepare: impl FnOnce(&mut Setup)) -> (Server, SocketAddr) {
    let server = Server::start(|s| {
        s.env("TOOL_METRICS_LISTEN", "127.0.0.1:0");
        prepare(s);
    });
    let address = server.status()["metrics"].as_str().expect("an address").parse();
    (server, address.expect("an address"))
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// A whole answer: its status, its head, its body.
fn ask(address: SocketAddr, head: &str) -> (u16, String, String) {
    let mut stream = dial(address);
    stream.write_all(head.replace('\n', "\r\n").as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, head.to_lowercase(), body.to_owned())
}

#[test]
fn a_loopback_address_answers_by_http() {
    let (server, address) = with_http(|_| {});
    still_works(&server);
    for host in ["localhost".to_owned(), address.to_string(), "[::1]:1".to_owned()] {
        let (status, head, body) =
            ask(address, &format!("GET /metrics HTTP/1.1\nHost: {host}\nAccept: */*\n\n"));
        assert_eq!(status, 200, "{host}: {head}");
        assert!(
            head.contains("content-type: application/openmetrics-text; version=1.0.0"),
            "{head}"
        );
        assert_eq!(calls(&Exposition::parse(&body), "sh", "allow", "other"), 1.0);
    }
    let (status, head, body) = ask(address, "HEAD /metrics HTTP/1.1\nHost: localhost\n\n");
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains("content-length: "), "{head}");
    assert_eq!(
        run(&mut server.verb(&["status"]), b"").success().matches(&address.to_string()).count(),
        1
    );
}

#[test]
fn http_refuses_other_methods_paths_and_names() {
    let (server, address) = with_http(|_| {});
    for (line, host, wanted) in [
        ("POST /metrics HTTP/1.1", "localhost", 405),
        ("DELETE /metrics HTTP/1.1", "localhost", 405),
        ("GET / HTTP/1.1", "localhost", 404),
        ("GET /metrics/x HTTP/1.1", "localhost", 404),
        ("GET /metrics HTTP/1.1", "rebound.example.com", 403),
        ("GET /metrics HTTP/1.1", "127.0.0.1.example.com", 403),
        ("GET http://example.com/metrics HTTP/1.1", "localhost", 403),
        ("nonsense", "localhost", 400),
    ] {
        let (status, head, body) = ask(address, &format!("{line}\nHost: {host}\n\n"));
        assert_eq!(status, wanted, "{line}, {host}: {head}");
        assert!(!body.contains("tool_server"), "{line}, {host}: {body}");
    }
    assert_eq!(ask(address, "GET /metrics HTTP/1.1\n\n").0, 403);
    assert_eq!(ask(address, "GET /metrics HTTP/1.1\nHost: localhost\nHost: localhost\n\n").0, 403);
    let many: String = (0..60).map(|n| format!("X-{n}: x\n")).collect();
    let (status, _, _) = ask(address, &format!("GET /metrics HTTP/1.1\nHost: localhost\n{many}\n"));
    assert_eq!(status, 431);
    still_works(&server);
}

#[test]
fn a_head_that_is_too_long_is_not_read_to_its_end() {
    let (server, address) = with_http(|_| {});
    let mut stream = dial(address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ").expect("send");
    let chunk = [b'x'; 4096];
    let mut sent = 0;
    while sent < 16 * 1024 * 1024 {
        match stream.write(&chunk) {
            Ok(bytes) => sent += bytes,
            Err(error) => {
                let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(kinds.contains(&error.kind()), "{error}");
                break;
            }
        }
    }
    assert!(sent < 16 * 1024 * 1024, "it was read to its end");
    still_works(&server);
}

/// They say nothing, or half of something: calls go on, and so do scrapes.
#[test]
fn two_hundred_slow_scrapers_disturb_no_call_and_no_scraper() {
    let (server, address) = with_http(|_| {});
    let before = server.settled();
    let mut slow: Vec<TcpStream> = (0..200).map(|_| dial(address)).collect();
    for (n, stream) in slow.iter_mut().enumerate().filter(|(n, _)| n % 2 == 1) {
        // The server may have given up on it already.
        stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: loc"[..n % 30]).ok();
    }
    for _ in 0..20 {
        still_works(&server);
    }
    let (status, _, body) = ask(address, "GET /metrics HTTP/1.1\nHost: localhost\n\n");
    assert_eq!(status, 200);
    assert_eq!(calls(&Exposition::parse(&body), "sh", "allow", "other"), 21.0);
    assert!(server.fd_count() <= before + 40, "it holds them all");
    // Each is closed, whether it says something or not.
    for stream in &mut slow {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
    drop(slow);
    eventually("nothing is left of them", || server.fd_count() <= before);
}

#[test]
fn other_addresses_than_loopback_are_refused_and_a_taken_one_is_an_error() {
    let setup = Setup::new();
    for address in
        ["0.0.0.0:9464", "10.0.0.1:9464", "[::]:9464", "localhost:9464", "9464", "127.0.0.1"]
    {
        let outcome = run(setup.verb(&["config"]).args(["--metrics-listen", address]), b"");
        assert_eq!(outcome.code(), Some(1), "{address}: {outcome:?}");
        let line = outcome.err();
        assert!(line.contains("loopback") && line.contains(address), "{line}");
    }
    let said = run(&mut setup.verb(&["config"]), b"").success();
    assert!(said.contains("# metrics.listen is unset"), "{said}");
    let (_server, address) = with_http(|_| {});
    let mut taken = Setup::new();
    taken.env("TOOL_METRICS_LISTEN", address.to_string());
    let command = taken.serve();
    let (status, log) = Server::try_start(taken, command).expect_err("the address is taken");
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(&address.to_string()) && log.contains("metrics.listen"), "{log}");
}

#[test]
fn the_mark_of_a_running_server_is_in_its_state_directory() {
    let server = Server::start(|_| {});
    let mark = |state: &Path| fs::read_to_string(state.join("restarts")).expect("a mark");
    assert_eq!(mark(&server.path("state")), "running 0\n");
    let setup = server.stop(Signal::SIGTERM);
    assert_eq!(mark(&setup.path("state")), "stopped 0\n");
}

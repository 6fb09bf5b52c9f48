//! The proxy: the agent's own requests for its model, by a socket of the server's, with a
//! credential that the agent does not hold.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tool_broker_tests::http::relay;
use tool_broker_tests::lingering::{answers, lingering};
use tool_broker_tests::{PATIENCE, Server, Setup, Wire, eventually, run, still_works};

const TOKEN: &str = "canary-of-the-model";

/// A host on loopback that speaks HTTP/1.1, and what it heard.
struct Model {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    /// Lets a stream go on.
    go: Sender<()>,
    /// A stream whose reader has gone.
    gone: Receiver<()>,
}

impl Model {
    fn start() -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let (go, wait) = channel();
        let (left, gone) = channel();
        let wait = Arc::new(Mutex::new(wait));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, wait, left) = (Arc::clone(&kept), Arc::clone(&wait), left.clone());
                thread::spawn(move || answer(stream.expect("a stream"), &kept, &wait, &left));
            }
        });
        Model { port, heard, go, gone }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("lock").clone()
    }
}

/// One connection, request by request.
fn answer(
    mut stream: TcpStream,
    heard: &Mutex<Vec<String>>,
    wait: &Mutex<Receiver<()>>,
    left: &Sender<()>,
) {
    while let Some(head) = read_head(&mut stream) {
        let length = header(&head, "content-length").and_then(|text| text.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).expect("the body");
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let chunked = header(&head, "transfer-encoding").is_some();
        heard.lock().expect("lock").push(head + &String::from_utf8_lossy(&body));
        if chunked {
            // As far as it is there, and then the rest, to its last piece.
            let mut all = Vec::new();
            let mut piece = [0; 1024];
            while !all.ends_with(b"0\r\n\r\n") {
                let count = stream.read(&mut piece).expect("pieces");
                assert!(count > 0, "cut off");
                all.extend_from_slice(&piece[..count]);
                heard.lock().expect("lock").push(String::from_utf8_lossy(&all).into_owned());
            }
        }
        let said = match path.as_str() {
            "/v1/messages?stream" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                            Set-Cookie: a=b\r\nAnthropic-Ratelimit-Left: 7\r\nX-Api-Key: back\r\n\
                            Transfer-Encoding: chunked\r\n\r\n";
                let first = format!("{head}d\r\ndata: one\r\n\r\n\r\n");
                stream.write_all(first.as_bytes()).expect("the first event");
                let last = wait.lock().expect("lock").recv_timeout(PATIENCE);
                last.expect("to go on");
                "d\r\ndata: two\r\n\r\n\r\n0\r\n\r\n".to_owned()
            }
            "/v1/messages?endless" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                            Transfer-Encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).expect("the head");
                while stream.write_all(b"d\r\ndata: one\r\n\r\n\r\n").is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
                left.send(()).ok();
                return;
            }
            "/v1/messages?broken" => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
                stream.write_all(head.as_bytes()).expect("the head");
                return;
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        };
        stream.write_all(said.as_bytes()).expect("the answer");
    }
}

fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// A gate for the messages of the model at that port, which is `api.anthropic.com`.
fn definition(setup: &Setup, port: u16) -> String {
    let token = setup.path("secrets/key");
    format!(
        "[[gate]]\nadapter = \"http\"\nhosts = [\"api.anthropic.com\"]\n\
         methods = [\"GET\", \"POST\"]\npaths = [\"/v1/messages\", \"/v1/messages/*\", \"/v1/models\"]\n\
         headers = [\"anthropic-*\"]\nupstream = \"http://127.0.0.1:{port}\"\n\
         credential = \"file:{}\"\nscheme = \"header:x-api-key\"\ndefault = \"allow\"\n\
         [[rule]]\nid = \"no-batches\"\non = \"wire\"\ndecision = \"deny\"\n\
         facts = {{ path = \"/v1/messages/batches*\" }}\nreason = \"batches cost\"\n",
        token.display()
    )
}

fn prepare(setup: &mut Setup, port: u16) {
    setup.file("secrets/key", format!("{TOKEN}\n"), 0o600);
    let text = definition(setup, port);
    let path = setup.file("etc/proxy.toml", text, 0o644);
    setup.env("TOOL_PROXY_SOCKET", setup.path("run/proxy.sock"));
    setup.env("TOOL_PROXY_DEFINITION", path);
}

fn proxied(model: &Model) -> Server {
    Server::start(|s| prepare(s, model.port))
}

fn connect(setup: &Setup) -> UnixStream {
    let stream = UnixStream::connect(setup.path("run/proxy.sock")).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// What comes back for these bytes, to the connection's end.
fn raw(setup: &Setup, bytes: &[u8]) -> String {
    let mut stream = connect(setup);
    // Whatever is refused may be refused before it is all sent.
    stream.write_all(bytes).ok();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).ok();
    String::from_utf8_lossy(&said).into_owned()
}

fn ask(setup: &Setup, line: &str, more: &str) -> String {
    let head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n");
    raw(setup, format!("{head}{more}\r\n").as_bytes())
}

fn audited(server: &Setup) -> Vec<Value> {
    let said = run(&mut server.verb(&["audit", "-n", "1000", "--json", "--tool", ".proxy"]), b"");
    said.success().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_agents_requests_go_on_with_the_credential_and_answers_stream_back() {
    let model = Model::start();
    let server = proxied(&model);
    let mut stream = connect(&server);
    let head = "POST /v1/messages?stream HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Api-Key: mine\r\n\
                Authorization: Bearer mine\r\nCookie: a=b\r\nAnthropic-Version: 2023-06-01\r\n\
                X-Http-Method-Override: DELETE\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n";
    stream.write_all(head.as_bytes()).expect("the first piece");
    eventually("the first piece is there", || {
        model.heard().last().is_some_and(|heard| heard.contains("{\"a\":"))
    });
    stream.write_all(b"2\r\n1}\r\n0\r\n\r\n").expect("the last piece");
    let answer = read_head(&mut stream).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut event = [0; 18];
    stream.read_exact(&mut event).expect("the first event");
    assert!(event.windows(9).any(|bytes| bytes == b"data: one"), "before the second is sent");
    model.go.send(()).expect("go");
    let mut rest = [0; 23];
    stream.read_exact(&mut rest).expect("the second event, and the end");
    assert!(rest.ends_with(b"0\r\n\r\n"), "whole");
    assert_eq!(header(&answer, "anthropic-ratelimit-left").as_deref(), Some("7"));
    assert_eq!(header(&answer, "content-type").as_deref(), Some("text/event-stream"));
    for never in ["set-cookie", "x-api-key"] {
        assert_eq!(header(&answer, never), None, "{answer}");
    }
    let heard = &model.heard()[0];
    assert_eq!(header(heard, "x-api-key").as_deref(), Some(TOKEN), "{heard}");
    assert_eq!(header(heard, "anthropic-version").as_deref(), Some("2023-06-01"));
    assert!(!heard.contains("mine") && !heard.contains("DELETE"), "{heard}");
    assert!(header(heard, "cookie").is_none() && header(heard, "authorization").is_none());
    // The same connection, again; by the host's own name too, and as a proxy is asked.
    drop(stream);
    assert!(ask(&server, "GET /v1/models", "").ends_with("hello"));
    for target in ["/v1/models", "http://api.anthropic.com/v1/models"] {
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: api.anthropic.com\r\nConnection: close\r\n\r\n"
        );
        assert!(raw(&server, head.as_bytes()).ends_with("hello"), "{target}");
    }
    let lines = audited(&server);
    assert_eq!(lines.len(), 4, "{lines:?}");
    let line = &lines[0];
    assert_eq!((&line["kind"], &line["tool"]), (&json!("wire"), &json!(".proxy")));
    assert_eq!((&line["passed"], &line["changes"]), (&json!(true), &json!(true)));
    assert_eq!(line["host"], json!("api.anthropic.com"));
    let name = format!("file:{}", server.path("secrets/key").display());
    assert_eq!(line["credential"], json!(name));
    let trail = fs::read_to_string(server.path("state/audit/audit.jsonl")).expect("the audit");
    assert!(!trail.contains(TOKEN) && !server.log().contains(TOKEN));
    let status = run(&mut server.verb(&["status"]), b"").success();
    assert!(status.contains(&format!("\nproxy: api.anthropic.com with {name}\n")), "{status}");
}

#[test]
fn a_credential_of_the_proxy_is_read_anew_and_told_where_it_is_missing() {
    let model = Model::start();
    let server = proxied(&model);
    server.file("secrets/key", "another\n", 0o600);
    ask(&server, "GET /v1/models", "");
    assert_eq!(header(&model.heard()[0], "x-api-key").as_deref(), Some("another"));
    // What the agent sends in its place does not pass.
    fs::remove_file(server.path("secrets/key")).expect("rm");
    ask(&server, "GET /v1/models", "X-Api-Key: mine\r\n");
    assert_eq!(header(&model.heard()[1], "x-api-key"), None);
    fs::create_dir(server.path("secrets/key")).expect("mkdir");
    let said = ask(&server, "GET /v1/models", "");
    assert!(said.starts_with("HTTP/1.1 502") && said.contains("refused by the broker"), "{said}");
    assert_eq!(model.heard().len(), 2);
}

#[test]
fn nothing_goes_on_by_the_proxy_that_its_definition_does_not_list() {
    let model = Model::start();
    let server = proxied(&model);
    let host = "Host: 127.0.0.1:8080\r\n";
    for (line, headers, status) in [
        ("GET /v1/organizations", host, 403),
        ("DELETE /v1/messages", host, 403),
        ("POST /v1/messages/batches", host, 403),
        ("GET /v1/messages/../organizations", host, 400),
        ("GET /v1/%2e%2e/organizations", host, 400),
        ("GET /v1%2fmessages", host, 400),
        ("GET //v1/messages", host, 400),
        ("TRACE /v1/messages", host, 400),
        ("get /v1/messages", host, 400),
        ("GET /v1/messages?_method=DELETE", host, 400),
        ("GET /v1/messages", "Host: evil.example\r\n", 403),
        ("GET /v1/messages", "Host: 127.0.0.1.evil.example\r\n", 403),
        ("GET /v1/messages", "Host: 10.0.0.1\r\n", 403),
        ("GET /v1/messages", "Host: api.anthropic.com:8443\r\n", 403),
        ("GET /v1/messages", "Host: 127.0.0.1\r\nHost: evil.example\r\n", 400),
        ("GET /v1/messages", "", 400),
        ("GET http://evil.example/v1/messages", "Host: evil.example\r\n", 403),
        ("GET http://api.anthropic.com/v1/messages", "Host: evil.example\r\n", 400),
        ("GET http://127.0.0.1/v1/messages", "Host: 127.0.0.1\r\n", 403),
        ("GET https://api.anthropic.com/v1/messages", "Host: api.anthropic.com\r\n", 400),
        ("CONNECT evil.example:443", "Host: evil.example:443\r\n", 403),
        ("CONNECT api.anthropic.com:443", "Host: api.anthropic.com:443\r\n", 403),
        ("CONNECT 127.0.0.1:22", "Host: 127.0.0.1:22\r\n", 403),
        ("POST /v1/messages", "Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n", 400),
    ] {
        let head = format!("{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        let said = raw(&server, head.as_bytes());
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{line} {headers}: {said}");
        assert!(!said.contains(TOKEN), "{said}");
    }
    let said = ask(&server, "POST /v1/messages/batches", "");
    assert!(said.contains("batches cost [rule no-batches, "), "{said}");
    assert_eq!(model.heard(), Vec::<String>::new());
    let lines = audited(&server);
    assert!(lines.len() > 20 && lines.iter().all(|line| line["passed"] == json!(false)));
    // Of many no more have lines than somebody can read.
    for _ in 0..100 {
        ask(&server, "GET /v1/organizations", "");
    }
    assert!(audited(&server).len() <= 64, "{}", audited(&server).len());
    server.signal(Signal::SIGTERM);
}

#[test]
fn a_hundred_connections_at_once_are_served_by_the_proxy() {
    let model = Model::start();
    let server = proxied(&model);
    thread::scope(|scope| {
        let all: Vec<_> = (0..100)
            .map(|_| {
                let server: &Setup = &server;
                let body = "Content-Length: 2\r\n\r\n{}";
                let head = format!(
                    "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{body}"
                );
                scope.spawn(move || raw(server, head.as_bytes()))
            })
            .collect();
        for one in all {
            let said = one.join().expect("a thread");
            assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("hello"), "{said}");
        }
    });
    assert_eq!(audited(&server).len(), 100);
    let before = server.fd_count();
    assert!(before < 200, "{before} descriptors");
    still_works(&server);
}

#[test]
fn connections_of_the_proxy_that_say_nothing_hold_up_no_call_and_end() {
    let model = Model::start();
    let server = proxied(&model);
    // More than there are places for, and fewer than twice as many: whoever waits has a place
    // when the first have had their 15 s, which is much less than `ask` waits for.
    let mut slow: Vec<UnixStream> =
        (0..200).map_while(|_| UnixStream::connect(server.path("run/proxy.sock")).ok()).collect();
    for stream in &mut slow {
        stream.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: ").ok();
    }
    assert!(slow.len() > 128, "{}", slow.len());
    // Calls have places of their own.
    still_works(&server);
    let said = ask(&server, "GET /v1/models", "");
    assert!(said.ends_with("hello"), "when their time is over there is a place: {said}");
    drop(slow);
    still_works(&server);
}

#[test]
fn what_breaks_off_at_one_end_breaks_off_at_the_other() {
    let model = Model::start();
    let server = proxied(&model);
    let before = server.fd_count();
    let mut stream = connect(&server);
    let head = "GET /v1/messages?endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("a request");
    read_head(&mut stream).expect("a head");
    drop(stream);
    model.gone.recv_timeout(PATIENCE).expect("the model hears that nobody reads");
    let said = ask(&server, "GET /v1/messages?broken", "");
    assert!(said.contains("half") && !said.ends_with("0\r\n\r\n"), "not taken for whole: {said}");
    still_works(&server);
    eventually("nothing is left open", || server.fd_count() <= before + 8);
}

#[test]
fn the_proxy_is_there_again_after_a_restart_and_gone_after_a_stop() {
    let model = Model::start();
    let server = proxied(&model);
    let mut under_way = connect(&server);
    let head = "GET /v1/messages?endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
    under_way.write_all(head.as_bytes()).expect("a request");
    read_head(&mut under_way).expect("a head");
    let setup = server.stop(Signal::SIGKILL);
    under_way.read_to_end(&mut Vec::new()).ok();
    let server = Server::start_in(setup);
    assert!(ask(&server, "GET /v1/models", "").ends_with("hello"));
    let mut under_way = connect(&server);
    under_way.write_all(head.as_bytes()).expect("a request");
    read_head(&mut under_way).expect("a head");
    let setup = server.stop(Signal::SIGTERM);
    assert!(!setup.path("run/proxy.sock").exists());
    under_way.read_to_end(&mut Vec::new()).ok();
}

#[test]
fn a_definition_of_the_proxy_that_cannot_be_held_is_refused_in_one_line() {
    let model = Model::start();
    let mut setup = Setup::new();
    prepare(&mut setup, model.port);
    let good = definition(&setup, model.port);
    let told = |setup: &Setup, part: &str| {
        for verb in ["serve", "check"] {
            let outcome = run(&mut setup.verb(&[verb]), b"");
            let said = outcome.out() + &String::from_utf8_lossy(&outcome.stderr);
            assert_eq!(outcome.code(), Some(1), "{part}: {said}");
            let lines = said.lines().filter(|line| line.contains("proxy.toml"));
            assert_eq!(
                lines.filter(|line| line.contains(part)).count(),
                1,
                "{verb} {part}: {said}"
            );
        }
    };
    for (from, to, part) in [
        ("default = \"allow\"", "default = \"ask\"", "nobody is asked"),
        ("default = \"allow\"\n", "", "nobody is asked"),
        ("adapter = \"http\"", "adapter = \"npm\"", "headers is for http gates"),
        ("api.anthropic.com", "*.anthropic.com", "one name"),
        ("[[rule]]", "[sandbox]\nread = [\"/x\"]\n[[rule]]", "[sandbox] has no effect"),
        ("[[gate]]", "binary = \"/bin/sh\"\n[[gate]]", "binary has no effect"),
        ("anthropic-*", "*", "each of headers"),
        ("anthropic-*", "Anthropic-*", "each of headers"),
        ("file:", "file:relative/", "credential"),
        ("on = \"wire\"", "on = \"wir\"", "on"),
    ] {
        assert!(good.contains(from), "{from}");
        setup.file("etc/proxy.toml", good.replacen(from, to, 1), 0o644);
        told(&setup, part);
    }
    setup.file("etc/proxy.toml", "description = \"none\"\n", 0o644);
    told(&setup, "needs a [[gate]]");
    setup.file("etc/proxy.toml", &good, 0o666);
    told(&setup, "anybody can change it");
    let inside = setup.file("ws/proxy.toml", &good, 0o644);
    setup.env("TOOL_PROXY_DEFINITION", inside);
    told(&setup, "beneath the workspace");
    setup.without_env("TOOL_PROXY_DEFINITION");
    let outcome = run(&mut setup.verb(&["check"]), b"");
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(said.contains("belong together") && said.lines().count() == 1, "{said}");
}

#[test]
fn the_proxys_credential_is_out_of_reach_of_every_tool() {
    let model = Model::start();
    let server = Server::start(|s| {
        prepare(s, model.port);
        let sh = "binary = \"/bin/sh\"\ndefault = \"allow\"\n";
        let secrets = s.path("secrets");
        let reads = format!("{sh}[sandbox]\nread = [\"{}\"]\n", secrets.display());
        s.tool("reads", &reads);
        let socket =
            format!("{sh}[sandbox]\nread = [\"{}\"]\n", s.path("run/proxy.sock").display());
        s.tool("socket", &socket);
        s.tool("bare", &format!("{sh}[sandbox]\nmode = \"off\"\n"));
        // Not what holds it back.
        fs::set_permissions(s.path("secrets/key"), fs::Permissions::from_mode(0o644))
            .expect("chmod");
    });
    let problems = server.status()["problems"].to_string();
    assert!(problems.contains("(a credential)") && problems.contains("(a socket)"), "{problems}");
    let script = format!(
        "cat {}; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        server.path("secrets/key").display(),
        server.path("run/proxy.sock").display()
    );
    let outcome = run(server.client("sh").args(["-c", &script]), b"");
    let said = outcome.out() + &String::from_utf8_lossy(&outcome.stderr);
    assert!(!said.contains(TOKEN) && said.contains("PermissionError"), "{said}");
    if server.status()["confinement"]["uid"] != json!("owner") {
        let outcome = run(server.client("bare").args(["-c", "echo ran"]), b"");
        assert_eq!(outcome.code(), Some(125), "it is not run while there is a credential");
    }
    // One that is a variable of the server's.
    let server = Server::start(|s| {
        prepare(s, model.port);
        let file = format!("file:{}", s.path("secrets/key").display());
        let text = definition(s, model.port).replace(&file, "env:MODEL_KEY");
        s.file("etc/proxy.toml", text, 0o644);
        s.env("MODEL_KEY", TOKEN);
        let sh = "binary = \"/bin/sh\"\ndefault = \"allow\"\n";
        s.tool("takes", &format!("{sh}[env]\ninherit = [\"MODEL_*\"]\n"));
    });
    assert!(ask(&server, "GET /v1/models", "").ends_with("hello"));
    let problems = server.status()["problems"].to_string();
    assert!(problems.contains("MODEL_KEY, which holds a credential"), "{problems}");
}

#[test]
fn only_the_peers_of_the_settings_may_use_the_proxy() {
    let model = Model::start();
    let mut setup = Setup::new();
    prepare(&mut setup, model.port);
    setup.env("TOOL_PEERS_GIDS", "4711");
    let command = setup.serve();
    let server = Server::spawn(setup, command);
    eventually("it listens", || server.log().contains("the agent's own requests"));
    assert_eq!(ask(&server, "GET /v1/models", ""), "");
    assert_eq!(model.heard(), Vec::<String>::new());
    assert!(Path::new(&server.path("run/proxy.sock")).exists());
    let mode = fs::metadata(server.path("run/proxy.sock")).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[test]
fn a_socket_that_is_sent_to_the_proxy_holds_up_nobody() {
    let model = Model::start();
    let server = proxied(&model);
    let before = server.fd_count();
    let request = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for bytes in [&request[..], &b"?\r\n\r\n"[..], &b"G"[..]] {
        let mut wire = Wire::connect(&server.path("run/proxy.sock"));
        let (full, _other) = lingering();
        wire.send_bytes_with_fds(bytes, &[full.as_fd()]);
        drop(full);
        answers(&server, "while it is read");
        drop(wire);
        answers(&server, "when it is over");
    }
    assert!(ask(&server, "GET /v1/models", "").ends_with("hello"));
    eventually("nothing is left open", || server.fd_count() <= before + 8);
}

/// As in the agent's container: curl, a relay, the shipped definition.
#[test]
fn the_shipped_definition_lets_a_model_be_asked_by_way_of_a_relay() {
    let name = "the_shipped_definition_lets_a_model_be_asked_by_way_of_a_relay";
    if !Path::new("/usr/bin/socat").exists() || !Path::new("/usr/bin/curl").exists() {
        return tool_broker_tests::skipped(name, "socat or curl is not installed");
    }
    let model = Model::start();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/proxy.toml");
    let shipped = fs::read_to_string(shipped).expect("the shipped definition");
    let server = Server::start(|s| {
        prepare(s, model.port);
        let key = s.path("secrets/key").display().to_string();
        let text = shipped.replace("/run/secrets/anthropic_api_key", &key);
        assert_ne!(text, shipped);
        s.file(
            "etc/proxy.toml",
            format!("{text}upstream = \"http://127.0.0.1:{}\"\n", model.port),
            0o644,
        );
    });
    let (mut relay, port) = relay(&server.path("run/proxy.sock"));
    let ask = |words: &[&str], path: &str| {
        let mut curl = Command::new("/usr/bin/curl");
        curl.env_clear().args(["-q", "-sS", "-w", " %{http_code}"]).args(words);
        run(curl.arg(format!("http://127.0.0.1:{port}{path}")), b"").out()
    };
    let body = ["-H", "anthropic-version: 2023-06-01", "-H", "x-stainless-lang: js", "-d", "{}"];
    assert_eq!(ask(&body, "/v1/messages?beta=true"), "hello 200");
    assert_eq!(ask(&body, "/v1/messages/count_tokens"), "hello 200");
    assert_eq!(ask(&[], "/v1/models"), "hello 200");
    model.go.send(()).expect("go");
    assert!(ask(&body, "/v1/messages?stream").ends_with("data: two\r\n\r\n 200"));
    for path in ["/v1/files", "/v1/messages/batches", "/api/oauth/profile", "/"] {
        assert!(ask(&body, path).ends_with(" 403"), "{path}");
    }
    relay.kill().expect("kill");
    relay.wait().expect("wait");
    let heard = model.heard();
    assert_eq!(header(&heard[0], "x-stainless-lang").as_deref(), Some("js"));
    assert_eq!(header(&heard[0], "x-api-key").as_deref(), Some(TOKEN));
    assert_eq!(heard.len(), 4, "{heard:?}");
}

/// The container has no network: a relay on its own loopback, and the socket.
#[test]
fn a_model_is_asked_from_where_there_is_no_network() {
    let name = "a_model_is_asked_from_where_there_is_no_network";
    let there = ["/usr/bin/socat", "/usr/bin/curl", "/usr/bin/unshare"];
    let alone = || Command::new("/usr/bin/unshare").args(["-n", "true"]).status();
    if !there.iter().all(|path| Path::new(path).exists()) || !alone().is_ok_and(|it| it.success()) {
        return tool_broker_tests::skipped(name, "no network of its own, socat or curl");
    }
    let model = Model::start();
    let server = proxied(&model);
    let script = format!(
        "python3 -c 'import fcntl, socket, struct\n\
         fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sH14s\", b\"lo\", 0x41, b\"\"))'\n\
         socat TCP-LISTEN:8080,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:{} &\n\
         relay=$!; base=http://127.0.0.1:8080\n\
         for _ in $(seq 100); do curl -s -o /dev/null $base/v1/models && break; sleep 0.1; done\n\
         curl -q -sS -w ' %{{http_code}}\\n' -d '{{}}' $base/v1/messages\n\
         curl -q -sS -m 5 http://127.0.0.1:{}/v1/models; echo \"$?\"\n\
         kill $relay\n",
        server.path("run/proxy.sock").display(),
        model.port
    );
    let mut command = Command::new("/usr/bin/unshare");
    let outcome = run(command.args(["-n", "sh", "-c", &script]), b"");
    let said = outcome.out();
    // The model's own address is not there: curl's 7 is that nobody is at it.
    assert_eq!(said, "hello 200\n7\n", "{}", String::from_utf8_lossy(&outcome.stderr));
    let heard = model.heard();
    let last = heard.last().expect("a request");
    assert_eq!(header(last, "x-api-key").as_deref(), Some(TOKEN), "{last}");
}

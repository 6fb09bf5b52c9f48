//! What a client by HTTP may take of time, memory and calls; and how its calls end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use serde_json::json;
use tool_broker_tests::http::{ALICE, BOB, Http, answer};
use tool_broker_tests::{eventually, still_works};

fn call(http: &Http, token: &str, path: &str, body: &str) -> String {
    http.request(&format!("POST {path}"), &format!("Authorization: Bearer {token}\n"), body)
}

#[test]
fn requests_beyond_the_rate_are_refused_for_each_client_and_endpoint() {
    let http = Http::with_tokens(|s| {
        s.env("RATE_LIMIT_MAX", "3");
        s.env("RATE_LIMIT_WINDOW_MS", "3600000");
    });
    let of = |token: &str, path: &str| {
        http.raw(
            http.request(&format!("GET {path}"), &format!("Authorization: Bearer {token}\n"), "")
                .as_bytes(),
        )
    };
    for left in ["2", "1", "0"] {
        let answer = of(ALICE, "/tools");
        assert_eq!((answer.status, answer.header("ratelimit-remaining")), (200, Some(left)));
        assert_eq!(answer.header("ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("ratelimit-policy"), Some("3;w=3600"));
    }
    let refused = of(ALICE, "/tools");
    assert_eq!((refused.status, refused.header("ratelimit-remaining")), (429, Some("0")));
    let wait: u64 =
        refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=1200).contains(&wait), "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], json!("RATE_LIMITED"));
    // Another endpoint, another client.
    assert_eq!(of(ALICE, "/tools/sh").status, 200);
    assert_eq!(of(BOB, "/tools").status, 200);
    // All tools by their names are one endpoint: names without end are no way around.
    let all: Vec<u16> = (0..5).map(|n| of(BOB, &format!("/tools/t{n}")).status).collect();
    assert_eq!(all, [404, 404, 404, 429, 429]);
    // Guesses at tokens are counted too, and do not lock out who has one.
    let guesses: Vec<u16> =
        (0..5).map(|n| of(&format!("guess-0123456789-{n}"), "/metrics").status).collect();
    assert_eq!(guesses, [401, 401, 401, 429, 429]);
    assert_eq!(of(ALICE, "/metrics").status, 200);
    let original: Vec<u16> = (0..4).map(|_| http.post("/read", &json!({"path": "x"})).0).collect();
    assert_eq!(original, [404, 404, 404, 429]);
    let (_, told) = http.post("/read", &json!({"path": "x"}));
    assert_eq!(
        (&told["code"], &told["details"]["path"]),
        (&json!("RATE_LIMITED"), &json!("/read"))
    );
}

#[test]
fn a_body_that_is_too_large_is_refused_said_or_not() {
    let http = Http::with_tokens(|s| s.env("MAX_REQUEST_SIZE", "1kb"));
    let body = |size: usize| format!("{:size$}", "{\"path\":\"x\"}");
    assert_eq!(http.ask("POST /read", "", &body(1024)).status, 404);
    let refused = http.ask("POST /read", "", &body(1025));
    assert_eq!((refused.status, &refused.json()["code"]), (413, &json!("REQUEST_TOO_LARGE")));
    // Said alone is enough: nothing of it is waited for.
    let text = call(&http, ALICE, "/read", "{}")
        .replace("Content-Length: 2", "Content-Length: 9999999999");
    assert_eq!(http.raw(text.as_bytes()).status, 413);
    // In chunks it is counted as it comes.
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    let text = format!(
        "POST /read HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {ALICE}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n"
    );
    assert_eq!(http.raw(text.as_bytes()).status, 413);
    let text = call(&http, ALICE, "/read", "{}").replace("application/json", "text/plain");
    assert_eq!(http.raw(text.as_bytes()).status, 415);
}

#[test]
fn whole_files_of_some_size_pass() {
    let http = Http::with_tokens(|_| {});
    let content = "0123456789abcde\n".repeat(512 * 1024);
    let (status, seen) =
        http.post("/tools/write_file", &json!({"path": "large", "content": content}));
    assert_eq!(
        (status, &seen["output"]["bytes"]),
        (200, &json!(content.len())),
        "{}",
        seen["error"]
    );
    assert_eq!(fs::read_to_string(http.server.ws().join("large")).expect("text"), content);
}

#[test]
fn a_request_that_does_not_come_in_its_time_is_given_up() {
    let http = Http::with_tokens(|s| s.env("REQUEST_TIMEOUT", "300"));
    let mut stream = http.dial();
    let text = call(&http, ALICE, "/read", "{}").replace("Content-Length: 2", "Content-Length: 20");
    stream.write_all(text.as_bytes()).expect("send");
    let late = answer(stream);
    assert_eq!((late.status, &late.json()["code"]), (408, &json!("REQUEST_TIMEOUT")));
}

#[test]
fn a_call_that_takes_longer_than_a_request_may_is_ended() {
    let sleep = json!({"args": ["-c", "echo $$ > pid; exec sleep 600"]});
    // On a busy machine it may be ended before it has begun: then it has more time.
    let ran = ["300", "5000", "30000"].into_iter().any(|most| {
        let http = Http::with_tokens(|s| s.env("REQUEST_TIMEOUT", most));
        let (status, told) = http.post("/tools/sh", &sleep);
        assert_eq!((status, &told["error"]["code"]), (504, &json!("TIMED_OUT")), "{told}");
        let ran = http.server.ws().join("pid").metadata().is_ok_and(|about| about.len() > 0);
        if ran {
            ended(&http);
        }
        let (status, told) = http.post("/command", &json!({"command": "sleep 600"}));
        assert_eq!((status, &told["code"]), (408, &json!("TIMED_OUT")), "{told}");
        eventually("nothing runs", || http.server.children().is_empty());
        ran
    });
    assert!(ran, "it never ran");
}

/// What wrote its number into `pid` runs no more.
#[track_caller]
fn ended(http: &Http) {
    let pid = fs::read_to_string(http.server.ws().join("pid")).expect("it ran");
    let pid: i32 = pid.trim().parse().expect("a number");
    eventually("the program ends", || !tool_broker_tests::alive(pid));
}

fn begun(http: &Http) {
    let pid = http.server.ws().join("pid");
    eventually("it runs", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
}

#[test]
fn a_call_ends_with_the_client_that_asked_for_it() {
    let http = Http::with_tokens(|_| {});
    let body = json!({"args": ["-c", "echo $$ > pid; exec sleep 600"]}).to_string();
    for more in ["", "Accept: text/event-stream\n"] {
        let head = format!("Authorization: Bearer {ALICE}\n{more}");
        let mut stream = http.dial();
        stream.write_all(http.request("POST /tools/sh", &head, &body).as_bytes()).expect("send");
        begun(&http);
        drop(stream);
        ended(&http);
        fs::remove_file(http.server.ws().join("pid")).expect("rm");
    }
    eventually("nothing runs", || http.server.children().is_empty());
}

#[test]
fn a_client_that_reads_nothing_holds_its_tool_and_not_the_servers_memory() {
    let http = Http::with_tokens(|_| {});
    http.get("/tools");
    let before = http.server.rss();
    let body = json!({"args": ["-c", "head -c 500000000 /dev/zero | tr '\\0' x"]}).to_string();
    let head = format!("Authorization: Bearer {ALICE}\nAccept: text/event-stream\n");
    let mut stream = http.dial();
    stream.write_all(http.request("POST /tools/sh", &head, &body).as_bytes()).expect("send");
    let mut first = [0; 100];
    stream.read_exact(&mut first).expect("it began");
    // For as long as it takes the tool to fill everything in between.
    for _ in 0..50 {
        still_works(&http.server);
    }
    let grown = http.server.rss().saturating_sub(before);
    assert!(grown < 16 * 1024, "grown by {grown} KiB");
    drop(stream);
    eventually("nothing runs", || http.server.children().is_empty());
}

#[test]
fn slow_clients_hold_nobody_up_and_are_given_up() {
    let http = Http::with_tokens(|_| {});
    let before = http.server.settled();
    let mut slow: Vec<_> = (0..60).map(|_| http.dial()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&b"GET /tools HTTP/1.1\r\nHost: localhost\r\n"[..n % 38]).ok();
    }
    for _ in 0..10 {
        assert_eq!(http.get("/tools").0, 200);
        still_works(&http.server);
    }
    // Each is closed in the end, whatever it said.
    for stream in &mut slow {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
    }
    drop(slow);
    eventually("nothing is left of them", || http.server.fd_count() <= before);
}

/// More than there are places for: who asks something gets one of theirs.
#[test]
fn connections_that_ask_nothing_make_room_and_those_that_do_stay() {
    let http = Http::with_tokens(|_| {});
    let body = json!({"args": ["-c", "echo $$ > pid; while ! test -e go; do sleep 0.05; done"]});
    let head = format!("Authorization: Bearer {ALICE}\nAccept: text/event-stream\n");
    let mut streamed = http.dial();
    let text = http.request("POST /tools/sh", &head, &body.to_string());
    streamed.write_all(text.as_bytes()).expect("send");
    begun(&http);
    let idle: Vec<_> = (0..400).map(|_| http.dial()).collect();
    for _ in 0..5 {
        assert_eq!(http.get("/tools/sh").0, 200);
    }
    fs::write(http.server.ws().join("go"), "").expect("write");
    assert!(answer(streamed).body.contains("event: result"), "it was cut off");
    drop(idle);
}

/// A request on a connection that is to be kept, but for its body: the server waits for it.
fn half(http: &Http) -> BufReader<TcpStream> {
    let mut stream = http.dial();
    let head = format!(
        "POST /tools/none HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        http.address
    );
    stream.write_all(head.as_bytes()).expect("send");
    let mut stream = BufReader::new(stream);
    assert_eq!(kept(&mut stream), Some(100));
    stream
}

/// The status of an answer on such a connection; none where it is closed.
fn kept(stream: &mut BufReader<TcpStream>) -> Option<u16> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(read) if read > 0 => {}
            _ => return None,
        }
        if line == "\r\n" {
            break;
        }
        if let Some(("content-length", bytes)) = line.to_lowercase().trim_end().split_once(": ") {
            length = bytes.parse().expect("a length");
        }
        head.push(line);
    }
    stream.read_exact(&mut vec![0; length]).expect("the body");
    head.first()?.split(' ').nth(1)?.parse().ok()
}

/// Every place is taken by a request that is under way. The first that has its answer goes for
/// who waits, and it alone: no other one, and nobody because his time is up.
#[test]
fn who_has_its_answer_makes_room_for_who_waits() {
    // Of what is left of them one in eight is a place.
    let http = Http::open_to_all(|s| s.limit(Resource::RLIMIT_NOFILE, 256, 256));
    let mut all: Vec<_> = (0..26).map(|_| half(&http)).collect();
    let (done, under_way) = all.split_at_mut(3);
    let ask = http.request("GET /health", "", "");
    let mut waiting = http.dial();
    waiting.write_all(ask.as_bytes()).expect("send");
    for stream in &mut *done {
        stream.get_mut().write_all(b"{}").expect("send");
        assert_eq!(kept(stream), Some(404));
    }
    assert_eq!(answer(waiting).status, 200);
    let again: Vec<Option<u16>> = done
        .iter_mut()
        .map(|stream| {
            stream.get_mut().write_all(ask.as_bytes()).ok();
            kept(stream)
        })
        .collect();
    assert_eq!(again, [None, Some(200), Some(200)]);
    for stream in under_way {
        stream.get_mut().write_all(b"{}").expect("send");
        assert_eq!(kept(stream), Some(404), "it was cut off");
    }
}

/// More than the kernel keeps for who does not read: hyper has the last of it, and no body.
#[test]
fn an_answer_that_is_read_late_is_whole_though_others_wait_for_a_place() {
    let http = Http::open_to_all(|s| s.limit(Resource::RLIMIT_NOFILE, 256, 256));
    let long = "\u{1}".repeat(1_000_000);
    fs::write(http.server.ws().join("long"), &long).expect("write");
    let _under_way: Vec<_> = (0..25).map(|_| half(&http)).collect();
    let mut late = BufReader::new(http.dial());
    let ask = http.request("POST /tools/read_file", "", &json!({"path": "long"}).to_string());
    let ask = ask.replace("Connection: close\r\n", "");
    late.get_mut().write_all(ask.as_bytes()).expect("send");
    assert!(!late.fill_buf().expect("the beginning").is_empty());
    let mut waiting = http.dial();
    waiting.write_all(http.request("GET /health", "", "").as_bytes()).expect("send");
    // Whoever asked nothing for so long would have gone.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(kept(&mut late), Some(200));
    assert_eq!(answer(waiting).status, 200, "now it makes room");
    assert_eq!(kept(&mut late), None);
}

#[test]
fn a_stop_lets_calls_end_and_takes_no_more() {
    let http = Http::with_tokens(|_| {});
    let body = json!({"args": ["-c", "echo $$ > pid; while ! test -e go; do sleep 0.05; done; echo done"]});
    let mut stream = http.dial();
    stream.write_all(call(&http, ALICE, "/tools/sh", &body.to_string()).as_bytes()).expect("send");
    begun(&http);
    let mut idle = http.dial();
    http.server.signal(Signal::SIGTERM);
    eventually("it says that it stops", || http.server.log().contains("stopping"));
    eventually("nobody listens", || std::net::TcpStream::connect(http.address).is_err());
    fs::write(http.server.ws().join("go"), "").expect("write");
    let told = answer(stream);
    assert_eq!((told.status, &told.json()["output"]["stdout"]), (200, &json!("done\n")));
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0, "an idle connection is closed");
    let Http { mut server, .. } = http;
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_call_that_goes_on_ends_with_the_time_that_a_stop_has() {
    let http = Http::with_tokens(|s| {
        s.env("TOOL_TIMEOUTS_DRAIN", "0.2");
        s.env("TOOL_TIMEOUTS_GRACE", "0.2");
    });
    let body = json!({"args": ["-c", "echo $$ > pid; exec sleep 600"]}).to_string();
    let mut stream = http.dial();
    stream.write_all(call(&http, ALICE, "/tools/sh", &body).as_bytes()).expect("send");
    begun(&http);
    http.server.signal(Signal::SIGTERM);
    let told = answer(stream);
    assert!([500, 503].contains(&told.status), "{told:?}");
    ended(&http);
    let Http { mut server, .. } = http;
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn each_request_has_a_line_in_the_log_without_its_query_unless_it_is_not_wanted() {
    let http = Http::with_tokens(|_| {});
    http.get("/tools?format=mcp");
    http.raw(http.request("GET /metrics?secret=1", "", "").as_bytes());
    let line = |path: &str| {
        let log = http.server.log();
        log.lines().find(|line| line.contains(&format!("\"path\":\"{path}\""))).map(str::to_owned)
    };
    eventually("both are there", || line("/tools").is_some() && line("/metrics").is_some());
    let tools = line("/tools").expect("a line");
    for part in ["\"method\":\"GET\"", "\"status\":200", "\"client\":\"alice\"", "\"ms\":"] {
        assert!(tools.contains(part), "{part}: {tools}");
    }
    assert!(line("/metrics").is_some_and(|line| line.contains("401") && !line.contains("client")));
    assert!(!http.server.log().contains("secret") && !http.server.log().contains("format=mcp"));
    let quiet = Http::with_tokens(|s| s.env("LOGGING_ENABLED", "false"));
    quiet.get("/tools");
    // All that it had to say is there when it has stopped.
    let stopped = quiet.server.stop(Signal::SIGTERM);
    assert!(stopped.log().contains("stopped"), "{}", stopped.log());
    assert!(!stopped.log().contains("\"path\":\"/tools\""), "{}", stopped.log());
}

/// Where HTTP is off, nothing of it is there.
#[test]
fn a_server_without_http_has_no_thread_for_it() {
    let threads = |pid: i32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
        let name =
            |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().map(name).filter(|name| name.trim() == "http").count()
    };
    let off = tool_broker_tests::Server::start(|_| {});
    assert_eq!(threads(off.pid()), 0);
    // A thread takes its name when it begins.
    let on = Http::with_tokens(|_| {});
    eventually("one thread", || threads(on.server.pid()) == 1);
}

//! Memory: calls leave none behind, and neither a caller that reads nothing nor
//! a tool that never stops talking makes the server grow without bound.

mod reliability_help;

use std::time::Duration;

use reliability_help::{Mark, Tidy, cpu_ticks, private_memory, running, script, start};
use serde_json::{Value, json};
use tool_broker_tests::{Wire, eventually, is_root, run, skipped, still_works};

/// A thousand calls: buffered, streamed, by descriptors, refused, unknown, and
/// some whose caller goes away.
fn a_thousand(server: &Tidy) {
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    let null = [std::os::fd::AsFd::as_fd(&null); 3];
    let mut wire = server.connect();
    for n in 0..1000 {
        let text = format!("echo {n}; exit 0");
        match n % 10 {
            0..4 => {
                let reply = wire.call(&script(server, "buffered", &text));
                assert_eq!(reply["stdout"], json!(format!("{n}\n")), "{reply}");
            }
            4..6 => {
                wire.send_json(&script(server, "stream", &text));
                assert_eq!(wire.recv_stream().stdout, format!("{n}\n").as_bytes());
            }
            6 | 7 => {
                let mut request = script(server, "fds", "exit 3");
                request["fds"] = json!([0, 1, 2]);
                let mut one = server.connect();
                one.send_with_fds(&request, &null);
                assert_eq!(one.recv_json()["exit_code"], json!(3));
            }
            8 => {
                let mut request = script(server, "buffered", &text);
                request["cwd"] = json!("/");
                assert_eq!(wire.call(&request)["code"], json!("cwd_outside"));
                request["tool"] = json!(format!("no-such-{n}"));
                assert_eq!(wire.call(&request)["code"], json!("unknown_tool"));
            }
            _ => {
                let mut one = server.connect();
                one.send_json(&script(server, "buffered", "sleep 60"));
                drop(one);
            }
        }
    }
    eventually("no call runs", || running(server) == 0 && server.children().is_empty());
}

/// Why these tests are root's.
const HIDDEN: &str = "a server hides the figures of its memory from all but root";

#[test]
fn a_second_thousand_calls_costs_no_more_memory_than_the_first() {
    if !is_root() {
        return skipped("a_second_thousand_calls_costs_no_more_memory_than_the_first", HIDDEN);
    }
    let server = start(|s| s.env("TOOL_TIMEOUTS_GRACE", "0.2"));
    let before = server.settled();
    a_thousand(&server);
    let first = private_memory(server.pid());
    a_thousand(&server);
    let second = private_memory(server.pid());
    let grown = second.saturating_sub(first);
    eprintln!("private memory: {first} KiB after a thousand calls, {second} KiB after two");
    assert!(grown <= 1024, "grown by {grown} KiB from {first} KiB in a thousand calls");
    server.nothing_left(before);
    still_works(&server);
}

/// Waits until the server does next to nothing: what is held up is held up.
fn settles(server: &Tidy) {
    let mut last = cpu_ticks(server.pid());
    eventually("the output is held up", || {
        std::thread::sleep(Duration::from_millis(400));
        let now = cpu_ticks(server.pid());
        let still = now - last <= 2;
        last = now;
        still
    });
}

#[test]
fn fifty_callers_that_read_nothing_hold_little_memory_and_hinder_nobody() {
    if !is_root() {
        return skipped(
            "fifty_callers_that_read_nothing_hold_little_memory_and_hinder_nobody",
            HIDDEN,
        );
    }
    const CALLERS: u64 = 50;
    let mark = Mark::new();
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        s.tools(&[("yes", "/usr/bin/yes")]);
    });
    let before = server.settled();
    let memory = private_memory(server.pid());
    let mut wires: Vec<Wire> = (0..CALLERS).map(|_| server.connect()).collect();
    for wire in &mut wires {
        let args = [mark.of(0)];
        wire.send_json(&json!({"tool":"yes","args":args,"cwd":server.ws(),"stdio":"stream"}));
    }
    eventually("all run", || mark.alive().len() as u64 == CALLERS);
    settles(&server);
    let each = private_memory(server.pid()).saturating_sub(memory) / CALLERS;
    eprintln!("{each} KiB for each caller that reads nothing");
    assert!(each <= 128, "{each} KiB for each caller that reads nothing");
    for _ in 0..10 {
        still_works(&server);
    }
    drop(wires);
    mark.all_gone();
    server.nothing_left(before);
    eventually("no call runs", || running(&server) == 0);
    still_works(&server);
}

/// A caller that sends input which the tool does not take.
#[test]
fn callers_whose_input_nobody_takes_hold_little_memory() {
    if !is_root() {
        return skipped("callers_whose_input_nobody_takes_hold_little_memory", HIDDEN);
    }
    const CALLERS: u64 = 10;
    let mark = Mark::new();
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
        // What they cannot get rid of is half a frame: not what is looked at.
        s.env("TOOL_TIMEOUTS_FRAME", "600");
    });
    let before = server.settled();
    let memory = private_memory(server.pid());
    let mut wires: Vec<Wire> = Vec::new();
    let chunk = tool_broker_tests::wire::frame(&[0; 60_000]);
    for _ in 0..CALLERS {
        let mut wire = server.connect();
        wire.send_json(&script(&server, "stream", &format!("exec sleep {}", mark.of(0))));
        wire.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        // Until the server takes no more.
        let taken = (0..1000).take_while(|_| wire.try_send(&chunk).is_ok()).count();
        assert!(taken < 100, "{taken} chunks of 60,000 bytes were taken, and nobody reads them");
        wires.push(wire);
    }
    let each = private_memory(server.pid()).saturating_sub(memory) / CALLERS;
    eprintln!("{each} KiB for each caller whose input nobody takes");
    assert!(each <= 512, "{each} KiB for each caller whose input nobody takes");
    still_works(&server);
    drop(wires);
    mark.all_gone();
    server.nothing_left(before);
    still_works(&server);
}

#[test]
fn a_tool_that_prints_for_ever_is_stopped_in_buffered_mode_and_the_server_does_not_grow() {
    if !is_root() {
        return skipped(
            "a_tool_that_prints_for_ever_is_stopped_in_buffered_mode_and_the_server_does_not_grow",
            HIDDEN,
        );
    }
    let mark = Mark::new();
    let server = start(|s| {
        s.env("TOOL_TIMEOUTS_GRACE", "1");
        s.tools(&[("yes", "/usr/bin/yes")]);
    });
    let before = server.settled();
    let memory = private_memory(server.pid());
    let too_large = |reply: &Value| {
        let got = (&reply["code"], &reply["exit_code"]);
        assert_eq!(got, (&json!("output_too_large"), &json!(125)), "{reply}");
        assert_eq!(mark.alive(), [], "the answer came before its tree was gone");
    };
    // One that ends at TERM, and one that has to be killed and prints on until then.
    let yes = json!({"tool":"yes","args":[mark.of(0)],"cwd":server.ws()});
    too_large(&server.connect().call(&yes));
    let deaf = format!("trap '' TERM; yes {0} & (setsid yes {0} &) ; wait", mark.of(1));
    let mut most = 0;
    std::thread::scope(|scope| {
        let call = scope.spawn(|| server.connect().call(&script(&server, "buffered", &deaf)));
        while !call.is_finished() {
            most = most.max(private_memory(server.pid()));
            std::thread::sleep(Duration::from_millis(20));
        }
        too_large(&call.join().expect("the call"));
    });
    let grown = most.saturating_sub(memory);
    eprintln!("at most {grown} KiB more while a tool printed without end");
    assert!(grown <= 2048, "grown by {grown} KiB while a tool printed without end");
    // A line without an end, and ten at once.
    let wires: Vec<Wire> = (0..10)
        .map(|n| {
            let mut wire = server.connect();
            let text = format!("(echo {}) >/dev/null; tr '\\0' x </dev/zero", mark.of(2 + n));
            wire.send_json(&script(&server, "buffered", &text));
            wire
        })
        .collect();
    for mut wire in wires {
        too_large(&wire.recv_json());
    }
    let line = run(server.client("sh").args(["-c", "head -c 1000000 /dev/zero | wc -c"]), b"");
    assert_eq!(line.success().trim(), "1000000", "by descriptors there is no such limit");
    server.nothing_left(before);
    still_works(&server);
}

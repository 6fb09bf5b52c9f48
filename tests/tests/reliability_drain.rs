//! SIGTERM: no new calls, time for those under way, a clear end for the rest,
//! and nothing left.

mod reliability_help;

use std::fs;
use std::io::Read;

use nix::sys::signal::Signal;
use reliability_help::{Mark, running, script, start};
use serde_json::{Value, json};
use tool_broker_tests::{Running, Wire, eventually, run, spawn};

/// Bytes that are one call's alone, ended by its number.
fn payload(n: usize) -> String {
    format!("{}|{n}\n", "0123456789abcdef".repeat(1000 + n))
}

/// A script that waits for `go` and then says its payload.
fn finishes(n: usize) -> String {
    format!(
        "until [ -e go ]; do sleep 0.02; done; s=; i=0; while [ $i -lt {} ]; do s=${{s}}0123456789abcdef; i=$((i+1)); done; echo \"$s|{n}\"",
        1000 + n
    )
}

#[test]
fn twenty_calls_under_way_end_well_or_are_interrupted_and_none_is_lost() {
    let mark = Mark::new();
    let mut server = start(|s| {
        s.env("TOOL_TIMEOUTS_DRAIN", "15");
        s.env("TOOL_TIMEOUTS_GRACE", "0.5");
    });
    let stuck = format!("trap '' TERM HUP; (setsid sleep {0} &); sleep {0}", mark.of(1));
    // A daemon of a call that has ended, for good measure.
    let daemon = format!("(setsid sleep {} <&- >&- 2>&- &)", mark.of(2));
    assert_eq!(run(server.client("sh").args(["-c", &daemon]), b"").code(), Some(0));
    // Ten of each: four by client, three buffered, three streamed.
    let mut clients: Vec<Running> = Vec::new();
    let mut wires: Vec<Wire> = Vec::new();
    for n in 0..20 {
        let text = if n < 10 { finishes(n) } else { stuck.clone() };
        match n % 10 {
            0..4 => clients.push(spawn(server.client("sh").args(["-c", &text]))),
            kind => {
                let mut wire = server.connect();
                let stdio = if kind < 7 { "buffered" } else { "stream" };
                wire.send_json(&script(&server, stdio, &text));
                wires.push(wire);
            }
        }
    }
    let mut idle = server.connect();
    assert_eq!(idle.call(&json!({"op":"health"}))["ok"], json!(true));
    eventually("twenty calls run", || running(&server) == 20);
    eventually("the stuck ones are whole", || mark.alive_of(1).len() == 20);
    server.signal(Signal::SIGTERM);
    eventually("it stops", || server.log().contains("\"stopping\""));
    // A new call on a connection that was there before.
    let reply = idle.try_call(&script(&server, "buffered", "touch ran"));
    if let Some(reply) = reply {
        assert_eq!((&reply["code"], &reply["exit_code"]), (&json!("draining"), &json!(125)));
    }
    // And one of a new client: told so, or not let in.
    let line = run(server.client("sh").args(["-c", "touch ran"]), b"").refused(125);
    assert!(!line.is_empty());
    fs::write(server.ws().join("go"), "").expect("go");
    let (well, broken) = clients.split_at_mut(4);
    for client in well.iter_mut() {
        client.wait_status();
    }
    let mut wires_well: Vec<Wire> = wires.drain(..6).collect();
    for (n, wire) in wires_well.iter_mut().enumerate() {
        let n = n + 4;
        let (last, said) = last_message(wire, n);
        assert_eq!(last["exit_code"], json!(0), "{n}: {last}");
        assert!(last.get("code").is_none(), "{n}: {last}");
        assert!(said == payload(n), "{n}: {} bytes of {}", said.len(), payload(n).len());
    }
    for (n, wire) in wires.iter_mut().enumerate() {
        let (last, _) = last_message(wire, n + 4);
        let got = (&last["code"], &last["exit_code"]);
        assert_eq!(got, (&json!("interrupted"), &json!(125)), "{last}");
    }
    for client in broken.iter_mut() {
        client.wait_status();
    }
    for (n, client) in clients.into_iter().enumerate() {
        let outcome = client.wait();
        if n < 4 {
            assert!(outcome.success() == payload(n), "{n}: {outcome:?}");
        } else {
            let line = outcome.refused(125);
            assert!(line.contains("again"), "does not say what to do: {line}");
        }
    }
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.socket().exists() && !server.control_socket().exists(), "socket files stay");
    assert!(!server.ws().join("ran").exists(), "a call was taken after SIGTERM");
    assert_eq!(mark.alive(), [], "left after the server's end");
}

/// The last message of a buffered (4 to 6) or streamed (7 to 9) call, and what
/// the tool said on stdout.
fn last_message(wire: &mut Wire, n: usize) -> (Value, String) {
    if n < 7 {
        let reply = wire.recv_json();
        let said = reply["stdout"].as_str().unwrap_or_default().to_owned();
        return (reply, said);
    }
    let got = wire.recv_stream();
    (got.last, String::from_utf8(got.stdout).expect("text"))
}

#[test]
fn a_call_that_waits_for_its_turn_is_told_that_the_server_drains() {
    let mut server = start(|s| {
        s.tool("one", "binary = \"/bin/sh\"\n[limits]\nconcurrent = 1\n");
        s.env("TOOL_TIMEOUTS_DRAIN", "30");
    });
    let request = |text: &str| json!({"tool":"one","args":["-c",text],"cwd":server.ws()});
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send_json(&request("touch up; until [ -e go ]; do sleep 0.02; done; echo first"));
    reliability_help::file_appears(&server, "up");
    second.send_json(&request("touch ran"));
    eventually("the second waits", || server.status()["calls"]["waiting"] == json!(1));
    server.signal(Signal::SIGTERM);
    let reply = second.recv_json();
    assert_eq!((&reply["code"], &reply["exit_code"]), (&json!("draining"), &json!(125)));
    fs::write(server.ws().join("go"), "").expect("go");
    assert_eq!(first.recv_json()["stdout"], json!("first\n"));
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(!server.ws().join("ran").exists());
}

/// A tool that ends within the drain time while its reader is slower than it:
/// what it wrote is still the reader's, all of it.
#[test]
fn a_slow_reader_gets_all_bytes_of_a_call_that_finished_while_draining() {
    let mut server = start(|s| s.env("TOOL_TIMEOUTS_DRAIN", "60"));
    let mut wire = server.connect();
    let text =
        "touch up; until [ -e go ]; do sleep 0.02; done; head -c 400000 /dev/zero; touch done";
    wire.send_json(&script(&server, "stream", text));
    reliability_help::file_appears(&server, "up");
    server.signal(Signal::SIGTERM);
    eventually("it stops", || server.log().contains("\"stopping\""));
    fs::write(server.ws().join("go"), "").expect("go");
    // Read by small pieces, with a pause after each: a few seconds in all.
    let mut all = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        match wire.stream.read(&mut piece) {
            Ok(0) => break,
            Ok(some) => all.extend_from_slice(&piece[..some]),
            Err(error) => panic!("after {} bytes: {error}", all.len()),
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(server.ws().join("done").exists(), "the tool itself was done");
    let (mut bytes, mut last, mut rest) = (0, Value::Null, &all[..]);
    while rest.len() >= 4 {
        let (prefix, behind) = rest.split_at(4);
        let length = u32::from_be_bytes(prefix.try_into().expect("four")) as usize;
        assert!(behind.len() >= length, "cut in the middle of a frame after {bytes} bytes");
        let (frame, behind) = behind.split_at(length);
        match frame[0] {
            1 => bytes += length - 1,
            b'{' => last = serde_json::from_slice(frame).expect("JSON"),
            _ => {}
        }
        rest = behind;
    }
    assert_eq!((bytes, &last["exit_code"]), (400_000, &json!(0)), "{last}");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_second_signal_while_it_stops_does_no_harm() {
    let mark = Mark::new();
    let mut server = start(|s| {
        s.env("TOOL_TIMEOUTS_DRAIN", "1");
        s.env("TOOL_TIMEOUTS_GRACE", "0.3");
    });
    let text = format!("trap '' TERM; (setsid sleep {0} &); sleep {0}", mark.of(0));
    let client = spawn(server.client("sh").args(["-c", &text]));
    eventually("it runs", || mark.alive().len() == 2);
    for signal in [Signal::SIGTERM, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        server.signal(signal);
    }
    client.wait().refused(125);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_eq!(mark.alive(), []);
}

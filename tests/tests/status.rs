//! `tool-server status`: what needs a look, what is under way, what was refused,
//! for people and for programs; nothing of a caller's raw, nothing without end.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::{Server, Wire, eventually, run, still_works};

fn told(server: &Server) -> String {
    run(&mut server.verb(&["status"]), b"").success()
}

/// The lines beneath a heading.
fn beneath<'a>(said: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = said.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with("  ")).map(str::trim).collect()
}

#[test]
fn what_is_unrestricted_or_degraded_comes_first() {
    let server = Server::start(|s| {
        s.tool(
            "fine",
            "binary = \"/bin/echo\"\ndefault = \"allow\"\n[limits]\nrate = \"9/hour\"\n",
        );
        s.tool("gone", "binary = \"/no/such/binary\"\ndefault = \"deny\"\n");
        s.tool("kept", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
        s.tool("never", "binary = \n");
        s.tool("ill", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
        s.file("tools.d/ill/setup.sh", "exit 3\n", 0o755);
        s.config("[limits]\nrate = \"5000/minute\"\n");
    });
    server.tool("kept", "binary = \"/bin/echo\"\n\ntimeout = \"soon\"\n");
    eventually("the broken one is noticed", || told(&server).contains("kept/tool.toml:3"));
    eventually("the setup has failed", || told(&server).contains("setup failed"));
    let said = told(&server);
    let look = beneath(&said, "look at:");
    assert_eq!(said.lines().nth(1), Some("look at:"), "{said}");
    for (begins, also) in [
        ("gone: missing binary: ", "/no/such/binary"),
        ("kept: last good kept: ", "kept/tool.toml:3: timeout"),
        ("sh: unrestricted: ", "neither rules nor a default"),
        ("not in force: ", "never/tool.toml:1"),
        ("ill: setup failed: ", "3"),
    ] {
        let found = look.iter().find(|line| line.starts_with(begins));
        assert!(found.is_some_and(|line| line.contains(also)), "{begins}{also}: {said}");
    }
    assert!(!look.iter().any(|line| line.contains("fine")), "{said}");
    let tools = beneath(&said, "tools:").join("\n");
    for line in [
        "fine  ok, allow  /bin/echo, rate 9/hour",
        "gone  missing binary, deny  /no/such/binary",
        "kept  last good kept, allow  /bin/echo",
        "sh    unrestricted  /bin/sh",
    ] {
        assert!(tools.contains(line), "no {line:?}: {said}");
    }
    for line in [
        format!("socket: {}", server.socket().display()),
        "rate: 5000/minute for each peer".to_owned(),
        "unclean restarts: 0".to_owned(),
    ] {
        assert!(said.lines().any(|one| one == line), "no {line:?}: {said}");
    }
    let status = server.status();
    let state = |name: &str| {
        let tools = status["tools"].as_array().expect("a list").iter();
        tools.filter(|tool| tool["name"] == name).map(|tool| tool["state"].clone()).next()
    };
    assert_eq!(state("fine"), Some(json!("ok")));
    assert_eq!(state("gone"), Some(json!("missing binary")));
    assert_eq!(state("kept"), Some(json!("last good kept")));
    assert_eq!(state("sh"), Some(json!("unrestricted")));
    assert_eq!(status["attention"].as_array().map(Vec::len), Some(look.len()));
}

#[test]
fn where_all_is_well_there_is_nothing_to_look_at() {
    let server = Server::start(|s| s.tool("sh", "binary = \"/bin/sh\"\ndefault = \"allow\"\n"));
    // The same folder's tool.json is the only thing to say a word about.
    fs::remove_file(server.path("tools.d/sh/tool.json")).expect("rm");
    eventually("all is well", || {
        // Where this test runs tools may be able to shed their mark.
        let status = server.status();
        let lines = status["attention"].as_array().expect("a list");
        lines.iter().all(|line| line.as_str().is_some_and(|line| line.contains("WEAK")))
    });
    let weak = server.status()["tree"].to_string().contains("WEAK");
    assert_eq!(told(&server).contains("look at:"), weak);
}

#[test]
fn calls_under_way_are_listed_escaped_and_shortened() {
    let server = Server::start(|s| s.config("[limits]\ncalls = 1\n"));
    let wait = "until [ -e go ]; do sleep 0.02; done";
    let mut wires = [server.connect(), server.connect()];
    let args = |second: &str| json!(["-c", wait, "\u{1b}[31mred\n\u{202e}", "", second]);
    wires[0].send_json(&json!({"tool":"sh","args":args(&"x".repeat(5_000)),"cwd":server.ws()}));
    eventually("one runs", || server.status()["calls"]["running"] == json!(1));
    wires[1].send_json(&json!({"tool":"sh","args":args("y"),"cwd":server.ws()}));
    eventually("one waits", || server.status()["calls"]["waiting"] == json!(1));
    let status = server.status();
    let calls = status["under_way"].as_array().expect("a list");
    assert_eq!(calls.len(), 2, "{status}");
    let shown = r#"sh -c "until [ -e go ]; do sleep 0.02; done" "\x1b[31mred\n\xe2\x80\xae" """#;
    for (call, state) in calls.iter().zip(["running", "waiting"]) {
        let command = call["command"].as_str().expect("a command");
        assert!(command.starts_with(shown) && command.len() < 400, "{command}");
        assert!(command.ends_with("x…") || command.ends_with(" y"), "{command}");
        assert_eq!(call["state"], json!(state));
        let peer = call["peer"].as_str().expect("a peer");
        assert!(peer.ends_with(&format!("at {}", server.socket().display())), "{peer}");
        assert!(peer.starts_with("uid "), "{peer}");
    }
    let said = told(&server);
    for (id, state) in [(&calls[0]["call_id"], "running"), (&calls[1]["call_id"], "waiting")] {
        let begins = format!("  {}  {state} ", id.as_str().expect("an id"));
        let line = said.lines().find(|line| line.starts_with(&begins));
        assert!(line.is_some_and(|line| line.contains(shown)), "{said}");
    }
    assert!(!said.bytes().any(|b| b == 0x1b) && !said.contains('\u{202e}'), "{said}");
    fs::write(server.ws().join("go"), "").expect("go");
    for wire in &mut wires {
        let reply = wire.recv_json();
        let id = &reply["call_id"];
        assert!(calls.iter().any(|call| call["call_id"] == *id), "{reply}: another id");
    }
    assert_eq!(server.status()["under_way"], json!([]));
}

#[test]
fn the_last_refusals_are_listed_and_no_more_than_twenty() {
    let server = Server::start(|s| {
        s.tool("no", "binary = \"/bin/sh\"\ndefault = \"deny\"\n");
        s.tool("brief", "binary = \"/bin/sh\"\ntimeout = 0.1\n");
    });
    assert_eq!(server.status()["refusals"], json!([]));
    let mut wire = server.connect();
    for n in 0..30 {
        let tool = format!("t{n}");
        wire.call(&json!({"tool":tool,"args":[],"cwd":server.ws()}));
    }
    wire.call(&json!({"tool":"sh","args":[],"cwd":"/\u{1b}[2J\nnowhere"}));
    let reply = wire.call(&json!({"tool":"no","args":[],"cwd":server.ws()}));
    // What ran and what is asked for in another way is no refusal.
    wire.call(&json!({"tool":"sh","args":["-c","exit 9"],"cwd":server.ws()}));
    wire.call(&json!({"tool":"brief","args":["-c","sleep 9"],"cwd":server.ws()}));
    let status = server.status();
    let refusals = status["refusals"].as_array().expect("a list");
    assert_eq!(refusals.len(), 20, "{status}");
    let newest = &refusals[0];
    let of = ["tool", "code", "rule", "call_id"].map(|name| newest[name].clone());
    assert_eq!(of, [json!("no"), json!("denied"), json!("default"), reply["call_id"].clone()]);
    assert_eq!(newest["message"], reply["error"]);
    assert_eq!(refusals[1]["tool"], json!("sh"), "{status}");
    let oldest = |list: &[Value]| list.last().map(|one| one["tool"].clone());
    assert_eq!(oldest(refusals), Some(json!("t12")), "the oldest go first");
    let said = told(&server);
    let lines = beneath(&said, "refused last:");
    assert_eq!(lines.len(), 20, "{said}");
    assert!(lines[0].contains("no  denied by default: "), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

/// However much there is to tell, the answer fits one message.
#[test]
fn a_flood_does_not_make_the_answer_too_long() {
    let server = Server::start(|s| s.config("[limits]\ncalls = 1\n"));
    let long = json!({
        "tool":"sh","args":["-c","until [ -e go ]; do sleep 0.02; done","\u{7}".repeat(2_000)],
        "cwd":server.ws(),
    });
    let mut wires: Vec<Wire> = (0..200).map(|_| server.connect()).collect();
    wires.iter_mut().for_each(|wire| wire.send_json(&long));
    eventually("all but one wait", || server.status()["calls"]["waiting"] == json!(199));
    let status = server.status();
    assert_eq!(status["under_way"].as_array().map(Vec::len), Some(50));
    assert_eq!(status.get("truncated"), None, "{}", status.to_string().len());
    let said = told(&server);
    assert!(said.lines().any(|line| line == "  and 150 more"), "{said}");
    fs::write(server.ws().join("go"), "").expect("go");
    drop(wires);
    eventually("it is over", || server.status()["under_way"] == json!([]));
    still_works(&server);
}

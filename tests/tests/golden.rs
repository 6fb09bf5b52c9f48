//! The golden transcripts of `protocol/testdata`, played against the real
//! server: what docs/protocol.md says, byte for byte.

use std::io::Write;

use serde_json::{Map, Value, json};
use tool_broker_tests::{Server, still_works};

#[test]
fn every_golden_transcript_is_answered_as_it_is_written() {
    let golden = tool_broker_tests::project().join("protocol/testdata");
    let server = Server::start(|setup| {
        let ws = setup.ws();
        for entry in std::fs::read_dir(setup.path("tools.d")).expect("tools.d") {
            std::fs::remove_dir_all(entry.expect("an entry").path()).expect("remove");
        }
        setup.tools(&[("sh", "/bin/sh"), ("cat", "/bin/cat"), ("echo", "/bin/echo")]);
        setup.env("TOOL_PATH_MAP", format!("/workspace={}", ws.display()));
    });
    let mut played = 0;
    for entry in std::fs::read_dir(&golden).expect("testdata") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "client") {
            continue;
        }
        let expected = std::fs::read_to_string(path.with_extension("server")).expect("its answer");
        let mut wire = server.connect();
        wire.stream.write_all(&std::fs::read(&path).expect("read")).expect("send");
        let lines: Vec<&str> = expected.lines().collect();
        let mut got: Vec<Vec<u8>> =
            lines.iter().map(|_| wire.recv_frame().expect("a frame")).collect();
        // Two streams have no order between them; the last message is last.
        got[..lines.len() - 1].sort_by_key(|payload| payload[0]);
        for (payload, line) in got.iter().zip(lines) {
            assert_eq!(shown(payload, line), line, "{}", path.display());
        }
        played += 1;
    }
    assert!(played >= 10, "only {played} transcripts in {}", golden.display());
    still_works(&server);
}

/// A payload as a transcript writes it, with what may differ taken from there.
fn shown(payload: &[u8], line: &str) -> String {
    if payload.first() != Some(&b'{') {
        return format!("{} {}", payload[0], String::from_utf8_lossy(&payload[1..]));
    }
    let object: Map<String, Value> = serde_json::from_slice(payload).expect("an object");
    let expected: Value = serde_json::from_str(line).unwrap_or_default();
    let members = object.into_iter().map(|(name, value)| {
        let value = match expected.get(&name) {
            Some(any) if *any == json!("*") && !value.is_null() => any.clone(),
            Some(Value::Number(_)) if name == "duration_ms" => json!(0),
            _ => value,
        };
        (name, value)
    });
    Value::Object(members.collect()).to_string()
}

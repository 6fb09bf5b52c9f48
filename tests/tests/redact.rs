//! A definition with `redact = true`: what its tool prints has no value of its
//! credentials in it, however it is written, cut and carried.

use std::fs;

use serde_json::json;
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{Server, run};

const TOKEN: &str = "ghp_Az09/b+c \"q\"\\<&>~0123456789abcdef";

/// A tool that prints a file, so many bytes at a time: it has no credential itself.
fn server() -> Server {
    Server::start(|setup| {
        setup.file("token", format!("{TOKEN}\n"), 0o600);
        let token = setup.path("token");
        let definition = format!(
            "binary = \"/bin/sh\"\n[sandbox]\nredact = true\n[[gate]]\nadapter = \"http\"\n\
             hosts = [\"example.com\"]\ncredential = \"file:{}\"\n",
            token.display()
        );
        setup.tool("prints", &definition);
        for (name, form) in forms() {
            setup.file(format!("ws/{name}"), format!("<{form}>\n"), 0o644);
        }
    })
}

/// As programs would write it.
fn forms() -> Vec<(&'static str, String)> {
    let percent = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    let encoded: String = TOKEN.bytes().map(percent).collect();
    let json = json!(TOKEN).to_string();
    let base64 = run(std::process::Command::new("base64").arg("-w0"), TOKEN.as_bytes()).out();
    vec![
        ("plain", TOKEN.to_owned()),
        ("url", encoded.clone()),
        ("lower", encoded.to_lowercase().replace(&TOKEN.to_lowercase(), TOKEN)),
        ("json", json.trim_matches('"').to_owned()),
        ("base64", base64.trim_end_matches('=').to_owned()),
    ]
    .into_iter()
    .filter(|(name, _)| *name != "lower")
    .collect()
}

/// `dd` with a pause after each block, so that every piece is read alone.
fn slowly(name: &str, block: usize, to: &str) -> String {
    format!(
        "i=0; n=$(wc -c <{name}); while [ $i -lt $n ]; do dd if={name} bs=1 skip=$i \
         count={block} 2>/dev/null {to}; i=$((i+{block})); sleep 0.01; done"
    )
}

#[test]
fn a_value_is_not_in_the_output_in_any_form_wherever_it_is_cut() {
    let server = server();
    for (name, form) in forms() {
        let whole =
            run(server.client("prints").args(["-c", &format!("cat {name}; cat {name} >&2")]), b"");
        assert_eq!(whole.code(), Some(0), "{whole:?}");
        for text in [whole.out(), whole.err()] {
            assert!(text.starts_with("<[redacted]") && text.ends_with(">\n"), "{name}: {text}");
            assert!(text.len() < 20 && !text.contains(&form[..8]), "{name}: {text}");
        }
        // Slow: a process for each piece.
        for block in if name == "plain" { vec![1, 9] } else { vec![9] } {
            let script = slowly(name, block, "");
            let cut = run(server.client("prints").args(["-c", &script]), b"");
            // A few bytes at its beginning may have been shown for lack of more.
            let text = cut.out();
            assert!(text.starts_with('<') && text.contains("[redacted]"), "{name} {block}: {text}");
            assert!(text.len() < 24 && text.ends_with(">\n"), "{name} {block}: {text}");
        }
    }
}

#[test]
fn a_buffered_reply_and_a_terminal_are_redacted_too() {
    let server = server();
    let mut wire = server.connect();
    wire.send_json(
        &json!({"tool": "prints", "args": ["-c", "cat plain; cat json >&2"], "cwd": server.ws()}),
    );
    let reply = wire.recv_json();
    assert_eq!(
        (&reply["stdout"], &reply["stderr"]),
        (&json!("<[redacted]>\n"), &json!("<[redacted]>\n"))
    );
    let mut client = server.client("prints");
    client
        .env("TERM", "xterm")
        .args(["-c", "test -t 1 && cat plain; read x; echo \"got $x\"; cat base64"]);
    let mut terminal = OnTerminal::start(client);
    terminal.shows("<[redacted]>");
    // What is typed appears, although it might be the beginning of a value.
    terminal.type_text("gh");
    terminal.shows("gh");
    terminal.type_text("i\r");
    terminal.shows("got ghi");
    let status = terminal.wait();
    assert!(status.success(), "{status:?}");
    assert!(!terminal.screen().contains("Az09"), "{}", terminal.screen());
}

#[test]
fn descriptors_are_never_passed_to_a_tool_whose_output_is_redacted() {
    let server = server();
    let mut wire = server.connect();
    let file = fs::File::create(server.ws().join("out")).expect("create");
    let request = json!({"tool": "prints", "args": ["-c", "cat plain"], "cwd": server.ws(), "stdio": "fds", "fds": [1]});
    wire.send_with_fds(&request, &[std::os::fd::AsFd::as_fd(&file)]);
    assert_eq!(wire.recv_json()["code"], json!("use_stream"));
    // The client does that by itself, into a file as well.
    let mut client = server.client("prints");
    client.args(["-c", "cat plain"]).stdout(file);
    assert!(client.status().expect("run").success());
    assert_eq!(fs::read_to_string(server.ws().join("out")).expect("read"), "<[redacted]>\n");
}

#[test]
fn values_are_those_of_the_moment_and_much_output_passes_unchanged() {
    let server = server();
    fs::write(server.path("token"), "another-secret-value").expect("write");
    let script = "cat plain; echo another-secret-value";
    let outcome = run(server.client("prints").args(["-c", script]), b"");
    assert_eq!(outcome.success(), format!("<{TOKEN}>\n[redacted]\n"));
    fs::remove_file(server.path("token")).expect("remove");
    let outcome = run(server.client("prints").args(["-c", script]), b"");
    assert_eq!(outcome.success(), format!("<{TOKEN}>\nanother-secret-value\n"));
    fs::write(server.path("token"), "another-secret-value").expect("write");
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    fs::write(server.ws().join("binary"), &bytes).expect("write");
    let outcome = run(server.client("prints").args(["-c", "cat binary"]), b"");
    assert!(outcome.code() == Some(0) && outcome.stdout == bytes, "{}", outcome.stdout.len());
}

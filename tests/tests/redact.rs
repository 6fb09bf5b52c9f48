//! A definition with `redact = true`: what its tool prints has no value of its
//! credentials in it, however it is written, cut and carried.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{Server, eventually, run, spawn};

/// How tools are held: as well as this machine can, and without namespaces.
const LEVELS: [&str; 2] = ["auto", "landlock"];

const TOKEN: &str = "ghp_Az09/b+c \"q\"\\<&>~0123456789abcdef";

/// A tool that prints a file, so many bytes at a time: it has no credential itself.
fn server(level: &str) -> Server {
    Server::start(|setup| {
        setup.env("TOOL_SANDBOX_LEVEL", level);
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
    for level in LEVELS {
        let server = server(level);
        for (name, form) in forms() {
            let whole = run(
                server.client("prints").args(["-c", &format!("cat {name}; cat {name} >&2")]),
                b"",
            );
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
                assert!(
                    text.starts_with('<') && text.contains("[redacted]"),
                    "{name} {block}: {text}"
                );
                assert!(text.len() < 24 && text.ends_with(">\n"), "{name} {block}: {text}");
            }
        }
    }
}

#[test]
fn a_buffered_reply_and_a_terminal_are_redacted_too() {
    for level in LEVELS {
        let server = server(level);
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
}

#[test]
fn descriptors_are_never_passed_to_a_tool_whose_output_is_redacted() {
    for level in LEVELS {
        let server = server(level);
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
}

#[test]
fn values_are_those_of_the_moment_and_much_output_passes_unchanged() {
    for level in LEVELS {
        let server = server(level);
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
}

/// A host that shows what it was asked with.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut shown = String::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) < 3 {
                    break;
                }
                let is = line.to_ascii_lowercase().starts_with("authorization: ");
                shown.push_str(if is { &line } else { "" });
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", shown.len());
            let answer = format!("{head}connection: close\r\n\r\n{shown}");
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    port
}

/// A value that was not there when the call began, and the one that it takes the place of.
#[test]
fn a_credential_that_is_renewed_in_a_call_is_taken_out_from_then_on() {
    for level in LEVELS {
        let port = echo();
        let server = Server::start(|setup| {
            setup.env("TOOL_SANDBOX_LEVEL", level);
            let count = setup.path("run/count");
            let script = format!(
                "#!/bin/sh\necho x >> {0}\necho \"value-of-the-vault-$(wc -l < {0})\"\n",
                count.display()
            );
            let program = setup.file("run/vault", script, 0o755);
            let late = setup.path("run/late");
            let definition = format!(
                "binary = \"/bin/sh\"\n[sandbox]\nredact = true\n[[gate]]\nadapter = \"http\"\n\
                 hosts = [\"api.test\"]\nupstream = \"http://127.0.0.1:{port}\"\n\
                 private = [\"127.0.0.0/8\"]\ncredential = \"command:{}\"\ncredential_ttl = 1\n\
                 [[gate]]\nadapter = \"http\"\nhosts = [\"late.test\"]\n\
                 upstream = \"http://127.0.0.1:{port}\"\nprivate = [\"127.0.0.0/8\"]\n\
                 credential = \"file:{}\"\n",
                program.display(),
                late.display(),
            );
            setup.tool("asks", &definition);
        });
        let script = "for n in 1 2 3; do curl -s http://api.test/; sleep 1.2; done; \
            echo value-of-the-vault-1 dmFsdWUtb2YtdGhlLXZhdWx0LTM=; echo ready >ready; \
            while [ ! -e go ]; do sleep 0.05; done; curl -s http://late.test/ >&2";
        let call = spawn(server.client("asks").args(["-c", script]));
        eventually("it waits", || server.ws().join("ready").exists());
        // There was none when it began.
        fs::write(server.path("run/late"), "value-that-comes-late\n").expect("write");
        fs::write(server.ws().join("go"), "").expect("write");
        let outcome = call.wait();
        let line = "authorization: Bearer [redacted]\r\n";
        // The last digit of it is not its own alone.
        let shown = format!("{}[redacted] [redacted]M=\n", line.repeat(3));
        assert_eq!(outcome.out(), shown, "{level}: {outcome:?}");
        assert_eq!(outcome.err(), line, "{level}");
        let runs = fs::read_to_string(server.path("run/count")).expect("it ran");
        assert!(runs.lines().count() >= 3, "{runs}");
    }
}

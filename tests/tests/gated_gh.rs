//! gh through its gate: the real client, the real server, the real gh, and a stub of the
//! API on loopback that is asked with a token which no tool has.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use tool_broker_tests::{Outcome, Server, Setup, run};

const TOKEN: &str = "canary-of-the-api";

/// Requests that the stub got: the first line, whether the token was there, the body.
type Asked = Arc<Mutex<Vec<(String, bool, String)>>>;

/// A stub of GitHub's API; its port, and what it is asked.
fn api() -> (u16, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let (mut first, mut length, mut known) = (String::new(), 0, false);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).expect("a line") == 0 || line == "\r\n" {
                    break;
                }
                let small = line.to_lowercase();
                if let Some(number) = small.strip_prefix("content-length:") {
                    length = number.trim().parse().expect("a length");
                }
                known |= small.trim() == format!("authorization: token {TOKEN}");
                if first.is_empty() {
                    first = line.trim().to_owned();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let body = String::from_utf8(body).expect("text");
            let answer = match first.split(' ').nth(1) {
                Some("/graphql") if body.contains("viewer") => {
                    r#"{"data":{"viewer":{"login":"o"}}}"#
                }
                Some("/graphql") => r#"{"data":{"x":{"clientMutationId":null}}}"#,
                _ => r#"{"login":"o","id":1}"#,
            };
            kept.lock().expect("a lock").push((first, known, body));
            let length = answer.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 x-oauth-scopes: repo, read:org\r\nconnection: close\r\n\r\n{answer}"
            );
            reader.get_mut().write_all(head.as_bytes()).expect("an answer");
        }
    });
    (port, asked)
}

struct Stand {
    server: Server,
    asked: Asked,
}

fn stand(level: &str) -> Option<Stand> {
    if !Path::new("/usr/bin/gh").exists() {
        println!("skipped: gh is not installed (apt-get install gh)");
        return None;
    }
    let (port, asked) = api();
    let server = Server::start(|setup: &mut Setup| {
        let secret = setup.file("run/github_token", format!("{TOKEN}\n"), 0o600);
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
        let grammar = fs::read(project.join("tools.d/gh/grammar.toml")).expect("a grammar");
        setup.file("tools.d/gh/grammar.toml", grammar, 0o644);
        let definition = format!(
            "binary = \"/usr/bin/gh\"\ndefault = \"allow\"\nunread = \"allow\"\n\
             [[gate]]\nadapter = \"github\"\nhosts = [\"github.com\"]\ndefault = \"allow\"\n\
             upstream = \"http://127.0.0.1:{port}\"\nprivate = [\"127.0.0.0/8\"]\n\
             credential = \"file:{}\"\n\
             [[rule]]\nid = \"stays\"\ndecision = \"deny\"\non = \"wire\"\n\
             facts.field = [\"deleteRepository\"]\nreason = \"it stays\"\ninstead = \"leave it\"\n",
            secret.display()
        );
        setup.tool("gh", &definition);
        setup.env("TOOL_SANDBOX_LEVEL", level);
    });
    Some(Stand { server, asked })
}

impl Stand {
    fn gh(&self, words: &[&str]) -> Outcome {
        let mut gh = self.server.client("gh");
        gh.args(words).current_dir(self.server.ws());
        run(&mut gh, b"")
    }
}

fn a_day(level: &str) {
    let Some(stand) = stand(level) else { return };
    let status = stand.gh(&["auth", "status"]);
    assert_eq!(status.code(), Some(0), "{status:?}");
    assert!(status.err().contains("Logged in to github.com as o"), "{status:?}");
    assert_eq!(stand.gh(&["api", "user", "--jq", ".login"]).success(), "o\n");
    let query =
        "query=mutation($i: ID!) { y: addStar(input: {starrableId: $i}) { clientMutationId } }";
    stand.gh(&["api", "graphql", "-f", query, "-f", "i=R_1"]).success();
    let hidden = "query=mutation { ...F } fragment F on Mutation { x: deleteRepository(input: {}) { clientMutationId } }";
    let refused = stand.gh(&["api", "graphql", "-f", hidden]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.err().contains("refused by the broker: it stays"), "{refused:?}");
    let asked = stand.asked.lock().expect("a lock").clone();
    assert!(asked.iter().all(|(_, known, body)| *known && !body.contains("deleteRepository")));
    assert!(asked.iter().any(|(_, _, body)| body.contains("addStar")), "{asked:?}");
    // Other hosts, and the configuration that it is given.
    let other = stand.gh(&["api", "https://example.com/x"]);
    assert!(other.err().contains("refused by the broker"), "{other:?}");
    assert_ne!(stand.gh(&["api", "user", "--hostname", "example.com"]).code(), Some(0));
    let config = stand.server.path("state/gate/gh/config.yml");
    let before = fs::read(&config).expect("a configuration");
    drop(stand.gh(&["config", "set", "http_unix_socket", "/tmp/elsewhere"]));
    assert_eq!(fs::read(&config).expect("a configuration"), before);
    assert_eq!(stand.gh(&["api", "user", "--jq", ".login"]).success(), "o\n");
    // The token is nowhere that a tool could look.
    let mut grep = std::process::Command::new("grep");
    grep.args(["-r", "-l", TOKEN]).arg(stand.server.ws()).arg(stand.server.path("state"));
    assert_eq!(run(grep.arg(stand.server.path("server.log")), b"").out(), "");
}

#[test]
fn gh_works_through_its_gate_and_has_no_token() {
    a_day("auto");
}

#[test]
fn gh_works_through_its_gate_without_namespaces_too() {
    a_day("landlock");
}

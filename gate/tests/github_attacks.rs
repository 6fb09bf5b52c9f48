//! Requests to GitHub's API that mean to be taken for others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    clippy::large_futures,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod stage;

use std::sync::atomic::Ordering;

use stage::{Host, Stage, TOKEN, credential, gate, saying, text};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tool_gate::serve::Came;
use tool_gate::upstream::Upstream;
use tool_gate::{Answer, Rest};
use tool_policy::Decision;
use tool_policy::definition::gate::Adapter;

/// A gate that allows nothing that changes something.
struct Scene {
    host: Host,
    stage: Stage,
    _dir: tempfile::TempDir,
}

impl Scene {
    async fn new(allow: bool) -> Scene {
        let host = Host::start(|_| saying("{}")).await;
        let dir = tempfile::tempdir().unwrap();
        let mut gate = gate(Adapter::Github, &["github.com", "ghe.example"]);
        gate.upstream = Some(host.url());
        gate.credential = credential(&dir);
        gate.default = Decision::Deny;
        let stage =
            Stage::of(vec![gate], Upstream::default(), true, Came::Github, move |request| {
                let answer = |part: &tool_gate::Part| match part.changes && !allow {
                    true => Answer::Refused {
                        rule: "default".to_owned(),
                        reason: "it changes something".to_owned(),
                        instead: None,
                    },
                    false => Answer::Allowed,
                };
                request.parts.iter().map(answer).collect()
            })
            .await;
        Scene { host, stage, _dir: dir }
    }

    /// Sends these bytes and gives the status and all that comes.
    async fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.stage.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        drop(tokio::time::timeout(std::time::Duration::from_secs(60), read).await);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        assert!(!answer.contains(TOKEN));
        (status, answer)
    }

    async fn ask(&self, line: &str, headers: &[&str], body: &[u8]) -> (u16, String) {
        let mut head = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|header| header.to_lowercase().starts_with("host:")) {
            head.push_str("Host: api.github.com\r\n");
        }
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat()).await
    }

    fn fact(&self, name: &str) -> String {
        let asked = self.stage.asked();
        let part = &asked.last().unwrap().parts[0];
        String::from_utf8(part.facts.get(name).to_bytes()).unwrap()
    }
}

fn graphql(query: &str) -> Vec<u8> {
    serde_json::json!({ "query": query }).to_string().into_bytes()
}

#[tokio::test]
async fn a_mutation_is_seen_however_it_is_written() {
    let bodies: Vec<Vec<u8>> = vec![
        graphql("mutation { deleteRepository(input: {repositoryId: \"R\"}) { clientMutationId } }"),
        graphql("mutation { viewer: deleteRepository(input: {}) { clientMutationId } }"),
        graphql("mutation { ...F } fragment F on Mutation { deleteRepository { x } }"),
        graphql("# { viewer }\nmutation Query { deleteRepository { x } }"),
        graphql("\u{feff},,mutation,query{deleteRepository{x}}"),
        graphql("query A { viewer { login } } mutation B { deleteRepository { x } }"),
        graphql("mutation { a @skip(if: true) deleteRepository @include(if: false) { x } }"),
        br#"{"query":"{ viewer { login } }","query":"mutation { deleteRepository { x } }"}"#
            .to_vec(),
        br#"{"query":"{ viewer { login } }","operationName":"B","operationName":null}"#.to_vec(),
        br#"{"query":"mut\u0061tion { deleteRepository { x } }"}"#.to_vec(),
        br#"[{"query":"mutation { deleteRepository { x } }"}]"#.to_vec(),
        br#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"x"}}}"#.to_vec(),
        br#"{"query":"{ viewer { login } }","extensions":{"persistedQuery":{"sha256Hash":"x"}}}"#
            .to_vec(),
        [b"\xef\xbb\xbf".as_slice(), &graphql("mutation { deleteRepository { x } }")].concat(),
        "{\"query\":\"mutation { x }\"}".encode_utf16().flat_map(u16::to_le_bytes).collect(),
        b"query=mutation+%7B+deleteRepository+%7B+x+%7D+%7D".to_vec(),
    ];
    for body in bodies {
        let scene = Scene::new(false).await;
        let (status, answer) = scene.ask("POST /graphql", &[], &body).await;
        assert!(
            matches!(status, 400 | 403),
            "{status} {answer}: {}",
            String::from_utf8_lossy(&body)
        );
        assert_eq!(scene.host.seen().len(), 0, "{}", String::from_utf8_lossy(&body));
    }
}

#[tokio::test]
async fn what_looks_like_a_mutation_and_is_none_passes_and_is_sent_as_it_was_understood() {
    let scene = Scene::new(false).await;
    let query = "query($q: String = \"mutation { x }\") { # mutation { deleteRepository }\r\n  search(query: $q, type: ISSUE) { issueCount } }";
    let (status, answer) = scene
        .ask(
            "POST /graphql",
            &["Content-Type: text/plain", "Graphql-Features: merge_queue"],
            &graphql(query),
        )
        .await;
    assert_eq!(status, 200, "{answer}");
    let seen = scene.host.seen();
    assert_eq!(
        text(&seen[0].body),
        r#"{"query":"query ( $ q : String = \"mutation { x }\" ) { search ( query : $ q type : ISSUE ) { issueCount } }"}"#
    );
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].header("content-length"), Some(&*seen[0].body.len().to_string()));
    assert_eq!(seen[0].header("graphql-features"), Some("merge_queue"));
}

#[tokio::test]
async fn graphql_is_asked_by_post_without_anything_in_the_address() {
    for line in [
        "GET /graphql?query=mutation%7BdeleteRepository%7Bx%7D%7D",
        "GET /graphql",
        "PUT /graphql",
        "POST /graphql?query=mutation%7Ba%7D",
        "POST /graphql?operationName=B",
        "HEAD /graphql",
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(line, &[], &graphql("{ viewer { login } }")).await;
        assert_eq!(status, 400, "{line}: {answer}");
        assert_eq!(scene.host.seen().len(), 0);
    }
    let scene = Scene::new(true).await;
    let (status, _) =
        scene.ask("POST /graphql", &["Content-Encoding: gzip"], &graphql("{ a }")).await;
    assert_eq!(status, 400);
    for line in ["POST /graphql/", "POST /%67raphql"] {
        let scene = Scene::new(false).await;
        let (status, answer) =
            scene.ask(line, &[], &graphql("mutation { deleteRepository { x } }")).await;
        assert_eq!(status, 403, "{line} {answer}");
        assert_eq!(scene.fact("field"), "deleteRepository", "{line}");
    }
    for line in [
        "POST /GraphQL",
        "POST /graphql/x",
        "POST /api/graphql",
        "POST /graphql%2f",
        "POST //graphql",
        "POST /x/../graphql",
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) =
            scene.ask(line, &[], &graphql("mutation { deleteRepository { x } }")).await;
        assert!(matches!(status, 400 | 403), "{line}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{line}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_not_cut() {
    let scene = Scene::new(true).await;
    let hidden = format!("mutation {{ a }} # {}", "x".repeat(256 * 1024));
    let (status, answer) = scene.ask("POST /graphql", &[], &graphql(&hidden)).await;
    assert_eq!(status, 413, "{answer}");
    assert_eq!(scene.host.seen().len(), 0);
    assert_eq!(scene.stage.asked().len(), 0);
}

#[tokio::test]
async fn the_method_is_the_one_that_was_decided_on() {
    let scene = Scene::new(true).await;
    let headers = [
        "X-HTTP-Method-Override: DELETE",
        "X-HTTP-Method: DELETE",
        "X-Method-Override: DELETE",
        "X-Original-URL: /user/keys",
        "X-Rewrite-URL: /user/keys",
        "X-GitHub-OTP: 123456",
        "Cookie: user_session=x",
        "Authorization: token stolen",
    ];
    let (status, answer) = scene.ask("POST /repos/o/r/issues", &headers, b"{}").await;
    assert_eq!(status, 200, "{answer}");
    let seen = scene.host.seen();
    assert_eq!(seen[0].line, "POST /repos/o/r/issues");
    for name in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
        "x-github-otp",
        "cookie",
    ] {
        assert_eq!(seen[0].header(name), None, "{name}");
    }
    assert_eq!(seen[0].header("authorization"), Some(&*format!("token {TOKEN}")));
    for (line, header) in [
        ("POST /repos/o/r/issues?_method=DELETE", "Accept: */*"),
        ("POST /repos/o/r/issues?a=1&%5Fmethod=DELETE", "Accept: */*"),
        ("POST /repos/o/r/issues", "Content-Type: application/x-www-form-urlencoded"),
        (
            "POST /repos/o/r/issues",
            "Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8",
        ),
        ("POST /repos/o/r/issues", "Content-Type: multipart/form-data; boundary=x"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(line, &[header], b"_method=DELETE").await;
        assert_eq!(status, 400, "{line} {header}: {answer}");
        assert_eq!(scene.host.seen().len(), 0);
    }
}

#[tokio::test]
async fn paths_that_may_be_read_twice_do_not_pass() {
    for path in [
        "/repos/o/r/../../../user",
        "/repos/o/r/%2e%2e/x",
        "/repos/o%2fr/issues",
        "/repos/o/r%2f..%2fx",
        "/repos%2fo%2fr",
        "/repos/o/r%252fx",
        "/repos/o\\r",
        "/repos/o/r/./x",
        "//repos/o/r",
        "/repos/o/r;x/../y",
        "/repos/o/r/%00",
        "/repos/o/r/%0d%0ax",
        "/Repos/o/r",
        "/orgs%2fx",
        "/repos/o/r/contents/%ff",
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(&format!("DELETE {path}"), &[], b"").await;
        assert_eq!(status, 400, "{path}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{path}");
    }
    for (path, endpoint, resource, repo) in [
        ("/repos/O/R", "repos/O/R", ".", "O/R"),
        ("/repos/o/r/", "repos/o/r", ".", "o/r"),
        ("/repos/o/r.git/issues", "repos/o/r.git/issues", "issues", "o/r"),
        (
            "/repos/o/r/git/refs/heads%2Ffeature",
            "repos/o/r/git/refs/heads/feature",
            "git/refs/heads/feature",
            "o/r",
        ),
        ("/repos/o/r/labels/a%20b", "repos/o/r/labels/a b", "labels/a b", "o/r"),
        ("/repositories/1/issues", "repositories/1/issues", "issues", "unknown"),
        (
            "/orgs/o/teams/t/repos/a/b",
            "orgs/o/teams/t/repos/a/b",
            "orgs/o/teams/t/repos/a/b",
            "unknown",
        ),
        ("/user/repos", "user/repos", "user/repos", "unknown"),
        ("/gists", "gists", "gists", ""),
        ("/user", "user", "user", ""),
        ("/user/keys", "user/keys", "user/keys", ""),
        ("/search/code", "search/code", "search/code", "unknown"),
        ("/issues", "issues", "issues", "unknown"),
        ("/user/issues", "user/issues", "user/issues", "unknown"),
        ("/orgs/o/issues", "orgs/o/issues", "orgs/o/issues", "unknown"),
        ("/user/codespaces", "user/codespaces", "user/codespaces", "unknown"),
        ("/notifications", "notifications", "notifications", "unknown"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(&format!("POST {path}?x=%20y"), &[], b"{}").await;
        assert_eq!(status, 200, "{path}: {answer}");
        let facts = ["endpoint", "resource", "repo"].map(|name| scene.fact(name));
        assert_eq!(facts, [endpoint, resource, repo].map(str::to_owned), "{path}");
        assert_eq!(scene.host.seen().len(), 1);
    }
}

#[tokio::test]
async fn only_the_api_is_there_and_only_at_its_hosts() {
    for (line, host) in [
        ("GET /user", "example.com"),
        ("GET /user", "github.com"),
        ("GET /user", "api.github.com.example.com"),
        ("GET /user", "xapi.github.com"),
        ("GET /user", "api.api.github.com"),
        ("GET /user", "api.github.com:22"),
        ("GET /user", "127.0.0.1"),
        ("GET /user", "169.254.169.254"),
        ("GET /user", "api.github.com\r\nHost: uploads.github.com"),
        ("GET /user", "api.github.com@example.com"),
        ("GET /user", "api.github.com\u{e9}"),
        ("GET http://example.com/user", "api.github.com"),
        ("GET https://api.github.com/user", "api.github.com"),
        ("CONNECT api.github.com:443", "api.github.com:443"),
        ("GET /user", "uploads.github.com"),
        ("POST /user/keys", "uploads.github.com"),
        ("DELETE /repos/o/r/releases/5/assets", "uploads.github.com"),
        ("POST /graphql", "uploads.github.com"),
        ("GET /user", "ghe.example"),
        ("GET /api/v4/user", "ghe.example"),
        ("GET /api/v3x/user", "ghe.example"),
        ("GET /o/r.git/info/refs", "ghe.example"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(line, &[&format!("Host: {host}")], b"").await;
        assert!(matches!(status, 400 | 403), "{line} {host}: {status} {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{line} {host}");
    }
}

#[tokio::test]
async fn endpoints_that_hand_out_tokens_do_not_pass() {
    for path in [
        "/app/installations/1/access_tokens",
        "/applications/x/token",
        "/applications/x/token/scoped",
        "/app-manifests/x/conversions",
        "/authorizations",
        "/repos/o/r/actions/runners/registration-token",
        "/repos/o/r/actions/runners/remove-token",
        "/orgs/o/actions/runners/generate-jitconfig",
        "/enterprises/e/actions/runners/registration-token",
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(&format!("POST {path}"), &[], b"{}").await;
        assert_eq!(status, 403, "{path}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{path}");
    }
    let scene = Scene::new(true).await;
    let (status, answer) = scene.ask("GET /copilot_internal/v2/token", &[], b"").await;
    assert_eq!((status, scene.host.seen().len()), (403, 0), "{answer}");
}

/// A server that does not read it would take it for the next request, and what is sent
/// next on that connection, with the token, for the rest of it.
#[tokio::test]
async fn what_reads_has_no_body() {
    let scene = Scene::new(true).await;
    let hidden = b"DELETE /repos/o/r HTTP/1.1\r\nHost: x\r\nX-Rest: ";
    for line in ["GET /user", "HEAD /user"] {
        let (status, answer) = scene.ask(line, &[], hidden).await;
        assert_eq!(status, 400, "{line}: {answer}");
        let pieces = ["Transfer-Encoding: chunked"];
        let (status, answer) = scene.ask(line, &pieces, b"").await;
        assert_eq!(status, 400, "{line}: {answer}");
    }
    assert_eq!(scene.host.seen().len(), 0);
    let (status, _) = scene.ask("GET /user", &["Content-Length: 0"], b"").await;
    assert_eq!((status, scene.host.seen().len()), (200, 1));
}

/// By its number a repository has all that it has by its name.
#[tokio::test]
async fn a_repository_that_is_named_by_its_number_has_the_same_resources() {
    let scene = Scene::new(true).await;
    for (line, resource) in [
        ("PUT /repositories/7/collaborators/x", "collaborators/x"),
        ("PUT /repos/o/r/collaborators/x", "collaborators/x"),
        ("DELETE /repositories/7", "."),
        ("DELETE /repos/o/r", "."),
        ("GET /repositories", "repositories"),
    ] {
        let (status, answer) = scene.ask(line, &[], b"").await;
        assert_eq!(status, 200, "{line}: {answer}");
        assert_eq!(scene.fact("resource"), resource, "{line}");
    }
}

#[tokio::test]
async fn each_of_two_requests_in_one_is_decided_on() {
    for bytes in [
        "POST /repos/o/r/issues HTTP/1.1\r\nHost: api.github.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nDELETE /repos/o/r HTTP/1.1\r\nHost: api.github.com\r\n\r\n",
        "POST /repos/o/r/issues HTTP/1.1\r\nHost: api.github.com\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nhello",
        "POST /repos/o/r/issues HTTP/1.1\r\nHost: api.github.com\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "POST /repos/o/r/issues HTTP/1.1\r\nHost: api.github.com\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /repos/o/r/issues HTTP/1.1\nHost: api.github.com\nHost: evil\n\n",
    ] {
        let scene = Scene::new(false).await;
        let (status, answer) = scene.raw(bytes.as_bytes()).await;
        assert!(matches!(status, 0 | 400 | 403), "{bytes}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{bytes}");
    }
}

#[tokio::test]
async fn reads_are_reads_and_all_else_changes_something() {
    for (method, reads) in [
        ("GET", true),
        ("HEAD", true),
        ("POST", false),
        ("PUT", false),
        ("PATCH", false),
        ("DELETE", false),
        ("OPTIONS", false),
        ("TRACE", false),
        ("PURGE", false),
        ("get", false),
    ] {
        let scene = Scene::new(false).await;
        let (status, answer) = scene.ask(&format!("{method} /repos/o/r"), &[], b"").await;
        assert_eq!(status == 200, reads, "{method}: {answer}");
        assert_eq!(scene.host.seen().len(), usize::from(reads), "{method}");
    }
}

#[tokio::test]
async fn an_approver_sees_how_a_body_begins() {
    let scene = Scene::new(true).await;
    let body = format!("{{\"name\":\"q\u{202e}\",\"more\":\"{}\"}}", "x".repeat(100_000));
    let (status, answer) = scene.ask("PATCH /repos/o/r", &[], body.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    let shown = scene.stage.asked()[0].parts[0].shown.clone();
    let begins = r#"PATCH repos/o/r at github.com, of no type, with more than 65536 bytes: {\"name\":\"q\xe2\x80\xae\",\"more\":\"xxx"#;
    assert!(shown.starts_with(begins) && shown.ends_with("xxx…"), "{shown}");
    assert!(scene.host.seen()[0].body == body.as_bytes());
    let (_, _) = scene.ask("DELETE /repos/o/r", &[], b"").await;
    assert_eq!(scene.stage.asked()[1].parts[0].shown, "DELETE repos/o/r at github.com");
}

/// What is shown of two bodies may be the same, and what is known of them is not.
#[tokio::test]
async fn an_answer_is_for_the_whole_of_a_body() {
    let scene = Scene::new(true).await;
    let hosts = [
        ("POST /repos/o/r/releases", "api.github.com"),
        ("POST /repos/o/r/releases/1/assets?name=a", "uploads.github.com"),
    ];
    for (line, host) in hosts {
        let mut seen = std::collections::BTreeSet::new();
        for (size, last, rest) in [
            (400, "a", Rest::Nothing),
            (401, "a", Rest::Digest(1)),
            (401, "b", Rest::Digest(1)),
            (64 << 10, "a", Rest::Digest((64 << 10) - 400)),
            (64 << 10, "b", Rest::Digest((64 << 10) - 400)),
        ] {
            let body = "x".repeat(size - 1) + last;
            let (status, _) = scene.ask(line, &[&format!("Host: {host}")], body.as_bytes()).await;
            assert_eq!(status, 200);
            assert_eq!(scene.host.seen().last().unwrap().body, body.as_bytes());
            let asked = scene.stage.asked().pop().unwrap();
            assert_eq!(asked.rest, rest, "{size}");
            let digest = format!("{size} bytes, SHA-256 {}: xxx", sha256(body.as_bytes()));
            let shown = &asked.parts[0].shown;
            assert_eq!(shown.contains(&digest), size > 400, "{shown}");
            assert!(shown.len() < 600 && seen.insert(shown.clone()), "{shown}");
        }
        let body = "x".repeat((64 << 10) + 1);
        let (status, _) = scene.ask(line, &[&format!("Host: {host}")], body.as_bytes()).await;
        let asked = scene.stage.asked().pop().unwrap();
        assert!(status == 200 && matches!(asked.rest, Rest::Unread(_)), "{asked:?}");
        assert_eq!(scene.host.seen().last().unwrap().body, body.as_bytes());
    }
    // Nobody is asked, and it streams: no more is known than how it begins.
    scene.stage.judge.asks.store(false, Ordering::Relaxed);
    scene.ask("POST /repos/o/r/releases", &[], "x".repeat(1000).as_bytes()).await;
    let asked = scene.stage.asked().pop().unwrap();
    assert!(asked.rest == Rest::Nothing && asked.parts[0].shown.ends_with("xxx…"), "{asked:?}");
    scene.stage.judge.asks.store(true, Ordering::Relaxed);
    // The same bytes as something else.
    let kind = "Content-Type: text/x-other";
    scene.ask("POST /repos/o/r/releases", &[kind], b"x").await;
    let shown = scene.stage.asked().pop().unwrap().parts[0].shown.clone();
    assert!(shown.ends_with(", of type text/x-other, with x"), "{shown}");
}

/// No more of a body is held than its bound.
#[tokio::test]
async fn a_question_does_not_wait_for_the_end_of_a_long_body() {
    let scene = Scene::new(true).await;
    let head = format!(
        "PUT /repos/o/r HTTP/1.1\r\nHost: api.github.com\r\nContent-Length: {}\r\n\r\n",
        1_u64 << 40
    );
    let mut stream = TcpStream::connect(scene.stage.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'x'; 64 << 10]).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(scene.stage.asked().len(), 0, "it may end here");
    stream.write_all(&[b'x'; 64 << 10]).await.unwrap();
    for _ in 0..3000 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        if let Some(asked) = scene.stage.asked().pop() {
            assert!(matches!(asked.rest, Rest::Unread(_)));
            return;
        }
    }
    panic!("nobody was asked");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

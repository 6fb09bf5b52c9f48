//! Requests to registries of npm that mean to be taken for others.

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

use std::time::Duration;

use base64::Engine as _;
use stage::{Host, SECRET, Stage, TOKEN, credential, gate, patterns, saying};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tool_gate::upstream::Upstream;
use tool_gate::{Answer, Part};
use tool_policy::definition::gate::{Adapter, Gate};

struct Scene {
    host: Host,
    stage: Stage,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// Nothing that changes something is allowed, unless `allow`.
    async fn new(allow: bool) -> Scene {
        Scene::of(allow, |_| {}, |_| saying("{}")).await
    }

    async fn of(
        allow: bool,
        change: impl Fn(&mut Gate),
        answer: impl Fn(&stage::Seen) -> hyper::Response<http_body_util::Full<bytes::Bytes>>
        + Send
        + Sync
        + 'static,
    ) -> Scene {
        let host = Host::start(answer).await;
        let dir = tempfile::tempdir().unwrap();
        let mut gate = gate(Adapter::Npm, &["registry.npmjs.org"]);
        gate.upstream = Some(host.url());
        gate.credential = credential(&dir);
        change(&mut gate);
        let stage = Stage::with(vec![gate], Upstream::default(), move |request| {
            let refused = Answer::Refused {
                rule: "default".to_owned(),
                reason: "it changes something".to_owned(),
                instead: None,
            };
            let answer = |part: &Part| match part.changes && !allow {
                true => refused.clone(),
                false => Answer::Allowed,
            };
            request.parts.iter().map(answer).collect()
        })
        .await;
        Scene { host, stage, _dir: dir }
    }

    async fn ask(&self, method: &str, url: &str, headers: &[&str]) -> (u16, String) {
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("call:{SECRET}"));
        let host = url.strip_prefix("http://").unwrap_or(url).split('/').next().unwrap();
        let mut head = format!(
            "{method} {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Proxy-Authorization: Basic {secret}\r\n"
        );
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        let mut stream = TcpStream::connect(self.stage.address).await.unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        drop(tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await);
        let answer = String::from_utf8(answer).unwrap();
        assert!(!answer.contains(TOKEN), "{answer}");
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    fn fact(&self, name: &str) -> String {
        let asked = self.stage.asked();
        String::from_utf8(asked.last().unwrap().parts[0].facts.get(name).to_bytes()).unwrap()
    }
}

const AT: &str = "http://registry.npmjs.org";

#[tokio::test]
async fn what_changes_something_is_known_as_what_it_is() {
    for (method, path, change, package) in [
        ("PUT", "/left", "publish", "left"),
        ("PUT", "/@own%2fpriv", "publish", "@own/priv"),
        ("PUT", "/@own%2Fpriv", "publish", "@own/priv"),
        ("PUT", "/@own/priv", "publish", "@own/priv"),
        ("PUT", "/%40own%2fpriv", "publish", "@own/priv"),
        ("PUT", "/left/", "publish", "left"),
        ("PUT", "/%6ceft", "publish", "left"),
        ("PUT", "/left/-rev/1-0", "edit", "left"),
        ("PUT", "/@own%2fpriv/-rev/1-0", "edit", "@own/priv"),
        ("DELETE", "/left/-rev/1-0", "unpublish", "left"),
        ("DELETE", "/@own/priv/-rev/1-0", "unpublish", "@own/priv"),
        ("DELETE", "/left/-/left-1.0.0.tgz/-rev/1-0", "unpublish", "left"),
        ("DELETE", "/@own/priv/-/priv-1.0.0.tgz/-rev/1-0", "unpublish", "@own/priv"),
        ("PUT", "/-/package/left/dist-tags/latest", "dist-tag", "left"),
        ("DELETE", "/-/package/@own%2fpriv/dist-tags/beta", "dist-tag", "@own/priv"),
        ("POST", "/-/package/@own%2fpriv/access", "access", "@own/priv"),
        ("POST", "/-/package/left/trust", "access", "left"),
        ("PUT", "/-/org/own/user", "org", ""),
        ("PUT", "/-/org/own/team", "team", ""),
        ("PUT", "/-/team/own/x/user", "team", ""),
        ("POST", "/-/npm/v1/user", "profile", ""),
        ("DELETE", "/-/npm/v1/tokens/token/x", "token", ""),
        ("DELETE", "/-/user/token/x", "token", ""),
        ("POST", "/-/npm/v1/hooks/hook", "hook", ""),
    ] {
        let scene = Scene::new(false).await;
        let headers = ["X-HTTP-Method-Override: GET", "Npm-Command: view"];
        let (status, answer) = scene.ask(method, &format!("{AT}{path}"), &headers).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
        let facts = (scene.fact("change"), scene.fact("package"), scene.fact("publish"));
        let expected = (change.to_owned(), package.to_owned(), "true".to_owned());
        assert_eq!(facts, expected, "{method} {path}");
        assert_eq!(scene.host.seen().len(), 0, "{method} {path}");
    }
}

/// Of what is packed an approver sees nothing; and what reads has no body at all.
/// What was approved of one version or tag is not good for another.
#[tokio::test]
async fn an_approver_sees_which_version_and_which_tag() {
    let scene = Scene::new(true).await;
    for (method, one, other) in [
        ("DELETE", "/left/-/left-1.0.0.tgz/-rev/1-0", "/left/-/left-2.0.0.tgz/-rev/1-0"),
        ("PUT", "/-/package/left/dist-tags/latest", "/-/package/left/dist-tags/beta"),
    ] {
        let mut shown = Vec::new();
        for path in [one, other] {
            let url = format!("http://registry.npmjs.org{path}");
            let (status, answer) = scene.ask(method, &url, &[]).await;
            assert_eq!(status, 200, "{answer}");
            let line = scene.stage.asked().pop().unwrap().parts[0].shown.clone();
            assert!(line.contains(path), "{line}");
            shown.push(line);
        }
        assert_ne!(shown[0], shown[1]);
    }
}

#[tokio::test]
async fn a_word_for_one_time_is_named_and_not_shown() {
    let scene = Scene::new(true).await;
    let url = format!("{AT}/left/-/left-1.0.0.tgz/-rev/1-0");
    let headers = ["npm-otp: 123456", "npm-auth-type: web", "If-None-Match: x"];
    let (status, answer) = scene.ask("DELETE", &url, &headers).await;
    assert_eq!(status, 200, "{answer}");
    let asked = scene.stage.asked().pop().unwrap();
    assert!(!format!("{asked:?}").contains("123456"), "{asked:?}");
    let mut beside = asked.beside;
    beside.sort();
    assert_eq!(
        beside,
        [
            "with the header if-none-match: x",
            "with the header npm-auth-type: web",
            "with the header npm-otp, whose value is not shown",
        ]
    );
    let seen = scene.host.seen().pop().unwrap();
    assert_eq!(seen.header("npm-otp"), Some("123456"));
}

#[tokio::test]
async fn a_body_that_nobody_can_see_does_not_pass() {
    let scene = Scene::new(true).await;
    let url = format!("{AT}/name");
    let packed = ["Content-Encoding: gzip", "Content-Length: 0"];
    let (status, answer) = scene.ask("PUT", &url, &packed).await;
    assert_eq!(status, 400, "{answer}");
    let (status, answer) = scene.ask("GET", &url, &["Transfer-Encoding: chunked"]).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(scene.host.seen().len(), 0);
    let audit = format!("{AT}/-/npm/v1/security/advisories/bulk");
    let (status, answer) = scene.ask("POST", &audit, &packed).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn reads_pass_with_the_token_and_as_they_were_asked() {
    for (method, path) in [
        ("GET", "/left"),
        ("GET", "/@own%2fpriv"),
        ("HEAD", "/left"),
        ("GET", "/left/latest"),
        ("GET", "/left/-/left-1.0.0.tgz"),
        ("GET", "/@own/priv/-/priv-1.0.0.tgz"),
        ("GET", "/@own/priv/-/@own/priv-1.0.0.tgz"),
        ("GET", "/left?write=true"),
        ("GET", "/-/ping"),
        ("GET", "/-/whoami"),
        ("GET", "/-/v1/search?text=left&size=20"),
        ("GET", "/-/package/left/dist-tags"),
        ("GET", "/-/npm/v1/keys"),
        ("GET", "/-/npm/v1/tokens"),
        ("POST", "/-/npm/v1/security/advisories/bulk"),
        ("POST", "/-/npm/v1/security/audits/quick"),
    ] {
        let scene = Scene::new(false).await;
        let headers = ["Authorization: Bearer stolen", "Cookie: a=b", "X-Own: 1"];
        let (status, answer) = scene.ask(method, &format!("{AT}{path}"), &headers).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        let seen = scene.host.seen();
        assert_eq!(seen[0].line, format!("{method} {path}"));
        assert_eq!(seen[0].header("authorization"), Some(&*format!("Bearer {TOKEN}")));
        assert!(!seen[0].headers.contains_key("cookie") && !seen[0].headers.contains_key("x-own"));
        assert_eq!(scene.fact("publish"), "false");
    }
}

#[tokio::test]
async fn what_registries_do_not_have_does_not_pass() {
    for (method, path) in [
        ("POST", "/left"),
        ("DELETE", "/left"),
        ("PATCH", "/left"),
        ("PUT", "/left/1.0.0"),
        ("PUT", "/left/-/left-1.0.0.tgz"),
        ("GET", "/left/x/y/z"),
        ("GET", "/@own"),
        ("PUT", "/@own%2f"),
        ("PUT", "/@own%2fa%2fb"),
        ("PUT", "/@%2fpriv"),
        ("PUT", "/own%2fpriv"),
        ("PUT", "/@own%2f..%2fleft"),
        ("PUT", "/@own/../left"),
        ("PUT", "/left/..%2fother"),
        ("PUT", "/@own%2f%2fleft"),
        ("PUT", "/@own%252fpriv"),
        ("PUT", "/@own%0d%0aX-Evil:%201%2fpriv"),
        ("PUT", "/@own%20x%2fpriv"),
        ("PUT", "/.hidden"),
        ("PUT", "/-"),
        ("PUT", "/"),
        ("GET", "/-/unknown"),
        ("POST", "/-/npm/v1/security/advisories/bulk/x"),
        ("GET", "/_session"),
        ("PUT", "/_users/org.couchdb.user:me"),
        ("GET", "//left"),
        ("GET", "/left/-/../../-/whoami"),
        ("GET", "/left\\x"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(method, &format!("{AT}{path}"), &[]).await;
        assert!(matches!(status, 400 | 403), "{method} {path}: {status} {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{method} {path}");
    }
}

#[tokio::test]
async fn nothing_that_hands_out_a_token_passes() {
    for (method, path) in [
        ("PUT", "/-/user/org.couchdb.user:me"),
        ("PUT", "/-/user/org.couchdb.user:me/-rev/1"),
        ("POST", "/-/v1/login"),
        ("GET", "/-/v1/done?authId=x"),
        ("POST", "/-/npm/v1/tokens"),
        ("POST", "/-/npm/v1/tokens/"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(method, &format!("{AT}{path}"), &[]).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{method} {path}");
    }
}

#[tokio::test]
async fn other_hosts_and_tunnels_are_out_of_reach() {
    for (method, url) in [
        ("GET", "http://example.com/left/-/left-1.0.0.tgz"),
        ("PUT", "http://registry.npmjs.org.example.com/left"),
        ("GET", "http://registry.npmjs.org:22/left"),
        ("GET", "http://169.254.169.254/latest/meta-data"),
        ("GET", "http://user@registry.npmjs.org/left"),
        ("GET", "https://registry.npmjs.org/left"),
        ("GET", "/left"),
        ("CONNECT", "registry.npmjs.org:443"),
        ("CONNECT", "nodejs.org:443"),
    ] {
        let scene = Scene::new(true).await;
        let (status, answer) = scene.ask(method, url, &[]).await;
        assert!(matches!(status, 400 | 403), "{method} {url}: {answer}");
        assert_eq!(scene.host.seen().len(), 0, "{method} {url}");
    }
}

#[tokio::test]
async fn a_registrys_own_lists_of_paths_and_methods_are_heeded() {
    let scene =
        Scene::of(true, |gate| gate.paths = patterns(&["/@own/*", "/-/ping"]), |_| saying("{}"))
            .await;
    for (path, passes) in [
        ("/@own%2fpriv", true),
        ("/@own/priv/-/priv-1.0.0.tgz", true),
        ("/-/ping", true),
        ("/left", false),
        ("/-/whoami", false),
        ("/@other%2fpriv", false),
    ] {
        let (status, answer) = scene.ask("GET", &format!("{AT}{path}"), &[]).await;
        assert_eq!(status == 200, passes, "{path}: {answer}");
    }
    let scene =
        Scene::of(true, |gate| gate.methods = vec!["GET".to_owned()], |_| saying("{}")).await;
    for (method, passes) in [("GET", true), ("PUT", false), ("DELETE", false)] {
        let (status, answer) = scene.ask(method, &format!("{AT}/left"), &[]).await;
        assert_eq!(status == 200, passes, "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_registry_beneath_a_path_is_one_that_upstream_names() {
    let scene = Scene::of(
        true,
        |gate| gate.upstream = gate.upstream.take().map(|url| format!("{url}/api/npm/all/")),
        |_| saying("{}"),
    )
    .await;
    for path in ["/left/-/left-1.0.0.tgz", "/api/npm/all/left/-/left-1.0.0.tgz"] {
        let (status, answer) = scene.ask("GET", &format!("{AT}{path}"), &[]).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(
            scene.host.seen().last().unwrap().line,
            "GET /api/npm/all/left/-/left-1.0.0.tgz"
        );
    }
    let (_, answer) = scene.ask("PUT", &format!("{AT}/api/npm/all/left"), &[]).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(scene.fact("package"), "left");
}

#[tokio::test]
async fn an_archive_that_lies_elsewhere_is_fetched_here_without_the_token() {
    let store = Host::saying("the archive").await;
    let link = format!("{}/signed?x=1", store.url());
    let redirect = move |seen: &stage::Seen| {
        let to = match seen.line.as_str() {
            "GET /left/-/left-1.0.0.tgz" => link.clone(),
            "GET /old" => "/left".to_owned(),
            "GET /private" => "http://10.0.0.1/".to_owned(),
            "GET /file" => "file:///etc/passwd".to_owned(),
            "PUT /left" => link.clone(),
            _ => return saying("{}"),
        };
        hyper::Response::builder()
            .status(302)
            .header("location", to)
            .body(Default::default())
            .unwrap()
    };
    let scene = Scene::of(true, |_| {}, redirect).await;
    let (status, answer) = scene.ask("GET", &format!("{AT}/left/-/left-1.0.0.tgz"), &[]).await;
    assert!(status == 200 && answer.ends_with("the archive"), "{answer}");
    assert!(!answer.contains("signed"), "{answer}");
    let seen = store.seen();
    assert_eq!(seen[0].line, "GET /signed?x=1");
    assert!(!seen[0].headers.contains_key("authorization"));
    let (status, answer) = scene.ask("GET", &format!("{AT}/old"), &[]).await;
    assert!(status == 302 && answer.to_lowercase().contains("\r\nlocation: /left\r\n"), "{answer}");
    for (method, path) in [("GET", "/private"), ("GET", "/file"), ("PUT", "/left")] {
        let (status, answer) = scene.ask(method, &format!("{AT}{path}"), &[]).await;
        assert!(matches!(status, 403 | 502), "{path}: {answer}");
    }
    assert_eq!(store.seen().len(), 1);
}

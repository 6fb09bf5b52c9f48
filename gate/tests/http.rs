//! Plain HTTP through the gate, with curl.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::let_underscore_must_use,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod stage;

use hyper::{Response, StatusCode, Version};
use stage::certificates::Certificates;
use stage::{Host, Stage, TOKEN, credential, gate, patterns, saying, text};
use tool_gate::Answer;
use tool_gate::Rest;
use tool_gate::upstream::Upstream;
use tool_policy::definition::gate::{Adapter, Gate, Scheme};

fn to(host: &Host, names: &[&str]) -> Gate {
    let mut gate = gate(Adapter::Http, names);
    gate.upstream = Some(host.url());
    gate
}

#[tokio::test]
async fn a_request_goes_on_with_the_credential_and_without_what_the_tool_added() {
    let host = Host::saying("hello").await;
    let dir = tempfile::tempdir().unwrap();
    let mut gate = to(&host, &["api.example.com"]);
    gate.credential = credential(&dir);
    let stage = Stage::new(vec![gate]).await;
    let url = "http://api.example.com/things?x=1";
    let own = ["-H", "Cookie: a=b", "-H", "X-Own: 1", "-H", "Authorization: Bearer stolen"];
    let output = stage.curl(&[&own[..], &[url]].concat()).await;
    assert_eq!(text(&output.stdout), "hello", "{}", text(&output.stderr));
    let seen = host.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line, "GET /things?x=1");
    assert_eq!(seen[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(seen[0].header("host"), Some(host.address.to_string().as_str()));
    for gone in ["cookie", "x-own", "proxy-authorization", "proxy-connection", "via"] {
        assert_eq!(seen[0].header(gone), None, "{gone}");
    }
    let asked = stage.asked();
    assert!(!asked[0].parts[0].changes);
    assert_eq!(asked[0].parts[0].shown, "GET http://api.example.com/things?x=1");
    assert!(!format!("{asked:?}").contains(TOKEN));
}

/// By curl, too, an answer is for what is sent.
#[tokio::test]
async fn an_approver_sees_the_body_of_a_plain_request() {
    let host = Host::saying("hello").await;
    let stage = Stage::new(vec![to(&host, &["api.example.com"])]).await;
    let url = "http://api.example.com/things";
    let long = "x".repeat(1000);
    let form = "application/x-www-form-urlencoded";
    for (body, shown, rest) in [
        ("a=b", format!(", of type {form}, with a=b"), Rest::Nothing),
        (&long, format!(": {}…", "x".repeat(400)), Rest::Digest(600)),
    ] {
        let output = stage.curl(&["-d", body, url]).await;
        assert_eq!(text(&output.stdout), "hello", "{}", text(&output.stderr));
        let asked = stage.asked().pop().unwrap();
        assert_eq!(asked.rest, rest);
        assert!(asked.parts[0].shown.ends_with(&shown), "{asked:?}");
        assert_eq!(host.seen().pop().unwrap().body, body.as_bytes());
    }
}

/// The same bytes are another request by another header, type or port.
#[tokio::test]
async fn an_approver_sees_what_changes_the_meaning_of_a_request() {
    let host = Host::saying("hello").await;
    let mut gate = to(&host, &["api.example.com"]);
    gate.ports = vec![8080];
    let stage = Stage::new(vec![gate]).await;
    let long = format!("application/json; a={}; charset=utf-7", "x".repeat(200));
    let kind = format!("Content-Type: {long}");
    let output = stage
        .curl(&[
            "-d",
            "a=b",
            "-H",
            &kind,
            "-H",
            "Content-Encoding: deflate",
            "-H",
            "If-None-Match: *",
            "-H",
            "Accept: text/html",
            "-H",
            "X-Dropped: 1",
            "http://api.example.com:8080/things",
        ])
        .await;
    assert_eq!(text(&output.stdout), "hello", "{}", text(&output.stderr));
    let asked = stage.asked().pop().unwrap();
    let shown = &asked.parts[0].shown;
    assert!(shown.starts_with("POST http://api.example.com:8080/things, "), "{shown}");
    assert!(shown.ends_with(&format!(", of type {long}, deflate, with a=b")), "{shown}");
    assert_eq!(asked.beside, ["with the header if-none-match: *"]);
    // Of what has no body the type is a header like the others.
    let bare = ["-X", "PUT", "-H", "Content-Type: x/y", "http://api.example.com/things"];
    assert_eq!(text(&stage.curl(&bare).await.stdout), "hello");
    let asked = stage.asked().pop().unwrap();
    assert_eq!(asked.parts[0].shown, "PUT http://api.example.com/things");
    assert_eq!(asked.beside, ["with the header content-type: x/y"]);
}

/// What it would do with that is anybody's guess.
#[tokio::test]
async fn a_request_with_a_body_is_no_read() {
    let host = Host::saying("hello").await;
    let stage = Stage::new(vec![to(&host, &["api.example.com"])]).await;
    let url = "http://api.example.com/things";
    stage.curl(&["-X", "GET", "-d", "x", url]).await;
    stage.curl(&["-X", "GET", "-d", "", url]).await;
    stage.curl(&[url]).await;
    let changes: Vec<bool> = stage.asked().iter().map(|one| one.parts[0].changes).collect();
    assert_eq!(changes, [true, false, false]);
}

#[tokio::test]
async fn a_credential_is_added_as_its_scheme_says_and_in_no_other_request() {
    let host = Host::saying("").await;
    let dir = tempfile::tempdir().unwrap();
    let basic = "Basic dXNlcjpjYW5hcnktN2QxZjBj"; // user:canary-7d1f0c
    for (scheme, name, value) in [
        (Scheme::Bearer, "authorization", format!("Bearer {TOKEN}")),
        (Scheme::Token, "authorization", format!("token {TOKEN}")),
        (Scheme::Basic("user".to_owned()), "authorization", basic.to_owned()),
        (Scheme::Header("X-Api-Key".to_owned()), "x-api-key", TOKEN.to_owned()),
    ] {
        let mut with = to(&host, &["with.example"]);
        (with.credential, with.scheme) = (credential(&dir), scheme);
        let stage = Stage::new(vec![with, to(&host, &["without.example"])]).await;
        stage.curl(&["http://with.example/", "http://without.example/"]).await;
        let seen = host.seen.lock().unwrap().split_off(0);
        assert_eq!(seen[0].header(name), Some(value.as_str()));
        assert_eq!(seen[1].header(name), None);
    }
}

#[tokio::test]
async fn an_upload_and_a_download_pass_whole_in_both_versions() {
    let certificates = Certificates::of(&["127.0.0.1"]);
    for (protocols, version) in
        [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"][..], Version::HTTP_11)]
    {
        let server = certificates.server(protocols);
        let host = Host::with(Some(server), |seen| {
            Response::new(http_body_util::Full::new(seen.body.clone().into()))
        })
        .await;
        let mut gate = to(&host, &["api.example.com"]);
        gate.ca = Some(certificates.ca());
        let stage = Stage::new(vec![gate]).await;
        let dir = tempfile::tempdir().unwrap();
        let (up, down) = (dir.path().join("up"), dir.path().join("down"));
        let content: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&up, &content).unwrap();
        let data = format!("@{}", up.display());
        let url = "http://api.example.com/up";
        let output = stage.curl(&["--data-binary", &data, url, "-o", down.to_str().unwrap()]).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(std::fs::read(&down).unwrap(), content, "{version:?}");
        let seen = host.seen();
        assert_eq!((seen[0].version, seen[0].line.as_str()), (version, "POST /up"));
        assert!(stage.asked()[0].parts[0].changes);
    }
}

#[tokio::test]
async fn a_host_that_nobody_trusts_gets_nothing() {
    let certificates = Certificates::of(&["127.0.0.1", "other.example"]);
    let host = Host::with(Some(certificates.server(&["h2"])), |_| saying("x")).await;
    let stage = Stage::new(vec![to(&host, &["api.example.com"])]).await;
    let output = stage.curl(&["http://api.example.com/"]).await;
    assert!(text(&output.stdout).contains("is not trusted"), "{}", text(&output.stdout));
    assert_eq!(host.seen().len(), 0);
}

#[tokio::test]
async fn methods_and_paths_of_a_gate_are_all_that_pass() {
    let host = Host::saying("ok").await;
    let mut gate = to(&host, &["api.example.com"]);
    gate.methods = vec!["GET".to_owned(), "POST".to_owned()];
    gate.paths = patterns(&["/public/*", "/status"]);
    let stage = Stage::new(vec![gate]).await;
    for (method, path, passes) in [
        ("GET", "/public/a", true),
        ("POST", "/status", true),
        ("GET", "/status?x=1", true),
        ("GET", "/status/", false),
        ("GET", "/private", false),
        ("GET", "/publicx", false),
        ("DELETE", "/public/a", false),
        ("PUT", "/status", false),
    ] {
        let url = format!("http://api.example.com{path}");
        let code = ["-X", method, "-o", "/dev/null", "-w", "%{http_code}", &url];
        let output = stage.curl(&code).await;
        assert_eq!(text(&output.stdout), if passes { "200" } else { "403" }, "{method} {path}");
    }
    assert_eq!(host.seen().len(), 3);
    assert_eq!(stage.refused().len(), 5);
}

#[tokio::test]
async fn of_several_gates_of_a_host_the_first_with_the_path_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::saying("ok").await;
    let mut first = to(&host, &["api.example.com"]);
    first.paths = patterns(&["/a/*"]);
    let mut second = to(&host, &["*.example.com"]);
    (second.paths, second.credential) = (patterns(&["/b/*"]), credential(&dir));
    let stage = Stage::new(vec![first, second]).await;
    let base = "http://api.example.com";
    for path in ["/a/1", "/b/1", "/c/1"] {
        stage.curl(&[&format!("{base}{path}")]).await;
    }
    let seen = host.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].header("authorization"), None);
    assert_eq!(seen[1].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
}

#[tokio::test]
async fn what_is_refused_is_not_sent_and_says_why() {
    let host = Host::saying("ok").await;
    let stage = Stage::with(vec![to(&host, &["api.example.com"])], Upstream::default(), |_| {
        vec![Answer::Refused {
            rule: "no-writes".to_owned(),
            reason: "nothing is written there".to_owned(),
            instead: Some("ask a person".to_owned()),
        }]
    })
    .await;
    let output = stage.curl(&["-d", "x", "http://api.example.com/", "-w", "%{http_code}"]).await;
    let said = "refused by the broker: nothing is written there: ask a person\n403";
    assert_eq!(text(&output.stdout), said);
    // A judge that decides on nothing has allowed nothing.
    let silent =
        Stage::with(vec![to(&host, &["api.example.com"])], Upstream::default(), |_| Vec::new());
    let output = silent.await.curl(&["-d", "x", "http://api.example.com/"]).await;
    assert!(text(&output.stdout).starts_with("refused by the broker"));
    assert_eq!(host.seen().len(), 0);
}

#[tokio::test]
async fn answers_have_no_cookies_and_no_challenges() {
    let host = Host::start(|_| {
        let mut answer = saying("body");
        *answer.status_mut() = StatusCode::UNAUTHORIZED;
        for (name, value) in [
            ("set-cookie", "a=b"),
            ("www-authenticate", "Basic realm=x"),
            ("proxy-authenticate", "Basic realm=x"),
            ("x-internal", "1"),
            ("content-type", "text/plain"),
            ("etag", "\"1\""),
        ] {
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
        answer
    })
    .await;
    let stage = Stage::new(vec![to(&host, &["api.example.com"])]).await;
    let output = stage.curl(&["-i", "http://api.example.com/"]).await;
    let said = text(&output.stdout).to_ascii_lowercase();
    assert!(said.contains("401") && said.contains("etag") && said.contains("text/plain"));
    for gone in ["set-cookie", "authenticate", "x-internal"] {
        assert!(!said.contains(gone), "{gone}: {said}");
    }
    let output = stage.curl(&["-I", "http://api.example.com/"]).await;
    assert!(text(&output.stdout).to_ascii_lowercase().contains("content-length: 4"));
}

#[tokio::test]
async fn a_redirect_goes_back_to_the_tool_only_for_hosts_of_the_gates() {
    let host = Host::start(|seen| {
        let mut answer = saying("moved");
        let location = seen.line.split("to=").nth(1).unwrap_or_default().to_owned();
        if location.is_empty() {
            return saying("there");
        }
        *answer.status_mut() = StatusCode::FOUND;
        answer.headers_mut().insert("location", location.parse().unwrap());
        answer
    })
    .await;
    let gates = vec![to(&host, &["api.example.com"]), to(&host, &["files.example.com"])];
    let stage = Stage::new(gates).await;
    let own = format!("{}/x", host.url());
    for (location, back) in [
        ("/other", Some("http://api.example.com/other")),
        ("https://files.example.com/f?y=2", Some("http://files.example.com/f?y=2")),
        ("//files.example.com/f", Some("http://files.example.com/f")),
        (own.as_str(), Some("http://api.example.com/x")),
        ("https://evil.example/", None),
        ("http://169.254.169.254/latest", None),
        ("https://files.example.com:8443/f", None),
        ("file:///etc/passwd", None),
        ("https://files.example.com@evil.example/", None),
    ] {
        let url = format!("http://api.example.com/?to={location}");
        let output = stage.curl(&["-o", "-", "-w", "\n%{http_code} %{redirect_url}", &url]).await;
        let said = text(&output.stdout);
        match back {
            Some(back) => assert!(said.ends_with(&format!("302 {back}")), "{location}: {said}"),
            None => {
                assert!(said.ends_with("502 "), "{location}: {said}");
                assert!(said.starts_with("refused by the broker"), "{said}");
            }
        }
    }
    let url = "http://api.example.com/?to=https://files.example.com/f";
    assert_eq!(text(&stage.curl(&["-L", url]).await.stdout), "there");
}

#[tokio::test]
async fn headers_of_the_gates_own_list_pass_and_no_others_do() {
    let host = Host::start(|_| {
        let mut answer = saying("hello");
        for (name, value) in
            [("x-own-left", "7"), ("x-other", "1"), ("set-cookie", "a=b"), ("x-own-key", TOKEN)]
        {
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
        answer
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let mut gate = to(&host, &["api.example.com"]);
    gate.headers = patterns(&["x-own-*", "x-http-*", "x-original-url", "cookie", "host"]);
    (gate.credential, gate.scheme) = (credential(&dir), Scheme::Header("X-Own-Key".to_owned()));
    let stage = Stage::new(vec![gate]).await;
    let own = [
        "X-Own-Version: 1",
        "X-Own-Key: stolen",
        "X-Other: 1",
        "X-Http-Method-Override: DELETE",
        "X-Original-Url: /admin",
        "Cookie: a=b",
    ];
    let args: Vec<&str> = own.iter().flat_map(|header| ["-H", header]).collect();
    let url = ["-i", "http://api.example.com/x"];
    let output = stage.curl(&[&args[..], &url].concat()).await;
    let said = text(&output.stdout).to_ascii_lowercase();
    assert!(said.contains("x-own-left: 7") && said.ends_with("hello"), "{said}");
    for never in ["x-other", "set-cookie", "x-own-key", TOKEN] {
        assert!(!said.contains(never), "{said}");
    }
    let seen = &host.seen()[0];
    assert_eq!(seen.header("x-own-version"), Some("1"));
    assert_eq!(seen.header("x-own-key"), Some(TOKEN));
    for never in ["x-other", "x-http-method-override", "x-original-url", "cookie"] {
        assert_eq!(seen.header(never), None, "{never}");
    }
    // Whoever is asked sees those that may change what is meant.
    let beside = &stage.asked()[0].beside;
    assert!(beside.contains(&"with the header x-own-version: 1".to_owned()), "{beside:?}");
    assert!(!format!("{beside:?}").contains("stolen"));
}

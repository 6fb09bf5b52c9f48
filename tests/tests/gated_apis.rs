//! gh, npm and curl through their gates, by the shipped definitions, with a server of
//! the test behind each gate.

use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::rules::stand::gated;
use tool_broker_tests::rules::stub::{Seen, Stub};
use tool_broker_tests::rules::table::Answer;
use tool_broker_tests::{Outcome, Running, Server, Setup, eventually_some, run, skipped, spawn};

struct Stand {
    tool: String,
    server: Server,
    stub: Stub,
}

fn answer(to: &str, body: &str) -> Answer {
    Answer { to: to.to_owned(), having: None, status: 200, body: body.to_owned() }
}

/// `None` where the tool is not installed; that is said.
fn stand(tool: &str, answers: &[Answer], prepare: impl FnOnce(&mut Setup)) -> Option<Stand> {
    let binary = ["/usr/bin", "/usr/local/bin"].map(|dir| format!("{dir}/{tool}"));
    let Some(binary) = binary.iter().find(|path| fs::metadata(path).is_ok()) else {
        skipped(tool, "it is not installed");
        return None;
    };
    let mut setup = Setup::new();
    let ws = setup.ws();
    let stub = Stub::start(answers, &setup.path("run/stub.sock"), ws);
    let from = tool_broker_tests::project().join("tools.d").join(tool);
    let text = fs::read_to_string(from.join("tool.toml")).expect("a definition");
    let text = text.replace(&format!("\"/usr/bin/{tool}\""), &format!("{binary:?}"));
    let text = text.replace("\"localhost\", \"127.0.0.1\"]\nreason", "\"x.test\"]\nreason");
    setup.tool(
        tool,
        &gated(tool, &text, stub.port).replace("\nid = \"local\"", "\nid = \"its-own\""),
    );
    let grammar = fs::read(from.join("grammar.toml")).expect("a grammar");
    setup.file(format!("tools.d/{tool}/grammar.toml"), grammar, 0o644);
    prepare(&mut setup);
    Some(Stand { tool: tool.to_owned(), server: Server::start_in(setup), stub })
}

impl Stand {
    fn spawn(&self, words: &[&str]) -> Running {
        spawn(self.server.client(&self.tool).args(words))
    }

    fn run(&self, words: &[&str]) -> Outcome {
        self.spawn(words).wait()
    }

    fn asked(&self) -> Value {
        eventually_some("a question waits", || {
            let answer = self.server.control().call(&json!({ "op": "approvals" }));
            let waiting = answer["waiting"].as_array()?.clone();
            waiting.into_iter().find(|asked| asked["waits"] == json!(true))
        })
    }

    fn say(&self, verb: &str, asked: &Value) {
        let id = asked["id"].as_str().expect("an id");
        // Of a long body not all is shown.
        let more: &[&str] = if verb == "approve" { &["--unseen"] } else { &[] };
        run(&mut self.server.verb(&[&[verb, id], more].concat()), b"").success();
    }

    fn changes(&self) -> Vec<Seen> {
        let all = self.stub.take().into_iter();
        all.filter(|seen| !seen.line.starts_with("GET ")).collect()
    }
}

#[test]
fn gh_reads_and_comments_and_a_person_is_asked_about_a_merge() {
    let answers = [
        answer("GET /user", r#"{"login":"me"}"#),
        answer("POST /repos/o/r/issues/1/comments", r#"{"id":1}"#),
        answer("PUT /repos/o/r/pulls/1/merge", r#"{"merged":true}"#),
    ];
    let Some(stand) = stand("gh", &answers, |_| {}) else { return };
    assert!(stand.run(&["api", "user"]).success().contains("me"));
    stand.run(&["api", "repos/o/r/issues/1/comments", "-f", "body=a word"]).success();
    assert_eq!(stand.changes().len(), 1);
    for (verb, code, count) in [("deny", Some(1), 0), ("approve", Some(0), 1)] {
        let merge = stand.spawn(&["api", "-X", "PUT", "repos/o/r/pulls/1/merge"]);
        let asked = stand.asked();
        assert_eq!(asked["rule"], json!("api-write"), "{asked}");
        assert_eq!(asked["repository"], json!("github.com/o/r"), "{asked}");
        assert!(asked["wire"].to_string().contains("pulls/1/merge"), "{asked}");
        assert!(stand.changes().is_empty(), "nothing has been sent");
        stand.say(verb, &asked);
        let merged = merge.wait();
        assert_eq!(merged.code(), code, "{merged:?}");
        assert_eq!(stand.changes().len(), count);
    }
}

/// A request that a person is asked about, with a body of a file.
fn ask_about(stand: &Stand, words: &[&str], body: &str) -> Running {
    fs::write(stand.server.ws().join("body.json"), body).expect("body.json");
    let port = stand.stub.port.to_string();
    let words: Vec<String> = words.iter().map(|word| word.replace("{port}", &port)).collect();
    stand.spawn(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What was approved after its caller had left is good for the same body alone.
fn an_answer_that_comes_late(tool: &str, answers: &[Answer], words: &[&str]) {
    let patience = |setup: &mut Setup| setup.config("[approvals]\ntimeout = 2\n");
    let Some(stand) = stand(tool, answers, patience) else { return };
    let body = |last: &str| format!("{{\"a\":\"{}{last}\"}}", "x".repeat(1000));
    let first = ask_about(&stand, words, &body("good"));
    let asked = stand.asked();
    assert!(asked["wire"].to_string().contains("bytes, SHA-256 "), "{asked}");
    assert!(asked["facts_omitted_bytes"].as_u64() > Some(500), "{asked}");
    assert_ne!(first.wait().code(), Some(0));
    let id = asked["id"].as_str().expect("an id");
    let unseen = run(&mut stand.server.verb(&["approve", id]), b"");
    assert!(unseen.err().contains("bytes of this call were not shown"), "{unseen:?}");
    run(&mut stand.server.verb(&["approve", id, "--unseen"]), b"").success();
    // It begins in the same way.
    let other = ask_about(&stand, words, &body("evil"));
    assert_ne!(stand.asked()["id"], asked["id"]);
    assert_ne!(other.wait().code(), Some(0));
    assert!(stand.changes().is_empty());
    ask_about(&stand, words, &body("good")).wait().success();
    let sent = stand.changes();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].body, body("good"));
    // Once.
    assert_ne!(ask_about(&stand, words, &body("good")).wait().code(), Some(0));
    // One that is longer than anybody holds is answered while it waits, or not at all.
    let long = "x".repeat(70_000);
    let first = ask_about(&stand, words, &long);
    let asked = stand.asked();
    assert!(asked["wire"].to_string().contains("more than 65536 bytes"), "{asked}");
    let refused = first.wait();
    assert!(refused.code() != Some(0), "{refused:?}");
    let id = asked["id"].as_str().expect("an id");
    let late = run(&mut stand.server.verb(&["approve", id, "--unseen"]), b"");
    assert!(late.err().contains(&format!("nothing waits as {id}")), "{late:?}");
    let again = ask_about(&stand, words, &long);
    let asked = stand.asked();
    assert!(stand.changes().is_empty());
    let id = asked["id"].as_str().expect("an id");
    run(&mut stand.server.verb(&["approve", id, "--unseen"]), b"").success();
    again.wait().success();
    assert_eq!(stand.changes()[0].body, long);
}

#[test]
fn an_answer_to_gh_is_for_the_whole_of_a_body() {
    let answers = [answer("POST /repos/o/r/releases", "{}")];
    let words = ["api", "repos/o/r/releases", "--input", "body.json"];
    an_answer_that_comes_late("gh", &answers, &words);
}

#[test]
fn an_answer_to_curl_is_for_the_whole_of_a_body() {
    let answers = [answer("POST /x", "{}")];
    // With an option that is asked about.
    let words = ["-sf", "-A", "x", "--data-binary", "@body.json", "http://127.0.0.1:{port}/x"];
    an_answer_that_comes_late("curl", &answers, &words);
}

/// Two gates of one host: what stands for the one does not for the other.
#[test]
fn an_approval_for_a_while_is_for_one_gate_and_its_credential() {
    let answers = [answer("POST /public/x", "well"), answer("POST /public/y", "well")];
    let secrets = |setup: &mut Setup| {
        for name in ["tok", "admin"] {
            setup.file(name, "a-secret-word-of-the-test", 0o600);
        }
        let gate = |port: u16, name: &str, paths: &str| {
            let file = setup.path(name);
            format!(
                "\n[[gate]]\nadapter = \"http\"\nhosts = [\"two.test\"]\nports = [8080]\n\
                 upstream = \"http://127.0.0.1:{port}\"\ncredential = \"file:{}\"\n{paths}default = \"allow\"\n",
                file.display()
            )
        };
        let file = setup.path("tools.d/curl/tool.toml");
        let text = fs::read_to_string(&file).expect("it");
        let port = text.split(", 1]").next().and_then(|text| text.rsplit('[').next());
        let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_default();
        let first = gate(port, "tok", "paths = [\"/public/*\"]\n");
        let both = first + &gate(port, "admin", "");
        let at = text.find("\n[[gate]]").expect("a gate");
        let text = format!("{}{both}{}", &text[..at], &text[at..]);
        setup.file("tools.d/curl/tool.toml", text, 0o644);
    };
    let Some(stand) = stand("curl", &answers, secrets) else { return };
    let post = |url: &str| stand.spawn(&["-s", "--fail-with-body", "-A", "x", "-d", "a=b", url]);
    let first = post("http://two.test/public/x");
    let asked = stand.asked();
    assert!(asked["wire"].to_string().contains("/tok"), "{asked}");
    let id = asked["id"].as_str().expect("an id");
    let told = run(&mut stand.server.verb(&["approve", id, "--for", "5m"]), b"").success();
    assert!(told.contains("in two.test (by the gate in line "), "{told}");
    assert!(told.contains("/tok) for 300 s"), "{told}");
    assert_eq!(first.wait().success(), "well");
    // It stands for itself.
    assert_eq!(post("http://two.test/public/y").wait().success(), "well");
    let standing = run(&mut stand.server.verb(&["approvals"]), b"").success();
    assert!(standing.contains("/tok), "), "{standing}");
    assert_eq!(stand.changes().len(), 2);
    for (other, repository) in [
        ("http://two.test/private/x", "two.test"),
        ("http://two.test:8080/public/x", "two.test:8080"),
    ] {
        let call = post(other);
        let asked = stand.asked();
        assert_eq!(asked["repository"], json!(repository), "{asked}");
        assert!(asked["wire"].to_string().contains(other), "{asked}");
        stand.say("deny", &asked);
        assert_eq!(call.wait().code(), Some(22));
        assert!(stand.changes().is_empty());
    }
}

/// The same body is another request by another header.
#[test]
fn a_late_answer_is_for_the_same_headers() {
    let patience = |setup: &mut Setup| setup.config("[approvals]\ntimeout = 2\n");
    let Some(stand) = stand("curl", &[answer("PUT /x", "well")], patience) else { return };
    let url = format!("http://127.0.0.1:{}/x", stand.stub.port);
    // The words of the call are the same.
    let put = |header: &str| {
        fs::write(stand.server.ws().join("headers"), header).expect("headers");
        stand.spawn(&["-sf", "-A", "x", "-X", "PUT", "-H", "@headers", "-d", "a=b", &url])
    };
    let kind = |last: &str| format!("Content-Type: a/b; x={}; c={last}", "x".repeat(100));
    for (good, evil) in [
        ("If-Match: \"1\"".to_owned(), "If-None-Match: *".to_owned()),
        (kind("utf-8"), kind("utf-7\nContent-Encoding: deflate")),
    ] {
        let first = put(&good);
        let asked = stand.asked();
        assert_ne!(first.wait().code(), Some(0));
        stand.say("approve", &asked);
        let other = put(&evil);
        assert_ne!(stand.asked()["id"], asked["id"]);
        assert_ne!(other.wait().code(), Some(0));
        assert!(stand.changes().is_empty());
        put(&good).wait().success();
        assert_eq!(stand.changes().len(), 1);
    }
}

#[test]
fn gh_works_without_namespaces_too() {
    let answers = [answer("GET /user", r#"{"login":"me"}"#)];
    let landlock = |setup: &mut Setup| setup.flag("--sandbox-level=landlock");
    let Some(stand) = stand("gh", &answers, landlock) else { return };
    assert!(stand.run(&["api", "user"]).success().contains("me"));
}

#[test]
fn npm_reads_and_a_person_is_asked_before_a_package_is_published() {
    let Some(stand) = stand("npm", &[answer("PUT /work", "{}")], |_| {}) else { return };
    let package = r#"{"name":"work","version":"1.0.0"}"#;
    fs::write(stand.server.ws().join("package.json"), package).expect("package.json");
    for (verb, code, count) in [("deny", Some(1), 0), ("approve", Some(0), 1)] {
        let publish = stand.spawn(&["publish"]);
        let asked = stand.asked();
        assert_eq!(asked["rule"], json!("publish"), "{asked}");
        assert!(asked["wire"].to_string().contains("work"), "{asked}");
        assert!(stand.changes().is_empty(), "nothing has been sent");
        stand.say(verb, &asked);
        let published = publish.wait();
        assert_eq!(published.code(), code, "{published:?}");
        assert_eq!(stand.changes().len(), count);
    }
}

#[test]
fn curl_is_asked_about_where_it_goes_also_by_a_redirect() {
    let answers = [answer("GET /x", "well")];
    let Some(stand) = stand("curl", &answers, |_| {}) else { return };
    let url = format!("http://127.0.0.1:{}/x", stand.stub.port);
    // Its host was taken from the list again.
    let definition = stand.server.path("tools.d/curl/tool.toml");
    let text = fs::read_to_string(&definition).expect("it");
    let text = text.replace("\"localhost\", \"127.0.0.1\"]\nreason", "\"x.test\"]\nreason");
    stand.server.tool("curl", &text);
    run(&mut stand.server.verb(&["reload"]), b"").success();
    let call = stand.spawn(&["-sf", &url]);
    let asked = stand.asked();
    assert_eq!(asked["rule"], json!("wire-host"), "{asked}");
    assert!(asked["argv"].to_string().contains(&url), "{asked}");
    assert!(stand.stub.take().is_empty());
    stand.say("approve", &asked);
    assert_eq!(call.wait().success(), "well");
    let call = stand.spawn(&["-sf", &url]);
    let asked = stand.asked();
    stand.say("deny", &asked);
    assert_eq!(call.wait().code(), Some(22));
}

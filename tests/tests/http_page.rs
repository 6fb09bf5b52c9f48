//! The status page without a browser: what is in it, who sees what, and who may answer.

mod page_help;

use std::io::Write as _;

use page_help::*;
use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, BOB, Http, answer};
use tool_broker_tests::{Setup, run};

#[test]
fn what_was_said_is_never_markup() {
    let http = started();
    call(&http, ALICE, "say", &[HOSTILE]);
    call(&http, ALICE, "drop", &[HOSTILE]);
    call(&http, ALICE, "%3Cscript%3Ex", &[]);
    for (at, token) in [(http.address, ALICE), (door(&http), OLGA)] {
        let page = page(at, token);
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(page.contains("&lt;b&gt;not&lt;/b&gt; this"), "{page}");
        assert!(page.contains("another &lt;i&gt;way&lt;/i&gt;"), "{page}");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        for wrong in ["<img", "<b>not", "<i>way", "\u{202e}", "\x1b", " style=", " onclick="] {
            assert!(!page.contains(wrong), "{wrong:?}: {page}");
        }
    }
}

#[test]
fn a_browser_runs_nothing_but_the_pages_own_script_and_asks_nobody_else() {
    let http = started();
    for (at, token) in [(http.address, ALICE), (door(&http), OLGA)] {
        let answer = ask(at, token, "GET /", "", "");
        let policy = answer.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        // With no-referrer browsers would send forms with the Origin null.
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let assets = ["/assets/page.css", "/assets/page.js", "/assets/icon.svg"];
        for (path, kind) in assets.into_iter().zip(["text/css", "text/javascript", "image/svg+xml"])
        {
            assert!(answer.body.contains(&format!("=\"{path}\"")), "{path}");
            let asset = ask(at, token, &format!("GET {path}"), "", "");
            assert!(asset.header("content-type").expect("a kind").starts_with(kind), "{asset:?}");
            let local = asset.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!local.contains("//www.") && !local.contains("https:"), "{path}");
            assert!(!local.contains("innerHTML") && !local.contains("eval("), "{path}");
        }
        let elsewhere = answer.body.contains("http:/") || answer.body.contains("https:/");
        assert!(!elsewhere, "{}", answer.body);
    }
}

#[test]
fn the_page_is_whole_without_a_script() {
    let http = started();
    call(&http, ALICE, "say", &["hello", "world"]);
    call(&http, ALICE, "drop", &["it"]);
    let waiting = held(&http);
    let text = page(http.address, ALICE);
    for part in [
        "<code>say hello world</code>",
        "missing binary",
        "unrestricted",
        "<code>never</code>",
        "<code>asked &quot;a question&quot;</code>",
        "Waiting for a person",
        "calls in the last two minutes",
        "id=\"durations\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Read only: nothing to answer with, and no route that would take one.
    assert!(!text.contains("<form") && !text.contains("<button"), "{text}");
    let refused = ask(http.address, ALICE, "POST /approvals", "", "do=approve");
    assert_eq!(refused.status, 404, "{refused:?}");
    let (nonce, id) = question(&http);
    let told =
        form(&http, OLGA, &own_origin(&http), &format!("nonce={nonce}&approval={id}&do=deny"));
    assert_eq!(told.status, 303, "{told:?}");
    waiting.join().expect("answered");
}

#[test]
fn a_caller_sees_its_own_calls_and_an_operator_all() {
    let http = started();
    call(&http, BOB, "say", &["of-bob"]);
    call(&http, BOB, "drop", &["bob-was-refused"]);
    run(http.server.client("say").arg("by-socket"), b"").success();
    let waiting = held(&http);
    let (alice, bob) = (page(http.address, ALICE), page(http.address, BOB));
    let olga = page(door(&http), OLGA);
    for (words, of) in [
        ("of-bob", [false, true, true]),
        ("by-socket", [false, false, true]),
        ("a question", [true, false, true]),
        ("bob-was-refused", [false, true, true]),
    ] {
        let seen = [&alice, &bob, &olga].map(|page| page.contains(words));
        assert_eq!(seen, of, "{words}");
    }
    // Counts are of all; files and paths of the server's are the operator's to see.
    assert_eq!(between(&alice, "data-figure=\"finished\">", "<"), "3");
    assert!(olga.contains("/no/such/program") && !alice.contains("/no/such/program"));
    assert!(olga.contains("what the tool npm runs"), "of npm_install");
    assert!(olga.contains("http:bob") && !alice.contains("http:bob"));
    let (nonce, id) = question(&http);
    form(&http, OLGA, &own_origin(&http), &format!("nonce={nonce}&approval={id}&do=deny"));
    waiting.join().expect("answered");
}

#[test]
fn an_answer_by_form_reaches_the_call_and_the_audit() {
    let http = started();
    let origin = own_origin(&http);
    let waiting = held(&http);
    let (nonce, id) = question(&http);
    let told = form(
        &http,
        OLGA,
        &origin,
        &format!("nonce={nonce}&approval={id}&do=deny&reason=%3Cb%3Eno"),
    );
    assert_eq!((told.status, told.header("location")), (303, Some("/")), "{told:?}");
    let refused = waiting.join().expect("answered");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains(&format!("a person denied request {id}: <b>no")), "{message}");
    let shown = page(door(&http), OLGA);
    assert!(shown.contains(&format!("denied {id}")), "{shown}");
    assert!(!page(door(&http), OLGA).contains("class=\"told"), "it is told once");
    let waiting = held(&http);
    let (nonce, id) = question(&http);
    let body = format!("nonce={nonce}&approval={id}&do=approve_for&for_seconds=300");
    assert_eq!(form(&http, OLGA, &origin, &body).status, 303);
    let told = page(door(&http), OLGA);
    assert!(told.contains(&format!("approved {id}, and rule person")), "{told}");
    assert_eq!(waiting.join().expect("answered")["output"]["stdout"], json!("a question\n"));
    // It stands, and the operator can take it back.
    assert_eq!(call(&http, ALICE, "asked", &["more"])["success"], json!(true));
    assert!(page(door(&http), OLGA).contains("Approvals that stand"));
    let verb = run(&mut http.server.verb(&["approvals"]), b"").success();
    assert!(verb.contains("by an operator by HTTP"), "{verb}");
    assert_eq!(
        form(&http, OLGA, &origin, &format!("nonce={nonce}&approval={id}&do=revoke")).status,
        303
    );
    let list = ask(door(&http), OLGA, "GET /approvals", "", "").json();
    assert_eq!(list["standing"], json!([]));
    let lines = run(&mut http.server.verb(&["audit", "--json"]), b"").success();
    let lines: Vec<Value> =
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answers: Vec<&Value> =
        lines.iter().map(|line| &line["approval"]).filter(|one| one.is_object()).collect();
    assert!(answers.len() >= 2, "{lines:?}");
    for answer in answers {
        assert_eq!((&answer["by"], &answer["by_uid"]), (&json!("http"), &Value::Null), "{answer}");
    }
    http.server.logs("olga");
}

#[test]
fn an_answer_from_no_page_of_this_door_is_refused() {
    let http = started();
    let origin = own_origin(&http);
    let waiting = held(&http);
    let (nonce, id) = question(&http);
    let good = format!("nonce={nonce}&approval={id}&do=approve");
    let agents = format!("http://{}", http.address);
    for (from, body, status) in [
        ("", good.as_str(), 403),
        ("null", &good, 403),
        ("http://evil.example", &good, 403),
        // The agents' door is another origin.
        (&agents, &good, 403),
        (&origin, &format!("approval={id}&do=approve"), 403),
        (&origin, &format!("nonce=&approval={id}&do=approve"), 403),
        (&origin, &format!("nonce={}&approval={id}&do=approve", "0".repeat(32)), 403),
        (&origin, &format!("{good}&more=1"), 400),
        (&origin, &format!("{good}&reason={}", "x".repeat(9_000)), 400),
    ] {
        let answer = form(&http, OLGA, from, body);
        assert_eq!(answer.status, status, "{from} {body}: {answer:?}");
    }
    let head = format!("Origin: {origin}\nContent-Type: text/plain\n");
    assert_eq!(ask(door(&http), OLGA, "POST /approvals", &head, &good).status, 415);
    assert_eq!(ask(door(&http), OLGA, &format!("GET /approvals?{good}"), "", "").status, 200);
    assert!(!waiting.is_finished(), "nothing of it was an answer");
    // What cannot be is told on the page.
    form(&http, OLGA, &origin, &format!("nonce={nonce}&approval=zzzzzz&do=approve"));
    assert!(page(door(&http), OLGA).contains("class=\"told wrong\""));
    assert_eq!(form(&http, OLGA, &origin, &good).status, 303);
    assert_eq!(waiting.join().expect("answered")["success"], json!(true));
}

#[test]
fn an_agents_token_opens_no_operators_door_and_the_other_way_round() {
    let http = started();
    let door = door(&http);
    for path in ["/", "/events", "/approvals", "/assets/page.js"] {
        assert_eq!(ask(door, ALICE, &format!("GET {path}"), "", "").status, 401, "{path}");
    }
    for path in ["/", "/events", "/tools", "/metrics"] {
        assert_eq!(ask(http.address, OLGA, &format!("GET {path}"), "", "").status, 401, "{path}");
    }
    for path in ["/tools", "/tools/say", "/metrics", "/openapi.json", "/mcp"] {
        assert_eq!(ask(door, OLGA, &format!("GET {path}"), "", "").status, 404, "{path}");
    }
    let body = "{\"args\":[]}";
    let head = "Content-Type: application/json\n";
    assert_eq!(ask(door, OLGA, "POST /tools/say", head, body).status, 404);
    // In a browser the token is a password.
    let line = format!("curl -sS -o /dev/null -w '%{{http_code}}' -u any:{OLGA} http://{door}/");
    assert_eq!(http.bash(&line).success(), "200");
    // By a name that somebody else's DNS gave this address.
    let mut stream = dial(door);
    let head = format!(
        "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nAuthorization: Bearer {OLGA}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    assert_eq!(answer(stream).status, 403);
}

#[test]
fn the_operators_door_is_off_and_opens_on_loopback_with_tokens_of_its_own_alone() {
    let status = Http::with_tokens(|_| {}).server.status();
    assert!(status["operator"].is_null(), "{status}");
    let said = |env: &[(&str, &str)]| {
        let mut setup = Setup::new();
        let tokens = setup.file("tokens", format!("olga:{OLGA}\n"), 0o600);
        setup.env("TOOL_HTTP_OPERATOR_TOKEN_FILE", &tokens);
        for (name, value) in env {
            let value = if *value == "tokens" { tokens.to_str().expect("text") } else { value };
            setup.env(name, value);
        }
        run(&mut setup.serve(), b"").err()
    };
    assert!(said(&[]).contains("go together"));
    assert!(said(&[("TOOL_HTTP_OPERATOR_LISTEN", "0.0.0.0:0")]).contains("loopback"));
    let shared = [
        ("TOOL_HTTP_OPERATOR_LISTEN", "127.0.0.1:0"),
        ("TOOL_HTTP_LISTEN", "127.0.0.1:0"),
        ("TOOL_HTTP_TOKEN_FILE", "tokens"),
    ];
    assert!(said(&shared).contains("opens nothing else"));
}

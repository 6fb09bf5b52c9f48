//! Who may ask by HTTP: tokens, Host and Origin, what browsers are told, and requests that
//! two readers would read differently.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tool_broker_tests::http::{ALICE, BOB, Http};
use tool_broker_tests::{Server, Setup, run};

/// Routes, and whether one may be asked without a token.
const ROUTES: [(&str, bool); 14] = [
    ("GET /", false),
    ("GET /health", true),
    ("GET /metrics", false),
    ("GET /openapi.json", false),
    ("GET /tools", false),
    ("GET /tools/read_file", false),
    ("POST /tools/read_file", false),
    ("POST /search", false),
    ("POST /read", false),
    ("POST /command", false),
    ("POST /edit", false),
    ("POST /container-operation", false),
    ("POST /api/test-tool", false),
    ("DELETE /no/such", false),
];

fn status(http: &Http, line: &str, head: &str) -> u16 {
    http.raw(http.request(line, head, "").as_bytes()).status
}

#[test]
fn without_a_token_that_is_known_nothing_but_health_is_answered() {
    let http = Http::with_tokens(|_| {});
    let basic = |pair: &str| format!("Authorization: Basic {pair}\n");
    let wrong = [
        String::new(),
        "Authorization: Bearer wrong-0123456789abcdef\n".to_owned(),
        format!("Authorization: Bearer {ALICE}x\n"),
        format!("Authorization: Bearer {}\n", &ALICE[1..]),
        format!("Authorization: Bearer {}\n", ALICE.to_uppercase()),
        "Authorization: Bearer\n".to_owned(),
        format!("Authorization: {ALICE}\n"),
        format!("Authorization: Token {ALICE}\n"),
        format!("Authorization: Bearer {ALICE}\nAuthorization: Bearer {BOB}\n"),
        format!("X-Authorization: Bearer {ALICE}\n"),
        format!("Cookie: token={ALICE}\n"),
        // alice:wrong, and the token as the user's name
        basic("YWxpY2U6d3Jvbmc="),
        basic("YWxpY2VzLTAxMjM0NTY3ODlhYmNkZWY6"),
        basic("%%%"),
    ];
    for (line, open) in ROUTES {
        for head in &wrong {
            let wanted = if open { 200 } else { 401 };
            assert_eq!(status(&http, line, head), wanted, "{line}: {head:?}");
        }
    }
    let answer = http.raw(http.request(&format!("GET /tools?token={ALICE}"), "", "").as_bytes());
    assert_eq!(answer.status, 401);
    let schemes = answer.headers("www-authenticate");
    assert!(
        schemes.len() == 2 && schemes[0].starts_with("bearer") && schemes[1].starts_with("basic")
    );
    assert_eq!(answer.json()["error"]["code"], json!("UNAUTHORIZED"));
    assert!(!http.server.log().contains(ALICE), "a token in the log");
}

#[test]
fn a_token_is_taken_as_a_bearers_or_as_a_browsers_password() {
    let http = Http::with_tokens(|_| {});
    for head in [
        format!("Authorization: Bearer {ALICE}\n"),
        format!("authorization: bearer {BOB}\n"),
        // anybody:alices-0123456789abcdef
        "Authorization: Basic YW55Ym9keTphbGljZXMtMDEyMzQ1Njc4OWFiY2RlZg==\n".to_owned(),
    ] {
        assert_eq!(status(&http, "GET /tools", &head), 200, "{head}");
    }
    let said = http.bash("curl -sS -u me:$TOKEN $URL/tools/read_file").success();
    assert!(said.contains("input_schema"), "{said}");
}

/// As a page in a browser on this machine would ask, by a name of its own that leads here.
#[test]
fn only_names_of_its_own_are_answered_whatever_the_route_and_whoever_asks() {
    let http = Http::with_tokens(|s| s.env("TOOL_HTTP_HOSTS", "tools.example.com,10.9.8.7"));
    let port = http.address.port();
    let token = format!("Authorization: Bearer {ALICE}\n");
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        &format!("127.0.0.1:{port}"),
        "[::1]:3001",
        "tools.example.com",
        "Tools.Example.com:3001",
        "10.9.8.7:80",
    ] {
        assert_eq!(status(&http, "GET /tools", &format!("Host: {host}\n{token}")), 200, "{host}");
    }
    for (line, _) in ROUTES {
        for host in [
            "example.com",
            "rebound.example.com:3001",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "0.0.0.0:3001",
            "10.0.0.1",
            "2130706433",
            "x@localhost",
            "localhost@example.com",
            "tools.example.com.evil.example",
            "",
        ] {
            let got = status(&http, line, &format!("Host: {host}\n{token}"));
            assert_eq!(got, 403, "{line}, {host:?}");
        }
        let two = format!("Host: localhost\nHost: localhost\n{token}");
        assert_eq!(status(&http, line, &two), 403, "{line}: two");
    }
    let none = format!(
        "GET /tools HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer {ALICE}\r\n\r\n"
    );
    assert_eq!(http.raw(none.as_bytes()).status, 403, "none");
    let other = format!(
        "GET http://example.com/tools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {ALICE}\r\n\r\n"
    );
    assert_eq!(http.raw(other.as_bytes()).status, 403, "another in the line");
}

#[test]
fn pages_of_other_origins_are_refused_unless_they_are_named() {
    let http = Http::with_tokens(|s| {
        s.env("CORS_ORIGINS", "https://app.example.com,http://localhost:5173")
    });
    let token = format!("Authorization: Bearer {ALICE}\n");
    let own = format!("http://{}", http.address);
    for (origin, wanted) in [
        (own.as_str(), 200),
        ("https://app.example.com", 200),
        ("http://localhost:5173", 200),
        ("http://app.example.com", 403),
        ("https://app.example.com:8443", 403),
        ("https://evil.example", 403),
        ("https://app.example.com.evil.example", 403),
        ("http://localhost:1", 403),
        ("null", 403),
        ("", 403),
    ] {
        let head = format!("{token}Origin: {origin}\n");
        assert_eq!(status(&http, "GET /tools", &head), wanted, "{origin}");
        if wanted == 403 {
            for (line, _) in ROUTES {
                assert_eq!(status(&http, line, &head), 403, "{line}, {origin}");
            }
        }
    }
    let two = format!("{token}Origin: {own}\nOrigin: https://evil.example\n");
    assert_eq!(status(&http, "GET /tools", &two), 403);
    // What browsers say where they send no Origin.
    for (head, line, wanted) in [
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\n", "GET /tools", 403),
        ("Sec-Fetch-Site: same-site\nSec-Fetch-Mode: no-cors\n", "GET /tools", 403),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\n", "GET /", 200),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\n", "POST /read", 403),
        ("Sec-Fetch-Site: same-origin\n", "GET /tools", 200),
        ("Sec-Fetch-Site: none\n", "GET /tools", 200),
    ] {
        assert_eq!(status(&http, line, &format!("{token}{head}")), wanted, "{line}: {head}");
    }
}

#[test]
fn a_browser_is_told_before_it_asks_which_pages_may() {
    let http = Http::with_tokens(|s| s.env("CORS_ORIGINS", "https://app.example.com"));
    let preflight = "Access-Control-Request-Method: POST\n\
                     Access-Control-Request-Headers: authorization,content-type\n";
    let ask = |origin: &str| {
        let head = format!("Origin: {origin}\n{preflight}");
        http.raw(http.request("OPTIONS /tools/read_file", &head, "").as_bytes())
    };
    let may = ask("https://app.example.com");
    assert_eq!(may.status, 200, "{may:?}");
    assert_eq!(may.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(may.header("access-control-allow-methods"), Some("get,post,delete"));
    // The two of every call, and those of MCP.
    let headers = "authorization,content-type,mcp-session-id,mcp-protocol-version,mcp-method,\
                   mcp-name,last-event-id";
    assert_eq!(may.header("access-control-allow-headers"), Some(headers));
    assert_eq!(may.header("access-control-allow-credentials"), None);
    let may_not = ask("https://evil.example");
    assert_eq!((may_not.status, may_not.header("access-control-allow-origin")), (403, None));
    let head = format!("Authorization: Bearer {ALICE}\nOrigin: https://app.example.com\n");
    let answer = http.raw(http.request("GET /tools", &head, "").as_bytes());
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    // None is named: none may, and there is nothing of all this.
    let http = Http::with_tokens(|_| {});
    let head = format!("Authorization: Bearer {ALICE}\n");
    let answer = http.raw(http.request("OPTIONS /tools", &head, "").as_bytes());
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (405, None));
    let answer = http.raw(http.request("GET /tools", &head, "").as_bytes());
    assert!(!answer.head.contains("access-control"), "{answer:?}");
}

#[test]
fn browsers_are_told_to_be_strict() {
    let strict = [
        (
            "content-security-policy",
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "deny"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ];
    let http = Http::with_tokens(|_| {});
    for answer in [
        http.ask("GET /health", "", ""),
        http.ask("GET /tools", "", ""),
        http.ask("GET /no/such", "", ""),
        http.raw(http.request("GET /tools", "", "").as_bytes()),
        http.raw(http.request("GET /tools", "Host: example.com\n", "").as_bytes()),
    ] {
        for (name, value) in strict {
            assert_eq!(answer.header(name), Some(value), "{name}: {answer:?}");
        }
        assert_eq!(answer.header("server"), None);
    }
    let off = Http::with_tokens(|s| s.env("ENABLE_HELMET", "false"));
    let answer = off.ask("GET /tools", "", "");
    assert_eq!((answer.status, answer.header("x-frame-options")), (200, None), "{answer:?}");
}

/// What a proxy in front would read as one request and this server as two, or the other way.
#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let http = Http::with_tokens(|_| {});
    let smuggled =
        format!("GET /tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\n\r\n");
    for (what, head) in [
        ("two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n"),
        ("a list of lengths", "Content-Length: 2, 3\r\n"),
        ("a length with a sign", "Content-Length: +2\r\n"),
        ("a negative one", "Content-Length: -1\r\n"),
        ("a hexadecimal one", "Content-Length: 0x2\r\n"),
        ("an encoding that is none", "Transfer-Encoding: identity\r\n"),
        ("chunked that is not the last", "Transfer-Encoding: chunked, gzip\r\n"),
        ("a space before the colon", "Content-Length : 2\r\n"),
        ("a folded line", "X: a\r\n b\r\n"),
    ] {
        let text = format!(
            "POST /tools/read_file HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\n\
             Content-Type: application/json\r\n{head}\r\n{{}}{smuggled}"
        );
        let answer = http.raw(text.as_bytes());
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        assert!(!answer.body.contains("HTTP/1.1"), "{what}: a second answer: {answer:?}");
    }
    // Both lengths: the chunks count, and what follows them is not another request.
    let text = format!(
        "POST /tools/read_file HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\n\
         Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\n{{}}\r\n0\r\n\r\n{smuggled}"
    );
    let answer = http.raw(text.as_bytes());
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(!answer.body.contains("HTTP/1.1"), "a second answer: {answer:?}");
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let http = Http::with_tokens(|_| {});
    let many: String = (0..200).map(|n| format!("X-{n}: x\n")).collect();
    assert_eq!(status(&http, "GET /tools", &many), 431);
    let long = format!("X: {}\n", "x".repeat(256 * 1024));
    let answer = http.raw(http.request("GET /tools", &long, "").as_bytes());
    assert_eq!(answer.status, 431, "{answer:?}");
}

#[test]
fn a_file_of_tokens_is_the_operators_alone() {
    for (mode, text, wanted) in [
        (0o644, format!("alice:{ALICE}\n"), "chmod 600"),
        (0o620, format!("alice:{ALICE}\n"), "chmod 600"),
        (0o600, "alice:short\n".to_owned(), ":1: a token has at least 16"),
        (0o600, format!("a:{ALICE}\nb:{ALICE}\n"), ":2: this name or this token is there twice"),
        (0o600, "# none\n".to_owned(), "there is no token in it"),
    ] {
        let mut setup = Setup::new();
        let path = setup.file("tokens", &text, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
        setup.env("TOOL_HTTP_TOKEN_FILE", &path);
        setup.env("TOOL_HTTP_LISTEN", "127.0.0.1:0");
        let command = setup.serve();
        let (status, log) = Server::try_start(setup, command).expect_err("it is refused");
        assert_eq!(status.code(), Some(1));
        assert!(log.contains(wanted) && log.contains("tokens"), "{wanted}: {log}");
        assert!(!log.contains(ALICE) && !log.contains("short"), "a token in the log: {log}");
    }
    let mut setup = Setup::new();
    setup.env("TOOL_HTTP_TOKEN_FILE", setup.path("no/such"));
    let command = setup.serve();
    let (_, log) = Server::try_start(setup, command).expect_err("there is none");
    assert!(log.contains("no/such") && log.contains("http.token_file"), "{log}");
}

#[test]
fn an_open_door_is_for_this_machine_alone_and_said_loudly() {
    let refused = |flags: &[&str]| {
        let setup = Setup::new();
        run(setup.verb(&["config"]).args(flags), b"").refused(1)
    };
    let others = refused(&["--insecure-no-auth", "--http-listen=0.0.0.0:3001"]);
    assert!(others.contains("loopback") && others.contains("0.0.0.0:3001"), "{others}");
    let nobody = refused(&["--http-listen=127.0.0.1:3001"]);
    assert!(
        nobody.contains("http.token_file") && nobody.contains("--insecure-no-auth"),
        "{nobody}"
    );
    let http = Http::open_to_all(|_| {});
    http.server.logs("whoever is on this machine");
    assert_eq!(status(&http, "GET /tools", ""), 200);
    assert_eq!(status(&http, "GET /tools", "Host: example.com\n"), 403);
    // To other machines with tokens, and a word about TLS.
    let http = Http::with_tokens(|s| s.env("TOOL_HTTP_LISTEN", "0.0.0.0:0"));
    http.server.logs("no TLS");
}

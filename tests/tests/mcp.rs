//! Clients of MCP at both doors, by hand: versions, tools, results, resources, roots.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, Http};
use tool_broker_tests::mcp::{Client, Pipe, VERSIONS, Web};
use tool_broker_tests::{Setup, run};

const ECHO: &str = "binary = \"/bin/echo\"\ndescription = \"says what it is told\"\n\
    default = \"allow\"\n[[rule]]\nid = \"no-secrets\"\ndecision = \"deny\"\n\
    operands = \"secret\"\nreason = \"it is one\"\ninstead = \"say something else\"\n";

fn server() -> Http {
    Http::with_tokens(|s| s.tool("echo", ECHO))
}

/// The same at both doors.
#[track_caller]
fn at_both(http: &Http, test: impl Fn(&mut dyn Client)) {
    test(&mut Pipe::start(&http.server));
    test(&mut Web::new(http, ALICE));
}

#[test]
fn every_version_is_spoken_at_both_doors() {
    let http = server();
    for version in VERSIONS {
        at_both(&http, |client| {
            let begun = client.begin(version, &json!({}));
            assert_eq!(begun["protocolVersion"], json!(version));
            assert_eq!(begun["serverInfo"]["name"], json!("tool-server"));
            assert_eq!(begun["capabilities"]["tools"], json!({"listChanged": true}), "{begun}");
            assert_eq!(begun["capabilities"]["resources"], json!({}), "subscribing is not offered");
            assert_eq!(client.result(1, "ping", &json!({})), json!({}));
            let said = client.call(2, "echo", &json!({"args": ["hello"]}));
            assert_eq!(said["content"][0]["text"], json!("hello\n"), "{said}");
        });
    }
    at_both(&http, |client| {
        let begun = client.begin("1999-01-01", &json!({}));
        assert_eq!(begun["protocolVersion"], json!(VERSIONS[3]), "one that it knows");
    });
}

#[test]
fn the_newest_version_needs_no_session() {
    let http = server();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |method: &str, name: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\n") };
        let head = format!(
            "Accept: application/json, text/event-stream\nMCP-Protocol-Version: 2026-07-28\n\
             Mcp-Method: {method}\n{name}"
        );
        let answer = http.ask("POST /mcp", &head, &body.to_string());
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None), "{answer:?}");
        let messages = tool_broker_tests::mcp::messages(&answer);
        messages.last().expect("an answer")["result"].clone()
    };
    let found = ask("server/discover", "", json!({}));
    let versions = found["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    assert!(ask("tools/list", "", json!({}))["tools"].as_array().is_some_and(|all| all.len() > 6));
    let said = ask("tools/call", "echo", json!({"name": "echo", "arguments": {"args": ["x"]}}));
    assert_eq!(said["structuredContent"]["stdout"], json!("x\n"), "{said}");
    // The same on standard input and output.
    let mut pipe = Pipe::start(&http.server);
    let found = pipe.result(1, "server/discover", &json!({"_meta": meta}));
    assert!(found["capabilities"]["tools"].is_object(), "{found}");
    let input = json!({"name": "echo", "arguments": {"args": ["y"]}, "_meta": meta});
    let said = pipe.result(2, "tools/call", &input);
    assert_eq!(said["structuredContent"]["stdout"], json!("y\n"), "{said}");
}

/// Calls of every tool that the broker has itself, and of one of tools.d.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({"path": "src/a.rs", "content": "fn a() {}\nfn b() {}\n"})),
        ("read_file", json!({"path": "src/a.rs"})),
        ("read_file", json!({"path": "src/a.rs", "start_line": 2, "line_numbers": true})),
        ("read_file", json!({"path": "blob"})),
        ("read_file", json!({"path": "blob", "encoding": "base64"})),
        ("edit_file", json!({"path": "src/a.rs", "old_text": "fn a", "new_text": "fn c"})),
        (
            "edit_file",
            json!({"path": "src/a.rs", "old_text": "fn c", "new_text": "fn d", "dry_run": true}),
        ),
        ("list_directory", json!({"depth": 3})),
        ("search_files", json!({"pattern": "fn"})),
        ("search_files", json!({"pattern": "*.rs", "by": "name"})),
        ("sh", json!({"args": ["-c", "echo out; echo err >&2; exit 3"]})),
        ("sh", json!({"args": ["-c", "kill -9 $$"]})),
        ("run_command", json!({"argv": ["ls", "no-such-file"]})),
        ("run_command", json!({"argv": ["printf", "\\377"]})),
        ("run_shell", json!({"command": "echo a | tr a b"})),
        ("echo", json!({"args": ["hello"]})),
    ]
}

#[test]
fn what_a_tool_gives_is_what_its_schema_says() {
    let http = server();
    fs::write(http.server.ws().join("blob"), [0, 159, 146, 150]).expect("write");
    at_both(&http, |client| {
        client.begin(VERSIONS[3], &json!({}));
        let listed = client.result(1, "tools/list", &json!({}));
        let mut schemas = BTreeMap::new();
        for tool in listed["tools"].as_array().expect("tools") {
            let name = tool["name"].as_str().expect("a name").to_owned();
            for schema in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[schema]["type"], json!("object"), "{name}: {schema}");
            }
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
                assert!(tool["annotations"][hint].is_boolean(), "{name}: {hint}");
            }
            assert!(
                tool["annotations"]["title"].is_string() && tool["title"].is_string(),
                "{name}"
            );
            assert!(!tool.to_string().contains("\"uint"), "{name}: no format of JSON Schema");
            let made = |schema: &str| jsonschema::validator_for(&tool[schema]).expect("a schema");
            schemas.insert(name, (made("inputSchema"), made("outputSchema")));
        }
        let own = [
            "edit_file",
            "list_directory",
            "read_file",
            "run_command",
            "run_shell",
            "search_files",
            "write_file",
        ];
        let mut called: Vec<&str> = Vec::new();
        for (id, (tool, input)) in (10..).zip(calls()) {
            let (takes, gives) = &schemas[tool];
            assert!(takes.is_valid(&input), "{tool}: {input}");
            let seen = client.call(id, tool, &input);
            assert_eq!(seen["isError"], json!(false), "{tool}: {seen}");
            if let Err(error) = gives.validate(&seen["structuredContent"]) {
                panic!("{tool}: {error}: {seen}");
            }
            assert_eq!(seen["content"][0]["type"], json!("text"), "{seen}");
            called.push(tool);
        }
        assert!(own.iter().all(|tool| called.contains(tool)), "{called:?}");
    });
}

#[test]
fn a_result_reads_well_and_a_refusal_says_why() {
    let http = server();
    fs::write(http.server.ws().join("a.txt"), "one\ntwo\n").expect("write");
    at_both(&http, |client| {
        client.begin(VERSIONS[3], &json!({}));
        let read = client.call(1, "read_file", &json!({"path": "a.txt"}));
        assert_eq!(read["content"][0]["text"], json!("one\ntwo\n"), "{read}");
        let ran = json!({"args": ["-c", "echo out; echo err >&2; exit 3"]});
        let ran = client.call(2, "sh", &ran);
        assert_eq!(ran["content"][0]["text"], json!("out\n[stderr]\nerr\n[exit code 3]"), "{ran}");
        let listed = client.call(3, "list_directory", &json!({}));
        let text = listed["content"][0]["text"].as_str().expect("text");
        let parsed: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(parsed, listed["structuredContent"]);

        let refused = client.call(4, "echo", &json!({"args": ["secret"]}));
        assert_eq!(refused["isError"], json!(true), "{refused}");
        let text = refused["content"][0]["text"].as_str().expect("text");
        assert!(text.starts_with("DENIED: ") && text.contains("no-secrets"), "{text}");
        assert!(text.ends_with("instead: say something else"), "{text}");
        let error = &refused["_meta"]["tool-server/error"];
        assert_eq!((&error["code"], &error["rule"]), (&json!("DENIED"), &json!("no-secrets")));
        assert!(refused.get("structuredContent").is_none(), "{refused}");
        for (id, tool, input, code) in [
            (5, "read_file", json!({"path": "../x"}), "PATH_OUTSIDE_WORKSPACE"),
            (6, "read_file", json!({"path": "no"}), "FILE_NOT_FOUND"),
            (7, "read_file", json!({"paht": "a.txt"}), "INVALID_INPUT"),
            (8, "run_command", json!({"argv": ["no-such-program"]}), "NOT_INSTALLED"),
        ] {
            let seen = client.call(id, tool, &input);
            let text = seen["content"][0]["text"].as_str().unwrap_or_default();
            assert!(seen["isError"] == json!(true) && text.starts_with(code), "{seen}");
        }
        let none = client.ask(9, "tools/call", &json!({"name": "no-such-tool"}));
        assert_eq!(none["error"]["code"], json!(-32602), "{none}");
        // On a busy machine it may be ended before it has said anything: then it has more time.
        let said = [(10, 300), (11, 5_000), (12, 30_000)].into_iter().any(|(id, most)| {
            let late = json!({"args": ["-c", "echo part; sleep 600"], "timeout_ms": most});
            let late = client.call(id, "sh", &late);
            assert_eq!(late["isError"], json!(true), "{late}");
            late["structuredContent"]["stdout"] == json!("part\n")
        });
        assert!(said, "what there is of it");
    });
}

#[test]
fn pictures_and_sounds_come_as_such() {
    let http = server();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff";
    let wav = b"RIFF\x24\0\0\0WAVEfmt \xff\xff";
    let ws = http.server.ws();
    fs::write(ws.join("a.png"), png).expect("write");
    fs::write(ws.join("a.wav"), wav).expect("write");
    fs::write(ws.join("a.pdf"), b"%PDF-1.7\n\xff").expect("write");
    let (png_said, wav_said) = ("iVBORw0KGgoAAAANSUhEUv//", "UklGRiQAAABXQVZFZm10IP//");
    at_both(&http, |client| {
        client.begin(VERSIONS[3], &json!({}));
        let block = |kind: &str, media: &str, data: &str| json!({"type": kind, "mimeType": media, "data": data});
        let ran = client.call(1, "run_command", &json!({"argv": ["cat", "a.png"]}));
        assert_eq!(ran["content"][0], block("image", "image/png", png_said), "{ran}");
        assert_eq!(ran["content"][1]["text"], json!("[image/png]\n"), "{ran}");
        assert!(!ran["structuredContent"].to_string().contains(png_said), "once is enough");
        let read = client.call(2, "read_file", &json!({"path": "a.wav", "encoding": "base64"}));
        assert_eq!(read["content"][0], block("audio", "audio/wav", wav_said), "{read}");
        let said = read["content"][1]["text"].as_str().expect("text");
        assert!(said.contains("a.wav") && !said.contains(wav_said), "{said}");
        let about = &read["structuredContent"];
        assert_eq!(
            (&about["media_type"], &about["encoding"]),
            (&json!("audio/wav"), &json!("binary"))
        );
        assert!(!about.to_string().contains(wav_said), "{read}");
        let listed = client.result(9, "tools/list", &json!({}));
        let held = |name: &str, given: &Value| {
            let tools = listed["tools"].as_array().expect("tools");
            let tool = tools.iter().find(|tool| tool["name"] == json!(name)).expect("listed");
            let gives = jsonschema::validator_for(&tool["outputSchema"]).expect("a schema");
            assert!(gives.is_valid(given), "{given}");
        };
        held("run_command", &ran["structuredContent"]);
        held("read_file", about);
        // What is no whole picture, and what else is no text, is as it was.
        for (id, tool, input) in [
            (3, "read_file", json!({"path": "a.pdf", "encoding": "base64"})),
            (4, "read_file", json!({"path": "a.png"})),
            (5, "read_file", json!({"path": "a.png", "encoding": "base64", "start_byte": 4})),
            (6, "run_command", json!({"argv": ["cat", "a.pdf"]})),
        ] {
            let seen = client.call(id, tool, &input);
            assert_eq!(seen["content"][0]["type"], json!("text"), "{seen}");
        }
    });
}

#[test]
fn the_other_names_are_taken_with_their_own_members_and_not_listed() {
    let http = server();
    fs::create_dir(http.server.ws().join("src")).expect("mkdir");
    at_both(&http, |client| {
        client.begin(VERSIONS[3], &json!({}));
        let calls = [
            (
                "write",
                json!({"path": "src/a.txt", "content": "one\ntwo\n"}),
                "path",
                json!("src/a.txt"),
            ),
            (
                "read",
                json!({"path": "src/a.txt", "startLine": 2, "endLine": 2}),
                "content",
                json!("two\n"),
            ),
            (
                "edit",
                json!({"path": "src/a.txt", "findText": "two", "replaceText": "six", "replaceAll": true}),
                "replacements",
                json!(1),
            ),
            (
                "search",
                json!({"pattern": "*.TXT", "caseSensitive": true, "maxResults": 3}),
                "truncated",
                json!(false),
            ),
            ("list_dir", json!({"path": "src"}), "has_more", json!(false)),
            (
                "command",
                json!({"command": "pwd | tail -c 4", "workingDirectory": "src"}),
                "stdout",
                json!("src\n"),
            ),
            (
                "execute_command",
                json!({"command": "cat src/a.txt", "timeout": 9000}),
                "stdout",
                json!("one\nsix\n"),
            ),
            ("run_command", json!({"command": "echo a | tr a b"}), "stdout", json!("b\n")),
        ];
        for (id, (name, input, member, value)) in (1..).zip(calls) {
            let seen = client.call(id, name, &input);
            assert_eq!(seen["isError"], json!(false), "{name}: {seen}");
            assert_eq!(seen["structuredContent"][member], value, "{name}: {seen}");
        }
        let listed = client.result(20, "tools/list", &json!({}));
        let listed = listed["tools"].as_array().expect("tools");
        let names = ["write", "read", "edit", "search", "list_dir", "command", "execute_command"];
        assert!(!listed.iter().any(|tool| names.iter().any(|name| tool["name"] == json!(name))));
    });
}

#[test]
fn files_of_the_workspace_are_resources_by_the_rules_of_the_tools() {
    let http = server();
    let ws = http.server.ws();
    fs::create_dir_all(ws.join("src/deep")).expect("mkdir");
    fs::write(ws.join(".gitignore"), "target\n").expect("write");
    fs::create_dir(ws.join("target")).expect("mkdir");
    fs::write(ws.join("target/made"), "x").expect("write");
    fs::write(ws.join("blob"), [0, 159, 146, 150]).expect("write");
    fs::write(ws.join("src/a b.txt"), "text\n").expect("write");
    fs::write(ws.join("long"), "0123456789abcde\n".repeat(70_000)).expect("write");
    for number in 0..600 {
        fs::write(ws.join(format!("src/deep/{number}")), "x").expect("write");
    }
    let root = format!("file://{}", ws.display());
    at_both(&http, |client| {
        client.begin(VERSIONS[3], &json!({}));
        let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let mut params = json!({});
            if !cursor.is_null() {
                params["cursor"] = cursor.clone();
            }
            let page = client.result(1 + pages, "resources/list", &params);
            let all = page["resources"].as_array().expect("a list").clone();
            found.extend(all.iter().map(|one| one["uri"].as_str().expect("a URI").to_owned()));
            pages += 1;
            match page.get("nextCursor") {
                Some(next) => cursor = next.clone(),
                None => break,
            }
        }
        assert!(pages > 1 && found.len() == 603, "{pages} pages, {} files", found.len());
        assert!(found.contains(&format!("{root}/src/a%20b.txt")));
        assert!(!found.iter().any(|uri| uri.contains("target")), "what .gitignore names");
        let bad = client.ask(50, "resources/list", &json!({"cursor": "no"}));
        assert_eq!(bad["error"]["code"], json!(-32602), "{bad}");
        let templates = client.result(51, "resources/templates/list", &json!({}));
        let template = &templates["resourceTemplates"][0]["uriTemplate"];
        assert_eq!(template, &json!(format!("{root}/{{+path}}")));

        let mut id = 60;
        let mut read = |uri: &str| {
            id += 1;
            client.ask(id, "resources/read", &json!({"uri": uri}))
        };
        let text = read(&format!("{root}/src/a%20b.txt"));
        assert_eq!(text["result"]["contents"][0]["text"], json!("text\n"), "{text}");
        let blob = read(&format!("{root}/blob"));
        assert_eq!(blob["result"]["contents"][0]["blob"], json!("AJ+Slg=="), "{blob}");
        let long = read(&format!("{root}/long"));
        assert!(long["error"]["message"].to_string().contains("read_file"), "{long}");
        for none in [
            format!("{root}/no"),
            format!("{root}/../../etc/passwd"),
            "file:///etc/passwd".to_owned(),
            "file:///no/such".to_owned(),
            "http://h/".to_owned(),
        ] {
            assert_eq!(read(&none)["error"]["code"], json!(-32002), "{none}");
        }
    });
    let trail = run(&mut http.server.verb(&["audit", "--json"]), b"").out();
    assert!(trail.contains("read_file") && trail.contains("list_directory"), "{trail}");
}

#[test]
fn a_clients_root_is_where_its_calls_run_that_name_no_directory() {
    let http = server();
    let ws = http.server.ws();
    fs::create_dir(ws.join("app")).expect("mkdir");
    let called = |root: &str, tool: &str, input: &Value| {
        let mut client = Pipe::start(&http.server);
        client.begin(VERSIONS[3], &json!({"roots": {"listChanged": true}}));
        let asked = client.next();
        assert_eq!(asked["method"], json!("roots/list"), "{asked}");
        let roots = json!({"roots": [{"uri": "file:///home/me"}, {"uri": root}]});
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": roots}));
        let seen = client.call(1, tool, input);
        seen["structuredContent"]["stdout"].as_str().expect("a directory").trim_end().to_owned()
    };
    let said = |root: &str, input: &Value| called(root, "run_command", input);
    let pwd = json!({"argv": ["pwd"]});
    let (workspace, app) = (ws.display().to_string(), ws.join("app").display().to_string());
    assert_eq!(said(&format!("file://{app}"), &pwd), app);
    assert_eq!(said(&format!("file://{app}"), &json!({"argv": ["pwd"], "cwd": "."})), workspace);
    // By whatever name it is called, with that name's fields.
    let line = json!({"command": "pwd"});
    for tool in ["run_shell", "run_command", "command", "execute_command"] {
        assert_eq!(called(&format!("file://{app}"), tool, &line), app, "{tool}");
    }
    let named = json!({"command": "pwd", "workingDirectory": "."});
    assert_eq!(called(&format!("file://{app}"), "command", &named), workspace);
    // Nothing is reached that way: what is outside, or is not there, is no root.
    for root in ["file:///etc", &format!("file://{workspace}/../x"), &format!("file://{app}/no")] {
        assert_eq!(said(root, &pwd), workspace, "{root}");
    }
}

#[test]
fn without_a_server_the_verb_says_so_in_one_line() {
    let setup = Setup::new();
    let outcome = run(&mut setup.verb(&["mcp"]), b"");
    assert_eq!(outcome.code(), Some(1));
    let said = outcome.err();
    assert!(said.contains("no server answers at") && said.lines().count() == 1, "{said}");
    assert_eq!(outcome.out(), "");
}

#[test]
fn a_session_on_standard_output_survives_its_server() {
    let http = server();
    let mut client = Pipe::start(&http.server);
    client.begin(VERSIONS[3], &json!({}));
    let Http { server, .. } = http;
    let setup = server.stop(nix::sys::signal::Signal::SIGTERM);
    let gone = client.ask(1, "tools/call", &json!({"name": "echo", "arguments": {}}));
    assert!(gone["error"]["message"].to_string().contains("no server answers"), "{gone}");
    let server = tool_broker_tests::Server::start_in(setup);
    let said = client.call(2, "echo", &json!({"args": ["again"]}));
    assert_eq!(said["structuredContent"]["stdout"], json!("again\n"), "{said}");
    drop(server);
}

//! Tools by HTTP: by their names, as it happens, and as the two earlier tool servers had them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tool_broker_tests::http::{ALICE, Http, answer};
use tool_broker_tests::{Setup, eventually, eventually_some, project, run};

fn prepared(s: &mut Setup) {
    s.file("ws/package.json", "{\"name\":\"demo\"}\n", 0o644);
    s.file("ws/src/main.rs", "fn main() {\n    old();\n}\n", 0o644);
}

/// The lines as they were written for that server, and what comes of them.
#[track_caller]
fn curl(http: &Http, body: &str) -> Value {
    let line = format!(
        "curl -X POST http://localhost:3001/api/test-tool \\\n  \
         -H \"Content-Type: application/json\" \\\n  -d '{body}'\n"
    );
    serde_json::from_str(&http.bash(&line).success()).expect("JSON")
}

#[test]
fn the_second_servers_curl_lines_run_as_they_stand() {
    let http = Http::open_to_all(prepared);
    assert_eq!(
        curl(&http, r#"{"name":"read_file","input":{"path":"package.json"}}"#),
        json!({"success": true, "result": {
            "path": "package.json", "content": "{\"name\":\"demo\"}\n"}})
    );
    assert_eq!(
        curl(&http, r#"{"name":"write_file","input":{"path":"test.txt","content":"hello"}}"#),
        json!({"success": true, "result": {"path": "test.txt", "status": "ok"}})
    );
    assert_eq!(fs::read_to_string(http.server.ws().join("test.txt")).expect("written"), "hello");
    let listed = curl(&http, r#"{"name":"list_dir","input":{"path":"."}}"#);
    assert_eq!(listed["success"], json!(true), "{listed}");
    let mut entries = listed["result"].as_array().expect("a list").clone();
    entries.sort_by_key(|entry| entry["name"].to_string());
    assert_eq!(
        Value::Array(entries),
        json!([
            {"name": "package.json", "type": "file"},
            {"name": "src", "type": "dir"},
            {"name": "test.txt", "type": "file"},
        ])
    );
    assert_eq!(
        curl(&http, r#"{"name":"run_shell","input":{"command":"echo test"}}"#),
        json!({"success": true, "result": {
            "command": "echo test", "cwd": ".", "stdout": "test\n", "stderr": "", "exitCode": 0}})
    );
    for body in [
        r#"{"name":"read_file","input":{"path":"../../../etc/passwd"}}"#,
        r#"{"name":"run_shell","input":{"command":"rm -rf /"}}"#,
    ] {
        let refused = curl(&http, body);
        assert_eq!(refused["success"], json!(false), "{refused}");
        assert!(refused["error"].is_string() && refused.get("result").is_none(), "{refused}");
        assert!(!refused.to_string().contains("root:"), "{refused}");
    }
    assert_eq!(curl(&http, r#"{"name":"no_such","input":{}}"#), json!({"error": "Tool not found"}));
    assert_eq!(curl(&http, r#"{"input":{}}"#), json!({"error": "Tool not found"}));
}

#[test]
fn the_second_servers_route_says_what_is_no_text_and_what_is_more() {
    let http = Http::with_tokens(prepared);
    let asked = json!({"name": "run_shell", "input": {"command": "printf '\\377'"}});
    let (_, seen) = http.post("/api/test-tool", &asked);
    let result = &seen["result"];
    assert_eq!((&result["stdout"], &result["stdoutEncoding"]), (&json!("/w=="), &json!("base64")));
    assert_eq!(result.get("stderrEncoding"), None, "{seen}");
    fs::write(http.server.ws().join("long"), vec![b'x'; (1 << 20) + 1]).expect("write");
    let asked = json!({"name": "read_file", "input": {"path": "long"}});
    let (_, seen) = http.post("/api/test-tool", &asked);
    let result = &seen["result"];
    assert_eq!((&result["truncated"], &result["next_byte"]), (&json!(true), &json!(1 << 20)));
}

/// With the very port, where nobody has it: seed and curl know no other.
#[test]
fn without_a_port_it_is_3001_of_this_machine_alone() {
    let mut setup = Setup::new();
    setup.flag("--insecure-no-auth");
    let said = run(&mut setup.verb(&["config"]), b"").success();
    assert!(said.contains("http.listen = \"127.0.0.1:3001\""), "{said}");
    let off = run(&mut Setup::new().verb(&["config"]), b"").success();
    assert!(off.contains("# http.listen is unset"), "{off}");
}

#[test]
fn every_tool_is_called_by_its_name() {
    let http = Http::with_tokens(|s| {
        prepared(s);
        s.tool("greet", "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
    });
    let (status, seen) = http.post("/tools/read_file", &json!({"path": "package.json"}));
    assert_eq!((status, &seen["success"], &seen["tool"]), (200, &json!(true), &json!("read_file")));
    assert_eq!(seen["output"]["content"], json!("{\"name\":\"demo\"}\n"));
    assert!(seen["error"].is_null() && seen["duration_ms"].is_u64(), "{seen}");
    let (status, seen) = http.post("/tools/greet", &json!({"args": ["a", "b c"]}));
    assert_eq!((status, &seen["output"]["stdout"]), (200, &json!("a b c\n")), "{seen}");
    // By another name, with its fields.
    let (status, seen) =
        http.post("/tools/read", &json!({"path": "src/main.rs", "startLine": 2, "endLine": 2}));
    assert_eq!((status, &seen["tool"]), (200, &json!("read_file")), "{seen}");
    assert_eq!(seen["output"]["content"], json!("    old();\n"), "{seen}");
    for (tool, input, wanted, code) in [
        ("read_file", json!({"path": "nothing"}), 404, "FILE_NOT_FOUND"),
        ("read_file", json!({"path": "/etc/passwd"}), 403, "PATH_OUTSIDE_WORKSPACE"),
        ("read_file", json!({"path": "src"}), 400, "NOT_A_FILE"),
        ("read_file", json!({"zzz": 1}), 400, "INVALID_INPUT"),
        (
            "edit_file",
            json!({"path": "src/main.rs", "old_text": "no", "new_text": ""}),
            422,
            "TEXT_NOT_FOUND",
        ),
        (
            "write_file",
            json!({"path": "package.json", "content": "", "create_only": true}),
            409,
            "ALREADY_EXISTS",
        ),
        ("no_such", json!({}), 404, "UNKNOWN_TOOL"),
        ("run_shell", json!({"command": "rm -rf /"}), 403, "DENIED"),
    ] {
        let (status, seen) = http.post(&format!("/tools/{tool}"), &input);
        assert_eq!(
            (status, &seen["error"]["code"]),
            (wanted, &json!(code)),
            "{tool} {input}: {seen}"
        );
        assert_eq!((&seen["success"], &seen["output"]), (&json!(false), &Value::Null), "{seen}");
    }
    for body in ["", "[]", "{", "null", "{\"path\":\"a\",\"path\":\"b\"}"] {
        let answer = http.ask("POST /tools/read_file", "Content-Type: application/json\n", "");
        assert_eq!(answer.status, 400, "{answer:?}");
        if !body.is_empty() {
            let answer = http.ask("POST /tools/read_file", "", body);
            assert_eq!(answer.status, 400, "{body}: {answer:?}");
        }
    }
}

#[test]
fn the_list_has_the_forms_that_models_take() {
    let http = Http::with_tokens(|s| s.tool("greet", "binary = \"/bin/echo\"\n"));
    let (status, own) = http.get("/tools");
    assert_eq!(status, 200);
    let own = own["tools"].as_array().expect("a list").clone();
    let names: Vec<&str> = own.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in [
        "edit_file",
        "greet",
        "list_directory",
        "read_file",
        "run_command",
        "run_shell",
        "search_files",
        "sh",
        "write_file",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let (_, one) = http.get("/tools/read_file");
    assert!(own.contains(&one), "{one}");
    assert_eq!(one["hints"]["read_only"], json!(true), "{one}");
    assert!(one["input_schema"]["properties"]["path"]["description"].is_string(), "{one}");
    let list = |query: &str| match http.get(&format!("/tools?{query}")) {
        (200, Value::Array(list)) => list,
        other => panic!("{query}: {other:?}"),
    };
    assert_eq!(list("format=anthropic").len(), names.len());
    assert!(list("format=anthropic").iter().all(|tool| tool["input_schema"].is_object()));
    assert!(list("format=openai").iter().all(|tool| tool["function"]["parameters"].is_object()));
    assert!(list("format=mcp").iter().all(|tool| tool["annotations"]["readOnlyHint"].is_boolean()));
    let small = list("format=ollama");
    assert_eq!(small.len(), 5, "a small model gets five: {small:?}");
    assert_eq!(list("format=ollama&set=all").len(), names.len());
    assert_eq!(list("format=openai&set=small"), small);
    for query in ["format=yaml", "set=some", "zzz=1", "format"] {
        assert_eq!(http.get(&format!("/tools?{query}")).0, 400, "{query}");
    }
    assert_eq!(http.get("/tools/no_such").0, 404);
    // On the command line they are the same.
    let verb = |words: &[&str]| run(&mut http.server.verb(words), b"").success();
    let said: Value = serde_json::from_str(&verb(&["tools", "--format", "ollama"])).expect("JSON");
    assert_eq!(said, Value::Array(small.clone()));
    let said: Value =
        serde_json::from_str(&verb(&["tools", "--format", "mcp", "--set", "all"])).expect("JSON");
    assert_eq!(said, Value::Array(list("format=mcp")));
}

/// Names of members and words of JSON Schema that models' servers do not all take.
fn long_winded(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.iter().any(|(name, value)| match name.as_str() {
            "type" if value.is_array() => true,
            "title" => value.is_string(),
            "description" => value.as_str().is_some_and(|about| about.contains('\n')),
            "default" => value.is_null(),
            "oneOf" => true,
            _ => long_winded(value),
        }),
        Value::Array(list) => list.iter().any(long_winded),
        _ => false,
    }
}

#[test]
fn definitions_for_models_are_short_and_take_what_the_whole_schema_takes() {
    let http = Http::with_tokens(prepared);
    let (_, all) = http.get("/tools");
    let (_, short) = http.get("/tools?format=anthropic");
    let all = all["tools"].as_array().expect("a list");
    assert!(all.iter().any(|tool| long_winded(&tool["input_schema"])), "nothing to leave out");
    for (whole, short) in all.iter().zip(short.as_array().expect("a list")) {
        assert_eq!(whole["name"], short["name"]);
        assert!(!long_winded(&short["input_schema"]), "{short}");
        let names = |schema: &Value| {
            let fields = schema["properties"].as_object().expect("members");
            fields.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&whole["input_schema"]), names(&short["input_schema"]));
        assert_eq!(whole["input_schema"]["required"], short["input_schema"]["required"]);
    }
    let of = |name: &str| all.iter().position(|tool| tool["name"] == name).expect("a tool");
    let search = &short[of("search_files")]["input_schema"]["properties"];
    assert_eq!(search["type"]["enum"], json!(["glob", "regex", "exact", "literal"]), "{search}");
    assert_eq!(search["max_results"]["type"], json!("integer"), "{search}");
}

#[test]
fn what_a_schema_refuses_its_tool_refuses_and_what_a_tool_gives_it_allows() {
    let http = Http::with_tokens(prepared);
    let (_, all) = http.get("/tools");
    let schema = |name: &str, which: &str| {
        let all = all["tools"].as_array().expect("a list");
        let tool = all.iter().find(|tool| tool["name"] == name).expect("a tool");
        jsonschema::validator_for(&tool[which]).expect("a schema")
    };
    for (tool, input) in [
        ("read_file", json!({"path": "package.json", "start_line": 0})),
        ("list_directory", json!({"depth": 0})),
        ("list_directory", json!({"limit": 0})),
        ("list_directory", json!({"limit": 10_001})),
        ("search_files", json!({"pattern": ""})),
        ("search_files", json!({"pattern": "x", "max_results": 0})),
        ("search_files", json!({"pattern": "x", "max_results": 10_001})),
        ("search_files", json!({"pattern": "x", "context": 101})),
        ("edit_file", json!({"path": "package.json", "edits": []})),
        ("run_command", json!({"argv": []})),
        ("run_command", json!({"argv": ["true"], "timeout_ms": 0})),
        ("run_shell", json!({"command": ""})),
    ] {
        assert!(!schema(tool, "input_schema").is_valid(&input), "{tool}: {input}");
        let (status, seen) = http.post(&format!("/tools/{tool}"), &input);
        assert_eq!(status, 400, "{tool}: {input}: {seen}");
    }
    let template = json!({"target": "t", "files": [{"path": "{{n}}", "content": "x"}],
        "variables": {"n": "a"}});
    for (tool, input) in [
        ("inject_template", template),
        ("dev_server_start", json!({"argv": ["sleep", "1000"], "env": {"FOO": "1"}})),
        ("dev_server_status", json!({})),
        ("dev_server_logs", json!({})),
        ("dev_server_stop", json!({})),
        ("read_file", json!({"path": "package.json", "line_numbers": true})),
        ("edit_file", json!({"path": "t/a", "old_text": "x", "new_text": "y", "backup": true})),
    ] {
        assert!(schema(tool, "input_schema").is_valid(&input), "{tool}: {input}");
        let (status, seen) = http.post(&format!("/tools/{tool}"), &input);
        assert_eq!(status, 200, "{tool}: {seen}");
        if let Err(error) = schema(tool, "output_schema").validate(&seen["output"]) {
            panic!("{tool}: {error}: {seen}");
        }
    }
    let answer = http.ask("POST /tools/dev_server_status", "", " ");
    let seen = answer.json();
    assert_eq!(answer.status, 400, "{seen}");
    let message = seen["error"]["message"].as_str().expect("a message");
    assert!(message.contains("empty: give {}"), "{message}");
}

#[test]
fn a_call_is_told_as_it_happens() {
    let http = Http::with_tokens(|_| {});
    // It goes on when the first piece has come.
    let line = r#"set -o pipefail; curl -sSN $URL/tools/sh -H "Authorization: Bearer $TOKEN" \
        -H 'Content-Type: application/json' -H 'Accept: text/event-stream' \
        -d '{"args":["-c","echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2; exit 3"]}' |
        while IFS= read -r said; do
            printf '%s\n' "$said"
            case $said in data:*one*) : >GO ;; esac
        done"#;
    let go = http.server.ws().join("go").display().to_string();
    let said = http.bash(&line.replace("GO", &go)).success();
    let events: Vec<(&str, Value)> = said
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("event: ")?.split_once("\ndata: "))
        .map(|(name, data)| (name, serde_json::from_str(data).expect("JSON")))
        .collect();
    assert_eq!(
        events[0],
        ("piece", json!({"stream": "stdout", "text": "one\n", "encoding": "utf-8"}))
    );
    assert_eq!(
        events[1],
        ("piece", json!({"stream": "stderr", "text": "two\n", "encoding": "utf-8"}))
    );
    let (name, last) = events.last().expect("events");
    assert_eq!((*name, events.len()), ("result", 3), "{said}");
    assert_eq!((&last["success"], &last["output"]["exit_code"]), (&json!(true), &json!(3)));
}

#[test]
fn a_call_that_waits_for_a_person_says_so() {
    let http = Http::with_tokens(|s| s.tool("say", "binary = \"/bin/echo\"\ndefault = \"ask\"\n"));
    let head = format!("Authorization: Bearer {ALICE}\nAccept: text/event-stream\n");
    let text = http.request("POST /tools/say", &head, &json!({"args": ["x"]}).to_string());
    let mut stream = http.dial();
    std::io::Write::write_all(&mut stream, text.as_bytes()).expect("send");
    let id = eventually_some("a question waits", || {
        let answer = http.server.control().call(&json!({"op": "approvals"}));
        Some(answer["waiting"][0]["id"].as_str()?.to_owned())
    });
    run(&mut http.server.verb(&["approve", &id]), b"").success();
    let told = answer(stream).body;
    let (notice, result) = (told.find("event: notice"), told.find("event: result"));
    assert!(notice.is_some() && notice < result && told.contains(&id), "{told}");
    assert!(told.contains("\"stdout\":\"x\\n\""), "{told}");
}

#[test]
fn the_first_servers_routes_have_its_shapes() {
    let http = Http::with_tokens(prepared);
    let (status, found) = http.post(
        "/search",
        &json!({"pattern": "*.rs", "type": "glob", "maxResults": 5, "caseSensitive": true}),
    );
    assert_eq!(
        (status, &found["success"], &found["totalFound"]),
        (200, &json!(true), &json!(1)),
        "{found}"
    );
    assert!(found["executionTime"].is_u64(), "{found}");
    let one = &found["results"][0];
    assert_eq!(one["path"], json!(http.server.ws().join("src/main.rs")), "{found}");
    assert_eq!((&one["size"], one["lastModified"].is_string()), (&json!(25), true), "{found}");
    assert_eq!(found["skipped"]["ignoreFiles"], json!(0), "in camelCase however deep: {found}");

    let (status, read) = http.post("/read", &json!({"path": "src/main.rs"}));
    assert_eq!((status, &read["success"]), (200, &json!(true)), "{read}");
    assert_eq!(read["content"], json!("fn main() {\n    old();\n}\n"));
    for (name, value) in
        [("size", json!(25)), ("encoding", json!("utf-8")), ("lineCount", json!(3))]
    {
        assert_eq!(read[name], value, "{name}: {read}");
    }
    let changed = read["lastModified"].as_str().expect("a time");
    assert!(changed.contains('T') && changed.ends_with('Z'), "{changed}");

    let (status, ran) = http.post("/command", &json!({"command": "echo out | tr o O"}));
    assert_eq!(
        (status, &ran["success"], &ran["stdout"]),
        (200, &json!(true), &json!("Out\n")),
        "{ran}"
    );
    assert_eq!(
        (&ran["stderr"], &ran["exitCode"], &ran["timedOut"]),
        (&json!(""), &json!(0), &json!(false))
    );
    let (status, ran) = http.post("/command", &json!({"command": "sleep 60", "timeout": 200}));
    assert_eq!(
        (status, &ran["success"], &ran["timedOut"]),
        (200, &json!(false), &json!(true)),
        "{ran}"
    );

    let edit = json!({"path": "src/main.rs", "findText": "old()", "replaceText": "new()"});
    let (status, edited) = http.post("/edit", &edit);
    assert_eq!(
        (status, &edited["success"], &edited["replacements"]),
        (200, &json!(true), &json!(1)),
        "{edited}"
    );
    assert_eq!((&edited["sizeBefore"], &edited["sizeAfter"]), (&json!(25), &json!(25)), "{edited}");
    assert!(edited["linesChanged"].is_u64() && edited["lastModified"].is_string(), "{edited}");
    assert_eq!(
        fs::read_to_string(http.server.ws().join("src/main.rs")).expect("text"),
        "fn main() {\n    new();\n}\n"
    );
}

const OUTSIDE: &str = "PATH_OUTSIDE_WORKSPACE";

#[test]
fn the_first_servers_routes_have_its_errors_and_status_codes() {
    let http = Http::with_tokens(prepared);
    let (_, wrong) =
        http.post("/search", &json!({"pattern": "*", "type": "glob", "maxResults": "3"}));
    let message = wrong["error"].as_str().expect("a message");
    assert!(message.contains(" maxResults: invalid type"), "by its name here: {message}");
    for (path, body, wanted, code) in [
        ("/search", json!({"type": "glob"}), 400, "INVALID_INPUT"),
        ("/search", json!({"pattern": "", "type": "glob"}), 400, "INVALID_INPUT"),
        ("/search", json!({"pattern": "*"}), 400, "INVALID_INPUT"),
        ("/search", json!({"pattern": "*", "type": "fuzzy"}), 400, "INVALID_INPUT"),
        (
            "/search",
            json!({"pattern": "*", "type": "glob", "maxResults": "many"}),
            400,
            "INVALID_INPUT",
        ),
        ("/search", json!({"pattern": "(", "type": "regex"}), 400, "INVALID_PATTERN"),
        ("/read", json!({}), 400, "INVALID_INPUT"),
        ("/read", json!({"path": 7}), 400, "INVALID_INPUT"),
        ("/read", json!({"path": "no/such"}), 404, "FILE_NOT_FOUND"),
        ("/read", json!({"path": "../../etc/passwd"}), 403, "PATH_OUTSIDE_WORKSPACE"),
        ("/read", json!({"path": "src"}), 400, "NOT_A_FILE"),
        ("/command", json!({"command": ""}), 400, "INVALID_INPUT"),
        ("/command", json!({"command": "rm -rf /"}), 403, "DENIED"),
        ("/command", json!({"command": "pwd", "workingDirectory": "/etc"}), 403, OUTSIDE),
        ("/edit", json!({"path": "package.json", "findText": "demo"}), 400, "INVALID_INPUT"),
        (
            "/edit",
            json!({"path": "package.json", "findText": "", "replaceText": "x"}),
            400,
            "INVALID_INPUT",
        ),
        (
            "/edit",
            json!({"path": "package.json", "findText": "no", "replaceText": ""}),
            400,
            "TEXT_NOT_FOUND",
        ),
        (
            "/edit",
            json!({"path": "package.json", "findText": "no", "replaceText": "", "replaceAll": 1}),
            400,
            "INVALID_INPUT",
        ),
        (
            "/edit",
            json!({"path": "nothing", "findText": "a", "replaceText": "b"}),
            404,
            "FILE_NOT_FOUND",
        ),
        ("/container-operation", json!({}), 400, "INVALID_INPUT"),
        ("/container-operation", json!({"operation": "rm -rf"}), 400, "INVALID_INPUT"),
        (
            "/container-operation",
            json!({"operation": "read_file", "path": "package.json"}),
            400,
            "INVALID_INPUT",
        ),
    ] {
        let (status, told) = http.post(path, &body);
        assert_eq!((status, &told["code"]), (wanted, &json!(code)), "{path} {body}: {told}");
        assert_eq!(told["success"], json!(false), "{told}");
        assert!(told["error"].as_str().is_some_and(|error| !error.is_empty()), "{told}");
        let details = &told["details"];
        assert_eq!(
            (&details["path"], &details["method"]),
            (&json!(path), &json!("POST")),
            "{told}"
        );
        assert!(details["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{told}");
    }
    let answer = http.ask("GET /read", "", "");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("post")), "{answer:?}");
    assert_eq!(answer.json()["details"]["method"], json!("GET"));
    assert_eq!(http.ask("POST /read", "", "{nonsense").status, 400);
}

#[test]
fn health_tells_nothing_but_that_and_which_version() {
    let http = Http::with_tokens(|_| {});
    let answer = http.raw(http.request("GET /health", "", "").as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"ok": true, "version": env!("CARGO_PKG_VERSION")}));
    let (status, nothing) = http.get("/no/such");
    assert_eq!((status, &nothing["error"]["code"]), (404, &json!("NOT_FOUND")));
    let page = http.ask("GET /", "", "");
    assert!(page.status == 200 && page.body.contains("<code>read_file</code>"), "{page:?}");
    let figures = http.ask("GET /metrics", "", "");
    assert!(figures.status == 200 && figures.body.contains("tool_server_"), "{figures:?}");
}

#[test]
fn each_token_is_a_client_of_its_own_in_the_audit() {
    let http = Http::with_tokens(prepared);
    http.post("/tools/read_file", &json!({"path": "package.json"}));
    let sockets = http.server.status()["sockets"].to_string();
    assert!(sockets.contains("http:alice") && sockets.contains("http:bob"), "{sockets}");
    eventually("it is in the audit", || {
        let said = run(&mut http.server.verb(&["audit", "--json"]), b"").out();
        said.lines().any(|line| line.contains("http:alice") && line.contains("read_file"))
    });
    assert!(!http.server.log().contains(ALICE), "a token in the log");
}

/// A server with no tools but its own.
fn bare() -> Http {
    Http::open_to_all(|s| fs::remove_dir_all(s.path("tools.d/sh")).expect("rm"))
}

#[test]
fn a_server_without_tools_d_has_its_own_tools() {
    let (status, list) = bare().get("/tools?format=mcp&set=small");
    assert_eq!((status, list.as_array().map(Vec::len)), (200, Some(5)), "{list}");
}

#[test]
fn the_document_is_the_one_that_the_docs_have() {
    let text = fs::read_to_string(project().join("docs/openapi.json")).expect("the document");
    let mut written: Value = serde_json::from_str(&text).expect("JSON");
    let (status, mut given) = bare().get("/openapi.json");
    // The version is not worth a new document.
    for document in [&mut written, &mut given] {
        document["info"]["version"] = Value::Null;
    }
    assert_eq!(status, 200);
    assert!(written == given, "docs/openapi.json is another one: run tests/http/types.sh");
}

/// That every route is there, a test of the table says; here, by which methods.
#[test]
fn the_document_has_every_route_by_every_method() {
    let http = Http::with_tokens(prepared);
    let (_, document) = http.get("/openapi.json");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 20, "{document}");
    for (path, methods) in paths {
        let said = methods.as_object().expect("methods").keys().map(|name| name.to_uppercase());
        let said: BTreeSet<String> = said.collect();
        let answer = http.ask(&format!("PATCH {path}"), "", "");
        assert_eq!(answer.status, 405, "{path}: {answer:?}");
        let allowed = answer.header("allow").unwrap_or_default().to_uppercase();
        let allowed = allowed.split(',').map(|name| name.trim().to_owned());
        let allowed: BTreeSet<String> = allowed.filter(|name| name != "HEAD").collect();
        assert_eq!(said, allowed, "{path}");
    }
}

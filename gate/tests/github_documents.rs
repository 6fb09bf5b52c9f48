//! GraphQL documents: what is understood of them, what is refused, what is sent.

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

use serde_json::Value;
use tool_gate::adapter::github::document::DocumentError;
use tool_gate::adapter::github::graphql::{self, Asked, BodyError};

fn body(query: &str) -> Vec<u8> {
    serde_json::json!({ "query": query }).to_string().into_bytes()
}

fn read(query: &str) -> Asked {
    graphql::read(&body(query)).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn refused(body: impl AsRef<[u8]>) -> BodyError {
    match graphql::read(body.as_ref()) {
        Ok(asked) => panic!("{asked:?}"),
        Err(error) => error,
    }
}

fn sent(asked: &Asked) -> String {
    let body: Value = serde_json::from_slice(&asked.body()).unwrap();
    body["query"].as_str().unwrap().to_owned()
}

#[test]
fn an_alias_does_not_hide_a_field() {
    let asked = read("mutation { viewer: deleteRepository(input: {id: 1}) { clientMutationId } }");
    assert_eq!(asked.kind(), "mutation");
    assert_eq!(asked.fields(), ["deleteRepository"]);
}

#[test]
fn a_fragment_does_not_hide_a_field() {
    for query in [
        "mutation { ...F } fragment F on Mutation { deleteRepository(input: {}) { x } }",
        "fragment F on Mutation { ...G } mutation { ...F } fragment G on Mutation { deleteRepository { x } }",
        "mutation { ... on Mutation { ... @include(if: true) { deleteRepository { x } } } }",
        "mutation { ...F ...F } fragment F on Mutation { ...F deleteRepository { x } }",
    ] {
        assert_eq!(read(query).fields(), ["deleteRepository"], "{query}");
    }
}

#[test]
fn a_directive_does_not_hide_a_field() {
    let asked = read(
        "mutation($y: Boolean!) { addComment { x } deleteRepository @skip(if: $y) { x } \
                      ...F @include(if: false) } fragment F on Mutation { closeIssue { x } }",
    );
    assert_eq!(asked.fields(), ["addComment", "closeIssue", "deleteRepository"]);
}

#[test]
fn strings_and_comments_are_not_operations() {
    let asked = read(
        "# mutation { deleteRepository }\n{ search(query: \"mutation { deleteIssue }\") \
                      { x } node(id: \"\"\"\n } mutation { x \\\"\"\" # \n\"\"\") { id } }",
    );
    assert_eq!((asked.kind(), asked.fields()), ("query", vec!["node", "search"]));
    let text = sent(&asked);
    assert!(!text.contains('#') || text.contains("\"} mutation { x \\\"\\\"\\\" # "), "{text}");
    assert!(!text.contains("\"\"\""), "{text}");
}

#[test]
fn a_carriage_return_ends_a_comment() {
    let two = "query A { a } # \r mutation B { deleteRepository { x } }";
    assert_eq!(refused(body(two)), BodyError::Document(DocumentError::Ambiguous));
}

#[test]
fn of_several_operations_the_named_one_is_meant_and_sent_alone() {
    let two = "query A { viewer { login } } mutation B { deleteRepository(input: {}) { x } }";
    assert_eq!(refused(body(two)), BodyError::Document(DocumentError::Ambiguous));
    let named = |name: &str| {
        serde_json::json!({ "query": two, "operationName": name }).to_string().into_bytes()
    };
    let asked = graphql::read(&named("A")).unwrap();
    assert_eq!((asked.kind(), asked.fields()), ("query", vec!["viewer"]));
    assert!(!sent(&asked).contains("deleteRepository"));
    let asked = graphql::read(&named("B")).unwrap();
    assert_eq!((asked.kind(), asked.fields()), ("mutation", vec!["deleteRepository"]));
    assert_eq!(refused(named("C")), BodyError::Document(DocumentError::NoOperation));
    assert_eq!(refused(named("")), BodyError::Member("operationName".to_owned()));
    let same = body("query A { a } mutation A { b }");
    assert_eq!(refused(same), BodyError::Document(DocumentError::Twice("A".to_owned())));
    let nameless = body("{ a } mutation B { b }");
    assert_eq!(refused(nameless), BodyError::Document(DocumentError::Ambiguous));
    // A name for the one that has none.
    let one = serde_json::json!({ "query": "{ a }", "operationName": "A" }).to_string();
    assert_eq!(refused(one), BodyError::Document(DocumentError::NoOperation));
}

#[test]
fn bodies_that_may_be_read_twice_are_refused() {
    for text in [
        r#"{"query":"{ a }","query":"mutation { b }"}"#,
        r#"{"query":"{ a }","qu\u0065ry":"mutation { b }"}"#,
        r#"{"query":"{ a }","variables":{"a":1,"a":2}}"#,
        r#"{"query":"{ a }"} {"query":"mutation { b }"}"#,
        r#"{"query":"{ a }",}"#,
        "{'query':'{ a }'}",
        r#"{"query":"{ a }" /* , */ }"#,
        "query={ a }",
        "",
    ] {
        assert_eq!(refused(text), BodyError::Json, "{text}");
    }
    let bom = [b"\xef\xbb\xbf".as_slice(), &body("{ a }")].concat();
    assert_eq!(refused(bom), BodyError::Json);
    let wide: Vec<u8> = String::from_utf8(body("{ a }"))
        .unwrap()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(refused(wide), BodyError::Json);
    assert_eq!(refused(b"{\"query\":\"{ a \xff }\"}"), BodyError::Json);
    let deep = format!(
        r#"{{"query":"{{ a }}","variables":{{"a":{}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    assert_eq!(refused(deep), BodyError::Json);
}

#[test]
fn batches_and_documents_of_the_hosts_own_are_refused() {
    assert_eq!(refused(r#"[{"query":"{ a }"},{"query":"mutation { b }"}]"#), BodyError::NotOne);
    assert_eq!(refused(r#"{"variables":{}}"#), BodyError::NotOne);
    assert_eq!(refused("\"{ a }\""), BodyError::NotOne);
    for member in
        ["extensions", "id", "documentId", "doc_id", "queryId", "Query", "query ", "batch"]
    {
        let text = serde_json::json!({ "query": "{ a }", member: {"persistedQuery": {}} });
        assert_eq!(refused(text.to_string()), BodyError::Member(member.to_owned()));
    }
    for (member, value) in [
        ("query", "1"),
        ("query", "null"),
        ("operationName", "1"),
        ("variables", "[]"),
        ("variables", "\"{}\""),
    ] {
        let text = match member {
            "query" => format!(r#"{{"query":{value}}}"#),
            _ => format!(r#"{{"query":"{{ a }}","{member}":{value}}}"#),
        };
        assert_eq!(refused(text), BodyError::Member(member.to_owned()));
    }
}

#[test]
fn documents_that_are_no_plain_operations_are_refused() {
    for query in [
        "",
        "#",
        "query",
        "querymutation { a",
        "mutationX { a }",
        "queryX { a }",
        "type A { b: C }",
        "{ a } type A { b: C }",
        "extend type Mutation { a: Int } { a }",
        "{ a } schema { query: Q }",
        "subscription { a }",
        "query { }",
        "{ ...F }",
        "{ a } }",
        "{ a",
        "fragment F on Query { a }",
        "{ ...F } fragment F on Query { a } fragment F on Mutation { b }",
        "{ a(x: \"\\q\") }",
        "{ a \u{0} }",
        "{ a \u{7f} }",
        "{ \u{430} }",
        "mut\u{200b}ation { a }",
        "{ a(x: 01) }",
        "{ a: }",
        "{ a! }",
        "query A, mutation { b }",
    ] {
        let error = refused(body(query));
        assert!(matches!(error, BodyError::Document(_)), "{query}: {error}");
    }
}

#[test]
fn depth_and_length_have_bounds() {
    for query in [
        format!("{{ a(x: {}{}) }}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("query($a: {}Int{}) {{ a }}", "[".repeat(50_000), "]".repeat(50_000)),
        "{ a ".repeat(50_000),
        format!("{{ {} }}", "a ".repeat(100_000)),
        format!("{{ {} }}", (0..1000).map(|n| format!("a{n} ")).collect::<String>()),
    ] {
        assert!(matches!(refused(body(&query)), BodyError::Document(_)));
    }
    // A chain of fragments is followed without going down.
    let chain = |count: usize| {
        let link = |n| format!("fragment f{n} on Query {{...f{}}}", n + 1);
        let chain: String = (1..count).map(link).collect();
        format!("{{...f1}} {chain} fragment f{count} on Query {{ a }}")
    };
    assert_eq!(read(&chain(512)).fields(), ["a"]);
    let error = refused(body(&chain(513)));
    assert_eq!(error, BodyError::Document(DocumentError::Fragments));
}

#[test]
fn what_is_sent_means_the_same_and_reads_the_same() {
    for query in [
        "{viewer{login}}",
        "query Q($a:[Int!]!=[1,2],$b:In={c:\"d\",e:null,f:T}) @x(y:1.5e3) {z:a(b:$a,c:[true,$b]) @skip(if:false){...F,...on X{y}}} fragment F on Y @z{q}",
        "mutation { a(body: \"\"\"\n    one\n      two \"quoted\" \\\\ \n  \"\"\") { x } }",
        "{ a(x: \"\\u00e9\\uD83D\\uDE00 \\\" \\\\ \\/ \\b\\f\\n\\r\\t\") }",
        "\u{feff}{ a }",
    ] {
        let once = read(query);
        let again = graphql::read(&once.body()).unwrap();
        assert_eq!(once.operation.mutation, again.operation.mutation);
        assert_eq!(once.fields(), again.fields(), "{query}");
        assert_eq!(sent(&once), sent(&again), "{query}");
    }
    let asked =
        read("mutation { a(body: \"\"\"\n    one\n      two \"quoted\" \\\n  \"\"\") { x } }");
    assert_eq!(sent(&asked), r#"mutation { a ( body : "one\n  two \"quoted\" \\" ) { x } }"#);
}

#[test]
fn repositories_are_known_where_owner_and_name_are_given() {
    let show = |asked: &Asked| String::from_utf8(asked.repositories().to_bytes()).unwrap();
    let literal = read("{ repository(owner: \"o\", name: \"r\") { id } }");
    assert_eq!(show(&literal), "o/r");
    let default = read("query($o: String = \"d\") { repository(owner: $o, name: \"r\") { id } }");
    assert_eq!(show(&default), "d/r");
    let given = r#"{"query":"query($o: String = \"d\", $n: String!) { x: repository(owner: $o, name: $n) { id } }","variables":{"o":"o","n":"r"}}"#;
    assert_eq!(show(&graphql::read(given.as_bytes()).unwrap()), "o/r");
    for open in [
        "query($o: String!) { repository(owner: $o, name: \"r\") { id } }",
        "{ repository(owner: \"o\", name: \"r\") { id } node(id: 1) { id } }",
        "mutation { repository(owner: \"o\", name: \"r\") { id } }",
    ] {
        assert_eq!(show(&read(open)), "unknown", "{open}");
    }
    assert_eq!(show(&read("{ __type(name: \"X\") { name fields { name } } }")), "");
    assert_eq!(show(&read("{ viewer { login } rateLimit { cost } }")), "");
}

/// A repository may be reached from anywhere: known is only what is known to stay.
#[test]
fn what_may_lead_to_another_repository_is_not_known() {
    let show = |asked: &Asked| String::from_utf8(asked.repositories().to_bytes()).unwrap();
    for elsewhere in [
        "viewer { repository(name: \"x\") { id } }",
        "viewer { login repositories(first: 9) { nodes { name } } }",
        "viewer { ... on User { repositories(first: 9) { nodes { name } } } }",
        "viewer { organizations(first: 1) { nodes { repositories { nodes { name } } } } }",
        "organization(login: \"o\") { repository(name: \"x\") { id } }",
        "organization(login: \"o\") { id }",
        "repositoryOwner(login: \"o\") { repository(name: \"x\") { id } }",
        "user(login: \"o\") { repository(name: \"x\") { id } }",
        "node(id: \"R_1\") { ... on Repository { name } }",
        "nodes(ids: [\"R_1\"]) { ... on Repository { name } }",
        "search(query: \"x\", type: REPOSITORY, first: 1) { nodes { ... on Repository { name } } }",
        "resource(url: \"https://github.com/o/x\") { ... on Repository { name } }",
        "repository(owner: \"o\", name: \"r\") { owner { repository(name: \"x\") { id } } }",
        "repository(owner: \"o\", name: \"r\") { owner { ... on User { repositories { nodes { name } } } } }",
        "repository(owner: \"o\", name: \"r\") { parent { issues(first: 9) { nodes { title } } } }",
        "repository(owner: \"o\", name: \"r\") { forks(first: 9) { nodes { name } } }",
        "repository(owner: \"o\", name: \"r\") { a: forks(first: 9) { nodes { name } } }",
        "repository(owner: \"o\", name: \"r\") { ...F }",
        "repository(owner: \"o\", name: \"r\") { ... { ... on Repository { templateRepository { object(expression: \"HEAD:x\") { ... on Blob { text } } } } } }",
        "repository(owner: \"o\", name: \"r\") { issue(number: 1) { timelineItems(first: 9) { nodes { ... on CrossReferencedEvent { source { ... on Issue { body } } } } } } }",
        "repository(owner: \"o\", name: \"r\") { pullRequest(number: 1) { closingIssuesReferences(first: 9) { nodes { body } } } }",
        "repository(owner: \"o\", name: \"r\") { pullRequest(number: 1) { headRepository { object(expression: \"HEAD:x\") { id } } } }",
        "repository(owner: \"o\", name: \"r\") { pullRequest(number: 1) { headRef { target { ... on Commit { history { nodes { message } } } } } } }",
        "repository(owner: \"o\", name: \"r\") { pullRequest(number: 1) { author { ... on User { pinnedItems { nodes { ... on Repository { name } } } } } } }",
        "repository(owner: \"o\", name: \"r\") { id } viewer { ...F }",
        "x: repository(owner: \"o\", name: \"r\") { id } y: viewer { starredRepositories { nodes { name } } }",
    ] {
        let spread = if elsewhere.contains("...F") {
            "fragment F on Repository { owner { ...G } } fragment G on User { repositories { nodes { name } } }"
        } else {
            ""
        };
        let query = format!("{{ {elsewhere} }} {spread}");
        assert_eq!(show(&read(&query)), "unknown", "{query}");
    }
    for own in [
        "{ repository(owner: \"o\", name: \"r\") { issues(first: 9) { nodes { title author { login } } totalCount } } }",
        "{ repository(owner: \"o\", name: \"r\") { ...F } } fragment F on Repository { pullRequest(number: 1) { ...G } } fragment G on PullRequest { headRepository { name owner { login } } }",
    ] {
        assert_eq!(show(&read(own)), "o/r", "{own}");
    }
}

#[test]
fn events_of_reviews_are_known() {
    let show = |text: &str| {
        String::from_utf8(graphql::read(text.as_bytes()).unwrap().events().to_bytes()).unwrap()
    };
    let query = r#""query":"mutation($input: I!) { addPullRequestReview(input: $input) { x } }""#;
    assert_eq!(
        show(&format!(r#"{{{query},"variables":{{"input":{{"event":"APPROVE"}}}}}}"#)),
        "APPROVE"
    );
    assert_eq!(show(&format!(r#"{{{query},"variables":{{"input":{{}}}}}}"#)), "");
    assert_eq!(show(&format!(r#"{{{query}}}"#)), "unknown");
    let literal = r#"{"query":"mutation { a: addPullRequestReview(input: {event: APPROVE}) { x } b: addPullRequestReview(input: {event: COMMENT}) { x } }"}"#;
    let mut events = show(literal).split(',').map(str::to_owned).collect::<Vec<_>>();
    events.sort();
    assert_eq!(events, ["APPROVE", "COMMENT"]);
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum::<usize>(),
        Value::Object(members) => members.values().map(nodes).sum::<usize>(),
        _ => 0,
    }
}

/// A long variable that a short document names often would fill the memory of the gate.
#[test]
fn a_variable_that_is_named_often_does_not_grow() {
    let list = vec![0; 10_000];
    let query = format!("mutation($v: X) {{ f(input: [{}]) {{ x }} }}", "$v ".repeat(1000));
    let body = serde_json::json!({ "query": query, "variables": { "v": list } });
    let asked = graphql::read(body.to_string().as_bytes()).unwrap();
    let filled = asked.operation.fields.iter().filter_map(|field| field.arguments.clone());
    let filled: usize = filled.map(|all| nodes(&Value::Object(all))).sum();
    assert!(filled < 500_000, "{filled}");
    assert_eq!(asked.events(), tool_policy::facts::Value::Unknown);
}

/// Fields are not compared each with each: all are counted, alike or not, before what they
/// are given is looked at.
#[test]
fn fields_that_are_alike_count_as_well() {
    let list = vec![0; 1000];
    let read = |count: usize, differ: usize| {
        let each = |n: usize| format!("a{n}:f(v:$v,n:{}){{x}}", n % differ);
        let fields: String = (0..count).map(each).collect();
        let query = format!("mutation($v: X) {{ {fields} }}");
        let body = serde_json::json!({ "query": query, "variables": { "v": list } });
        graphql::read(body.to_string().as_bytes())
    };
    for differ in [1, 10, 256] {
        let asked = read(256, differ).unwrap();
        assert_eq!(asked.operation.fields.len(), differ, "each once");
        let many = read(257, differ).unwrap_err().to_string();
        assert!(many.contains("more than 256 fields"), "{many}");
    }
    // In fragments too.
    let query =
        format!("{{ ...F {} }} fragment F on Query {{ {} }}", "x ".repeat(200), "x ".repeat(57));
    let body = serde_json::json!({ "query": query });
    assert!(graphql::read(body.to_string().as_bytes()).is_err());
}

/// What stands there twice may be read as either.
#[test]
fn what_is_given_twice_is_not_known() {
    for given in [
        "input: {event: COMMENT}, input: {event: APPROVE}",
        "input: {event: APPROVE, event: COMMENT}",
    ] {
        let asked = read(&format!("mutation {{ addPullRequestReview({given}) {{ x }} }}"));
        assert_eq!(asked.events(), tool_policy::facts::Value::Unknown, "{given}");
    }
}

/// What stands in the document is what is changed, as well as what is in variables; and
/// an answer is for all of it.
#[test]
fn an_approver_sees_what_a_mutation_is_given() {
    let shown = |query: &str, variables: Value| {
        let body = serde_json::json!({ "query": query, "variables": variables });
        graphql::read(body.to_string().as_bytes()).unwrap().shown("github.com")
    };
    let none = serde_json::json!({});
    let one = shown("mutation { mergePullRequest(input: {pullRequestId: \"PR_1\"}) { x } }", none);
    assert!(one.starts_with("mutation mergePullRequest at github.com: mutation"), "{one}");
    assert!(one.contains("PR_1"), "{one}");
    let long = |end: &str| {
        let given = serde_json::json!({ "a": "x".repeat(600), "input": { "pullRequestId": end } });
        shown("mutation($a: A, $input: I) { f(a: $a, input: $input) { x } }", given)
    };
    assert!(long("PR_1").contains("… (6"), "{}", long("PR_1"));
    assert_ne!(long("PR_1"), long("PR_2"));
    assert!(long("PR_1").len() < 1200);
}

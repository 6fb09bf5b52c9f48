//! What is known of calls of gh and npm, by their shipped grammars.

use tool_policy::facts::Observed;
use tool_policy::{Definition, Policy};

use crate::support::judge_words;

fn gh() -> Policy {
    let grammar = include_str!("../../../tools.d/gh/grammar.toml");
    Definition::from_toml("gh", "default = \"allow\"", Some(grammar)).expect("gh").policy
}

fn npm() -> Policy {
    let grammar = include_str!("../../../tools.d/npm/grammar.toml");
    Definition::from_toml("npm", "default = \"allow\"", Some(grammar)).expect("npm").policy
}

#[track_caller]
fn facts(policy: &Policy, names: &[&str], cases: &[(&[&str], &[&str])]) {
    for (call, wanted) in cases {
        let words: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
        let verdict = judge_words(policy, &words, &Observed::default());
        assert_ne!(verdict.rule.as_str(), "unread", "{call:?}: {:?}", verdict.reason);
        let found: Vec<String> = names
            .iter()
            .map(|name| verdict.facts.get(name).to_bytes().escape_ascii().to_string())
            .collect();
        assert_eq!(found, *wanted, "{call:?}");
    }
}

#[test]
fn an_api_call_is_known_as_gh_itself_reads_it() {
    let names = ["method", "endpoint", "operation", "host"];
    facts(
        &gh(),
        &names,
        &[
            (&["api", "repos/o/r"], &["GET", "repos/o/r", "", ""]),
            (&["api", "/repos/o/r?x=y"], &["GET", "repos/o/r", "", ""]),
            (&["api", "-X", "DELETE", "repos/o/r"], &["DELETE", "repos/o/r", "", ""]),
            (&["api", "-XPUT", "x"], &["PUT", "x", "", ""]),
            (&["api", "-X=PUT", "x"], &["PUT", "x", "", ""]),
            (&["api", "-iXPUT", "x"], &["PUT", "x", "", ""]),
            (&["api", "--method=patch", "x"], &["PATCH", "x", "", ""]),
            (&["api", "x", "-f", "a=b"], &["POST", "x", "", ""]),
            (&["api", "-Fa=b", "x"], &["POST", "x", "", ""]),
            (&["api", "--input", "-", "x"], &["POST", "x", "", ""]),
            (&["api", "-f", "a=b", "-X=GET", "x"], &["GET", "x", "", ""]),
            (&["api", "-X", "GET", "-X", "DELETE", "x"], &["DELETE", "x", "", ""]),
            (
                &["api", "https://api.github.com/repos/o/r"],
                &["GET", "repos/o/r", "", "api.github.com"],
            ),
            (&["api", "https://u@evil.com/x"], &["GET", "x", "", "evil.com"]),
            (&["api", "--hostname", "ghe.example", "x"], &["GET", "x", "", "ghe.example"]),
            (&["api", "repos/o/r/../x"], &["GET", "unknown", "unknown", ""]),
            (&["api", "repos/o%2fr"], &["GET", "unknown", "unknown", ""]),
            (&["api", "graphql"], &["POST", "graphql", "unknown", ""]),
            (&["api", "/graphql", "--input", "q"], &["POST", "graphql", "unknown", ""]),
            (
                &["api", "graphql/", "-f", "query=query { viewer { login } }"],
                &["POST", "graphql", "query", ""],
            ),
            (
                &["api", "-f", "query={ viewer { login } }", "graphql"],
                &["POST", "graphql", "query", ""],
            ),
            (&["api", "graphql", "-F", "query=@file"], &["POST", "graphql", "unknown", ""]),
            (
                &["api", "graphql", "-f", "query=mutation { x }"],
                &["POST", "graphql", "mutation", ""],
            ),
            (
                &[
                    "api",
                    "https://api.github.com/graphql",
                    "-f",
                    "query=mutation M($a: I = {b: 1}) @d { x }",
                ],
                &["POST", "graphql", "mutation", "api.github.com"],
            ),
            (
                &["api", "graphql", "-f", "query=# query {\n mutation { x }"],
                &["POST", "graphql", "mutation", ""],
            ),
            (
                &[
                    "api",
                    "graphql",
                    "-f",
                    "query=query A { x(a: \"} mutation {\") } mutation B { y }",
                ],
                &["POST", "graphql", "query,mutation", ""],
            ),
            (
                &[
                    "api",
                    "graphql",
                    "-f",
                    "query=query A { x(a: \"\"\"\"\\\"\"\"} mutation {\"\"\") }",
                ],
                &["POST", "graphql", "query", ""],
            ),
            (
                &["api", "graphql", "-f", "query=fragment F on X { a } query { ...F }"],
                &["POST", "graphql", "query", ""],
            ),
            (
                &["api", "graphql", "-f", "query={ a }", "-f", "query=mutation { b }"],
                &["POST", "graphql", "query,mutation", ""],
            ),
            (&["api", "graphql", "-f", "query=mutation { x"], &["POST", "graphql", "unknown", ""]),
            (&["api", "graphql", "-f", "query=evil { x }"], &["POST", "graphql", "unknown", ""]),
            (&["pr", "list"], &["", "", "", ""]),
        ],
    );
}

#[test]
fn a_repository_is_known_where_it_is_named() {
    let names = ["repo", "host"];
    facts(
        &gh(),
        &names,
        &[
            (&["pr", "list", "-R", "o/r"], &["o/r", ""]),
            (&["pr", "list", "--repo=o/r"], &["o/r", ""]),
            (&["pr", "list", "-R", "github.com/o/r"], &["o/r", "github.com"]),
            (&["pr", "list", "-R", "https://ghe.example/o/r.git"], &["o/r", "ghe.example"]),
            (&["pr", "list", "-R", "git@github.com:o/r"], &["o/r", "github.com"]),
            (&["pr", "list", "-R", "git@evil.com:o/r"], &["o/r", "evil.com"]),
            (&["pr", "list", "-R", "evil.com#.github.com/o/r"], &["o/r", "unknown"]),
            (&["pr", "view", "https://evil.com/o/r/pull/1"], &["unknown", "evil.com"]),
            (&["pr", "view", "https://evil.com?@github.com/o/r"], &["unknown", "evil.com"]),
            (&["pr", "view", "https://evil.com\\@github.com/o/r"], &["unknown", "unknown"]),
            (&["pr", "view", "feature/a@b"], &["unknown", ""]),
            (&["pr", "checkout", "user:branch"], &["unknown", ""]),
            (&["issue", "view", "https://github.com/o/r/issues/1#x"], &["unknown", "github.com"]),
            (&["repo", "clone", "evil.com/o/r", "a/b/c"], &["unknown", "evil.com"]),
            (&["repo", "clone", "o/r", "a/b/c"], &["unknown", ""]),
            (&["repo", "view", "HTTPS://Evil.com/o/r"], &["unknown", "Evil.com"]),
            (&["search", "issues", "see https://evil.com/ there"], &["unknown", ""]),
            (&["api", "user", "--hostname", "evil.test#.github.com"], &["", "unknown"]),
            (&["api", "user", "--hostname", "evil.test/.github.com"], &["", "unknown"]),
            (&["api", "user", "--hostname", "u@evil.test"], &["", "unknown"]),
            (&["api", "user", "--hostname", "ghe.example:8443"], &["", "ghe.example:8443"]),
            (&["pr", "list", "-R", "r"], &["unknown", ""]),
            (&["pr", "list"], &["unknown", ""]),
            (&["api", "x"], &["", ""]),
        ],
    );
}

#[test]
fn what_npm_publishes_runs_and_takes() {
    let names = ["registry", "publish", "scripts", "source"];
    facts(
        &npm(),
        &names,
        &[
            (&["install"], &["", "false", "true", ""]),
            (&["i", "left-pad"], &["", "false", "true", "registry"]),
            (&["install", "--ignore-scripts", "a@1.2.3"], &["", "false", "false", "registry"]),
            (&["install", "--ignore-scripts", "--no-ignore-scripts"], &["", "false", "true", ""]),
            (&["install", "--ignore-scripts=false"], &["", "false", "true", ""]),
            (&["ci"], &["", "false", "true", ""]),
            (
                &["view", "x", "--registry=http://evil"],
                &["http://evil", "false", "false", "registry"],
            ),
            (&["install", "o/r"], &["", "false", "true", "git"]),
            (&["install", "github:o/r"], &["", "false", "true", "git"]),
            (&["install", "git+ssh://x/y.git"], &["", "false", "true", "git"]),
            (&["install", "https://evil/x.tgz"], &["", "false", "true", "url"]),
            (&["install", "../x"], &["", "false", "true", "path"]),
            (&["install", "./x.tgz", "@s/p", "@s/p@1"], &["", "false", "true", "path,registry"]),
            (&["install", "a@npm:b@1"], &["", "false", "true", "registry"]),
            (&["install", "a@git+https://x/y"], &["", "false", "true", "git"]),
            (&["install", "a@o/r"], &["", "false", "true", "git"]),
            (&["exec", "--", "cowsay"], &["", "false", "true", "registry"]),
            (&["publish"], &["", "true", "true", ""]),
            (&["unpublish", "x", "--force"], &["", "true", "false", ""]),
            (&["dist-tag", "add", "x@1", "latest"], &["", "true", "false", ""]),
            (&["dist-tag", "ls", "x"], &["", "false", "false", ""]),
            (&["dist-tag"], &["", "false", "false", ""]),
            (&["owner", "add", "u", "p"], &["", "true", "false", "registry"]),
            (&["owner", "ls", "p"], &["", "false", "false", "registry"]),
            (&["token", "list"], &["", "false", "false", ""]),
            (&["token", "create"], &["", "true", "false", ""]),
            (&["run", "build"], &["", "false", "true", ""]),
            (&["outdated"], &["", "false", "false", ""]),
        ],
    );
    let deep = format!("a{}:", "@b".repeat(50_000));
    let words: Vec<&[u8]> = vec![b"install", deep.as_bytes()];
    judge_words(&npm(), &words, &Observed::default());
}

#[test]
fn a_package_comes_from_where_npm_takes_it_whatever_its_ending() {
    let cases: [(&str, [&str; 2]); 43] = [
        ("foo@https://example.com/x.tgz", ["url", ""]),
        ("foo@http://evil/x.tar.gz", ["url", ""]),
        ("foo@git+https://x/y.tgz", ["git", ""]),
        ("foo@github:o/r.tgz", ["git", ""]),
        ("foo@o/r.tar", ["git", ""]),
        ("o/r.tgz", ["git", ""]),
        ("o/r#semver:^1", ["git", ""]),
        ("o/..", ["git", ""]),
        ("o#/", ["git", ""]),
        ("foo@o#/r", ["git", ""]),
        ("HTTPS://example.com/x.tgz", ["url", ""]),
        ("GitHub:o/r", ["git", ""]),
        ("git@github.com:o/r", ["git", ""]),
        ("foo@evil.example:x.tgz", ["git", ""]),
        ("evil:x.tgz", ["git", ""]),
        ("ftp://x/y.tgz", ["git", ""]),
        ("file:/etc/package", ["path", "/etc/package"]),
        ("FILE:///etc/package", ["path", "/etc/package"]),
        ("foo@file:/etc/package", ["path", "/etc/package"]),
        ("foo@file:../x", ["path", "../x"]),
        ("@s/foo@/etc/package", ["path", "/etc/package"]),
        ("file:/../x", ["path", "unknown"]),
        ("/../x", ["path", "unknown"]),
        ("/~/x", ["path", "unknown"]),
        ("foo@.//../x", ["path", "unknown"]),
        ("file://host/x", ["path", "unknown"]),
        ("file:%2e%2e/x", ["path", "unknown"]),
        ("~/x", ["path", "unknown"]),
        ("foo@~/x", ["path", "unknown"]),
        ("file:~/x", ["path", "unknown"]),
        ("foo@~1.2.3", ["registry", ""]),
        ("foo@^1.2.3", ["registry", ""]),
        ("foo@npm:bar@1", ["registry", ""]),
        ("foo@NPM:bar", ["registry", ""]),
        ("@s/p", ["registry", ""]),
        ("@s/../../../etc", ["path", "@s/../../../etc"]),
        ("a/b/c", ["path", "a/b/c"]),
        ("a/../../../etc@x", ["path", "a/../../../etc@x"]),
        ("x.tgz", ["path", "x.tgz"]),
        ("foo@x.TGZ", ["path", "x.TGZ"]),
        (".", ["path", "."]),
        ("foo@..", ["path", ".."]),
        ("left-pad", ["registry", ""]),
    ];
    for (word, wanted) in cases {
        facts(&npm(), &["source", "path"], &[(&["install", word], &wanted)]);
        facts(&npm(), &["source", "path"], &[(&["pack", word], &wanted)]);
        facts(&npm(), &["source", "path"], &[(&["cache", "add", word], &wanted)]);
        facts(&npm(), &["source", "path"], &[(&["view", word, "./name"], &wanted)]);
        facts(&npm(), &["source", "path"], &[(&["diff", "--diff", word], &wanted)]);
    }
}

#[test]
fn what_reads_the_environment_of_gh_is_known() {
    for (program, wanted) in [
        ("env.GH_TOKEN", "true"),
        ("$ENV.GH_TOKEN", "true"),
        ("$ ENV", "true"),
        (".[]|env", "true"),
        ("\"\\(env)\"", "true"),
        ("[..|env]", "true"),
        (".env", "false"),
        (".a.ENV", "false"),
        (".environments[].name", "false"),
        (".my_env", "false"),
        (".title", "false"),
    ] {
        facts(&gh(), &["environment"], &[(&["api", "user", "--jq", program], &[wanted])]);
        facts(&gh(), &["environment"], &[(&["pr", "list", "-q", program], &[wanted])]);
    }
}

#[test]
fn help_is_all_that_help_does() {
    facts(
        &gh(),
        &["help"],
        &[
            (&["pr", "merge", "--help"], &["true"]),
            (&["repo", "delete", "-h"], &["true"]),
            (&["pr", "merge", "--help", "--help=false"], &["false"]),
            (&["pr", "merge", "--", "--help"], &["false"]),
            (&["pr", "merge", "-b", "--help"], &["false"]),
            (&["pr", "merge", "-sb", "--help"], &["false"]),
            (&["pr", "merge", "--body=--help"], &["false"]),
            (&["auth", "login", "-h", "--help"], &["false"]),
            (&["pr", "merge", "1"], &["false"]),
            (&["pr"], &["true"]),
        ],
    );
}

//! gh's shipped grammar reads what gh reads: recorded by recorded/gh.py.

use tool_policy::grammar::CommandLine;

use crate::support::{self, read, shipped, words};

const RECORDED: &str = include_str!("../recorded/gh.txt");

#[test]
fn command_lines_of_gh_are_read() {
    let gh = shipped("gh");
    let cases = [
        ("api -iXPUT /x -fa=b", "api --include --method=PUT --raw-field=a=b : /x"),
        ("api -X=PUT /x", "api --method=PUT : /x"),
        ("pr -R o/r ls", "pr list --repo=o/r :"),
        ("-R o/r pr list", "unread: -R is no option of tool known to these rules"),
        ("pr list -R o/r --web=false", "pr list --repo=o/r !--web=false :"),
        ("cs ssh", "codespace ssh :"),
        ("repo clone o/r -- --depth 1", "repo clone : o/r -- --depth 1"),
        (
            "repo clone o/r --depth 1",
            "unread: --depth is no option of tool repo clone known to these rules",
        ),
        ("extension exec x --foo", "extension exec : x --foo"),
        ("co 1", "unread: co is no command of tool known to these rules"),
        ("auth login -h x", "auth login --hostname=x :"),
        ("pr list -h", "pr list --help :"),
        ("browse -cn", "browse --commit --no-browser :"),
    ];
    for (words, expected) in cases {
        assert_eq!(read(&gh, words), expected, "gh {words}");
    }
}

/// What `gh api` would send, as far as the command line says it.
fn request(line: &CommandLine<'_>) -> String {
    let last = |name: &str| line.options.iter().rfind(|given| given.option.name() == name);
    let fields = ["--field", "--raw-field", "--input"].iter().any(|name| last(name).is_some());
    let method = last("--method").and_then(|given| given.value);
    let method = match method {
        Some(method) if !method.is_empty() => std::str::from_utf8(method).unwrap(),
        // gh: GET is the default, so saying it in an empty way changes nothing.
        _ if fields && method.is_none() => "POST",
        _ => "GET",
    };
    let endpoint = std::str::from_utf8(line.operands[0]).unwrap().trim_start_matches('/');
    format!("{method} /{endpoint}")
}

#[test]
fn reading_agrees_with_gh() {
    let gh = shipped("gh");
    let (mut sent, mut taken, mut refused) = (0, 0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (given, theirs) = line.split_once('\t').unwrap();
        let args = words(given);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let ours = gh.read(&args);
        let context = format!("gh {given}\n{theirs}\n{}", support::shown(&ours));
        // gh looks for the command behind flags that are not yet any command's.
        if given.starts_with('-') && ours.unread.is_some() {
            continue;
        }
        if let Some(request_seen) = theirs.strip_prefix("sent ") {
            assert!(ours.unread.is_none(), "{context}");
            assert!(request_seen.starts_with(&request(&ours)), "{context}");
            sent += 1;
        } else if theirs == "taken" {
            assert!(ours.unread.is_none(), "{context}");
            taken += 1;
        } else {
            assert!(ours.unread.is_some(), "{context}");
            refused += 1;
        }
    }
    assert!(sent > 25 && taken > 100 && refused > 50, "{sent} {taken} {refused}");
}

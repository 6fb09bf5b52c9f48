//! A caller's repository, which the server reads to decide, costs the server little
//! whatever it is made of: the other callers wait meanwhile.

mod reliability_help;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reliability_help::cpu_ticks;
use tool_broker_tests::{Server, run, still_works};

const DEFINITION: &str = r#"default = "allow"
protected = "main"
[grammar]
[grammar.commands.push]
options = ["-f --force"]
[[rule]]
id = "protected"
decision = "deny"
reason = "main is protected"
facts = { ref = "@protected" }
"#;

fn repository(at: &Path) {
    fs::create_dir_all(at.join(".git/objects")).expect("mkdir");
    fs::create_dir_all(at.join(".git/refs/heads")).expect("mkdir");
    fs::write(at.join(".git/HEAD"), "ref: refs/heads/topic\n").expect("HEAD");
    fs::write(at.join(".git/config"), "[remote \"origin\"]\n\turl = /x\n").expect("config");
}

/// Its other directory is itself, by a name of some 60,000 steps.
fn long_way_round(at: &Path) {
    let git = at.join(".git");
    fs::create_dir(git.join("d")).expect("mkdir");
    for link in 0..38 {
        symlink("d/../".repeat(818), git.join(format!("s{link}"))).expect("a link");
    }
    let way: String = (0..38).map(|link| format!("s{link}/")).collect();
    fs::write(git.join("commondir"), format!("{way}.\n")).expect("commondir");
}

/// A push of so many branches by their names; whether the server lets it run.
fn pushes(server: &Server, directory: &str, branches: usize) -> bool {
    let names = (0..branches).map(|branch| format!("b{branch}"));
    let mut client = server.client("t");
    client.args(["push", "origin"]).args(names).current_dir(server.ws().join(directory));
    match run(&mut client, b"").code() {
        Some(0) => true,
        Some(126) => false,
        other => panic!("{directory}, {branches}: {other:?}"),
    }
}

#[test]
fn a_push_of_many_branches_holds_the_server_up_in_no_repository() {
    let server = Server::start(|s| {
        let binary = s.file("opt/git", "#!/bin/sh\nexit 0\n", 0o755);
        s.tool("t", &format!("binary = \"{}\"\n{DEFINITION}", binary.display()));
        repository(&s.ws().join("plain"));
        repository(&s.ws().join("slow"));
        long_way_round(&s.ws().join("slow"));
    });
    for directory in ["plain", "slow"] {
        for (branches, known) in [(1, true), (40, true), (100, true), (101, false), (1000, false)] {
            assert_eq!(pushes(&server, directory, branches), known, "{directory}, {branches}");
        }
    }
    // What it took of the processor, not of the time: 1,200 such ways each would be seconds.
    let costs = |directory: &str| {
        let before = cpu_ticks(server.pid());
        for _ in 0..8 {
            assert!(pushes(&server, directory, 100));
        }
        cpu_ticks(server.pid()) - before
    };
    let (plain, slow) = (costs("plain"), costs("slow"));
    assert!(slow <= 3 * plain + 50, "{slow} hundredths of a second, beside {plain}");
    still_works(&server);
}

//! Which calls get a way to the gate.

use std::path::Path;

use tool_policy::definition::sandbox::Network;
use tool_policy::facts::{Observed, Wants, git};
use tool_policy::{Definition, Needs, Policy, Scene};

const READS: Needs = Needs::Gate { push: false };
const PUSHES: Needs = Needs::Gate { push: true };

/// A policy with the shipped grammar, a gate and no rules.
fn policy(tool: &str, adapter: &str) -> Policy {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent");
    let grammar = std::fs::read_to_string(root.join("tools.d").join(tool).join("grammar.toml"))
        .expect("a grammar");
    let text = format!(
        "unread = \"allow\"\n[[gate]]\nadapter = \"{adapter}\"\nhosts = [\"github.com\"]\n"
    );
    Definition::from_toml(tool, &text, Some(&grammar)).expect("right").policy
}

fn needs(policy: &Policy, call: &str, observed: &Observed, network: Network) -> Needs {
    let words: Vec<&[u8]> = call.split_ascii_whitespace().map(str::as_bytes).collect();
    let scene = Scene { directory: b"/base", roots: &[], observed };
    policy.needs(&words, &scene, network)
}

#[track_caller]
fn each(policy: &Policy, wanted: Needs, calls: &[&str]) {
    for call in calls {
        assert_eq!(needs(policy, call, &Observed::default(), Network::Verbs), wanted, "{call}");
    }
}

#[test]
fn verbs_of_git_that_talk_to_a_server_get_the_gate() {
    let git = policy("git", "git");
    each(
        &git,
        PUSHES,
        &["push", "push -n origin x", "send-pack x y", "lfs push origin x", "-c a.b=c push"],
    );
    each(
        &git,
        READS,
        &[
            "clone x",
            "fetch",
            "pull --rebase",
            "ls-remote",
            "remote update",
            "remote show origin",
            "remote prune origin",
            "remote set-head origin -a",
            "remote add -f x y",
            "submodule add x",
            "submodule update --init",
            "archive --remote=x HEAD",
            "lfs fetch",
            "fetch-pack x",
            "svn fetch",
            "an-alias",
            "status --an-option-of-another-version",
            "submodule foreach git pull",
        ],
    );
    each(
        &git,
        Needs::Local,
        &[
            "",
            "status",
            "commit -m push",
            "log",
            "remote -v",
            "remote add x y",
            "remote show -n origin",
            "remote set-head origin main",
            "submodule status",
            "submodule init",
            "archive HEAD",
            "lfs track x",
            "checkout main",
            "rebase main",
            "version",
            "gc",
            "stash push",
        ],
    );
}

#[test]
fn in_a_partial_clone_every_verb_may_fetch_and_none_may_push() {
    let git = policy("git", "git");
    let partial = Observed::promising(true);
    assert_eq!(needs(&git, "log", &partial, Network::Verbs), READS);
    assert_eq!(needs(&git, "push", &partial, Network::Verbs), PUSHES);
    let wants = |call: &str| {
        let words: Vec<&[u8]> = call.split_ascii_whitespace().map(str::as_bytes).collect();
        git.wants(&words)
    };
    assert_eq!(wants("-C sub log"), Wants::Promisor { path: b"sub".to_vec() });
    assert_eq!(wants("--version"), Wants::Nothing);
    assert_eq!(wants("clone x"), Wants::Nothing, "it has the gate anyway");
    assert!(git::promises(b"[remote \"o\"]\n\tPromisor = true\n"));
    assert!(git::promises(b"[extensions]\npartialClone = o\n"));
    assert!(!git::promises(b"[remote \"origin\"]\n\turl = x\n"));
}

#[test]
fn commands_of_gh_but_those_that_stay_here_get_the_gate() {
    let gh = policy("gh", "github");
    each(&gh, PUSHES, &["pr create --fill", "repo create x --push --source .", "repo fork"]);
    each(&gh, READS, &["pr list", "api user", "repo clone o/r", "auth status", "an-extension"]);
    each(
        &gh,
        Needs::Local,
        &[
            "",
            "pr",
            "help",
            "pr create --help",
            "version",
            "--version",
            "completion -s bash",
            "config list",
            "alias list",
        ],
    );
}

#[test]
fn verbs_of_npm_that_talk_to_a_registry_get_the_gate() {
    let npm = policy("npm", "npm");
    each(
        &npm,
        READS,
        &[
            "install",
            "ci",
            "i x",
            "publish",
            "view x",
            "audit",
            "outdated",
            "exec -- x",
            "pack x",
            "init vite",
            "cache add x",
        ],
    );
    each(
        &npm,
        Needs::Local,
        &[
            "",
            "run build",
            "test",
            "t",
            "start",
            "ls",
            "pack",
            "version patch",
            "pkg get name",
            "init -y",
            "exec --no -- x",
            "--version",
            "install --help",
        ],
    );
}

#[test]
fn network_always_and_never_overrule_the_verbs() {
    let git = policy("git", "git");
    let none = Observed::default();
    assert_eq!(needs(&git, "status", &none, Network::Always), READS);
    assert_eq!(needs(&git, "push", &none, Network::Always), PUSHES);
    assert_eq!(needs(&git, "push", &none, Network::Never), Needs::Local);
    let closed = Definition::from_toml("git", "default = \"allow\"\n", None).expect("right").policy;
    assert_eq!(needs(&closed, "push", &none, Network::Always), Needs::Local, "there is no gate");
    let curl = "[[gate]]\nadapter = \"http\"\nhosts = [\"*\"]\n";
    let curl = Definition::from_toml("curl", curl, None).expect("right").policy;
    assert_eq!(needs(&curl, "https://x", &none, Network::Verbs), PUSHES, "nobody knows its verbs");
}

//! gh that starts git in its call, as `gh repo clone` and `gh pr checkout` do: by the shipped
//! definition, with a stub of the API behind the one gate and a forge behind the other. gh's
//! git finds its way out by itself, with the call's secret, and may fetch and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tool_broker_tests::forge::Forge;
use tool_broker_tests::rules::stub::Stub;
use tool_broker_tests::rules::table::Answer;
use tool_broker_tests::{Outcome, Server, project, run, skipped};

/// How tools are held: as well as this machine can, and without namespaces.
const LEVELS: [&str; 2] = ["auto", "landlock"];

const PASSWORD: &str = "canary-of-github";

/// What the API says of the repository.
const REPOSITORY: &str = r#"{"data":{"repository":{"id":"R_1","name":"r","owner":{"login":"o"},
"hasIssuesEnabled":true,"description":"","hasWikiEnabled":false,"viewerPermission":"WRITE",
"defaultBranchRef":{"name":"main"},"parent":null,"mergeCommitAllowed":true,
"rebaseMergeAllowed":true,"squashMergeAllowed":true}}}"#;

/// And of a pull request from a branch of its own.
const PULL_REQUEST: &str = r#"{"data":{"repository":{"pullRequest":{"number":1,"headRefName":"feature",
"headRepository":{"id":"R_1","name":"r"},"headRepositoryOwner":{"id":"U_1","login":"o"},
"isCrossRepository":false,"maintainerCanModify":false}}}}"#;

struct Stand {
    server: Server,
    forge: Forge,
    stub: Stub,
}

fn stand(level: &str) -> Option<Stand> {
    if !Path::new("/usr/bin/gh").exists() {
        skipped("gh and git", "gh is not installed (apt-get install gh)");
        return None;
    }
    let answer = |having: &str, body: &str| Answer {
        to: "POST /graphql".to_owned(),
        having: Some(having.to_owned()),
        status: 200,
        body: body.to_owned(),
    };
    let answers = [answer("pullRequest(number", PULL_REQUEST), answer("repository(", REPOSITORY)];
    let mut others = None;
    let server = Server::start(|setup| {
        let forge = Forge::start(&setup.path("forge"), PASSWORD);
        let bare = forge.repository("o/r");
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(&bare).args(["update-ref", "refs/heads/feature", "refs/heads/main"]);
        run(&mut git, b"").success();
        let stub = Stub::start(&answers, &setup.path("run/stub.sock"), setup.ws());
        let token = setup.file("run/github_token", format!("{PASSWORD}\n"), 0o600);
        let from = project().join("tools.d/gh");
        let text = fs::read_to_string(from.join("tool.toml")).expect("a definition");
        let text = text.replace("/run/secrets/github_token", &token.display().to_string());
        let upstream = |url: &str| format!("upstream = \"{url}\"\nprivate = [\"127.0.0.0/8\"]\n");
        let api = upstream(&format!("http://127.0.0.1:{}", stub.port));
        let text = text
            .replace("adapter = \"github\"\n", &format!("adapter = \"github\"\n{api}"))
            .replace(
                "adapter = \"git\"\n",
                &format!("adapter = \"git\"\n{}", upstream(&forge.url())),
            );
        setup.tool("gh", &text);
        let grammar = fs::read(from.join("grammar.toml")).expect("a grammar");
        setup.file("tools.d/gh/grammar.toml", grammar, 0o644);
        setup.env("TOOL_SANDBOX_LEVEL", level);
        // Nobody answers.
        setup.env("TOOL_APPROVALS_TIMEOUT", "0.2");
        others = Some((forge, stub));
    });
    let (forge, stub) = others.expect("started");
    Some(Stand { server, forge, stub })
}

impl Stand {
    fn gh(&self, directory: &str, words: &[&str]) -> Outcome {
        let mut gh = self.server.client("gh");
        run(gh.args(words).current_dir(self.server.ws().join(directory)), b"")
    }

    /// Natively: which branch is checked out, and the like.
    fn git(&self, words: &[&str]) -> String {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(self.server.ws().join("r")).args(["-c", "safe.directory=*"]);
        run(git.args(words), b"").success().trim().to_owned()
    }
}

#[test]
fn gh_clones_and_checks_out_by_a_git_that_has_its_own_way_out() {
    for level in LEVELS {
        let Some(stand) = stand(level) else { return };
        stand.gh("", &["repo", "clone", "o/r"]).success();
        assert_eq!(stand.git(&["branch", "--show-current"]), "main", "{level}");
        // The true address stays, without a secret in it.
        assert_eq!(stand.git(&["config", "remote.origin.url"]), "https://github.com/o/r.git");
        stand.gh("r", &["pr", "checkout", "1"]).success();
        assert_eq!(stand.git(&["branch", "--show-current"]), "feature", "{level}");
        let asked = stand.forge.take();
        assert!(asked.iter().any(|asked| asked.line.contains("git-upload-pack")), "{asked:?}");
        assert!(asked.iter().all(|asked| asked.known && asked.line.contains("/o/r")), "{asked:?}");
        assert!(!stand.stub.take().is_empty());
        // It is nowhere that a tool could look.
        let mut grep = std::process::Command::new("grep");
        grep.args(["-r", "-l", PASSWORD]).arg(stand.server.ws()).arg(stand.server.path("state"));
        assert_eq!(run(grep.arg(stand.server.path("server.log")), b"").out(), "");
    }
}

/// A hook of the repository runs in that call too, with the same way out.
#[test]
fn what_gh_starts_for_a_checkout_may_fetch_and_not_push() {
    for level in LEVELS {
        let Some(stand) = stand(level) else { return };
        stand.gh("", &["repo", "clone", "o/r"]).success();
        let before = stand.forge.refs("o/r");
        let hooks = stand.server.ws().join("r/.git/hooks");
        fs::create_dir_all(&hooks).expect("hooks");
        let hook = "#!/bin/sh\ngit push -q origin HEAD:refs/heads/stolen 2>said; echo $? >>said\n\
            git push -q https://github.com/o/r.git HEAD:refs/heads/stolen 2>>said\n\
            git ls-remote origin >heard\nexit 0\n";
        fs::write(hooks.join("post-checkout"), hook).expect("a hook");
        let may_run = fs::Permissions::from_mode(0o755);
        fs::set_permissions(hooks.join("post-checkout"), may_run).expect("chmod");
        stand.forge.take();
        stand.gh("r", &["pr", "checkout", "1"]).success();
        let read = |name: &str| {
            fs::read_to_string(stand.server.ws().join("r").join(name)).unwrap_or_default()
        };
        assert!(read("heard").contains("refs/heads/feature"), "{level}: {}", read("said"));
        assert!(read("said").contains("refused by the broker"), "{level}: {}", read("said"));
        assert_eq!(stand.forge.refs("o/r"), before, "{level}");
        let asked = stand.forge.take();
        assert!(!asked.iter().any(|asked| asked.line.contains("receive-pack")), "{asked:?}");
    }
}

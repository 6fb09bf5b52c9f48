//! gh itself, through the gate: its ordinary commands, with the token here alone.

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

mod github_stub;
mod stage;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use stage::certificates::Certificates;
use stage::skipped::skipped;
use stage::{Host, Stage, TOKEN, credential, gate, run, text};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tool_gate::serve::{self, Came};
use tool_gate::{Answer, Request, door};
use tool_policy::definition::gate::{Adapter, Gate};

/// gh before a gate that leads to a stub of the API, with a repository to stand in.
struct Day {
    dir: TempDir,
    host: Host,
    /// Where links to other hosts lead.
    elsewhere: Host,
    stage: Stage,
    task: tokio::task::JoinHandle<()>,
    _certificates: Certificates,
}

impl Drop for Day {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn has_gh() -> bool {
    let there = Path::new("/usr/bin/gh").exists();
    if !there {
        skipped("gh through its gate", "gh is not installed");
    }
    there
}

impl Day {
    async fn new() -> Day {
        Day::of(&["github.com"], |request| vec![Answer::Allowed; request.parts.len()]).await
    }

    async fn of(
        hosts: &[&str],
        decide: impl Fn(&Request) -> Vec<Answer> + Send + Sync + 'static,
    ) -> Day {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::of(&["127.0.0.1"]);
        let elsewhere =
            Host::with(Some(certificates.server(&[])), |seen| match seen.line.as_str() {
                "GET /logs?signature=short-lived" => {
                    let zip: &[u8] = include_bytes!("github_stub/logs.zip");
                    hyper::Response::new(bytes::Bytes::from_static(zip).into())
                }
                _ => hyper::Response::new(
                    bytes::Bytes::from_static(github_stub::FILE.as_bytes()).into(),
                ),
            })
            .await;
        let away = elsewhere.url();
        let tls = Some(certificates.server(&[]));
        let host = Host::with(tls, move |seen| github_stub::answer(seen, &away)).await;
        let mut gate: Gate = gate(Adapter::Github, hosts);
        gate.upstream = Some(host.url());
        gate.ca = Some(certificates.ca());
        gate.credential = credential(&dir);
        let stage = Stage::with(vec![gate], tool_gate::upstream::Upstream::default(), decide).await;
        let listener = UnixListener::bind(dir.path().join("gate")).unwrap();
        let grant = Arc::clone(&stage.grant);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve::connection(stream, Came::Github, Arc::clone(&grant)));
            }
        });
        let day = Day { dir, host, elsewhere, stage, task, _certificates: certificates };
        day.settle();
        day
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// gh's configuration and a repository.
    fn settle(&self) {
        for name in ["config", "home", "work", "tmp"] {
            std::fs::create_dir(self.path(name)).unwrap();
        }
        let socket = self.path("gate");
        let files = door::gh(&self.stage.grant.gates, socket.to_str().unwrap()).unwrap();
        for (name, text) in files {
            std::fs::write(self.path("config").join(name), text).unwrap();
        }
        for args in [
            "init -q -b main",
            "-c user.name=n -c user.email=e commit -q --allow-empty -m m",
            "remote add origin http://github.com/o/r.git",
            "branch feature",
        ] {
            let mut command = Command::new("git");
            command.current_dir(self.path("work")).args(args.split(' '));
            assert!(command.status().unwrap().success(), "{args}");
        }
    }

    async fn gh(&self, args: &[&str]) -> Output {
        let mut command = Command::new("/usr/bin/gh");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path("home"));
        command.env("GH_CONFIG_DIR", self.path("config")).env("TMPDIR", self.path("tmp"));
        let grant = &self.stage.grant;
        command.envs(door::environment(&grant.gates, &grant.door));
        command.env("GH_PROMPT_DISABLED", "1").env("GH_NO_UPDATE_NOTIFIER", "1");
        command.current_dir(self.path("work")).args(args);
        command.stdin(std::process::Stdio::null());
        run(command).await
    }

    /// Runs it, expects that it works, and gives what it prints.
    async fn works(&self, line: &str) -> String {
        let output = self.gh(&line.split(' ').collect::<Vec<_>>()).await;
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "gh {line}: {out}{error}\n{:?}", self.stage.refused());
        assert!(!format!("{out}{error}").contains(TOKEN));
        out.to_owned()
    }

    fn forget(&self) {
        self.host.seen.lock().unwrap().clear();
        self.stage.judge.asked.lock().unwrap().clear();
        self.stage.judge.refused.lock().unwrap().clear();
    }

    /// The repositories of what was decided on.
    fn repositories(&self) -> Vec<String> {
        let parts = self.stage.asked().into_iter().flat_map(|request| request.parts);
        parts.map(|part| String::from_utf8(part.facts.get("repo").to_bytes()).unwrap()).collect()
    }

    /// What was decided on, that changes something, as `method endpoint` or the field.
    fn changes(&self) -> Vec<String> {
        let parts = self.stage.asked().into_iter().flat_map(|request| request.parts);
        let word = |value: &tool_policy::facts::Value| String::from_utf8(value.to_bytes()).unwrap();
        let told = |part: tool_gate::Part| match word(part.facts.get("field")) {
            field if !field.is_empty() => field,
            _ => format!("{} {}", word(part.facts.get("method")), word(part.facts.get("endpoint"))),
        };
        parts.filter(|part| part.changes).map(told).collect()
    }
}

/// What gh is told to do, and what it changes by that.
const COMMANDS: &[(&str, &[&str])] = &[
    ("auth status", &[]),
    ("pr list", &[]),
    ("pr view 1", &[]),
    ("pr status", &[]),
    ("pr diff 1", &[]),
    ("pr create --title t --body b --base main --head fresh", &["createPullRequest"]),
    ("pr comment 1 -b hello", &["addComment"]),
    ("pr close 1", &["closePullRequest"]),
    ("pr edit 1 --title x", &["updatePullRequest"]),
    ("pr review 1 --approve", &["addPullRequestReview"]),
    ("pr merge 1 --squash", &["mergePullRequest"]),
    (
        "pr merge 1 --squash --delete-branch",
        &["mergePullRequest", "DELETE repos/o/r/git/refs/heads/feature"],
    ),
    ("pr merge 1 --disable-auto", &["disablePullRequestAutoMerge"]),
    ("issue list", &[]),
    ("issue view 1", &[]),
    ("issue create --title t --body b", &["createIssue"]),
    ("issue comment 1 -b x", &["addComment"]),
    ("issue close 1", &["closeIssue"]),
    ("issue edit 1 --title z", &["updateIssue"]),
    ("repo view o/r", &[]),
    ("repo list o", &[]),
    ("repo fork o/r --clone=false", &["POST repos/o/r/forks"]),
    ("repo create o/x --private", &["createRepository"]),
    ("repo edit --description x", &["PATCH repos/o/r"]),
    ("repo delete o/r --yes", &["DELETE repos/o/r"]),
    ("release list", &[]),
    ("release view v1", &[]),
    ("release create v1 --notes n", &["POST repos/o/r/releases"]),
    (
        "release upload v1 a.txt --clobber",
        &["DELETE repos/o/r/releases/assets/9", "POST repos/o/r/releases/5/assets"],
    ),
    ("release delete v1 -y", &["DELETE repos/o/r/releases/5"]),
    ("run list", &[]),
    ("run view 7", &[]),
    ("run rerun 7", &["POST repos/o/r/actions/runs/7/rerun"]),
    ("run cancel 7", &["POST repos/o/r/actions/runs/7/cancel"]),
    ("workflow list", &[]),
    ("workflow run ci", &["POST repos/o/r/actions/workflows/3/dispatches"]),
    ("workflow disable ci", &["PUT repos/o/r/actions/workflows/3/disable"]),
    ("gist create a.txt", &["POST gists"]),
    ("label list", &[]),
    ("label create l", &["POST repos/o/r/labels"]),
    ("search issues x", &[]),
    ("search repos x", &[]),
    ("secret list", &[]),
    ("secret set X --body y", &["PUT repos/o/r/actions/secrets/X"]),
    ("secret delete X", &["DELETE repos/o/r/actions/secrets/X"]),
    ("api user", &[]),
    ("api -X PATCH repos/o/r -f description=x", &["PATCH repos/o/r"]),
    ("api graphql -f query={viewer{login}}", &[]),
    ("api repos/o/r/issues -f title=x --silent -i", &["POST repos/o/r/issues"]),
];

/// Of these it is known that they read nothing but their repository.
const IN_ONE: [&str; 5] = ["pr list", "pr view 1", "pr diff 1", "issue list", "issue view 1"];

#[tokio::test]
async fn ordinary_commands_of_gh_work_and_what_each_changes_is_known() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    for (line, changes) in COMMANDS {
        day.forget();
        std::fs::write(day.path("work/a.txt"), "hello\n").unwrap();
        if line.contains("/issues -f") {
            // The stub has no such place: what counts is what was decided on.
            day.gh(&line.split(' ').collect::<Vec<_>>()).await;
        } else {
            day.works(line).await;
        }
        assert_eq!(day.changes(), *changes, "gh {line}");
        if IN_ONE.contains(line) {
            let repositories = day.repositories();
            assert!(
                repositories.iter().all(|repo| repo == "o/r" || repo.is_empty()),
                "gh {line}: {repositories:?}\n{:?}",
                day.stage.asked()
            );
        }
        for seen in day.host.seen() {
            assert_eq!(seen.header("authorization"), Some(&*format!("token {TOKEN}")), "{line}");
            assert!(!seen.headers.contains_key("cookie"));
        }
        let asked = day.stage.asked();
        assert!(asked.iter().all(|request| !format!("{request:?}").contains(TOKEN)));
    }
}

#[tokio::test]
async fn files_of_releases_and_logs_are_fetched_here_without_the_token() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    day.works("release download v1 -p a.txt").await;
    let file = std::fs::read_to_string(day.path("work/a.txt")).unwrap();
    assert_eq!(file, github_stub::FILE);
    let log = day.works("run view 7 --log").await;
    assert_eq!(log, "build\tone\t2024-01-01T00:00:00.0000000Z a line of the log\n");
    let seen = day.elsewhere.seen();
    let lines: Vec<_> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(lines, ["GET /file?signature=short-lived", "GET /logs?signature=short-lived"]);
    assert!(seen.iter().all(|seen| !seen.headers.contains_key("authorization")));
    assert_eq!(day.stage.refused(), []);
}

#[tokio::test]
async fn a_file_of_a_release_goes_up_unchanged() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    let bytes: Vec<u8> =
        (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(day.path("work/big.bin"), &bytes).unwrap();
    day.works("release upload v1 big.bin").await;
    let seen = day.host.seen();
    let up = seen.iter().find(|seen| seen.line.contains("/assets")).unwrap();
    assert_eq!(up.line, "POST /repos/o/r/releases/5/assets?label=&name=big.bin");
    assert!(up.body == bytes, "{} bytes", up.body.len());
}

#[tokio::test]
async fn a_renamed_repository_is_asked_for_anew_and_decided_on_anew() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    let out = day.works("api repos/o/old").await;
    assert!(out.contains("\"full_name\":\"o/r\""), "{out}");
    let asked: Vec<_> =
        day.stage.asked().iter().map(|asked| asked.parts[0].shown.clone()).collect();
    assert_eq!(asked, ["GET repos/o/old at github.com", "GET repositories/1 at github.com"]);
}

#[tokio::test]
async fn a_refusal_is_what_gh_prints() {
    if !has_gh() {
        return;
    }
    let day = Day::of(&["github.com"], |request| {
        let refused = Answer::Refused {
            rule: "merge".to_owned(),
            reason: "merging is for people".to_owned(),
            instead: Some("say that it is ready".to_owned()),
        };
        request
            .parts
            .iter()
            .map(|part| if part.changes { refused.clone() } else { Answer::Allowed })
            .collect()
    })
    .await;
    for (line, status) in [
        ("pr merge 1 --squash", 1),
        ("api -X DELETE repos/o/r", 1),
        ("release upload v1 a.txt --clobber", 1),
    ] {
        std::fs::write(day.path("work/a.txt"), "hello\n").unwrap();
        let output = day.gh(&line.split(' ').collect::<Vec<_>>()).await;
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{line}: {error}");
        let told = "refused by the broker: merging is for people: say that it is ready";
        assert!(error.contains(told), "{line}: {error}");
    }
    let changed = day.host.seen().iter().any(|seen| {
        !seen.line.starts_with("GET")
            && !text(&seen.body).contains("query ")
            && !seen.line.starts_with("HEAD")
    });
    assert!(!changed, "{:?}", day.host.seen());
}

#[tokio::test]
async fn other_hosts_are_out_of_reach() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    for line in [
        "api https://example.com/x",
        "api --hostname ghe.example user",
        "api https://github.com/o/r",
        "api https://uploads.github.com/user",
        "api https://api.github.com.example.com/user",
        "api https://api.github.com:8443/user",
        "pr list -R ghe.example/o/r",
    ] {
        let output = day.gh(&line.split(' ').collect::<Vec<_>>()).await;
        assert!(!output.status.success(), "{line}: {}", text(&output.stdout));
        assert!(
            text(&output.stderr).contains("refused by the broker"),
            "{line}: {}",
            text(&output.stderr)
        );
    }
    assert!(day.host.seen().is_empty(), "{:?}", day.host.seen());
}

#[tokio::test]
async fn an_enterprise_host_is_served_beneath_its_api() {
    if !has_gh() {
        return;
    }
    let day = Day::of(&["ghe.example"], |request| vec![Answer::Allowed; request.parts.len()]).await;
    day.works("api --hostname ghe.example user").await;
    day.works("pr view 1 -R ghe.example/o/r").await;
    let lines: Vec<_> = day.host.seen().iter().map(|seen| seen.line.clone()).collect();
    assert!(lines.contains(&"GET /api/v3/user".to_owned()), "{lines:?}");
    assert!(lines.contains(&"POST /api/graphql".to_owned()), "{lines:?}");
    let asked = day.stage.asked();
    let fact = |name| String::from_utf8(asked[0].parts[0].facts.get(name).to_bytes()).unwrap();
    assert_eq!((fact("endpoint"), fact("host")), ("user".to_owned(), "ghe.example".to_owned()));
    let output = day.gh(&["api", "https://ghe.example/o/r/settings"]).await;
    assert!(text(&output.stderr).contains("refused by the broker"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn gh_says_which_credential_is_not_there() {
    if !has_gh() {
        return;
    }
    let day = Day::new().await;
    std::fs::remove_file(day.path("token")).unwrap();
    let name = format!("file:{}", day.path("token").display());
    for (line, said) in [
        ("pr list", "Requires authentication (the broker has no log-in"),
        ("pr list", "which answers 401 Unauthorized: the credential "),
        ("pr create --title t --body b --base main --head fresh", "is not there, or empty"),
    ] {
        let output = day.gh(&line.split(' ').collect::<Vec<_>>()).await;
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{line}: {error}");
        assert!(error.contains(&name), "{line}: {error}");
    }
    // What is not there is not there, whoever asks.
    let output = day.gh(&["api", "repos/o/r"]).await;
    assert_eq!(text(&output.stderr), "gh: Not Found (HTTP 404)\n");
    std::fs::write(day.path("token"), TOKEN).unwrap();
    day.works("api repos/o/r").await;
    let output = day.gh(&["api", "nothing"]).await;
    assert!(!text(&output.stderr).contains("the broker"), "{}", text(&output.stderr));
}

//! Credentials: where they are read from, how long they are kept, and that nobody sees them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::let_underscore_must_use,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod stage;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tool_gate::credential::{Keeper, LONGEST, Run, Running, Secret, Task};
use tool_policy::definition::gate::Credential;
use zeroize::Zeroizing;

use stage::{Host, Stage, gate, text};
use tool_policy::definition::gate::Adapter;

/// Runs commands as a test does: the server's own way is its reaper.
struct Plain(Arc<AtomicUsize>);

impl Run for Plain {
    fn run<'a>(&'a self, task: Task<'a>) -> Running<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let mut command = Command::new(&task.words[0]);
        command.args(&task.words[1..]).env_clear().env("PATH", "/usr/bin:/bin");
        Box::pin(async move {
            let output = stage::run(command).await;
            match output.status.success() && output.stdout.len() <= task.longest {
                true => Ok(Zeroizing::new(output.stdout)),
                false => Err("it failed".to_owned()),
            }
        })
    }
}

fn command(words: &[&str], ttl: Duration) -> Credential {
    Credential::Command { words: words.iter().map(|word| (*word).to_owned()).collect(), ttl }
}

async fn value(keeper: &Keeper, credential: &Credential) -> Option<Vec<u8>> {
    keeper.get(credential).await.unwrap().map(|secret| secret.expose().to_vec())
}

#[tokio::test]
async fn a_file_is_read_anew_each_time_without_the_end_of_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let (keeper, credential) = (Keeper::default(), Credential::File(path.clone()));
    assert_eq!(value(&keeper, &credential).await, None, "where there is nothing there is none");
    for (content, wanted) in [
        ("one\n", "one"),
        ("two\r\n", "two"),
        ("three", "three"),
        (" four \n\n", " four "),
        ("five\nsix\n", "five\nsix"),
        ("", ""),
    ] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(value(&keeper, &credential).await.as_deref(), Some(wanted.as_bytes()));
    }
    std::fs::write(&path, "x".repeat(LONGEST)).unwrap();
    assert_eq!(value(&keeper, &credential).await.map(|value| value.len()), Some(LONGEST));
    std::fs::write(&path, "canary".repeat(LONGEST)).unwrap();
    let error = keeper.get(&credential).await.unwrap_err();
    assert!(error.to_string().contains("longer than") && !format!("{error:?}").contains("canary"));
    let directory = keeper.get(&Credential::File(dir.path().to_owned())).await.unwrap_err();
    assert!(directory.to_string().contains("not a file"), "{directory}");
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = keeper.get(&Credential::File(pipe)).await.unwrap_err();
    assert!(error.to_string().contains("not a file"), "a pipe does not hold us");
}

#[tokio::test]
async fn a_variable_is_the_servers_own() {
    let secret = Secret::new(Zeroizing::new(b"canary\n".to_vec()));
    let keeper = Keeper::new(HashMap::from([("TOKEN".to_owned(), secret)]), None);
    let named = |name: &str| Credential::Env(name.to_owned());
    assert_eq!(value(&keeper, &named("TOKEN")).await.as_deref(), Some(&b"canary"[..]));
    assert_eq!(value(&keeper, &named("OTHER")).await, None);
    let own = Keeper::of_process(None);
    assert_eq!(
        value(&own, &named("PATH")).await,
        std::env::var("PATH").ok().map(String::into_bytes)
    );
    for shown in [format!("{keeper:?}"), format!("{:?}", keeper.get(&named("TOKEN")).await)] {
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn what_a_command_prints_is_kept_as_long_as_it_is_good_and_no_longer() {
    let runs = Arc::new(AtomicUsize::new(0));
    let keeper = Keeper::new(HashMap::new(), Some(Arc::new(Plain(Arc::clone(&runs)))));
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    let written = |text: &str| std::fs::write(&token, text).unwrap();
    written("first\n");
    let words = ["cat", token.to_str().unwrap()];
    let lasting = command(&words, Duration::from_secs(3600));
    assert_eq!(value(&keeper, &lasting).await.as_deref(), Some(&b"first"[..]));
    written("second\n");
    assert_eq!(value(&keeper, &lasting).await.as_deref(), Some(&b"first"[..]));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // Another command, whose values are not good for long.
    let other = dir.path().join("other");
    std::fs::write(&other, "third\n").unwrap();
    let credential = command(&["cat", other.to_str().unwrap()], Duration::from_millis(400));
    assert_eq!(value(&keeper, &credential).await.as_deref(), Some(&b"third"[..]));
    std::fs::write(&other, "fourth\n").unwrap();
    tokio::time::sleep(Duration::from_millis(450)).await;
    assert_eq!(value(&keeper, &credential).await.as_deref(), Some(&b"fourth"[..]));
    tokio::time::sleep(Duration::from_millis(450)).await;
    std::fs::remove_file(&other).unwrap();
    let error = keeper.get(&credential).await.unwrap_err();
    assert!(error.to_string().contains("cat") && !error.to_string().contains("fourth"));
    for (words, why) in [(&["true"][..], "printed nothing"), (&["false"], "it failed")] {
        let error = keeper.get(&command(words, Duration::from_secs(1))).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let nobody = Keeper::default().get(&credential).await.unwrap_err();
    assert!(nobody.to_string().contains("no commands are run"), "{nobody}");
}

#[tokio::test]
async fn a_command_runs_once_for_all_who_wait() {
    let runs = Arc::new(AtomicUsize::new(0));
    let keeper = Arc::new(Keeper::new(HashMap::new(), Some(Arc::new(Plain(Arc::clone(&runs))))));
    let credential = command(&["sh", "-c", "sleep 0.2; echo canary"], Duration::from_secs(60));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (keeper, credential) = (Arc::clone(&keeper), credential.clone());
        waiting.spawn(async move { value(&keeper, &credential).await });
    }
    for value in waiting.join_all().await {
        assert_eq!(value.as_deref(), Some(&b"canary"[..]));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_given_up() {
    struct Hanging(Arc<AtomicUsize>);
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Run for Hanging {
        fn run<'a>(&'a self, _task: Task<'a>) -> Running<'a> {
            let ended = Ended(Arc::clone(&self.0));
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop(ended);
                Err(String::new())
            })
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let keeper = Keeper::new(HashMap::new(), Some(Arc::new(Hanging(Arc::clone(&ended)))));
    let error = keeper.get(&command(&["vault"], Duration::from_secs(1))).await.unwrap_err();
    assert!(error.to_string().contains("longer than 10 seconds"), "{error}");
    assert_eq!(ended.load(Ordering::SeqCst), 1, "and ended");
}

#[tokio::test]
async fn without_its_credential_a_request_goes_on_bare_or_not_at_all() {
    let host = Host::saying("ok").await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let mut with = gate(Adapter::Http, &["api.example.com"]);
    (with.upstream, with.credential) = (Some(host.url()), Some(Credential::File(path.clone())));
    let stage = Stage::new(vec![with]).await;
    let asked = async || {
        let output = stage.curl(&["-w", "%{http_code}", "http://api.example.com/"]).await;
        text(&output.stdout).to_owned()
    };
    // What is not there is not added: public things need no credential.
    assert_eq!(asked().await, "ok200");
    assert_eq!(host.seen()[0].header("authorization"), None);
    std::fs::write(&path, "canary\nx-other: 1\n").unwrap();
    let said = asked().await;
    assert!(said.ends_with("502") && said.contains("no header can have"), "{said}");
    assert!(!said.contains("canary"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(asked().await.ends_with("502"));
    assert_eq!(host.seen().len(), 1);
    let file: PathBuf = dir.path().join("open");
    std::fs::write(&file, "x").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Keeper::default().get(&Credential::File(file)).await.unwrap().is_some());
}

#[tokio::test]
async fn curl_says_which_credential_is_not_there() {
    let host = Host::start(|seen| {
        let status = seen.line.rsplit('/').next().unwrap().parse::<u16>().unwrap();
        let answer = hyper::Response::builder().status(status).header("content-encoding", "br");
        answer.body("what the host says".into()).unwrap()
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let mut with = gate(Adapter::Http, &["api.example.com"]);
    (with.upstream, with.credential) = (Some(host.url()), Some(Credential::File(path.clone())));
    let stage = Stage::new(vec![with]).await;
    let asked = async |args: &[&str], status: u16| {
        let url = format!("http://api.example.com/{status}");
        let output = stage.curl(&[args, &["-w", " %{http_code}", &url]].concat()).await;
        text(&output.stdout).to_owned()
    };
    for (status, canonical) in [(401, "401 Unauthorized"), (403, "403 Forbidden")] {
        let said = format!(
            "the broker has no log-in for api.example.com, which answers {canonical}: the credential file:{} is not there, or empty; tell who runs the broker\n {status}",
            path.display()
        );
        assert_eq!(asked(&[], status).await, said);
        let head = asked(&["-I"], status).await;
        assert!(head.contains(&format!("HTTP/1.1 {status}")) && !head.contains("broker"), "{head}");
    }
    for status in [200, 404, 500] {
        assert_eq!(asked(&[], status).await, format!("what the host says {status}"));
    }
    std::fs::write(&path, "canary").unwrap();
    assert_eq!(asked(&[], 403).await, "what the host says 403");
}

//! Large files through the gate, with git-lfs where there is one: links and tokens of
//! the files' host stay in the gate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests: what is not as it should be ends them"
)]

mod forge;
mod stage;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use forge::{FILES_TOKEN, Town, all, but, gits, holds_token};
use http_body_util::Full;
use hyper::Response;
use serde_json::{Value, json};
use stage::skipped::skipped;
use stage::{Host, text};

/// A host of files that wants its own token and none of another.
async fn storage() -> Host {
    let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
    Host::start(move |seen| {
        let (method, target) = seen.line.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap();
        let known = seen.headers.get("x-files").is_some_and(|value| value == FILES_TOKEN);
        assert!(known && query == "signature=canary-signature", "{seen:?}");
        assert!(!seen.headers.contains_key("authorization"), "{seen:?}");
        let mut files = files.lock().unwrap();
        let body = match method {
            "PUT" => {
                assert!(seen.headers.contains_key("content-length"), "{seen:?}");
                files.insert(path.to_owned(), seen.body.clone());
                Vec::new()
            }
            _ => files.get(path).cloned().unwrap_or_default(),
        };
        Response::new(Full::new(Bytes::from(body)))
    })
    .await
}

fn has_lfs() -> bool {
    let has = Path::new("/usr/bin/git-lfs").exists();
    if !has {
        skipped("git-lfs itself; requests by hand are tried", "git-lfs is not installed");
    }
    has
}

const FILTERS: [&str; 6] = [
    "-c",
    "filter.lfs.process=git-lfs filter-process",
    "-c",
    "filter.lfs.required=true",
    "-c",
    "filter.lfs.clean=git-lfs clean -- %f",
];

#[tokio::test]
async fn git_lfs_pushes_and_fetches_files_of_another_host() {
    if !has_lfs() {
        return;
    }
    for git in gits() {
        let town = Town::with(git, true, all(), |gate| gate.lfs = true).await;
        let files = storage().await;
        *town.forge.storage.lock().unwrap() = files.url();
        town.cloned().await;
        std::fs::write(town.path("work/.gitattributes"), "*.bin filter=lfs -text\n").unwrap();
        std::fs::write(town.path("work/a.bin"), vec![b'x'; 300_000]).unwrap();
        std::fs::write(town.path("work/b.bin"), "small").unwrap();
        let with = |args: &[&'static str]| [&FILTERS[..], args].concat();
        town.good(&with(&["add", "."]), "work").await;
        town.good(&with(&["commit", "-qm", "large"]), "work").await;
        town.good(&["lfs", "push", "origin", "main"], "work").await;
        // An ssh address of the host goes the same way, without ssh.
        let ssh = ["remote", "set-url", "origin", "git@github.com:o/r.git"];
        town.good(&ssh, "work").await;
        town.good(&["push", "-q", "origin", "main"], "work").await;
        assert!(town.forge.count("/info/lfs/come") >= 2, "{:?}", town.forge.lines());
        let clone = with(&["clone", "-q", "https://github.com/o/r", "again"]);
        town.good(&clone, ".").await;
        let came = std::fs::read(town.path("again/a.bin")).unwrap();
        assert!(came.len() == 300_000 && came.iter().all(|byte| *byte == b'x'));
        town.good(&["lfs", "lock", "a.bin"], "work").await;
        let shown: Vec<_> = town.pushed();
        assert_eq!(shown[0], "upload large files to github.com/o/r");
        for place in ["work", "again"] {
            assert!(!holds_token(&town.path(place)));
        }
        assert!(town.stage.refused().is_empty(), "{:?}", town.stage.refused());
    }
}

#[tokio::test]
async fn where_large_files_are_off_git_lfs_says_so() {
    let town = Town::new(gits()[0], all()).await;
    town.cloned().await;
    let url = "http://github.com/o/r.git/info/lfs/objects/batch";
    let output = town.stage.curl(&["-d", "{}", url]).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("lfs = true") && message.contains("refused by the broker"));
    assert_eq!(town.forge.count("/info/lfs"), 0);
    assert_eq!(town.stage.refused().len(), 1);
    if has_lfs() {
        std::fs::write(town.path("work/.gitattributes"), "*.bin filter=lfs -text\n").unwrap();
        std::fs::write(town.path("work/a.bin"), "large").unwrap();
        town.good(&[&FILTERS[..], &["add", "."]].concat(), "work").await;
        town.good(&[&FILTERS[..], &["commit", "-qm", "large"]].concat(), "work").await;
        let outcome = town.run(&["lfs", "push", "origin", "main"], "work").await;
        assert_ne!(outcome.code, 0);
        assert!(outcome.err.contains("lfs = true"), "{}", outcome.err);
    }
}

/// A batch, by hand.
async fn batch(town: &Town, operation: &str, repository: &str, oid: &str) -> Value {
    let objects = json!([{ "oid": oid, "size": 5 }]);
    let wanted = json!({ "operation": operation, "transfers": ["tus", "basic"],
        "objects": objects, "ref": { "name": "refs/heads/main" } });
    let url = format!("http://github.com/{repository}/info/lfs/objects/batch");
    let output = town.stage.curl(&["-d", &wanted.to_string(), &url]).await;
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn links_are_of_one_call_one_repository_and_one_direction() {
    let town = Town::with(gits()[0], true, all(), |gate| gate.lfs = true).await;
    let files = storage().await;
    *town.forge.storage.lock().unwrap() = files.url();
    let oid = "ab".repeat(32);
    let reply = batch(&town, "upload", "o/r.git", &oid).await;
    assert!(!reply.to_string().contains("canary"), "{reply}");
    let href = reply["objects"][0]["actions"]["upload"]["href"].as_str().unwrap().to_owned();
    assert!(href.starts_with("http://github.com/o/r.git/info/lfs/gate/"), "{href}");
    let code = ["-o", "/dev/null", "-w", "%{http_code}"];
    for (args, url) in [
        (vec!["-X", "GET"], href.clone()),
        (vec!["-X", "POST", "-d", "x"], href.clone()),
        (vec!["-X", "PUT", "-d", "x"], href.replace("o/r.git", "o/s.git")),
        (vec!["-X", "PUT", "-d", "x"], format!("{href}9")),
        (vec!["-X", "PUT", "-d", "x"], format!("{href}?x=1")),
        (vec!["-X", "PUT", "-d", "longer than five"], href.clone()),
    ] {
        let output = town.stage.curl(&[&code[..], &args, &[&url]].concat()).await;
        assert_eq!(text(&output.stdout), "403", "{args:?} {url}");
    }
    assert!(files.seen().is_empty());
    let output = town
        .stage
        .curl(
            &[&code[..], &["-H", "Expect: 100-continue", "-X", "PUT", "-d", "12345", &href]]
                .concat(),
        )
        .await;
    assert_eq!(text(&output.stdout), "200");
    let reply = batch(&town, "download", "o/r", &oid).await;
    let href = reply["objects"][0]["actions"]["download"]["href"].as_str().unwrap();
    let output = town.stage.curl(&[href]).await;
    assert_eq!(text(&output.stdout), "12345");
    // What goes on was written anew.
    let sent = town.forge.seen.lock().unwrap()[0].body.clone();
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(sent["transfers"], json!(["basic"]));
    // Another repository is refused in words of LFS, too.
    let listed = |gate: &mut tool_policy::definition::gate::Gate| {
        gate.lfs = true;
        gate.repositories = stage::patterns(&["o/s"]);
    };
    let town = Town::with(gits()[0], true, all(), listed).await;
    let reply = batch(&town, "download", "o/r", &oid).await;
    assert!(reply["message"].as_str().unwrap().contains("o/r is not a repository"), "{reply}");
    // Another call does not know the link.
    let other = Town::with(gits()[0], true, all(), |gate| gate.lfs = true).await;
    let output = other.stage.curl(&[&code[..], &[href]].concat()).await;
    assert_eq!(text(&output.stdout), "403");
}

#[tokio::test]
async fn uploads_need_a_push_and_the_rules() {
    let oid = "cd".repeat(32);
    let town = Town::with(gits()[0], false, all(), |gate| gate.lfs = true).await;
    let reply = batch(&town, "upload", "o/r", &oid).await;
    assert!(reply["message"].as_str().unwrap().contains("may fetch large files"), "{reply}");
    let reply = batch(&town, "download", "o/r", &oid).await;
    assert!(reply["objects"].is_array() && reply["objects"][0]["oid"] == json!(oid), "{reply}");
    for path in ["locks", "locks/1/unlock"] {
        let url = format!("http://github.com/o/r/info/lfs/{path}");
        let output = town.stage.curl(&["-d", "{}", &url]).await;
        assert!(text(&output.stdout).contains("refused by the broker"), "{path}");
    }
    let town = Town::with(gits()[0], true, but(|part| part.changes), |gate| gate.lfs = true).await;
    let reply = batch(&town, "upload", "o/r", &oid).await;
    assert!(reply["message"].as_str().unwrap().contains("this branch is kept"), "{reply}");
    assert_eq!(town.forge.count("/info/lfs"), 0);
}

/// A batch is a message that is read whole: what is longer or has more objects is not
/// taken, from the tool or from the host, and nobody waits for its end.
#[tokio::test]
async fn a_batch_that_is_too_large_is_refused_both_ways() {
    let oid = |at: usize| format!("{at:064x}");
    let object = |at: usize| json!({ "oid": oid(at), "size": 1 });
    let reply: Arc<Mutex<String>> = Arc::default();
    let said = Arc::clone(&reply);
    let host =
        Host::start(move |_| Response::new(Full::new(Bytes::from(said.lock().unwrap().clone()))))
            .await;
    let mut gate = stage::gate(tool_policy::definition::gate::Adapter::Git, &["github.com"]);
    gate.lfs = true;
    gate.upstream = Some(host.url());
    let stage = stage::Stage::of(
        vec![gate],
        tool_gate::upstream::Upstream::default(),
        false,
        tool_gate::serve::Came::Proxy,
        all(),
    )
    .await;
    let dir = tempfile::tempdir().unwrap();
    let ask = async |text: String| {
        let path = dir.path().join("batch");
        std::fs::write(&path, text).unwrap();
        let data = format!("@{}", path.display());
        let url = "http://github.com/o/r.git/info/lfs/objects/batch";
        let output = stage.curl(&["-H", "Expect:", "--data-binary", &data, url]).await;
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let wanted = |count: usize| {
        let objects: Vec<Value> = (0..count).map(object).collect();
        json!({ "operation": "download", "objects": objects })
    };
    let deep = format!("{}{}", "[".repeat(90_000), "]".repeat(90_000));
    let long = "x".repeat(300_000);
    for (text, why) in [
        (wanted(1001).to_string(), "is not what git-lfs sends"),
        (format!(r#"{{"x":"{long}"}}"#), "longer than the 262144 bytes"),
        (deep.clone(), "is not what git-lfs sends"),
    ] {
        let answer = ask(text).await;
        assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
    }
    assert!(host.seen().is_empty());
    let found = |at: usize| {
        let href = format!("https://files.example/{at}");
        json!({ "oid": oid(at), "actions": { "download": { "href": href } } })
    };
    let answer = |count: usize| {
        let all: Vec<Value> = (0..count).map(found).collect();
        json!({ "objects": all }).to_string()
    };
    let long = "x".repeat(5_000_000);
    for text in [
        answer(1001),
        format!(r#"{{"objects":[],"x":"{long}"}}"#),
        format!(r#"{{"objects":{deep}}}"#),
        r#"{"objects":[],"objects":[]}"#.to_owned(),
    ] {
        *reply.lock().unwrap() = text;
        let answer = ask(wanted(1).to_string()).await;
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("github.com answers what is no batch"), "{message}");
    }
    *reply.lock().unwrap() = answer(1000);
    let answer = ask(wanted(1000).to_string()).await;
    assert_eq!(answer["objects"].as_array().unwrap().len(), 1000);
    // What the host says beside is passed over, and a link of it is not too long.
    *reply.lock().unwrap() = json!({ "objects": [{ "oid": oid(0), "actions":
        { "download": { "href": format!("https://files.example/{}", "x".repeat(40_000)) } } }] })
    .to_string();
    let answer = ask(wanted(1).to_string()).await;
    let error = answer["objects"][0]["error"]["message"].as_str().unwrap();
    assert!(error.contains("a link that is none"), "{error}");
}

/// The host of files is named by a reply: in a private network it has to be listed.
#[tokio::test]
async fn files_in_a_private_network_are_of_hosts_that_are_listed() {
    struct Here;
    impl tool_gate::upstream::Resolve for Here {
        fn resolve<'a>(&'a self, _host: &'a str) -> tool_gate::upstream::resolve::Resolved<'a> {
            Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
        }
    }
    let files = Host::saying("inside").await;
    let oid = "ab".repeat(32);
    let href = format!("http://files.example:{}/x", files.address.port());
    let reply = json!({ "objects":
        [{ "oid": oid, "size": 5, "actions": { "download": { "href": href } } }] });
    let host = Host::start(move |_| Response::new(Full::new(Bytes::from(reply.to_string())))).await;
    for (hosts, goes) in [(&["github.com"][..], false), (&["github.com", "files.*"], true)] {
        let mut gate = stage::gate(tool_policy::definition::gate::Adapter::Git, hosts);
        gate.lfs = true;
        gate.upstream = Some(host.url());
        let upstream = tool_gate::upstream::Upstream::new(Arc::new(Here));
        let stage = stage::Stage::with(vec![gate], upstream, all()).await;
        let wanted = json!({ "operation": "download", "objects": [{ "oid": oid, "size": 5 }] });
        let url = "http://github.com/o/r/info/lfs/objects/batch";
        let output = stage.curl(&["-d", &wanted.to_string(), url]).await;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let href = answer["objects"][0]["actions"]["download"]["href"].as_str().unwrap();
        let output = stage.curl(&[href]).await;
        let said = text(&output.stdout);
        assert_eq!(said == "inside", goes, "{hosts:?}: {said}");
        assert_eq!(said.contains("a private address"), !goes, "{hosts:?}: {said}");
    }
    assert_eq!(files.seen().len(), 1);
}

//! An ordinary day of git through the gate: everything that reaches the forge works,
//! and the token is nowhere but at the forge.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tests: what is not as it should be ends them"
)]

mod forge;
mod stage;

use forge::{Town, all, gits, holds_token};

#[tokio::test]
async fn clone_fetch_pull_and_push_work_as_they_do_everywhere() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        town.good(&["clone", "-q", "git@github.com:o/r.git", "other"], ".").await;
        let first = town.commit("work", "two", "two\n").await;
        town.good(&["push"], "work").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), first);
        town.commit("other", "three", "three\n").await;
        let outcome = town.run(&["push"], "other").await;
        assert_eq!(outcome.code, 1, "it is behind: {outcome:?}");
        assert!(outcome.err.contains("fetch first"), "{}", outcome.err);
        town.good(&["pull", "-q", "--rebase"], "other").await;
        town.good(&["push"], "other").await;
        town.good(&["fetch", "-q", "--prune"], "work").await;
        town.good(&["checkout", "-q", "-b", "feature"], "work").await;
        town.commit("work", "four", "four\n").await;
        town.good(&["push", "-q", "-u", "origin", "feature"], "work").await;
        let refs = town.good(&["ls-remote", "ssh://git@github.com/o/r"], ".").await;
        assert!(refs.contains("refs/heads/feature"), "{refs}");
        town.good(&["tag", "-a", "-m", "v1", "v1"], "work").await;
        town.good(&["push", "-q", "origin", "v1", "--follow-tags"], "work").await;
        town.good(&["push", "-q", "origin", "--delete", "feature"], "work").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/feature"), "");
        town.good(&["fetch", "-q", "--prune"], "other").await;
        town.good(&["remote", "update"], "work").await;
        town.good(&["remote", "show", "origin"], "work").await;
        town.good(&["remote", "set-head", "origin", "-a"], "work").await;
        let config = std::fs::read_to_string(town.path("other/.git/config")).unwrap();
        assert!(config.contains("git@github.com:o/r.git"), "the true address stays: {config}");
        assert!(!holds_token(&town.path("work")) && !holds_token(&town.path("other")));
        assert!(town.stage.refused().is_empty(), "{:?}", town.stage.refused());
        // Every push of today is a fast-forward, new, or deletes.
        let forced: Vec<_> =
            town.pushed().into_iter().filter(|one| one.starts_with("force")).collect();
        assert!(forced.is_empty(), "{forced:?}");
    }
}

#[tokio::test]
async fn reading_is_decided_on_once_for_each_repository() {
    for git in gits() {
        let town = Town::with(git, false, all(), |_| {}).await;
        town.bare("o/s").await;
        town.cloned().await;
        town.good(&["fetch"], "work").await;
        town.good(&["ls-remote", "https://github.com/o/s"], ".").await;
        let asked = town.stage.asked();
        let shown: Vec<_> = asked.iter().map(|one| one.parts[0].shown.as_str()).collect();
        assert_eq!(shown, ["read github.com/o/r", "read github.com/o/s"]);
        assert!(asked.iter().all(|one| !one.parts[0].changes && one.subcommand.is_empty()));
        assert!(asked[0].credential.as_ref().is_some_and(|name| name.starts_with("file:")));
    }
}

#[tokio::test]
async fn submodules_shallow_and_partial_clones_work() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.bare("o/sub").await;
        town.cloned().await;
        let sub = ["submodule", "add", "-q", "https://github.com/o/sub.git", "sub"];
        town.good(&sub, "work").await;
        town.commit("work", "x", "with a submodule\n").await;
        town.good(&["push", "-q"], "work").await;
        let url = "https://github.com/o/r.git";
        town.good(&["clone", "-q", url, "again"], ".").await;
        town.good(&["submodule", "update", "--init", "-q"], "again").await;
        assert!(town.path("again/sub/one").exists());
        town.good(&["clone", "-q", "--depth=1", url, "shallow"], ".").await;
        assert_eq!(town.good(&["rev-list", "--count", "HEAD"], "shallow").await, "1");
        town.good(&["fetch", "-q", "--unshallow"], "shallow").await;
        assert_eq!(town.good(&["rev-list", "--count", "HEAD"], "shallow").await, "2");
        // Lazily: the file comes when it is shown.
        let partial = ["clone", "-q", "--filter=blob:none", "--no-checkout", url, "partial"];
        town.good(&partial, ".").await;
        let before = town.forge.count("POST /o/r.git/git-upload-pack");
        assert_eq!(town.good(&["show", "HEAD:one"], "partial").await, "one");
        assert!(town.forge.count("POST /o/r.git/git-upload-pack") > before);
        // From a shallow clone, too.
        town.good(&["clone", "-q", "--depth=1", url, "thin"], ".").await;
        let tip = town.commit("thin", "y", "from a shallow clone\n").await;
        town.good(&["push", "-q"], "thin").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip);
        let last = town.pushed().pop().unwrap();
        assert!(last.starts_with("move refs/heads/main on"), "{last}");
    }
}

#[tokio::test]
async fn large_pushes_stream_in_one_piece_or_many() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        let mut noise = Vec::new();
        let mut state = 1_u64;
        while noise.len() < 5 << 20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.extend(state.to_be_bytes());
        }
        std::fs::write(town.path("work/noise"), &noise).unwrap();
        let tip = town.commit("work", "small", "large\n").await;
        // Above http.postBuffer git asks first with `0000`, then sends pieces.
        town.good(&["push", "-q"], "work").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip);
        noise.reverse();
        std::fs::write(town.path("work/noise"), &noise).unwrap();
        let tip = town.commit("work", "small", "larger\n").await;
        town.good(&["-c", "http.postBuffer=20000000", "push", "-q"], "work").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip);
        assert!(town.stage.refused().is_empty());
    }
}

#[tokio::test]
async fn every_version_of_the_protocol_goes_through() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        for version in ["0", "1", "2"] {
            let version = format!("protocol.version={version}");
            let tip = town.commit("work", "two", &format!("{version}\n")).await;
            town.good(&["-c", &version, "push", "-q"], "work").await;
            town.good(&["-c", &version, "fetch", "-q"], "work").await;
            let refs = town.good(&["-c", &version, "ls-remote", "origin"], "work").await;
            assert!(refs.contains(&tip), "{refs}");
        }
        town.good(&["ls-remote", "-o", "an-option", "origin"], "work").await;
        town.good(&["push", "-q", "-o", "ci.skip", "origin", "HEAD:refs/heads/x"], "work").await;
        assert!(town.pushed().pop().unwrap().ends_with("with the option ci.skip"));
    }
}

#[tokio::test]
async fn many_refs_at_once_atomic_and_mirrored() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        for n in 0..60 {
            town.commit("work", "n", &format!("{n}\n")).await;
            if n % 20 == 19 {
                town.good(&["branch", &format!("b{n}")], "work").await;
            }
            town.good(&["tag", &format!("t{n}")], "work").await;
        }
        town.good(&["push", "-q", "--atomic", "--all"], "work").await;
        town.good(&["push", "-q", "--tags"], "work").await;
        assert!(!town.forge.tip("o/r", "refs/tags/t59").is_empty());
        // What asks for many commits goes compressed, and is passed on as it is.
        town.good(&["clone", "-q", "https://github.com/o/r", "tagged"], ".").await;
        let packed = |seen: &forge::Seen| {
            seen.line.ends_with("/git-upload-pack") && seen.headers.contains_key("content-encoding")
        };
        assert!(town.forge.seen.lock().unwrap().iter().any(packed));
        town.good(&["branch", "-q", "-D", "b19"], "work").await;
        town.good(&["push", "-q", "--prune", "origin", "refs/heads/*:refs/heads/*"], "work").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/b19"), "");
        town.good(&["clone", "-q", "--mirror", "https://github.com/o/r", "mirror"], ".").await;
        town.good(&["update-ref", "-d", "refs/heads/b39"], "mirror").await;
        town.good(&["push", "-q", "--mirror"], "mirror").await;
        assert_eq!(town.forge.tip("o/r", "refs/heads/b39"), "");
        // A ref of the forge that moved meanwhile is the forge's to refuse.
        let outcome =
            town.run(&["push", "--atomic", "origin", "main~1:main", "main:x"], "work").await;
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(!outcome.err.contains("refused by the broker"), "{}", outcome.err);
    }
}

#[tokio::test]
async fn sha256_repositories_are_pushed_to() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        let bare = town.forge.root.join("o/long.git");
        let bare = bare.to_str().unwrap();
        town.good(&["init", "-q", "--bare", "--object-format=sha256", "-b", "main", bare], ".")
            .await;
        town.good(&["-C", bare, "config", "http.receivepack", "true"], ".").await;
        town.good(&["init", "-q", "--object-format=sha256", "-b", "main", "long"], ".").await;
        town.good(&["remote", "add", "origin", "https://github.com/o/long"], "long").await;
        for text in ["one\n", "two\n"] {
            town.commit("long", "a", text).await;
            town.good(&["push", "-q", "origin", "main"], "long").await;
        }
        let last = town.pushed().pop().unwrap();
        assert!(last.starts_with("move refs/heads/main on"), "{last}");
    }
}

//! Whether a push drops commits is told by the commits themselves.
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

use forge::{Town, all, but, gits, is_so};

/// What the last push was shown as, in its first words.
fn last(town: &Town) -> String {
    let shown = town.pushed().pop().expect("a push");
    shown.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_rewritten_branch_is_forced_and_one_that_goes_on_is_not() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        let push = ["push", "-q", "--force", "origin", "HEAD:main"];
        for text in ["a\n", "b\n", "c\n"] {
            town.commit("work", "two", text).await;
        }
        // The word is not what counts.
        town.good(&push, "work").await;
        assert_eq!(last(&town), "move refs/heads/main");
        town.good(&["commit", "-q", "--amend", "-m", "other"], "work").await;
        town.good(&push, "work").await;
        assert_eq!(last(&town), "force refs/heads/main");
        // Back to what it was before: nothing is sent but the command.
        town.good(&["reset", "-q", "--hard", "HEAD~1"], "work").await;
        town.good(&push, "work").await;
        assert_eq!(last(&town), "force refs/heads/main");
        // On again, by commits that the forge has already under another name.
        let tip = town.commit("work", "two", "d\n").await;
        town.good(&["push", "-q", "origin", "HEAD:feature"], "work").await;
        assert_eq!(last(&town), "make refs/heads/feature");
        town.good(&push, "work").await;
        assert_eq!(last(&town), "move refs/heads/main", "the forge was asked");
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip);
        // A merge, whose one side the forge has and whose other leads to main.
        town.good(&["checkout", "-q", "-b", "side", "HEAD~2"], "work").await;
        town.commit("work", "side", "side\n").await;
        town.good(&["push", "-q", "origin", "side"], "work").await;
        town.good(&["merge", "-q", "-m", "merge", "origin/main"], "work").await;
        town.good(&["push", "-q", "origin", "HEAD:main"], "work").await;
        assert_eq!(last(&town), "move refs/heads/main");
        town.good(&["push", "-q", "origin", "side"], "work").await;
        assert_eq!(last(&town), "move refs/heads/side");
        // Another history altogether.
        town.good(&["checkout", "-q", "--orphan", "new"], "work").await;
        town.commit("work", "new", "new\n").await;
        town.good(&push, "work").await;
        assert_eq!(last(&town), "force refs/heads/main");
    }
}

#[tokio::test]
async fn a_forge_without_filters_is_asked_too() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        let bare = town.forge.root.join("o/r.git");
        let off = ["-C", bare.to_str().unwrap(), "config", "uploadpack.allowFilter", "false"];
        town.good(&off, ".").await;
        town.cloned().await;
        town.commit("work", "two", "a\n").await;
        town.good(&["push", "-q", "origin", "HEAD:feature"], "work").await;
        town.good(&["push", "-q", "origin", "HEAD:main"], "work").await;
        assert_eq!(last(&town), "move refs/heads/main");
    }
}

#[tokio::test]
async fn a_forced_push_is_refused_whatever_it_is_called() {
    for git in gits() {
        let town = Town::new(git, but(|part| is_so(part, "force"))).await;
        town.cloned().await;
        town.commit("work", "two", "a\n").await;
        town.good(&["push", "-q"], "work").await;
        let tip = town.forge.tip("o/r", "refs/heads/main");
        town.good(&["commit", "-q", "--amend", "-m", "other"], "work").await;
        for push in [
            &["push", "--force"][..],
            &["push", "--force-with-lease"],
            &["push", "origin", "+HEAD:main"],
            &["-c", "remote.origin.push=+HEAD:main", "push"],
            &["push", "--mirror"],
        ] {
            let outcome = town.run(push, "work").await;
            assert_eq!(outcome.code, 1, "{push:?}: {outcome:?}");
            assert!(outcome.err.contains("[remote rejected]"), "{}", outcome.err);
            assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip, "{push:?}");
        }
        // A tag has no history: another value is forced.
        town.good(&["tag", "v1", "origin/main"], "work").await;
        town.good(&["push", "-q", "origin", "v1"], "work").await;
        town.good(&["tag", "-f", "v1", "HEAD"], "work").await;
        let outcome = town.run(&["push", "-f", "origin", "v1"], "work").await;
        assert_eq!(outcome.code, 1, "{outcome:?}");
        // To delete is another fact.
        town.good(&["push", "-q", "origin", "--delete", "v1"], "work").await;
    }
}

#[tokio::test]
async fn many_commits_and_deltas_of_commits_are_followed() {
    for git in gits() {
        let town = Town::new(git, all()).await;
        town.cloned().await;
        // Long messages that are nearly the same: git stores one by the other.
        let mut script = String::new();
        let text = "the same words again and again\n".repeat(40);
        for n in 0..400 {
            script.push_str(&format!(
                "commit refs/heads/main\ncommitter c <c@example.com> {n} +0000\ndata {}\n{n}\n{text}",
                format!("{n}\n{text}").len()
            ));
            if n == 0 {
                script.push_str("from refs/heads/main^0\n");
            }
            let file = format!("{n}\n");
            script.push_str(&format!("M 644 inline n\ndata {}\n{file}\n", file.len()));
        }
        std::fs::write(town.path("script"), script).unwrap();
        let mut import = std::process::Command::new("/bin/sh");
        import.args(["-ec", "exec \"$0\" fast-import --quiet <../script", git]);
        import.current_dir(town.path("work"));
        let imported = forge::output(import).await;
        assert_eq!(imported.code, 0, "{imported:?}");
        town.good(&["repack", "-q", "-a", "-d", "-f", "--depth=50"], "work").await;
        town.good(&["push", "-q", "origin", "main"], "work").await;
        assert_eq!(last(&town), "move refs/heads/main");
        let asked = town.forge.count("POST /o/r.git/git-upload-pack");
        town.good(&["commit", "-q", "--amend", "-m", "other"], "work").await;
        town.good(&["push", "-q", "-f", "origin", "main"], "work").await;
        assert_eq!(last(&town), "force refs/heads/main");
        assert!(town.forge.count("POST /o/r.git/git-upload-pack") > asked);
    }
}

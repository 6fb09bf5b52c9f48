//! The shipped rules of git, decided on the wire by what pushes really do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests: what is not as it should be ends them"
)]

mod forge;
mod stage;

use forge::{Decide, Town, gits};
use tool_gate::Answer;
use tool_policy::{Decision, Definition, Wire};

/// tools.d/git, with a gate; what asks is refused.
fn shipped() -> Decide {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools.d/git");
    let text = std::fs::read_to_string(format!("{dir}/tool.toml")).unwrap();
    let grammar = std::fs::read_to_string(format!("{dir}/grammar.toml")).unwrap();
    let gate = "\n[[gate]]\nadapter = \"git\"\nhosts = [\"github.com\"]\n";
    // Its examples are about calls; what they come to is not looked at here.
    let parts = text.split("\n[[").filter(|part| !part.starts_with("example]]"));
    let text = parts.collect::<Vec<_>>().join("\n[[");
    let text = if text.contains("\n[[gate]]") { text } else { text + gate };
    let definition = Definition::from_toml("git", &text, Some(&grammar)).unwrap();
    Box::new(move |request| {
        let each = |part: &tool_gate::Part| {
            let wire = Wire {
                subcommand: request.subcommand,
                facts: &part.facts,
                changes: part.changes,
                default: Decision::Allow,
                line: 1,
            };
            let verdict = definition.policy.judge_wire(&wire, None);
            match verdict.decision {
                Decision::Allow => Answer::Allowed,
                _ => Answer::Refused {
                    rule: format!("{} {}", verdict.decision.as_str(), verdict.rule.as_str()),
                    reason: verdict.reason.unwrap_or_default().into_owned(),
                    instead: verdict.instead.map(|instead| instead.to_string()),
                },
            }
        };
        request.parts.iter().map(each).collect()
    })
}

#[tokio::test]
async fn the_shipped_rules_hold_for_what_a_push_really_does() {
    for git in gits() {
        let town = Town::new(git, shipped()).await;
        town.cloned().await;
        town.commit("work", "two", "two\n").await;
        town.good(&["branch", "base", "HEAD~1"], "work").await;
        let ruled = async |args: &[&str]| {
            let outcome = town.run(args, "work").await;
            let rule = outcome.err.lines().find_map(|line| line.strip_prefix("remote: rule: "));
            let rule = rule.map(|rule| rule.trim().to_owned());
            assert_eq!(outcome.code, i32::from(rule.is_some()), "{args:?}: {outcome:?}");
            rule.unwrap_or_default()
        };
        assert_eq!(ruled(&["push", "origin", "HEAD:feature"]).await, "");
        assert_eq!(ruled(&["push", "origin", "HEAD:main"]).await, "ask push-protected");
        assert_eq!(ruled(&["push", "origin", "HEAD:release/1"]).await, "ask push-protected");
        assert_eq!(ruled(&["push", "origin", "base:main"]).await, "");
        town.commit("work", "three", "three\n").await;
        assert_eq!(ruled(&["push", "origin", "HEAD:feature"]).await, "");
        // Forced only in name.
        town.commit("work", "three", "four\n").await;
        assert_eq!(ruled(&["push", "-f", "origin", "HEAD:feature"]).await, "");
        assert_eq!(ruled(&["push", "-f", "origin", "base:feature"]).await, "ask push-force");
        town.good(&["checkout", "-q", "--orphan", "other"], "work").await;
        town.commit("work", "three", "other\n").await;
        let main = ruled(&["push", "-f", "origin", "HEAD:main"]).await;
        assert_eq!(main, "deny push-force-protected");
        assert_eq!(ruled(&["push", "origin", ":main"]).await, "deny push-delete-protected");
        assert_eq!(ruled(&["push", "origin", ":feature"]).await, "ask push-delete");
        // By a configuration that no argument shows.
        town.good(&["config", "remote.origin.push", "+HEAD:refs/heads/main"], "work").await;
        town.good(&["config", "push.followTags", "true"], "work").await;
        assert_eq!(ruled(&["push"]).await, "deny push-force-protected");
        town.good(&["tag", "-m", "v1", "v1", "base"], "work").await;
        assert_eq!(ruled(&["push", "origin", "v1"]).await, "ask push-tags");
    }
}

#[tokio::test]
async fn a_ref_or_an_option_that_means_more_to_a_host_asks() {
    for git in gits() {
        let town = Town::new(git, shipped()).await;
        town.cloned().await;
        town.commit("work", "two", "two\n").await;
        let ruled = async |args: &[&str]| {
            let outcome = town.run(args, "work").await;
            let rule = outcome.err.lines().find_map(|line| line.strip_prefix("remote: rule: "));
            let rule = rule.map(|rule| rule.trim().to_owned());
            assert_eq!(outcome.code, i32::from(rule.is_some()), "{args:?}: {outcome:?}");
            rule.unwrap_or_default()
        };
        for name in [
            "refs/for/main",
            "refs/for/main/topic",
            "refs/for/main%submit",
            "refs/for-review/main",
            "refs/drafts/release/1",
            "refs/publish/main",
            "refs/changes/01/1/1",
            "refs/meta/config",
            "refs/pull/1/head",
            "refs/merge-requests/1/head",
            "refs/heads-of/main",
            "refs/remotes/origin/main",
            "refs/stash/x",
        ] {
            let to = format!("HEAD:{name}");
            assert_eq!(ruled(&["push", "origin", &to]).await, "ask push-other-ref", "{name}");
            let also = ["push", "origin", "HEAD:refs/heads/feature", &to];
            assert_eq!(ruled(&also).await, "ask push-other-ref", "{name}");
            assert_eq!(town.forge.tip("o/r", name), "");
        }
        assert_eq!(town.forge.tip("o/r", "refs/heads/feature"), "");
        assert_eq!(ruled(&["push", "origin", "HEAD:refs/notes/commits"]).await, "");
        // Of an argument, and of a configuration that no argument shows.
        let merge = "merge_request.merge_when_pipeline_succeeds";
        for options in [&[merge][..], &["a", "b", "c", merge], &[""]] {
            let mut args = vec!["push", "origin", "HEAD:feature"];
            args.extend(options.iter().flat_map(|option| ["-o", option]));
            assert_eq!(ruled(&args).await, "ask push-option", "{options:?}");
        }
        // What the line of a ref leaves out is in lines of its own.
        let long = format!("x={}", "y".repeat(200));
        let name = format!("refs/heads/{}", "n".repeat(210));
        let to = format!("HEAD:{name}");
        let options = ["ci.skip", "a", "b", "merge_request.create", &long];
        let mut args = vec!["push", "origin", &to];
        args.extend(options.iter().flat_map(|option| ["-o", option]));
        assert_eq!(ruled(&args).await, "ask push-option");
        let asked = town.stage.asked().pop().unwrap();
        let mut lines = options.map(|option| format!("with the option {option}")).to_vec();
        lines.push(format!("a ref's name in full is {name}"));
        assert_eq!(asked.beside, lines);
        town.good(&["config", "push.pushOption", "repo.private=false"], "work").await;
        assert_eq!(ruled(&["push", "origin", "HEAD:feature"]).await, "ask push-option");
        let none = ["-c", "push.pushOption=", "push", "origin", "HEAD:feature"];
        assert_eq!(ruled(&none).await, "");
    }
}

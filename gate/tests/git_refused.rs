//! Pushes that are refused: git says so as of a host's own refusal, and nothing of
//! them reaches the forge.
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

use forge::{Town, all, but, gits, is_ref};

#[tokio::test]
async fn a_refused_ref_is_shown_as_the_host_would_refuse_it() {
    for git in gits() {
        let town = Town::new(git, but(|part| is_ref(part, "main"))).await;
        town.cloned().await;
        town.commit("work", "two", "two\n").await;
        let before = town.forge.tip("o/r", "refs/heads/main");
        let outcome = town.run(&["push", "origin", "main", "main:feature"], "work").await;
        assert_eq!(outcome.code, 1, "{outcome:?}");
        for said in [
            "! [remote rejected] main -> main (refused by the broker: this branch is kept)",
            "! [remote rejected] main -> feature (not pushed: another ref of this push was refused)",
            "remote: refused by the broker: this branch is kept",
            "remote: rule: test-rule",
            "remote: instead: push another one",
        ] {
            assert!(outcome.err.contains(said), "{said}\n{}", outcome.err);
        }
        assert!(!outcome.err.contains("RPC failed"), "{}", outcome.err);
        let porcelain = town.run(&["push", "--porcelain", "origin", "main"], "work").await;
        assert!(porcelain.out.contains("!\trefs/heads/main:refs/heads/main\t[remote rejected]"));
        let outcome = town.run(&["push", "--atomic", "origin", "main", "main:x"], "work").await;
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.err.contains("[remote rejected] main -> main"), "{}", outcome.err);
        let quiet = town.run(&["push", "-q", "origin", "main"], "work").await;
        assert_eq!(quiet.code, 1, "{quiet:?}");
        let deleted = town.run(&["push", "origin", ":main"], "work").await;
        assert!(deleted.err.contains("[remote rejected] main (refused"), "{}", deleted.err);
        assert_eq!(town.forge.count("POST /o/r.git/git-receive-pack"), 0);
        assert_eq!(town.forge.tip("o/r", "refs/heads/main"), before);
        assert_eq!(town.forge.tip("o/r", "refs/heads/feature"), "");
        // The branch that was not refused can go alone, and git knows what is there.
        town.good(&["push", "-q", "origin", "main:feature"], "work").await;
        let known = town.good(&["rev-parse", "origin/main"], "work").await;
        assert_eq!(known, before);
    }
}

#[tokio::test]
async fn a_large_push_that_is_refused_is_shown_so_too() {
    for git in gits() {
        let town = Town::new(git, but(|part| is_ref(part, "main"))).await;
        town.cloned().await;
        let noise: Vec<u8> = (0..3_000_000_u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[n as usize % 3])
            .collect();
        std::fs::write(town.path("work/noise"), noise).unwrap();
        town.commit("work", "two", "two\n").await;
        for buffer in ["http.postBuffer=65536", "http.postBuffer=50000000"] {
            let outcome = town.run(&["-c", buffer, "push"], "work").await;
            assert_eq!(outcome.code, 1, "{outcome:?}");
            assert!(outcome.err.contains("! [remote rejected] main -> main"), "{}", outcome.err);
            assert!(!outcome.err.contains("RPC failed"), "{}", outcome.err);
        }
        assert_eq!(town.forge.count("POST /o/r.git/git-receive-pack"), 0);
    }
}

#[tokio::test]
async fn a_call_that_may_fetch_cannot_push() {
    for git in gits() {
        let town = Town::with(git, false, all(), |_| {}).await;
        town.cloned().await;
        town.commit("work", "two", "two\n").await;
        let outcome = town.run(&["push"], "work").await;
        assert_ne!(outcome.code, 0);
        assert!(
            outcome.err.contains("remote: refused by the broker: this call may fetch and not push"),
            "{}",
            outcome.err
        );
        // A hook that leaves the question out and sends a push at once.
        let push = town.stage.curl(&[
            "-H",
            "Content-Type: application/x-git-receive-pack-request",
            "--data-binary",
            "0000",
            "http://github.com/o/r/git-receive-pack",
        ]);
        let push = push.await;
        assert!(stage::text(&push.stdout).contains("this call may fetch"), "{push:?}");
        assert_eq!(town.forge.count("receive-pack"), 0);
        assert_eq!(town.stage.refused().len(), 2);
    }
}

#[tokio::test]
async fn another_repository_is_refused_before_the_forge_hears_of_it() {
    for git in gits() {
        let town = Town::with(git, true, all(), |gate| {
            gate.repositories = stage::patterns(&["o/r", "team/*"]);
        })
        .await;
        town.bare("o/secret").await;
        town.bare("O/R").await;
        town.bare("team/sub/x").await;
        town.good(&["ls-remote", "https://github.com/O/R.git"], ".").await;
        town.good(&["ls-remote", "https://github.com/team/sub/x"], ".").await;
        let before = town.forge.lines().len();
        for url in ["https://github.com/o/secret", "https://github.com/o/r2"] {
            let outcome = town.run(&["ls-remote", url], ".").await;
            assert_eq!(outcome.code, 128, "{outcome:?}");
            assert!(
                outcome.err.contains("remote: refused by the broker: ")
                    && outcome.err.contains("is not a repository that this tool may reach"),
                "{}",
                outcome.err
            );
        }
        let other = town.run(&["ls-remote", "http://example.com/o/r"], ".").await;
        assert!(other.err.contains("not a host that this tool may reach"), "{}", other.err);
        // A listed repository is no way to another, however the path is written.
        for path in [
            "/o/r/../secret/info/refs",
            "/o/r/%2e%2e/secret/info/refs",
            "/o/r/..%2fsecret/info/refs",
            "/o/r//../secret/info/refs",
            "/o/./secret/info/refs",
            "//o/secret/info/refs",
            "/o/r/..;/secret/info/refs",
            "/o/r\\..\\secret/info/refs",
            "/o/s%65cret/info/refs",
            "/o/secret%2egit/info/refs",
            "/o/r.git/../../o/secret/info/refs",
            "/o/secret/.git/info/refs",
            "/team/../o/secret/info/refs",
            "/team/%2e%2e/o/secret/info/refs",
            "/team/x.git/../../o/secret/info/refs",
        ] {
            let url = format!("http://github.com{path}?service=git-upload-pack");
            let args = ["--path-as-is", "-g", "-o", "/dev/null", "-w", "%{http_code}", &url];
            let output = town.stage.curl(&args).await;
            let code = stage::text(&output.stdout).to_owned();
            assert!(matches!(code.as_str(), "400" | "403"), "{path}: {code}");
        }
        // Nor is a path of the dumb protocol, or anything else of the site.
        for path in [
            "/o/r/HEAD",
            "/o/r.git/objects/info/packs",
            "/o/r.git/config",
            "/o/r/info/refs",
            "/o/r/info/refs?service=git-upload-archive",
            "/o/r/info/refs?service=git-upload-pack&service=git-receive-pack",
            "/o/r/settings",
            "/o/r/git-upload-archive",
            "/login",
            "/",
        ] {
            let url = format!("http://github.com{path}");
            let args = ["-o", "/dev/null", "-w", "%{http_code}", &url];
            let output = town.stage.curl(&args).await;
            assert_eq!(stage::text(&output.stdout), "403", "{path}");
        }
        assert_eq!(town.forge.lines().len(), before, "{:?}", town.forge.lines());
    }
}

#[tokio::test]
async fn a_push_that_could_be_read_differently_never_goes_on() {
    let town = Town::new(gits()[0], all()).await;
    let tip = town.forge.tip("o/r", "refs/heads/main");
    let zero = "0".repeat(40);
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let delete = |name: &str| format!("{tip} {zero} {name}");
    let first = |name: &str| line(&format!("{}\0report-status", delete(name)));
    for (what, body) in [
        ("a second list", format!("{}0000{}0000", first("refs/heads/x"), first("refs/heads/main"))),
        ("a list behind the question", format!("0000{}0000", first("refs/heads/main"))),
        ("a delimiter", format!("{}0001{}0000", first("refs/heads/x"), first("refs/heads/main"))),
        ("no end", first("refs/heads/main")),
        ("a name that climbs", format!("{}0000", first("refs/heads/x/../main"))),
        ("a name with a newline", format!("{}0000", first("refs/heads/x\nrefs/heads/main"))),
        ("a name with a blank", format!("{}0000", first("refs/heads/main "))),
        ("HEAD", format!("{}0000", first("HEAD"))),
        (
            "a name twice",
            format!("{}{}0000", first("refs/heads/main"), line(&delete("refs/heads/main"))),
        ),
        (
            "capabilities in the second line",
            format!(
                "{}{}0000",
                first("refs/heads/x"),
                line(&format!("{}\0push-options", delete("refs/heads/y")))
            ),
        ),
        (
            "a certificate behind commands",
            format!("{}{}0000", first("refs/heads/x"), line("push-cert\0")),
        ),
        ("no pack", {
            let make = format!("{zero} {tip} refs/heads/y\0report-status");
            format!("{}0000{}", line(&make), first("refs/heads/main"))
        }),
    ] {
        let file = town.path("body");
        std::fs::write(&file, body).unwrap();
        let data = format!("@{}", file.display());
        for coded in [None, Some("Content-Encoding: gzip")] {
            let mut args = vec!["-H", "Content-Type: application/x-git-receive-pack-request"];
            args.extend(coded.iter().flat_map(|header| ["-H", header]));
            args.extend(["--data-binary", &data, "-o", "/dev/null", "-w", "%{http_code}"]);
            args.push("http://github.com/o/r/git-receive-pack");
            let output = town.stage.curl(&args).await;
            let code = stage::text(&output.stdout);
            assert!(matches!(code, "400" | "403"), "{what}: {code}");
        }
    }
    assert_eq!(town.forge.count("git-receive-pack"), 0, "{:?}", town.forge.lines());
    assert!(town.pushed().is_empty(), "{:?}", town.pushed());
    assert_eq!(town.forge.tip("o/r", "refs/heads/main"), tip);
}

#[tokio::test]
async fn a_signed_push_is_read_in_its_certificate() {
    for git in gits() {
        let town = Town::new(git, but(|part| is_ref(part, "main"))).await;
        town.cloned().await;
        let mut keygen = std::process::Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(town.path("key"));
        assert_eq!(forge::output(keygen).await.code, 0);
        let key = format!("user.signingkey={}", town.path("key").display());
        let signed = ["-c", "gpg.format=ssh", "-c", &key, "push", "--signed", "origin"];
        town.commit("work", "two", "two\n").await;
        let outcome = town.run(&[&signed[..], &["main"]].concat(), "work").await;
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.err.contains("! [remote rejected] main -> main"), "{}", outcome.err);
        assert_eq!(town.forge.count("POST /o/r.git/git-receive-pack"), 0);
        let outcome = town.run(&[&signed[..], &["main:feature"]].concat(), "work").await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(!town.forge.tip("o/r", "refs/heads/feature").is_empty());
    }
}

#[tokio::test]
async fn what_the_forge_refuses_is_shown_and_never_asks_for_a_password() {
    for git in gits() {
        let town = Town::with(git, true, all(), |_| {}).await;
        let gone = town.run(&["ls-remote", "https://github.com/o/none"], ".").await;
        assert!(gone.err.contains("not found"), "{}", gone.err);
        std::fs::write(town.path("token"), "another\n").unwrap();
        let outcome = town.run(&["ls-remote", "https://github.com/o/r"], ".").await;
        assert_eq!(outcome.code, 128);
        let said = "remote: refused by the broker: github.com refuses the credential file:";
        assert!(outcome.err.contains(said), "{}", outcome.err);
        for asked in ["Username", "Password", "terminal prompts", "Authentication failed"] {
            assert!(!outcome.err.contains(asked), "{}", outcome.err);
        }
        // A credential of the caller's own goes nowhere.
        let own = "http.extraHeader=Authorization: Basic b3du";
        town.run(&["-c", own, "ls-remote", "https://own:pw@github.com/o/r"], ".").await;
        let seen = town.forge.seen.lock().unwrap();
        let all = seen.iter().flat_map(|seen| seen.headers.get_all("authorization"));
        let mut others = all.filter(|value| value.as_bytes() == b"Basic b3du");
        assert!(others.next().is_none());
    }
}

#[tokio::test]
async fn a_repository_that_has_moved_is_named_and_not_followed() {
    for git in gits() {
        let host = stage::Host::start(|_| {
            let to = "https://github.com/new/name.git/info/refs?service=git-upload-pack";
            let answer = hyper::Response::builder().status(301).header("Location", to);
            answer.body(http_body_util::Full::default()).unwrap()
        })
        .await;
        let url = host.url();
        let town = Town::with(git, true, all(), |gate| gate.upstream = Some(url)).await;
        let outcome = town.run(&["ls-remote", "https://github.com/o/r"], ".").await;
        assert_eq!(outcome.code, 128);
        let said = "remote: refused by the broker: github.com has this repository at another place, new/name:";
        assert!(outcome.err.contains(said), "{}", outcome.err);
        assert_eq!(host.seen().len(), 1);
    }
}

#[tokio::test]
async fn each_repository_has_the_credential_of_its_own_gate() {
    let town = Town::of(gits()[0], true, all(), |gate| {
        let mut public = gate.clone();
        public.credential = None;
        public.repositories = stage::patterns(&["public/*"]);
        let mut own = gate;
        own.repositories = stage::patterns(&["o/*"]);
        vec![public, own]
    })
    .await;
    town.good(&["ls-remote", "https://github.com/o/r"], ".").await;
    for path in ["public/x", "Public/../o/r", "other/x"] {
        let url = format!("http://github.com/{path}/info/refs?service=git-upload-pack");
        town.stage.curl(&["--path-as-is", &url]).await;
    }
    let seen = town.forge.seen.lock().unwrap();
    let known = |line: &str| line.contains("/o/r/");
    assert_eq!(seen.len(), 3, "{:?}", seen.iter().map(|one| &one.line).collect::<Vec<_>>());
    for one in seen.iter() {
        assert_eq!(one.headers.contains_key("authorization"), known(&one.line), "{}", one.line);
    }
}

/// Where a host wants a credential that is not there, git says which one: it would ask
/// for a password at 401, and only find nothing at 404.
#[tokio::test]
async fn git_says_which_credential_is_not_there() {
    for git in gits() {
        let town = Town::with(git, true, all(), |gate| gate.lfs = true).await;
        town.cloned().await;
        town.commit("work", "two", "two\n").await;
        for content in [None, Some("\n")] {
            match content {
                None => std::fs::remove_file(town.path("token")).unwrap(),
                Some(text) => std::fs::write(town.path("token"), text).unwrap(),
            }
            let said = format!(
                "remote: the broker has no log-in for github.com, which answers 401 Unauthorized: the credential file:{} is not there, or empty; tell who runs the broker",
                town.path("token").display()
            );
            for args in [&["ls-remote", "origin"][..], &["fetch"], &["push"]] {
                let outcome = town.run(args, "work").await;
                assert_eq!(outcome.code, 128, "{outcome:?}");
                assert!(outcome.err.contains(&said), "{}", outcome.err);
                for asked in ["Username", "Password", "terminal prompts", "RPC failed"] {
                    assert!(!outcome.err.contains(asked), "{}", outcome.err);
                }
            }
            let url = "http://github.com/o/r.git/info/lfs/objects/batch";
            let batch = r#"{"operation":"download","objects":[]}"#;
            let output = town.stage.curl(&["-d", batch, url]).await;
            assert!(stage::text(&output.stdout).contains("is not there, or empty"), "{output:?}");
        }
        let host = stage::Host::start(|_| {
            hyper::Response::builder().status(404).body("Repository not found.".into()).unwrap()
        })
        .await;
        let gone = Town::with(git, true, all(), |gate| {
            gate.upstream = Some(host.url());
            gate.credential =
                Some(tool_policy::definition::gate::Credential::File("/nonexistent/token".into()));
        })
        .await;
        let outcome = gone.run(&["ls-remote", "https://github.com/o/r"], ".").await;
        let said = "which answers 404 Not Found: the credential file:/nonexistent/token is";
        assert!(outcome.code == 128 && outcome.err.contains(said), "{outcome:?}");
        // Where it is there, what the host says is what git says.
        let there = Town::with(git, true, all(), |gate| gate.upstream = Some(host.url())).await;
        let outcome = there.run(&["ls-remote", "https://github.com/o/r"], ".").await;
        assert!(!outcome.err.contains("the broker"), "{outcome:?}");
    }
}

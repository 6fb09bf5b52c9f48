//! Real git on real repositories, natively and through the broker: the same
//! output, the same files.

use std::fs;
use std::path::Path;
use std::process::Command;

use tool_broker_tests::twin::Twin;
use tool_broker_tests::{Server, run};

const DEFINITION: &str = "binary = \"/usr/bin/git\"\n\
    [env]\nforward = [\"TERM\", \"LANG\", \"LC_*\", \"TZ\", \"GIT_AUTHOR_*\", \"GIT_COMMITTER_*\"]\n";

fn server() -> Server {
    Server::start(|s| s.tool("git", DEFINITION))
}

/// Whose commits, and when: so that both ways make the same objects.
fn identity(command: &mut Command) {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Some One");
        command.env(format!("GIT_{who}_EMAIL"), "some.one@example.org");
        command.env(format!("GIT_{who}_DATE"), "2024-05-06T07:08:09 +0200");
    }
}

/// Git natively, to prepare something.
fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("/usr/bin/git");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    identity(&mut command);
    let outcome = run(command.args(args).current_dir(dir), b"");
    assert_eq!(outcome.code(), Some(0), "git {args:?}: {outcome:?}");
}

fn repository(dir: &Path) {
    git(dir, &["init", "-q", "-b", "main", "."]);
    fs::write(dir.join("file.txt"), "first\n").expect("write");
    fs::write(dir.join("binary"), (0..=255).cycle().take(100_000).collect::<Vec<u8>>())
        .expect("write");
    git(dir, &["add", "."]);
    git(dir, &["commit", "-q", "-m", "first"]);
}

#[test]
fn a_repository_is_made_filled_and_read_alike() {
    let server = server();
    let twin = Twin::new(&server, "git", "/usr/bin/git");
    let with = |args: &'static [&str]| {
        move |c: &mut Command| {
            identity(c);
            c.args(args);
        }
    };
    let empty = |_: &Path| ();
    twin.same_in(empty, with(&["init", "-b", "main", "new"])).success();
    twin.same_in(repository, with(&["status"])).success();
    twin.same_in(repository, with(&["status", "--porcelain=v2", "-z", "--branch"])).success();
    twin.same_in(repository, with(&["log", "-p", "--stat", "--binary"])).success();
    twin.same_in(repository, with(&["cat-file", "-p", "HEAD:binary"])).success();
    twin.same_in(repository, with(&["archive", "--format=tar", "HEAD"])).success();
    twin.same_in(repository, with(&["branch", "topic"])).success();
    twin.same_in(repository, with(&["fsck", "--full"])).success();
    let changed = |dir: &Path| {
        repository(dir);
        fs::write(dir.join("file.txt"), "second\n").expect("write");
    };
    twin.same_in(changed, with(&["diff"])).success();
    twin.same_in(changed, with(&["add", "-v", "."])).success();
    let outcome =
        twin.same_in(changed, with(&["commit", "-a", "-m", "a message\n\nwith 'quotes'\n"]));
    assert!(outcome.success().contains("a message"));
    assert_eq!(twin.same_in(changed, with(&["diff", "--exit-code", "--quiet"])).code(), Some(1));
    assert_eq!(twin.same_in(empty, with(&["log"])).code(), Some(128));
    assert_eq!(twin.same_in(repository, with(&["no-such-verb"])).code(), Some(1));
    twin.same_in(repository, with(&["--version"])).success();
}

#[test]
fn what_comes_in_by_stdin_becomes_an_object() {
    let server = server();
    repository(&server.ws());
    let twin = Twin::new(&server, "git", "/usr/bin/git");
    let outcome = twin.same_with(b"hello\n", |c| {
        c.args(["hash-object", "-w", "--stdin"]);
    });
    assert_eq!(outcome.success(), "ce013625030ba8dba906f756967f9e9ca394464a\n");
    let outcome = twin.same_with(b"message from stdin\n", |c| {
        identity(c);
        c.args(["commit-tree", "-F", "-", "HEAD^{tree}"]);
    });
    assert_eq!(outcome.success().len(), 41);
    let outcome = twin.same_with(b"HEAD\nHEAD:file.txt\nnothing\n", |c| {
        c.args(["cat-file", "--batch-check"]);
    });
    assert!(outcome.success().ends_with("nothing missing\n"));
}

#[test]
fn clone_edit_commit_push_and_archive_into_tar_through_symlinks() {
    let server = server();
    let ws = server.ws();
    let seed = ws.join("seed");
    fs::create_dir(&seed).expect("mkdir");
    repository(&seed);
    git(&ws, &["clone", "-q", "--bare", "seed", "origin.git"]);
    let mut sh = Command::new("/bin/sh");
    let script = "set -e
        git clone -q origin.git work
        cd work
        echo more >> file.txt
        git add file.txt
        git commit -q -m 'through the broker'
        git push -q origin main
        git log --format=%s
        git archive HEAD | tar t
        git --git-dir=../origin.git log -1 --format=%an main
        git bundle create - main 2>/dev/null > main.bundle
        git bundle list-heads main.bundle | cut -d' ' -f2";
    sh.arg("-c").arg(script).env_clear().current_dir(&ws);
    identity(&mut sh);
    sh.env("PATH", format!("{}:/usr/bin:/bin", server.path("bin").display()));
    sh.env("TOOL_SOCKET", server.socket());
    drop(server.client("git")); // makes the symlink
    let outcome = run(&mut sh, b"");
    assert!(
        outcome.success().starts_with(
            "through the broker\nfirst\nbinary\nfile.txt\nSome One\nrefs/heads/main\n"
        ),
        "{outcome:?}"
    );
    let bare = ws.join("origin.git");
    let pushed = run(
        Command::new("/usr/bin/git").args(["log", "-1", "--format=%s", "main"]).current_dir(bare),
        b"",
    );
    assert_eq!(pushed.success(), "through the broker\n");
}

#[test]
fn git_in_a_subdirectory_and_beside_the_repository_says_what_it_always_says() {
    let server = server();
    let twin = Twin::new(&server, "git", "/usr/bin/git");
    let inside = |dir: &Path| {
        repository(dir);
        fs::create_dir(dir.join("sub")).expect("mkdir");
    };
    let outcome = twin.same_in(inside, |c| {
        c.args(["-C", "sub", "rev-parse", "--show-prefix"]);
    });
    assert_eq!(outcome.success(), "sub/\n");
    let outcome = twin.same_in(
        |_| (),
        |c| {
            c.args(["rev-parse", "--show-toplevel"]);
        },
    );
    assert_eq!(outcome.code(), Some(128), "{outcome:?}");
    assert!(outcome.err().starts_with("fatal: not a git repository"), "{outcome:?}");
}

//! Definitions from a folder or a git repository: shown, pinned, and never run; hostile
//! ones too.

mod catalog_help;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use catalog_help::{
    GOOD, catalog, commit, folder, git, installed, names, repository, state, text, verb,
};
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{Forge, Setup, run, skipped};

#[test]
fn a_definition_from_a_folder_is_shown_before_it_is_taken() {
    let setup = Setup::new();
    let script = "#!/bin/sh\n# \u{1b}[2J\u{202e}hidden\ntouch canary\n";
    let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"evil.example.com\"]\n";
    let files = [
        ("tool.toml", &*format!("{GOOD}packages = [\"some-package\"]\n{gate}")),
        ("setup.sh", script),
        ("restricted.sh", "echo wrapped\n"),
    ];
    let path = folder(&setup, "from", &files);
    let said = catalog(&setup, &["add", "t", "--path", text(&path)]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err().contains("is not taken"), "{said:?}");
    for shown in [
        "| touch canary",
        "\\u{1b}[2J\\u{202e}hidden",
        "--- restricted.sh",
        "| echo wrapped",
        "http evil.example.com",
        "packages:    some-package",
    ] {
        assert!(said.out().contains(shown), "{shown}: {said:?}");
    }
    assert_eq!(names(&setup), ["sh"]);
    // A person answers, on a terminal.
    let mut command = verb(&setup, &["add", "t", "--path", text(&path)]);
    command.env("TERM", "dumb");
    let mut terminal = OnTerminal::start(command);
    terminal.shows("Take t into tools.d? [y/N]");
    terminal.type_text("n\n");
    assert_eq!(terminal.wait().code(), Some(1));
    assert_eq!(names(&setup), ["sh"]);
    let mut command = verb(&setup, &["add", "t", "--path", text(&path)]);
    command.env("TERM", "dumb");
    let mut terminal = OnTerminal::start(command);
    terminal.shows("Take t into tools.d? [y/N]");
    terminal.type_text("y\n");
    assert_eq!(terminal.wait().code(), Some(0), "{}", terminal.screen());
    assert_eq!(fs::read_to_string(installed(&setup, "t", "setup.sh")).expect("setup.sh"), script);
    assert_eq!(state(&setup, "t"), "installed from elsewhere");
    assert!(!setup.path("canary").exists() && !path.join("canary").exists());
}

#[test]
fn a_definition_from_a_repository_is_that_of_the_commit() {
    let setup = Setup::new();
    let path = repository(
        &setup,
        "repository",
        &[("tool.toml", GOOD), ("README.md", "read me\n"), ("deep/other/tool.toml", GOOD)],
    );
    let url = format!("file://{}", path.display());
    let first = git(&path, &["rev-parse", "HEAD"]).trim_end().to_owned();
    // Without a commit the present one is shown, and not taken.
    let said = catalog(&setup, &["add", "t", "--url", &url]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err().contains(&format!("--commit {first} --yes")), "{said:?}");
    assert!(said.out().contains("| read me"), "{said:?}");
    // Nor without looking.
    assert_eq!(catalog(&setup, &["add", "t", "--url", &url, "--yes"]).code(), Some(2));
    assert_eq!(names(&setup), ["sh"]);
    // The branch goes on; the commit is what was looked at.
    fs::write(path.join("tool.toml"), format!("{GOOD}# later\n")).expect("write");
    let later = commit(&path);
    catalog(&setup, &["add", "t", "--url", &url, "--commit", &first, "--yes"]).success();
    assert_eq!(fs::read_to_string(installed(&setup, "t", "tool.toml")).expect("t"), GOOD);
    let origin = fs::read_to_string(installed(&setup, "t", ".origin.json")).expect("origin");
    assert!(origin.contains(&first) && origin.contains(&url), "{origin}");
    assert_eq!(state(&setup, "t"), "installed from elsewhere");
    assert!(catalog(&setup, &["list"]).success().contains(&first));
    // A later one replaces what nobody changed.
    catalog(&setup, &["add", "t", "--url", text(&path), "--commit", &later, "--yes"]).success();
    assert!(
        fs::read_to_string(installed(&setup, "t", "tool.toml")).expect("t").ends_with("# later\n")
    );
    // A folder, and the tool's name as one.
    catalog(
        &setup,
        &["add", "u", "--url", &url, "--commit", &first, "--yes", "--folder", "deep/other"],
    )
    .success();
    let said = catalog(
        &setup,
        &["add", "v", "--url", &url, "--commit", &first, "--yes", "--folder", "nowhere"],
    );
    assert!(said.refused(1).contains("neither tool.toml nor tool.json"));
    // A commit that is not there.
    let absent = "0123456789012345678901234567890123456789";
    catalog(&setup, &["add", "w", "--url", &url, "--commit", absent, "--yes"]).refused(1);
    assert_eq!(names(&setup), ["sh", "t", "u"]);
    // The running server sees the same.
    let check = run(&mut setup.verb(&["check"]), b"");
    assert!(check.out().contains("ok: t ") && check.out().contains("ok: u "), "{check:?}");
}

/// A configuration of the user's that would run the canary by everything that git knows.
fn trap(setup: &Setup) -> (PathBuf, PathBuf) {
    let canary = setup.path("canary");
    let script = setup.file("trap.sh", format!("#!/bin/sh\ntouch {}\n", canary.display()), 0o755);
    for hook in
        ["post-checkout", "reference-transaction", "post-merge", "pre-auto-gc", "post-index-change"]
    {
        setup.file(
            format!("templates/hooks/{hook}"),
            format!("#!/bin/sh\ntouch {}\n", canary.display()),
            0o755,
        );
    }
    let (script, hooks) = (script.display(), setup.path("templates"));
    let hooks = hooks.display();
    let config = format!(
        "[init]\n\ttemplateDir = {hooks}\n[core]\n\thooksPath = {hooks}/hooks\n\tfsmonitor = {script}\n\
         [filter \"trap\"]\n\tsmudge = {script}\n\tprocess = {script}\n\trequired = true\n\
         [filter \"lfs\"]\n\tsmudge = {script}\n\tprocess = {script}\n\
         [credential]\n\thelper = !{script}\n[uploadpack]\n\tpackObjectsHook = {script}\n\
         [submodule]\n\trecurse = true\n[diff]\n\texternal = {script}\n[core]\n\tsshCommand = {script}\n"
    );
    setup.file("home/.gitconfig", config, 0o644);
    (canary, setup.path("home"))
}

#[test]
fn nothing_of_a_repository_and_of_gits_own_settings_is_run() {
    let setup = Setup::new();
    let (canary, home) = trap(&setup);
    let run_it = format!("#!/bin/sh\ntouch {}\n", canary.display());
    let path = repository(
        &setup,
        "hostile",
        &[
            ("tool.toml", GOOD),
            ("setup.sh", &run_it),
            ("restricted.sh", &run_it),
            (".gitattributes", "* filter=trap\n*.sh filter=lfs\n"),
            (".gitmodules", "[submodule \"x\"]\n\tpath = sub\n\turl = ../x\n"),
        ],
    );
    // What the repository's own server side would run.
    git(
        &path,
        &["config", "uploadpack.packObjectsHook", &setup.path("trap.sh").display().to_string()],
    );
    git(&path, &["config", "core.hooksPath", &setup.path("templates/hooks").display().to_string()]);
    let at = git(&path, &["rev-parse", "HEAD"]).trim_end().to_owned();
    for words in [&["show", "t", "--url"][..], &["add", "t", "--commit", &at, "--yes", "--url"]] {
        let mut command = verb(&setup, &[words, &[text(&path)]].concat());
        command.env("HOME", &home).env("XDG_CONFIG_HOME", &home);
        run(&mut command, b"").success();
        assert!(!canary.exists(), "{words:?}");
    }
    // As it is in the commit: no filter, no change of lines.
    assert_eq!(fs::read_to_string(installed(&setup, "t", "restricted.sh")).expect("taken"), run_it);
    assert!(!installed(&setup, "t", ".gitattributes").exists());
}

#[test]
fn hostile_repositories_leave_nothing_in_tools_d() {
    let setup = Setup::new();
    let refused = |path: &Path, message: &str, more: &[&str]| {
        let at = git(path, &["rev-parse", "HEAD"]).trim_end().to_owned();
        let words = ["add", "t", "--commit", &at, "--yes", "--url", text(path)];
        let said = run(&mut verb(&setup, &[&words[..], more].concat()), b"");
        assert_eq!(said.code(), Some(1), "{message}: {said:?}");
        assert!(said.err().contains(message), "{message}: {said:?}");
        assert_eq!(names(&setup), ["sh"], "{message}");
    };
    // A link to what is not theirs.
    let path = repository(&setup, "link", &[("tool.toml", GOOD)]);
    symlink("/etc/passwd", path.join("setup.sh")).expect("symlink");
    commit(&path);
    refused(&path, "setup.sh is a symlink", &[]);
    // The definition itself, and its folder.
    let path = repository(&setup, "linked", &[("real/tool.toml", GOOD)]);
    symlink("real", path.join("t")).expect("symlink");
    symlink("real/tool.toml", path.join("tool.toml")).expect("symlink");
    commit(&path);
    refused(&path, "neither tool.toml nor tool.json", &[]);
    refused(&path, "neither tool.toml nor tool.json", &["--folder", "t"]);
    // A submodule.
    let other = repository(&setup, "other", &[("x", "y")]);
    let path = repository(&setup, "modules", &[("tool.toml", GOOD)]);
    git(&path, &["submodule", "--quiet", "add", text(&other), "sub"]);
    commit(&path);
    refused(&path, "sub is no regular file", &[]);
    // One file that is too large, and all of it.
    let path =
        repository(&setup, "large", &[("tool.toml", GOOD), ("big", &"x".repeat(300 * 1024))]);
    refused(&path, "big has 307200 bytes", &[]);
    let many: Vec<(String, String)> =
        (0..6).map(|n| (format!("f{n}"), "y".repeat(200 * 1024))).collect();
    let mut files: Vec<(&str, &str)> =
        many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("tool.toml", GOOD));
    refused(&repository(&setup, "heavy", &files), "bytes together", &[]);
    // What cannot be shown.
    let path = repository(&setup, "binary", &[("tool.toml", GOOD)]);
    fs::write(path.join("restricted"), b"\x7fELF\xff\xfe").expect("write");
    commit(&path);
    refused(&path, "restricted is not UTF-8 text", &[]);
    let path = repository(&setup, "names", &[("tool.toml", GOOD), ("a\nname", "x")]);
    refused(&path, "is no plain name for a file", &[]);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    refused(
        &repository(&setup, "lfs", &[("tool.toml", GOOD), ("setup.sh", pointer)]),
        "kept by git lfs",
        &[],
    );
    // Folders that lead out, addresses that run something.
    let path = repository(&setup, "plain", &[("tool.toml", GOOD)]);
    refused(&path, "--folder", &["--folder", "../plain"]);
    refused(&path, "--folder", &["--folder", "/etc"]);
    for url in [
        "ext::sh -c 'touch canary'",
        "--upload-pack=touch",
        "relative",
        "https://user:word@example.com/x",
    ] {
        let said = run(&mut verb(&setup, &["add", "t", &format!("--url={url}")]), b"");
        assert_eq!(said.code(), Some(1), "{url}: {said:?}");
        assert!(
            said.err().starts_with("tool-server: git:") && !said.err().contains("word@"),
            "{url}: {said:?}"
        );
    }
    assert!(!setup.path("canary").exists());
}

#[test]
fn a_repository_that_never_ends_is_given_up() {
    let setup = Setup::new();
    let path = repository(&setup, "endless", &[("tool.toml", GOOD)]);
    // 72 MiB that do not shrink.
    let mut blob = Command::new("sh");
    blob.current_dir(&path).args(["-c", "head -c 75497472 /dev/urandom > blob"]);
    run(&mut blob, b"").success();
    git(&path, &["config", "core.compression", "0"]);
    git(&path, &["config", "core.bigFileThreshold", "1m"]);
    let at = commit(&path);
    let said =
        catalog(&setup, &["add", "t", "--commit", &at, "--yes", "--url", text(&path)]).refused(1);
    assert!(said.contains("more than 64 MiB"), "{said}");
    assert_eq!(names(&setup), ["sh"]);
}

#[test]
fn a_folder_with_links_pipes_and_devices_is_not_taken() {
    let setup = Setup::new();
    let refused = |path: &Path, message: &str| {
        let said = catalog(&setup, &["add", "t", "--path", text(path), "--yes"]);
        assert!(said.refused(1).contains(message), "{message}: {said:?}");
        assert_eq!(names(&setup), ["sh"]);
    };
    let path = folder(&setup, "one", &[("tool.toml", GOOD)]);
    symlink("tool.toml", path.join("restricted.sh")).expect("symlink");
    refused(&path, "restricted.sh is a symlink");
    let path = folder(&setup, "two", &[("tool.toml", GOOD)]);
    nix::unistd::mkfifo(&path.join("setup.sh"), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    refused(&path, "setup.sh is no regular file");
    // What is hidden, and folders, are left out, and that is said.
    let path = folder(&setup, "three", &[("tool.toml", GOOD), (".secret", "x"), ("tests/x", "y")]);
    let said = catalog(&setup, &["add", "t", "--path", text(&path), "--yes"]).success();
    assert!(said.contains("left out:    .secret, tests"), "{said}");
    assert!(
        !installed(&setup, "t", ".secret").exists() && !installed(&setup, "t", "tests").exists()
    );
}

#[test]
fn what_a_definition_says_does_nothing_to_a_terminal_in_an_error_either() {
    let setup = Setup::new();
    let odd = "binary = \"/bin/echo\"\n\"\\u001b[2J\" = 1\n";
    let path = folder(&setup, "odd", &[("tool.toml", odd)]);
    let said = catalog(&setup, &["add", "t", "--path", text(&path), "--yes"]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    let quoted = !said.err().contains('\u{1b}') && said.err().contains("2J");
    assert!(quoted && said.err().trim_end().lines().count() == 1, "{said:?}");
    // Where the program is not there, add and check name it.
    for (number, hidden) in ["\\u001b[2J", "\\u202e", "\\u200b", "\\n"].into_iter().enumerate() {
        let odd = format!("binary = \"/usr/bin/x{hidden}y\"\ndefault = \"allow\"\n");
        let path = folder(&setup, &format!("odd{number}"), &[("tool.toml", &odd)]);
        let said = catalog(&setup, &["add", "t", "--path", text(&path), "--yes"]);
        assert_eq!(said.code(), Some(1), "{hidden}: {said:?}");
        assert!(said.err().contains("binary must be an absolute path"), "{hidden}: {said:?}");
        assert!(!said.err().contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{hidden}: {said:?}");
    }
    assert_eq!(names(&setup), ["sh"]);
}

#[test]
fn no_part_of_a_long_line_is_shown_as_a_line_of_its_own() {
    let setup = Setup::new();
    let posing = "sandbox:     confined, no network";
    // As wide as a terminal's row: what follows would begin the next one.
    let script = format!("#{}{posing}\n", " ".repeat(77));
    let about = format!("description = \"a{}{posing}\"\n", " ".repeat(66));
    let definition = format!("{about}binary = \"/bin/echo\"\ndefault = \"allow\"\n");
    let path = folder(&setup, "long", &[("tool.toml", &definition), ("setup.sh", &script)]);
    let said = catalog(&setup, &["show", "t", "--path", text(&path)]);
    let shown = said.success();
    assert!(shown.contains(&format!("\n>             {posing}\n")), "{shown}");
    let long = shown.lines().filter(|line| line.len() > 79 && !line.starts_with("from:"));
    assert_eq!(long.count(), 0, "{shown}");
    let posed = shown.lines().filter(|line| *line == posing);
    assert_eq!(posed.count(), 0, "{shown}");
}

#[test]
fn that_a_definition_is_not_confined_is_shown_loudly() {
    let setup = Setup::new();
    let off = format!("{GOOD}[sandbox]\nmode = \"off\"\n");
    let path = folder(&setup, "off", &[("tool.toml", &off)]);
    let said = catalog(&setup, &["add", "t", "--path", text(&path)]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.out().contains("note:        sandbox: off: it is not confined"), "{said:?}");
}

#[test]
fn a_repository_of_somebody_elses_on_this_machine_is_not_taken_and_why_is_said() {
    let test = "a_repository_of_somebody_elses_on_this_machine_is_not_taken_and_why_is_said";
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "needs root, to give a repository away");
    }
    let setup = Setup::new();
    let path = repository(&setup, "theirs", &[("tool.toml", GOOD)]);
    for place in [path.clone(), path.join(".git")] {
        std::os::unix::fs::lchown(&place, Some(4321), None).expect("chown");
    }
    let said = catalog(&setup, &["add", "t", "--url", text(&path)]);
    assert_eq!((said.code(), said.out()), (Some(1), String::new()), "{said:?}");
    assert!(said.err().contains("belongs to somebody else"), "{said:?}");
    assert!(!said.err().contains("safe.directory"), "{said:?}");
    assert_eq!(names(&setup), ["sh"]);
    // What git says is quoted as it is.
    let said = catalog(&setup, &["add", "t", "--url", text(&setup.path("no'ne"))]);
    assert!(said.err().contains("/no'ne' does not appear to be a git repository"), "{said:?}");
}

#[test]
fn a_repository_is_fetched_by_http_at_its_commit_and_nobody_logs_in() {
    let setup = Setup::new();
    let from = repository(&setup, "from", &[("tool.toml", GOOD), ("README.md", "one\n")]);
    let first = git(&from, &["rev-parse", "HEAD"]).trim_end().to_owned();
    fs::write(from.join("README.md"), "two\n").expect("write");
    let second = commit(&from);
    let put = |forge: &Forge| {
        let bare = forge.repository("ada/tool");
        git(&from, &["push", "--quiet", "--force", text(&bare), "main"]);
    };
    let forge = Forge::start(&setup.path("open"), "");
    put(&forge);
    let url = format!("{}/ada/tool.git", forge.url());
    let said = catalog(&setup, &["add", "t", "--url", &url]);
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err().contains(&second) && said.out().contains("| two"), "{said:?}");
    // Not the branch's last one: an older one, by its name.
    catalog(&setup, &["add", "t", "--url", &url, "--commit", &first, "--yes"]).success();
    assert_eq!(fs::read_to_string(installed(&setup, "t", "README.md")).expect("taken"), "one\n");
    // A host that wants a password gets none: not of .netrc, not of a helper, not by asking.
    let (canary, home) = trap(&setup);
    let closed = Forge::start(&setup.path("closed"), "word");
    put(&closed);
    setup.file("home/.netrc", "machine 127.0.0.1 login ada password word\n", 0o600);
    let url = format!("{}/ada/tool.git", closed.url());
    let mut command = verb(&setup, &["add", "u", "--url", &url]);
    command.env("HOME", &home).env("GIT_ASKPASS", setup.path("trap.sh"));
    let said = run(&mut command, b"");
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err().starts_with("tool-server: git: "), "{said:?}");
    let asked = closed.take();
    assert!(!asked.is_empty() && asked.iter().all(|one| one.authorization.is_none()), "{asked:?}");
    assert!(!canary.exists());
    assert_eq!(names(&setup), ["sh", "t"]);
}

//! The catalog, and taking definitions into tools.d: the real verb, the registry's own
//! check, real git repositories, hostile ones too.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tool_broker_tests::setup::mode;
use tool_broker_tests::terminal::OnTerminal;
use tool_broker_tests::{Outcome, Server, Setup, project, run, skipped};

const GOOD: &str =
    "description = \"a tool of a test\"\nbinary = \"/bin/echo\"\ndefault = \"allow\"\n";

/// `tool-server catalog WORDS…` with the project's catalog.
fn verb(setup: &Setup, words: &[&str]) -> Command {
    let mut command = setup.verb(&[&["catalog"], words].concat());
    command.env("TOOL_CATALOG", project().join("catalog"));
    command
}

fn catalog(setup: &Setup, words: &[&str]) -> Outcome {
    run(&mut verb(setup, words), b"")
}

/// What is in tools.d, hidden names too.
fn names(setup: &Setup) -> Vec<String> {
    let entries = fs::read_dir(setup.path("tools.d")).expect("tools.d");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn installed(setup: &Setup, name: &str, file: &str) -> PathBuf {
    setup.path("tools.d").join(name).join(file)
}

/// The state that `list` tells of a name.
fn state(setup: &Setup, name: &str) -> String {
    let said: Value =
        serde_json::from_str(&catalog(setup, &["list", "--json"]).success()).expect("JSON");
    let tools = said["tools"].as_array().expect("tools").clone();
    let found = tools.iter().find(|tool| tool["name"] == json!(name));
    found.map_or("nothing", |tool| tool["state"].as_str().expect("a state")).to_owned()
}

/// A copy of the catalog and of what ships, to be changed.
fn copied(setup: &Setup) -> PathBuf {
    for name in ["catalog", "tools.d"] {
        let to = setup.path("copy").join(name);
        fs::create_dir_all(to.parent().expect("a parent")).expect("mkdir");
        let done =
            Command::new("cp").arg("-r").arg(project().join(name)).arg(&to).status().expect("cp");
        assert!(done.success());
    }
    setup.path("copy/catalog")
}

/// A folder with a definition, somewhere else.
fn folder(setup: &Setup, name: &str, files: &[(&str, &str)]) -> PathBuf {
    for (file, text) in files {
        setup.file(format!("{name}/{file}"), text, 0o644);
    }
    setup.path(name)
}

/// A repository with one commit of what is in it.
fn repository(setup: &Setup, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let path = folder(setup, name, files);
    git(&path, &["init", "--quiet", "--initial-branch=main", "."]);
    commit(&path);
    path
}

fn commit(path: &Path) -> String {
    git(path, &["add", "--all"]);
    git(path, &["commit", "--quiet", "--allow-empty", "-m", "a commit"]);
    git(path, &["rev-parse", "HEAD"]).trim_end().to_owned()
}

fn git(path: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(path).env("HOME", path).env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.args([
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.com",
        "-c",
        "core.hooksPath=/dev/null",
    ]);
    run(git.args(["-c", "protocol.file.allow=always"]).args(words), b"").success()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn every_definition_of_the_catalog_loads_and_its_index_is_true() {
    let setup = Setup::new();
    let said = catalog(&setup, &["check"]).success();
    assert!(said.contains("20 definitions, 0 errors"), "{said}");
    let made = catalog(&setup, &["index"]).success();
    let written = fs::read_to_string(project().join("catalog/index.json")).expect("index.json");
    assert_eq!(made, written, "make it anew: tool-server catalog index --write");
    let index: Value = serde_json::from_str(&written).expect("JSON");
    for tool in index["tools"].as_array().expect("tools") {
        assert!(!tool["packages"].as_array().expect("packages").is_empty(), "{tool}");
        let shipped =
            ["curl", "gh", "git", "npm"].contains(&tool["name"].as_str().expect("a name"));
        let path = tool["path"].as_str().expect("a path");
        assert_eq!(path.starts_with("../tools.d/"), shipped, "{tool}");
    }
}

#[test]
fn an_index_that_is_not_true_is_told_and_nothing_is_taken_by_it() {
    let setup = Setup::new();
    let copy = copied(&setup);
    let here = |words: &[&str]| run(verb(&setup, words).env("TOOL_CATALOG", &copy), b"");
    assert_eq!(here(&["check"]).code(), Some(0));
    let tool = copy.join("jq/tool.toml");
    let changed =
        fs::read_to_string(&tool).expect("jq").replace("default = \"allow\"", "default = \"deny\"");
    fs::write(&tool, changed.replace("is = \"allow\"", "is = \"deny\"")).expect("write");
    let said = here(&["check"]);
    assert_eq!(said.code(), Some(1));
    assert!(said.out().contains("jq is not as its folder is"), "{said:?}");
    assert!(here(&["add", "jq"]).refused(1).contains("is not what its folder jq holds"));
    assert_eq!(names(&setup), ["sh"]);
    here(&["index", "--write"]).success();
    here(&["check"]).success();
    here(&["add", "jq"]).success();
    // An example that does not come out.
    let broken = fs::read_to_string(&tool).expect("jq").replace("is = \"deny\"", "is = \"allow\"");
    fs::write(&tool, broken).expect("write");
    assert!(here(&["check"]).refused(1).contains("jq/tool.toml:"));
    // A path that leads elsewhere.
    let index = copy.join("index.json");
    let text = fs::read_to_string(&index).expect("index");
    fs::write(&index, text.replace("\"path\": \"jq\"", "\"path\": \"../../../etc\""))
        .expect("write");
    assert!(here(&["add", "jq"]).refused(1).contains("a path is NAME or"));
}

#[test]
fn tools_of_two_names_have_one_definition() {
    let read = |name: &str| {
        fs::read_to_string(project().join("catalog").join(name).join("tool.toml")).expect(name)
    };
    assert_eq!(read("python"), read("python3"));
    assert_eq!(read("pip").replace("\"/usr/bin/pip\"", "\"/usr/bin/pip3\""), read("pip3"));
}

#[test]
fn a_tool_of_the_catalog_is_in_force_without_a_restart() {
    let server = Server::start(|_| ());
    run(&mut server.client("sqlite3"), b"").refused(127);
    let there = Path::new("/usr/bin/sqlite3").exists();
    // A definition whose program every machine has.
    let shown = catalog(&server, &["add", "make"]);
    let out = shown.out();
    if Path::new("/usr/bin/make").exists() {
        assert!(out.contains("in force in the running server"), "{shown:?}");
        fs::write(server.ws().join("Makefile"), "all:\n\t@echo made\n").expect("a Makefile");
        assert_eq!(run(&mut server.client("make"), b"").success(), "made\n");
    }
    if there {
        let said = catalog(&server, &["add", "sqlite3"]).success();
        assert!(said.contains("sqlite3 can be called"), "{said}");
        assert_eq!(
            run(server.client("sqlite3").args([":memory:", "select 6*7;"]), b"").success(),
            "42\n"
        );
    }
    // And one that is a folder of ours, everywhere.
    let path = folder(&server, "mine", &[("tool.toml", GOOD)]);
    let said = catalog(&server, &["add", "mine", "--path", text(&path), "--yes"]).success();
    assert!(said.contains("in force in the running server"), "{said}");
    assert_eq!(run(server.client("mine").arg("said"), b"").success(), "said\n");
    let said = catalog(&server, &["remove", "mine"]).success();
    assert!(said.contains("gone from the running server") && said.contains("home/mine"), "{said}");
    run(&mut server.client("mine"), b"").refused(127);
    run(server.client("sh").args(["-c", "exit 0"]), b"").success();
}

#[test]
fn packages_are_noted_for_the_image_until_no_tool_needs_them() {
    let server = Server::start(|_| ());
    let file = server.path("config/packages");
    let lines = || fs::read_to_string(&file).unwrap_or_default();
    let with = |name: &str, packages: &str, binary: &str| {
        let definition =
            format!("binary = \"{binary}\"\npackages = {packages}\ndefault = \"allow\"\n");
        let path = folder(&server, name, &[("tool.toml", &definition)]);
        let words = ["add", name, "--path", text(&path), "--yes", "--packages-file", text(&file)];
        catalog(&server, &words).success()
    };
    let said = with("one", "[\"some-package\", \"shared\"]", "/usr/bin/not-there");
    assert!(said.contains("its program is not installed there"), "{said}");
    assert!(
        said.contains("some-package shared") && said.contains("build the image anew"),
        "{said}"
    );
    assert_eq!(lines(), "some-package\nshared\n");
    run(&mut server.client("one"), b"").refused(127);
    // Again: nothing twice.
    with("one", "[\"some-package\", \"shared\"]", "/usr/bin/not-there");
    with("two", "[\"shared\"]", "/usr/bin/not-there-either");
    assert_eq!(lines(), "some-package\nshared\n");
    // Where the program is there, nothing has to be built.
    let said = with("three", "[\"coreutils\"]", "/bin/echo");
    assert!(!said.contains("noted"), "{said}");
    // What a person wrote stays.
    fs::write(&file, "# mine\nvim\nsome-package\nshared\n").expect("write");
    let remove =
        |name: &str| catalog(&server, &["remove", name, "--packages-file", text(&file)]).success();
    let said = remove("one");
    assert!(said.contains("shared stays"), "{said}");
    assert_eq!(lines(), "# mine\nvim\nshared\n");
    remove("two");
    assert_eq!(lines(), "# mine\nvim\n");
    // Without a server nobody knows: it is noted.
    let setup = Setup::new();
    let words = ["add", "jq", "--packages-file", "packages"];
    let said = catalog(&setup, &words).success();
    assert!(said.contains("no server answers"), "{said}");
    assert_eq!(fs::read_to_string(setup.path("packages")).expect("packages"), "jq\n");
}

#[test]
fn a_definition_comes_whole_with_its_modes_whatever_the_umask() {
    for umask in ["000", "077", "002"] {
        let setup = Setup::new();
        let files = [
            ("tool.toml", GOOD),
            ("setup.sh", "true\n"),
            ("restricted.sh", "exec \"$TOOL_BINARY\" \"$@\"\n"),
        ];
        let path = folder(&setup, "new", &files);
        let ordinary = verb(&setup, &["add", "new", "--path", text(&path), "--yes"]);
        let mut command = setup.command(Path::new("/bin/sh"));
        command.env("TOOL_CATALOG", project().join("catalog"));
        command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
        command.arg(ordinary.get_program()).args(ordinary.get_args());
        run(&mut command, b"").success();
        for (file, bits) in
            [("", 0o755), ("tool.toml", 0o644), ("setup.sh", 0o755), ("restricted.sh", 0o755)]
        {
            let found =
                fs::metadata(installed(&setup, "new", file)).expect("installed").permissions();
            assert_eq!(found.mode() & 0o7777, bits, "umask {umask}: {file}");
        }
        assert_eq!(names(&setup), ["new", "sh"]);
        let check = run(&mut setup.verb(&["check"]), b"");
        assert!(check.out().contains("ok: new (wrapper "), "{check:?}");
    }
}

#[test]
fn a_definition_that_a_person_changed_is_not_overwritten() {
    let setup = Setup::new();
    let copy = copied(&setup);
    let here = |words: &[&str]| run(verb(&setup, words).env("TOOL_CATALOG", &copy), b"");
    assert_eq!(state(&setup, "jq"), "-");
    here(&["add", "jq"]).success();
    assert_eq!(state(&setup, "jq"), "installed");
    assert!(here(&["add", "jq"]).success().contains("is there already, the same"));
    // The catalog has another one: what nobody changed is replaced.
    let tool = copy.join("jq/tool.toml");
    let newer = fs::read_to_string(&tool).expect("jq") + "# newer\n";
    fs::write(&tool, &newer).expect("write");
    here(&["index", "--write"]).success();
    let said = here(&["list"]).success();
    assert!(
        said.lines().any(|line| line.starts_with("jq ") && line.contains("newer in the catalog")),
        "{said}"
    );
    assert!(here(&["add", "jq"]).success().contains("which nobody had changed"));
    assert_eq!(fs::read_to_string(installed(&setup, "jq", "tool.toml")).expect("jq"), newer);
    // A person's change stays, until they say otherwise, and then it is kept.
    let mine = newer.clone() + "# mine\n";
    fs::write(installed(&setup, "jq", "tool.toml"), &mine).expect("write");
    assert_eq!(state(&setup, "jq"), "changed, newer in the catalog");
    let said = here(&["add", "jq"]).refused(1);
    assert!(said.contains("tool.toml differs") && said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(installed(&setup, "jq", "tool.toml")).expect("jq"), mine);
    here(&["add", "jq", "--force"]).success();
    assert_eq!(fs::read_to_string(installed(&setup, "jq", "tool.toml")).expect("jq"), newer);
    assert_eq!(fs::read_to_string(setup.path("tools.d.old/jq.1/tool.toml")).expect("kept"), mine);
    // One that was never the catalog's.
    setup.tool("rg", GOOD);
    assert_eq!(state(&setup, "rg"), "your own");
    assert!(here(&["add", "rg"]).refused(1).contains("is not what the catalog put there"));
    let said = here(&["remove", "rg"]).success();
    assert!(said.contains("tools.d.old/rg.1"), "{said}");
    here(&["remove", "jq"]).success();
    assert_eq!(names(&setup), ["sh"]);
    here(&["remove", "jq"]).refused(1);
    here(&["remove", "../sh"]).refused(1);
    here(&["add", "no-such-tool"]).refused(1);
}

#[test]
fn what_a_server_would_not_load_does_not_appear_in_tools_d() {
    let setup = Setup::new();
    let state = setup.path("state").display().to_string();
    let table = [
        ("binary = \"echo\"\ndefault = \"allow\"\n", "t/tool.toml:1"),
        ("binary = \"/bin/echo\"\n", "everything would be allowed"),
        (
            "binary = \"/bin/echo\"\ndefault = \"allow\"\n[[example]]\ncall = \"x\"\nis = \"deny\"\n",
            "t/tool.toml:",
        ),
        (
            &format!(
                "binary = \"/bin/echo\"\ndefault = \"allow\"\n[sandbox]\nread = [\"{state}\"]\n"
            ),
            "would open",
        ),
        (
            "binary = \"/bin/echo\"\ndefault = \"allow\"\npackages = [\"x; reboot\"]\n",
            "name of a Debian package",
        ),
    ];
    for (definition, message) in table {
        let path = folder(&setup, "bad", &[("tool.toml", definition)]);
        let said = run(&mut verb(&setup, &["add", "t", "--path", text(&path), "--yes"]), b"");
        assert_eq!(said.code(), Some(1), "{definition}: {said:?}");
        assert!(said.err().contains(message), "{definition}: {said:?}");
        assert_eq!(names(&setup), ["sh"], "{definition}");
    }
    // What it would do to another one counts as well: this one reads where that one's
    // credential is.
    setup.file("secret/token", "x", 0o600);
    let secret = setup.path("secret").display().to_string();
    let gated = format!(
        "binary = \"/bin/echo\"\ndefault = \"allow\"\n[[gate]]\nadapter = \"http\"\nhosts = [\"example.com\"]\ncredential = \"file:{secret}/token\"\n"
    );
    let path = folder(&setup, "gated", &[("tool.toml", &gated)]);
    catalog(&setup, &["add", "gated", "--path", text(&path), "--yes"]).success();
    let reads =
        format!("binary = \"/bin/echo\"\ndefault = \"allow\"\n[sandbox]\nread = [\"{secret}\"]\n");
    let path = folder(&setup, "reads", &[("tool.toml", &reads)]);
    catalog(&setup, &["add", "reads", "--path", text(&path), "--yes"]).refused(1);
    assert_eq!(names(&setup), ["gated", "sh"]);
    // Nothing to take.
    let empty = folder(&setup, "empty", &[("README.md", "x")]);
    let said = catalog(&setup, &["add", "t", "--path", text(&empty), "--yes"]).refused(1);
    assert!(said.contains("neither tool.toml nor tool.json"), "{said}");
    for name in ["a/b", "..", ".hidden", "-x", "a b"] {
        let said =
            run(&mut verb(&setup, &["add", "--path", text(&path), "--yes", "--", name]), b"");
        assert_eq!(said.code(), Some(1), "{name}: {said:?}");
        assert!(said.err().contains("is not a tool's name"), "{name}: {said:?}");
    }
    assert_eq!(names(&setup), ["gated", "sh"]);
}

#[test]
fn what_was_left_by_a_run_that_was_killed_goes_with_the_next() {
    let setup = Setup::new();
    setup.file("tools.d/.catalog-abcdef/jq/tool.toml", "half", 0o644);
    catalog(&setup, &["add", "jq"]).success();
    assert_eq!(names(&setup), ["jq", "sh"]);
}

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
fn the_example_wrappers_let_pass_what_they_say() {
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        return skipped("the_example_wrappers_let_pass_what_they_say", "no python3");
    };
    assert!(Path::new(python).exists());
    let server = Server::start(|setup| {
        for (name, file) in [("git", "git.sh"), ("make", "make.py"), ("kubectl", "kubectl.sh")] {
            let text = fs::read(project().join("restricted/examples").join(file)).expect(file);
            setup.file(format!("restricted/{file}"), text, 0o644);
            setup.tool(name, "binary = \"/bin/echo\"\ndefault = \"allow\"\n");
        }
        mode(&setup.path("restricted"), 0o755);
    });
    let call = |tool: &str, words: &[&str]| run(server.client(tool).args(words), b"");
    for (tool, words, said) in [
        ("git", &["commit", "-m", "a b"][..], "commit -m a b\n"),
        ("git", &["status"], "status\n"),
        ("make", &["-j4", "test"], "-j4 test\n"),
        ("make", &[], "\n"),
        ("kubectl", &["get", "pods"], "--namespace=agent get pods\n"),
    ] {
        assert_eq!(call(tool, words).success(), said, "{tool} {words:?}");
    }
    for (tool, words) in [
        ("git", &["push"][..]),
        ("git", &["-c", "alias.status=!sh", "status"]),
        ("git", &[]),
        ("make", &["deploy"]),
        ("make", &["SHELL=/bin/sh", "test"]),
        ("make", &["-f", "other"]),
        ("kubectl", &["delete", "pod", "x"]),
        ("kubectl", &["get", "pods", "--namespace=other"]),
        ("kubectl", &["get", "pods", "-nother"]),
        ("kubectl", &["-A", "get", "pods"]),
    ] {
        let said = call(tool, words);
        assert_eq!(
            (said.code(), said.out()),
            (Some(126), String::new()),
            "{tool} {words:?}: {said:?}"
        );
        assert!(said.err().contains("refused:"), "{said:?}");
    }
}

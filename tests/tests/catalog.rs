//! The catalog, and taking definitions into tools.d: the real verb, the registry's own
//! check, a running server.

mod catalog_help;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use catalog_help::{GOOD, catalog, copied, folder, installed, names, state, text, verb};
use serde_json::Value;
use tool_broker_tests::setup::mode;
use tool_broker_tests::{Server, Setup, project, run, skipped};

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
fn a_server_is_told_by_a_socket_whose_name_is_longer_than_the_kernel_takes() {
    let server = Server::start(|_| ());
    let deep = server.path("d".repeat(100)).join("e".repeat(60));
    fs::create_dir_all(&deep).expect("mkdir");
    std::os::unix::fs::symlink(server.path("run"), deep.join("run")).expect("symlink");
    let socket = deep.join("run/control.sock");
    let path = folder(&server, "mine", &[("tool.toml", GOOD)]);
    let words = ["add", "mine", "--path", text(&path), "--yes", "--server", text(&socket)];
    let said = catalog(&server, &words).success();
    assert!(said.contains("in force in the running server"), "{said}");
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
    fs::write(&file, "vim\nsome-package\nshared\n").expect("write");
    let remove =
        |name: &str| catalog(&server, &["remove", name, "--packages-file", text(&file)]).success();
    let said = remove("one");
    assert!(said.contains("shared stays"), "{said}");
    assert_eq!(lines(), "vim\nshared\n");
    remove("two");
    assert_eq!(lines(), "vim\n");
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
        let wrapper = fs::read(project().join("restricted/examples/make.py")).expect("make.py");
        setup.file("restricted/printed.py", wrapper, 0o644);
        let printed = setup.file("programs/printed", "#!/bin/sh\nenv\n", 0o755);
        let forward = "[env]\nforward = [\"MAKEFLAGS\", \"CC\"]\n";
        setup.tool("printed", &format!("binary = {printed:?}\ndefault = \"allow\"\n{forward}"));
        mode(&setup.path("restricted"), 0o755);
    });
    let call = |tool: &str, words: &[&str]| run(server.client(tool).args(words), b"");
    for (tool, words, said) in [
        ("git", &["commit", "-m", "a b"][..], "commit -m a b\n"),
        ("git", &["status"], "status\n"),
        ("make", &["-j4", "test"], "-j4 test\n"),
        ("make", &[], "\n"),
        ("kubectl", &["get", "pods"], "--namespace=agent get pods\n"),
        ("kubectl", &["get", "pods", "-oyaml", "-w"], "--namespace=agent get pods -oyaml -w\n"),
        ("kubectl", &["auth", "can-i", "get", "pods"], "--namespace=agent auth can-i get pods\n"),
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
        ("kubectl", &["get", "pods", "-Aoyaml"]),
        ("kubectl", &["get", "pods", "-wA"]),
        ("kubectl", &["logs", "-fn", "other", "pod"]),
        ("kubectl", &["get", "--raw", "/api/v1/namespaces/other/pods"]),
        ("kubectl", &["get", "--raw=/api/v1/pods"]),
        ("kubectl", &["auth", "reconcile", "-f", "roles.yaml"]),
    ] {
        let said = call(tool, words);
        assert_eq!(
            (said.code(), said.out()),
            (Some(126), String::new()),
            "{tool} {words:?}: {said:?}"
        );
        assert!(said.err().contains("refused:"), "{said:?}");
    }
    // What make would take from the environment as well.
    let made = run(
        server
            .client("printed")
            .arg("test")
            .env("TOOL_FORWARD_ENV", "*")
            .env("MAKEFLAGS", "-f x")
            .env("CC", "cc"),
        b"",
    );
    assert!(made.success().contains("CC=cc") && !made.out().contains("MAKEFLAGS"), "{made:?}");
}

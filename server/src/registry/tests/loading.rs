//! What a folder becomes.

use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::time::Duration;

use super::{Site, set_mode};
use crate::registry::snapshot::Problem;
use crate::registry::tool::EnvRules;
use crate::registry::{ToolName, check};
use tool_policy::{Decision, NamePattern};

#[test]
fn a_folder_of_the_original_loads_unchanged() {
    let site = Site::new();
    let definition = site.write("tools.d/npm/tool.json", r#"{"binary": "/x/npm", "timeout": 600}"#);
    site.write("tools.d/npm/setup.sh", "");
    let wrapper = site.write("tools.d/npm/restricted.sh", "");
    let tool = site.tool("npm");
    assert_eq!(tool.binary, Path::new("/x/npm"));
    assert_eq!((tool.timeout, tool.timeout_set), (Duration::from_secs(600), true));
    assert_eq!(tool.policy.unmatched(), (Decision::Allow, 1, false));
    assert_eq!(tool.origin.to_string(), format!("{}:1", definition.display()));
    assert_eq!(tool.setup, Some(site.at("tools.d/npm/setup.sh")));
    assert!(!tool.unrestricted(), "a wrapper restricts it");
    let command = tool.wrapper.unwrap().command();
    assert_eq!(command, Some((site.at("bin/bash"), vec![wrapper.into_os_string()])));
}

#[test]
fn without_a_definition_the_binary_makes_the_tool() {
    let site = Site::new();
    site.folder(Path::new("tools.d/git"));
    let tool = site.tool("git");
    assert_eq!(tool.binary, site.at("bin/git"));
    assert_eq!((tool.timeout, tool.timeout_set), (Duration::from_secs(300), false));
    assert_eq!(tool.origin.file, site.at("tools.d/git"));
    assert!(tool.unrestricted());
    std::fs::rename(site.at("tools.d/git"), site.at("tools.d/hg")).unwrap();
    let problem = site.problem();
    assert!(problem.contains("has no definition, and there is no program hg in "), "{problem}");
    site.write("tools.d/hg/tool.toml", "# by name");
    let missing = site.tool("hg");
    assert_eq!(missing.binary, site.at("no-bin/hg"));
    assert!(missing.missing().unwrap().ends_with("no-bin/hg is not installed"));
}

#[test]
fn the_environment_is_what_the_definition_says() {
    let site = Site::new();
    let patterns = |names: &[&str]| -> Vec<NamePattern> {
        names.iter().map(|name| NamePattern::parse(name).unwrap()).collect()
    };
    let env = |text: &str| {
        site.write("tools.d/git/tool.toml", text);
        site.tool("git").env
    };
    let usual = patterns(&["LANG", "TERM"]);
    let inherit = patterns(&["PROXY_*"]);
    assert_eq!(env("# none"), EnvRules { forward: usual.clone(), inherit, set: vec![] });
    let set = vec![("A".to_owned(), "1".to_owned())];
    let only_set = EnvRules { forward: usual, inherit: vec![], set };
    assert_eq!(env("[env]\nset = { A = \"1\" }"), only_set);
    let said = EnvRules { forward: vec![], inherit: patterns(&["T"]), set: vec![] };
    assert_eq!(env("[env]\nforward = []\ninherit = [\"T\"]"), said);
}

#[test]
fn a_tools_hash_is_of_every_file_that_counts_and_of_nothing_else() {
    let site = Site::new();
    let mut seen = Vec::new();
    for (file, text) in [
        ("tools.d/git/tool.toml", "default = \"deny\"\n[grammar]\n"),
        ("tools.d/git/tool.toml", "default = \"deny\"\n"),
        ("tools.d/git/grammar.toml", "options = [\"-a\"]\n"),
        ("tools.d/git/grammar.toml", "options = [\"-b\"]\n"),
        ("tools.d/git/setup.sh", "one"),
        ("tools.d/git/setup.sh", "two"),
        ("restricted/git.sh", "one"),
        ("tools.d/git/restricted.sh", "one"),
        ("tools.d/git/restricted.sh", "two"),
    ] {
        site.write(file, text);
        let hash = site.tool("git").hash;
        assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
        assert!(!seen.contains(&hash), "{file} does not count");
        seen.push(hash);
    }
    site.write("tools.d/git/README", "x");
    assert_eq!(site.tool("git").hash, seen[8]);
    let other = Site::new();
    other.write("tools.d/git/tool.toml", "default = \"deny\"\n");
    assert_eq!(other.tool("git").hash, seen[1], "wherever it lies");
}

#[test]
fn tool_toml_beats_tool_json_with_a_warning() {
    let site = Site::new();
    site.write("tools.d/git/tool.toml", "binary = \"/x/toml\"\n\ndefault = \"deny\"");
    site.write("tools.d/git/tool.json", r#"{"binary": "/x/json"}"#);
    let tool = site.tool("git");
    assert_eq!(tool.binary, Path::new("/x/toml"));
    assert_eq!(tool.policy.unmatched(), (Decision::Deny, 3, true));
    let origin = format!("{}:3", site.at("tools.d/git/tool.toml").display());
    assert_eq!(tool.origin.to_string(), origin);
    assert_eq!(tool.warnings, ["tool.json is not read: tool.toml beside it is"]);
}

#[test]
fn wrappers_are_taken_in_their_order() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let order = [
        ("restricted/git", None),
        ("restricted/git.sh", Some("bin/bash")),
        ("restricted/git.py", Some("bin/python3")),
        ("tools.d/git/restricted", None),
        ("tools.d/git/restricted.sh", Some("bin/bash")),
        ("tools.d/git/restricted.py", Some("bin/python3")),
    ];
    assert_eq!(site.tool("git").wrapper, None);
    for (name, interpreter) in order {
        let path = site.write(name, "#!/bin/sh\n");
        if interpreter.is_none() {
            set_mode(&path, 0o755);
        }
        let command = site.tool("git").wrapper.unwrap().command();
        let expected = match interpreter {
            None => (path, vec![]),
            Some(program) => (site.at(program), vec![path.into_os_string()]),
        };
        assert_eq!(command, Some(expected), "{name}");
    }
}

#[test]
fn a_wrapper_that_cannot_be_run_is_never_passed_over() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    let plain = site.write("tools.d/git/restricted", "#!/no/such/interpreter -x\n");
    let problem = site.problem();
    assert!(problem.contains(&format!("run: chmod +x {}", plain.display())), "{problem}");
    set_mode(&plain, 0o755);
    let missing = |site: &Site| site.tool("git").wrapper.unwrap().missing();
    assert!(missing(&site).unwrap().starts_with("/no/such/interpreter is not installed, needed"));
    site.write("tools.d/git/restricted", "#! /usr/bin/env no-such-python\n");
    set_mode(&plain, 0o755);
    assert!(missing(&site).unwrap().starts_with("no-such-python is not installed, needed"));
    site.write("tools.d/git/restricted.py", "");
    assert_eq!(missing(&site), None);
    std::fs::remove_file(site.at("bin/python3")).unwrap();
    assert!(missing(&site).unwrap().starts_with("python3 is not installed, needed by "));
    std::fs::remove_file(site.at("tools.d/git/restricted.py")).unwrap();
    site.folder(Path::new("tools.d/git/restricted.sh"));
    assert!(site.problem().contains("restricted.sh: is not a regular file"));
}

#[test]
fn an_interpreter_that_is_installed_later_is_found() {
    let site = Site::new();
    site.write("tools.d/git/tool.json", "{}");
    site.write("tools.d/git/restricted.py", "");
    std::fs::remove_file(site.at("bin/python3")).unwrap();
    let registry = site.open();
    assert!(registry.find("git").unwrap().missing().is_some());
    site.program("python3");
    assert_eq!(registry.rescan().changed.len(), 1);
    assert_eq!(registry.find("git").unwrap().missing(), None);
}

#[test]
fn modes_are_checked_and_the_command_to_run_is_told() {
    let site = Site::new();
    let definition = site.write("tools.d/git/tool.json", "{}");
    let setup = site.write("tools.d/git/setup.sh", "");
    let wrapper = site.write("tools.d/git/restricted.sh", "");
    let global = site.write("restricted/gh.sh", "");
    site.write("tools.d/gh/tool.json", "{}");
    assert_eq!(site.open().snapshot().tools.len(), 2);
    let folders = [site.at("tools.d/git"), site.at("restricted")];
    for path in [definition, setup, wrapper, global].iter().chain(&folders) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        set_mode(path, mode | 0o020);
        let snapshot = site.open().snapshot();
        let problem = snapshot.problems[0].to_string();
        assert!(problem.ends_with(&format!("run: chmod g-w {}", path.display())), "{problem}");
        assert_eq!((snapshot.tools.len(), snapshot.problems.len()), (1, 1));
        set_mode(path, mode);
    }
    set_mode(&site.at("tools.d"), 0o777);
    assert!(site.problem().contains("run: chmod go-w "));
}

#[test]
fn foreign_owners_are_refused_unless_named() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let mut site = Site::new();
    let path = site.write("tools.d/git/tool.json", "{}");
    chown(&path, Some(4_242), None).unwrap();
    let problem = site.problem();
    assert!(problem.contains("belongs to uid 4242"), "{problem}");
    assert!(problem.ends_with(&format!("run: chown root {}", path.display())), "{problem}");
    site.options.owner = Some(4_242);
    assert_eq!(site.open().snapshot().tools.len(), 1);
}

#[test]
fn symlinks_may_not_lead_out() {
    let site = Site::new();
    let outside = site.write("outside.json", "{}");
    site.write("tools.d/.shared/tool.json", r#"{"timeout": 7}"#);
    site.folder(Path::new("tools.d/git"));
    symlink("../.shared/tool.json", site.at("tools.d/git/tool.json")).unwrap();
    assert_eq!(site.tool("git").timeout, Duration::from_secs(7));
    std::fs::remove_file(site.at("tools.d/git/tool.json")).unwrap();
    for target in [outside.as_path(), Path::new("../../outside.json")] {
        symlink(target, site.at("tools.d/git/tool.json")).unwrap();
        let problem = site.problem();
        assert!(problem.contains("git/tool.json: leads out of "), "{problem}");
        std::fs::remove_file(site.at("tools.d/git/tool.json")).unwrap();
    }
    std::fs::remove_dir(site.at("tools.d/git")).unwrap();
    symlink("../bin", site.at("tools.d/git")).unwrap();
    assert!(site.problem().contains("tools.d/git: leads out of "));
    std::fs::remove_file(site.at("tools.d/git")).unwrap();
    symlink(".shared", site.at("tools.d/git")).unwrap();
    assert_eq!(site.tool("git").timeout, Duration::from_secs(7));
}

#[test]
fn tools_dir_is_no_callers_business() {
    let mut site = Site::new();
    site.write("workspace/deep/tools.d/git/tool.json", "{}");
    site.options.tools_dir = site.at("workspace/deep/tools.d");
    assert!(site.problem().contains("lies beneath the workspace "));
    site.options.tools_dir = site.at("");
    set_mode(&site.at(""), 0o755);
    assert!(site.problem().contains("contains the workspace "));
    site.options.tools_dir = site.at("tools.d");
    site.write("tools.d/git/tool.json", "{}");
    site.write("workspace/restricted/git.sh", "");
    site.options.restricted_dir = site.at("workspace/restricted");
    assert!(site.problem().contains("restricted: lies beneath the workspace "));
}

#[test]
fn a_binary_in_the_workspace_is_a_warning() {
    let site = Site::new();
    site.write("workspace/bin/tool", "");
    symlink(site.at("workspace/bin/tool"), site.at("bin/linked")).unwrap();
    for path in ["workspace/bin/tool", "bin/linked"] {
        let binary = site.at(path);
        let text = format!("binary = {:?}\n", binary.display().to_string());
        site.write("tools.d/tool/tool.toml", &text);
        let warnings = site.tool("tool").warnings;
        assert!(warnings[0].ends_with("the agent can change it"), "{warnings:?}");
    }
}

#[test]
fn only_folders_with_a_tools_name_are_looked_at() {
    let site = Site::new();
    site.write("tools.d/README.md", "");
    site.write("tools.d/.git/tool.json", "");
    site.write("tools.d/a b/tool.json", "{}");
    assert!(site.problem().contains("is not a tool's name (1 to 64 of "));
    std::fs::remove_dir_all(site.at("tools.d/a b")).unwrap();
    assert!(site.open().snapshot().problems.is_empty());
}

#[test]
fn require_rules_refuses_what_nothing_restricts() {
    let mut site = Site::new();
    site.options.require_rules = true;
    site.write("tools.d/git/tool.toml", "timeout = 5\n");
    assert!(site.problem().contains("the server has require_rules: add rules to tool.toml"));
    site.write("tools.d/git/tool.toml", "default = \"allow\"\n");
    assert!(site.tool("git").policy.unmatched().2);
    site.write("tools.d/git/tool.toml", "# by name");
    site.write("tools.d/git/restricted.sh", "");
    assert!(site.tool("git").wrapper.is_some());
}

#[test]
fn check_sorts_errors_and_warnings_with_their_lines() {
    let site = Site::new();
    site.write("tools.d/bad/tool.toml", "\ntimeout = 0\n");
    site.write("tools.d/git/tool.toml", "default = \"allow\"\n");
    site.write("tools.d/lost/tool.toml", "default = \"allow\"\nbinary = \"/no/lost\"\n");
    site.write("tools.d/loose/tool.json", r#"{"binary": "/bin/true", "x": 1}"#);
    let report = check(site.options.clone());
    let texts = |problems: &[Problem]| -> Vec<String> {
        let base = format!("{}/", site.at("tools.d").display());
        problems.iter().map(|problem| problem.to_string().replace(&base, "")).collect()
    };
    let timeout = "timeout must be more than 0 seconds and at most 7 days, not 0";
    assert_eq!(texts(&report.errors), [format!("bad/tool.toml:2: {timeout}")]);
    let unrestricted = "unrestricted: it has neither rules nor `default`, every call is allowed";
    let expected = [
        "loose/tool.json:1: tool.json: the member \"x\" has no meaning".to_owned(),
        format!("loose/tool.json:1: {unrestricted}"),
        "lost/tool.toml:1: /no/lost is not installed".to_owned(),
    ];
    assert_eq!(texts(&report.warnings), expected);
    let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["git", "loose", "lost"]);
    let mut nowhere = site.options.clone();
    nowhere.tools_dir = site.at("nowhere");
    assert!(check(nowhere).errors[0].to_string().contains("nowhere: cannot open it: ENOENT"));
}

#[test]
fn an_unknown_name_is_looked_for_once() {
    let site = Site::new();
    let registry = site.open();
    let git = ToolName::parse("git").unwrap();
    let before = registry.snapshot().generation;
    assert!(registry.look(&git).is_none());
    assert_eq!(registry.snapshot().generation, before);
    site.write("tools.d/git/tool.json", "{}");
    let (tool, change) = registry.look(&git).unwrap();
    assert_eq!((tool.name.as_str(), change.added.len()), ("git", 1));
    assert_eq!(registry.snapshot().generation, before + 1);
    let (_, change) = registry.look(&git).unwrap();
    assert!(change.is_empty());
    site.write("tools.d/bad/tool.json", "{");
    assert!(registry.look(&ToolName::parse("bad").unwrap()).is_none());
    assert_eq!(registry.snapshot().problem("bad").unwrap().line, Some(1));
}

#[test]
fn the_shipped_definitions_load() {
    let site = Site::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools.d");
    let mut names = Vec::new();
    for folder in std::fs::read_dir(shipped).unwrap() {
        let folder = folder.unwrap();
        // Also what makes ConfigMaps of them lies there.
        if !folder.path().is_dir() {
            continue;
        }
        let name = folder.file_name().into_string().unwrap();
        // A copy: a checkout's modes depend on the umask.
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            site.write(&format!("tools.d/{name}/{}", file.file_name().to_str().unwrap()), &text);
        }
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["curl", "gh", "git", "npm"]);
    let snapshot = site.open().snapshot();
    assert_eq!(snapshot.problems, []);
    for name in names {
        let tool = &snapshot.tools[&name];
        assert!(tool.policy.unmatched().2 && tool.concurrent.is_some(), "{name}");
        assert_eq!(tool.warnings, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_definition_may_not_open_what_no_tool_may_see() {
    let site = Site::new();
    site.folder(Path::new("state/home/git"));
    site.folder(Path::new("run"));
    site.folder(Path::new("secrets"));
    site.folder(Path::new("open"));
    symlink(site.at("state"), site.at("open/link")).unwrap();
    let base = site.at("");
    let base = base.to_str().unwrap().trim_end_matches('/');
    let gate = format!(
        "[[gate]]\nadapter = \"http\"\nhosts = [\"a.b\"]\ncredential = \"file:{base}/secrets/t\"\n"
    );
    site.write("tools.d/gh/tool.toml", &format!("default = \"allow\"\n{gate}"));
    site.program("gh");
    for (member, path, why) in [
        ("read", "state", "state"),
        ("read", "state/home/other", "state"),
        ("read", "", "state"),
        ("read", "run", "socket"),
        ("write", "run/tool.sock", "socket"),
        ("read", "open/link", "state"),
        ("write", "tools.d/gh", "definitions"),
        ("write", "restricted", "definitions"),
        ("read", "secrets", "a credential"),
        ("write", "secrets/t", "a credential"),
    ] {
        let text = format!("# a\n[sandbox]\n{member} = [\n\"{base}/{path}\"]\n");
        site.write("tools.d/git/tool.toml", &text);
        let snapshot = site.open().snapshot();
        let problem = snapshot.problem("git").unwrap().to_string();
        assert!(problem.contains("git/tool.toml:4: "), "{member} {path}: {problem}");
        assert!(problem.contains(why) && problem.contains("no tool may reach"), "{problem}");
        assert!(!snapshot.tools.contains_key("git") && snapshot.tools.contains_key("gh"));
    }
    for (member, path) in [("read", "tools.d"), ("write", "open/x"), ("read", "other")] {
        site.write("tools.d/git/tool.toml", &format!("[sandbox]\n{member} = [\"{base}/{path}\"]"));
        assert_eq!(site.open().snapshot().problems, [], "{path}");
    }
    site.write("workspace/t", "");
    for place in [format!("{base}/workspace/t"), "/usr/share/t".to_owned()] {
        let gate = gate.replace(&format!("{base}/secrets/t"), &place);
        site.write("tools.d/gh/tool.toml", &gate);
        let problem = site.open().snapshot().problem("gh").unwrap().to_string();
        assert!(
            problem.contains("gh/tool.toml:1: the credential ") && problem.ends_with("move it")
        );
    }
}

#[test]
fn a_variable_with_a_credential_is_not_inherited() {
    let mut site = Site::new();
    let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"a.b\"]\ncredential = \"env:GH_TOKEN\"\n";
    site.write("tools.d/git/tool.toml", gate);
    site.program("gh");
    site.write("tools.d/gh/tool.toml", "[env]\ninherit = [\"GH_*\"]\n");
    let snapshot = site.open().snapshot();
    let problem = snapshot.problem("gh").unwrap().to_string();
    assert!(problem.contains("GH_TOKEN, which holds a credential"), "{problem}");
    assert!(snapshot.tools.contains_key("git") && !snapshot.tools.contains_key("gh"));
    site.write("tools.d/gh/tool.toml", "[env]\ninherit = [\"GH_HOST\"]\n");
    assert_eq!(site.open().snapshot().problems, []);
    site.options.env_inherit = vec![NamePattern::parse("GH_TOKEN").unwrap()];
    let snapshot = site.open().snapshot();
    assert!(snapshot.problem("git").is_some() && snapshot.tools.contains_key("gh"));
}

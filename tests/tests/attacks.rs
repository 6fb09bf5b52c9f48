//! Attacks by way of tools: what the attacker leaves in the workspace and calls.
//! Each is shown to do harm without the broker, and to do none with it. With
//! `TOOL_ATTACK=ID` one row alone is tried, and what its program wrote down is shown.

use std::fs;
use std::path::Path;

use tool_broker_tests::attacks::definitions::{CURL, GH, GIT, NET, NPM, REPOSITORY, SH};
use tool_broker_tests::attacks::{Mode, Row, Table, World, modes};
use tool_broker_tests::{project, skipped};

fn rows(table: &Table) -> impl Iterator<Item = (&str, bool, bool, &Row)> {
    let rows = table.group.iter().flat_map(|group| {
        group
            .rows
            .iter()
            .map(move |row| (group.name.as_str(), group.payload, group.unshown.is_some(), row))
    });
    let one = std::env::var("TOOL_ATTACK").ok();
    rows.filter(move |(_, _, _, row)| one.as_deref().is_none_or(|one| one == row.id()))
}

/// Each row does harm where nothing stops it: it is an attack.
fn shown(name: &str, tools: &[(&str, &str)]) {
    let table = Table::of(name);
    let mut world = World::new(None, tools);
    let mut tame = Vec::new();
    for (group, payload, unshown, row) in rows(&table) {
        if unshown {
            continue;
        }
        world.prepare(REPOSITORY);
        let (ran, harm, outcome) = world.attack(row, &[]);
        if if payload { !ran } else { harm.0.is_empty() } {
            tame.push(format!("{group}: {}: {outcome:?}", row.id()));
        }
        world.mend();
    }
    assert!(tame.is_empty(), "{} rows do no harm natively:\n{}", tame.len(), tame.join("\n"));
}

/// No row does harm through the broker.
fn held(name: &str, mode: Mode, tools: &[(&str, &str)]) {
    let table = Table::of(name);
    let mut world = World::new(Some(mode), tools);
    let names: Vec<&str> = tools.iter().map(|(name, _)| *name).collect();
    let mut bad = Vec::new();
    let (mut count, mut programs) = (0, 0);
    for (group, _, _, row) in rows(&table) {
        world.prepare(REPOSITORY);
        let (ran, harm, outcome) = world.attack(row, &names);
        count += 1;
        if std::env::var_os("TOOL_ATTACK").is_some() {
            println!("{mode:?} {}: {:?} {outcome:?}\n{}", row.id(), harm.0, world.loot());
        }
        programs += usize::from(ran);
        if !harm.0.is_empty() {
            bad.push(format!("{group}: {}: {:?}\n    {outcome:?}", row.id(), harm.0));
            world.mend();
        }
    }
    let written = world.written();
    if !written.0.is_empty() {
        bad.push(format!("written by the server: {:?}", written.0));
    }
    println!(
        "{mode:?}: {count} attacks by {name}, in {programs} of them the attacker's program ran"
    );
    assert!(bad.is_empty(), "{} of {count} did harm, {mode:?}:\n{}", bad.len(), bad.join("\n"));
}

fn all(name: &str, tools: &[(&str, &str)]) {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(name, "python3 is not installed");
    }
    std::thread::scope(|scope| {
        for mode in modes() {
            scope.spawn(move || held(name, mode, tools));
        }
    });
}

#[test]
fn every_attack_by_git_does_harm_natively() {
    shown("git", &[("git", GIT)]);
}

#[test]
fn no_attack_by_git_does_harm_through_the_broker() {
    all("git", &[("git", GIT)]);
}

#[test]
fn no_attack_by_way_of_the_gate_does_harm() {
    all("gate", &[("git", GIT)]);
}

#[test]
fn every_attack_by_curl_does_harm_natively() {
    shown("curl", &[]);
}

#[test]
fn no_attack_by_curl_does_harm_through_the_broker() {
    all("curl", &[("curl", CURL)]);
}

#[test]
fn every_attack_by_npm_does_harm_natively() {
    if npm().is_none() {
        return skipped("every_attack_by_npm_does_harm_natively", "npm is not installed");
    }
    shown("npm", &[]);
}

#[test]
fn no_attack_by_npm_does_harm_through_the_broker() {
    let Some(npm) = npm() else {
        return skipped("no_attack_by_npm_does_harm_through_the_broker", "npm is not installed");
    };
    all("npm", &[("npm", &NPM.replace("{npm}", &npm))]);
}

fn npm() -> Option<String> {
    let places = ["/usr/bin/npm", "/usr/local/bin/npm"];
    places.iter().find(|path| Path::new(path).exists()).map(ToString::to_string)
}

#[test]
fn no_attack_by_gh_does_harm_through_the_broker() {
    if !Path::new("/usr/bin/gh").exists() {
        return skipped("no_attack_by_gh_does_harm_through_the_broker", "gh is not installed");
    }
    all("gh", &[("gh", GH)]);
}

#[test]
fn a_program_that_a_tool_runs_gets_nothing_it_should_not() {
    all("programs", &[("sh", SH), ("net", NET)]);
}

/// The definition as it is shipped, with the forge behind its gates.
fn shipped(name: &str, binary: &str) -> String {
    let path = project().join("tools.d").join(name).join("tool.toml");
    let text = fs::read_to_string(&path).expect("a shipped definition");
    let line = |line: &str| match line.split(" = ").next() {
        Some("binary") => format!("binary = \"{binary}\"\n"),
        Some("protected") => line.replace(']', ", \"protected\"]") + "\n",
        Some("credential") => "credential = \"file:{token}\"\n".to_owned(),
        // curl's are for any host, and have no other place to go to.
        Some("adapter") if name != "curl" => {
            // Which repositories these are is the operator's to say.
            let listed = if line.contains("\"git\"") { "repositories = [\"o/*\"]\n" } else { "" };
            format!("{line}\n{listed}upstream = \"{{forge}}\"\nprivate = [\"127.0.0.0/8\"]\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn no_attack_does_harm_through_the_shipped_definitions() {
    let test = "no_attack_does_harm_through_the_shipped_definitions";
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(test, "python3 is not installed");
    }
    let npm = npm().unwrap_or_default();
    let tools =
        [("git", "/usr/bin/git"), ("curl", "/usr/bin/curl"), ("npm", &npm), ("gh", "/usr/bin/gh")];
    for (table, tool) in [("git", 0), ("gate", 0), ("curl", 1), ("npm", 2), ("gh", 3)] {
        let (name, binary) = tools[tool];
        if !Path::new(binary).exists() {
            skipped(test, &format!("{name} is not installed"));
            continue;
        }
        held(table, modes()[0], &[(name, &shipped(name, binary))]);
    }
}

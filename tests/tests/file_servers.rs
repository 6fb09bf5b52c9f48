//! Attacks on servers of files, by MCP: those that others of this kind fell to. The script
//! `tests/peers/filesystem/attack.py` makes them; here ours has to stand, and a reader that
//! opens what it is asked for has to fall, or they are no attacks. What others do is told by
//! `tests/peers/filesystem/run.sh`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tool_broker_tests::{Server, project, skipped};

/// What is counted against a server.
const HARM: [&str; 5] = ["escaped", "hung", "grew", "ended", "damaged"];

/// What came of each attack.
#[track_caller]
fn told(command: &mut Command) -> Vec<Value> {
    let output = command.output().expect("python3");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{error}");
    said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn script(speech: &str, root: &Path) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(project().join("tests/peers/filesystem/attack.py")).arg(speech).arg(root);
    command
}

fn name(attack: &Value) -> &str {
    attack["attack"].as_str().expect("a name")
}

fn number(attack: &Value, what: &str) -> u64 {
    attack[what].as_u64().expect("a number")
}

#[test]
fn no_attack_on_a_server_of_files_does_harm_by_mcp() {
    let test = "no_attack_on_a_server_of_files_does_harm_by_mcp";
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(test, "python3 is not installed");
    }
    let server = Server::start(|_| {});
    let mcp = server.verb(&["mcp"]);
    let mut command = script("broker", &server.ws());
    // What hangs is waited for as long as nothing that is only slow takes.
    command.args(["--rounds", "100", "--patience", "60", "--pid", &server.pid().to_string()]);
    command.arg("--").arg(mcp.get_program()).args(mcp.get_args());
    command.envs(mcp.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = told(&mut command);
    let harm = told.iter().filter(|attack| HARM.iter().any(|what| number(attack, what) > 0));
    let harm: Vec<String> = harm.map(Value::to_string).collect();
    assert!(harm.is_empty(), "{}", harm.join("\n"));
    assert!(told.len() > 60, "only {} attacks were made", told.len());
    let races = told.iter().filter(|attack| name(attack).starts_with("race: "));
    assert!(races.clone().count() == 10, "{told:?}");
    assert!(races.map(|race| number(race, "answered")).sum::<u64>() > 0, "nothing was answered");
}

#[test]
fn attacks_on_servers_of_files_do_harm_to_one_that_opens_what_it_is_asked_for() {
    let test = "attacks_on_servers_of_files_do_harm_to_one_that_opens_what_it_is_asked_for";
    if !Path::new("/usr/bin/python3").exists() {
        return skipped(test, "python3 is not installed");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("ws");
    std::fs::create_dir(&root).expect("mkdir");
    let told = told(script("naive", &root).args(["--rounds", "1"]));
    let harmful = |begin: &str, what: &str| {
        let those = told.iter().filter(|attack| name(attack).starts_with(begin));
        // Decoded by nobody here.
        let tame = those.filter(|one| !name(one).contains("encoded") && number(one, what) == 0);
        let tame: Vec<&str> = tame.map(name).collect();
        assert!(tame.is_empty(), "no attacks: {tame:?}");
    };
    harmful("name: ", "escaped");
    harmful("new: ", "escaped");
    harmful("proc: ", "escaped");
    harmful("kind: ", "hung");
    harmful("size: 8", "grew");
}

//! `project`: the operator's side of the project's own setup, and for the agent's
//! container the path of its script.
//!
//! What the workspace holds was escaped before it gets here. Must not: approve what was
//! not named.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use super::ask::{converse, text};
use super::{complain, fail, say};
use crate::broker::{project_client, render_script, show_project_at_rest};
use crate::config::Config;

/// The verb and those beneath it.
pub(super) fn command() -> Command {
    let hash = || {
        Arg::new("hash")
            .value_name("HASH")
            .help("As `tool-server project show` gives it: the first 12 digits, or all")
            .required(true)
    };
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    Command::new("project")
        .about("The project's own setup, .claude-container/config.json: see, approve, run it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("show")
                .about("Show the server's script as it is now, its hash, and how far it is")
                .arg(json.help("Print JSON instead of text")),
        )
        .subcommand(
            Command::new("approve")
                .about("Let the script with this hash be run, now and at each start")
                .arg(hash()),
        )
        .subcommand(
            Command::new("deny")
                .about("Do not run the script with this hash, and do not ask again")
                .arg(hash()),
        )
        .subcommand(Command::new("run").about("Run the script once more, if it is approved"))
        .subcommand(
            Command::new("setup-client")
                .about("Print the path of the client's script, or nothing. Needs no server")
                .arg(
                    Arg::new("directory")
                        .value_name("DIR")
                        .help("The project")
                        .required(true)
                        .value_parser(clap::value_parser!(PathBuf)),
                ),
        )
}

/// What needs neither settings nor a server; `None`: another verb.
pub(super) fn alone(arguments: &ArgMatches) -> Option<ExitCode> {
    let ("setup-client", arguments) = arguments.subcommand()? else { return None };
    let directory: &PathBuf = arguments.get_one("directory")?;
    Some(match project_client(directory) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(path)) => {
            say(&path);
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    })
}

/// The others.
pub(super) fn run(config: &Config, arguments: &ArgMatches) -> ExitCode {
    let Some((verb, arguments)) = arguments.subcommand() else { return ExitCode::from(2) };
    let hash = arguments.try_get_one::<String>("hash").ok().flatten();
    let socket = &config.control_socket;
    let asked = json!({ "op": "project", "do": verb, "hash": hash.map_or("", String::as_str) });
    let answered = converse(socket, &asked);
    if verb == "show" {
        let as_json = arguments.get_flag("json");
        return match answered {
            Ok((script, answer)) => show(&script, &answer, as_json),
            Err(_) => show_at_rest(config, as_json),
        };
    }
    match answered {
        Ok((_, answer)) => match answer.get("error").and_then(Value::as_str) {
            Some(error) => fail(&error),
            None => {
                say(text(&answer, "told"));
                ExitCode::SUCCESS
            }
        },
        Err(error) => {
            complain(&format!(
                "no server answers at {}: {error}; start `tool-server serve`, or set TOOL_CONTROL_SOCKET (or STATE_DIR)",
                socket.display()
            ));
            ExitCode::from(1)
        }
    }
}

/// Without a server: what there is, and what was said of it.
fn show_at_rest(config: &Config, as_json: bool) -> ExitCode {
    let root = config.workspace.first().map_or(Path::new("/workspace"), PathBuf::as_path);
    let (status, script) = match show_project_at_rest(root, &config.state_dir) {
        Ok(found) => found,
        Err(error) => return fail(&error),
    };
    complain(&format!("no server answers at {}", config.control_socket.display()));
    let script = script.as_ref().map(render_script).unwrap_or_default();
    match serde_json::to_value(&status) {
        Ok(answer) => show(script.as_bytes(), &answer, as_json),
        Err(error) => fail(&error),
    }
}

fn show(script: &[u8], answer: &Value, as_json: bool) -> ExitCode {
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return fail(&error);
    }
    if as_json {
        let mut answer = answer.clone();
        if let (Some(object), Ok(text)) = (answer.as_object_mut(), std::str::from_utf8(script)) {
            // Who is shown the hash is shown what it is of.
            object.insert("text".to_owned(), text.into());
        }
        say(&answer.to_string());
        return ExitCode::SUCCESS;
    }
    let (state, hash) = (text(answer, "state"), text(answer, "hash"));
    if state == "none" {
        say("the project has no setup.server in .claude-container/config.json");
        return ExitCode::SUCCESS;
    }
    say(&format!("script: {}", text(answer, "script")));
    // A reader that went away is the end of it.
    drop(std::io::stdout().lock().write_all(script));
    say(&format!(
        "sha256: {hash} (of its path, interpreter and bytes; what it reads and runs of the workspace may change)"
    ));
    let why = match text(answer, "why") {
        "" => String::new(),
        why => format!(": {why}"),
    };
    say(&format!("state:  {state}{why}"));
    if matches!(state, "waiting" | "denied") {
        let few = hash.get(..12).unwrap_or(hash);
        say(&format!(
            "answer: tool-server project approve {few}, or tool-server project deny {few}"
        ));
    }
    ExitCode::SUCCESS
}

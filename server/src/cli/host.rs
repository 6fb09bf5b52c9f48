//! `host`: what `claude-container` asks on the host. No settings, no running server.
//!
//! Owns: arguments, and how it is told. Values of secrets are never printed.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::say;
use crate::host::{
    self, Asked, Engine, Finding, HostError, Ids, Layout, Level, Shipped, Split, Workspace, quoted,
};

/// The most that a server may say of itself.
const LONGEST_STATUS: u64 = 4 << 20;

/// `host` and its verbs.
pub(super) fn command() -> Command {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("PATH")
            .help(help)
            .required(true)
            .value_parser(clap::value_parser!(PathBuf))
    };
    let ids = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("UID:GID").help(help).value_parser(read_ids)
    };
    let home = || path("home", "CLAUDE_HOME");
    Command::new("host")
        .about("What claude-container asks on the host; needs no settings and no running server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("instance").about("Print the id of a project's instance").arg(
                Arg::new("directory")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf)),
            ),
        )
        .subcommand(
            Command::new("environment")
                .about("Print what compose.yaml is given for a project, for a shell to read")
                .arg(path("project", "The project's directory"))
                .arg(home())
                .arg(
                    Arg::new("engine")
                        .long("engine")
                        .required(true)
                        .value_parser(["podman", "docker"])
                        .help("What runs the containers"),
                )
                .arg(
                    Arg::new("rootless")
                        .long("rootless")
                        .value_parser(clap::value_parser!(bool))
                        .default_value("false")
                        .help("Whether it runs without root"),
                )
                .arg(ids("caller", "Who asks").required(true))
                .arg(ids("owner", "Whose the project is, where it cannot be seen from here"))
                .arg(
                    Arg::new("workspace-path")
                        .long("workspace-path")
                        .default_value("/workspace")
                        .help("The project's path in the containers; `same`: as on the host"),
                )
                .arg(
                    Arg::new("no-systempaths")
                        .long("no-systempaths")
                        .action(ArgAction::SetTrue)
                        .help("The compose program does not know systempaths=unconfined"),
                )
                .arg(
                    Arg::new("seccomp")
                        .long("seccomp")
                        .help("The seccomp profile of the tools' container"),
                ),
        )
        .subcommand(
            Command::new("layout")
                .about("Make the directories of CLAUDE_HOME, and close modes that are too open")
                .arg(home())
                .arg(Arg::new("instance").long("instance").requires("owner").help("Its own, too"))
                .arg(ids("owner", "As whom the instance's containers run")),
        )
        .subcommand(
            Command::new("secrets")
                .about("Split .env: tools' credentials into files, the agent's own keys apart")
                .arg(path("env", "The file"))
                .arg(path("to", "Where the files of the tools' server go"))
                .arg(path("client", "Where the agent's own keys go"))
                .arg(ids("owner", "Who has to be able to read them")),
        )
        .subcommand(
            Command::new("definitions")
                .about("Bring shipped definitions up to date; leaves what a person changed")
                .arg(path("from", "The release's tools.d"))
                .arg(path("to", "The tools.d in force"))
                .arg(path("record", "What was brought before")),
        )
        .subcommand(
            Command::new("doctor")
                .about("Say what is wrong with CLAUDE_HOME, or with a running server")
                .arg(home().required(false).required_unless_present("server"))
                .arg(ids("caller", "Who asks").required_unless_present("server"))
                .arg(
                    Arg::new("server")
                        .long("server")
                        .action(ArgAction::SetTrue)
                        .help("Judge what stands on the input: `tool-server status --json`"),
                ),
        )
}

fn read_ids(text: &str) -> Result<Ids, String> {
    let pair = text
        .split_once(':')
        .and_then(|(uid, gid)| Some(Ids { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
    pair.ok_or_else(|| "two numbers are wanted, as `id -u`:`id -g` prints them".to_owned())
}

/// Does what was asked for.
pub(super) fn run(arguments: &ArgMatches) -> ExitCode {
    let Some((verb, arguments)) = arguments.subcommand() else { return ExitCode::from(2) };
    let done = match verb {
        "instance" => instance(arguments),
        "environment" => environment(arguments),
        "layout" => layout(arguments),
        "secrets" => secrets(arguments),
        "definitions" => definitions(arguments),
        "doctor" => return doctor(arguments),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error.to_string());
            ExitCode::from(1)
        }
    }
}

/// One line on stderr, as from the script that asks.
fn tell(text: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr().lock(), "claude-container: {text}"));
}

fn path(arguments: &ArgMatches, name: &str) -> PathBuf {
    arguments.get_one::<PathBuf>(name).cloned().unwrap_or_default()
}

fn ids(arguments: &ArgMatches, name: &str) -> Option<Ids> {
    arguments.get_one::<Ids>(name).copied()
}

fn instance(arguments: &ArgMatches) -> Result<(), HostError> {
    say(&host::named(&path(arguments, "directory"))?);
    Ok(())
}

fn environment(arguments: &ArgMatches) -> Result<(), HostError> {
    let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
    let asked = Asked {
        project: &path(arguments, "project"),
        home: &path(arguments, "home"),
        engine: if text("engine") == Some("docker") { Engine::Docker } else { Engine::Podman },
        rootless: arguments.get_one::<bool>("rootless").copied().unwrap_or_default(),
        caller: ids(arguments, "caller").unwrap_or(Ids { uid: 0, gid: 0 }),
        owner: ids(arguments, "owner"),
        workspace: match text("workspace-path") {
            Some("same") => Workspace::Same,
            other => Workspace::At(other.unwrap_or("/workspace").to_owned()),
        },
        seccomp: text("seccomp"),
        systempaths: !arguments.get_flag("no-systempaths"),
    };
    let place = host::place(&asked)?;
    for (name, value) in &place.variables {
        say(&format!("{name}={}", quoted(value)));
    }
    say(&format!("NOTES={}", quoted(&place.notes.join("; "))));
    say(&format!("INSTANCE_OWNER='{}:{}'", place.ids.uid, place.ids.gid));
    Ok(())
}

fn layout(arguments: &ArgMatches) -> Result<(), HostError> {
    let home = path(arguments, "home");
    let id = arguments.get_one::<String>("instance").map(String::as_str);
    let instance = id.zip(ids(arguments, "owner"));
    for made in host::lay(&Layout { home: &home, instance })? {
        say(&format!("made {}", made.display()));
    }
    Ok(())
}

fn secrets(arguments: &ArgMatches) -> Result<(), HostError> {
    let from_environment = |name: &str| std::env::var(name).ok();
    let Split { server, client, removed, changed: _, notes } = host::split(
        &path(arguments, "env"),
        &from_environment,
        &path(arguments, "to"),
        &path(arguments, "client"),
        ids(arguments, "owner"),
    )?;
    for (file, name) in server {
        say(&format!("{name} -> the tools' server alone, as /run/secrets/{file}"));
    }
    for name in client {
        say(&format!("{name} -> the agent's container"));
    }
    for name in removed {
        say(&format!("/run/secrets/{name} removed: it is not in .env any more"));
    }
    for note in notes {
        say(&format!("note: {note}"));
    }
    Ok(())
}

fn definitions(arguments: &ArgMatches) -> Result<(), HostError> {
    let [from, to, record] = ["from", "to", "record"].map(|name| path(arguments, name));
    let Shipped { added, updated, kept, left_out } = host::update(&from, &to, &record)?;
    for name in added {
        say(&format!("added {name}"));
    }
    for name in updated {
        say(&format!("updated {name}"));
    }
    for name in kept {
        say(&format!(
            "kept {name}: it was changed here; the release's is {}",
            from.join(&name).display()
        ));
    }
    for name in left_out {
        say(&format!("left out {name}: it was removed here; claude-container tools add {name}"));
    }
    Ok(())
}

fn doctor(arguments: &ArgMatches) -> ExitCode {
    let found: Vec<Finding> = if arguments.get_flag("server") {
        let mut text = Vec::new();
        let read = std::io::stdin().lock().take(LONGEST_STATUS).read_to_end(&mut text);
        let status = read.ok().and_then(|_length| serde_json::from_slice(&text).ok());
        host::server(&status.unwrap_or_default())
    } else {
        let uid = ids(arguments, "caller").map_or(0, |ids| ids.uid);
        host::home(&path(arguments, "home"), uid)
    };
    for finding in &found {
        say(&finding.to_string());
    }
    ExitCode::from(u8::from(found.iter().any(|one| one.level == Level::Wrong)))
}

//! The command line of tool-server: verbs, and how each ends.
//!
//! Owns: arguments, what is printed, exit status. 0 done, 1 not well, 2 wrong
//! use. Errors are one line on stderr that says what to do.

mod approvals;
mod ask;
mod audit;
mod catalog;
mod check;
mod explain;
mod host;
mod link;
#[cfg(feature = "manual")]
mod manual;
mod project;
mod setup;
mod sign;
mod status;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, Config};
use crate::exec::{LEADER_VERB, TRIAL_VERB, attempt, lead};
use crate::os::weaken;

/// Parses the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    // Started by the server itself, for a terminal: no settings, no time to lose.
    let mut words = std::env::args_os().skip(1);
    let word = words.next();
    // Likewise, when it starts: to see whether it is held.
    if word.as_ref().is_some_and(|word| word == TRIAL_VERB) {
        return ExitCode::from(attempt());
    }
    if word.is_some_and(|word| word == LEADER_VERB) {
        let first = words.next().and_then(|word| word.to_str()?.parse().ok());
        return ExitCode::from(first.map_or(2, lead));
    }
    // Started by git, in a call, for a signature.
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some((first, rest)) = words.split_first()
        && first == sign::FLAG
    {
        return sign::run(rest);
    }
    #[cfg(not(feature = "manual"))]
    let command = command();
    #[cfg(feature = "manual")]
    let command = command().subcommand(manual::command());
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // clap's own text: help and version to stdout, the rest to stderr.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let Some((verb, arguments)) = matches.subcommand() else { return ExitCode::from(2) };
    if verb == "version" {
        let weak = if weaken::POSSIBLE { " (test-weaken: for tests alone)" } else { "" };
        say(&format!("tool-server {}{weak}", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    #[cfg(feature = "manual")]
    if verb == manual::VERB {
        return manual::run(arguments);
    }
    if verb == "host" {
        return host::run(arguments);
    }
    if verb == "project"
        && let Some(done) = project::alone(arguments)
    {
        return done;
    }
    let config = match config::load(arguments, &|name| std::env::var_os(name)) {
        Ok(config) => config,
        Err(error) => return fail(&error),
    };
    match verb {
        "serve" => match crate::app::serve(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        "config" => {
            say(config.render().trim_end());
            ExitCode::SUCCESS
        }
        "check" => check::run(&config),
        "explain" => explain::run(&config, &rest(arguments)),
        "setup" => setup::run(&config, &rest(arguments)),
        "link" => link::run(&config, arguments),
        "audit" => audit::run(&config, arguments),
        "catalog" => catalog::run(&config, arguments),
        "tools" if arguments.contains_id("format") || arguments.contains_id("set") => {
            ask::definitions(&config, arguments.get_one("format"), arguments.get_one("set"))
        }
        "tools" | "status" | "health" | "reload" => {
            ask::run(&config, verb, arguments.get_flag("json"))
        }
        "mcp" => ask::mcp(&config),
        "approvals" => approvals::list(&config, arguments),
        "approve" | "deny" | "revoke" => approvals::answer(&config, verb, arguments),
        "project" => project::run(&config, arguments),
        "metrics" => ask::run(&config, verb, false),
        _ => ExitCode::from(2),
    }
}

fn rest(arguments: &ArgMatches) -> Vec<std::ffi::OsString> {
    arguments.get_many("rest").map(|values| values.cloned().collect()).unwrap_or_default()
}

fn which(name: &'static str, help: &'static str) -> Arg {
    Arg::new("id").value_name(name).help(help).required(true)
}

fn command() -> Command {
    let json = || {
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON instead of text")
    };
    let ask = |name: &'static str, about: &'static str| Command::new(name).about(about).arg(json());
    Command::new("tool-server")
        .about("Runs tools for agents that hold no credentials: decides, runs, hands back")
        .long_about(
            "Runs tools for agents that hold no credentials.\n\n\
             In an agent's container git, gh, npm are symlinks to tool-client, which forwards each \
             call over a Unix socket. This server holds the tools, decides by each one's own \
             definition in tools.d, runs the call in the shared workspace, and hands back output \
             and exit status.\n\n\
             Every setting below is also an environment variable and a member of the file that \
             --config names; `tool-server config` prints the values in force and where each comes \
             from.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_version_flag(true)
        .args(config::arguments())
        .subcommand(Command::new("serve").about("Listen and run calls until SIGTERM"))
        .subcommand(Command::new("check").about(
            "Validate tools.d; exit 1 on any error. Needs no running server",
        ))
        .subcommand(
            Command::new("explain")
                .about("Say what a call would be: decision, program, environment. Runs nothing")
                .arg(
                    Arg::new("rest")
                        .value_names(["TOOL", "ARGS"])
                        .help("The tool and its arguments")
                        .required(true)
                        .num_args(1..)
                        .trailing_var_arg(true)
                        .allow_hyphen_values(true)
                        .value_parser(clap::value_parser!(std::ffi::OsString)),
                ),
        )
        .subcommand(
            ask("tools", "List the tools that the running server serves")
                .arg(
                    Arg::new("format")
                        .long("format")
                        .value_name("FORM")
                        .value_parser(["anthropic", "openai", "ollama", "mcp"])
                        .help("Print the definitions of all tools for agents, as models take them"),
                )
                .arg(
                    Arg::new("set")
                        .long("set")
                        .value_name("SET")
                        .value_parser(["small", "all"])
                        .help("small: the five that small models are given; the default of ollama"),
                ),
        )
        .subcommand(Command::new("mcp").about(
            "Serve the running server's tools to an MCP client on standard input and output",
        ))
        .subcommand(ask("status", "Show the running server: calls, tools, problems, what is active"))
        .subcommand(Command::new("metrics").about(
            "Print the running server's figures, as Prometheus reads them",
        ))
        .subcommand(ask("health", "Exit 0 if a server answers on the socket"))
        .subcommand(audit::command())
        .subcommand(catalog::command())
        .subcommand(ask("reload", "Make the running server look at tools.d now (as SIGHUP does)"))
        .subcommand(
            ask("approvals", "Show the calls that wait for an answer, and the approvals that stand").arg(
                Arg::new("watch")
                    .long("watch")
                    .action(ArgAction::SetTrue)
                    .help("Go on, and show each new one as it comes"),
            ),
        )
        .subcommand(
            Command::new("approve")
                .about("Let a call that waits run")
                .arg(which("ID", "As `tool-server approvals` shows it"))
                .arg(
                    Arg::new("for")
                        .long("for")
                        .value_name("TIME")
                        .help("Also every later call by the same rule in the same repository, for so long: 30m, 1h, 2d"),
                )
                .arg(
                    Arg::new("unseen")
                        .long("unseen")
                        .action(ArgAction::SetTrue)
                        .help("Although the call is too long to be shown whole"),
                ),
        )
        .subcommand(
            Command::new("deny")
                .about("Refuse a call that waits")
                .arg(which("ID", "As `tool-server approvals` shows it"))
                .arg(
                    Arg::new("reason")
                        .long("reason")
                        .value_name("TEXT")
                        .help("What the caller is told"),
                ),
        )
        .subcommand(
            Command::new("revoke")
                .about("End an approval that stands")
                .arg(which("ID", "As `tool-server approvals` shows it")),
        )
        .subcommand(
            Command::new("setup")
                .about("Run the setup.sh of all tools, or of those named, and wait for them")
                .arg(
                    Arg::new("rest")
                        .value_name("TOOL")
                        .help("Only these tools")
                        .num_args(0..)
                        .value_parser(clap::value_parser!(std::ffi::OsString)),
                ),
        )
        .subcommand(
            Command::new("link")
                .about("Make a symlink to tool-client for each tool, and remove those of tools that are gone")
                .arg(
                    Arg::new("directory")
                        .value_name("DIR")
                        .help("Where; put it on the agent's PATH")
                        .required(true)
                        .value_parser(clap::value_parser!(std::path::PathBuf)),
                ),
        )
        .subcommand(host::command())
        .subcommand(project::command())
        .subcommand(Command::new("config").about("Print every setting, its value and its origin"))
        .subcommand(Command::new("version").about("Print the version"))
}

/// One line on stderr, exit 1.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(1)
}

/// Prints to stdout; a reader that went away is the end of it.
fn say(text: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Prints one line to stderr.
fn complain(text: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr().lock(), "tool-server: {text}"));
}

/// What verbs that look at tools.d themselves work on.
fn snapshot(config: &Config) -> std::sync::Arc<crate::registry::Snapshot> {
    crate::registry::Registry::open(crate::app::registry_options(config)).snapshot()
}

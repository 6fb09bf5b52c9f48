//! `catalog`: definitions to choose from; taking one, taking it out again.
//!
//! Owns: the verb's words, what is printed, what is asked. What is taken, and how it
//! comes into its place, is `crate::catalog`'s.

mod add;
mod remove;
mod server;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{complain, say};
use crate::catalog::{self, Candidate, Catalog, CatalogError, Repository, Source};
use crate::config::Config;
use crate::registry::RegistryOptions;
use crate::shown::harmless;

/// The verb.
pub(super) fn command() -> Command {
    let names = |help: &'static str| {
        Arg::new("names").value_name("NAME").help(help).required(true).num_args(1..)
    };
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help(help)
            .value_parser(clap::value_parser!(PathBuf))
    };
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let source = |command: Command| {
        command
            .arg(path("path", "DIR", "From a folder of this machine instead").conflicts_with("url"))
            .arg(text("url", "GIT", "From a git repository instead; nothing of it is run"))
            .arg(
                text(
                    "commit",
                    "COMMIT",
                    "The commit, written whole; without it the present one is shown",
                )
                .requires("url"),
            )
            .arg(
                text(
                    "folder",
                    "FOLDER",
                    "Where in the repository it lies [default: the root, or NAME]",
                )
                .requires("url"),
            )
    };
    let servers = |command: Command| {
        command
            .arg(path("packages-file", "FILE", "Where packages are noted that an image is to have [env: TOOL_PACKAGES_FILE]"))
            .arg(
                path("server", "SOCKET", "The control socket of a running server to tell; again for each [default: the setting control-socket]")
                    .action(ArgAction::Append),
            )
    };
    Command::new("catalog")
        .about("Definitions to choose from: list, show, add, remove, check")
        .long_about(
            "Definitions to choose from, and how one of them comes into tools.d.\n\n\
             A definition is read, tried with its examples as the server would load it, and put \
             in its place by one rename; a running server takes it up by itself. From anywhere \
             but the catalog it is shown first, whole, and nothing of it is run.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(
            path(
                "catalog",
                "DIR",
                "The catalog [env: TOOL_CATALOG] [default: beside this program]",
            )
            .global(true),
        )
        .subcommand(
            Command::new("list")
                .about("What there is, and what of it is installed")
                .arg(flag("json", "Print JSON instead of text")),
        )
        .subcommand(source(
            Command::new("show")
                .about("Show a definition whole")
                .arg(names("The tool").num_args(1)),
        ))
        .subcommand(servers(source(
            Command::new("add")
                .about("Take a definition into tools.d")
                .arg(names("The tool's name"))
                .arg(flag("yes", "Take it without asking; with --url only together with --commit"))
                .arg(flag(
                    "force",
                    "Replace a definition that was changed here; the old one is kept",
                )),
        )))
        .subcommand(servers(
            Command::new("remove").about("Take tools out of tools.d").arg(names("The tool's name")),
        ))
        .subcommand(Command::new("check").about(
            "Load every definition of the catalog and run its examples; exit 1 on any error",
        ))
        .subcommand(
            Command::new("index")
                .about("Print the index that the catalog's folders make")
                .arg(flag("write", "Write it")),
        )
}

/// Does what the verb says.
pub(super) fn run(config: &Config, arguments: &ArgMatches) -> ExitCode {
    let Some((verb, arguments)) = arguments.subcommand() else { return ExitCode::from(2) };
    let options = crate::app::registry_options(config);
    let done = match verb {
        "list" => show::list(&options, arguments),
        "show" => show::show(&options, arguments),
        "add" => return add::run(config, &options, arguments),
        "remove" => return remove::run(config, &options, arguments),
        "check" => check(&options, arguments),
        "index" => index(&options, arguments),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(well) => ExitCode::from(u8::from(!well)),
        Err(error) => {
            tell(&error);
            ExitCode::from(1)
        }
    }
}

/// One line on stderr. It may quote a definition: nothing of that reaches the terminal
/// but as letters.
fn tell(error: &CatalogError) {
    complain(&harmless(&error.to_string()).replace('\n', " "));
}

/// Loads all of it.
fn check(options: &RegistryOptions, arguments: &ArgMatches) -> Result<bool, CatalogError> {
    let catalog = open(arguments)?;
    let wrong = catalog.check(options)?;
    for line in &wrong {
        say(&format!("error: index.json: {line}"));
    }
    if !wrong.is_empty() {
        say("to make the index anew: tool-server catalog index --write");
    }
    say(&format!("{} definitions, {} errors", catalog.index.tools.len(), wrong.len()));
    Ok(wrong.is_empty())
}

fn index(options: &RegistryOptions, arguments: &ArgMatches) -> Result<bool, CatalogError> {
    // It need not have one yet.
    let places = places(arguments);
    let place = places.iter().find(|place| place.is_dir());
    let Some(place) = place else { return Catalog::open(&places).map(|_| false) };
    let made = catalog::made(place, options)?;
    if arguments.get_flag("write") {
        say(&format!("wrote {}", catalog::write_index(place, &made)?.display()));
    } else {
        say(made.text()?.trim_end());
    }
    Ok(true)
}

/// The catalog that is meant.
fn open(arguments: &ArgMatches) -> Result<Catalog, CatalogError> {
    Catalog::open(&places(arguments))
}

/// Where it may be: as said, or beside this program, in a checkout, a tarball or an image.
fn places(arguments: &ArgMatches) -> Vec<PathBuf> {
    let said = arguments.get_one::<PathBuf>("catalog").cloned();
    if let Some(said) = said.or_else(|| std::env::var_os("TOOL_CATALOG").map(PathBuf::from)) {
        return vec![said];
    }
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(std::path::Path::parent);
    let beside = ["catalog", "../catalog", "../share/tool-broker/catalog", "../../catalog"];
    own.into_iter().flat_map(|own| beside.map(|place| own.join(place))).collect()
}

/// The names that were given.
fn names(arguments: &ArgMatches) -> Vec<String> {
    arguments.get_many::<String>("names").into_iter().flatten().cloned().collect()
}

/// The file of packages, where one is named.
fn packages_file(arguments: &ArgMatches) -> Option<PathBuf> {
    let said = arguments.get_one::<PathBuf>("packages-file").cloned();
    said.or_else(|| {
        std::env::var_os("TOOL_PACKAGES_FILE")
            .map(OsString::into)
            .filter(|path: &PathBuf| !path.as_os_str().is_empty())
    })
}

/// Reads the definition that the words name.
fn candidate(name: &str, arguments: &ArgMatches) -> Result<Candidate, CatalogError> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    if let Some(path) = arguments.get_one::<PathBuf>("path") {
        return Candidate::read(name, &Source::Path(path));
    }
    if let Some(url) = text("url") {
        let repository = Repository { url, commit: text("commit"), folder: text("folder") };
        return Candidate::read(name, &Source::Url(&repository));
    }
    Candidate::read(name, &Source::Catalog(&open(arguments)?))
}

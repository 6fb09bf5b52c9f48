//! `tool-server manual DIR`: the man pages and completions, from the command line
//! itself, so that they say what the program does. For scripts/release.sh alone;
//! the feature `manual` is in no release.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

use super::fail;

pub(super) const VERB: &str = "manual";
const NAME: &str = "tool-server";

/// The verb.
pub(super) fn command() -> Command {
    let directory = Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf));
    Command::new(VERB).about("Write man pages and completions").hide(true).arg(directory)
}

/// Writes them.
pub(super) fn run(arguments: &ArgMatches) -> ExitCode {
    let directory = arguments.get_one::<PathBuf>("directory").cloned().unwrap_or_default();
    match write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write to {}: {error}", directory.display())),
    }
}

fn write(directory: &Path) -> io::Result<()> {
    let (pages, completions) = (directory.join("man1"), directory.join("completions"));
    std::fs::create_dir_all(&pages)?;
    std::fs::create_dir_all(&completions)?;
    // As the released program has it: without this verb.
    let mut command = super::command();
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        generate_to(shell, &mut command, NAME, &completions)?;
    }
    // Anew: what is built has every setting in every verb's page.
    page(super::command(), NAME, &pages)
}

/// The page of a command, and those of the verbs beneath it.
fn page(command: Command, words: &str, pages: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        page(verb.clone(), &format!("{words} {}", verb.get_name()), pages)?;
    }
    let name = words.replace(' ', "-");
    let mut file = File::create(pages.join(format!("{name}.1")))?;
    let command = command.name(name.clone()).display_name(words.to_owned());
    let command = command.bin_name(words.to_owned()).version(env!("CARGO_PKG_VERSION"));
    Man::new(command.disable_version_flag(true)).title(name).render(&mut file)
}

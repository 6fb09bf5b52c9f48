//! `catalog add`: a definition is read, tried, shown, and put into tools.d.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;

use super::server::{self, Said};
use super::{candidate, complain, names, packages_file, say, show, tell};
use crate::catalog::{CatalogError, From, Packages, Place, Put, Ready, note_packages, packages_of};
use crate::config::Config;
use crate::registry::RegistryOptions;
use crate::shown::harmless;

/// Takes each name; what cannot be taken is told, and the others are.
pub(super) fn run(config: &Config, options: &RegistryOptions, arguments: &ArgMatches) -> ExitCode {
    let elsewhere = arguments.contains_id("path") || arguments.contains_id("url");
    let names = names(arguments);
    if elsewhere && names.len() != 1 {
        complain("--path and --url are for one tool: name one");
        return ExitCode::from(2);
    }
    let yes = arguments.get_flag("yes");
    if yes && arguments.contains_id("url") && !arguments.contains_id("commit") {
        complain(
            "--yes with --url takes what nobody has looked at: say which commit, --commit COMMIT",
        );
        return ExitCode::from(2);
    }
    let mut well = true;
    for name in names {
        match one(&name, config, options, arguments) {
            Ok(taken) => well &= taken,
            Err(error) => {
                tell(&error);
                well = false;
            }
        }
    }
    ExitCode::from(u8::from(!well))
}

fn one(
    name: &str,
    config: &Config,
    options: &RegistryOptions,
    arguments: &ArgMatches,
) -> Result<bool, CatalogError> {
    let place = Place::open(&options.tools_dir)?;
    let ready = Ready::attempt(candidate(name, arguments)?, &place, options)?;
    ready.may_replace(&place, arguments.get_flag("force"))?;
    show::summary(&ready);
    if !show::is_ours(&ready) {
        show::files(&ready);
        if !arguments.get_flag("yes") && !confirm(&ready) {
            return Ok(false);
        }
    }
    if let Some(file) = packages_file(arguments) {
        // Before anything is changed.
        Packages::read(&file)?;
    }
    let packages = ready.candidate.packages.clone();
    let binary = ready.tool.binary.clone();
    let put = ready.put(&place, arguments.get_flag("force"))?;
    let folder = options.tools_dir.join(name);
    match &put {
        Put::New => say(&format!("added {}", folder.display())),
        Put::Already => say(&format!("{} is there already, the same", folder.display())),
        Put::Replaced { kept: None } => {
            say(&format!("replaced {}, which nobody had changed", folder.display()))
        }
        Put::Replaced { kept: Some(kept) } => {
            say(&format!(
                "replaced {}; what was there is kept in {}",
                folder.display(),
                kept.display()
            ));
        }
    }
    let said: Vec<Said> =
        server::sockets(config, arguments).iter().map(|socket| told(socket, name)).collect();
    let installed = said.contains(&Said::InForce) && !said.contains(&Said::NotInstalled);
    if !installed {
        let known = said.contains(&Said::NotInstalled);
        wanted(name, &binary, &packages, known, options, arguments)?;
    }
    Ok(!said.iter().any(|said| matches!(said, Said::Wrong(_))))
}

/// Asks one server, and says what it says.
fn told(socket: &Path, name: &str) -> Said {
    let (said, place) = (server::ask(socket, name), socket.display());
    match &said {
        Said::InForce => {
            say(&format!("in force in the running server ({place}): {name} can be called"))
        }
        Said::NotInstalled => say(&format!(
            "the running server ({place}) has {name}, but its program is not installed there"
        )),
        Said::Wrong(problem) => {
            // It quotes a definition.
            let problem = harmless(problem).replace('\n', " ");
            complain(&format!("the running server ({place}) does not take it: {problem}"))
        }
        Said::Absent => say(&format!(
            "the running server ({place}) does not see {name}: it has another tools.d"
        )),
        Said::Nobody(why) => say(&format!(
            "no server answers at {place} ({why}): one that runs takes {name} up by itself, another when it starts"
        )),
    }
    said
}

/// Says what an image has to have, and notes it.
fn wanted(
    name: &str,
    binary: &Path,
    packages: &[String],
    known: bool,
    options: &RegistryOptions,
    arguments: &ArgMatches,
) -> Result<(), CatalogError> {
    let binary = binary.display();
    if packages.is_empty() {
        say(&format!(
            "{name} needs {binary} where the server runs; the definition names no Debian package for it"
        ));
        return Ok(());
    }
    let list = packages.join(" ");
    let Some(file) = packages_file(arguments) else {
        say(&format!(
            "{name} needs {binary} where the server runs, which is in: {list}; unless the image has it, build it with EXTRA_PACKAGES=\"{list}\""
        ));
        return Ok(());
    };
    let mut lines = Packages::read(&file)?;
    let new = lines.add(packages);
    // Its own line, or one that another tool brought: then they share it.
    let others = packages_of(&options.tools_dir);
    let shared = |package: &String| others.iter().any(|(_, _, noted)| noted.contains(package));
    let noted: Vec<String> = packages
        .iter()
        .filter(|package| new.contains(package) || shared(package))
        .cloned()
        .collect();
    if !new.is_empty() {
        lines.write()?;
    }
    note_packages(&options.tools_dir, name, &noted)?;
    let unless = if known { "" } else { "unless the image has it, " };
    say(&format!(
        "{name} needs {binary} where the server runs, which is in: {list}; noted in {}: {unless}build the image anew (claude-container build)",
        file.display()
    ));
    Ok(())
}

/// Asks whoever sits there.
fn confirm(ready: &Ready) -> bool {
    let name = &ready.candidate.name;
    let yes = match &ready.candidate.from {
        From::Url { commit, .. } => format!("--commit {commit} --yes"),
        _ => "--yes".to_owned(),
    };
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        complain(&format!("{name} is not taken: look at what is above, and take it with {yes}"));
        return false;
    }
    // The terminal may be gone: then nothing is read below either.
    drop(
        write!(io::stderr(), "Take {name} into tools.d? [y/N] ")
            .and_then(|()| io::stderr().flush()),
    );
    let mut answer = String::new();
    let heard = stdin.lock().read_line(&mut answer).is_ok();
    let agreed = heard && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if !agreed {
        complain(&format!("{name} is not taken"));
    }
    agreed
}

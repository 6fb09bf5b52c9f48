//! `catalog remove`: a tool is taken out of tools.d.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::ArgMatches;

use super::server::{self, Said};
use super::{complain, names, packages_file, say, tell};
use crate::catalog::{CatalogError, Installed, Packages, Place, packages_of};
use crate::config::Config;
use crate::registry::{RegistryOptions, ToolName};

/// Takes each name out; what cannot be is told, and the others are.
pub(super) fn run(config: &Config, options: &RegistryOptions, arguments: &ArgMatches) -> ExitCode {
    let mut well = true;
    for name in names(arguments) {
        if let Err(error) = one(&name, config, options, arguments) {
            tell(&error);
            well = false;
        }
    }
    ExitCode::from(u8::from(!well))
}

fn one(
    name: &str,
    config: &Config,
    options: &RegistryOptions,
    arguments: &ArgMatches,
) -> Result<(), CatalogError> {
    if ToolName::parse(name).is_none() {
        return Err(CatalogError::BadName { name: name.to_owned() });
    }
    let place = Place::open(&options.tools_dir)?;
    let installed = Installed::of(&options.tools_dir, name);
    let noted = installed.and_then(|installed| installed.origin).map(|origin| origin.packages);
    let kept = place.take_out(name)?;
    let folder = options.tools_dir.join(name);
    match kept {
        None => say(&format!("removed {}", folder.display())),
        Some(kept) => say(&format!(
            "removed {}; it was changed here, and is kept in {}",
            folder.display(),
            kept.display()
        )),
    }
    if let (Some(noted), Some(file)) = (noted, packages_file(arguments)) {
        let others = packages_of(&options.tools_dir);
        let needed = |package: &String| others.iter().any(|(_, needs, _)| needs.contains(package));
        let (still, gone): (BTreeSet<String>, BTreeSet<String>) =
            noted.into_iter().partition(needed);
        let mut lines = Packages::read(&file)?;
        let gone = lines.remove(&gone);
        if !gone.is_empty() {
            lines.write()?;
            say(&format!("no longer in {}: {}", file.display(), gone.join(" ")));
        }
        for package in still {
            say(&format!("{package} stays in {}: another tool needs it", file.display()));
        }
    }
    for socket in server::sockets(config, arguments) {
        let place = socket.display();
        match server::ask(&socket, name) {
            Said::Nobody(_) => {}
            Said::Absent => {
                say(&format!("gone from the running server ({place}); calls under way go on"))
            }
            _ => complain(&format!(
                "the running server ({place}) still has {name}: it has another tools.d"
            )),
        }
    }
    say(&format!(
        "left: its HOME, home/{name} in the state directory of each server, with what its calls kept there"
    ));
    Ok(())
}

//! The state directory: made, taken for one server alone, and this instance's
//! number in it. Must not: know what the number is for.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use super::error::{AppError, StateError};

fn state_error(path: &Path) -> impl Fn(std::io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError { path: path.clone(), source }
}

pub(super) fn make_state_directory(path: &Path) -> Result<(), StateError> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path).map_err(state_error(path))
}

/// Takes the state directory for this server alone: two would end each other's
/// calls as leftovers.
pub(super) fn lock_state(path: &Path) -> Result<Flock<std::fs::File>, AppError> {
    make_state_directory(path)?;
    let mut options = std::fs::File::options();
    // Others may go through this directory, to HOMEs of theirs.
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path.join("lock")).map_err(state_error(path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_held| AppError::StateInUse(path.to_owned()))
}

/// This instance's number, which stays the same from start to start: by it a
/// new server finds what a killed one left.
pub(super) fn instance_number(path: &Path) -> Result<u32, StateError> {
    let file = path.join("instance");
    // A copy of a state directory is another instance, and must not end the
    // calls of the first as leftovers. After a reboot there are none.
    let own = std::fs::metadata(path).map_err(state_error(path))?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let here = format!("{}:{} {}", own.dev(), own.ino(), boot.trim());
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some((number, place)) = known.trim().split_once(' ')
        && place == here
        && let Ok(number) = number.parse()
    {
        return Ok(number);
    }
    let number = random(path)?;
    std::fs::write(&file, format!("{number} {here}\n")).map_err(state_error(path))?;
    Ok(number)
}

pub(super) fn random(path: &Path) -> Result<u32, StateError> {
    let mut bytes = [0u8; 4];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut bytes))
        .map_err(state_error(path))?;
    Ok(u32::from_le_bytes(bytes))
}

//! Landlock: what a process and all that come of it can reach among files and TCP
//! ports, and whom they can signal.
//!
//! Owns: rulesets, made once and entered by many processes. Must not: know which
//! paths a tool needs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    Scope,
};
use nix::errno::Errno;
use nix::sys::stat::SFlag;

use super::weaken;

/// The first version that handles TCP ports.
const TCP: u32 = 4;

/// Which version this kernel has; `None` where it has none, or it is not on.
pub(crate) fn probe() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call reads no memory, and gives a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// What may be done beneath a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Read, list and execute.
    Read,
    /// All of that, and make, change and remove what is no device.
    Write,
    /// Read, write and control: a device.
    Device,
}

/// A ruleset: whatever it does not name is out of reach.
#[derive(Debug)]
pub(crate) struct Domain {
    ruleset: OwnedFd,
}

impl Domain {
    /// A ruleset of these paths, as far as version `abi` goes. Paths that do not
    /// exist are left out. With `ports`, those alone can be connected to.
    pub(crate) fn new(
        abi: u32,
        paths: &[(impl AsRef<Path>, Access)],
        ports: Option<&[u16]>,
    ) -> Result<Domain, Errno> {
        if abi < TCP && ports.is_some_and(|ports| !ports.is_empty()) {
            return Err(Errno::EOPNOTSUPP);
        }
        let version = ABI::from(i32::try_from(abi).unwrap_or(i32::MAX));
        let mut ruleset = begin(version, abi >= TCP && ports.is_some()).map_err(number)?;
        for (path, access) in paths {
            let path = path.as_ref();
            ruleset = match PathFd::new(path) {
                Ok(file) => add(ruleset, file, *access, version).map_err(number)?,
                Err(PathFdError::OpenCall { .. }) => ruleset,
                Err(_) => return Err(Errno::EINVAL),
            };
        }
        if weaken::is("landlock-fs") {
            let top = PathFd::new("/").map_err(|_no_path| Errno::EINVAL)?;
            let all = PathBeneath::new(top, AccessFs::from_all(version));
            ruleset = ruleset.add_rule(all).map_err(number)?;
        }
        if abi >= TCP && !weaken::is("landlock-net") {
            for port in ports.unwrap_or_default() {
                ruleset =
                    ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(number)?;
            }
        }
        let ruleset: Option<OwnedFd> = ruleset.into();
        Ok(Domain { ruleset: ruleset.ok_or(Errno::EOPNOTSUPP)? })
    }

    /// The ruleset, to be handed on.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }
}

/// What is handled, and so refused where no rule says otherwise.
fn begin(version: ABI, ports: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(version))?;
    if ports && !weaken::is("landlock-net") {
        ruleset = ruleset.handle_access(AccessNet::from_all(version))?;
    }
    let scopes = Scope::from_all(version);
    if !scopes.is_empty() && !weaken::is("landlock-scope") {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}

fn add(
    ruleset: RulesetCreated,
    file: PathFd,
    access: Access,
    version: ABI,
) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(version);
    let wanted: BitFlags<AccessFs> = match access {
        Access::Read => read,
        // Where nobody may make devices, none is made here either.
        Access::Write => {
            AccessFs::from_all(version)
                & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
        }
        Access::Device => {
            (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev)
                & AccessFs::from_all(version)
        }
    };
    // Of what is open, not of what has its name by now.
    let is_folder = nix::sys::stat::fstat(&file).is_ok_and(|found| {
        SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
    });
    let wanted = if is_folder { wanted } else { wanted & AccessFs::from_file(version) };
    ruleset.add_rule(PathBeneath::new(file, wanted))
}

/// How the kernel named what went wrong.
fn number(error: RulesetError) -> Errno {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let named = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if let Some(number) = named {
            return Errno::from_raw(number);
        }
        cause = error.source();
    }
    Errno::EINVAL
}

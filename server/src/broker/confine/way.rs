//! The way out of a call that talks to a server: its listener, its secret, and what
//! its tool is told of them.
//!
//! Owns: making them. Must not: serve what comes.

use std::ffi::CString;
use std::io::Read;
use std::path::PathBuf;

use tool_gate::Door;
use tool_gate::door::environment;
use tool_protocol::{Code, Refusal};

use super::{Confines, Level};
use crate::exec::{Arrivals, Ground, Outlet, Plan};
use crate::registry::Tool;

/// What belongs to a call that gets the gate.
#[derive(Debug)]
pub(crate) struct Way {
    /// git: it may ask for receive-pack too.
    pub(crate) push: bool,
    /// Where the gate is, and the call's secret.
    pub(crate) door: Door,
    /// Where gh's configuration is, for a tool whose gates are gh's.
    gh: Option<PathBuf>,
    /// What its processes connect.
    pub(crate) arrivals: Arrivals,
}

impl Confines {
    /// A way out, and the part of it that goes into the plan.
    pub(crate) fn way(
        &self,
        ground: &Ground,
        tool: &Tool,
        push: bool,
    ) -> Result<(Way, Outlet), Refusal> {
        let failed = |error: std::io::Error| {
            let message = format!("the call's way to the gate cannot be made: {error}");
            Refusal::new(Code::SpawnFailed, message)
        };
        let (outlet, arrivals) = match self.level(ground) {
            Level::Namespaces => Outlet::inside(),
            Level::Landlock | Level::None => Outlet::on_machine().map_err(failed)?,
        };
        let door = Door { address: outlet.address(), secret: secret().map_err(failed)? };
        Ok((Way { push, door, gh: self.settings.gh(tool)?, arrivals }, outlet))
    }
}

impl Confines {
    /// Gives a call that begins room for what it connects.
    pub(crate) fn furnish(&self, plan: &Plan) -> Result<(), Refusal> {
        let outlet = plan.confinement.as_ref().and_then(|it| it.outlet.as_ref());
        let Some(outlet) = outlet else { return Ok(()) };
        let room = self.rooms.reserve().ok_or_else(|| {
            let message = "as many calls have a gate as the server has descriptors for: try again \
                           later, or raise its limit of open files";
            Refusal::new(Code::Busy, message)
        })?;
        outlet.furnish(room);
        Ok(())
    }
}

impl Way {
    /// Where the gate is, in the tool's environment: nobody else has a say there. They
    /// are the last so many of its variables.
    pub(crate) fn tell(&self, tool: &Tool, variables: &mut Vec<CString>) -> usize {
        let mut given = environment(&tool.gates, &self.door);
        let config = self.gh.as_ref().and_then(|path| path.to_str());
        given.extend(config.map(|path| ("GH_CONFIG_DIR".to_owned(), path.to_owned())));
        let beginnings: Vec<String> = given.iter().map(|(name, _)| format!("{name}=")).collect();
        variables.retain(|line| {
            !beginnings.iter().any(|name| line.as_bytes().starts_with(name.as_bytes()))
        });
        let before = variables.len();
        let lines = given.into_iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        variables.extend(lines.filter_map(Result::ok));
        variables.len().saturating_sub(before)
    }
}

/// 128 bits that nobody guesses, printable.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

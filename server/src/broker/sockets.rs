//! Unix sockets that a caller passes to a confined tool: they carry descriptors, and
//! with one of them anything could leave or enter.
//!
//! Owns: that none reaches such a tool. Must not: relay a byte.

use tool_protocol::{Code, Refusal};

use crate::exec::Io;
use crate::os::weaken;
use crate::registry::Tool;

/// Takes them from a call. Where one is input or output, as programs that start others
/// make them, bytes are to pass and nothing else: by pipes.
pub(super) fn withhold(tool: &Tool, io: &mut Io) -> Result<(), Refusal> {
    let Io::Passed(descriptors, _) = io else { return Ok(()) };
    if !tool.is_confined() || weaken::is("unix-sockets") {
        return Ok(());
    }
    let standard = 0..=2;
    if descriptors.iter().any(|(number, one)| standard.contains(number) && one.is_unix_socket()) {
        let message = "a socket is not handed to a confined tool: repeat with stdio \"stream\"";
        return Err(Refusal::new(Code::UseStream, message));
    }
    descriptors.retain(|(_, one)| !one.is_unix_socket());
    Ok(())
}

//! The descriptors of a request in their places.
//!
//! Owns: which of them pass, under which numbers, and which become a terminal of
//! ours.

use std::os::fd::RawFd;

use tool_protocol::limits::{MAX_FD, MAX_FDS};
use tool_protocol::{Code, Refusal, Terminal};

use crate::os::foreign::Foreign;

fn bad(message: impl AsRef<str>) -> Refusal {
    Refusal::new(Code::BadFds, message)
}

/// What passes, and what stands for the rest.
pub(super) type Arranged = (Vec<(RawFd, Foreign)>, Vec<Terminal>);

/// Each descriptor with its number; and the terminals that stand for those that
/// are one.
pub(super) fn arrange(
    numbers: &[u32],
    descriptors: Vec<Foreign>,
    mut terminals: Vec<Terminal>,
) -> Result<Arranged, Refusal> {
    if numbers.len() != descriptors.len() {
        let came = descriptors.len();
        return Err(bad(format!("{} descriptors were declared, {came} came", numbers.len())));
    }
    let behind = || terminals.iter().flat_map(|terminal| terminal.fds.iter().copied());
    if numbers.len() + behind().count() > MAX_FDS {
        return Err(bad(format!("a call has at most {MAX_FDS} descriptors")));
    }
    let mut taken: Vec<u32> = numbers.iter().copied().chain(behind()).collect();
    taken.sort_unstable();
    if let Some(number) = taken.iter().find(|number| **number > MAX_FD) {
        return Err(bad(format!("descriptor {number} is above {MAX_FD}")));
    }
    if let Some([number, _]) = taken.array_windows().find(|[one, next]| one == next) {
        return Err(bad(format!("descriptor {number} was declared twice")));
    }
    let mut passed = Vec::with_capacity(numbers.len());
    for (number, descriptor) in numbers.iter().zip(descriptors) {
        if descriptor.is_terminal() {
            // Whoever knows terminals gets one of ours in its place.
            let Some(first) = terminals.first_mut() else {
                let message = "a terminal is not handed to a tool: repeat with stdio \"stream\"";
                return Err(Refusal::new(Code::UseStream, message));
            };
            first.fds.push(*number);
        } else if descriptor.may_pass()
            && let Ok(number) = RawFd::try_from(*number)
        {
            passed.push((number, descriptor));
        }
    }
    terminals.retain(|terminal| !terminal.fds.is_empty());
    Ok((passed, terminals))
}

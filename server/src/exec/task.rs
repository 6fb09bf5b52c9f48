//! What a leader is to do, on its way from the server to it: strings and numbers,
//! each ended by a NUL, in a file in memory.
//!
//! Owns: writing and reading it. Must not: do any of it.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::os::identity::Identity;
use crate::os::limit::Limit;
use crate::os::seccomp::Filter;

/// What a leader is to start.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// It leads the session of a terminal, and the tool begins in its foreground or
    /// not.
    pub(crate) terminal: Option<bool>,
    /// It is the first of namespaces of its own, and listens there at this port.
    pub(crate) spaces: Option<u16>,
    /// What holds the tool.
    pub(crate) confined: Option<Confined>,
    pub(crate) umask: u32,
    /// The numbers of the descriptors that the tool has.
    pub(crate) descriptors: Vec<RawFd>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
}

/// What holds the tool, beside a ruleset that travels as a descriptor.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) identity: Option<Identity>,
    pub(crate) filter: Arc<Filter>,
}

impl Task {
    /// Writes it to a file in memory: command lines are long, and the leader's
    /// own is for everybody to see.
    pub(crate) fn write(&self) -> std::io::Result<OwnedFd> {
        let mut to = Writer::default();
        // 0 is none, 1 is no, 2 is yes.
        to.number(self.terminal.map_or(0, |front| 1 + u64::from(front)));
        to.number(self.spaces.map_or(0, u64::from));
        to.number(u64::from(self.confined.is_some()));
        if let Some(Confined { identity, filter }) = &self.confined {
            to.number(u64::from(filter.notifies()));
            to.number(u64::from(identity.is_some()));
            if let Some(Identity { uid, gid }) = identity {
                to.number(u64::from(*uid));
                to.number(u64::from(*gid));
            }
            to.list(filter.to_numbers());
        }
        to.number(u64::from(self.umask));
        to.list(self.descriptors.iter().map(|one| u64::from(one.unsigned_abs())));
        to.list(self.limits.iter().flat_map(|limit| limit.to_numbers()));
        to.number(self.arguments.len() as u64);
        to.number(self.environment.len() as u64);
        for string in std::iter::once(&self.program).chain(&self.arguments).chain(&self.environment)
        {
            to.0.extend_from_slice(string.to_bytes_with_nul());
        }
        let mut file = File::from(memfd_create(c"task", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&to.0)?;
        file.rewind()?;
        Ok(file.into())
    }

    /// Reads it.
    pub(crate) fn read(mut file: File) -> Option<Task> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let mut from = Reader { bytes: &bytes };
        let terminal = match from.number()? {
            0 => None,
            front => Some(front == 2),
        };
        let spaces = Some(u16::try_from(from.number()?).ok()?).filter(|port| *port > 0);
        let confined = if from.number()? == 1 { Some(Confined::read(&mut from)?) } else { None };
        let umask = u32::try_from(from.number()?).ok()?;
        let descriptors = from.list()?.into_iter().map(|one| RawFd::try_from(one).ok());
        let descriptors = descriptors.collect::<Option<_>>()?;
        let limits = from.list()?;
        let limits = limits.as_chunks().0.iter().map(|numbers| Limit::from_numbers(*numbers));
        let limits = limits.collect::<Option<_>>()?;
        let (arguments, environment) = (from.number()?, from.number()?);
        let program = from.string()?;
        let arguments = (0..arguments).map(|_| from.string()).collect::<Option<_>>()?;
        let environment = (0..environment).map(|_| from.string()).collect::<Option<_>>()?;
        Some(Task {
            terminal,
            spaces,
            confined,
            umask,
            descriptors,
            limits,
            program,
            arguments,
            environment,
        })
    }
}

impl Confined {
    fn read(from: &mut Reader<'_>) -> Option<Confined> {
        let notifies = from.number()? == 1;
        let mut id = || u32::try_from(from.number()?).ok();
        let identity = if id()? == 1 { Some(Identity { uid: id()?, gid: id()? }) } else { None };
        let filter = Arc::new(Filter::from_numbers(&from.list()?, notifies));
        Some(Confined { identity, filter })
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(number.to_string().as_bytes());
        self.0.push(0);
    }

    /// How many, and each.
    fn list(&mut self, numbers: impl Iterator<Item = u64>) {
        let numbers: Vec<u64> = numbers.collect();
        self.number(numbers.len() as u64);
        numbers.into_iter().for_each(|number| self.number(number));
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn string(&mut self) -> Option<CString> {
        let end = self.bytes.iter().position(|byte| *byte == 0)?;
        let (string, rest) = self.bytes.split_at_checked(end)?;
        self.bytes = rest.get(1..)?;
        CString::new(string).ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.string()?.to_str().ok()?.parse().ok()
    }

    fn list(&mut self) -> Option<Vec<u64>> {
        (0..self.number()?).map(|_| self.number()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::seccomp::Allowed;

    #[test]
    fn a_task_comes_back_as_it_was() {
        let strings = |list: &[&[u8]]| list.iter().map(|s| CString::new(*s).unwrap()).collect();
        let plain = Task {
            terminal: Some(true),
            spaces: None,
            confined: None,
            umask: 0o27,
            descriptors: vec![0, 2, 9],
            limits: vec![Limit::named("cpu_seconds", 5).unwrap()],
            program: c"/bin/a b".to_owned(),
            arguments: strings(&[b"", b"\xff\n", b"12"]),
            environment: strings(&[b"A=", b"B=\xfe"]),
        };
        let held = Task {
            terminal: None,
            spaces: Some(8118),
            confined: Some(Confined {
                identity: Some(Identity { uid: 1000, gid: u32::MAX }),
                filter: Arc::new(Filter::new(&Allowed { notify_unix: true, ..Allowed::default() })),
            }),
            ..Task::default()
        };
        for task in [plain, held, Task { terminal: Some(false), ..Task::default() }] {
            let back = Task::read(File::from(task.write().unwrap())).unwrap();
            assert_eq!(format!("{back:?}"), format!("{task:?}"));
        }
    }
}

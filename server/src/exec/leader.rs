//! The leader of a terminal's session, between the server and the tool.
//!
//! A process that leads its own session is in an orphaned group, and the kernel
//! does not stop such a group at ^Z. So beneath a terminal the tool leads only a
//! group; its parent, in the same session, is this: the server's own program,
//! executed anew, which holds the terminal, tells when the tool is stopped, and
//! ends as the tool ends. Must not: relay a byte, or decide anything.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tool_protocol::Size;

use crate::os::leader::{Held, close_placed, end_as, inherited, placed};
use crate::os::limit::Limit;
use crate::os::process::{Change, Exit, change_of};
use crate::os::spawn::{Image, Leads, Program, Spawner, Step};
use crate::os::terminal::{foreground, set_foreground, set_size, take_control};

/// The verb that makes this program a leader. For the server's own use; its
/// argument is where the leader's three descriptors begin.
pub(crate) const VERB: &str = "lead-session";

/// The command line of a leader whose descriptors begin at that number.
pub(crate) fn command_line(first: RawFd) -> [CString; 3] {
    let string = |text: &str| CString::new(text).unwrap_or_default();
    [string("tool-server"), string(VERB), string(&first.to_string())]
}

/// What passes between server and leader: a kind and a number; to the leader
/// always two numbers, of two bytes each.
pub(crate) mod word {
    /// To the server: the tool runs; or, asked, that all is done that was told.
    pub(crate) const RUNS: u8 = b'r';
    /// To the server: the tool could not be prepared, with the error's number.
    pub(crate) const UNPREPARED: u8 = b'p';
    /// To the server: the program could not be executed, likewise.
    pub(crate) const NOT_EXECUTED: u8 = b'e';
    /// To the server: the tool was stopped by that signal.
    pub(crate) const STOPPED: u8 = b's';
    /// To the leader: send that signal to the foreground group.
    pub(crate) const SIGNAL: u8 = b'k';
    /// To the leader: the tool's group is to be the foreground one (1) or not (0).
    pub(crate) const FOREGROUND: u8 = b'f';
    /// To the leader: say when all is done that came before this.
    pub(crate) const QUERY: u8 = b'q';
    /// To the leader: the window has so many rows and columns.
    pub(crate) const SIZE: u8 = b'w';
}

/// What a leader is to start: strings and numbers, each ended by a NUL.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) foreground: bool,
    pub(crate) umask: u32,
    /// The numbers of the descriptors that the tool has.
    pub(crate) descriptors: Vec<RawFd>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) program: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
}

impl Task {
    /// Writes it to a file in memory: command lines are long, and the leader's
    /// own is for everybody to see.
    pub(crate) fn write(&self) -> std::io::Result<OwnedFd> {
        let mut bytes = Vec::new();
        let mut number = |number: u64| {
            bytes.extend_from_slice(number.to_string().as_bytes());
            bytes.push(0);
        };
        number(u64::from(self.foreground));
        number(u64::from(self.umask));
        number(self.descriptors.len() as u64);
        self.descriptors.iter().for_each(|one| number(u64::from(one.unsigned_abs())));
        number(self.limits.len() as u64);
        self.limits.iter().flat_map(|limit| limit.to_numbers()).for_each(&mut number);
        number(self.arguments.len() as u64);
        number(self.environment.len() as u64);
        for string in std::iter::once(&self.program).chain(&self.arguments).chain(&self.environment)
        {
            bytes.extend_from_slice(string.to_bytes_with_nul());
        }
        let mut file = File::from(memfd_create(c"task", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file.into())
    }

    fn read(mut file: File) -> Option<Task> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let mut strings = bytes.split_inclusive(|byte| *byte == 0);
        let mut string = || CString::from_vec_with_nul(strings.next()?.to_vec()).ok();
        let mut number = || string()?.to_str().ok()?.parse::<u64>().ok();
        let (on_screen, umask) = (number()? == 1, u32::try_from(number()?).ok()?);
        let descriptors =
            (0..number()?).map(|_| RawFd::try_from(number()?).ok()).collect::<Option<_>>()?;
        let limits = (0..number()?)
            .map(|_| Limit::from_numbers([number()?, number()?, number()?]))
            .collect::<Option<_>>()?;
        let (arguments, environment) = (number()?, number()?);
        let program = string()?;
        let arguments = (0..arguments).map(|_| string()).collect::<Option<_>>()?;
        let environment = (0..environment).map(|_| string()).collect::<Option<_>>()?;
        Some(Task {
            foreground: on_screen,
            umask,
            descriptors,
            limits,
            program,
            arguments,
            environment,
        })
    }
}

/// The leader's whole life.
pub(crate) fn lead(first: RawFd) -> u8 {
    let Ok([terminal, server, task]) = inherited(first) else { return 125 };
    let mut server = UnixStream::from(server);
    let mut say = |kind, number: i32| {
        // A server that is gone has the kernel kill this process.
        drop(server.write_all(&[kind, u8::try_from(number).unwrap_or(0)]));
    };
    let held = match Held::new().and_then(|held| take_control(terminal.as_fd()).map(|()| held)) {
        Ok(held) => held,
        Err(errno) => {
            say(word::UNPREPARED, errno as i32);
            return 125;
        }
    };
    let Some(task) = Task::read(File::from(task)) else {
        say(word::UNPREPARED, Errno::EBADMSG as i32);
        return 125;
    };
    let tool = match start(&task, &terminal) {
        Ok(tool) => tool,
        Err((step, errno)) => {
            let kind = if step == Step::Exec { word::NOT_EXECUTED } else { word::UNPREPARED };
            say(kind, errno as i32);
            return 125;
        }
    };
    // First: how long closing takes may be the caller's choice.
    say(word::RUNS, 0);
    close_placed(&task.descriptors);
    drop(task);
    let leader = Leader { terminal, tool, before: None };
    leader.watch(&held, server)
}

fn start(task: &Task, terminal: &OwnedFd) -> Result<Pid, (Step, Errno)> {
    let mut spawner = Spawner::new().map_err(|errno| (Step::Prepare, errno))?;
    let image = Image {
        program: Program::Named(&task.program),
        arguments: &task.arguments,
        environment: &task.environment,
        directory: None,
        descriptors: &placed(&task.descriptors),
        umask: task.umask,
        limits: &task.limits,
        leads: Leads::Group(task.foreground.then_some(terminal.as_fd())),
        cgroup: None,
    };
    spawner.spawn(&image).map_err(|error| (error.step, error.errno))
}

struct Leader {
    terminal: OwnedFd,
    tool: Pid,
    /// The group that was in the foreground before the tool was put in the
    /// background: a shell's job, perhaps.
    before: Option<Pid>,
}

impl Leader {
    fn watch(mut self, held: &Held, mut server: UnixStream) -> u8 {
        loop {
            let Ok(woken) = held.wait(server.as_fd()) else { return 125 };
            if woken.child {
                while let Some(change) = change_of(self.tool) {
                    match change {
                        Change::Stopped(signal) => {
                            let signal = u8::try_from(signal).unwrap_or(0);
                            drop(server.write_all(&[word::STOPPED, signal]));
                        }
                        Change::Ended(exit) => self.end(exit),
                    }
                }
            }
            // The kernel tells only the leader, which is to tell its jobs.
            if woken.hung_up {
                self.signal(libc::SIGHUP);
                self.signal(libc::SIGCONT);
            }
            if woken.server {
                let mut said = [0; 5];
                if server.read_exact(&mut said).is_err() {
                    return 125;
                }
                let [kind, a, b, c, d] = said;
                let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                match kind {
                    word::SIGNAL => self.signal(i32::from(first)),
                    word::QUERY => drop(server.write_all(&[word::RUNS, 0])),
                    word::FOREGROUND => self.set_foreground(first == 1),
                    word::SIZE => {
                        // One that is hung up has no window.
                        set_size(self.terminal.as_fd(), Size { rows: first, cols: second }).ok();
                    }
                    _ => {}
                }
            }
        }
    }

    fn signal(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        let front = foreground(self.terminal.as_fd()).filter(|group| *group != Pid::this());
        let reached = front.is_some_and(|group| killpg(group, signal).is_ok());
        // Stopped, it is the tool that is to go on, whoever is in front.
        if !reached || (signal == Signal::SIGCONT && front != Some(self.tool)) {
            killpg(self.tool, signal).ok();
        }
    }

    fn set_foreground(&mut self, front: bool) {
        let now = foreground(self.terminal.as_fd());
        let in_front = now.is_some_and(|group| group != Pid::this());
        if front && !in_front {
            let wanted = self.before.take().unwrap_or(self.tool);
            if set_foreground(self.terminal.as_fd(), wanted).is_err() {
                set_foreground(self.terminal.as_fd(), self.tool).ok();
            }
        } else if !front && in_front {
            self.before = now;
            set_foreground(self.terminal.as_fd(), Pid::this()).ok();
        }
    }

    /// What the tool has left in its group is not hung up: its terminal's
    /// foreground is this process, which ends now.
    fn end(&self, exit: Exit) -> ! {
        set_foreground(self.terminal.as_fd(), Pid::this()).ok();
        end_as(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_comes_back_as_it_was() {
        let strings = |list: &[&[u8]]| list.iter().map(|s| CString::new(*s).unwrap()).collect();
        let task = Task {
            foreground: true,
            umask: 0o27,
            descriptors: vec![0, 2, 9],
            limits: vec![Limit::named("cpu_seconds", 5).unwrap()],
            program: c"/bin/a b".to_owned(),
            arguments: strings(&[b"", b"\xff\n", b"12"]),
            environment: strings(&[b"A=", b"B=\xfe"]),
        };
        let back = Task::read(File::from(task.write().unwrap())).unwrap();
        assert_eq!(format!("{back:?}"), format!("{task:?}"));
    }
}

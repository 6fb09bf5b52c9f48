//! The process between the server and the tool, where there is one: the server's own
//! program, executed anew. It starts the tool, tells when it is stopped, and ends as
//! it ends. There are two reasons for it, and one call may have both.
//!
//! - A terminal: a process that leads its own session is in an orphaned group, and
//!   the kernel does not stop such a group at ^Z. So beneath a terminal the tool leads
//!   only a group; its parent, in the same session, is this, and holds the terminal.
//! - Namespaces: their first process has to make them ready, reap what the call
//!   leaves, and hear what the kernel lets no first process hear. When it ends, so
//!   does all that runs in them.
//!
//! Must not: relay a byte, or decide anything.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tool_protocol::Size;

use super::task::Task;
use crate::os::descriptors::send_with;
use crate::os::identity::Identity;
use crate::os::leader::{Held, close_placed, end_as, inherited, placed};
use crate::os::process::{Change, Exit, next_change};
use crate::os::restrain::Restraint;
use crate::os::spaces::{let_read_proc, listen_inside, make_mounts, map_own};
use crate::os::spawn::{Image, Leads, Program, Spawner, Step};
use crate::os::startup::hide;
use crate::os::terminal::{foreground, set_foreground, set_size, take_control};

/// The verb that makes this program a leader. For the server's own use; its
/// argument is where the leader's descriptors begin.
pub(crate) const VERB: &str = "lead-session";

/// The command line of a leader whose descriptors begin at that number.
pub(crate) fn command_line(first: RawFd) -> [CString; 3] {
    let string = |text: &str| CString::new(text).unwrap_or_default();
    [string("tool-server"), string(VERB), string(&first.to_string())]
}

/// The leader's own descriptors, one after another.
pub(crate) mod place {
    use std::os::fd::RawFd;

    /// The connection to the server.
    pub(crate) const SERVER: RawFd = 0;
    /// Its task.
    pub(crate) const TASK: RawFd = 1;
    /// The terminal whose session it leads, where there is one.
    pub(crate) const TERMINAL: RawFd = 2;
    /// The ruleset of the tool, where it is confined.
    pub(crate) const DOMAIN: RawFd = 3;
    /// So many at most.
    pub(crate) const COUNT: RawFd = 4;
}

/// What passes between server and leader: a kind and a number; to the leader
/// always two numbers, of two bytes each.
pub(crate) mod word {
    /// To the server: the tool runs; or, asked, that all is done that was told.
    pub(crate) const RUNS: u8 = b'r';
    /// To the server: the tool could not be prepared, with the error's number.
    pub(crate) const UNPREPARED: u8 = b'p';
    /// To the server: the tool could not be confined, likewise.
    pub(crate) const UNCONFINED: u8 = b'c';
    /// To the server: the program could not be executed, likewise.
    pub(crate) const NOT_EXECUTED: u8 = b'e';
    /// To the server: the tool was stopped by that signal.
    pub(crate) const STOPPED: u8 = b's';
    /// To the server: the tool ended by that signal, of which the first process of
    /// namespaces cannot die.
    pub(crate) const DIED: u8 = b'd';
    /// To the server, with the listener: the namespaces are ready, with a /proc of
    /// their own (1) or the machine's (0).
    pub(crate) const INSIDE: u8 = b'i';
    /// To the leader: its namespaces have a user. Eight bytes follow.
    pub(crate) const ENTER: u8 = b'g';
    /// To the leader: it is to give them this user and group, four bytes each.
    pub(crate) const ENTER_AS: u8 = b'G';
    /// To the leader: send that signal to the foreground group.
    pub(crate) const SIGNAL: u8 = b'k';
    /// To the leader: the tool's group is to be the foreground one (1) or not (0).
    pub(crate) const FOREGROUND: u8 = b'f';
    /// To the leader: say when all is done that came before this.
    pub(crate) const QUERY: u8 = b'q';
    /// To the leader: the window has so many rows and columns.
    pub(crate) const SIZE: u8 = b'w';
}

/// Why there is no tool: the word for it, and the error.
type Failure = (u8, Errno);

fn unprepared(errno: Errno) -> Failure {
    (word::UNPREPARED, errno)
}

/// The leader's whole life.
pub(crate) fn lead(first: RawFd) -> u8 {
    let Ok(server) = inherited(first + place::SERVER) else { return 125 };
    let mut server = UnixStream::from(server);
    match begin(first, &mut server) {
        Ok((leader, held)) => leader.watch(&held, server),
        Err((kind, errno)) => {
            // A server that is gone has the kernel kill this process.
            drop(server.write_all(&[kind, u8::try_from(errno as i32).unwrap_or(0)]));
            125
        }
    }
}

/// Makes ready what the tool needs, and starts it.
fn begin(first: RawFd, server: &mut UnixStream) -> Result<(Leader, Held), Failure> {
    let held = Held::new().map_err(unprepared)?;
    let task = inherited(first + place::TASK).map_err(unprepared)?;
    let task = Task::read(File::from(task)).ok_or((word::UNPREPARED, Errno::EBADMSG))?;
    let take = |wanted: bool, place| wanted.then(|| inherited(first + place)).transpose();
    let terminal = take(task.terminal.is_some(), place::TERMINAL).map_err(unprepared)?;
    let domain = take(task.confined.is_some(), place::DOMAIN).map_err(unprepared)?;
    if let Some(port) = task.spaces {
        enter(port, domain.as_ref(), server).map_err(unprepared)?;
    }
    if let Some(terminal) = &terminal {
        take_control(terminal.as_fd()).map_err(unprepared)?;
    }
    let tool = start(&task, terminal.as_ref(), domain.as_ref(), server).map_err(failure)?;
    // First: how long closing takes may be the caller's choice.
    drop(server.write_all(&[word::RUNS, 0]));
    close_placed(&task.descriptors);
    Ok((Leader { terminal, tool, before: None, first: task.spaces.is_some() }, held))
}

/// Makes the namespaces that this process is the first of ready.
fn enter(port: u16, domain: Option<&OwnedFd>, server: &mut UnixStream) -> Result<(), Errno> {
    // They have no user before the server says so.
    let (mut kind, mut uid, mut gid) = (0, [0; 4], [0; 4]);
    for part in [std::slice::from_mut(&mut kind), &mut uid, &mut gid] {
        server.read_exact(part).map_err(|_gone| Errno::ECANCELED)?;
    }
    let number = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    if kind == word::ENTER_AS {
        let (uid, gid) = (u32::from_be_bytes(uid), u32::from_be_bytes(gid));
        map_own(Identity { uid, gid }).map_err(number)?;
    }
    // Until here its ids had to be written, which is for whoever may look at it.
    hide()?;
    let fresh = make_mounts()?;
    if let Some(domain) = domain {
        let_read_proc(domain.as_fd())?;
    }
    let listener = listen_inside(port)?;
    send_with(server.as_fd(), &[word::INSIDE, u8::from(fresh)], &[listener]).map_err(number)?;
    Ok(())
}

fn failure((step, errno): (Step, Errno)) -> Failure {
    let kind = match step {
        Step::Exec => word::NOT_EXECUTED,
        Step::Confine => word::UNCONFINED,
        Step::Clone | Step::Prepare | Step::Directory => word::UNPREPARED,
    };
    (kind, errno)
}

fn start(
    task: &Task,
    terminal: Option<&OwnedFd>,
    domain: Option<&OwnedFd>,
    server: &UnixStream,
) -> Result<Pid, (Step, Errno)> {
    let mut spawner = Spawner::new().map_err(|errno| (Step::Prepare, errno))?;
    let front = terminal.filter(|_| task.terminal == Some(true));
    let image = Image {
        program: Program::Named(&task.program),
        arguments: &task.arguments,
        environment: &task.environment,
        directory: None,
        descriptors: &placed(&task.descriptors),
        umask: task.umask,
        limits: &task.limits,
        leads: Leads::Group(front.map(AsFd::as_fd)),
        restraint: task.confined.as_ref().zip(domain).map(|(confined, domain)| Restraint {
            identity: confined.identity,
            domain: domain.as_fd(),
            filter: &confined.filter,
            listener: Some(server.as_fd()),
        }),
        cgroup: None,
        spaces: false,
    };
    spawner.spawn(&image).map_err(|error| (error.step, error.errno))
}

struct Leader {
    terminal: Option<OwnedFd>,
    tool: Pid,
    /// The group that was in the foreground before the tool was put in the
    /// background: a shell's job, perhaps.
    before: Option<Pid>,
    /// Of namespaces.
    first: bool,
}

impl Leader {
    fn watch(mut self, held: &Held, mut server: UnixStream) -> u8 {
        loop {
            let Ok(woken) = held.wait(server.as_fd()) else { return 125 };
            if woken.child {
                while let Some((pid, change)) = next_change() {
                    match change {
                        // What the call has left, in its namespaces.
                        _ if pid != self.tool => {}
                        Change::Stopped(signal) => {
                            let signal = u8::try_from(signal).unwrap_or(0);
                            drop(server.write_all(&[word::STOPPED, signal]));
                        }
                        Change::Ended(exit) => self.end(exit, &mut server),
                    }
                }
            }
            // The kernel tells only the leader, which is to tell its jobs.
            if woken.hung_up && self.terminal.is_some() {
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
                        let size = Size { rows: first, cols: second };
                        self.terminal.as_ref().and_then(|it| set_size(it.as_fd(), size).ok());
                    }
                    _ => {}
                }
            }
        }
    }

    /// The group in the foreground of the terminal.
    fn in_front(&self) -> Option<Pid> {
        self.terminal.as_ref().and_then(|terminal| foreground(terminal.as_fd()))
    }

    fn signal(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        let front = self.in_front().filter(|group| *group != Pid::this());
        let reached = front.is_some_and(|group| killpg(group, signal).is_ok());
        // Stopped, it is the tool that is to go on, whoever is in front.
        if !reached || (signal == Signal::SIGCONT && front != Some(self.tool)) {
            killpg(self.tool, signal).ok();
        }
    }

    fn set_foreground(&mut self, front: bool) {
        let now = self.in_front();
        let Some(terminal) = self.terminal.as_ref().map(AsFd::as_fd) else { return };
        let in_front = now.is_some_and(|group| group != Pid::this());
        if front && !in_front {
            let wanted = self.before.take().unwrap_or(self.tool);
            if set_foreground(terminal, wanted).is_err() {
                set_foreground(terminal, self.tool).ok();
            }
        } else if !front && in_front {
            self.before = now;
            set_foreground(terminal, Pid::this()).ok();
        }
    }

    /// What the tool has left in its group is not hung up: its terminal's
    /// foreground is this process, which ends now.
    fn end(&self, exit: Exit, server: &mut UnixStream) -> ! {
        if let Some(terminal) = &self.terminal {
            set_foreground(terminal.as_fd(), Pid::this()).ok();
        }
        match exit {
            Exit::Signal(number) if self.first => {
                let signal = u8::try_from(number).unwrap_or(0);
                drop(server.write_all(&[word::DIED, signal]));
                end_as(Exit::Code(signal.saturating_add(128)))
            }
            exit => end_as(exit),
        }
    }
}

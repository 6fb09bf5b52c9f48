//! What the server has of a leader (`leader`): what it is given, what it tells and
//! what it is told.
//!
//! Must not: wait longer than its caller wants to.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getegid, geteuid};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tool_protocol::terminal::Size;

use super::leader::{place, word};
use super::task::Task;
use crate::os::descriptors::receive;
use crate::os::foreign::Foreign;
use crate::os::identity::Identity;
use crate::os::notify;
use crate::os::process::{Exit, Handle as Process};
use crate::os::spaces;
use crate::os::spawn::Step;

/// This program, to be executed anew as a leader; `None` where /proc does not
/// show it.
pub(super) fn own_program() -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    nix::fcntl::open("/proc/self/exe", flags, Mode::empty()).ok()
}

/// What a leader gets, before there is one.
#[derive(Debug)]
pub(super) struct Lead {
    theirs: OwnedFd,
    task: OwnedFd,
    first: RawFd,
    control: StdStream,
}

impl Lead {
    /// For that task.
    pub(super) fn new(task: &Task) -> Result<Lead, Errno> {
        let (control, theirs) = StdStream::pair().map_err(|error| number(&error))?;
        // The lowest in a row that the tool does not use.
        let free = |first: &RawFd| {
            let own = *first..*first + place::COUNT;
            task.descriptors.iter().all(|number| !own.contains(number))
        };
        let first = (3..).find(free).unwrap_or(3);
        let task = task.write().map_err(|error| number(&error))?;
        Ok(Lead { theirs: theirs.into(), task, first, control })
    }

    /// Where its own descriptors begin.
    pub(super) fn first(&self) -> RawFd {
        self.first
    }

    /// Its own descriptors, these among them, with their numbers.
    pub(super) fn descriptors<'a>(
        &'a self,
        terminal: Option<BorrowedFd<'a>>,
        domain: Option<BorrowedFd<'a>>,
    ) -> impl Iterator<Item = (BorrowedFd<'a>, RawFd)> {
        let own = [
            (Some(self.theirs.as_fd()), place::SERVER),
            (Some(self.task.as_fd()), place::TASK),
            (terminal, place::TERMINAL),
            (domain, place::DOMAIN),
        ];
        own.into_iter().filter_map(|(fd, place)| Some((fd?, self.first + place)))
    }

    /// Lets it enter its namespaces, whose user is to be that, or the server's own.
    pub(super) fn let_enter(
        &self,
        pid: Pid,
        handle: Option<&Process>,
        identity: Option<Identity>,
    ) -> io::Result<()> {
        let (kind, uid, gid) = match identity {
            Some(identity) => {
                let handle = handle.ok_or(Errno::ESRCH)?;
                spaces::map(pid, handle, identity)?;
                (word::ENTER, 0, 0)
            }
            None => (word::ENTER_AS, geteuid().as_raw(), getegid().as_raw()),
        };
        let mut said = vec![kind];
        said.extend(uid.to_be_bytes());
        said.extend(gid.to_be_bytes());
        (&self.control).write_all(&said)
    }

    /// What stays here once it runs: its ends are closed.
    pub(super) fn keep_ours(self, runtime: &Handle) -> io::Result<Leader> {
        // The call may have been started by a thread that is not the runtime's.
        let _entered = runtime.enter();
        self.control.set_nonblocking(true)?;
        Ok(Leader { control: UnixStream::from_std(self.control)?, died: None })
    }

    /// The same for whoever has no runtime and waits.
    pub(super) fn keep_control(self) -> StdStream {
        self.control
    }
}

fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// A leader that runs.
#[derive(Debug)]
pub(crate) struct Leader {
    control: UnixStream,
    /// The signal that its tool ended by, where it cannot end so itself.
    died: Option<Exit>,
}

/// What a leader tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// The tool runs, and what the leader was told is done.
    Runs,
    /// It does not, and never will.
    Failed(Step, Errno),
    /// The tool was stopped by that signal.
    Stopped(i32),
    /// The namespaces are ready, with a /proc of their own or not; the call's
    /// processes connect to this.
    Inside(OwnedFd, bool),
    /// What the tool's system calls ask is heard here.
    Questions(OwnedFd),
    /// The tool ended by that signal, which the leader cannot do.
    Died(i32),
    /// What has no meaning here.
    Nothing,
}

impl Leader {
    /// The next thing that the leader tells; `None` once it is gone. Giving up
    /// the future loses nothing: words come whole.
    pub(crate) async fn told(&mut self) -> Option<Told> {
        loop {
            let control = &self.control;
            let said = control.async_io(Interest::READABLE, || hear(control.as_fd())).await;
            match said.ok()?? {
                Told::Died(number) => self.died = Some(Exit::Signal(number)),
                Told::Nothing => {}
                told => return Some(told),
            }
        }
    }

    /// How its tool ended: it did itself end so, which may not tell all. What it
    /// said before is heard first.
    pub(crate) fn end(&mut self, own: Exit) -> Exit {
        while let Ok(Some(told)) = hear(self.control.as_fd()) {
            if let Told::Died(number) = told {
                self.died = Some(Exit::Signal(number));
            }
        }
        self.died.unwrap_or(own)
    }

    /// Sends a signal to the group in the terminal's foreground, or the tool's.
    pub(crate) fn signal(&self, signal: i32) {
        self.tell(word::SIGNAL, u16::try_from(signal).unwrap_or(0), 0);
    }

    /// Puts the tool in the foreground, or not.
    pub(crate) fn set_foreground(&self, front: bool) {
        self.tell(word::FOREGROUND, u16::from(front), 0);
    }

    /// Asks it to say when it has done what it was told; whether it will.
    pub(crate) fn query(&self) -> bool {
        self.tell(word::QUERY, 0, 0)
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&self, size: Size) {
        self.tell(word::SIZE, size.rows, size.cols);
    }

    /// Whether it was told.
    fn tell(&self, kind: u8, first: u16, second: u16) -> bool {
        let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
        // A leader that does not read was stopped by its own tool: what it is
        // told then is lost, as a signal to a dead process is.
        let told = self.control.try_write(&[kind, a, b, c, d]);
        if let Err(error) = &told {
            tracing::debug!(%error, "the leader was not told");
        }
        told.is_ok()
    }
}

/// The next word; `None` at the end. Never waits.
pub(super) fn hear(control: BorrowedFd<'_>) -> io::Result<Option<Told>> {
    let mut said = [0; 2];
    let mut received = receive(control, &mut said)?;
    if received.bytes < said.len() {
        return Ok(None);
    }
    let [kind, value] = said;
    let errno = Errno::from_raw(i32::from(value));
    let descriptor = received.descriptors.pop().and_then(Foreign::into_inner);
    Ok(Some(match (kind, descriptor) {
        (word::RUNS, _) => Told::Runs,
        (word::UNPREPARED, _) => Told::Failed(Step::Prepare, errno),
        (word::UNCONFINED, _) => Told::Failed(Step::Confine, errno),
        (word::NOT_EXECUTED, _) => Told::Failed(Step::Exec, errno),
        (word::STOPPED, _) => Told::Stopped(i32::from(value)),
        (word::INSIDE, Some(listener)) => Told::Inside(listener, value == 1),
        (notify::LISTENER, Some(questions)) => Told::Questions(questions),
        (word::DIED, _) => Told::Died(i32::from(value)),
        _ => Told::Nothing,
    }))
}

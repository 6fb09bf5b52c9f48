//! Starting one process: clone with CLONE_VM and CLONE_VFORK, a handful of
//! system calls in the child, execve.
//!
//! The child shares the server's memory until it execs, and the server's thread
//! waits for that moment: no page table is copied, whatever the server's size,
//! and an error in the child is simply left in memory. It is safe because the
//! child runs on a stack of its own, allocates nothing, takes no lock, and the
//! server has no signal handlers of its own (os::signals); the dispositions that
//! it has, execve resets, but for SIGPIPE, which the child does.
//!
//! The server's table of descriptors is not copied either (`apart`).
//!
//! Owns: everything between "this program, these strings, these descriptors"
//! and a running process. Must not: wait for it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::apart::{Passage, Way};
use super::child::{Child, Move, descriptor, run_child};
use super::clone3::clone_into;
use super::limit::Limit;
use super::nudge::Nudge;
use super::restrain::{Habits, Restraint, Steps};
use super::spaces;

/// Everything that the child needs, ready before it exists.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    /// What to execute.
    pub(crate) program: Program<'a>,
    /// argv, the name first.
    pub(crate) arguments: &'a [CString],
    /// `NAME=value`.
    pub(crate) environment: &'a [CString],
    /// Entered by descriptor; none is the parent's own.
    pub(crate) directory: Option<BorrowedFd<'a>>,
    /// Which descriptors it has, under which numbers; no other is open.
    pub(crate) descriptors: &'a [(BorrowedFd<'a>, RawFd)],
    /// The file mode creation mask.
    pub(crate) umask: u32,
    /// Resource limits, the mark of the call among them.
    pub(crate) limits: &'a [Limit],
    /// Whose leader it becomes.
    pub(crate) leads: Leads<'a>,
    /// What confines it.
    pub(crate) restraint: Option<Restraint<'a>>,
    /// A cgroup directory to start in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// It is the first process of namespaces of its own, with what that needs.
    pub(crate) spaces: bool,
}

/// A program to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program<'a> {
    /// By its name.
    Named(&'a CStr),
    /// An open file.
    Open(BorrowedFd<'a>),
}

/// What a new process is the first of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leads<'a> {
    /// A session, without a terminal.
    Session,
    /// A process group of this session; the foreground one of that terminal.
    Group(Option<BorrowedFd<'a>>),
}

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The kernel made no process.
    Clone,
    /// Session, limits, descriptors.
    Prepare,
    /// The directory could not be entered.
    Directory,
    /// It could not be confined.
    Confine,
    /// The program could not be executed.
    Exec,
}

/// Why there is no process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnError {
    /// What failed.
    pub(crate) step: Step,
    /// How the kernel named it.
    pub(crate) errno: Errno,
    /// A child that was made and has exited: to be reaped by the caller.
    pub(crate) unreaped: Option<Pid>,
}

/// The stack that children run on until they exec: one, since the server's only
/// spawning thread waits for each.
#[derive(Debug)]
pub(crate) struct Spawner {
    stack: *mut libc::c_void,
    habits: Habits,
    /// By which children get their descriptors; without, they copy all that are here.
    way: Option<Way>,
    /// Made when the first child becomes another user.
    nudge: Option<Nudge>,
}

const STACK: usize = 64 * 1024;
const GUARD: usize = 4096;

// SAFETY: the stack is plain memory that `spawn`, which takes &mut self, uses
// for one child at a time.
unsafe impl Send for Spawner {}

impl Spawner {
    /// That of a server: its children have nothing of what callers pass for others.
    pub(crate) fn apart() -> Result<Spawner, Errno> {
        let mut spawner = Spawner::new()?;
        if !spawner.habits.leaks {
            spawner.way = Way::new()?;
        }
        Ok(spawner)
    }

    /// Maps the stack, with a page below it that faults.
    pub(crate) fn new() -> Result<Spawner, Errno> {
        // SAFETY: a new private mapping, and a page of it made inaccessible.
        unsafe {
            let stack = libc::mmap(
                ptr::null_mut(),
                STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            );
            if stack == libc::MAP_FAILED {
                return Err(Errno::last());
            }
            Errno::result(libc::mprotect(stack, GUARD, libc::PROT_NONE))?;
            Ok(Spawner { stack, habits: Habits::new(), way: None, nudge: None })
        }
    }

    /// Starts the process; returns when it runs the new program, or why not.
    pub(crate) fn spawn(&mut self, image: &Image<'_>) -> Result<Pid, SpawnError> {
        let argv = pointers(image.arguments);
        let envp = pointers(image.environment);
        let mut moves: Vec<Move> = image
            .descriptors
            .iter()
            .map(|(descriptor, number)| Move { from: descriptor.as_raw_fd(), to: *number })
            .collect();
        let (program, program_fd) = match image.program {
            Program::Named(name) => (name.as_ptr(), -1),
            Program::Open(file) => (ptr::null(), file.as_raw_fd()),
        };
        let (group, terminal) = match image.leads {
            Leads::Session => (false, None),
            Leads::Group(terminal) => (true, terminal),
        };
        let number = |descriptor: Option<BorrowedFd<'_>>| descriptor.map_or(-1, |d| d.as_raw_fd());
        let spaces = if image.spaces { spaces::FLAGS } else { 0 };
        let mut restraint = image.restraint.map(|restraint| Steps::new(&restraint, self.habits));
        let watched = self.watch(restraint.as_mut()).map_err(|errno| SpawnError {
            step: Step::Clone,
            errno,
            unreaped: None,
        })?;
        let mut child = Child {
            // From inside its namespace it is not seen.
            parent: if image.spaces { 0 } else { nix::unistd::getpid().as_raw() },
            spaces: image.spaces,
            program,
            program_fd,
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            directory: number(image.directory),
            group,
            terminal: number(terminal),
            moves: moves.as_mut_ptr(),
            move_count: moves.len(),
            umask: image.umask,
            limits: image.limits.as_ptr(),
            limit_count: image.limits.len(),
            restraint: restraint.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
            passage: ptr::null_mut(),
            leaks: self.habits.leaks,
            step: Step::Exec,
            errno: 0,
        };
        let mut passage = self.send_ahead(&raw mut child);
        let flags = if passage.is_some() { spaces | libc::CLONE_FILES } else { spaces };
        child.passage = passage.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the child runs `run_child` on our stack with a pointer to
        // `child`, which outlives it, as do its lists: CLONE_VFORK holds this
        // thread until the child has executed or exited.
        let result = unsafe {
            match image.cgroup {
                None => self.clone(flags, &raw mut child),
                Some(cgroup) => clone_into(cgroup, flags, self.stack, STACK, &raw mut child),
            }
        };
        if watched && let Some(nudge) = &self.nudge {
            nudge.end();
        }
        // SAFETY: as below.
        let taken = |passage: &Passage| unsafe { ptr::read_volatile(&raw const passage.taken) };
        if let Some(way) = &mut self.way
            && passage.as_ref().is_some_and(|passage| !taken(passage))
        {
            way.renew();
        }
        if result < 0 {
            let errno = Errno::from_raw(i32::try_from(-result).unwrap_or(libc::EINVAL));
            return Err(SpawnError { step: Step::Clone, errno, unreaped: None });
        }
        let pid = Pid::from_raw(i32::try_from(result).unwrap_or(0));
        // SAFETY: the child wrote it behind the compiler's back, and is done.
        let errno = unsafe { ptr::read_volatile(&raw const child.errno) };
        if errno == 0 {
            return Ok(pid);
        }
        // SAFETY: as above.
        let step = unsafe { ptr::read_volatile(&raw const child.step) };
        Err(SpawnError { step, errno: Errno::from_raw(errno), unreaped: Some(pid) })
    }

    /// Sends the descriptors of a child ahead of it, where it shall have no others.
    fn send_ahead(&mut self, child: *mut Child) -> Option<Passage> {
        let way = self.way.as_mut()?;
        // SAFETY: it is not there yet, and what it refers to is the caller's own.
        let each = |index| unsafe { descriptor(child, index).map(|place| *place) };
        let descriptors: Vec<RawFd> = (0..).map_while(each).collect();
        way.put(&descriptors)
    }

    /// Has a child that becomes another user seen to; whether it is one.
    fn watch(&mut self, steps: Option<&mut Steps>) -> Result<bool, Errno> {
        let another = |steps: &&mut Steps| steps.becomes_another() && !self.habits.waits;
        let Some(steps) = steps.filter(another) else {
            return Ok(false);
        };
        if self.nudge.is_none() {
            self.nudge = Some(Nudge::new()?);
        }
        if let Some(nudge) = &self.nudge {
            steps.tells(nudge.begin());
        }
        Ok(true)
    }

    /// clone(2), which every container allows. The result is a pid, or an error
    /// number below zero.
    unsafe fn clone(&self, more: libc::c_int, child: *mut Child) -> isize {
        // SAFETY: the top of our own stack, aligned as the mapping is.
        unsafe {
            let top = self.stack.cast::<u8>().add(STACK).cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | more;
            let pid = libc::clone(run_cloned, top, flags, child.cast());
            if pid < 0 { -(Errno::last() as isize) } else { pid as isize }
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no child runs on it any more.
        unsafe { libc::munmap(self.stack, STACK) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// What clone(2) of the C library calls in the child.
extern "C" fn run_cloned(child: *mut libc::c_void) -> libc::c_int {
    run_child(child.cast())
}

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
//! Owns: everything between "this program, these strings, these descriptors"
//! and a running process. Must not: wait for it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::mark::{Mark, RESOURCES};

/// Everything that the child needs, ready before it exists.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    /// The file to execute.
    pub(crate) program: &'a CStr,
    /// argv, the name first.
    pub(crate) arguments: &'a [CString],
    /// `NAME=value`.
    pub(crate) environment: &'a [CString],
    /// Entered by descriptor.
    pub(crate) directory: BorrowedFd<'a>,
    /// What become 0, 1 and 2. Their own numbers must be above 2.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// The file mode creation mask.
    pub(crate) umask: u32,
    /// RLIMIT_NOFILE (soft, hard) where the server has changed its own.
    pub(crate) files: Option<(u64, u64)>,
    /// The mark of the call.
    pub(crate) mark: Option<Mark>,
    /// A cgroup directory to start in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The kernel made no process.
    Clone,
    /// Session, mark, limits, descriptors.
    Prepare,
    /// The directory could not be entered.
    Directory,
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
}

const STACK: usize = 64 * 1024;
const GUARD: usize = 4096;

// SAFETY: the stack is plain memory that `spawn`, which takes &mut self, uses
// for one child at a time.
unsafe impl Send for Spawner {}

#[repr(C)]
struct Child {
    program: *const libc::c_char,
    argv: *const *const libc::c_char,
    envp: *const *const libc::c_char,
    directory: RawFd,
    stdio: [RawFd; 3],
    umask: libc::mode_t,
    files: Option<(u64, u64)>,
    mark: Option<Mark>,
    step: Step,
    errno: libc::c_int,
}

#[repr(C, align(8))]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

impl Spawner {
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
            Ok(Spawner { stack })
        }
    }

    /// Starts the process; returns when it runs the new program, or why not.
    pub(crate) fn spawn(&mut self, image: &Image<'_>) -> Result<Pid, SpawnError> {
        let argv = pointers(image.arguments);
        let envp = pointers(image.environment);
        let [stdin, stdout, stderr] = image.stdio.map(|descriptor| descriptor.as_raw_fd());
        let mut child = Child {
            program: image.program.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            directory: image.directory.as_raw_fd(),
            stdio: [stdin, stdout, stderr],
            umask: image.umask,
            files: image.files,
            mark: image.mark,
            step: Step::Exec,
            errno: 0,
        };
        // SAFETY: the child runs `run_child` on our stack with a pointer to
        // `child`, which outlives it: CLONE_VFORK holds this thread until the
        // child has executed or exited.
        let result = unsafe {
            match image.cgroup {
                None => self.clone(&raw mut child),
                Some(cgroup) => self.clone_into(cgroup, &raw mut child),
            }
        };
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

    /// clone(2), which every container allows. The result is a pid, or an error
    /// number below zero.
    unsafe fn clone(&self, child: *mut Child) -> isize {
        // SAFETY: the top of our own stack, aligned as the mapping is.
        unsafe {
            let top = self.stack.cast::<u8>().add(STACK).cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(run_cloned, top, flags, child.cast());
            if pid < 0 { -(Errno::last() as isize) } else { pid as isize }
        }
    }

    /// clone3(2), for it can start a process in a cgroup. Some containers do
    /// not allow it: then there are no cgroups for calls.
    unsafe fn clone_into(&self, cgroup: BorrowedFd<'_>, child: *mut Child) -> isize {
        let arguments = CloneArguments {
            flags: u64::from((libc::CLONE_VM | libc::CLONE_VFORK).cast_unsigned())
                | CLONE_INTO_CGROUP,
            exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
            stack: self.stack as u64,
            stack_size: STACK as u64,
            cgroup: u64::from(cgroup.as_raw_fd().cast_unsigned()),
            ..CloneArguments::default()
        };
        // SAFETY: as the caller says.
        unsafe { clone3_and_run(&raw const arguments, child) }
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

/// clone3; in the child calls `run_child(child)`, which does not return.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_and_run(arguments: *const CloneArguments, child: *mut Child) -> isize {
    let result: isize;
    #[allow(clippy::cast_possible_truncation, reason = "435, on a 64-bit target")]
    let number = libc::SYS_clone3 as isize;
    // SAFETY: the registers that the kernel clobbers are named; the child never
    // comes back to this frame, since it leaves by execve or _exit.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") number => result,
            in("rdi") arguments,
            in("rsi") size_of::<CloneArguments>(),
            in("r12") child,
            in("r13") run_child as extern "C" fn(*mut Child) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// As above, for aarch64.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3_and_run(arguments: *const CloneArguments, child: *mut Child) -> isize {
    let result: isize;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            inlateout("x0") arguments => result,
            in("x1") size_of::<CloneArguments>(),
            in("x8") libc::SYS_clone3,
            in("x20") child,
            in("x21") run_child as extern "C" fn(*mut Child) -> !,
        );
    }
    result
}

/// What clone(2) of the C library calls in the child.
extern "C" fn run_cloned(child: *mut libc::c_void) -> libc::c_int {
    run_child(child.cast())
}

/// The child's few steps. Only system calls; no allocation, no lock, no panic.
extern "C" fn run_child(child: *mut Child) -> ! {
    // SAFETY: the pointer is to the parent's `Child`, which waits for us. All
    // calls are plain system calls of the C library.
    unsafe {
        let fail = |step: Step| -> ! {
            ptr::write_volatile(&raw mut (*child).step, step);
            ptr::write_volatile(&raw mut (*child).errno, *libc::__errno_location());
            libc::_exit(127)
        };
        if libc::setsid() < 0
            // The server's death is the call's: the next server finds the rest
            // of the tree by its mark.
            || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) < 0
        {
            fail(Step::Prepare);
        }
        if let Some((soft, hard)) = (*child).files {
            let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
            if libc::setrlimit64(libc::RLIMIT_NOFILE, &raw const limit) < 0 {
                fail(Step::Prepare);
            }
        }
        if let Some(mark) = (*child).mark {
            let [first, second] = mark.limits;
            let [first_resource, second_resource] = RESOURCES;
            for (resource, value) in [(first_resource, first), (second_resource, second)] {
                let limit = libc::rlimit64 { rlim_cur: value, rlim_max: value };
                let resource = resource.cast_unsigned() as libc::__rlimit_resource_t;
                if libc::setrlimit64(resource, &raw const limit) < 0 {
                    fail(Step::Prepare);
                }
            }
        }
        libc::umask((*child).umask);
        if libc::fchdir((*child).directory) < 0 {
            fail(Step::Directory);
        }
        let [stdin, stdout, stderr] = (*child).stdio;
        if libc::dup2(stdin, 0) < 0 || libc::dup2(stdout, 1) < 0 || libc::dup2(stderr, 2) < 0 {
            fail(Step::Prepare);
        }
        // Everything of ours is close-on-exec from its first moment; this holds
        // for whatever a library may have forgotten.
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve((*child).program, (*child).argv, (*child).envp);
        fail(Step::Exec)
    }
}

//! What it costs to know a call's processes: by a mark in two resource limits,
//! or by a subreaper of its own (a process between the server and the tool).

use std::time::{Duration, Instant};

use crate::{pairs, row};

/// Prints both beside a plain spawn of /bin/true.
pub fn measure(rounds: usize) {
    println!();
    println!("| a call's tree is known by | plain | with it | ratio of medians (95 %) |");
    println!("| --- | --- | --- | --- |");
    let marked = pairs(rounds, || spawn(false), || spawn(true));
    row("two marked limits", &marked, "µs", 1e6);
    let subreaper = pairs(rounds, || spawn(false), subreaper);
    row("a subreaper of its own (fork)", &subreaper, "µs", 1e6);
}

/// A vfork of the bench, /bin/true in it; with the two system calls of a mark.
fn spawn(marked: bool) -> Duration {
    let start = Instant::now();
    let pid = start_true(marked);
    wait(pid);
    start.elapsed()
}

/// The same beneath a forked process that is the subreaper of what follows and
/// hands its status on.
fn subreaper() -> Duration {
    let start = Instant::now();
    // SAFETY: the bench has one thread here; the child only makes system calls.
    let keeper = unsafe { libc::fork() };
    if keeper == 0 {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
            let pid = start_true(false);
            let mut status = 0;
            libc::waitpid(pid, &raw mut status, 0);
            libc::_exit(libc::WEXITSTATUS(status));
        }
    }
    wait(keeper);
    start.elapsed()
}

extern "C" fn child(marked: *mut libc::c_void) -> libc::c_int {
    // SAFETY: runs on a stack of its own while the bench waits (CLONE_VFORK).
    unsafe {
        if !marked.is_null() {
            // The hard limits that the server takes for its marks.
            for resource in [10, 15] {
                let limit = libc::rlimit { rlim_cur: 1 << 62, rlim_max: 1 << 62 };
                libc::setrlimit(resource, &raw const limit);
            }
        }
        let argv = [c"true".as_ptr(), std::ptr::null()];
        libc::execve(c"/bin/true".as_ptr(), argv.as_ptr(), [std::ptr::null()].as_ptr());
        libc::_exit(127)
    }
}

fn start_true(marked: bool) -> libc::pid_t {
    let mut stack = [0u8; 16 * 1024];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut one = 1u8;
    let argument = if marked { (&raw mut one).cast() } else { std::ptr::null_mut() };
    // SAFETY: the stack outlives the child's use of it: CLONE_VFORK.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).map_addr(|address| address & !15);
        libc::clone(child, top.cast(), flags, argument)
    };
    assert!(pid > 0, "clone");
    pid
}

fn wait(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "/bin/true failed");
}

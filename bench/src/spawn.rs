//! The cheapest start of a process that there is: clone with CLONE_VM and
//! CLONE_VFORK, execve. Its page faults are those of the program alone.

use std::ffi::CString;

/// What the child does before it executes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// Sets two limits, as the server does to mark a call.
    Mark,
}

struct Image {
    before: Before,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    program: *const libc::c_char,
}

extern "C" fn child(image: *mut libc::c_void) -> libc::c_int {
    // SAFETY: runs on a stack of its own while the parent waits (CLONE_VFORK);
    // only system calls.
    unsafe {
        let image = &*image.cast::<Image>();
        if image.before == Before::Mark {
            // The hard limits that the server takes for its marks.
            for resource in [10, 15] {
                let limit = libc::rlimit { rlim_cur: 1 << 62, rlim_max: 1 << 62 };
                libc::setrlimit(resource, &raw const limit);
            }
        }
        libc::execve(image.program, image.argv.as_ptr(), image.envp.as_ptr());
        libc::_exit(127)
    }
}

/// Starts `words` with that environment; the process's number.
pub fn start(program: &str, argv0: &str, environment: &[String], before: Before) -> libc::pid_t {
    let text = |text: &str| CString::new(text).expect("no NUL");
    let (program, argv0) = (text(program), text(argv0));
    let variables: Vec<CString> = environment.iter().map(|line| text(line)).collect();
    let null = std::ptr::null();
    let mut image = Image {
        before,
        argv: vec![argv0.as_ptr(), null],
        envp: variables.iter().map(|line| line.as_ptr()).chain([null]).collect(),
        program: program.as_ptr(),
    };
    let mut stack = [0u8; 16 * 1024];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: stack and image outlive the child's use of them: CLONE_VFORK.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).map_addr(|address| address & !15);
        libc::clone(child, top.cast(), flags, (&raw mut image).cast())
    };
    assert!(pid > 0, "clone");
    pid
}

/// Waits for it; whether it ended with 0, and its page faults.
pub fn wait(pid: libc::pid_t) -> (bool, i64) {
    let mut status = 0;
    // SAFETY: our own child; both are written by the kernel.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut usage), pid);
        (status == 0, usage.ru_minflt + usage.ru_majflt)
    }
}

//! clone3(2): the one system call here that the C library has no function for,
//! since it comes back twice and on another stack.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::child::{Child, run_child};

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

/// Start it in the cgroup that `cgroup` is open on.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Starts `run_child(child)` in that cgroup, with these flags besides, on that stack (its
/// lowest address), and waits until it has executed or exited. A pid, or an error number
/// below zero.
///
/// # Safety
/// The stack is nobody else's, and `child` is what `run_child` asks for.
pub(super) unsafe fn clone_into(
    cgroup: BorrowedFd<'_>,
    more: libc::c_int,
    stack: *mut libc::c_void,
    length: usize,
    child: *mut Child,
) -> isize {
    let arguments = CloneArguments {
        flags: u64::from((libc::CLONE_VM | libc::CLONE_VFORK | more).cast_unsigned())
            | CLONE_INTO_CGROUP,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: stack as u64,
        stack_size: length as u64,
        cgroup: u64::from(cgroup.as_raw_fd().cast_unsigned()),
        ..CloneArguments::default()
    };
    // SAFETY: as the caller says.
    unsafe { clone3_and_run(&raw const arguments, child) }
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

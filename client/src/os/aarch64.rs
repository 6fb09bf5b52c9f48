//! aarch64: the entry point, one system call, the memory functions that the
//! compiler calls by name, and the numbers (asm-generic/unistd.h). Nothing else.

use core::arch::{asm, global_asm};

// The kernel starts a program with argc at the top of the stack. The memory
// functions are not for speed: nothing here moves much at once.
global_asm!(
    ".section .text._start,\"ax\",@progbits",
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "and x1, x0, #-16",
    "mov sp, x1",
    "bl {entry}",
    "brk #1",
    ".section .text.memmove,\"ax\",@progbits",
    ".globl memmove",
    ".globl memcpy",
    "memcpy:",
    "memmove:",
    "sub x3, x0, x1",
    "cmp x3, x2",
    "b.lo 3f",
    "mov x4, #0",
    "2: cmp x4, x2",
    "b.eq 4f",
    "ldrb w5, [x1, x4]",
    "strb w5, [x0, x4]",
    "add x4, x4, #1",
    "b 2b",
    "3: cbz x2, 4f",
    "sub x2, x2, #1",
    "ldrb w5, [x1, x2]",
    "strb w5, [x0, x2]",
    "b 3b",
    "4: ret",
    ".section .text.memset,\"ax\",@progbits",
    ".globl memset",
    "memset:",
    "cbz x2, 2f",
    "sub x2, x2, #1",
    "strb w1, [x0, x2]",
    "b memset",
    "2: ret",
    ".section .text.memcmp,\"ax\",@progbits",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "mov x3, #0",
    "2: cmp x3, x2",
    "b.eq 3f",
    "ldrb w4, [x0, x3]",
    "ldrb w5, [x1, x3]",
    "add x3, x3, #1",
    "subs w4, w4, w5",
    "b.eq 2b",
    "mov w0, w4",
    "ret",
    "3: mov w0, #0",
    "ret",
    ".section .text.strlen,\"ax\",@progbits",
    ".globl strlen",
    "strlen:",
    "mov x1, x0",
    "mov x0, #0",
    "2: ldrb w2, [x1, x0]",
    "cbz w2, 3f",
    "add x0, x0, #1",
    "b 2b",
    "3: ret",
    entry = sym super::start::entry,
);

pub(super) mod number {
    pub(crate) const GETCWD: usize = 17;
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const IOCTL: usize = 29;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PSELECT6: usize = 72;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 137;
    pub(crate) const GETPGID: usize = 155;
    pub(crate) const UMASK: usize = 166;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const CONNECT: usize = 203;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const PRLIMIT64: usize = 261;
}

/// One system call of at most four arguments, which is what most have.
///
/// # Safety
/// The arguments are what the call of that number takes; memory that they point
/// to is valid for what the call does with it.
#[inline(always)]
pub(super) unsafe fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the kernel changes no
    // register but x0.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            options(nostack)
        );
    }
    result
}

/// The same with all six arguments.
///
/// # Safety
/// As for [`call`].
#[inline(never)]
pub(super) unsafe fn call6(number: usize, arguments: &[usize; 6]) -> isize {
    let [a, b, c, d, e, f] = *arguments;
    let result: isize;
    // SAFETY: as above.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack)
        );
    }
    result
}

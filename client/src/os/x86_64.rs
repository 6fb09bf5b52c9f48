//! x86-64: the entry point, one system call, the memory functions that the
//! compiler calls by name, and the numbers. Nothing else.

use core::arch::{asm, global_asm};

// The kernel starts a program with argc at the top of the stack. The memory
// functions are not for speed: nothing here moves much at once.
global_asm!(
    ".section .text._start,\"ax\",@progbits",
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
    ".section .text.memcpy,\"ax\",@progbits",
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".section .text.memmove,\"ax\",@progbits",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2: lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".section .text.memset,\"ax\",@progbits",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".section .text.memcmp,\"ax\",@progbits",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor ecx, ecx",
    "2: cmp rcx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 2b",
    "ret",
    "3: xor eax, eax",
    "ret",
    ".section .text.strlen,\"ax\",@progbits",
    ".globl strlen",
    "strlen:",
    "xor eax, eax",
    "2: cmp byte ptr [rdi + rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3: ret",
    entry = sym super::start::entry,
);

pub(super) mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const IOCTL: usize = 16;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const CONNECT: usize = 42;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const GETCWD: usize = 79;
    pub(crate) const UMASK: usize = 95;
    pub(crate) const GETPGID: usize = 121;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 128;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const PSELECT6: usize = 270;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const PRLIMIT64: usize = 302;
}

/// One system call of at most four arguments, which is what most have.
///
/// # Safety
/// The arguments are what the call of that number takes; memory that they point
/// to is valid for what the call does with it.
#[inline(always)]
pub(super) unsafe fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; rcx and r11 are the only
    // registers that the kernel changes besides rax.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            lateout("rcx") _,
            lateout("r11") _,
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
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

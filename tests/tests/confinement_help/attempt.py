"""Tries what a confined tool should not be able to do: one line for each attempt,
its name and `done` or how the kernel named the refusal."""
import ctypes
import errno
import os
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": dict(ptrace=101, process_vm_readv=310, pidfd_getfd=438, kcmp=312, unshare=272,
        setns=308, clone=56, clone3=435, mount=165, open_tree=428, fsopen=430, chroot=161, keyctl=250,
        add_key=248, bpf=321, userfaultfd=323, perf_event_open=298, io_uring_setup=425,
        personality=135, shmget=29, msgget=68, mq_open=240, open_by_handle_at=304,
        name_to_handle_at=303, prlimit64=302, setpriority=141, sched_setaffinity=203,
        openat2=437, setxattr=188, ioctl=16, socket=41, future=600, x32=0x40000000 + 39),
    "aarch64": dict(ptrace=117, process_vm_readv=270, pidfd_getfd=438, kcmp=272, unshare=97,
        setns=268, clone=220, clone3=435, mount=40, open_tree=428, fsopen=430, chroot=51, keyctl=219,
        add_key=217, bpf=280, userfaultfd=282, perf_event_open=241, io_uring_setup=425,
        personality=92, shmget=194, msgget=186, mq_open=180, open_by_handle_at=265,
        name_to_handle_at=264, prlimit64=261, setpriority=140, sched_setaffinity=122,
        openat2=437, setxattr=5, ioctl=29, socket=198, future=600, x32=600),
}[os.uname().machine]


def call(name, *arguments):
    words = [a if isinstance(a, bytes) else ctypes.c_ulong(a) for a in arguments]
    got = libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if got < 0:
        raise OSError(ctypes.get_errno(), name)
    return got


def attempt(name, what, *arguments):
    try:
        got = what(*arguments)
        print(name, "done" if got is None or isinstance(got, int) else f"done {got!r}")
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error.errno))


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def write(path, flags=os.O_WRONLY):
    os.close(os.open(path, flags, 0o644))


def through_descriptor(path):
    there = os.open(path, os.O_PATH)
    read(f"/proc/self/fd/{there}")


def files(outside, own):
    """`outside` has `file`, `folder` and `empty`; `own` is a directory of the tool's."""
    link = f"{own}/link"
    os.symlink(outside, link)
    write(f"{own}/mine", os.O_WRONLY | os.O_CREAT)
    attempt("read", read, f"{outside}/file")
    attempt("read-link", read, f"{link}/file")
    attempt("read-dots", read, f"{own}/../../{os.path.relpath(outside, os.path.dirname(os.path.dirname(own)))}/file")
    attempt("read-path", through_descriptor, f"{outside}/file")
    attempt("read-cwd", lambda: (os.chdir(outside), read("file")))
    os.chdir(own)
    attempt("list", lambda: os.listdir(outside) and None)
    attempt("execute", lambda: os.execv(f"{outside}/program", ["program"]))
    attempt("write", write, f"{outside}/file")
    attempt("truncate", os.truncate, f"{outside}/file", 0)
    attempt("open-truncate", write, f"{outside}/file", os.O_RDONLY | os.O_TRUNC)
    attempt("create", write, f"{outside}/new", os.O_WRONLY | os.O_CREAT)
    attempt("create-link", write, f"{link}/new", os.O_WRONLY | os.O_CREAT)
    attempt("unnamed", write, outside, os.O_WRONLY | os.O_TMPFILE)
    attempt("directory", os.mkdir, f"{outside}/new")
    attempt("symlink", os.symlink, "x", f"{outside}/new")
    attempt("fifo", os.mkfifo, f"{outside}/new")
    attempt("remove", os.unlink, f"{outside}/file")
    attempt("remove-directory", os.rmdir, f"{outside}/empty")
    attempt("rename-in", os.rename, f"{outside}/file", f"{own}/taken")
    attempt("rename-out", os.rename, f"{own}/mine", f"{outside}/new")
    attempt("link-in", os.link, f"{outside}/file", f"{own}/taken")
    attempt("link-out", os.link, f"{own}/mine", f"{outside}/new")
    attempt("device", os.mknod, f"{own}/device", 0o600 | 0o020000, os.makedev(1, 3))
    attempt("attribute", call, "setxattr", f"{outside}/file".encode(), b"user.x", b"y", 1, 0)


def others(victim):
    """Against another process of the same user."""
    victim = int(victim)
    attempt("kill", os.kill, victim, 0)
    attempt("kill-stop", os.kill, victim, signal.SIGSTOP)
    attempt("kill-group", os.killpg, os.getpgid(victim), signal.SIGTERM)
    attempt("kill-pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGTERM))
    for name in ("environ", "mem", "maps", "auxv", "syscall", "stack"):
        attempt(name, read, f"/proc/{victim}/{name}")
    attempt("fd-open", os.open, f"/proc/{victim}/fd/0", os.O_RDONLY)
    attempt("fd-link", lambda: os.readlink(f"/proc/{victim}/fd/0") and None)
    attempt("fd-position", read, f"/proc/{victim}/fdinfo/0")
    for name in ("root", "cwd", "exe"):
        attempt(name, lambda: os.readlink(f"/proc/{victim}/{name}") and None)
    attempt("root-file", read, f"/proc/{victim}/root/etc/hostname")
    attempt("ptrace-attach", call, "ptrace", 16, victim, 0, 0)
    attempt("ptrace-seize", call, "ptrace", 0x4206, victim, 0, 0)
    buffer = ctypes.create_string_buffer(8)
    part = struct.pack("PP", ctypes.addressof(buffer), 8)
    attempt("memory", call, "process_vm_readv", victim, part, 1, part, 1, 0)
    attempt("descriptor", lambda: call("pidfd_getfd", os.pidfd_open(victim), 0, 0))
    attempt("compare", call, "kcmp", os.getpid(), victim, 0, 0, 0)
    limit = struct.pack("QQ", 0, 0)
    attempt("limit", call, "prlimit64", victim, 7, limit, 0)
    attempt("priority", os.setpriority, os.PRIO_PROCESS, victim, 19)
    attempt("priority-user", os.setpriority, os.PRIO_USER, os.getuid(), 19)
    attempt("affinity", os.sched_setaffinity, victim, {0})
    attempt("scheduler", os.sched_setscheduler, victim, os.SCHED_IDLE, os.sched_param(0))
    attempt("score", write, f"/proc/{victim}/oom_score_adj")


def calls():
    """System calls, whatever they are about."""
    for name, family, kind in (
        ("unix", socket.AF_UNIX, socket.SOCK_STREAM), ("unix-datagram", socket.AF_UNIX, socket.SOCK_DGRAM),
        ("tcp", socket.AF_INET, socket.SOCK_STREAM), ("tcp6", socket.AF_INET6, socket.SOCK_STREAM),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM), ("udp6", socket.AF_INET6, socket.SOCK_DGRAM),
        ("raw", socket.AF_INET, socket.SOCK_RAW), ("packet", socket.AF_PACKET, socket.SOCK_RAW),
        ("netlink", socket.AF_NETLINK, socket.SOCK_RAW), ("vsock", 40, socket.SOCK_STREAM),
        ("alg", 38, socket.SOCK_SEQPACKET), ("xdp", 44, socket.SOCK_RAW),
    ):
        attempt(f"socket-{name}", call, "socket", family, kind, 0)
    attempt("socket-high", call, "socket", (1 << 32) | socket.AF_UNIX, socket.SOCK_STREAM, 0)
    attempt("pair-datagram", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) and None)
    attempt("pair", lambda: socket.socketpair() and None)
    one = ctypes.create_string_buffer(b"x")
    for name, request in (("sti", 0x5412), ("linux", 0x541C), ("setd", 0x5423)):
        for bits in (0, 1 << 32, 0xffffffff << 32):
            attempt(f"ioctl-{name}-{bits >> 32:x}", call, "ioctl", 0, request | bits, ctypes.addressof(one))
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000), ("pid", 0x20000000),
                       ("ipc", 0x08000000), ("uts", 0x04000000), ("cgroup", 0x02000000), ("time", 0x80)):
        attempt(f"unshare-{name}", call, "unshare", flag)
        if name != "time":
            attempt(f"clone-{name}", call, "clone", flag | 17, 0, 0, 0, 0)
    attempt("clone3", call, "clone3", bytes(88), 88)
    attempt("setns", call, "setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)
    attempt("mount", call, "mount", b"none", b"/tmp", b"tmpfs", 0, 0)
    attempt("open-tree", call, "open_tree", (1 << 64) - 100, b"/", 1)
    attempt("fsopen", call, "fsopen", b"tmpfs", 0)
    attempt("chroot", os.chroot, "/")
    attempt("keyctl", call, "keyctl", 0, (1 << 64) - 3, 0)
    attempt("add-key", call, "add_key", b"user", b"x", b"y", 1, (1 << 64) - 3)
    attempt("bpf", call, "bpf", 0, bytes(128), 128)
    attempt("userfaultfd", call, "userfaultfd", 1)
    attempt("perf", call, "perf_event_open", bytes(128), 0, (1 << 64) - 1, (1 << 64) - 1, 0)
    attempt("io-uring", call, "io_uring_setup", 1, bytes(120))
    attempt("personality", call, "personality", 0x40000)
    attempt("shm", call, "shmget", 0, 4096, 0o1600)
    attempt("msg", call, "msgget", 0, 0o1600)
    attempt("mq", call, "mq_open", b"confinement-test", os.O_CREAT | os.O_RDWR, 0o600, 0)
    attempt("handle", call, "open_by_handle_at", 3, bytes(16), 0)
    attempt("openat2", call, "openat2", (1 << 64) - 100, b"x", bytes(24), 24)
    attempt("future", call, "future")
    attempt("x32", call, "x32")


def user(own):
    """Who it is, and whether it can become or make somebody else."""
    print("descriptors", *sorted(int(name) for name in os.listdir("/proc/self/fd")))
    with open("/proc/self/status") as status:
        for line in status:
            if line.split(":")[0] in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb",
                                      "NoNewPrivs", "Seccomp"):
                print(*line.split())
    attempt("become-root", os.setresuid, 0, 0, 0) if os.getuid() else None
    attempt("set-uid-chmod", lambda: (write(f"{own}/a", os.O_WRONLY | os.O_CREAT), os.chmod(f"{own}/a", 0o4755)) and None)
    attempt("set-uid-open", lambda: os.close(os.open(f"{own}/b", os.O_CREAT | os.O_WRONLY, 0o4755)))
    attempt("set-uid-fchmod", lambda: os.fchmod(os.open(f"{own}/c", os.O_CREAT | os.O_WRONLY, 0o755), 0o6755))
    attempt("set-uid-mknod", os.mknod, f"{own}/d", 0o100000 | 0o4755)
    # One nicer than it is: it may itself have been started with nice.
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1)


def ordinary(own):
    """What a tool must still be able to do."""
    import subprocess
    import tempfile
    import threading
    for where in (own, os.environ["HOME"], tempfile.gettempdir()):
        attempt(f"writes", lambda: (write(f"{where}/w", os.O_WRONLY | os.O_CREAT),
            os.rename(f"{where}/w", f"{where}/v"), os.chmod(f"{where}/v", 0o755), os.unlink(f"{where}/v")) and None)
    write(f"{own}/script", os.O_WRONLY | os.O_CREAT)
    with open(f"{own}/script", "w") as file:
        file.write("#!/bin/sh\necho ran\n")
    os.chmod(f"{own}/script", 0o755)
    attempt("runs", lambda: subprocess.run([f"{own}/script"], check=True, stdout=subprocess.PIPE) and None)
    thread = threading.Thread(target=lambda: attempt("thread", os.getpid))
    thread.start()
    thread.join()
    child = subprocess.Popen(["sleep", "60"])
    attempt("kills-its-own", lambda: (child.terminate(), child.wait()) and None)
    attempt("null", write, "/dev/null")
    attempt("random", read, "/dev/urandom")
    attempt("passwd", read, "/etc/passwd")
    attempt("limits", call, "prlimit64", 0, 7, struct.pack("QQ", 100, 100), 0)
    attempt("cpus", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))


globals()[sys.argv[1]](*sys.argv[2:])
sys.stdout.flush()

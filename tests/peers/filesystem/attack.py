#!/usr/bin/env python3
"""Attacks on a server of files that speaks MCP on standard input and output.

    attack.py SPEECH ROOT [option...] [-- COMMAND...]

SPEECH is how it wants to be asked: `peer` (@modelcontextprotocol/server-filesystem),
`broker` (tool-server mcp), or `naive`: no server, but files opened here by the name that was
asked for, in races after its real path was compared with ROOT. What does no harm to the naive
one is no attack.

ROOT is the workspace, empty; what must not be reached is made beside it. The one thing that an
attack has is what an agent has: names in calls, and names in the workspace that it may make.

    --rounds N     calls in each race (3000)
    --patience S   seconds after which a call without an answer hangs (20)
    --memory MIB   more than this in a server's process is too much (1500)
    --pid PID      the process whose memory is meant, where it is not COMMAND's

Prints a line of JSON for each attack: `attack`, `tried` (calls), `escaped` (answers that told
what is outside, and changes there), `hung`, `grew` (calls at which memory went), `damaged`
(content that nobody asked to change), `answered` (calls that gave something), `turns` (of the
attacker, in races).
"""

import argparse
import ctypes
import json
import os
import queue
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

CANARY = "canary-7c1d5e"
INSIDE = "inside"


class Ended(Exception):
    """The server went away."""


class Speech:
    """What the three operations are called."""

    def __init__(self, kind):
        self.peer = kind == "peer"

    def read(self, path):
        return "read_file", {"path": path}

    def write(self, path, content):
        return "write_file", {"path": path, "content": content}

    def edit(self, path, old, new):
        if self.peer:
            return "edit_file", {"path": path, "edits": [{"oldText": old, "newText": new}]}
        return "edit_file", {"path": path, "old_text": old, "new_text": new}

    def list(self, path):
        return "list_directory", {"path": path}

    def search(self, path):
        if self.peer:
            return "search_files", {"path": path, "pattern": "*7c1d5e*"}
        return "search_files", {"path": path, "pattern": "7c1d5e", "by": "content"}


class Server:
    """One over standard input and output; started anew where it hangs."""

    def __init__(self, options):
        self.options = options
        self.start()

    def start(self):
        # Nothing that the naive reader would find in it by chance.
        environment = dict(os.environ, HOME=self.options.outside, CANARY=CANARY)
        self.process = subprocess.Popen(
            self.options.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.options.root,
            env=environment,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self.listen, args=(self.process, self.answers), daemon=True).start()
        self.number = 0
        hello = {"protocolVersion": "2025-03-26", "capabilities": {}}
        hello["clientInfo"] = {"name": "attack", "version": "1"}
        self.send("initialize", hello)
        self.answers.get(timeout=60)
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @staticmethod
    def listen(process, answers):
        for line in process.stdout:
            message = json.loads(line)
            if "id" in message and "method" not in message:
                answers.put(message)
        answers.put(None)

    def say(self, message):
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Ended from error

    def send(self, method, params):
        self.number += 1
        self.say({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})

    def answer(self):
        """The next answer: whether it gave something, and all of it. Ends a hanging server."""
        deadline = time.monotonic() + self.options.patience
        while True:
            try:
                message = self.answers.get(timeout=0.2)
            except queue.Empty:
                if self.memory() > self.options.memory:
                    self.end()
                    raise MemoryError from None
                if time.monotonic() > deadline:
                    self.end()
                    raise TimeoutError from None
                continue
            if message is None:
                raise Ended
            gave = "result" in message and not message["result"].get("isError")
            return gave, json.dumps(message, ensure_ascii=False)

    def memory(self):
        """In MiB."""
        try:
            with open(f"/proc/{self.options.pid or self.process.pid}/status") as status:
                sizes = [line for line in status if line.startswith("VmRSS:")]
            return int(sizes[0].split()[1]) // 1024 if sizes else 0
        except OSError:
            return 0

    def calls(self, calls, under_way=8):
        """Gives each answer, so many calls ahead of it."""
        waiting, calls = 0, iter(calls)
        for call in calls:
            self.send("tools/call", {"name": call[0], "arguments": call[1]})
            waiting += 1
            if waiting == under_way:
                yield self.answer()
                waiting -= 1
        for _ in range(waiting):
            yield self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()

    def again(self):
        self.end()
        self.start()


class Naive:
    """Opens what it is asked for, as many do."""

    def __init__(self, options):
        self.options = options
        self.checks = False
        os.chdir(options.root)

    def memory(self):
        return 0

    def again(self):
        pass

    def end(self):
        pass

    def calls(self, calls, under_way=8):
        for name, arguments in calls:
            try:
                yield True, self.call(name, arguments)
            except TimeoutError:
                raise
            except (OSError, ValueError) as error:
                yield False, type(error).__name__

    def call(self, name, arguments):
        root = self.options.root
        path = os.path.expanduser(arguments["path"].replace("~", self.options.outside, 1))
        path = os.path.join(root, path)
        if self.checks:
            real = os.path.realpath(path)
            if real != root and not real.startswith(root + "/"):
                raise ValueError
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            # It would wait, or read, for ever.
            raise TimeoutError
        if name == "list_directory":
            return " ".join(os.listdir(path))
        if name == "search_files":
            return " ".join(name for _, _, names in os.walk(path) for name in names)
        if name == "write_file":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(arguments["content"])
            return ""
        if os.path.getsize(path) > self.options.memory << 20:
            raise MemoryError
        # As those do that think that all is UTF-8.
        with open(path, errors="replace") as file:
            content = file.read()
        if name == "read_file":
            return content
        if arguments["old_text"] not in content:
            raise ValueError
        changed = content.replace(arguments["old_text"], arguments["new_text"], 1)
        with open(path, "w") as file:
            file.write(changed)
        return changed if self.checks else ""


class Arena:
    """The workspace and what lies around it."""

    def __init__(self, options):
        self.options = options
        self.root = options.root
        self.outside = options.outside
        self.sibling = self.root + "-secret"

    def clean(self):
        for name in os.listdir(self.root):
            self.remove(os.path.join(self.root, name))
        for place in (self.outside, self.sibling):
            self.remove(place)
            # Nobody's rights may be what stops an attack.
            os.mkdir(place)
            os.chmod(place, 0o777)
            for name in ("f", CANARY):
                with open(os.path.join(place, name), "w") as file:
                    file.write(CANARY)
                os.chmod(os.path.join(place, name), 0o666)
            os.mkdir(os.path.join(place, "sub"))
            os.chmod(os.path.join(place, "sub"), 0o777)
        self.put("f", INSIDE)
        self.around = self.state()

    @staticmethod
    def remove(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)

    def at(self, *names):
        return os.path.join(self.root, *names)

    def put(self, name, content):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        self.own(name)

    def directory(self, name):
        os.makedirs(self.at(name, "sub"), exist_ok=True)
        self.put(os.path.join(name, "f"), INSIDE)
        for part in (name, os.path.join(name, "sub")):
            self.own(part)

    def link(self, to, name):
        os.symlink(to, self.at(name))

    def own(self, name):
        """All is the workspace's owner's, as what an agent makes."""
        owner = os.stat(self.root)
        os.chown(self.at(name), owner.st_uid, owner.st_gid)

    def state(self):
        """All names outside, and what has them."""
        found = {}
        for place in (self.outside, self.sibling):
            for directory, directories, files in os.walk(place):
                for name in directories:
                    found[os.path.join(directory, name)] = None
                for name in files:
                    path = os.path.join(directory, name)
                    try:
                        with open(path, "rb") as file:
                            found[path] = file.read()
                    except FileNotFoundError:
                        # It was there a moment ago, which is as bad.
                        found[path] = b""
        return found

    def changed(self):
        """Whether something outside is not as it was; then it is put back."""
        now = self.state()
        if now == self.around:
            return 0
        for path in now.keys() - self.around.keys():
            self.remove(path)
        for path, content in self.around.items():
            if content is not None and now.get(path) != content:
                with open(path, "wb") as file:
                    file.write(content)
        return 1


class Told:
    """What came of an attack."""

    def __init__(self, name):
        self.__dict__.update(attack=name, tried=0, escaped=0, hung=0, grew=0, ended=0)
        self.__dict__.update(damaged=0, answered=0, turns=0)

    def line(self):
        return json.dumps(self.__dict__)


def run(server, arena, told, call):
    """Makes one call and counts what came of it."""
    told.tried += 1
    try:
        gave, text = next(server.calls([call], 1))
        told.answered += gave
        told.escaped += CANARY in text or arena.changed()
        return
    except TimeoutError:
        told.hung += 1
    except MemoryError:
        told.grew += 1
    except Ended:
        told.ended += 1
    told.escaped += arena.changed()
    server.again()


# --- Names ---------------------------------------------------------------------------------


def names(arena):
    """Each form: its name, what the agent makes in the workspace, and what it asks for (a file
    outside, or a directory outside)."""
    root, outside, sibling = arena.root, arena.outside, arena.sibling
    link = arena.link

    def nothing():
        pass

    def chain():
        link(outside, "c")
        link("c", "b")
        link("b", "a")

    def nested():
        arena.directory("d")
        link("../.." + outside, "d/up")
        link(outside, "d/out")

    forms = [
        ("sibling with the same beginning", nothing, sibling + "/f", sibling),
        ("sibling with the same beginning, relative", nothing, f"../{os.path.basename(sibling)}/f", f"../{os.path.basename(sibling)}"),
        ("sibling with the same beginning, by `..`", nothing, f"{root}/../{os.path.basename(sibling)}/f", f"{root}/../{os.path.basename(sibling)}"),
        ("sibling with the same beginning, by symlink", lambda: link(sibling, "l"), "l/f", "l"),
        ("`..`", nothing, "../outside/f", "../outside"),
        ("`..`, absolute", nothing, f"{root}/../outside/f", f"{root}/../outside"),
        ("`..`, behind what is there", lambda: arena.directory("d"), "d/sub/../../../outside/f", "d/../../outside"),
        ("`..`, much", nothing, "../" * 40 + outside[1:] + "/f", "../" * 40 + outside[1:]),
        ("absolute", nothing, outside + "/f", outside),
        ("absolute, `//`", nothing, "/" + outside + "/f", "/" + outside),
        ("absolute, `/./`", nothing, "/." + outside + "/f", "/." + outside),
        ("`~`", nothing, "~/f", "~"),
        ("symlink to a file", lambda: link(outside + "/f", "l"), "l", None),
        ("symlink to a file, relative", lambda: link("../outside/f", "l"), "l", None),
        ("symlink to a directory", lambda: link(outside, "l"), "l/f", "l"),
        ("symlink to a directory, relative", lambda: link("../outside", "l"), "l/f", "l"),
        ("symlink to a directory, with a slash", lambda: link(outside, "l"), "l//f", "l/"),
        ("symlinks, three", chain, "a/f", "a"),
        ("symlink in a directory", nested, "d/out/f", "d/out"),
        ("symlink, then `..`", lambda: link(outside + "/sub", "l"), "l/../f", "l/.."),
        ("symlink to `/`", lambda: link("/", "l"), "l" + outside + "/f", "l" + outside),
        ("symlink to the parent", lambda: link("..", "l"), "l/outside/f", "l/outside"),
        ("symlink to /proc/self/root", lambda: link("/proc/self/root", "l"), "l" + outside + "/f", "l" + outside),
        ("symlink to /proc/self/cwd", lambda: link("/proc/self/cwd", "l"), "l/../outside/f", "l/../outside"),
        ("/proc/self/root", nothing, "/proc/self/root" + outside + "/f", "/proc/self/root" + outside),
        ("/proc/self/cwd", nothing, "/proc/self/cwd/../outside/f", "/proc/self/cwd/../outside"),
    ]
    for name, make, file, directory in forms:
        yield name, make, file, directory
    # Harm is done only by who decodes what nobody encoded.
    for name, path in [
        ("encoded: %2e%2e", "%2e%2e/outside/f"),
        ("encoded: %2f", "..%2foutside%2ff"),
        ("encoded: file://", f"file://{outside}/f"),
        ("encoded: backslashes", "..\\outside\\f"),
        ("encoded: full width", "．．／outside／f"),
        ("encoded: NUL", f"f\0/../../outside/f"),
        ("encoded: blanks", " ../outside/f "),
        ("encoded: variables", "$HOME/f"),
    ]:
        yield name, nothing, path, None


def attack_names(server, arena, speech):
    for name, make, file, directory in names(arena):
        told = Told(f"name: {name}")
        for kind in ("read", "write", "edit", "list", "search"):
            path = directory if kind in ("list", "search") else file
            if path is None:
                continue
            arena.clean()
            make()
            call = {
                "read": lambda: speech.read(path),
                "write": lambda: speech.write(path, "x"),
                # Not all of it: what was asked may be said again.
                "edit": lambda: speech.edit(path, CANARY[2:], "x"),
                "list": lambda: speech.list(path),
                "search": lambda: speech.search(path),
            }[kind]
            run(server, arena, told, call())
        yield told


def attack_new(server, arena, speech):
    """What is to be made outside."""
    for name, make, path in [
        ("sibling with the same beginning", lambda: None, arena.sibling + "/new"),
        ("`..`", lambda: None, "../outside/new"),
        ("symlink to nothing", lambda: arena.link(arena.outside + "/new", "l"), "l"),
        ("symlink to nothing, relative", lambda: arena.link("../outside/new", "l"), "l"),
        ("beneath a symlink", lambda: arena.link(arena.outside, "l"), "l/new"),
        ("directories beneath a symlink", lambda: arena.link(arena.outside, "l"), "l/a/b/new"),
    ]:
        arena.clean()
        make()
        told = Told(f"new: {name}")
        run(server, arena, told, speech.write(path, "x"))
        yield told


def attack_proc(server, arena, speech):
    """The server's own environment has a canary in it."""
    for name, make, path in [
        ("/proc/self/environ", lambda: None, "/proc/self/environ"),
        ("symlink to /proc/self/environ", lambda: arena.link("/proc/self/environ", "l"), "l"),
        ("symlink to /proc/self", lambda: arena.link("/proc/self", "l"), "l/environ"),
    ]:
        arena.clean()
        make()
        told = Told(f"proc: {name}")
        run(server, arena, told, speech.read(path))
        yield told


# --- What is no file, or a large one -------------------------------------------------------


def attack_kinds(server, arena, speech):
    """Pipes and devices: is there an answer, and to others meanwhile?"""

    def device(name, major, minor):
        try:
            os.mknod(arena.at(name), 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            arena.own(name)
            return True
        except OSError:
            return False

    def fifo(name):
        os.mkfifo(arena.at(name))
        arena.own(name)
        return True

    for name, make in [
        ("pipe", lambda: fifo("x")),
        ("symlink to a pipe", lambda: fifo("p") and (arena.link("p", "x") or True)),
        ("device without an end", lambda: device("x", 1, 5)),
    ]:
        told = Told(f"kind: {name}")
        for call in (
            speech.read("x"),
            speech.edit("x", "a", "b"),
            speech.search("."),
        ):
            arena.clean()
            if make():
                run(server, arena, told, call)
        # Written, it may be replaced; it may not be waited for.
        arena.clean()
        if make():
            run(server, arena, told, speech.write("x", "y"))
        yield told
    told = Told("kind: five reads of a pipe, then one of a file")
    arena.clean()
    fifo("x")
    try:
        answers = server.calls([speech.read("x")] * 5 + [speech.read("f")], 6)
        for gave, text in answers:
            told.tried += 1
            told.answered += gave
    except TimeoutError:
        told.tried, told.hung = 6, 6 - told.tried
        server.again()
    yield told


def attack_sizes(server, arena, speech):
    for name, length in [("1 GiB", 1 << 30), ("8 GiB", 8 << 30)]:
        told = Told(f"size: {name}, sparse")
        for call in (speech.read("x"), speech.edit("x", "a", "b")):
            arena.clean()
            with open(arena.at("x"), "wb") as file:
                file.truncate(length)
            arena.own("x")
            run(server, arena, told, call)
        yield told


# --- What an edit does beside --------------------------------------------------------------


def attack_contents(server, arena, speech):
    """A file in which one word is replaced: all other bytes are to stay, or none is."""
    for name, before in [
        ("bytes that are not UTF-8", b"caf\xe9\nold\n"),
        ("a NUL", b"a\0b\nold\n"),
        ("CRLF", b"one\r\nold\r\n"),
        ("CRLF and LF", b"one\r\ntwo\nold\r\n"),
        ("a byte order mark", b"\xef\xbb\xbfold\n"),
        ("the text twice", b"old\nold\n"),
        ("only alike, by blanks", b"\told  \n"),
    ]:
        arena.clean()
        arena.put("x", before)
        told = Told(f"content: {name}")
        run(server, arena, told, speech.edit("x", "old" if "alike" not in name else "old\n", "new"))
        with open(arena.at("x"), "rb") as file:
            now = file.read()
        fair = {before, before.replace(b"old", b"new")}
        told.damaged += now not in (fair if before.count(b"old") == 1 and "alike" not in name else {before})
        yield told
    told = Told("content: two names that are not UTF-8, and alike")
    arena.clean()
    for name in (b"x\xfe", b"x\xff"):
        with open(os.fsencode(arena.root) + b"/" + name, "wb") as file:
            file.write(name)
    # Whoever lists them has to be told two names.
    gave, text = next(server.calls([speech.list(".")], 1))
    told.tried, told.answered = 1, int(gave)
    told.damaged = int("\ufffd" in text or text.count("x") == 0)
    yield told


def attack_edits(server, arena, speech):
    """Sixteen edits of one file, each of its own line, under way at once: each that is said
    to be made has to be there."""
    told = Told("race: edits of one file at once")
    arena.clean()
    for turn in range(max(1, arena.options.rounds // 150)):
        lines = [f"line-{number}-old\n" for number in range(16)]
        arena.put("x", "".join(lines))
        calls = [speech.edit("x", f"line-{number}-old", f"line-{number}-new") for number in range(16)]
        gave = 0
        for made, _ in server.calls(calls, 16):
            told.tried += 1
            gave += made
        told.answered += gave
        with open(arena.at("x")) as file:
            told.damaged += max(0, gave - file.read().count("-new"))
        told.turns = turn + 1
    yield told


# --- Races ---------------------------------------------------------------------------------


def swap(kind, root, outside):
    """The attacker: turns until it is killed, and says how many."""
    turns = 0

    def told(*_):
        print(turns, flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, told)
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)
    directory, aside = f"{root}/d", f"{root}/aside"
    print("ready", flush=True)
    while True:
        if kind == "exchange":
            libc.renameat2(-100, directory.encode(), -100, aside.encode(), 2)
        elif kind == "last name":
            for make in (lambda: os.symlink(f"{outside}/f", f"{root}/new"), lambda: keep(f"{root}/new")):
                make()
                os.rename(f"{root}/new", f"{root}/d/f")
        else:
            try:
                os.rename(directory, aside)
                os.symlink(outside, directory)
                os.unlink(directory)
                os.rename(aside, directory)
            except OSError:
                # A write has made it meanwhile.
                shutil.rmtree(directory, ignore_errors=True)
                try:
                    os.rename(aside, directory)
                except OSError:
                    pass
        turns += 1


def keep(path):
    with open(path, "x") as file:
        file.write(INSIDE)


def attack_races(server, arena, speech):
    if isinstance(server, Naive):
        server.checks = True
    for kind in ("exchange", "last name", "replaced"):
        for doing in ("read", "write", "edit"):
            told = Told(f"race: {kind}, {doing}")
            arena.clean()
            arena.directory("d")
            if kind == "exchange":
                arena.link(arena.outside, "aside")
            attacker = subprocess.Popen(
                [sys.executable, __file__, "--swap", kind, arena.root, arena.outside],
                stdout=subprocess.PIPE,
                text=True,
            )
            attacker.stdout.readline()
            call = {
                "read": lambda: speech.read("d/f"),
                "write": lambda: speech.write("d/f", INSIDE),
                # Both files have this in them; and no two edits are the same.
                "edit": lambda: speech.edit("d/f", "n", f"n{random.random():.9f}"),
            }[doing]
            try:
                run_race(server, arena, told, (call() for _ in range(arena.options.rounds)))
            finally:
                attacker.terminate()
                told.turns = int(attacker.stdout.read() or 0)
                attacker.wait()
            yield told


def run_race(server, arena, told, calls):
    try:
        for gave, text in server.calls(calls):
            told.tried += 1
            told.answered += gave
            told.escaped += CANARY in text or arena.changed()
    except (TimeoutError, MemoryError, Ended):
        told.hung += 1
        server.again()


ATTACKS = [
    attack_names,
    attack_new,
    attack_proc,
    attack_kinds,
    attack_sizes,
    attack_contents,
    attack_edits,
    attack_races,
]


def main():
    if sys.argv[1:2] == ["--swap"]:
        swap(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("speech", choices=["peer", "broker", "naive"])
    parser.add_argument("root", type=os.path.realpath)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--patience", type=float, default=20)
    parser.add_argument("--memory", type=int, default=1500)
    parser.add_argument("--pid", type=int)
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[: words.index("--")], words[words.index("--") + 1 :]
    options = parser.parse_args(words)
    options.command = command
    options.outside = os.path.join(os.path.dirname(options.root), "outside")
    if options.speech == "naive" and "CANARY" not in os.environ:
        # What /proc tells of an environment is what a process began with.
        os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, CANARY=CANARY))
    arena, speech = Arena(options), Speech(options.speech)
    arena.clean()
    server = Naive(options) if options.speech == "naive" else Server(options)
    try:
        for attack in ATTACKS:
            for told in attack(server, arena, speech):
                print(told.line(), flush=True)
    finally:
        server.end()


if __name__ == "__main__":
    main()

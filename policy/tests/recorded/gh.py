#!/usr/bin/env python3
"""Records what gh makes of command lines.

    policy/tests/recorded/gh.py [GH] > policy/tests/recorded/gh.txt

A line is a command line, a tab, and what came of it: `sent METHOD PATH BODY`
for `gh api`, as a server on a Unix socket of its own saw it; `refused` where gh
says that it does not know a flag or command, or that a value is missing or is
none; else `taken`. gh has no credential but an invented one and no network, and
runs in an empty directory. The cases are made of gh's own commands and flags
with a fixed seed.
"""

import http.server
import os
import random
import socketserver
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../scripts/grammar"))
import gh as grammar  # noqa: E402
from layout import Command  # noqa: E402

REFUSED = ("unknown flag", "unknown shorthand flag", "flag needs an argument", "bad flag syntax",
           "unknown command", "strconv.ParseBool", "comma-separated fields for")
# Some would open a browser, an editor, or do something here.
NOT = {"browse", "codespace", "extension", "completion", "config", "alias", "auth"}
BY_HAND = """
api /x
api -XPUT /x
api -X=PUT /x
api -X PUT /x
api -iXPUT /x
api -iX=PUT /x
api -iX PUT /x
api --method=PUT /x
api --method PUT /x
api /x --method PUT
api /x -XPUT
api -f a=b /x
api -fa=b /x
api -f=a=b /x
api -F a=1 /x
api -F=a=1 /x
api /x -f a=b -X GET
api -f a=b -X=GET /x
api --silent -f a=b /x
api --silent=true /x
api --silent=false /x
api --silent=maybe /x
api -i=false -XPUT /x
api -i=false=x /x
api --include=0 /x
api -H a:b /x
api -H=a:b /x
api -Ha:b -XPATCH /x
api -- -XPUT
api -XPUT -- /x
api --meth PUT /x
api -X
api -X -i /x
api -X= /x
api --method= /x
api -q . /x
api -q=. -XDELETE /x
api -iq . -XDELETE /x
api -zXPUT /x
api -i- /x
api - /x
api
-X PUT api /x
--method PUT api /x
--method=PUT api /x
--silent api /x
-i api -XPUT /x
pr list
pr -R o/r list
-R o/r pr list
pr list -R o/r
pr list -Ro/r
pr list -R=o/r
pr ls
pr nope
prr list
pr list --sta open
pr list --state open
pr list --state=open
pr list -s open
pr list -sopen
pr list -s=open
pr list -dsopen
pr list -d=true
pr list --draft=false
pr list --draft=nope
pr list --draft false
pr list --state
pr list -s
pr list --help
pr list -h
-- pr list
pr -- list
issue list -L5
issue list -L 5
issue list -L=5
issue list -Lx
repo clone o/r -- --depth 1
repo clone -- o/r
repo clone o/r --depth 1
release view --web=false
search prs x --draft
search prs x --draft=false
""".strip().splitlines()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        self.server.seen.append(f"{self.command} {self.path.split('?')[0]} {body}".strip())
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def address_string(self):
        return ""

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    seen = []


def cases(gh):
    tool = Command()
    grammar.read(gh, [], tool)
    pick, found = random.Random(11), []

    def below(command, path):
        for name, each in sorted(command.commands.items()):
            if path or name not in NOT:
                if each.options and not each.commands:
                    found.append((path + [name], each))
                below(each, path + [name])
    below(tool, [])
    for _ in range(300):
        path, command = pick.choice(found)
        line = []
        for _ in range(pick.randint(1, 3)):
            option = pick.choice(command.options)
            value = option.takes == "="
            word = pick.choice(option.spellings)
            kind = pick.randint(0, 5)
            if kind == 0:
                word = word[:pick.randint(3, max(3, len(word)))]
            if value and kind < 4:
                line += pick.choice([[f"{word}=1"], [word, "1"], [word + "1"]])
            elif kind < 3:
                line.append(word + pick.choice(["=true", "=false", "=x", "="]))
            else:
                line.append(word)
        yield [*path, *line]


def record(gh, line, home, server):
    server.seen.clear()
    done = subprocess.run(
        [gh, *line], cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=30, check=False,
        env={"PATH": "/nonexistent", "HOME": home, "GH_CONFIG_DIR": home, "GH_TOKEN": "invented",
             "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "BROWSER": "true",
             "GH_BROWSER": "true", "GH_EDITOR": "true"},
    )
    said = done.stdout.decode(errors="replace")
    if any(each in said for each in REFUSED):
        return "refused"
    if "api" in line and server.seen:
        return f"sent {server.seen[0]}"
    return "taken"


def main():
    gh = sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/gh"
    version = subprocess.run([gh, "--version"], stdout=subprocess.PIPE, check=True).stdout
    print(f"# What gh {version.split()[2].decode()} made of these. Made by gh.py beside this file.")
    with tempfile.TemporaryDirectory() as home:
        place = os.path.join(home, "socket")
        server = Server(place, Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with open(os.path.join(home, "config.yml"), "w", encoding="ascii") as file:
            file.write(f"http_unix_socket: {place}\nprompt: disabled\n")
        for line in [each.split() for each in BY_HAND] + list(cases(gh)):
            print("\t".join([" ".join(line), record(gh, line, home, server)]))
        server.shutdown()


if __name__ == "__main__":
    main()

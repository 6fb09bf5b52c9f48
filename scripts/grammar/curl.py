#!/usr/bin/env python3
"""Prints the grammar of curl's arguments: tools.d/curl/grammar.toml.

    scripts/grammar/curl.py [CURL...] > tools.d/curl/grammar.toml

Each CURL is a curl to ask (default: the one on the PATH), by `curl --help all`;
which options have a negated form is found by trying `--no-NAME --version`, which
does nothing else. What curl does not list is in curl.overlay.toml beside this
file, and so are the options of newer ones. curl refuses what it does not know,
so several versions make one grammar.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib

from layout import Command, Option, write

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r" +(?:-(?P<short>\S), +)?--(?P<long>[\w.-]+)(?P<value> (?:<.*?>|\[.*?\])\S*)?(?: |$)")


def ask(curl, *args):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            [curl, "-q", *args], cwd=home, env={"PATH": os.environ["PATH"], "HOME": home},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=20, check=False,
        )


def takes_no(curl, long):
    """Whether this spelling is known and takes no value: then curl tells its version."""
    done = ask(curl, long, "--version")
    return done.returncode == 0 and done.stdout.startswith(b"curl ")


def read(curl, tool):
    for line in ask(curl, "--help", "all").stdout.decode().splitlines():
        match = LINE.match(line)
        if not match:
            if line.startswith("Usage:"):
                continue
            sys.exit(f"cannot read: {line}")
        option, name = Option(), match["long"]
        if match["short"]:
            option.spellings.append(f"-{match['short']}")
        option.spellings.append(f"--{name}")
        option.takes = "=" if match["value"] else ""
        if not option.takes and not takes_no(curl, f"--{name}"):
            print(f"--{name}: not in this curl, taken as its help says", file=sys.stderr)
        opposite = name.removeprefix("no-") if name.startswith("no-") else f"no-{name}"
        if not option.takes and takes_no(curl, f"--{opposite}"):
            option.negated.append(f"--{opposite}")
        known = tool.find(f"--{name}")
        if known is None:
            tool.options.append(option)
        elif known.takes == option.takes:
            known.add(option)
            known.negated += [each for each in option.negated if each not in known.negated]
        else:
            print(f"{name}: takes a value in one and none in another", file=sys.stderr)
            known.takes = None


def main():
    curls, tool, versions = sys.argv[1:] or ["curl"], Command(), []
    for curl in curls:
        versions.append(ask(curl, "--version").stdout.split()[1].decode())
        read(curl, tool)
    tool.options = [option for option in tool.options if option.takes is not None]
    with open(os.path.join(HERE, "curl.overlay.toml"), "rb") as file:
        tool.overlay(tomllib.load(file), "curl")
    write(tool, [
        "# The arguments of curl, for rules about them. docs/tools.md explains the notation.",
        f"# Made by scripts/grammar/curl.py from curl {' and '.join(versions)}, and newer ones.",
    ])


if __name__ == "__main__":
    main()

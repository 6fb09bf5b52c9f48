#!/usr/bin/env python3
"""Prints the grammar of gh's arguments: tools.d/gh/grammar.toml.

    scripts/grammar/gh.py [GH...] > tools.d/gh/grammar.toml

Each GH is a gh to ask (default: the one on the PATH), by `gh COMMAND --help`,
from the top down. Several make one grammar: a flag that any of them has is in
it, and one that takes a value in one and none in another is in none. What gh
does not say is in gh.overlay.toml beside this file: aliases, commands that it
does not list, and what newer versions have.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib

from layout import Command, Option, write

HERE = os.path.dirname(os.path.abspath(__file__))
FLAG = re.compile(r" +(?:-(?P<short>\S), )? *--(?P<long>[\w-]+)(?P<value>\[=\S*\]| \S+)?(?:  |$)")


def ask(gh, *args):
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "GH_CONFIG_DIR": home,
               "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [gh, *args], cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=30, check=False,
        )
    return done.stdout.decode()


def sections(text):
    """The parts of a help text under their headings in capitals."""
    found, heading = {}, ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][A-Z ]+", line):
            heading = line
        else:
            found.setdefault(heading, []).append(line)
    return found


def merge(command, option, where):
    known = command.find(option.spellings[-1])
    if known is None:
        command.options.append(option)
    elif known.takes == option.takes:
        known.add(option)
    else:
        print(f"{where} {option.spellings}: differs, left out", file=sys.stderr)
        known.takes = None


def read(gh, path, command):
    where = " ".join(["gh", *path])
    for heading, lines in sections(ask(gh, *path, "--help")).items():
        if heading == "FLAGS":
            for line in lines:
                match = FLAG.match(line)
                if not match:
                    if line.strip():
                        sys.exit(f"{where}: cannot read: {line}")
                    continue
                option = Option()
                if match["short"]:
                    option.spellings.append(f"-{match['short']}")
                option.spellings.append(f"--{match['long']}")
                value = match["value"] or ""
                option.takes = "[=]" if "[=" in value else "=" if value else ""
                merge(command, option, where)
        elif heading == "ALIASES":
            # The whole command lines, `gh pr ls`, separated by commas.
            for alias in " ".join(lines).split(","):
                name = alias.split()[-1:]
                if name and name != path[-1:] and name[0] not in command.aliases:
                    command.aliases += name
        elif heading.endswith("COMMANDS"):
            for line in lines:
                name = re.match(r" {2}([a-z][a-z0-9-]*):? ", line)
                if name:
                    read(gh, [*path, name[1]], command.commands.setdefault(name[1], Command()))


def main():
    ghs, tool, versions = sys.argv[1:] or ["gh"], Command(), []
    for gh in ghs:
        versions.append(ask(gh, "--version").split()[2])
        read(gh, [], tool)
    with open(os.path.join(HERE, "gh.overlay.toml"), "rb") as file:
        tool.overlay(tomllib.load(file), "gh")
    for command in [tool, *tool.below()]:
        command.options = [option for option in command.options if option.takes is not None]
        # Cobra: a group's flags are its commands' too.
        if command.options and command.commands:
            command.switches["options_anywhere"] = True
    write(tool, [
        "# The arguments of gh, for rules about them. docs/tools.md explains the notation.",
        f"# Made by scripts/grammar/gh.py from gh {' and '.join(versions)}, and newer ones.",
    ])


if __name__ == "__main__":
    main()

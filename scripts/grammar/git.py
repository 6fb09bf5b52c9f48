#!/usr/bin/env python3
"""Prints the grammar of git's arguments: tools.d/git/grammar.toml.

    scripts/grammar/git.py [GIT...] > tools.d/git/grammar.toml

Each GIT is a git to ask (default: the one on the PATH). Several make one
grammar: an option that any of them has is in it. What git says of itself
(--help-all, --git-completion-helper-all) is most of it; what it does not say is
in git.overlay.toml beside this file: commands that do not use git's own
parser, options that are not shown, and how a command's arguments are read.
Differences between the versions, and what the overlay names in vain, are told
on stderr.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib

from layout import Command, Option, write

HERE = os.path.dirname(os.path.abspath(__file__))
# What is no command of a person's or a script's: half of another program.
INTERNAL = re.compile(r".*--.*|remote-.*|upload-archive.*|merge-recursive-.*")
OPTS = re.compile(
    r"(?:(?P<number>-NUM)|-(?P<short>[^-\s,]))?(?:, )?"
    r"(?:--(?P<negatable>\[no-\])?(?P<long>[A-Za-z0-9][\w-]*))?(?P<rest>.*)$"
)


class Git:
    """A git, asked in an empty repository without configuration."""

    def __init__(self, path, scratch):
        self.path = path
        self.scratch = scratch
        self.env = {
            "PATH": os.environ["PATH"], "HOME": scratch, "LC_ALL": "C", "COLUMNS": "80",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat",
            "GIT_DIR": os.path.join(scratch, ".git"),
        }

    def ask(self, *args):
        done = subprocess.run(
            [self.path, *args], cwd=self.scratch, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False,
        )
        return done.stdout.decode()


def described(text):
    """The options in the text of --help-all, each as (heading, Option, alias)."""
    heading, lines = "", text.splitlines()
    for line in lines:
        if line and not line.startswith(" "):
            # A command's usage is not the name of a group of options.
            heading = "" if line.startswith("usage:") else line
        if not re.match(r" {4}-", line):
            continue
        # The description begins in column 26, or on the next line.
        cut = len(line) > 26 and line[25] == " " and line[26] not in " <"
        said, why = (line[:25], line[26:]) if cut else (line, "")
        said = said.strip()
        match = OPTS.match(said)
        if not match or not (match["short"] or match["number"] or match["long"]):
            sys.exit(f"cannot read: {line}")
        option = Option()
        if match["number"]:
            option.spellings.append("-<n>")
            yield heading, option, None
            continue
        # git 2.39's `reflog expire` has one that nobody can type.
        if match["short"] and match["short"].isprintable():
            option.spellings.append(f"-{match['short']}")
        if match["long"]:
            option.spellings.append(f"--{match['long']}")
            if match["negatable"]:
                option.negated.append(f"--no-{match['long']}")
        rest = match["rest"]
        if rest.startswith("["):
            option.takes = "[=]"
        elif rest.strip():
            option.takes = "="
        alias = re.match(r"alias of --(\S+)", why)
        opposite = re.match(r"opposite of --(\S+)", why)
        if opposite:
            option.opposite = f"--{opposite[1]}"
        yield heading, option, alias and f"--{alias[1]}"


def merge(options, option, where):
    """Takes an option in, beside the same one of another version."""
    for known in options:
        if known.spellings[-1] == option.spellings[-1] or (
            len(option.spellings) == 1 and option.spellings[0] in known.spellings
        ):
            if known.takes != option.takes:
                order = ["", "[=]", "="]
                takes = max(known.takes, option.takes, key=order.index)
                # Optional in one, needed in another: attached is sure in both.
                if {known.takes, option.takes} == {"[=]", "="}:
                    takes = "[=]"
                print(f"{where} {known.spellings}: {known.takes!r} and {option.takes!r}, "
                      f"taken as {takes!r}", file=sys.stderr)
                known.takes = takes
            known.add(option)
            return known
    options.append(option)
    return option


def read(git, path, command):
    """Asks git for the command at a path, and for those beneath it."""
    listed = git.ask(*path, "--git-completion-helper-all")
    # What does not know this option says something else.
    plain = re.fullmatch(r"(?: *(?:--[\w-]*=?|[a-z][a-z-]*))*\s*", listed)
    listed = listed.split() if plain and len(path) < 3 else []
    words = [word for word in listed if not word.startswith("-")]
    needs = {word[:-1] for word in listed if word.endswith("=")}
    listed = {word.rstrip("=") for word in listed}
    where = " ".join(path)
    aliases = []
    diff = []
    for heading, option, alias in described(git.ask(*path, "--help-all")):
        long = option.spellings[-1]
        if option.opposite:
            for known in command.options:
                if option.opposite in known.spellings and long not in known.negated:
                    known.negated.append(long)
            continue
        if long in needs and not option.takes:
            option.takes = "="
        if long.startswith("--no-") and f"--{long[5:]}" in listed:
            option.maybe = f"--{long[5:]}"
        elif long.startswith("--") and f"--no-{long[2:]}" in listed:
            option.negated = [f"--no-{long[2:]}"]
        if alias:
            aliases.append((alias, long))
        if "diff" in heading.lower():
            diff.append(option)
        else:
            merge(command.options, option, where)
    longs = {spelling for option in command.options for spelling in option.spellings}
    for option in command.options:
        if option.maybe and option.maybe not in longs:
            if option.maybe not in option.negated:
                option.negated.append(option.maybe)
        # `--no-x` beside `--x` is an option of its own.
        option.negated = [spelling for spelling in option.negated if spelling not in longs]
    for target, long in aliases:
        command.alias(target, long)
    for word in words:
        if not INTERNAL.match(word) and re.fullmatch(r"[a-z-]+", word):
            read(git, [*path, word], command.commands.setdefault(word, Command()))
    return diff


def main():
    gits = sys.argv[1:] or ["git"]
    tool, versions, diff = Command(), [], []
    for path in gits:
        with tempfile.TemporaryDirectory() as scratch:
            git = Git(path, scratch)
            git.ask("init", "-q", ".")
            versions.append(git.ask("version").split()[2])
            for name in sorted(set(git.ask("--list-cmds=parseopt").split())):
                if not INTERNAL.match(name):
                    found = read(git, [name], tool.commands.setdefault(name, Command()))
                    if name == "range-diff":
                        for option in found:
                            merge(diff, option, "diff options")
    tool.sets["diff"] = diff
    # `--no-patch` is an option beside `--patch`.
    longs = {spelling for option in diff for spelling in option.spellings}
    for option in diff:
        option.negated = [spelling for spelling in option.negated if spelling not in longs]
    with open(os.path.join(HERE, "git.overlay.toml"), "rb") as file:
        tool.overlay(tomllib.load(file), "git")
    for command in tool.below():
        command.uses.append("help")
    write(tool, [
        "# The arguments of git, for rules about them. docs/tools.md explains the notation.",
        f"# Made by scripts/grammar/git.py from git {' and '.join(versions)}.",
    ])


if __name__ == "__main__":
    main()

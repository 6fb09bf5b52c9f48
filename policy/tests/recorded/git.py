#!/usr/bin/env python3
"""Records what git's own parser makes of command lines.

    policy/tests/recorded/git.py [GIT] > policy/tests/recorded/git.txt

A line is a command line, a tab, and what `git rev-parse --parseopt` prints for
it when it is told the options that this git lists for the command; or `refused`.
The cases are made with a fixed seed. They are for machines without git: with
one, the tests make new ones.
"""

import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../scripts/grammar"))
import git as grammar  # noqa: E402
from layout import Command  # noqa: E402

COMMANDS = """
add apply am archive branch cat-file checkout clean clone commit describe fetch gc init ls-files
ls-tree merge mv pull push rebase reset restore rm status switch tag worktree/add stash/push
remote/add notes/add
""".split()


def specification(options):
    lines = ["x", "--"]
    for option in options:
        takes = {"=": "=", "[=]": "?", "": ""}[option.takes]
        for spelling in option.spellings:
            if spelling == "-<n>":
                continue
            long = spelling.startswith("--")
            name = spelling.lstrip("-")
            opposite = f"--{name[3:]}" if name.startswith("no-") else f"--no-{name}"
            no = "" if long and opposite in option.negated else "!"
            lines.append(f"{name}{takes}{no} x")
    return "\n".join(lines) + "\n"


def cases(options, pick):
    long, short = [], []
    for option in options:
        for spelling in option.spellings + option.negated:
            (long if spelling.startswith("--") else short).append(spelling)
    short = [each[1] for each in short if each != "-<n>"]
    for _ in range(14):
        line = []
        for _ in range(pick.randint(1, 4)):
            kind = pick.randint(0, 9)
            if kind < 4:
                word = pick.choice(long)
                if pick.random() < 0.4:
                    word = word[:pick.randint(5, max(5, len(word)))]
                if pick.random() < 0.3:
                    word += "=v"
                line.append(word)
            elif kind < 7 and short:
                line.append("-" + "".join(pick.choice(short) for _ in range(pick.randint(1, 3))))
            else:
                line.append(pick.choice(["a", "b/c", "-", "--", "--end-of-options", "HEAD", "-~"]))
        yield line


def main():
    path, pick = sys.argv[1] if len(sys.argv) > 1 else "git", random.Random(3)
    with tempfile.TemporaryDirectory() as scratch:
        git = grammar.Git(path, scratch)
        git.ask("init", "-q", ".")
        print(f"# What git {git.ask('version').split()[2]} read. Made by git.py beside this file.")
        for name in COMMANDS:
            command = Command()
            grammar.read(git, name.split("/"), command)
            # As in the grammar: these take the next word only where there is one.
            options = [option for option in command.options if not
                       {"--contains", "--no-contains", "--with", "--without", "--merged",
                        "--no-merged", "--points-at"} & set(option.spellings)]
            for line in cases(options, pick):
                done = subprocess.run(
                    [path, "rev-parse", "--parseopt", "--stuck-long", "--", *line], cwd=scratch,
                    input=specification(options).encode(), stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, check=False,
                )
                said = "refused" if done.returncode else done.stdout.decode().strip()
                print("\t".join([" ".join([*name.split("/"), *line]), said]))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints the grammar of npm's arguments: tools.d/npm/grammar.toml.

    scripts/grammar/npm.py [DIR...] > tools.d/npm/grammar.toml

Each DIR is an installed npm (default: the one beside the npm on the PATH). npm
does not refuse what it does not know: a word after an unknown option is an
operand to it. So a grammar of several versions has only what all of them read
alike, and no abbreviations; of one version it has all. What an option takes is
found by asking npm's own parser. The commands beneath commands are in
npm.overlay.toml beside this file.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib

from layout import Command, Option, write

HERE = os.path.dirname(os.path.abspath(__file__))


class Npm:
    def __init__(self, place):
        self.place = place
        self.said = self.ask()

    def ask(self, *flags, cases=None):
        done = subprocess.run(
            ["node", os.path.join(HERE, "npm-ask.js"), self.place, *flags],
            input=json.dumps(cases).encode(), stdout=subprocess.PIPE, check=True, timeout=60,
        )
        return json.loads(done.stdout)

    def kinds(self, words):
        """What each of these spellings takes: "=" a value, or the words that it takes."""
        tried = {
            spelling: ["zzz", "true", "false", "null", *more] for spelling, more in words.items()
        }
        cases = [[spelling, word] for spelling, tries in tried.items() for word in tries]
        parsed = iter(self.ask("--parse", cases=cases))
        kinds = {}
        for spelling, tries in tried.items():
            taken = [word for word in tries if not next(parsed)["remain"]]
            if "zzz" in taken:
                kinds[spelling] = "="
            else:
                kinds[spelling] = "{" + ",".join(taken) + "}" if taken else ""
        return kinds


def same(npms, get):
    """What every npm says, where all say the same; else nothing."""
    first, *others = [get(npm) for npm in npms]
    return first if all(other == first for other in others) else None


def options(npms):
    keys = sorted(set().union(*(npm.said["options"] for npm in npms)))
    keys = [key for key in keys if all(key in npm.said["options"] for npm in npms)]
    shorts = sorted(set().union(*(npm.said["shorthands"] for npm in npms)))
    known = {}
    tables = []
    for npm in npms:
        words = {f"--{key}": npm.said["options"][key] for key in keys}
        words |= {f"--no-{key}": npm.said["options"][key] for key in keys}
        words |= {f"-{short}": [] for short in shorts}
        tables.append(npm.kinds(words))
    agreed = {spelling: kind for spelling, kind in tables[0].items()
              if all(table[spelling] == kind for table in tables)}
    for key in keys:
        kind = agreed.get(f"--{key}")
        if kind is None:
            continue
        option = known[key] = Option()
        option.spellings, option.takes = [f"--{key}"], kind
        # A negated one of another kind takes other words than the option.
        if kind.startswith("{") and agreed.get(f"--no-{key}") == kind:
            option.negated = [f"--no-{key}"]
    for short in shorts:
        expansion = same(npms, lambda npm: npm.said["shorthands"].get(short))
        kind = agreed.get(f"-{short}")
        if expansion is None or kind is None or short in known:
            continue
        spelling = f"-{short}" if len(short) == 1 else f"--{short}"
        long, *value = expansion
        target = known.get(long.removeprefix("--"))
        opposite = known.get(long.removeprefix("--no-"))
        if value:
            option = known[f" {short}"] = Option()
            option.spellings = [spelling]
        elif target and target.takes == kind:
            at = 0 if len(short) == 1 else len(target.spellings)
            target.spellings.insert(at, spelling)
        elif long.startswith("--no-") and opposite and opposite.takes == kind:
            opposite.negated.append(spelling)
    return list(known.values())


def main():
    found = shutil.which("npm")
    places = sys.argv[1:] or [os.path.join(os.path.dirname(os.path.realpath(found)), "..")]
    npms = [Npm(place) for place in places]
    tool = Command()
    tool.options = options(npms)
    if len(npms) == 1:
        tool.switches["abbreviations"] = True
    newest, *others = [npm.said for npm in npms]
    for said in [newest, *others]:
        # What is a command of its own in an older one may be an alias by now.
        for name in said["commands"]:
            if name not in newest["aliases"]:
                tool.commands.setdefault(name, Command())
        for alias, name in said["aliases"].items():
            while name in newest["aliases"]:
                name = newest["aliases"][name]
            if alias in tool.commands or newest["aliases"].get(alias, name) != name:
                continue
            command = tool.commands[name]
            if alias not in command.aliases:
                command.aliases.append(alias)
    with open(os.path.join(HERE, "npm.overlay.toml"), "rb") as file:
        tool.overlay(tomllib.load(file), "npm")
    versions = " and ".join(npm.said["version"] for npm in npms)
    write(tool, [
        "# The arguments of npm, for rules about them. docs/tools.md explains the notation.",
        f"# Made by scripts/grammar/npm.py from npm {versions}.",
    ])


if __name__ == "__main__":
    main()

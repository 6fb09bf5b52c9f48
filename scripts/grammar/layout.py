"""What the generators beside this file share: a grammar, and its layout as TOML.

Not a program.
"""

import sys


class Option:
    """One option: its spellings, those that negate it, and its value."""

    def __init__(self, said=None):
        self.spellings, self.negated, self.takes = [], [], ""
        self.opposite = self.maybe = None
        for word in (said or "").split():
            no = word.startswith("!")
            word = word.removeprefix("!")
            if word == "-<n>":
                self.spellings.append(word)
                continue
            for end in ("[=]", "=?", "="):
                if word.endswith(end):
                    word, self.takes = word.removesuffix(end), end
                    break
            else:
                if word.endswith("}"):
                    word, rest = word.split("{")
                    self.takes = "{" + rest
            if word.startswith("--[no-]"):
                self.spellings.append("--" + word[7:])
                self.negated.append("--no-" + word[7:])
            else:
                (self.negated if no else self.spellings).append(word)

    def add(self, other):
        for spelling in other.spellings:
            if spelling not in self.spellings:
                # Short ones first, as in every help text.
                at = 0 if len(spelling) == 2 else len(self.spellings)
                self.spellings.insert(at, spelling)
        self.negated += [word for word in other.negated if word not in self.negated]
        self.maybe = self.maybe or other.maybe

    def __str__(self):
        words, rest = [], list(self.negated)
        for spelling in self.spellings:
            no = f"--no-{spelling[2:]}"
            if spelling.startswith("--") and no in rest:
                rest.remove(no)
                words.append(f"--[no-]{spelling[2:]}")
            else:
                words.append(spelling)
        words[-1] += self.takes
        return " ".join(words + [f"!{spelling}" for spelling in rest])


class Command:
    """A tool, or one of its commands."""

    def __init__(self):
        self.options, self.commands, self.uses, self.aliases = [], {}, [], []
        self.switches, self.harmless, self.sets = {}, [], {}

    def alias(self, target, long):
        """`long` is another spelling of `target`."""
        first = self.find(target)
        second = self.find(long)
        if not first or not second or first is second:
            return bool(first and second)
        first.add(second)
        self.options.remove(second)
        return True

    def below(self):
        """Every command beneath it."""
        for command in self.commands.values():
            yield command
            yield from command.below()

    def find(self, spelling):
        for option in self.options:
            if spelling in option.spellings:
                return option
        return None

    def overlay(self, said, where):
        """What is known beside what the tool says of itself."""
        for name, value in said.items():
            if name == "options":
                for text in value:
                    self.replace(Option(text))
            elif name == "drop":
                for spelling in value:
                    option = self.find(spelling)
                    if option:
                        self.options.remove(option)
                    else:
                        print(f"{where}: no {spelling} to drop", file=sys.stderr)
            elif name == "same":
                # Lists of spellings that are one option to whoever writes rules.
                for first, *others in value:
                    for other in others:
                        if not self.alias(first, other):
                            print(f"{where}: no {first} {other}", file=sys.stderr)
            elif name == "last":
                for spelling in value:
                    option = self.find(spelling)
                    if option:
                        option.takes = "=?"
                    else:
                        print(f"{where}: no {spelling}", file=sys.stderr)
            elif name == "commands":
                for command, members in value.items():
                    known = self.commands.setdefault(command, Command())
                    known.overlay(members, f"{where} {command}")
            elif name == "sets":
                for known, options in value.items():
                    self.sets.setdefault(known, []).extend(Option(text) for text in options)
            elif name == "forget":
                for command in value:
                    if self.commands.pop(command, None) is None:
                        print(f"{where}: no {command} to forget", file=sys.stderr)
            elif name in ("uses", "aliases", "harmless"):
                setattr(self, name, getattr(self, name) + value)
            else:
                self.switches[name] = value

    def replace(self, option):
        for spelling in option.spellings + option.negated:
            old = self.find(spelling)
            if old:
                for each in old.spellings:
                    if each not in option.spellings and each not in option.negated:
                        option.spellings.insert(0, each)
                option.negated += [
                    each for each in old.negated
                    if each not in option.negated and each not in option.spellings
                ]
                self.options.remove(old)
        self.options.append(option)


def strings(name, items):
    """A list, in as few lines of at most 100 characters as it needs."""
    items = [quoted(str(item)) for item in items]
    line = f"{name} = [{', '.join(items)}]"
    if len(line) <= 100:
        return [line]
    lines, line = [f"{name} = ["], "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return [*lines, line, "]"]


def quoted(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def spelled(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value)


def body(command):
    lines = [f"{name} = {spelled(value)}" for name, value in command.switches.items()]
    if command.aliases:
        lines += strings("aliases", command.aliases)
    if command.uses:
        lines += strings("uses", command.uses)
    if command.options:
        lines += strings("options", command.options)
    if command.harmless:
        lines += strings("harmless", command.harmless)
    return lines


def key(name):
    plain = all(letter.isalnum() and letter.isascii() or letter in "-_" for letter in name)
    return name if plain else quoted(name)


def tables(command, path):
    lines = []
    for name, below in sorted(command.commands.items()):
        here = f"{path}commands.{key(name)}"
        own = body(below)
        if not own and not below.commands:
            lines += ["", f"[{here}]"]
            continue
        if own:
            lines += ["", f"[{here}]", *own]
        lines += tables(below, f"{here}.")
    return lines


def write(tool, comment):
    """The grammar of a whole tool, on stdout."""
    lines = [*comment, *body(tool)]
    if tool.sets:
        lines += ["", "[sets]"]
        for name, options in sorted(tool.sets.items()):
            lines += strings(name, options)
    print("\n".join(lines + tables(tool, "")))

#!/usr/bin/env python3
"""A table of what attack.py told of several servers.

    table.py NAME=FILE...
"""

import json
import sys

ROWS = [
    ("names outside: `..`, absolute, encoded", "name:", ("name: sibling", "name: symlink", "name: /proc")),
    ("the sibling with the same beginning (CVE-2025-53110)", "name: sibling", ("by symlink",)),
    ("symlinks that lead out (CVE-2025-53109)", ("name: symlink", "name: sibling with the same beginning, by symlink"), ()),
    ("/proc/self", ("name: /proc", "proc:"), ()),
    ("what is to be made outside", "new:", ()),
    ("race: directory and symlink exchanged", "race: exchange", ()),
    ("race: the last name becomes a symlink", "race: last", ()),
    ("race: directory replaced by a symlink", "race: replaced", ()),
    ("pipes, devices", "kind:", ()),
    ("files of 1 and 8 GiB", "size:", ()),
    ("content and names that are no plain UTF-8 with LF", "content:", ()),
    ("edits of one file at once", "race: edits", ()),
]


def said(attacks):
    total = {key: sum(attack[key] for attack in attacks) for key in attacks[0] if key != "attack"}
    words = [
        (total["escaped"], "escaped"),
        (total["hung"], "hung"),
        (total["grew"], "took too much memory"),
        (total["ended"], "ended the server"),
        (total["damaged"], "damaged or lost something"),
    ]
    bad = ", ".join(f"**{count}** {word}" for count, word in words if count)
    return f"{bad or 'none'} of {total['tried']}"


def main():
    files = dict(word.split("=", 1) for word in sys.argv[1:])
    told = {}
    for name, file in files.items():
        with open(file) as lines:
            told[name] = [json.loads(line) for line in lines]
    print("| attack | " + " | ".join(files) + " |")
    print("| --- |" + " --- |" * len(files))
    for row, begins, without in ROWS:
        cells = []
        for attacks in told.values():
            these = [
                attack
                for attack in attacks
                if attack["attack"].startswith(begins) and not any(part in attack["attack"] for part in without)
            ]
            cells.append(said(these))
        print(f"| {row} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

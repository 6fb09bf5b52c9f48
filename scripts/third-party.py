#!/usr/bin/env python3
"""Whose code is in the released programs: each crate with its licence and the texts that
come with it, on stdout. Reads what cargo has fetched; a crate without a text and with a
licence whose text is not ours either is an error.

    scripts/third-party.py MACHINE      as x86_64-unknown-linux-gnu
"""

import json
import pathlib
import subprocess
import sys

ROOTS = ["tool-server", "tool-client"]
NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")
# Licences of which the text is in this project already, or is said in a line.
OWN = {"MIT", "Apache-2.0"}


def texts(directory):
    found = [path for path in directory.iterdir() if path.name.lower().startswith(NAMES)]
    for path in sorted(found):
        if path.is_file():
            yield path.name, path.read_text(encoding="utf-8", errors="strict").strip()


def main():
    words = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", sys.argv[1]]
    told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    todo = [package["id"] for package in told["packages"] if package["name"] in ROOTS]
    if len(todo) != len(ROOTS):
        sys.exit(f"the workspace has not exactly {' and '.join(ROOTS)}")
    reached = set()
    optional = {"clap_complete", "clap_mangen"}
    while todo:
        one = todo.pop()
        if one in reached:
            continue
        reached.add(one)
        for dependency in nodes[one]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            # What only builds or tests is in no program; a macro's code may be.
            if None in kinds and packages[dependency["pkg"]]["name"] not in optional:
                todo.append(dependency["pkg"])
    others = [packages[one] for one in reached if packages[one]["source"] is not None]
    others.sort(key=lambda package: (package["name"], package["version"]))
    print("The programs contain code of these crates, and of Rust's standard library")
    print("(MIT OR Apache-2.0, the Rust project's contributors). The texts of MIT and")
    print("Apache-2.0 are in LICENSE-MIT and LICENSE-APACHE too.\n")
    for package in others:
        print(f"  {package['name']} {package['version']}: {package['license']}")
    known = {}
    for package in others:
        named = f"{package['name']} {package['version']}"
        there = list(texts(pathlib.Path(package["manifest_path"]).parent))
        if not there and not OWN & set((package["license"] or "").replace("/", " ").split()):
            sys.exit(f"{named}: {package['license']}, and no text of it: add it by hand")
        for name, text in there:
            known.setdefault(text, []).append(f"{named} ({name})")
    for text, of in sorted(known.items(), key=lambda item: item[1]):
        print("\n" + "-" * 78)
        for line in of:
            print(line)
        print(f"\n{text}")


main()

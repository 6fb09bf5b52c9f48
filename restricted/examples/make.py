#!/usr/bin/env python3
"""A wrapper for make: some targets, and nothing that changes what they do.

Copy it to RESTRICTED_DIR/make.py, or to tools.d/make/restricted.py, and write your own
targets into TARGETS. The Makefile is the caller's: this bounds what is called, and not
what a recipe does.
"""

import os
import re
import sys

TARGETS = {"all", "build", "check", "clean", "fmt", "lint", "test"}
OPTIONS = re.compile(r"-j[0-9]{0,3}|-[kns]|--keep-going|--dry-run|--silent|--quiet|--version")


def main() -> int:
    words = sys.argv[1:]
    for word in words:
        if word in TARGETS or OPTIONS.fullmatch(word):
            continue
        shown = word.encode("ascii", "backslashreplace").decode()
        wanted = ", ".join(sorted(TARGETS))
        print(f"make {shown}: refused: the targets here are {wanted}; options: -j -k -n -s", file=sys.stderr)
        return 126
    # Options, targets and makefiles by another way.
    for name in ("MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "MFLAGS"):
        os.environ.pop(name, None)
    binary = os.environ["TOOL_BINARY"]
    os.execv(binary, [binary, *words])


if __name__ == "__main__":
    sys.exit(main())

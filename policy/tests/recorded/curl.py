#!/usr/bin/env python3
"""Records which URLs curl takes a command line to name.

    policy/tests/recorded/curl.py [CURL] > policy/tests/recorded/curl.txt

A line is a command line, a tab, and either `urls` with what curl would have
fetched, in order, or `refused`, or `failed` where it refuses for another reason
than how the line is written. Nothing is fetched: no scheme is allowed but one
that is not used. The cases are made of curl's own options with a fixed seed,
and run in an empty directory.
"""

import os
import random
import subprocess
import sys
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
GRAMMAR = os.path.join(HERE, "../../../tools.d/curl/grammar.toml")
# Each of these would end the case, or change what is recorded.
NOT = {
    "--next", "--config", "--write-out", "--proto", "--proto-redir", "--proto-default", "--help",
    "--manual", "--version", "--engine", "--stderr", "--silent", "--disable", "--parallel",
    "--fail-early", "--url-query", "--get", "--variable", "--libcurl", "--rate", "--upload-file",
    "--remote-name", "--remote-name-all",
}
REFUSED = ("is unknown", "is ambiguous", "requires parameter", "blank argument",
           "used '--no-' for option that isn't a boolean")
BY_HAND = """
http://a/
http://a/ http://b/
-o x http://a/
-ox http://a/
-o http://a/ http://b/
-sSLo x http://a/ http://b/
-sSLox http://a/
-so http://a/
--output=x http://a/
--outp x http://a/
--out x http://a/
--dat x http://a/
--data x http://a/
-d x http://a/
-dx http://a/
-dhttp://a/ http://b/
-XPOST http://a/
-X POST http://a/
-X=POST http://a/
-d @x http://a/
--request POST http://a/
--url http://a/
--url http://a/ http://b/
--url=http://a/
-- -o http://a/
http://a/ -- -s http://b/
--no-location http://a/
--no-output x http://a/
--no-loc http://a/
--no-buffer http://a/
--no-no-buffer http://a/
--buffer http://a/
-N http://a/
-I http://a/
-Iv http://a/
-H a:b -Hc:d http://a/
-H http://a/ http://b/
-u http://a/
-u a:b http://a/
-x http://p/ http://a/
--prox http://p/ http://a/
--proxy http://p/ http://a/
-L
-# http://a/
-4 http://a/
-46 http://a/
-0 http://a/
--http1.1 http://a/
--http1 http://a/
-o
http://a/ -o
-z http://a/
-e http://a/ http://b/
--zzz http://a/
-~ http://a/
-A http://a/ http://b/
-b x -c y http://a/
-w http://a/
--form-string http://a/ http://b/
-F a=b http://a/
-T - http://a/
-r 0-1 http://a/
-r0-1 http://a/
-Eabc http://a/
-m5 http://a/
-m 5 http://a/
-m http://a/
-C - http://a/
-C- http://a/
--unix-socket http://a/ http://b/
--resolve a:1:2 http://a/
--preproxy http://p/ http://a/
-K
""".strip().splitlines()


def known(curl, long):
    """Whether this curl has it: the grammar has newer ones too."""
    done = subprocess.run([curl, "-q", long], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    return b"is unknown" not in done.stderr


def cases(curl):
    with open(GRAMMAR, "rb") as file:
        options = tomllib.load(file)["options"]
    long, short = [], []
    for said in options:
        words = [word.rstrip("=?").lstrip("!") for word in said.split()]
        if any(word.replace("[no-]", "") in NOT for word in words):
            continue
        for word in words:
            if word.startswith("--[no-]"):
                long += ["--" + word[7:], "--no-" + word[7:]]
            elif word.startswith("--"):
                long.append(word)
            else:
                short.append(word[1])
    long = [each for each in long if known(curl, each)]
    pick = random.Random(7)
    for _ in range(500):
        line = []
        for _ in range(pick.randint(1, 4)):
            kind = pick.randint(0, 9)
            if kind < 4:
                word = pick.choice(long)
                if pick.random() < 0.3:
                    word = word[:pick.randint(4, len(word))]
                line.append(word)
            elif kind < 7:
                line.append("-" + "".join(pick.choice(short) for _ in range(pick.randint(1, 3))))
            elif kind < 8:
                line.append(pick.choice(["1", "--", "x"]))
            else:
                line.append(pick.choice(["http://a/", "http://b/"]))
        yield [*line, "1", "http://c/"]


def record(curl, line):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [curl, "-q", "-sS", "--proto", "=dict", "-w", "url %{url}\\n", *line], cwd=scratch,
            env={"PATH": os.environ["PATH"], "HOME": scratch}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=False,
        )
    urls = [word[4:] for word in done.stdout.decode(errors="replace").splitlines()
            if word.startswith("url ")]
    why = done.stderr.decode(errors="replace")
    if urls:
        return " ".join(["urls", *urls])
    return "refused" if any(each in why for each in REFUSED) else "failed"


def main():
    curl = sys.argv[1] if len(sys.argv) > 1 else "curl"
    version = subprocess.run([curl, "-q", "--version"], stdout=subprocess.PIPE, check=True)
    print(f"# What curl {version.stdout.split()[1].decode()} took for URLs. Made by curl.py "
          "beside this file.")
    for line in [each.split() for each in BY_HAND] + list(cases(curl)):
        print("\t".join([" ".join(line), record(curl, line)]))


if __name__ == "__main__":
    main()

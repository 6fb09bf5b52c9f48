#!/usr/bin/env python3
"""Records what npm's own parser makes of command lines.

    policy/tests/recorded/npm.py [DIR...] > policy/tests/recorded/npm.txt

Each DIR is an installed npm, as for scripts/grammar/npm.py. A line is a command
line, a tab, and what npm reads: its command, `:`, the operands, `|`, and every
option that is set, sorted. The cases are made of the options of all of these
npms with a fixed seed. A case that the npms read differently says `differs`.
"""

import json
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ASK = os.path.join(HERE, "../../../scripts/grammar/npm-ask.js")
BY_HAND = """
install
i left-pad
inst -D left-pad
add -g left-pad
in left-pad --save-dev
install --no-save left-pad
install --save false left-pad
install --save=false left-pad
install --no-save false left-pad
install --tag next left-pad
install --tag=next left-pad
install -gf left-pad
install --gf left-pad
install -fC /tmp left-pad
install --registry http://a/ x
install --reg http://a/ x
install --registry=http://a/ x
install --color always x
install --color never x
install --browser x y
install --no-yes x
install -n x
install --no x
install -y x
install --before 2020-01-01 x
install --omit dev --omit=optional x
install --workspace a -w b x
install -ws x
install --ws x
install --workspaces null x
install --iwr x
install --unknown x
install --unknown=x y
install --global=x y
install --tag -g x
install --tag -- x
install -- -g x
install - x
install --- x
install ---global x
install -global x
install -dd x
install -s x
install -silent x
install --loglevel silent x
run build -- --watch
run-script build
rum build
exec -- eslint --fix
exec -c eslint
x eslint
publish --dry-run
publish --access public --otp 123456
config set a b
c set a b
config ls -l
dist-tag add a@1 b
dist-tags rm a b
owner add me pkg
cache clean --force
pkg set a=b
-g install x
--prefix /tmp install x
-C /tmp ci
--version
-v
-h
help install
hlep
un x
r x
rm x
t
tst
ln
cit
""".strip().splitlines()


def cases(keys, shorts, commands):
    pick = random.Random(4)
    words = ["x", "true", "false", "null", "1", "-", "--", "", "always", "a/b", "public"]
    for _ in range(600):
        line = [pick.choice(commands)]
        for _ in range(pick.randint(1, 4)):
            kind = pick.randint(0, 9)
            if kind < 4:
                dashes = pick.choice(["--", "--", "--", "-"])
                word = dashes + pick.choice(["", "", "no-"]) + pick.choice(keys)
                if pick.random() < 0.25:
                    word += "=" + pick.choice(["x", "true", "false", ""])
            elif kind < 6:
                word = "-" + "".join(pick.choice(shorts) for _ in range(pick.randint(1, 3)))
            else:
                word = pick.choice(words)
            line.insert(pick.randint(0, len(line)), word)
        yield line


def read(result, aliases):
    remain, data = result["remain"], result["data"]
    command = result.get("command")
    given = []
    for key, value in data.items():
        given += [f"{key}={json.dumps(each)}" for each in (value if isinstance(value, list) else [value])]
    # By the name that the first npm has for it.
    return " ".join([aliases.get(command, command) or "?", ":", *(quoted(word) for word in remain[1:]),
                     "|", *sorted(given)])


def quoted(word):
    return word or "''"


def main():
    places = sys.argv[1:]
    said = [json.loads(subprocess.run(["node", ASK, place], stdout=subprocess.PIPE, check=True).stdout)
            for place in places]
    keys = sorted(set().union(*(each["options"] for each in said)))
    shorts = sorted(set().union(*([s for s in each["shorthands"] if len(s) == 1] for each in said)))
    commands = sorted(set(said[0]["commands"]) | set(said[0]["aliases"]))
    lines = [["" if word == "''" else word for word in line.split()] for line in BY_HAND]
    lines += cases(keys, shorts, commands)
    results = []
    for place in places:
        done = subprocess.run(["node", ASK, place, "--parse"], input=json.dumps(lines).encode(),
                              stdout=subprocess.PIPE, check=True)
        results.append([read(result, said[0]["aliases"]) for result in json.loads(done.stdout)])
    versions = " and ".join(each["version"] for each in said)
    print(f"# What npm {versions} read. Made by npm.py beside this file.")
    for line, *read_as in zip(lines, *results):
        # A command that one of them does not have is an error there, no difference.
        bare = {each.split(" ", 1)[1] for each in read_as}
        names = {each.split(" ", 1)[0] for each in read_as} - {"?"}
        same = len(bare) == 1 and len(names) <= 1
        print("\t".join([" ".join(map(quoted, line)), max(read_as) if same else "differs"]))


if __name__ == "__main__":
    main()

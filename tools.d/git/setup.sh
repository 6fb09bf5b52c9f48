#!/usr/bin/env bash
# What git needs in its HOME (STATE_DIR/home/git), which is kept: so this may
# run any number of times and leaves what somebody else put there.
# WORKSPACE: the workspace roots, separated by colons.
set -euo pipefail

if ! command -v git >/dev/null; then
    echo "git is not installed: nothing to set up" >&2
    exit 0
fi

# Set a value only where none is: an operator's own choice stays.
default() {
    git config --global --get "$1" >/dev/null || git config --global "$1" "$2"
}

# Add a value to a list only once.
include() {
    git config --global --get-all "$1" | grep -Fxq -- "$2" || git config --global --add "$1" "$2"
}

default init.defaultBranch main
# A pull that cannot fast-forward merges, and does not ask how.
default pull.rebase false

# Large files, where git-lfs is there: what its package writes into /etc/gitconfig may
# not be there.
if command -v git-lfs >/dev/null; then
    default filter.lfs.clean 'git-lfs clean -- %f'
    default filter.lfs.smudge 'git-lfs smudge -- %f'
    default filter.lfs.process 'git-lfs filter-process'
    default filter.lfs.required true
fi

# The workspace belongs to the caller's uid, not to the server's: without this
# git refuses to work in it. The second form is for repositories further down
# (git 2.46 and later understand it).
IFS=: read -r -a roots <<<"${WORKSPACE:-}"
for root in "${roots[@]}"; do
    if [[ -n $root ]]; then
        include safe.directory "$root"
        include safe.directory "${root%/}/*"
    fi
done

#!/usr/bin/env bash
# A wrapper for git: look, and commit, and nothing else. Copy it to RESTRICTED_DIR/git.sh,
# or to tools.d/git/restricted.sh. docs/tools.md, "Wrappers", says how it is run.
#
# A list of verbs is no wall: options before the verb are refused here, but what a commit
# runs (hooks) is the repository's. The walls are the sandbox and the gate.
set -euo pipefail

case "${1-}" in
    status | log | diff | show | blame | add | restore | commit | branch | switch | rev-parse)
        exec "$TOOL_BINARY" "$@"
        ;;
    --version | help) exec "$TOOL_BINARY" "$@" ;;
esac
echo "git ${1-}: refused: only status, log, diff, show, blame, add, restore, commit, branch, switch and rev-parse are for you here; say in your report what else is needed" >&2
exit 126

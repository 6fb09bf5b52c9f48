#!/bin/sh
# Which instances there are, and whether they are well; exit 1 if one is not.
set -eu
exec "$(dirname "$0")/claude-container" status --all "$@"

#!/bin/sh
# First-time setup: host directories, definitions, images. Any number of times.
set -eu
exec "$(dirname "$0")/claude-container" setup "$@"

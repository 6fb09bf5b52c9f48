#!/bin/sh
# Manages the containers of a project: run.sh [start|stop|status|logs|exec|run …].
# Without a verb: run.
set -eu
case ${1:-} in
    start | stop | restart | status | logs | exec | run) verb=$1 && shift ;;
    -h | --help) verb=--help && shift ;;
    *) verb=run ;;
esac
if [ "$verb" = restart ]; then
    "$(dirname "$0")/claude-container" stop "$@"
    verb=start
fi
exec "$(dirname "$0")/claude-container" "$verb" "$@"

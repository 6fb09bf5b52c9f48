#!/bin/sh
# What is done in the agent's container before the agent: waits for the tools' server,
# runs the project's own setup (CLIENT_SETUP), and makes place for the agent.
#
#   TOOL_WAIT      seconds to wait for the server; 30
#   CLIENT_SETUP   a script in the workspace; none
#   MODEL_PROXY    the socket by which the model is asked where there is no network; none
set -eu

say() { printf 'claude-container: %s\n' "$*" >&2; }

# A name for the user, where it has none; podman has given it one.
uid=$(id -u) gid=$(id -g) names=/var/lib/extrausers
if ! getent passwd "$uid" >/dev/null 2>&1 && [ -w "$names" ]; then
    printf 'agent:x:%s:%s::%s:/bin/bash\n' "$uid" "$gid" "${HOME:-/}" >"$names/passwd"
    getent group "$gid" >/dev/null 2>&1 || printf 'agent:x:%s:\n' "$gid" >"$names/group"
fi

wait=${TOOL_WAIT:-30} tries=0
case $wait in
    '' | *[!0-9]*)
        say "TOOL_WAIT must be a number of seconds, not: $wait"
        exit 1
        ;;
esac
# Ten looks a second: the server is there after some tenths of one.
until why=$(tool-client --health 2>&1); do
    tries=$((tries + 1))
    if [ "$tries" -ge $((wait * 10)) ]; then
        say "the tools' server does not answer after $wait s: ${why:-no reason given}. Look at its log (claude-container logs), then start it: claude-container start"
        exit 1
    fi
    sleep 0.1
done

if [ -n "${MODEL_PROXY:-}" ]; then
    if [ -S "$MODEL_PROXY" ]; then
        socat TCP-LISTEN:8080,bind=127.0.0.1,fork,reuseaddr "UNIX-CONNECT:$MODEL_PROXY" &
        # The word is no key: the agent's program wants one, and it does not pass.
        export ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=added-by-the-proxy
        export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    else
        say "no way to the model: there is no $MODEL_PROXY. Put the key into config/secrets/anthropic_api_key, then stop and start"
    fi
fi

if [ -n "${CLIENT_SETUP:-}" ]; then
    if [ ! -f "$CLIENT_SETUP" ]; then
        say "the project's setup $CLIENT_SETUP is not there: mend .claude-container/config.json"
        exit 1
    fi
    say "runs the project's setup: $CLIENT_SETUP"
    if [ -x "$CLIENT_SETUP" ]; then
        "$CLIENT_SETUP" || status=$?
    else
        sh "$CLIENT_SETUP" || status=$?
    fi
    if [ "${status:-0}" -ne 0 ]; then
        say "the project's setup $CLIENT_SETUP ended with status $status: mend it, then start again"
        exit 1
    fi
fi
exec "$@"

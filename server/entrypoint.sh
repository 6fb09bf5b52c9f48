#!/bin/sh
# What is done in the tools' container before the server takes its place: the user
# that it runs as gets a name where it has none, since ssh-keygen and others will not
# work without one; and where there is a key for the agent's model, the agent can ask the
# model without having it (docs/model-proxy.md). /var/lib/extrausers is a tmpfs (compose.yaml); podman has given the
# user a line in /etc/passwd itself.
set -eu

uid=$(id -u) gid=$(id -g) names=/var/lib/extrausers
if ! getent passwd "$uid" >/dev/null 2>&1 && [ -w "$names" ]; then
    printf 'tools:x:%s:%s::%s:/bin/bash\n' "$uid" "$gid" "${STATE_DIR:-/}" >"$names/passwd"
    getent group "$gid" >/dev/null 2>&1 || printf 'tools:x:%s:\n' "$gid" >"$names/group"
fi
if [ -s /run/secrets/anthropic_api_key ] && [ -z "${TOOL_PROXY_SOCKET:-}${TOOL_PROXY_DEFINITION:-}" ]; then
    export TOOL_PROXY_SOCKET=/run/sockets/proxy.sock
    export TOOL_PROXY_DEFINITION=/usr/local/share/tool-server/proxy.toml
fi
exec "$@"

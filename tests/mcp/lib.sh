#!/usr/bin/env bash
# For the scripts here and in tests/http: a server with both doors open, in a scratch
# directory; ended at the end. To be read by `source`, with the directory of tool-server as
# the first argument.
# Sets: scratch, address, token, socket.
# shellcheck source-path=SCRIPTDIR

programs=$(realpath "${1:?the directory of tool-server}")
# shellcheck disable=SC2034 # of those who read this
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)
server=
# shellcheck disable=SC2317 # by the trap
end() {
    if [[ -n $server ]]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$scratch"
}
trap end EXIT

# shellcheck source=versions.sh
source "$here/versions.sh"

token=mcp-tests-0123456789abcdef
socket=$scratch/run/tool.sock

# tool NAME TEXT-OF-DEFINITION [SCRIPT]
tool() {
    mkdir -p "$scratch/tools.d/$1"
    printf '%s\n' "$2" >"$scratch/tools.d/$1/tool.toml"
    if (($# > 2)); then
        printf '#!/bin/sh\n%s\n' "$3" >"$scratch/bin/$1"
        chmod 755 "$scratch/bin/$1"
    fi
}

# serve [--insecure-no-auth] [VARIABLE=VALUE…]
serve() {
    local more=(TOOL_HTTP_TOKEN_FILE="$scratch/tokens")
    if [[ ${1:-} == --insecure-no-auth ]]; then
        more=(TOOL_INSECURE_NO_AUTH=true)
        shift
    fi
    more+=("$@")
    (umask 077 && echo "tester:$token" >"$scratch/tokens")
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$scratch/home" \
        TOOL_SOCKET="$socket" TOOL_CONTROL_SOCKET="$scratch/run/control.sock" \
        TOOLS_DIR="$scratch/tools.d" RESTRICTED_DIR="$scratch/restricted" \
        STATE_DIR="$scratch/state" WORKSPACE="$scratch/ws" \
        TOOL_HTTP_LISTEN=127.0.0.1:0 "${more[@]}" \
        "$programs/tool-server" serve >"$scratch/log" 2>&1 &
    server=$!
    for _ in $(seq 1200); do
        address=$(sed -n 's/.*"listening for HTTP","address":"\([^"]*\)".*/\1/p' "$scratch/log")
        if [[ -n $address ]] && "$programs/tool-server" health >/dev/null 2>&1; then
            return
        fi
        sleep 0.05
    done
    cat "$scratch/log" >&2
    echo "${0##*/}: the server does not listen" >&2
    exit 1
}

mkdir -p "$scratch"/{run,state,restricted,home,bin,tools.d,ws/src}
chmod 755 "$scratch"
export TOOL_SOCKET=$socket
# Nothing here goes through a proxy.
export no_proxy='*' NO_PROXY='*'
printf 'fn main() {\n    println!("old");\n}\n' >"$scratch/ws/src/main.rs"

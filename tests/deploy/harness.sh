# shellcheck shell=bash
# What the cases of tests/deploy share. Each case is a shell function, run by run.sh in a
# shell of its own (set -eu) with this file and its own sourced; a file ends with
#
#   cases NAME...         those that always run
#   long_cases NAME...    those of run.sh --all
#
# A case has: $root (the project), $bin (the release programs), $work (a directory of its
# own, removed after it), $engine (podman, rootless or docker), $BASE_IMAGE, $SERVER_IMAGE,
# $CLAUDE_IMAGE. It ends with 0, or with `fail WHY`, or with `skip WHY`.
#
# To be sourced; expects `set -euo pipefail`.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

# run.sh says what they are.
: "${work:=}" "${bin:=}" "${engine:=podman}" "${docker_socket:=}" "${SERVER_IMAGE:=}"

# --- Words -------------------------------------------------------------------

fail() {
    printf 'WHY %s\n' "$*" >&3
    printf 'failed: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf 'WHY %s\n' "$*" >&3
    exit 77
}

# expect STATUS PATTERN COMMAND...: the command ends so, and its output (both streams,
# also in $output) matches the extended regular expression.
expect() {
    local wanted=$1 pattern=$2 status=0
    shift 2
    output=$("$@" 2>&1 | tr -d '\0') || status=$?
    printf '$ %s\n%s\n[%d]\n' "$*" "$output" "$status"
    [[ $status == "$wanted" ]] || fail "ended with $status, not $wanted: $*: ${output: -400}"
    grep -Eq -- "$pattern" <<<"$output" || fail "does not say \"$pattern\": $*: ${output: -400}"
}

# eventually SECONDS COMMAND...: until it succeeds.
eventually() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < until)) || fail "did not come to pass: $*"
        sleep 0.1
    done
}

# What a case leaves to be done when it ends, last first.
at_end=()
end_case() {
    local status=$? index
    trap - EXIT
    set +e
    for ((index = ${#at_end[@]} - 1; index >= 0; index--)); do eval "${at_end[index]}"; done
    exit "$status"
}

# --- Engines -----------------------------------------------------------------

# The engine's own command line: podman or docker, as the user that the engine is for.
engine() {
    case $engine in
        podman) podman "$@" ;;
        rootless) as_user podman "$@" ;;
        docker) docker -H "unix://$docker_socket" "$@" ;;
        *) fail "no such engine: $engine" ;;
    esac
}

# The compose of that engine, for the instance whose variables are in the environment.
compose() {
    case $engine in
        podman) podman-compose -f "$root/compose.yaml" -p "claude-$INSTANCE_ID" "$@" ;;
        rootless) as_user podman-compose -f "$root/compose.yaml" -p "claude-$INSTANCE_ID" "$@" ;;
        docker) DOCKER_HOST="unix://$docker_socket" docker-compose -f "$root/compose.yaml" -p "claude-$INSTANCE_ID" "$@" ;;
        *) fail "no such engine: $engine" ;;
    esac
}

# What of compose's variables depends on the engine.
engine_settings() {
    export SERVER_SECCOMP=$root/deploy/seccomp.json
    case $engine in
        podman) export USERNS_MODE=host SERVER_PROC='unmask=/proc/*' ;;
        rootless) export USERNS_MODE=keep-id SERVER_PROC='unmask=/proc/*' ;;
        # docker compose v2 knows systempaths=unconfined, and 1.29 does not.
        docker) export USERNS_MODE=host SERVER_PROC=no-new-privileges ;;
    esac
}

# --- Instances ---------------------------------------------------------------

# instance NAME [UID]: the directories of one, as `claude-container install` lays them
# out, its variables exported; it is stopped and removed when the case ends. The home
# ($CLAUDE_HOME) is shared by the instances of a case, the project is $work/NAME.
instance() {
    local owner=${2:-1000} made
    export CLAUDE_HOME=$work/home INSTANCE_ID=$1-$$
    export PROJECT_DIR=$work/$1 WORKSPACE_PATH=/workspace HOST_UID=$owner HOST_GID=$owner
    export CLIENT_COMMAND='sleep infinity' CLIENT_SETUP='' SERVER_CONFIG=''
    engine_settings
    for made in tools/bin tools/tools.d tools/restricted config/claude config/server \
        "sockets/$INSTANCE_ID" "state/$INSTANCE_ID/server" "state/$INSTANCE_ID/scratch" "state/$INSTANCE_ID/agent"; do
        mkdir -p "$CLAUDE_HOME/$made"
    done
    mkdir -p "$PROJECT_DIR"
    (umask 077 && mkdir -p "$CLAUDE_HOME/config/secrets")
    [[ -e $CLAUDE_HOME/tools/bin/tool-client ]] || cp "$bin/tool-client" "$CLAUDE_HOME/tools/bin/"
    [[ -e $CLAUDE_HOME/tools/tools.d/git ]] || cp -r "$root/tools.d/git" "$CLAUDE_HOME/tools/tools.d/"
    chmod -R u=rwX,go=rX "$CLAUDE_HOME/tools"
    printf '[user]\n\tname = Ada\n\temail = ada@example.org\n' >"$CLAUDE_HOME/config/server/gitconfig"
    chown -R "$owner:$owner" "$CLAUDE_HOME/config" "$CLAUDE_HOME/sockets/$INSTANCE_ID" \
        "$CLAUDE_HOME/state/$INSTANCE_ID" "$PROJECT_DIR"
    at_end+=("remove_instance $INSTANCE_ID")
}

# use NAME: the variables of an instance that is there.
use() {
    export INSTANCE_ID=$1-$$ PROJECT_DIR=$work/$1
}

remove_instance() {
    local name
    for name in "claude-$1" "claude-$1-isolated" "claude-$1-forge" "claude-$1-tools"; do
        engine rm -f "$name" >/dev/null 2>&1
    done
    for name in agent tools; do engine network rm -f "claude-$1_$name" >/dev/null 2>&1; done
    return 0
}

up() {
    compose up -d "$@" >"$work/up.log" 2>&1 || { cat "$work/up.log"; fail "compose up: $(tail -n 1 "$work/up.log")"; }
    eventually 30 in_server tool-server health
}

# in_client COMMAND...: as the agent would run it, in the workspace. in_server likewise.
in_client() { engine exec "claude-$INSTANCE_ID" "$@"; }
in_server() { engine exec "claude-$INSTANCE_ID-tools" "$@"; }

# client SCRIPT: a shell in the agent's container.
client() { in_client bash -c "$1"; }

# --- A host that wants a token -----------------------------------------------

# forge: a git server with the repository ada/project, at the loopback of the tools'
# container, for whoever has $token, which is the secret github_token. The definition of
# git takes it for github.com. Before `up`; and serve_forge after it.
forge() {
    token=canary-$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
    mkdir -p "$work/hub"
    git init --quiet --bare -b main "$work/hub/ada/project.git"
    git -C "$work/hub/ada/project.git" config http.receivepack true
    (umask 077 && printf '%s\n' "$token" >"$CLAUDE_HOME/config/secrets/github_token")
    chown -R "$HOST_UID:$HOST_GID" "$CLAUDE_HOME/config/secrets" "$work/hub"
    sed -i 's|^credential = .*|&\nupstream = "http://127.0.0.1:8411"|' "$CLAUDE_HOME/tools/tools.d/git/tool.toml"
}

# The server's image has python3 (EXTRA_PACKAGES) and git.
serve_forge() {
    engine run -d --name "claude-$INSTANCE_ID-forge" --network "container:claude-$INSTANCE_ID-tools" \
        --user "$HOST_UID:$HOST_GID" ${USERNS_MODE:+--userns "$USERNS_MODE"} \
        -v "$work/hub:/hub" -v "$CLAUDE_HOME/config/secrets:/secrets:ro" \
        -v "$root/scripts/demo/forge.py:/forge.py:ro" --entrypoint python3 -e HOME=/tmp \
        "$SERVER_IMAGE" /forge.py /hub /secrets/github_token 8411 >/dev/null
    eventually 20 in_server bash -c ': </dev/tcp/127.0.0.1/8411'
}

cases() { always+=("$@"); }
long_cases() { long+=("$@"); }
always=()
long=()

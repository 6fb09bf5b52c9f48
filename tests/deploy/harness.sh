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
: "${engine_uid:=1000}" "${engine_home:=}" "${engine_user:=}" "${CLAUDE_IMAGE:=}"

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

# eventually SECONDS COMMAND...: until it succeeds; on a machine that does nothing else it
# takes no longer than that, and on a busy one some times as long.
eventually() {
    local until=$((SECONDS + 4 * $1))
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

# Where compose.yaml is, as the engine's user sees it.
compose_root=$root

# The engine's own command line: podman or docker, as the user that the engine is for.
engine() {
    case $engine in
        podman) podman "$@" ;;
        rootless) as_user podman "$@" ;;
        docker) docker -H "unix://$docker_socket" "$@" ;;
        *) fail "no such engine: $engine" ;;
    esac
}

# docker's compose: its second version where that is installed.
docker_compose=docker-compose
if docker compose version >/dev/null 2>&1; then docker_compose='docker compose'; fi

# The compose of that engine, for the instance whose variables are in the environment.
compose() {
    local words=(-f "$compose_root/compose.yaml" -p "claude-$INSTANCE_ID" "$@")
    case $engine in
        podman) podman-compose "${words[@]}" ;;
        rootless) as_user /usr/bin/python3 -m podman_compose "${words[@]}" ;;
        docker) DOCKER_HOST="unix://$docker_socket" $docker_compose "${words[@]}" ;;
        *) fail "no such engine: $engine" ;;
    esac
}

# What of compose's variables depends on the engine.
engine_settings() {
    export SERVER_SECCOMP=$compose_root/deploy/seccomp.json
    case $engine in
        podman) export USERNS_MODE=host SERVER_PROC='unmask=/proc/*' ;;
        rootless) export USERNS_MODE=keep-id SERVER_PROC='unmask=/proc/*' ;;
        docker)
            export USERNS_MODE=host SERVER_PROC=systempaths=unconfined
            # 1.29 does not know that.
            [[ $docker_compose == 'docker compose' ]] || SERVER_PROC=no-new-privileges
            ;;
    esac
}

# The images, for an engine that does not share root's podman.
load_images() {
    local image
    for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
        podman save --quiet "$image" | engine load --quiet || fail "$engine does not load $image"
    done
}

as_user() {
    (
        cd "$engine_home" || exit
        exec setpriv --reuid "$engine_user" --regid "$engine_user" --init-groups \
            env HOME="$engine_home" USER="$engine_user" LOGNAME="$engine_user" TMPDIR="$engine_home/tmp" \
            XDG_RUNTIME_DIR="$engine_home/run" STORAGE_DRIVER=overlay PYTHONPATH="$engine_home/python" \
            PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"
    )
}

# Rootless podman of a user who is made for it, and goes with the case.
start_rootless() {
    engine=rootless engine_user=tool-broker-test engine_home=$work/user
    id "$engine_user" >/dev/null 2>&1 && userdel "$engine_user"
    useradd --home-dir "$engine_home" --create-home --shell /bin/sh "$engine_user"
    at_end+=(stop_rootless)
    grep -q "^$engine_user:" /etc/subuid || fail "useradd gave $engine_user no subordinate users: /etc/subuid"
    engine_uid=$(id -u "$engine_user")
    mkdir "$engine_home"/{run,tmp,python,project}
    # udev makes them so; this machine may have none.
    chmod 0666 /dev/net/tun /dev/fuse
    python3 -m pip install --quiet --root-user-action=ignore --target "$engine_home/python" podman-compose==1.6.0 ||
        fail "pip install podman-compose failed"
    compose_root=$engine_home/project
    cp -r "$root/compose.yaml" "$root/deploy" "$compose_root/"
    chmod 0700 "$engine_home/run"
    chown -R "$engine_user:$engine_user" "$engine_home"
    load_images
}

# Its podman keeps one process, whose number is in a file.
stop_rootless() {
    local pause=$engine_home/run/libpod/tmp/pause.pid
    as_user podman rm --all --force --time 1 >/dev/null 2>&1
    as_user podman unshare rm -rf "$engine_home/.local" 2>/dev/null
    [[ ! -s $pause ]] || kill "$(cat "$pause")" 2>/dev/null
    sleep 0.5
    userdel "$engine_user"
}

# A docker engine of its own, without a network of its own: what is not there cannot get
# into the way of podman's.
start_docker() {
    engine=docker docker_socket=$work/docker.sock
    dockerd --data-root "$work/docker" --exec-root "$work/docker-run" -H "unix://$docker_socket" \
        --pidfile "$work/docker.pid" --iptables=false --ip6tables=false --bridge=none \
        --default-address-pool base=172.30.0.0/16,size=24 >"$work/dockerd.log" 2>&1 &
    at_end+=("stop_docker $!")
    eventually 60 engine version
    load_images
}

stop_docker() {
    local tries=0
    kill "$1"
    while kill -0 "$1" 2>/dev/null && ((tries++ < 200)); do sleep 0.1; done
    rm -rf -- "$work/docker" "$work/docker-run"
}

# --- Instances ---------------------------------------------------------------

# instance NAME [UID]: the directories of one, as `claude-container install` lays them
# out, its variables exported; it is stopped and removed when the case ends. The home
# ($CLAUDE_HOME) is shared by the instances of a case, the project is $work/NAME.
instance() {
    local owner=${2:-$engine_uid} made
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
    # Who has no root has all of it.
    [[ $engine != rootless ]] || chown -R "$owner:$owner" "$CLAUDE_HOME"
    at_end+=("remove_instance $INSTANCE_ID")
}

# use NAME: the variables of an instance that is there.
use() {
    export INSTANCE_ID=$1-$$ PROJECT_DIR=$work/$1
}

remove_instance() {
    local name
    for name in "claude-$1" "claude-$1-isolated" "claude-$1-tools"; do
        engine kill "$name" >/dev/null 2>&1
        engine rm -f "$name" >/dev/null 2>&1
    done
    for name in agent tools; do engine network rm -f "claude-$1_$name" >/dev/null 2>&1; done
    return 0
}

# up [--profile NAME] [SERVICE...]
up() {
    local profile=()
    [[ ${1-} != --profile ]] || { profile=(--profile "$2"); shift 2; }
    compose "${profile[@]}" up -d "$@" >"$work/up.log" 2>&1 || { cat "$work/up.log"; fail "compose up: $(tail -n 1 "$work/up.log")"; }
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
# git takes it for github.com. Before `up`; and serve_forge after it. Its repositories are
# $hub, in the server's state, where nobody but that container sees them.
forge() {
    token=canary-$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
    hub=$CLAUDE_HOME/state/$INSTANCE_ID/server/hub
    mkdir "$hub"
    git init --quiet --bare -b main "$hub/ada/project.git"
    git -C "$hub/ada/project.git" config http.receivepack true
    cp "$root/scripts/demo/forge.py" "$hub/"
    (umask 077 && printf '%s\n' "$token" >"$CLAUDE_HOME/config/secrets/github_token")
    chown -R "$HOST_UID:$HOST_GID" "$CLAUDE_HOME/config/secrets" "$hub"
    sed -i 's|^credential = .*|&\nupstream = "http://127.0.0.1:8411"|' "$CLAUDE_HOME/tools/tools.d/git/tool.toml"
}

# The server's image has python3 (EXTRA_PACKAGES) and git.
serve_forge() {
    engine exec -d -e HOME=/tmp "claude-$INSTANCE_ID-tools" \
        python3 /var/lib/tool-server/hub/forge.py /var/lib/tool-server/hub /run/secrets/github_token 8411
    eventually 20 in_server bash -c ': </dev/tcp/127.0.0.1/8411'
}

# at_forge WORD...: git in the repository of the forge, on the host.
at_forge() { git -c safe.directory='*' -C "$hub/ada/project.git" "$@"; }

cases() { always+=("$@"); }
long_cases() { long+=("$@"); }
always=()
long=()

# shellcheck shell=sh
# A part of claude-container, read by it.
#
# Which engine there is, and how it is asked.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

# Sets: engine, rootless (true or false), version, compose (its command), systempaths.
find_engine() {
    [ -z "${engine:-}" ] || return 0
    engine=${CLAUDE_ENGINE:-}
    case $engine in
        podman | docker)
            command -v "$engine" >/dev/null || die "CLAUDE_ENGINE is $engine, which is not installed: install it, or unset CLAUDE_ENGINE"
            ;;
        '')
            if command -v podman >/dev/null; then
                engine=podman
            elif command -v docker >/dev/null; then
                engine=docker
            else
                die "neither podman nor docker is installed: install podman (apt install podman uidmap) and podman-compose (pipx install podman-compose)"
            fi
            ;;
        *) die "CLAUDE_ENGINE is podman or docker, not: $engine" ;;
    esac
    systempaths=true
    case $engine in
        podman)
            version=$(podman version --format '{{.Client.Version}}' 2>&1) ||
                die "podman does not work: ${version##*Error: }"
            # Asking takes a second; a virtual machine's has to be asked.
            if [ "$(uname)" != Linux ]; then
                rootless=$(podman info --format '{{.Host.Security.Rootless}}' 2>&1) ||
                    die "podman's machine does not answer: podman machine start"
            elif [ "$(id -u)" = 0 ]; then
                rootless=false
            else
                rootless=true
            fi
            ;;
        docker)
            facts=$(docker info --format '{{.ServerVersion}} {{range .SecurityOptions}}{{.}} {{end}}' 2>&1) ||
                die "docker's daemon does not answer: start it (systemctl start docker), and be in the group docker"
            version=${facts%% *}
            case $facts in
                *name=rootless*) rootless=true ;;
                *) rootless=false ;;
            esac
            ;;
    esac
}

find_compose() {
    [ -z "${compose:-}" ] || return 0
    find_engine
    case $engine in
        podman)
            command -v podman-compose >/dev/null ||
                die "podman-compose is not installed: install 1.2 or later (pipx install podman-compose)"
            # Debian 12 has 1.0: the containers it makes do not find their places.
            case $(podman-compose version 2>/dev/null) in
                *version*' 0.'* | *version*' 1.0.'* | *version*' 1.1.'*)
                    die "podman-compose is too old: install 1.2 or later (pipx install podman-compose), and take the older one away or put it later on your PATH"
                    ;;
            esac
            compose=podman-compose
            ;;
        docker)
            if docker compose version >/dev/null 2>&1; then
                compose='docker compose'
            elif command -v docker-compose >/dev/null; then
                compose=docker-compose
                # 1.29 does not know the option; status says what is missing then.
                case $(docker-compose version --short 2>/dev/null) in
                    1.*) systempaths=false ;;
                esac
            else
                die "docker has no compose: install its plugin (apt install docker-compose-v2, or docker-compose)"
            fi
            ;;
    esac
}

# Sets slow: what to do where each container is a copy of its whole image, as Debian's
# podman has it for ordinary users until it is told otherwise. Asking takes a second.
look_at_storage() {
    slow=
    [ "$engine" = podman ] || return 0
    [ "$(podman info --format '{{.Store.GraphDriverName}}' 2>/dev/null || :)" != vfs ] ||
        slow="podman copies the whole image for each container (storage driver vfs): a start takes half a minute, a build tens of GB; docs/install.md, What is needed, says how it gets overlay"
}

# Sets http: the file that opens HTTP to whom CLAUDE_HTTP names; none where it names nobody.
find_http() {
    case ${CLAUDE_HTTP:-} in
        '')
            http=
            return 0
            ;;
        host) http=compose.http.yaml ;;
        agent) http=compose.http-agent.yaml ;;
        *) die "CLAUDE_HTTP is host or agent, not: $CLAUDE_HTTP" ;;
    esac
    [ -s "$CLAUDE_HOME/config/http/tokens" ] ||
        die "CLAUDE_HTTP needs tokens in $CLAUDE_HOME/config/http/tokens: docs/deployment.md, By HTTP, says how they are made; or unset CLAUDE_HTTP"
    [ "$CLAUDE_HTTP" != agent ] || [ -n "${TOOL_HTTP_TOKEN:-}" ] ||
        die "CLAUDE_HTTP=agent needs the agent's own token: set TOOL_HTTP_TOKEN, to one of $CLAUDE_HOME/config/http/tokens"
}

# The compose file of this project alone: no .env of any directory is read.
compose() {
    find_compose
    [ -z "${isolated:-}" ] || set -- --profile isolated "$@"
    set -- -p "claude-$INSTANCE_ID" --env-file "$root/deploy/none.env" "$@"
    # Root needs a capability for what an ordinary user may.
    if [ "$HOST_UID" = 0 ] && [ "$rootless" = false ]; then set -- -f "$root/deploy/compose.root.yaml" "$@"; fi
    [ -z "${http:-}" ] || set -- -f "$root/deploy/$http" "$@"
    # shellcheck disable=SC2086 # two words
    (cd "$root" && exec $compose -f "$root/compose.yaml" "$@")
}

# The same, told only if it fails.
quietly() {
    said=$("$@" 2>&1) || {
        status=$?
        printf '%s\n' "$said" >&2
        return "$status"
    }
}

image_exists() { "$engine" image inspect "$1" >/dev/null 2>&1; }

# containers FILTER…: the names of those that run; `all` first: of those that do not, too.
containers() {
    every=
    if [ "$1" = all ]; then
        every=-a
        shift
    fi
    # shellcheck disable=SC2086 # none, or one word
    "$engine" ps $every --filter "$1" --format '{{.Names}}'
}

is_running() { [ -n "$(containers "name=^$1\$")" ]; }

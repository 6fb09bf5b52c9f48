# shellcheck shell=sh
# A part of claude-container, read by it.
#
# run, start, stop: containers come and go, and nothing of them is left.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

# A signal is an end like any other: not every shell runs what EXIT wants when it dies of one.
interruptible() {
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
# While it tidies up, also what it starts.
undisturbed() { trap '' INT TERM HUP QUIT; }

# When a process began: numbers of processes are given again, also after a crash.
born() {
    if [ -r "/proc/$1/stat" ]; then
        read -r line <"/proc/$1/stat" || line=
        # shellcheck disable=SC2086 # words
        set -- ${line##*) }
        printf '%s\n' "${20:-}"
    else
        LC_ALL=C ps -o lstart= -p "$1" 2>/dev/null || :
    fi
}

# lives PID FILE: the process that wrote when it began into that file is there.
lives() {
    kill -0 "$1" 2>/dev/null || [ -d "/proc/$1" ] || return 1
    [ "$(born "$1")" = "$(cat "$2" 2>/dev/null || :)" ]
}

# One at a time for each instance: `mkdir` is what every system does in one step.
lock() {
    mkdir -p "$run_dir"
    waited=0
    until mkdir "$run_dir/lock" 2>/dev/null; do
        holder=$(cat "$run_dir/lock/pid" 2>/dev/null || :)
        # Nobody is there any more, or was ended before it wrote its number.
        if { [ -n "$holder" ] && ! lives "$holder" "$run_dir/lock/born"; } || { [ -z "$holder" ] && [ "$waited" -ge 50 ]; }; then
            rm -rf "$run_dir/lock"
            waited=0
            continue
        fi
        waited=$((waited + 1))
        [ "$waited" != 40 ] || [ -z "$holder" ] || warn "waits for another claude-container (process $holder), which starts or stops $INSTANCE_ID"
        sleep 0.1
        # Whoever had it may have been the last.
        mkdir -p "$run_dir"
    done
    if ! { born "$$" >"$run_dir/lock/born" && printf '%s\n' "$$" >"$run_dir/lock/pid" && mkdir -p "$run_dir/users"; } 2>/dev/null; then
        rm -rf "$run_dir/lock"
        rmdir "$run_dir/users" "$run_dir" 2>/dev/null || :
        die "$run_dir cannot be written: make room on its disk (df $CLAUDE_HOME), then again"
    fi
    locked=true
}
locked=false
unlock() {
    [ "$locked" = true ] || return 0
    rm -rf "$run_dir/lock"
    locked=false
}

# Whether another `run` uses the server.
is_used() {
    for user in "$run_dir/users"/*; do
        [ -e "$user" ] || continue
        pid=${user##*/}
        [ "$pid" != "$$" ] || continue
        if lives "$pid" "$user"; then return 0; fi
        rm -f "$user"
    done
    return 1
}

# With the lock: starts the server unless it runs; nothing of it is left if it fails.
start_server() {
    if is_running "$server"; then
        was=$(cat "$run_dir/workspace" 2>/dev/null || printf '%s' "$WORKSPACE_PATH")
        [ "$was" = "$WORKSPACE_PATH" ] ||
            die "$INSTANCE_ID runs with its project at $was, not $WORKSPACE_PATH: run: claude-container stop"
        was=$(cat "$run_dir/http" 2>/dev/null || :)
        [ -z "${CLAUDE_HTTP:-}" ] || [ "$was" = "$CLAUDE_HTTP" ] ||
            die "$INSTANCE_ID runs, and opens HTTP to ${was:-nobody}, not to CLAUDE_HTTP=$CLAUDE_HTTP: run: claude-container stop"
        return 0
    fi
    # One that died is started again under the agents that run.
    if [ -n "$(containers "name=^$background(-isolated|_run_.*)?\$")" ] && "$engine" start "$server" >/dev/null 2>&1; then
        return 0
    fi
    take_down
    [ -z "$NOTES" ] || warn "note: $NOTES"
    printf '%s\n' "$PROJECT_DIR" >"$CLAUDE_HOME/state/$INSTANCE_ID/project"
    printf '%s' "$WORKSPACE_PATH" >"$run_dir/workspace"
    printf '%s' "${CLAUDE_HTTP:-}" >"$run_dir/http"
    if ! quietly compose up -d tool-server; then
        die "the tools' server could not be started: the engine's words are above; claude-container doctor looks for the cause"
    fi
    # The agent's network, once: two runs at a time would both make it, and one fail.
    # docker's compose has made it with the server's.
    name="claude-${INSTANCE_ID}_agent"
    "$engine" network inspect "$name" >/dev/null 2>&1 || quietly "$engine" network create --label "com.docker.compose.project=claude-$INSTANCE_ID" \
        --label "io.podman.compose.project=claude-$INSTANCE_ID" --label com.docker.compose.network=agent "$name" >/dev/null ||
        die "the agent's network $name could not be made: the engine's words are above"
    # Its socket is there after some tenths of a second; a virtual machine's does not show.
    [ "$(uname)" = Linux ] || return 0
    tries=0
    until [ -S "$CLAUDE_HOME/sockets/$INSTANCE_ID/tool-$INSTANCE_ID.sock" ]; do
        tries=$((tries + 1))
        if [ $((tries % 10)) -eq 0 ] && ! is_running "$server" || [ "$tries" -ge 300 ]; then
            "$engine" logs --tail 5 "$server" >&2 2>&1 || :
            die "the tools' server did not start: its last words are above; mend that (claude-container tools check), then start again"
        fi
        sleep 0.1
    done
}

# Containers, networks, sockets: everything but the state.
take_down() {
    left=$(containers all "name=^claude-$INSTANCE_ID(-tools|-isolated|_run_.*)?\$")
    for name in $left; do
        [ "$name" = "$server" ] || "$engine" rm -f "$name" >/dev/null 2>&1 || :
    done
    for name in $left; do
        # It ends its calls, and the audit.
        [ "$name" != "$server" ] || "$engine" stop -t 20 "$name" >/dev/null 2>&1 || :
        "$engine" rm -f "$name" >/dev/null 2>&1 || :
    done
    for name in $("$engine" network ls --filter "name=^claude-${INSTANCE_ID}_" --format '{{.Name}}'); do
        "$engine" network rm "$name" >/dev/null 2>&1 || :
    done
    rm -rf "$CLAUDE_HOME/sockets/$INSTANCE_ID/bin"
    rm -f "$CLAUDE_HOME/sockets/$INSTANCE_ID"/*.sock "$run_dir/workspace" "$run_dir/http"
}

# With the lock: the end of a `run`, or of a start that failed.
leave() {
    rm -f "$run_dir/users/$$"
    if ! is_used && [ -z "$(containers "name=^$background\$")" ]; then
        take_down
        forget
    fi
}

# With the lock, which somebody else may wait for: what nobody uses any more.
forget() {
    rm -rf "$run_dir/users" "$run_dir/workspace" "$run_dir/http"
    rmdir "$CLAUDE_HOME/sockets/$INSTANCE_ID" 2>/dev/null || :
    unlock
    rmdir "$run_dir" 2>/dev/null || :
}

# Installs and builds what is missing.
prepare() {
    find_compose
    is_installed || setup_all
    for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
        if ! image_exists "$image"; then
            say "the image $image is not there yet: building it, which takes some minutes once"
            verb_build
            break
        fi
    done
}

verb_run() {
    isolated=
    while [ $# -gt 0 ]; do
        case $1 in
            --same-path) same_path=yes ;;
            --isolated) isolated=-isolated ;;
            --own-login) own_login=yes ;;
            -C | --project)
                [ $# -ge 2 ] || misused "$1 needs a directory"
                project_dir=$2
                shift
                ;;
            --)
                shift
                break
                ;;
            -*) misused "run has no option $1; what the agent is to get comes after --, and claude-container run --help says more" ;;
            *) break ;;
        esac
        shift
    done
    # Options alone are the agent's.
    case ${1:-} in -*) set -- "${CLIENT_COMMAND:-claude}" "$@" ;; esac
    # Before anything is built for it.
    find_project
    prepare >&2
    use_project
    interruptible
    lock
    trap 'status=$?; undisturbed; trap - EXIT; [ "$status" = 0 ] || leave; unlock; exit "$status"' EXIT
    give_settings
    born "$$" >"$run_dir/users/$$"
    start_server
    unlock
    status=0
    trap 'status=$?; undisturbed; trap - EXIT; lock; leave; unlock; exit "$status"' EXIT
    # The agent gets these itself; this stays to tidy up.
    trap : INT TERM HUP QUIT
    set -- --rm --no-deps --name "claude-${INSTANCE_ID}_run_$$" "claude$isolated" "$@"
    if ! [ -t 0 ] || ! [ -t 1 ]; then set -- -T "$@"; fi
    compose run "$@" || status=$?
    exit "$status"
}

verb_start() {
    while :; do
        case ${1:-} in
            --same-path) same_path=yes ;;
            --own-login) own_login=yes ;;
            *) break ;;
        esac
        shift
    done
    take_project "$@"
    find_project
    prepare
    use_project
    interruptible
    lock
    trap 'status=$?; undisturbed; trap - EXIT; [ "$status" = 0 ] || leave; unlock; exit "$status"' EXIT
    if is_running "$server" && is_running "$background"; then
        say "$INSTANCE_ID runs already"
        return 0
    fi
    give_settings
    start_server
    CLIENT_COMMAND='sleep infinity'
    export CLIENT_COMMAND
    if ! is_running "$background"; then
        "$engine" rm -f "$background" >/dev/null 2>&1 || :
        if ! quietly compose up -d --no-deps claude; then
            die "the agent's container could not be started: the engine's words are above"
        fi
    fi
    # It ends by itself if the server does not answer, or the project's setup fails.
    tries=0
    until "$engine" exec "$background" tool-client --health >/dev/null 2>&1; do
        tries=$((tries + 1))
        if ! is_running "$background" || [ "$tries" -ge 300 ]; then
            "$engine" logs --tail 5 "$background" >&2 2>&1 || :
            "$engine" rm -f "$background" >/dev/null 2>&1 || :
            die "the agent's container did not start: its last words are above"
        fi
        sleep 0.1
    done
    say "$INSTANCE_ID runs, for $PROJECT_DIR; next: claude-container exec ${AGENT:-claude}"
}

verb_stop() {
    case ${1:-} in
        --all)
            find_engine
            for INSTANCE_ID in $(instances); do stop_one; done
            return 0
            ;;
    esac
    take_project "$@"
    use_project
    stop_one
}

stop_one() {
    server="claude-$INSTANCE_ID-tools" background="claude-$INSTANCE_ID" run_dir=$CLAUDE_HOME/run/$INSTANCE_ID
    ran=$(containers all "name=^claude-$INSTANCE_ID(-tools|-isolated|_run_.*)?\$")
    lock
    take_down
    forget
    # Another directory of the same project is another instance.
    if [ -z "$ran" ]; then
        say "$INSTANCE_ID does not run; claude-container status --all says what does"
    else
        say "$INSTANCE_ID is stopped; its state is kept in $CLAUDE_HOME/state/$INSTANCE_ID"
    fi
}

# The ids of all instances that have run.
instances() {
    for state in "$CLAUDE_HOME/state"/*/; do
        [ -d "$state" ] || continue
        state=${state%/}
        printf '%s\n' "${state##*/}"
    done
}

# Takes an optional [-C] DIR, and nothing else.
take_project() {
    case ${1:-} in
        -C | --project) shift ;;
        -*) misused "no such option here: $1; see claude-container --help" ;;
    esac
    [ $# -le 1 ] || misused "one project at a time: $*"
    [ $# -eq 0 ] || project_dir=$1
}

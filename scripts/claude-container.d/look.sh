# shellcheck shell=sh
# A part of claude-container, read by it.
#
# status, logs, exec, and what the operator asks the server.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

verb_status() {
    case ${1:-} in
        --all)
            all_status
            return
            ;;
    esac
    take_project "$@"
    use_project
    say "instance: $INSTANCE_ID, for $PROJECT_DIR"
    if ! is_running "$server"; then
        say "tools' server: not running; claude-container run starts it"
        return 1
    fi
    clients=$(containers "name=^claude-$INSTANCE_ID(-isolated|_run_.*)?\$")
    say "agent's containers: $(printf '%s' "${clients:-none}" | tr '\n' ' ')"
    in_our_words "$engine" exec "$server" tool-server status
}

# in_our_words COMMAND...: with its status; where it says what to type, that is this command.
# Only lines of the server's own: none of a caller's begins like them.
in_our_words() {
    ended=0
    words=$("$@") || ended=$?
    # shellcheck disable=SC2016 # backquotes are meant
    [ -z "$words" ] || printf '%s\n' "$words" | sed \
        -e '/^  answer:     tool-server approve /s/tool-server /claude-container /g' \
        -e '/^answer: tool-server project /s/tool-server /claude-container /g' \
        -e '/^  [0-9]* \(calls wait\|approvals stand\)/s/`tool-server /`claude-container /' \
        -e '/^  project: /s/`tool-server project show`$/`claude-container project show`/'
    return "$ended"
}

# Each instance in a line; 1 if one is there and not well.
all_status() {
    find_engine
    well=0
    for INSTANCE_ID in $(instances); do
        server="claude-$INSTANCE_ID-tools"
        project=$(cat "$CLAUDE_HOME/state/$INSTANCE_ID/project" 2>/dev/null || printf '?')
        clients=$(containers "name=^claude-$INSTANCE_ID(-isolated|_run_.*)?\$" | wc -l | tr -d ' ')
        if is_running "$server"; then
            if "$engine" exec "$server" tool-server health >/dev/null 2>&1; then
                state=healthy
            else
                state='NOT HEALTHY: claude-container logs, then stop and start'
                well=1
            fi
        elif [ "$clients" -gt 0 ] || [ -n "$(containers all "name=^$server\$")" ]; then
            state='SERVER DIED: claude-container logs, then start'
            well=1
        else
            state=stopped
        fi
        printf '%-34s %-10s clients: %s  %s\n' "$INSTANCE_ID" "$state" "$clients" "$project"
    done
    return "$well"
}

verb_logs() {
    follow=
    case ${1:-} in
        -f | --follow)
            follow=-f
            shift
            ;;
    esac
    take_project "$@"
    use_project
    shown=no
    for name in $(containers all "name=^$background\$") $(containers all "name=^claude-${INSTANCE_ID}_run_") \
        $(containers all "name=^$server\$"); do
        # Following, the server's alone: it comes last.
        if [ -n "$follow" ] && [ "$name" != "$server" ]; then continue; fi
        say "== $name"
        # shellcheck disable=SC2086 # none, or one word
        "$engine" logs $follow "$name" 2>&1
        shown=yes
    done
    [ "$shown" = yes ] || die "$INSTANCE_ID does not run, and a stopped one has no log; what was called is in $CLAUDE_HOME/state/$INSTANCE_ID/server/audit"
}

verb_exec() {
    case ${1:-} in
        -C | --project)
            [ $# -ge 2 ] || misused "$1 needs a directory"
            project_dir=$2
            shift 2
            ;;
    esac
    if [ "${1:-}" = -- ]; then shift; fi
    case ${1:-} in -*) misused "exec has no option $1; see claude-container exec --help" ;; esac
    use_project
    client=$(client_container)
    [ -n "$client" ] || die "no agent's container of $INSTANCE_ID runs: claude-container run, or start"
    [ $# -gt 0 ] || set -- bash
    set -- "$client" "$@"
    if [ -t 0 ] && [ -t 1 ]; then set -- -t "$@"; fi
    exec "$engine" exec -i "$@"
}

# The one in the background, else the newest.
client_container() {
    containers "name=^claude-$INSTANCE_ID(-isolated|_run_.*)?\$" | sort | head -n 1
}

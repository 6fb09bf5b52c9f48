# shellcheck shell=sh
# A part of claude-container, read by it.
#
# tools, project: what the agent may call, and the project's own setup.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

verb_tools() {
    verb=${1:-list}
    [ $# -eq 0 ] || shift
    is_installed || die "nothing is installed in $CLAUDE_HOME: run: claude-container setup"
    TOOL_PACKAGES_FILE=$packages_file TOOL_CATALOG=$root/catalog
    export TOOL_PACKAGES_FILE TOOL_CATALOG
    case $verb in
        list | show) tool_server catalog "$verb" --tools-dir "$tools_d" "$@" ;;
        add | remove)
            find_engine
            # The servers that are to take it up.
            for INSTANCE_ID in $(instances); do
                if is_running "claude-$INSTANCE_ID-tools"; then
                    set -- "$@" --server "$CLAUDE_HOME/state/$INSTANCE_ID/server/control.sock"
                fi
            done
            tool_server catalog "$verb" --tools-dir "$tools_d" "$@"
            tool_server link "$CLAUDE_HOME/tools/bin" --tools-dir "$tools_d"
            ;;
        check) tools_check ;;
        *) misused "tools has no verb $verb: list, show, add, remove or check; see claude-container tools --help" ;;
    esac
}

# Where the programs are, if that image is there.
tools_check() {
    if (find_engine) >/dev/null 2>&1 && find_engine && image_exists "$SERVER_IMAGE"; then
        userns=host
        [ "$engine$rootless" != podmantrue ] || userns=keep-id
        "$engine" run --rm --network none --user "$(id -u):$(id -g)" --userns "$userns" --security-opt label=disable \
            -v "$CLAUDE_HOME/tools:/app/tools:ro" --entrypoint tool-server "$SERVER_IMAGE" check
    else
        tool_server check --tools-dir "$tools_d" --restricted-dir "$CLAUDE_HOME/tools/restricted" --require-rules
    fi
}

# What the tools' server is asked by its operator: approvals, explain and the like.
in_server() {
    asked_for=$1
    shift
    use_project
    is_running "$server" || die "$INSTANCE_ID does not run: claude-container start, then again"
    case $asked_for\ ${1:-} in
        approvals\ | project\ show)
            in_our_words "$engine" exec -i "$server" tool-server "$asked_for" "$@"
            return
            ;;
    esac
    set -- "$server" tool-server "$asked_for" "$@"
    if [ -t 0 ] && [ -t 1 ]; then set -- -t "$@"; fi
    exec "$engine" exec -i "$@"
}

verb_project() {
    [ $# -gt 0 ] || misused "project needs a verb: show, approve HASH, deny HASH, run; see claude-container project --help"
    in_server project "$@"
}

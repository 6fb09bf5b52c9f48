# shellcheck shell=sh
# A part of claude-container, read by it.
#
# The project that is meant, and what compose.yaml is given for it.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

project_dir=
same_path=

# Sets what compose.yaml is given, for the project that was named or that one stands in.
use_project() {
    find_compose
    asked=${project_dir:-$PWD}
    [ -d "$asked" ] || die "$asked is no directory: name the one that holds the project"
    asked=$(CDPATH='' cd -P "$asked" && pwd -P)
    is_installed || die "nothing is installed in $CLAUDE_HOME: run: claude-container setup"
    find_server
    set -- host environment --project "$asked" --home "$CLAUDE_HOME" --engine "$engine" \
        --rootless "$rootless" --caller "$(id -u):$(id -g)" --seccomp "$root/deploy/seccomp.json"
    # The image does not see the project.
    if [ -z "$server_bin" ]; then
        owner=$(stat -c %u:%g "$asked" 2>/dev/null || stat -f %u:%g "$asked")
        set -- "$@" --owner "$owner"
    fi
    [ "$systempaths" = true ] || set -- "$@" --no-systempaths
    path=${WORKSPACE_PATH:-/workspace}
    [ -z "$same_path" ] || path=same
    settings=$(tool_server "$@" --workspace-path "$path") || exit 1
    set -a
    eval "$settings"
    set +a
    server="claude-$INSTANCE_ID-tools"
    background="claude-$INSTANCE_ID"
    run_dir=$CLAUDE_HOME/run/$INSTANCE_ID
}

is_installed() { [ -x "$CLAUDE_HOME/tools/bin/tool-client" ] && [ -d "$tools_d" ]; }

# What is given to one of the two services alone, and what belongs to the start of one.
give_settings() {
    told=$(tool_server host layout --home "$CLAUDE_HOME" --instance "$INSTANCE_ID" --owner "$INSTANCE_OWNER") || exit 1
    give_secrets "$INSTANCE_OWNER"
    # The agent's own keys; compose hands them to the agent's container by name.
    while IFS= read -r line; do
        # shellcheck disable=SC2163 # NAME=VALUE
        case $line in *=*) export "$line" ;; esac
    done <"$CLAUDE_HOME/config/client.env"
    SERVER_CONFIG=
    if [ -f "$CLAUDE_HOME/config/server/server.toml" ]; then SERVER_CONFIG=/etc/tool-server/server.toml; fi
    CLIENT_SETUP=
    if [ -f "$PROJECT_DIR/.claude-container/config.json" ]; then
        CLIENT_SETUP=$(client_setup) || die "the project's .claude-container/config.json is not well: see the line above"
        case $CLIENT_SETUP in
            '' | "$WORKSPACE_PATH"/*) ;;
            "$PROJECT_DIR"/*) CLIENT_SETUP=$WORKSPACE_PATH/${CLIENT_SETUP#"$PROJECT_DIR"/} ;;
            *) CLIENT_SETUP=$WORKSPACE_PATH/$CLIENT_SETUP ;;
        esac
    fi
    export SERVER_CONFIG CLIENT_SETUP
}

client_setup() {
    if [ -n "$server_bin" ]; then
        "$server_bin" project setup-client "$PROJECT_DIR"
    else
        "$engine" run --rm --network none --security-opt label=disable -v "$PROJECT_DIR:$WORKSPACE_PATH:ro" \
            --entrypoint tool-server "$SERVER_IMAGE" project setup-client "$WORKSPACE_PATH"
    fi
}

give_secrets() {
    set -- host secrets --env "$CLAUDE_HOME/.env" --to "$CLAUDE_HOME/config/secrets" \
        --client "$CLAUDE_HOME/config/client.env" ${1:+--owner "$1"}
    told=$(tool_server "$@") || exit 1
}

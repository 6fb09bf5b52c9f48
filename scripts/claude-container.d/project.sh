# shellcheck shell=sh
# A part of claude-container, read by it.
#
# The project that is meant, and what compose.yaml is given for it.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

project_dir=
same_path=
own_login=

# Sets: asked, the project that was named or that one stands in; nothing is made for it.
find_project() {
    asked=${project_dir:-$PWD}
    [ -d "$asked" ] || die "$asked is no directory: name the one that holds the project"
    asked=$(CDPATH='' cd -P -- "$asked" && pwd -P) || die "$asked cannot be entered: name a project of yours"
    find_server
    apart_from_project
}

# Sets what compose.yaml is given for it.
use_project() {
    find_compose
    find_project
    is_installed || die "nothing is installed in $CLAUDE_HOME: run: claude-container setup"
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
    paths_in_project
    links_out_of_project
    server="claude-$INSTANCE_ID-tools"
    background="claude-$INSTANCE_ID"
    run_dir=$CLAUDE_HOME/run/$INSTANCE_ID
}

# Who writes to the project must not write what this machine runs: the agent's words would
# be the next command's.
apart_from_project() {
    for run in "$root" ${server_bin:+"$(here "$server_bin")"}; do
        case $run/ in
            "$asked"/*) die "$asked holds $run, which this machine runs, and the agent could change it: run it for the project's own directory, with a claude-container that lies elsewhere" ;;
        esac
    done
    case $asked/ in
        "$root"/*) die "$asked lies in $root, which this machine runs, and the agent could change it: a project has a directory of its own" ;;
    esac
}

# Where this shell looks for programs, and the agent could put some.
paths_in_project() {
    rest=$PATH:
    while [ -n "$rest" ]; do
        place=${rest%%:*} rest=${rest#*:}
        real=$(CDPATH='' cd -P "${place:-.}" 2>/dev/null && pwd -P) || continue
        case $real/ in
            "$asked"/*)
                add_note "your PATH has $real, where the agent can put programs that you then run: take it out (deactivate), and run the project's own programs in the agent's container"
                ;;
        esac
    done
}

# A linked worktree: git looks for its repository by the host's path.
links_out_of_project() {
    [ -f "$asked/.git" ] || return 0
    # What the file says is the agent's to write: it is not repeated.
    case $(head -c 4096 "$asked/.git" | head -n 1) in
        "gitdir: $asked/"*)
            [ "$WORKSPACE_PATH" = "$asked" ] || add_note "$asked/.git names its repository by the host's path: git finds it inside with --same-path"
            ;;
        'gitdir: /'*)
            add_note "$asked is a linked worktree, and its repository lies elsewhere: git finds none inside; run it for a directory that holds both (-C DIR --same-path)"
            ;;
    esac
}

add_note() { NOTES="${NOTES:+$NOTES; }$1"; }

is_installed() { [ -x "$CLAUDE_HOME/tools/bin/tool-client" ] && [ -d "$tools_d" ]; }

# What is given to one of the two services alone, and what belongs to the start of one.
give_settings() {
    find_http
    told=$(tool_server host layout --home "$CLAUDE_HOME" --instance "$INSTANCE_ID" --owner "$INSTANCE_OWNER") || exit 1
    give_secrets "$INSTANCE_OWNER"
    give_login
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

# Where the agent keeps its log-in and settings: for all projects, or once it was asked for,
# of this project's own from then on. Beneath nothing that an agent writes to.
give_login() {
    AGENT_LOGIN=config/claude
    own=state/$INSTANCE_ID/login
    if [ -n "$own_login" ] && [ ! -d "$CLAUDE_HOME/$own" ]; then
        [ -z "$(containers "name=^claude-$INSTANCE_ID(_run_.*)?\$")" ] ||
            die "$INSTANCE_ID runs with the log-in of all projects: claude-container stop, then again"
        mkdir -m 0700 "$CLAUDE_HOME/$own"
        if [ "$(id -u)" = 0 ]; then chown "$INSTANCE_OWNER" "$CLAUDE_HOME/$own"; fi
    fi
    if [ -d "$CLAUDE_HOME/$own" ]; then AGENT_LOGIN=$own; fi
    export AGENT_LOGIN
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

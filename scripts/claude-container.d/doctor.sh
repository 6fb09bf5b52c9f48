# shellcheck shell=sh
# A part of claude-container, read by it.
#
# What is missing, and what undermines the whole.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

bad=0
well() { printf 'ok    %s\n' "$*"; }
note() { printf 'note  %s\n' "$*"; }
wrong() {
    printf 'wrong %s\n' "$*"
    bad=1
}

verb_doctor() {
    take_project "$@"
    # Each in a shell of its own: what is missing ends that alone.
    if said=$( (find_compose) 2>&1); then
        find_compose
        how=
        [ "$rootless" = false ] || how=', rootless'
        well "engine: $engine $version$how, $compose"
        look_at_storage
        [ -z "$slow" ] || wrong "storage: $slow"
        doctor_images
    else
        wrong "engine: ${said#claude-container: }"
    fi
    [ "$(uname)" = Linux ] || note "this is not Linux: containers run in a virtual machine, which was not tried by us; definitions are looked at by polling"
    find_server
    if [ -n "$server_bin" ] || { [ -n "${engine:-}" ] && image_exists "$SERVER_IMAGE"; }; then
        tool_server host doctor --home "$CLAUDE_HOME" --caller "$(id -u):$(id -g)" || bad=1
        if is_installed; then doctor_tools; fi
    else
        wrong "no tool-server: neither on this machine nor as an image; nothing runs without it; run: claude-container setup"
    fi
    if [ -n "${compose:-}" ] && is_installed; then doctor_instance; fi
    if [ "$bad" = 0 ]; then say "nothing is wrong"; fi
    return "$bad"
}

doctor_images() {
    for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
        if ! image_exists "$image"; then
            wrong "image $image is missing: nothing runs without it; run: claude-container build"
            continue
        fi
        case $image in
            "$SERVER_IMAGE") set -- tool-server version ;;
            *) set -- tool-client --version ;;
        esac
        if made=$("$engine" run --rm --network none --entrypoint "$1" "$image" "$2" 2>&1); then
            well "image $image: $made"
        else
            wrong "image $image does not run: ${made##*
}; run: claude-container build"
        fi
    done
}

doctor_tools() {
    if said=$(tools_check 2>&1); then
        well "definitions: ${said##*
}"
    else
        printf '%s\n' "$said" | while IFS= read -r line; do
            case $line in error:*) wrong "definition: ${line#error: }; it is not in force as it is written; run: claude-container tools check" ;; esac
        done
        bad=1
    fi
}

doctor_instance() {
    if said=$( (use_project) 2>&1); then
        use_project
        [ -z "$NOTES" ] || note "$NOTES"
    else
        said=${said#claude-container: }
        # After setup one stands in one's home, and means no project.
        case $project_dir:$said in
            :*' holds '*) note "no project is looked at: $said" ;;
            *) wrong "project: $said" ;;
        esac
        return 0
    fi
    if ! is_running "$server"; then
        note "$INSTANCE_ID does not run: its containers are not looked at; claude-container start, and doctor again, says more"
        return 0
    fi
    if status=$("$engine" exec "$server" tool-server status --json 2>&1); then
        printf '%s' "$status" | tool_server host doctor --server || bad=1
    else
        wrong "the tools' server does not answer: no tool can be called; run: claude-container stop, then start"
    fi
    for client in $(containers "name=^claude-$INSTANCE_ID(-isolated|_run_.*)?\$"); do
        say "in $client:"
        # What comes from there the agent may have written: it is set apart, and is text.
        { found=$({ { "$engine" exec -i "$client" sh -s <"$root/client/doctor.sh" 2>&1 && echo 0 >&3 || echo 1 >&3; } |
            head -c 65536 | LC_ALL=C tr -c '\n -~' '?' |
            while IFS= read -r line || [ -n "$line" ]; do printf '  %s\n' "$line"; done >&4; } 3>&1); } 4>&1
        [ "$found" = 0 ] || bad=1
    done
}

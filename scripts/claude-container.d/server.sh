# shellcheck shell=sh
# A part of claude-container, read by it.
#
# Where a tool-server for the verbs of the host is: on this machine, or in the image.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

# Sets server_bin: a tool-server of this machine; empty: there is none.
find_server() {
    [ -z "${server_bin+known}" ] || return 0
    server_bin=${TOOL_SERVER_BIN:-}
    if [ -n "$server_bin" ]; then
        [ -x "$server_bin" ] || die "TOOL_SERVER_BIN is $server_bin, which is no program: set it to a tool-server, or unset it"
        return 0
    fi
    for place in "$root/target/release" "$here/../bin" "$here" "$here/../libexec" "$here/../libexec/tool-broker"; do
        if [ -x "$place/tool-server" ] && "$place/tool-server" version >/dev/null 2>&1; then
            server_bin=$place/tool-server
            return 0
        fi
    done
    server_bin=$(command -v tool-server || :)
}

# tool-server's verbs for the host: of this machine's program, or of the image's.
tool_server() {
    find_server
    if [ -n "$server_bin" ]; then
        "$server_bin" "$@"
        return
    fi
    find_engine
    image_exists "$SERVER_IMAGE" || die "no tool-server on this machine, and no image $SERVER_IMAGE: run: claude-container build"
    if [ "$rootless" = true ]; then user=0:0; else user=$(id -u):$(id -g); fi
    "$engine" run --rm -i --network none --user "$user" --security-opt label=disable \
        -v "$CLAUDE_HOME:$CLAUDE_HOME" -v "$root:$root:ro" \
        -e GITHUB_TOKEN -e GH_TOKEN -e NPM_TOKEN -e ANTHROPIC_API_KEY -e ANTHROPIC_AUTH_TOKEN \
        -e CLAUDE_CODE_OAUTH_TOKEN -e TOOL_PACKAGES_FILE -e TOOL_CATALOG \
        --entrypoint tool-server "$SERVER_IMAGE" "$@"
}

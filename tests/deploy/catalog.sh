# shellcheck shell=bash disable=SC2154
# Tools from the catalog, taken on the host into the definitions that both containers have.

# catalog WORDS...: the verb, as `claude-container tools` runs it.
catalog() {
    local verb=$1
    shift
    "$bin/tool-server" catalog "$verb" --catalog "$root/catalog" --tools-dir "$CLAUDE_HOME/tools/tools.d" "$@"
}

# taken WORDS...: the same for add and remove, with the servers to tell.
taken() {
    catalog "$@" --server "$CLAUDE_HOME/state/$INSTANCE_ID/server/control.sock" \
        --packages-file "$CLAUDE_HOME/config/packages"
}

a_tool_of_the_catalog_is_called_in_the_agents_container_without_a_restart() {
    instance catalog
    up
    expect 127 'not found' client 'python3 -c 1 2>&1'
    expect 0 'in force in the running server .*: python3 can be called' taken add python3
    # Its link is on the agent's PATH, and the agent's container has no python of its own.
    expect 0 '^42$' client 'python3 -c "print(6 * 7)"'
    expect 0 '^/run/sockets/bin/python3$' client 'command -v python3'
    expect 0 'gone from the running server' taken remove python3
    expect 127 'not found' client 'python3 -c 1 2>&1'
}

a_tool_whose_program_the_image_lacks_is_noted_for_the_next_build() {
    instance lacking
    up
    expect 0 'is not installed there' taken add shellcheck
    expect 0 '^shellcheck$' cat "$CLAUDE_HOME/config/packages"
    expect 127 'shellcheck' client 'shellcheck --version 2>&1'
    expect 0 'no longer in .*: shellcheck' taken remove shellcheck
    [[ ! -s $CLAUDE_HOME/config/packages ]] || fail "a package is left: $(cat "$CLAUDE_HOME/config/packages")"
}

cases \
    a_tool_of_the_catalog_is_called_in_the_agents_container_without_a_restart \
    a_tool_whose_program_the_image_lacks_is_noted_for_the_next_build

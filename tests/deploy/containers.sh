# shellcheck shell=bash disable=SC2154,SC2016,SC2317,SC2030,SC2031,SC2034
# The two containers of compose.yaml: what works in them, and what is not in the agent's.
# other_engines.sh runs most of it with other engines.

commit='git -c advice.detachedHead=false commit -q --allow-empty -m'

# Everyday work, up to a push to a host that wants a token.
a_day_of_git_works_and_the_push_has_the_token() {
    instance day
    forge
    up
    serve_forge
    expect 0 'Cloning into' client 'git clone https://github.com/ada/project 2>&1'
    expect 0 '' client 'cd project && printf "one\n" >a && git add a && git commit -q -m "First words"'
    expect 0 'Ada <ada@example.org>' client 'cd project && git log --format="%an <%ae>"'
    expect 0 'new branch' client 'cd project && git push origin HEAD:refs/heads/first 2>&1'
    expect 0 'First words' at_forge log --format=%s first
    # Without the token the host takes nothing. It is read anew for each call.
    printf 'wrong\n' >"$CLAUDE_HOME/config/secrets/github_token"
    expect 128 '' client 'cd project && git push origin HEAD:refs/heads/second 2>&1'
}

# Looked for where the agent could: environment, files, /proc, and what passes the socket.
the_token_is_in_the_tools_container_alone() {
    local sockets
    instance token
    forge
    up
    serve_forge
    sockets=$CLAUDE_HOME/sockets/$INSTANCE_ID
    python3 "$root/tests/deploy/help/relay.py" "$sockets/relay.sock" "$sockets/tool-$INSTANCE_ID.sock" "$work/said" &
    at_end+=("kill $!")
    eventually 10 test -S "$sockets/relay.sock"
    expect 0 'new branch' client "export TOOL_SOCKET=/run/sockets/relay.sock
        git clone https://github.com/ada/project 2>&1 && cd project && $commit one &&
        GIT_TRACE_CURL=1 git push origin HEAD:refs/heads/first 2>&1"
    if grep -qF "$token" <<<"$output"; then fail "the token is in what the tool printed"; fi
    # It was used, and it is there where the tools are.
    expect 0 'refs/heads/first' at_forge for-each-ref
    expect 0 "$token" in_server cat /run/secrets/github_token
    # What was said.
    grep -aq refs/heads/first "$work/said" || fail "the relay has not heard the call"
    if grep -aqF "$token" "$work/said"; then fail "the token went over the socket"; fi
    # What is in the agent's container, for its user and for root there. The token is in no
    # command line of those that look.
    for who in "$HOST_UID:$HOST_GID" 0:0; do
        printf '%s' "$token" | engine exec -i --user "$who" "claude-$INSTANCE_ID" bash -c '
            read -r token || true
            [[ -n $token ]] || exit 1
            for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
                said=$({ tr "\0" " " <"$file"; } 2>/dev/null) || continue
                [[ $said != *"$token"* ]] || echo "found: $file"
            done
            grep -raslF --exclude-dir=proc --exclude-dir=sys -f <(printf "%s" "$token") /
            ls /run/secrets /var/lib/tool-server /etc/tool-server 2>/dev/null
            echo looked' >"$work/found" 2>&1 || true
        [[ $(cat "$work/found") == looked ]] || fail "in the agent's container: $(cat "$work/found")"
    done
    # The same look finds what is there.
    expect 0 '/scratch/here' client "printf '%s' there >/scratch/here && grep -raslF -f <(printf there) /scratch"
    # Nor in what is on the host for it.
    if grep -raqF "$token" "$CLAUDE_HOME/state/$INSTANCE_ID" "$CLAUDE_HOME/tools" "$sockets" "$PROJECT_DIR"; then
        fail "the token is in a directory that the agent's container has"
    fi
}

what_is_refused_says_why_and_what_to_do() {
    instance refused
    up
    client "git init -q && $commit x && git remote add origin https://github.com/o/r"
    expect 126 'refused: .*rule push-force-protected.*instead: ' client 'git push --force origin main 2>&1'
}

# As an agent's program starts it, by the entry of docs/mcp.md; nothing was put there by hand.
in_the_agents_container_a_client_of_mcp_lists_and_calls_tools() {
    instance mcp
    up
    expect 0 '"stdout":"git version' client '
        coproc server { tool-server mcp; }
        ask() { printf "%s\n" "{\"jsonrpc\":\"2.0\",$1}" >&"${server[1]}"; }
        ask "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"a\",\"version\":\"1\"}}"
        ask "\"method\":\"notifications/initialized\""
        ask "\"id\":2,\"method\":\"tools/list\""
        ask "\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"git\",\"arguments\":{\"args\":[\"--version\"]}}"
        for answer in 1 2 3; do read -r line <&"${server[0]}" && printf "%s\n" "$line"; done'
    for tool in git read_file run_command; do
        grep -qF "\"name\":\"$tool\"" <<<"$output" || fail "$tool is not listed: $output"
    done
    # It is a way to the server, not another one.
    expect 1 'no server answers at /run/sockets/none.sock' client 'TOOL_SOCKET=/run/sockets/none.sock tool-server mcp 2>&1'
}

a_tool_that_is_added_while_they_run_is_on_the_agents_path() {
    local definitions
    instance added
    up
    definitions=$CLAUDE_HOME/tools/tools.d
    expect 127 'not found' client 'upper a-z A-Z'
    mkdir "$definitions/.upper"
    printf 'binary = "/usr/bin/tr"\ndefault = "allow"\n' >"$definitions/.upper/tool.toml"
    [[ $engine != rootless ]] || chown -R "$HOST_UID:$HOST_GID" "$definitions/.upper"
    mv "$definitions/.upper" "$definitions/upper"
    eventually 10 client 'command -v upper'
    expect 0 '^HELLO$' client 'echo hello | upper a-z A-Z'
    expect 0 '^/run/sockets/bin/upper$' client 'command -v upper'
    rm -r "$definitions/upper"
    eventually 40 client '! command -v upper'
}

# Two at once. A socket that an agent sees it could use, so it sees none but its own.
an_agent_reaches_no_other_instance() {
    local other
    instance one
    up
    other=$INSTANCE_ID
    client 'touch of-one'
    instance two
    up
    expect 0 '^tool-two' client 'cd /run/sockets && ls *.sock'
    expect 125 'no tool-server at' client "TOOL_SOCKET=/run/sockets/tool-$other.sock git status 2>&1"
    expect 0 "^/run/sockets/tool-$INSTANCE_ID.sock\$" client 'find / -xdev -type s 2>/dev/null; find /run/sockets /app /scratch /home /workspace -type s'
    if grep -q "$other" <<<"$output"; then fail "it sees the other's socket"; fi
    expect 0 '^none$' client 'ls /workspace; ls -d /run/sockets/../sockets/* | grep -v two | grep -v bin; echo none'
    [[ $output == none ]] || fail "it sees more than its own: $output"
    # By the network neither: nothing listens where the tools are.
    # (At 127.0.0.11 docker's resolver does, for the container itself.)
    expect 0 '^none$' in_server sh -c 'cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk "\$4 == \"0A\" && \$2 !~ /7F:/" ; echo none'
    [[ $output == none ]] || fail "something listens: $output"
    # And a call of the one is not in the other's workspace.
    use one
    expect 0 'of-one' client 'git init -q && git status --short'
}

has_ended() { [[ $(engine inspect --format '{{.State.Running}}' "$1") == false ]]; }

a_server_that_was_killed_serves_the_same_client_again() {
    local before
    instance killed
    up
    client 'git init -q'
    before=$(engine inspect --format '{{.Id}} {{.State.StartedAt}}' "claude-$INSTANCE_ID")
    engine kill -s KILL "claude-$INSTANCE_ID-tools"
    eventually 10 has_ended "claude-$INSTANCE_ID-tools"
    expect 125 'no tool-server listens' client 'git status 2>&1'
    eventually 20 engine start "claude-$INSTANCE_ID-tools"
    eventually 20 client 'git status'
    expect 0 '' client "$commit one && git log --oneline"
    [[ $(engine inspect --format '{{.Id}} {{.State.StartedAt}}' "claude-$INSTANCE_ID") == "$before" ]] ||
        fail "the client is another one"
    expect 0 'unclean restarts: 1' in_server tool-server status
}

# Of both containers, as the host sees them.
processes_of() {
    local one
    for one in /proc/[0-9]*/environ; do
        if { tr '\0' '\n' <"$one" | grep -qx "TOOL_SOCKET=.*$1.*"; } 2>/dev/null; then echo "$one"; fi
    done
}

stopping_leaves_nothing() {
    local left
    instance stopped
    up
    client 'git init -q; (setsid sleep 1000 &) ; true'
    [[ -n $(processes_of "$INSTANCE_ID") ]] || fail "the look for processes finds none of those that run"
    compose down >"$work/down.log" 2>&1 || fail "compose down: $(tail -n 1 "$work/down.log")"
    if engine ps -a --format '{{.Names}}' | grep "$INSTANCE_ID"; then fail "a container is left"; fi
    if engine network ls --format '{{.Name}}' | grep "$INSTANCE_ID"; then fail "a network is left"; fi
    if grep "$INSTANCE_ID" /proc/mounts; then fail "a mount is left"; fi
    left=$(processes_of "$INSTANCE_ID")
    [[ -z $left ]] || fail "a process is left: $left"
    expect 0 '^bin$' ls "$CLAUDE_HOME/sockets/$INSTANCE_ID"
    # What is to be kept is kept.
    expect 0 'audit.jsonl' ls "$CLAUDE_HOME/state/$INSTANCE_ID/server/audit"
}

# The workspace has the host's path, so that what git writes of absolute paths holds on
# both sides; TMPDIR is the same directory on both.
worktrees_and_messages_in_tmpdir_are_the_same_on_both_sides() {
    instance same
    export WORKSPACE_PATH=$PROJECT_DIR
    up
    client "git init -q main && cd main && $commit one && git worktree add -q ../linked -b topic"
    expect 0 'topic' client 'cd linked && git status --branch --short'
    expect 0 'topic' git -c safe.directory='*' -C "$PROJECT_DIR/linked" status --branch --short
    expect 0 '' client 'printf "From a file\n" >"$TMPDIR/msg" && cd linked && git commit -q --allow-empty -F "$TMPDIR/msg"'
    expect 0 'From a file' client 'cd main && git log --format=%s -n 1 topic'
    expect 0 '^/scratch' client 'f=$(mktemp) && echo "$f" && cd "$TMPDIR" && git hash-object "$f"'
}

what_is_not_theirs_they_cannot_write_and_no_power_is_left() {
    local side
    instance bare
    up
    for side in client in_server; do
        words=(bash -c)
        [[ $side == in_server ]] || words=()
        expect 0 'CapEff:.0{16}.*' "$side" "${words[@]}" 'tr "\n" " " </proc/1/status; tr "\n" " " </proc/self/status'
        grep -Eq 'CapBnd:.0{16}.*NoNewPrivs:.1 Seccomp:.2' <<<"$output" || fail "$side: $output"
        expect 0 '^nothing$' "$side" "${words[@]}" 'for place in / /usr /etc /app/tools /app/tools/bin /app/tools/tools.d /app/tools/tools.d/git; do
            touch "$place/mine" 2>/dev/null && echo "writes $place"; done; echo nothing'
        [[ $output == nothing ]] || fail "$side $output"
    done
    expect 0 '^nothing$' client 'touch /run/sockets/mine 2>/dev/null && echo writes; ls /run/secrets /var/lib/tool-server 2>/dev/null; echo nothing'
    [[ $output == nothing ]] || fail "client: $output"
    # A pids limit and a memory limit are there, where the engine can give them.
    if [[ $engine != rootless ]]; then
        expect 0 '^2048 4294967296$' engine inspect --format '{{.HostConfig.PidsLimit}} {{.HostConfig.Memory}}' "claude-$INSTANCE_ID"
    fi
}

# The first process is the server, and what is orphaned in its container does not pile up.
the_server_is_the_first_process_and_reaps() {
    instance first
    up
    expect 0 '^tool-server$' in_server cat /proc/1/comm
    in_server sh -c 'for i in 1 2 3 4 5; do (sleep 0.1 &); done'
    # Neither asleep nor a zombie.
    eventually 10 in_server sh -c '! grep -qs "^Name:.sleep" /proc/[0-9]*/status'
    expect 0 '' in_server tool-server health
}

# The default of 30 s is the same loop; here it is told to wait for one.
without_a_server_the_client_says_what_is_wrong() {
    mkdir "$work/sockets"
    expect 1 "^claude-container: the tools' server does not answer after 1 s: .*no tool-server at .*claude-container start" \
        engine run --rm --network none -e TOOL_WAIT=1 -v "$work/sockets:/run/sockets:ro" "$CLAUDE_IMAGE" true
    expect 1 'TOOL_WAIT must be a number' engine run --rm --network none -e TOOL_WAIT=soon "$CLAUDE_IMAGE" true
    expect 0 '30' grep -o 'TOOL_WAIT:-30' "$root/client/entrypoint.sh"
}

# The profile without a network: no way out at all, and the model by the tools' container,
# where the key is.
an_agent_without_a_network_asks_its_model_by_the_proxy() {
    local key=canary-of-the-model
    instance isolated
    (umask 077 && printf '%s\n' "$key" >"$CLAUDE_HOME/config/secrets/anthropic_api_key")
    sed 's|^credential = .*|&\nupstream = "http://127.0.0.1:8412"|' "$root/deploy/proxy.toml" >"$CLAUDE_HOME/config/server/proxy.toml"
    chown -R "$HOST_UID:$HOST_GID" "$CLAUDE_HOME/config"
    # The shipped definition, but for where the model is: here it is a server of the test's.
    sed -e 's|TOOL_REQUIRE_RULES: .*|&\n      TOOL_PROXY_SOCKET: /run/sockets/proxy.sock\n      TOOL_PROXY_DEFINITION: /etc/tool-server/proxy.toml|' \
        "$root/compose.yaml" >"$work/compose.yaml"
    compose_root=$work
    up --profile isolated tool-server claude-isolated
    cp "$root/tests/deploy/help/model.py" "$CLAUDE_HOME/state/$INSTANCE_ID/server/"
    engine exec -d "claude-$INSTANCE_ID-tools" sh -c 'exec python3 /var/lib/tool-server/model.py 8412 >/var/lib/tool-server/asked'
    eventually 20 in_server bash -c ': </dev/tcp/127.0.0.1/8412'
    isolated() { engine exec "claude-$INSTANCE_ID-isolated" bash -c "$1"; }
    # No interface but its own loopback.
    expect 0 '^lo$' isolated 'for i in /sys/class/net/*; do echo "${i##*/}"; done'
    [[ $output == lo ]] || fail "it has a network: $output"
    eventually 10 isolated ': </dev/tcp/127.0.0.1/8080'
    expect 0 'HTTP/1.1 200' isolated 'exec 3<>/dev/tcp/127.0.0.1/8080
        printf "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Api-Key: mine\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" >&3
        timeout 10 cat <&3'
    if grep -q "$key" <<<"$output"; then fail "the key came back"; fi
    expect 0 "^/v1/messages $key\$" cat "$CLAUDE_HOME/state/$INSTANCE_ID/server/asked"
    # Tools work as ever.
    expect 0 'On branch' isolated 'git init -q && git status'
    # With the key there, the server's own start finds the shipped definition.
    compose --profile isolated down >/dev/null 2>&1
    compose_root=$root
    up tool-server
    expect 0 '^proxy: api.anthropic.com with file:.run.secrets.anthropic_api_key' in_server tool-server status
}

logged() { engine logs "claude-$INSTANCE_ID" 2>&1 | grep "$1"; }

# setup.client: before the agent, in the workspace; where it fails the agent does not start.
the_projects_setup_runs_before_the_agent() {
    instance setup
    export CLIENT_SETUP=/workspace/setup.sh CLIENT_COMMAND='sleep infinity'
    printf '#!/bin/sh\nset -e\ngit init -q\necho made >made\n' >"$PROJECT_DIR/setup.sh"
    up
    eventually 10 client 'test -e made -a -d .git'
    compose down >/dev/null 2>&1
    printf '#!/bin/sh\nexit 3\n' >"$PROJECT_DIR/setup.sh"
    up
    eventually 10 logged "ended with status 3"
}

# Whoever owns the project; without a line in /etc/passwd ssh-keygen would not work.
a_user_without_a_name_gets_one() {
    local image
    for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
        local nameless=()
        [[ $engine == docker ]] || nameless=(--passwd=false)
        [[ $image == "$SERVER_IMAGE" ]] || { mkdir -p "$work/no-server"; nameless+=(-e TOOL_WAIT=0); }
        expect 0 '^(tools|agent)$' engine run --rm --network none --read-only --cap-drop all "${nameless[@]}" \
            --tmpfs /var/lib/extrausers:mode=1777,size=64k --tmpfs /tmp --user 4321:4321 \
            --entrypoint sh "$image" -c '
                sed "/^wait=/,\$d" /usr/local/bin/entrypoint | sed "/^exec/d" >/tmp/names && . /tmp/names && whoami'
    done
}

# Git asks ssh-keygen for signatures; a tool sees who it is.
tools_know_who_they_are() {
    instance name
    mkdir "$CLAUDE_HOME/tools/tools.d/whoami"
    printf 'binary = "/usr/bin/whoami"\ndefault = "allow"\n' >"$CLAUDE_HOME/tools/tools.d/whoami/tool.toml"
    export HOST_UID=${1:-4321} HOST_GID=${1:-4321}
    chown -R "$HOST_UID:$HOST_GID" "$CLAUDE_HOME/config" "$CLAUDE_HOME/sockets/$INSTANCE_ID" \
        "$CLAUDE_HOME/state/$INSTANCE_ID" "$PROJECT_DIR"
    up
    expect 0 '^[a-z0-9]+$' client 'command whoami'
    expect 0 '^[a-z0-9]+$' client 'whoami() { tool-client whoami; }; whoami'
}

# A project that belongs to root: no other user, no capability, and it works.
a_project_of_roots_is_worked_on_without_a_capability() {
    instance roots 0
    forge
    up
    serve_forge
    expect 0 'new branch' client "git clone https://github.com/ada/project 2>&1 && cd project && $commit one && git push origin HEAD:refs/heads/first 2>&1"
    expect 0 '^confinement: landlock' in_server tool-server status
    grep -q 'missing: namespaces: .*SETFCAP.*deploy/compose.root.yaml' <<<"$output" ||
        grep -q 'missing: namespaces: .*deploy/compose.root.yaml' <<<"$output" || fail "status does not say what lacks: $output"
    expect 0 'CapEff:.0{16}' in_server grep CapEff /proc/1/status
}

with_one_capability_roots_project_has_namespaces_too() {
    instance capable 0
    compose -f "$compose_root/deploy/compose.root.yaml" up -d >"$work/up.log" 2>&1 || fail "compose up: $(tail -n 1 "$work/up.log")"
    eventually 30 in_server tool-server health
    expect 0 '^confinement: namespaces' in_server tool-server status
    # The server's alone.
    client "git init -q && git config alias.caps '!grep CapEff /proc/self/status'"
    expect 0 'CapEff:.0{16}' client 'git caps'
}

tools_are_held_by_namespaces() {
    instance level
    up
    expect 0 '^confinement: namespaces, Landlock [0-9]+, seccomp' in_server tool-server status
    if grep 'missing: namespaces' <<<"$output"; then fail "something lacks"; fi
    if [[ $engine != docker ]] && grep 'missing: a /proc' <<<"$output"; then fail "/proc is masked"; fi
    # An option that is left out is named.
    compose down >/dev/null 2>&1
    export SERVER_PROC=no-new-privileges
    up
    expect 0 'missing: a /proc of its own.*SERVER_PROC' in_server tool-server status
}

cases \
    a_day_of_git_works_and_the_push_has_the_token \
    the_token_is_in_the_tools_container_alone \
    what_is_refused_says_why_and_what_to_do \
    in_the_agents_container_a_client_of_mcp_lists_and_calls_tools \
    a_tool_that_is_added_while_they_run_is_on_the_agents_path \
    an_agent_reaches_no_other_instance \
    a_server_that_was_killed_serves_the_same_client_again \
    stopping_leaves_nothing \
    worktrees_and_messages_in_tmpdir_are_the_same_on_both_sides \
    what_is_not_theirs_they_cannot_write_and_no_power_is_left \
    the_server_is_the_first_process_and_reaps \
    without_a_server_the_client_says_what_is_wrong \
    a_project_of_roots_is_worked_on_without_a_capability \
    tools_are_held_by_namespaces
long_cases \
    an_agent_without_a_network_asks_its_model_by_the_proxy \
    the_projects_setup_runs_before_the_agent \
    a_user_without_a_name_gets_one \
    tools_know_who_they_are \
    with_one_capability_roots_project_has_namespaces_too

# shellcheck shell=bash disable=SC2154,SC2164,SC2034,SC2016,SC2317
# claude-container, as a person uses it: a home of its own for each case, projects of any
# name, the images that are there.

# --- A person ------------------------------------------------------------------

# Sets up a home with a git identity; $home, and the command line as `cc`.
person() {
    home=$work/h
    mkdir -p "$home"
    HOME=$home git config --global user.name 'Ada L'
    HOME=$home git config --global user.email ada@example.org
    at_end+=('cc stop --all')
}

# As that person, without anything of the tests' own environment.
cc() {
    env -i HOME="$home" PATH="${path:-$PATH}" TERM=dumb TOOL_SERVER_BIN="$bin/tool-server" \
        SERVER_IMAGE="${SERVER_IMAGE}" CLAUDE_IMAGE="${CLAUDE_IMAGE}" \
        ${docker_socket:+DOCKER_HOST="unix://$docker_socket"} \
        CLAUDE_ENGINE="${cc_engine-podman}" ${more[@]+"${more[@]}"} \
        "${script:-$root/scripts/claude-container}" "$@" </dev/null
}
more=()

project() {
    mkdir -p "$1"
    git -C "$1" init -q
    cd "$1"
}

# Of the instance of the current directory.
id_here() { "$bin/tool-server" host instance .; }
claude_home() { printf '%s' "$home/.config/claude-container"; }

nothing_runs() {
    local id=$1
    [[ -z $(podman ps -a --filter "name=^claude-$id" --format '{{.Names}}') ]] || fail "containers of $id are left"
    [[ -z $(podman network ls --filter "name=claude-$id" --format '{{.Name}}') ]] || fail "networks of $id are left"
    [[ ! -e $(claude_home)/sockets/$id ]] || fail "sockets of $id are left"
    [[ ! -e $(claude_home)/run/$id ]] || fail "$(claude_home)/run/$id is left"
}

# --- Running -------------------------------------------------------------------

one_command_installs_and_runs_and_leaves_only_the_state() {
    person
    project "$work/it's \"odd\" \$HOME, ü"
    local id
    id=$(id_here)
    expect 7 'Ada L <ada@example.org>' cc run -- \
        sh -c 'pwd && git commit -q --allow-empty -m "First words" && git log "--format=%an <%ae>" && exit 7'
    grep -Fxq /workspace <<<"$output" || fail "the project is not at /workspace"
    expect 0 'First words' git log
    nothing_runs "$id"
    [[ -f $(claude_home)/state/$id/server/audit/audit.jsonl ]] || fail "the audit is gone"
    # What the agent sets is stronger than what was taken over.
    expect 0 '^Bea$' cc run -- sh -c 'git config user.name Bea && git commit -q --allow-empty -m x && git log -1 --format=%an'
}

# Without a network, and without the agent's own key: that is the tools' container's.
an_isolated_run_has_tools_and_neither_network_nor_key() {
    person
    project "$work/isolated"
    local id
    id=$(id_here)
    more=(ANTHROPIC_API_KEY=canary-of-the-agent)
    expect 0 'canary-of-the-agent' cc run -- env
    expect 0 '^lo$' cc run --isolated -- sh -c 'ls /sys/class/net; env; git status'
    grep -q 'No commits' <<<"$output" || fail "no tools: $output"
    ! grep -Eq '^(eth|tap)[0-9]|canary' <<<"$output" || fail "it has a network, or the key: $output"
    nothing_runs "$id"
}

a_second_run_uses_the_server_and_the_last_one_takes_it_down() {
    person
    project "$work/two"
    local id first
    id=$(id_here)
    cc run -- sh -c 'until [ -e done ]; do sleep 0.1; done; git status' >"$work/first" 2>&1 &
    first=$!
    eventually 40 podman exec "claude-$id-tools" tool-server health
    expect 0 'No commits' cc run -- git status
    podman exec "claude-$id-tools" tool-server health || fail "the second took the server from the first"
    touch ./done
    wait "$first" || fail "the first failed: $(cat "$work/first")"
    grep -q 'No commits' "$work/first" || fail "the first had no tools: $(cat "$work/first")"
    nothing_runs "$id"
}

five_runs_that_begin_and_end_at_any_time_share_one_server() {
    person
    project "$work/five"
    local id number runs=()
    id=$(id_here)
    for number in 1 2 3 4 5; do
        cc run -- git status >"$work/run.$number" 2>&1 &
        runs+=($!)
        sleep 0.7
    done
    for number in 1 2 3 4 5; do
        wait "${runs[number - 1]}" || fail "run $number failed: $(cat "$work/run.$number")"
        grep -q 'No commits' "$work/run.$number" || fail "run $number had no tools: $(cat "$work/run.$number")"
    done
    nothing_runs "$id"
}

start_runs_both_and_stop_leaves_nothing_but_the_state() {
    person
    project "$work/started"
    local id
    id=$(id_here)
    expect 0 "$id runs, for " cc start
    expect 0 "$id runs already" cc start
    expect 0 'No commits' cc exec git status
    expect 3 '' cc exec -- sh -c 'exit 3'
    expect 0 'confinement: ' cc status
    expect 0 '^ask push-force ' cc explain git push --force origin main
    expect 0 '' cc approvals
    expect 0 'git status' cc audit
    script=$root/scripts/check-instances.sh expect 0 "^$id +healthy +clients: 1 +$work/started" cc
    expect 0 "== claude-$id-tools" cc logs
    # A run beside it does not take it down.
    expect 0 'No commits' cc run -- git status
    expect 0 'No commits' cc exec git status
    expect 0 "$id is stopped" cc stop
    nothing_runs "$id"
    [[ -d $(claude_home)/state/$id/server/audit ]] || fail "the state is gone"
    expect 0 "$id does not run; claude-container status --all" cc stop
    [[ $output != *'is stopped'* ]] || fail "it says both: $output"
    expect 1 'no agent.s container of .* runs: claude-container run' cc exec git status
    expect 1 'has no log' cc logs
    expect 1 'not running; claude-container run starts it' cc status
}

# What one is told to type can be typed.
what_waits_is_answered_by_the_words_that_are_shown() {
    person
    project "$work/held"
    local answer held
    expect 0 'runs, for' cc start
    expect 0 '' cc exec sh -c 'git commit -q --allow-empty -m x && git branch other'
    cc exec git update-ref -d refs/heads/other >"$work/said" 2>&1 &
    held=$!
    eventually 20 sh -c "podman exec claude-$(id_here)-tools tool-server approvals | grep -q lose-refs"
    expect 0 '^  1 calls wait for an answer: see `claude-container approvals`' cc status
    expect 0 '^  answer: +claude-container approve' cc approvals
    answer=$(sed -n 's/^  answer: .*, or claude-container deny \([a-z]*\) .*/\1/p' <<<"$output")
    expect 0 '' cc deny "$answer" --reason 'not today'
    ! wait "$held" || fail "it was done"
    grep -q 'not today' "$work/said" || fail "no reason: $(cat "$work/said")"
    mkdir .claude-container
    printf '{"setup": {"server": "s.sh"}}' >.claude-container/config.json
    printf 'answer: tool-server project approve 1\n' >s.sh
    expect 0 '^answer: claude-container project approve [0-9a-f]{12}, or claude-container project deny' cc project show
    # The script is shown as it is.
    grep -q '| answer: tool-server project approve 1' <<<"$output" || fail "shown otherwise: $output"
    expect 0 'see `claude-container project show`' cc status
}

check_instances_fails_for_one_that_died() {
    person
    project "$work/died"
    local id
    id=$(id_here)
    expect 0 'runs, for' cc start
    podman kill "claude-$id-tools" >/dev/null
    script=$root/scripts/check-instances.sh expect 1 "$id +SERVER DIED" cc
    # Started again, under the agent that works.
    local agent
    agent=$(podman inspect --format '{{.Id}} {{.State.StartedAt}}' "claude-$id")
    expect 0 'runs, for' cc start
    expect 0 '' cc exec git status
    [[ $(podman inspect --format '{{.Id}} {{.State.StartedAt}}' "claude-$id") == "$agent" ]] || fail "the agent is another one"
    podman kill "claude-$id-tools" >/dev/null
    expect 0 'No commits' cc run -- git status
    expect 0 'No commits' cc exec git status
    [[ $(podman inspect --format '{{.Id}} {{.State.StartedAt}}' "claude-$id") == "$agent" ]] || fail "the agent is another one"
    podman kill "claude-$id-tools" >/dev/null
    script=$root/scripts/run.sh expect 0 'runs, for' cc restart
    script=$root/scripts/check-instances.sh expect 0 "$id +healthy" cc
    script=$root/scripts/run.sh expect 0 'is stopped' cc stop
}

several_projects_run_at_once_and_see_nothing_of_each_other() {
    person
    local one two
    project "$work/a/app"
    one=$(id_here)
    expect 0 'runs, for' cc start
    project "$work/b/app"
    two=$(id_here)
    [[ $one != "$two" ]] || fail "both are $one"
    expect 0 'runs, for' cc start
    expect 0 "^tool-$two.sock$" cc exec ls /run/sockets
    ! grep -q "tool-$one" <<<"$output" || fail "the socket of $one is visible"
    expect 0 'is stopped' cc stop "$work/a/app"
    expect 0 'No commits' cc exec git status
    expect 0 'stopped' cc stop --all
    # start takes --same-path as run does: here the host's path is one that containers have.
    expect 1 'cannot be the workspace.s path: the containers have /tmp for themselves' cc start --same-path
    nothing_runs "$one"
    nothing_runs "$two"
}

# What an agent leaves in ~/.claude, the next one of another project obeys: unless it has
# its own.
a_log_in_of_its_own_is_not_shared_and_stays_so() {
    person
    project "$work/shares"
    expect 0 '' cc run -- sh -c 'echo shared >~/.claude/settings.json'
    project "$work/alone"
    expect 0 '^shared$' cc run -- cat '/home/agent/.claude/settings.json'
    expect 0 '^nothing$' cc run --own-login -- sh -c 'ls -A ~/.claude; echo own >~/.claude/settings.json; echo nothing'
    [[ $output != *settings* ]] || fail "it sees the others' settings: $output"
    # Without a word, from then on.
    expect 0 '^own$' cc run -- cat '/home/agent/.claude/settings.json'
    expect 0 'runs, for' cc start
    expect 0 '^own$' cc exec cat '/home/agent/.claude/settings.json'
    cd "$work/shares"
    expect 0 '^shared$' cc run -- cat '/home/agent/.claude/settings.json'
    expect 0 'runs, for' cc start
    expect 1 'runs with the log-in of all projects: claude-container stop' cc run --own-login -- true
    expect 0 '^shared$' cc exec cat '/home/agent/.claude/settings.json'
}

# --- Keys ------------------------------------------------------------------------

# Whether a text is anywhere in a container: environment of every process, files.
has() {
    podman exec "$1" sh -c 'cat /proc/*/environ 2>/dev/null | tr "\0" "\n" | grep -q "$1" ||
        grep -rqs "$1" /run /home /tmp /scratch /etc /var/lib /workspace' sh "$2"
}

the_env_file_is_split_by_service() {
    person
    project "$work/keys"
    local id name
    id=$(id_here)
    cc install >/dev/null
    [[ $(stat -c %a "$(claude_home)/.env") == 600 ]] || fail ".env is not 0600"
    printf '%s\n' 'GITHUB_TOKEN=canary-g' "NPM_TOKEN='canary-n'" 'ANTHROPIC_API_KEY=canary-a' 'OTHER_KEY=canary-o' \
        >"$(claude_home)/.env"
    more=(CLAUDE_CODE_OAUTH_TOKEN=canary-c)
    expect 0 'runs, for' cc start
    more=()
    for name in g n o; do
        has "claude-$id-tools" "canary-$name" || fail "canary-$name is not in the tools' container"
        ! has "claude-$id" "canary-$name" || fail "canary-$name is in the agent's container"
    done
    for name in a c; do
        has "claude-$id" "canary-$name" || fail "canary-$name is not in the agent's container"
        ! has "claude-$id-tools" "canary-$name" || fail "canary-$name is in the tools' container"
    done
    expect 0 '^canary-g$' podman exec "claude-$id-tools" cat /run/secrets/github_token
    # A key that goes from the file goes from the container.
    printf 'NPM_TOKEN=canary-n\n' >"$(claude_home)/.env"
    cc stop >/dev/null
    expect 0 'github_token removed' cc install
    # A wrong line is named, and no value is shown.
    printf 'canary-x\n' >"$(claude_home)/.env"
    expect 1 '\.env:1: not NAME=VALUE' cc start
    ! grep -q canary-x <<<"$output" || fail "the value is shown"
    nothing_runs "$id"
}

# --- What goes wrong -----------------------------------------------------------

a_failed_step_says_what_to_do_and_leaves_nothing_half_done() {
    person
    project "$work/fails"
    local id
    id=$(id_here)
    expect 1 '/nowhere is no directory' cc run -C /nowhere
    [[ ! -e $(claude_home) ]] || fail "something was installed for a project that is not there"
    expect 2 'run has no option --wrong' cc run --wrong
    expect 2 'no such verb: bogus' cc bogus
    # The server does not start: its words, and nothing is left.
    cc install >/dev/null
    printf 'nonsense = 1\n' >"$(claude_home)/config/server/server.toml"
    expect 1 'did not start: its last words are above' cc run -- true
    grep -q nonsense <<<"$output" || fail "the server's words are not shown: $output"
    nothing_runs "$id"
    rm "$(claude_home)/config/server/server.toml"
    # Its image cannot be started.
    more=(BASE=localhost/cli-no-base:none)
    SERVER_IMAGE=localhost/cli-none:none expect 1 'cli-none:none was not built .*claude-container build again' cc run -- true
    nothing_runs "$id"
    # The agent's container ends at once.
    more=(CLIENT_COMMAND=false)
    expect 1 '' cc run
    more=()
    nothing_runs "$id"
    # The home, and what holds it, is no project.
    cd "$home"
    expect 1 'which the agent must not reach' cc run -- true
    cd "$(claude_home)/config"
    expect 1 'has a directory of its own' cc run -- true
}

# Ctrl-C while containers start, as a terminal sends it: to everything that it started.
an_interrupted_start_leaves_nothing() {
    person
    project "$work/interrupted"
    local id signal job
    id=$(id_here)
    cc install >/dev/null
    for signal in INT TERM; do
        set -m
        cc run -- sleep 100 >"$work/interrupted.log" 2>&1 &
        job=$!
        set +m
        eventually 40 podman container exists "claude-$id-tools"
        kill -s "$signal" -- "-$job"
        ! wait "$job" || fail "it went on after $signal"
        eventually 30 nothing_of_it_runs "$id"
        nothing_runs "$id"
    done
}
nothing_of_it_runs() {
    [[ ! -e $(claude_home)/run/$1 && -z $(podman ps -a --filter "name=^claude-$1" --format '{{.Names}}') ]]
}

# A crash leaves files that name processes; by then others have these numbers.
numbers_that_were_given_again_hold_nothing() {
    person
    project "$work/numbers"
    local id run began=$SECONDS
    id=$(id_here)
    cc install >/dev/null
    run=$(claude_home)/run/$id
    mkdir -p "$run/lock" "$run/users"
    printf '%s\n' $$ >"$run/lock/pid"
    printf '1\n' | tee "$run/lock/born" >"$run/users/$$"
    expect 0 'No commits' cc run -- git status
    nothing_runs "$id"
    # Somebody who lives is waited for, and named.
    mkdir -p "$run/lock"
    bash -c 'read -r line </proc/$$/stat; words=(${line##*) }); echo "${words[19]}" >"$1/born"; echo $$ >"$1/pid"; sleep 7; rm -r "$1"' \
        holder "$run/lock" &
    eventually 5 test -s "$run/lock/pid"
    expect 0 'waits for another claude-container \(process [0-9]+\)' cc run -- true
    nothing_runs "$id"
}

# Otherwise the agent would write what the next command runs.
what_this_machine_runs_is_no_project() {
    person
    mkdir -p "$work/src/copy/below" "$work/programs"
    cp -r "$root/scripts" "$root/compose.yaml" "$root/deploy" "$root/tools.d" "$work/src/copy/"
    cp "$bin/tool-server" "$bin/tool-client" "$work/programs/"
    local script=$work/src/copy/scripts/claude-container verb
    for verb in run start; do
        cd "$work/src/copy"
        expect 1 "^claude-container: $work/src/copy holds $work/src/copy, which this machine runs" cc "$verb"
        cd "$work/src"
        expect 1 "$work/src holds $work/src/copy" cc "$verb"
        cd "$work/src/copy/below"
        expect 1 "lies in $work/src/copy, which this machine runs" cc "$verb"
        ln -sfn "$work/src/copy" "$work/by-another-name"
        cd "$work/by-another-name"
        expect 1 "$work/src/copy holds" cc "$verb"
        cd "$work/programs"
        more=(TOOL_SERVER_BIN="$work/programs/tool-server")
        expect 1 "$work/programs holds $work/programs, which this machine runs" cc "$verb"
        more=()
    done
    [[ ! -e $(claude_home) ]] || fail "something was installed for it"
}

what_is_odd_about_a_project_is_said_at_the_start() {
    home=$work/h
    mkdir -p "$home" "$work/p/.venv/bin"
    cd "$work/p"
    export RECORD=$work/record
    local path cc_engine='' more=(RECORD="$work/record")
    fake_engines podman podman-compose
    path=$work/p/.venv/bin:$fakes
    expect 1 "note: .*your PATH has $work/p/.venv/bin, where the agent can put programs" cc start
    path=$fakes
    expect 1 'words are above' cc start
    [[ $output != *'your PATH has'* ]] || fail "named without a reason: $output"
    # A linked worktree, alone and with its repository.
    git init -q "$work/p/main"
    git -C "$work/p/main" -c user.name=a -c user.email=a commit -q --allow-empty -m x
    git -C "$work/p/main" worktree add -q "$work/linked"
    cd "$work/linked"
    expect 1 'is a linked worktree, and its repository lies elsewhere: .*-C DIR --same-path' cc start
    printf 'gitdir: %s\n' "$work/p/main/../main/.git" >"$work/p/.git"
    cd "$work/p"
    expect 1 "$work/p/.git names its repository by the host's path: .*--same-path" cc start
    rm .git
    expect 1 'words are above' cc start
    [[ $output != *gitdir* && $output != *same-path* ]] || fail "named without a reason: $output"
}

a_build_that_fails_leaves_the_older_image() {
    person
    mkdir "$work/project"
    cd "$work/project"
    local before
    before=$(podman image inspect --format '{{.Id}}' "$SERVER_IMAGE")
    more=(BASE=localhost/cli-no-base:none)
    expect 1 'was not built .*an older one is as it was' cc build
    [[ $(podman image inspect --format '{{.Id}}' "$SERVER_IMAGE") == "$before" ]] || fail "the image is another"
}

the_project_of_another_user_is_run_as_him() {
    person
    project "$work/theirs"
    chown -R 4321:4321 .
    expect 0 'belongs to uid 4321, you are root: the containers run as 4321:4321' cc run -- \
        sh -c 'touch new && git commit -q --allow-empty -m x && git log --format=%an'
    grep -Fxq 'Ada L' <<<"$output" || fail "no commit: $output"
    [[ $(stat -c %u new .git/HEAD .git/logs/HEAD | sort -u) == 4321 ]] || fail "not all is his: $(ls -ln . .git)"
    # And an ordinary user is told why he cannot.
    chmod 755 "$work" "$home"
    chmod -R go+rX "$home/.config"
    expect 1 'belongs to uid 4321, you are 1234' setpriv --reuid 1234 --regid 1234 --clear-groups \
        "$bin/tool-server" host environment --project . --home "$(claude_home)" --engine podman --caller 1234:1234
}

# --- Without a program of this machine -------------------------------------------

a_tool_is_added_and_taken_out_by_its_name() {
    person
    project "$work/tool"
    expect 0 'runs, for' cc start
    mkdir "$work/words"
    printf 'binary = "/usr/bin/wc"\ndefault = "allow"\n' >"$work/words/tool.toml"
    expect 0 '' cc tools add words --path "$work/words" --yes
    [[ $(readlink "$(claude_home)/tools/bin/words") == tool-client ]] || fail "no link"
    printf 'a b\n' >text
    eventually 5 cc exec words -w text
    expect 0 '^2 text' cc exec words -w text
    expect 0 'words' cc tools list
    expect 0 ' 0 errors' cc tools check
    # Its program is not there: it says what to do, and the next build has it.
    expect 0 'claude-container build' cc tools add jq
    grep -Fxq jq "$(claude_home)/config/packages" || fail "the package is not noted"
    expect 0 'removed' cc tools remove words jq
    [[ ! -e $(claude_home)/tools/bin/words ]] || fail "the link is left"
    ! grep -Fxq jq "$(claude_home)/config/packages" || fail "the package is still noted"
}

the_projects_own_setup_runs_in_the_agents_container() {
    person
    project "$work/hooked"
    mkdir .claude-container
    printf '{"setup":{"client":".claude-container/it.sh"}}\n' >.claude-container/config.json
    printf 'touch prepared\n' >.claude-container/it.sh
    expect 0 '^prepared$' cc run -- ls
    printf '{"setup":{"client":"../elsewhere.sh"}}\n' >.claude-container/config.json
    expect 1 'config.json is not well' cc run -- ls
    nothing_runs "$(id_here)"
}

everything_comes_from_the_images_where_nothing_is_built() {
    person
    mkdir "$work/copy"
    cp -r "$root/scripts" "$root/compose.yaml" "$root/deploy" "$root/tools.d" "$work/copy/"
    project "$work/bare"
    local id
    id=$(id_here)
    expect 0 "$id runs, for" env -i HOME="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin:"$(dirname "$(command -v podman-compose)")" \
        SERVER_IMAGE="$SERVER_IMAGE" CLAUDE_IMAGE="$CLAUDE_IMAGE" "$work/copy/scripts/claude-container" start
    cmp "$(claude_home)/tools/bin/tool-client" "$bin/tool-client" || fail "another tool-client"
    expect 0 'No commits' cc exec git status
}

uninstall_names_what_it_removes_and_keeps_the_state() {
    person
    project "$work/gone"
    local id
    id=$(id_here)
    podman tag "$SERVER_IMAGE" localhost/cli-gone-server:1
    podman tag "$CLAUDE_IMAGE" localhost/cli-gone-client:1
    local SERVER_IMAGE=localhost/cli-gone-server:1 CLAUDE_IMAGE=localhost/cli-gone-client:1
    # What builds left without a name goes, and no other's.
    local ours theirs
    ours=$(printf 'FROM %s\nLABEL tool-broker.image=%s\n' "$BASE_IMAGE" "$SERVER_IMAGE" | podman build -q -f - "$work/gone")
    theirs=$(printf 'FROM %s\nLABEL tool-broker.image=cli-gone-other\n' "$BASE_IMAGE" | podman build -q -f - "$work/gone")
    at_end+=("podman rmi $theirs >/dev/null")
    expect 0 'runs, for' cc start
    [[ -L $home/.local/bin/claude-container ]] || fail "no command in ~/.local/bin"
    expect 1 'nobody is there to ask' cc uninstall
    expect 0 'and keeps .*state, config, .env' cc uninstall --yes
    nothing_runs "$id"
    ! podman image exists "$SERVER_IMAGE" || fail "the image is left"
    ! podman image exists "$ours" || fail "an image of a build is left"
    podman image exists "$theirs" || fail "another's image is gone"
    [[ ! -e $(claude_home)/tools && ! -e $home/.local/bin/claude-container ]] || fail "tools or command are left"
    [[ -e $(claude_home)/.env && -e $(claude_home)/state/$id ]] || fail "the state is gone"
    cc install >/dev/null
    expect 0 'uninstalled' cc uninstall --purge --yes
    [[ ! -e $(claude_home) ]] || fail "left: $(find "$(claude_home)")"
}

# As somebody who is not root: Go's modules are closed to their owner, and an agent may close
# what it likes.
purge_removes_the_keys_whatever_the_agent_closed() {
    home=$work/h
    mkdir -p "$home"
    cp -r "$root/scripts" "$root/compose.yaml" "$root/deploy" "$root/tools.d" "$bin/tool-server" "$bin/tool-client" "$home/"
    local fakes path more cc_engine=podman
    fake_engines podman
    touch "$work/record" "$work/record.env"
    chown -R 1234:1234 "$home" "$work/record" "$work/record.env"
    theirs() {
        setpriv --reuid 1234 --regid 1234 --clear-groups env -i HOME="$home" PATH="$fakes" RECORD="$work/record" \
            TOOL_SERVER_BIN="$home/tool-server" CLAUDE_ENGINE=podman "$home/scripts/claude-container" "$@" </dev/null
    }
    cd "$home"
    expect 0 'installed in' theirs install
    mkdir -p "$(claude_home)/state/x-1/agent/go/pkg"
    touch "$(claude_home)/state/x-1/agent/go/pkg/mod"
    printf 'GITHUB_TOKEN=canary\n' >"$(claude_home)/.env"
    chown -R 1234:1234 "$(claude_home)"
    expect 0 'installed in' theirs install
    chmod 555 "$(claude_home)/state/x-1/agent/go/pkg"
    chmod 0 "$(claude_home)/state/x-1/agent"
    # In two steps, as one who thinks of it later.
    expect 0 'uninstalled' theirs uninstall --yes
    [[ -s $(claude_home)/.env && -s $(claude_home)/config/secrets/github_token ]] || fail "the keys are gone already"
    expect 0 'uninstalled' theirs uninstall --purge --yes
    [[ ! -e $(claude_home) ]] || fail "left: $(find "$(claude_home)")"
    expect 1 'nothing is installed in .*, and nothing was kept there' theirs uninstall --purge --yes
}

# A release is unpacked beside the older one, which may be gone.
install_makes_the_command_that_of_this_release() {
    person
    local link=$home/.local/bin/claude-container
    mkdir -p "${link%/*}"
    ln -s /gone/tool-broker-0.0/scripts/claude-container "$link"
    expect 0 "made $link" cc install
    [[ $(readlink "$link") == "$root/scripts/claude-container" ]] || fail "leads to $(readlink "$link")"
    expect 0 'installed in' cc install
    [[ $output != *"$link"* ]] || fail "a second time says more: $output"
    # What is somebody else's stays.
    ln -sfn /bin/true "$link"
    expect 0 "note: $link is not this one" cc install
    [[ $(readlink "$link") == /bin/true ]] || fail "it was replaced"
}

# --- Engines, recorded -------------------------------------------------------------

# A directory with engines that write down what they are called with.
fake_engines() {
    local name
    fakes=$work/fakes
    mkdir -p "$fakes"
    for name in sh env dirname readlink cat id uname git mkdir rm rmdir mv cp chmod cmp ln stat tr sort head sleep date wc; do
        ln -sf "$(command -v "$name")" "$fakes/$name"
    done
    for name in "$@"; do
        cat >"$fakes/$name" <<'FAKE'
#!/bin/sh
printf '%s %s\n' "${0##*/}" "$*" >>"$RECORD"
printf '%s=%s\n' USERNS_MODE "${USERNS_MODE:-}" SERVER_PROC "${SERVER_PROC:-}" SERVER_SECCOMP "${SERVER_SECCOMP:-}" HOST_UID "${HOST_UID:-}" >"$RECORD.env"
case "${0##*/} $*" in
    "docker compose version") [ -n "${COMPOSE_V2:-}" ] || exit 1 ;;
    "docker-compose version"*) echo 1.29.2 ;;
    "podman-compose version"*) echo "podman-compose version  ${PODMAN_COMPOSE:-1.6.0}" ;;
    "podman info"*) echo "${DRIVER:-overlay}" ;;
    "docker info"*) echo "20.10.24 name=seccomp ${DOCKER_SAYS:-}" ;;
    *" up "*) mkdir -p "$CLAUDE_HOME/sockets/$INSTANCE_ID"; exit 3 ;;
esac
FAKE
        chmod +x "$fakes/$name"
    done
}

each_engine_is_found_and_given_its_own_options() {
    home=$work/h
    mkdir -p "$home" "$work/p"
    cd "$work/p"
    export RECORD=$work/record
    local path cc_engine=''
    more=(RECORD="$RECORD")
    fake_engines
    path=$fakes
    expect 1 'neither podman nor docker is installed: install podman' cc start
    fake_engines podman
    expect 1 'podman-compose is not installed: install 1.2 or later' cc start
    fake_engines podman podman-compose docker
    more=(RECORD="$RECORD" PODMAN_COMPOSE=1.0.3)
    expect 1 'podman-compose is too old: install 1.2 or later' cc start
    more=(RECORD="$RECORD")
    expect 1 'the engine.s words are above' cc start
    # Nothing of the project's or the checkout's environment files is read.
    grep -q "^podman-compose -f $root/compose.yaml -f $root/deploy/compose.root.yaml -p claude-$(id_here) --env-file $root/deploy/none.env up -d tool-server" "$RECORD" ||
        fail "called otherwise: $(cat "$RECORD")"
    grep -Fxq 'SERVER_PROC=unmask=/proc/*' "$RECORD.env" || fail "$(cat "$RECORD.env")"
    grep -Fxq "SERVER_SECCOMP=$root/deploy/seccomp.json" "$RECORD.env" || fail "$(cat "$RECORD.env")"
    cc_engine=docker
    expect 1 'docker has no compose: install' cc start
    more=(RECORD="$RECORD" COMPOSE_V2=1)
    expect 1 'the engine.s words are above' cc start
    grep -q '^docker compose -f ' "$RECORD" || fail "called otherwise: $(cat "$RECORD")"
    grep -Fxq 'SERVER_PROC=systempaths=unconfined' "$RECORD.env" || fail "$(cat "$RECORD.env")"
    fake_engines docker docker-compose
    more=(RECORD="$RECORD")
    expect 1 'the engine.s words are above' cc start
    grep -q '^docker-compose -f ' "$RECORD" || fail "called otherwise: $(cat "$RECORD")"
    grep -Fxq 'SERVER_PROC=no-new-privileges' "$RECORD.env" || fail "$(cat "$RECORD.env")"
    cc_engine=lxc expect 1 'CLAUDE_ENGINE is podman or docker, not: lxc' cc start
    rm "$fakes/docker"
    expect 1 'CLAUDE_ENGINE is docker, which is not installed' cc start
}

http_is_opened_to_whom_a_person_names_and_to_nobody_else() {
    home=$work/h
    mkdir -p "$home" "$work/p"
    cd "$work/p"
    export RECORD=$work/record
    local path tokens more
    tokens=$(claude_home)/config/http/tokens
    fake_engines podman podman-compose
    path=$fakes
    more=(RECORD="$RECORD")
    expect 1 'the engine.s words are above' cc start
    ! grep -q 'compose.http' "$RECORD" || fail "nobody was named: $(cat "$RECORD")"
    more=(RECORD="$RECORD" CLAUDE_HTTP=all)
    expect 1 'CLAUDE_HTTP is host or agent, not: all' cc start
    more=(RECORD="$RECORD" CLAUDE_HTTP=host)
    expect 1 "CLAUDE_HTTP needs tokens in $tokens: " cc start
    mkdir -p "${tokens%/*}"
    echo me:0123456789abcdef >"$tokens"
    expect 1 'the engine.s words are above' cc start
    grep -q "^podman-compose -f $root/compose.yaml -f $root/deploy/compose.http.yaml .* up -d tool-server" "$RECORD" ||
        fail "called otherwise: $(cat "$RECORD")"
    more=(RECORD="$RECORD" CLAUDE_HTTP=agent)
    expect 1 "needs the agent's own token: set TOOL_HTTP_TOKEN" cc start
    more=(RECORD="$RECORD" CLAUDE_HTTP=agent TOOL_HTTP_TOKEN=0123456789abcdef)
    expect 1 'the engine.s words are above' cc start
    grep -q "^podman-compose -f $root/compose.yaml -f $root/deploy/compose.http-agent.yaml .* up -d tool-server" "$RECORD" ||
        fail "called otherwise: $(cat "$RECORD")"
}

# What costs a person without root time and space: told where it comes from, and done
# where one waits in any case.
a_build_says_what_is_slow_or_old_and_makes_the_first_run_quick() {
    home=$work/h
    mkdir -p "$home" "$work/copy/target/release" "$work/copy/server"
    cp -r "$root/scripts" "$root/compose.yaml" "$root/deploy" "$root/tools.d" "$work/copy/"
    export RECORD=$work/record
    local path script=$work/copy/scripts/claude-container
    fake_engines podman podman-compose
    ln -s "$(command -v find)" "$(command -v tail)" "$fakes/"
    rm "$fakes/id"
    printf '#!/bin/sh\necho 1000\n' >"$fakes/id"
    chmod +x "$fakes/id"
    path=$fakes
    cp "$bin/tool-server" "$bin/tool-client" "$work/copy/target/release/"
    touch -d '2001-01-01' "$work/copy/server/main.rs"
    cc() { env -i HOME="$home" PATH="$path" RECORD="$RECORD" "${more[@]}" "$script" "$@" </dev/null; }
    more=(DRIVER=overlay)
    expect 0 'making both ready for your user' cc build
    ! grep -q 'note:' <<<"$output" || fail "a note without a reason: $output"
    grep -q '^podman run --rm --network none --userns keep-id .* claude-code:v2 ' "$RECORD" || fail "called otherwise: $(cat "$RECORD")"
    more=(DRIVER=vfs)
    expect 0 'note: podman copies the whole image for each container .*docs/install.md' cc build
    expect 1 '^wrong storage: podman copies the whole image' cc doctor
    touch -d '2100-01-01' "$work/copy/server/main.rs"
    expect 0 'note: the programs in .*target/release are older than their sources: cargo build --release' cc build
}

# --- Other engines, for real -----------------------------------------------------------

# What is the same with every engine, in a directory of the caller's: `cc` runs it.
a_day_with_it() {
    local id=$1
    expect 7 '^committed' cc run -- \
        sh -c 'git init -q && touch a && git add a && git commit -q -m x && echo committed && ls -ln && exit 7'
    expect 0 'runs, for' cc start
    expect 0 'nothing to commit' cc exec git status
    expect 0 'nothing is wrong' cc doctor
    grep -Eq "^ok +confinement: namespaces" <<<"$output" || fail "another level of confinement: $output"
    expect 0 "$id +healthy +clients: 1" cc status --all
    expect 0 'is stopped' cc stop
    [[ -z $(engine ps -a --filter "name=^claude-$id" --format '{{.Names}}') ]] || fail "containers are left"
    [[ -z $(engine network ls --filter "name=claude-$id" --format '{{.Name}}') ]] || fail "networks are left"
}

rootless_podman_runs_it_for_an_ordinary_user() {
    start_rootless
    local copy=$engine_home/copy
    mkdir -p "$copy/bin" "$engine_home/p" "$engine_home/programs"
    cp -r "$root/scripts" "$root/compose.yaml" "$root/deploy" "$root/tools.d" "$root/client" "$root/server" "$copy/"
    cp "$bin/tool-server" "$bin/tool-client" "$copy/bin/"
    printf '#!/bin/sh\nexec /usr/bin/python3 -m podman_compose "$@"\n' >"$engine_home/programs/podman-compose"
    chmod 755 "$engine_home/programs/podman-compose"
    chown -R "$engine_user:$engine_user" "$engine_home"/{copy,p,programs}
    as_user git config --global user.name Ada
    as_user git config --global user.email ada@example.org
    cc() {
        as_user env PATH="$engine_home/programs:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" \
            SERVER_IMAGE="$SERVER_IMAGE" CLAUDE_IMAGE="$CLAUDE_IMAGE" \
            sh -c 'cd ~/p && exec ~/copy/scripts/claude-container "$@"' sh "$@" </dev/null
    }
    a_day_with_it "$("$bin/tool-server" host instance "$engine_home/p")"
    [[ $(stat -c %U "$engine_home/p/a") == "$engine_user" ]] || fail "the file is another's: $(ls -l "$engine_home/p")"
}

dockers_engine_runs_it() {
    start_docker
    home=$work/h cc_engine=docker
    mkdir -p "$home" "$work/p"
    HOME=$home git config --global user.name Ada
    HOME=$home git config --global user.email ada@example.org
    cd "$work/p"
    at_end+=('cc stop --all')
    a_day_with_it "$(id_here)"
}

# --- doctor ------------------------------------------------------------------------

doctor_says_what_is_wrong_and_exits_1() {
    person
    project "$work/doctor"
    expect 1 'is not installed: nothing runs without it; run: claude-container install' cc doctor
    expect 0 'runs, for' cc start
    expect 0 'nothing is wrong' cc doctor
    grep -q '^ok    server: tool-server' <<<"$output" || fail "the server is not looked at"
    grep -Eq '^(ok|note)  ? *confinement: (namespaces|landlock)' <<<"$output" || fail "no level of confinement"
    # On the host.
    chmod 644 "$(claude_home)/.env"
    chmod g+w "$(claude_home)/tools/tools.d/git/tool.toml"
    expect 1 'wrong .*\.env has mode 0644: .*chmod go=' cc doctor
    grep -Eq '^wrong .*git/tool.toml has mode 0664: .*chmod go-w' <<<"$output" || fail "the definition's mode is not found"
    chmod 600 "$(claude_home)/.env"
    chmod g-w "$(claude_home)/tools/tools.d/git/tool.toml"
    # In the agent's container.
    cc exec sh -c 'mkdir ~/.ssh && echo "-----BEGIN OPENSSH PRIVATE KEY-----" >~/.ssh/id && echo x >~/.git-credentials'
    expect 1 'wrong .*/\.ssh/id is a private key: .*; remove it' cc doctor
    grep -q "wrong .*/\.git-credentials holds git's passwords" <<<"$output" || fail "no .git-credentials"
    # What is said there is the agent's to shape: no letter of it moves the cursor, and no
    # line of it looks like one of ours.
    cc exec sh -c 'echo "PRIVATE KEY" >~/.ssh/"$(printf "x\033[2J\nok    all is well")"'
    expect 1 '^  ok    all is well is a private key' cc doctor
    [[ $output != *$'\e'* ]] || fail "a control character came through"
    cc exec sh -c 'rm -r ~/.ssh ~/.git-credentials'
    # A definition without rules is refused by the server.
    mkdir "$(claude_home)/tools/tools.d/loose"
    printf 'binary = "/usr/bin/env"\n' >"$(claude_home)/tools/tools.d/loose/tool.toml"
    expect 1 '^wrong .*loose' cc doctor
    rm -r "$(claude_home)/tools/tools.d/loose"
    expect 0 'nothing is wrong' cc doctor
    # Where one stands after setup there is no project, and nothing wrong with that.
    cd "$home"
    expect 0 '^note +no project is looked at: .* holds ' cc doctor
    cd "$work/doctor"
    # Without the images.
    SERVER_IMAGE=localhost/cli-none:none expect 1 'wrong image localhost/cli-none:none is missing: .*run: claude-container build' cc doctor
}

# A container's root, made of directories.
stage() {
    stage=$work/root
    rm -rf -- "$stage"
    mkdir -p "$stage"/{run/sockets/bin,app/tools/bin,usr/bin,home/agent,workspace,scratch,tmp,var/lib}
    printf '#!/bin/sh\nexit 0\n' >"$stage/app/tools/bin/tool-client"
    chmod 755 "$stage/app/tools/bin/tool-client"
    ln -s ../../../app/tools/bin/tool-client "$stage/run/sockets/bin/git"
    ln -s tool-client "$stage/app/tools/bin/git"
}

# examine [NAME=VALUE…]: doctor.sh in it, as somebody who is not root.
examine() {
    chmod -R go+rX,go-w "$stage"
    setpriv --reuid 1234 --regid 1234 --clear-groups env -i DOCTOR_ROOT="$stage" DOCTOR_WORKSPACE="$stage/workspace" \
        HOME="$stage/home/agent" TOOL_SOCKET=/run/sockets/tool-a.sock \
        PATH="$stage/run/sockets/bin:$stage/app/tools/bin:$stage/usr/bin:/usr/bin:/bin" "$@" sh -s <"$root/client/doctor.sh"
}

# put FILE TEXT
put() {
    mkdir -p "$(dirname "$stage/$1")"
    printf '%s\n' "$2" >"$stage/$1"
}

listening() {
    (cd "$stage/${1%/*}" && python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "${1##*/}")
}

doctor_finds_what_undermines_the_whole_in_the_agents_container() {
    chmod 755 "$work"
    stage
    # A real git behind is a note: /usr/bin of this machine has one.
    expect 0 '^ok    no credential' examine
    # finds PATTERN [NAME=VALUE…]: with what was staged, as one thing that is wrong.
    finds() {
        local pattern=$1
        shift
        expect 1 "^wrong $pattern" examine "$@"
        [[ $(grep -c '^wrong' <<<"$output") == 1 ]] || fail "more than one thing is wrong: $output"
        [[ $output != *canary* ]] || fail "a value is shown: $output"
        stage
    }
    finds 'a real git is first on the PATH \(/usr/bin/git\)' PATH="/usr/bin:/bin:$stage/run/sockets/bin:$stage/app/tools/bin"
    put usr/bin/gh x
    chmod 755 "$stage/usr/bin/gh"
    ln -s tool-client "$stage/app/tools/bin/gh"
    finds 'a real gh is first on the PATH' PATH="$stage/run/sockets/bin:$stage/usr/bin:$stage/app/tools/bin:/usr/bin:/bin"
    put app/tools/bin/tool-client '#!/bin/sh
echo "no server" >&2; exit 125'
    finds "the tools' server does not answer: no server"
    local name
    for name in GITHUB_TOKEN GH_TOKEN NPM_TOKEN AWS_SECRET_ACCESS_KEY MY_PASSWORD OPENAI_API_KEY; do
        finds "$name is in the environment" "$name=canary"
    done
    finds 'HTTPS_PROXY has a password in it' HTTPS_PROXY=http://me:canary@proxy.example:3128
    expect 0 '' examine https_proxy=http://proxy.example:3128
    finds 'SSH_AUTH_SOCK is set' SSH_AUTH_SOCK=/x
    finds 'DOCKER_HOST is set' DOCKER_HOST=unix:///x
    expect 0 '' examine ANTHROPIC_API_KEY=canary CLAUDE_CODE_OAUTH_TOKEN=canary GITHUB_TOKEN=
    # What deploy/compose.http-agent.yaml gives it.
    expect 0 '' examine TOOL_HTTP_TOKEN=canary
    put home/agent/.ssh/id_ed25519 '-----BEGIN OPENSSH PRIVATE KEY-----'
    finds '.*/\.ssh/id_ed25519 is a private key'
    put home/agent/.netrc 'machine github.com login x password canary'
    finds '.*/\.netrc holds passwords'
    put home/agent/.git-credentials https://x:canary@github.com
    finds ".*/\.git-credentials holds git's passwords"
    put home/agent/.config/git/credentials https://x:canary@github.com
    finds ".*/git/credentials holds git's passwords"
    put home/agent/.config/gh/hosts.yml 'oauth_token: canary'
    finds '.*/hosts\.yml holds a token of gh'
    put home/agent/.npmrc '//registry.example/:_authToken=canary'
    finds '.*/\.npmrc holds a token of npm'
    put workspace/.npmrc '//registry.example/:_authToken = canary'
    finds '.*/workspace/\.npmrc holds a token of npm'
    # shellcheck disable=SC2016
    put workspace/.npmrc '//registry.example/:_authToken=${NPM_TOKEN}'
    expect 0 '' examine
    stage
    put home/agent/.docker/config.json '{"auths":{"x":{"auth": "canary"}}}'
    finds '.*/config\.json holds a log-in of docker'
    put home/agent/.aws/credentials 'aws_secret_access_key = canary'
    finds '.*/credentials holds keys of AWS'
    put home/agent/.kube/config 'token: canary'
    finds '.*/config holds a log-in of Kubernetes'
    put home/agent/.pypirc 'password = canary'
    finds '.*/\.pypirc holds a password of PyPI'
    put home/agent/.cargo/credentials.toml 'token = "canary"'
    finds '.*/credentials\.toml holds a token of cargo'
    put run/secrets/github_token canary
    finds ".*/run/secrets/github_token is in the agent's container"
    listening run/sockets/tool-a.sock
    expect 0 '' examine
    listening run/sockets/tool-b.sock
    finds "another instance's socket is visible"
    mkdir -p "$stage/var/lib/tool-server"
    listening var/lib/tool-server/control.sock
    finds 'the control socket is visible'
    listening run/docker.sock
    finds "an engine's socket is visible"
    chown 1234 "$stage/run/sockets"
    finds '.*/run/sockets can be written to'
    chown 1234 "$stage/app/tools/bin"
    finds '.*/app/tools/bin can be written to'
    rm "$stage/run/sockets/bin/git" "$stage/app/tools/bin/git"
    finds 'no tool is there'
}

every_verb_has_a_help_worth_reading() {
    home=$work/h
    mkdir "$home"
    local verb
    for verb in run start stop exec status logs doctor tools project approvals setup install build uninstall; do
        expect 0 "^claude-container $verb" cc "$verb" --help
        (($(wc -l <<<"$output") >= 4)) || fail "$verb --help says little: $output"
        expect 0 "(^|[ ,|])$verb" cc --help
    done
    expect 2 'no such verb' cc bogus --help
    [[ ! -e $(claude_home) ]] || fail "help made something"
}

cases \
    every_verb_has_a_help_worth_reading \
    each_engine_is_found_and_given_its_own_options \
    http_is_opened_to_whom_a_person_names_and_to_nobody_else \
    a_build_says_what_is_slow_or_old_and_makes_the_first_run_quick \
    doctor_finds_what_undermines_the_whole_in_the_agents_container \
    one_command_installs_and_runs_and_leaves_only_the_state \
    start_runs_both_and_stop_leaves_nothing_but_the_state \
    the_env_file_is_split_by_service \
    what_this_machine_runs_is_no_project \
    what_is_odd_about_a_project_is_said_at_the_start \
    an_interrupted_start_leaves_nothing \
    purge_removes_the_keys_whatever_the_agent_closed \
    install_makes_the_command_that_of_this_release
long_cases \
    numbers_that_were_given_again_hold_nothing \
    a_log_in_of_its_own_is_not_shared_and_stays_so \
    five_runs_that_begin_and_end_at_any_time_share_one_server \
    a_second_run_uses_the_server_and_the_last_one_takes_it_down \
    a_tool_is_added_and_taken_out_by_its_name \
    the_projects_own_setup_runs_in_the_agents_container \
    an_isolated_run_has_tools_and_neither_network_nor_key \
    check_instances_fails_for_one_that_died \
    what_waits_is_answered_by_the_words_that_are_shown \
    several_projects_run_at_once_and_see_nothing_of_each_other \
    a_failed_step_says_what_to_do_and_leaves_nothing_half_done \
    a_build_that_fails_leaves_the_older_image \
    the_project_of_another_user_is_run_as_him \
    everything_comes_from_the_images_where_nothing_is_built \
    uninstall_names_what_it_removes_and_keeps_the_state \
    doctor_says_what_is_wrong_and_exits_1 \
    rootless_podman_runs_it_for_an_ordinary_user \
    dockers_engine_runs_it

#!/usr/bin/env bash
# The main job, from nothing, on a fresh machine: builds server and client,
# starts a server in a scratch directory, and does real git work through a
# symlink and a socket. Ends with status 0 only if every step did what it
# should. Leaves nothing behind but the build.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
exec </dev/null
# A definition that its group or others may change is refused.
umask 022

scratch=
server=
forge=

cleanup() {
    local status=$? tries=0
    trap - EXIT
    trap '' INT TERM HUP
    if [[ -n $server ]]; then
        # On TERM the server ends every process that it has started.
        kill -TERM "$server" 2>/dev/null || true
        while kill -0 "$server" 2>/dev/null && ((tries++ < 200)); do sleep 0.1; done
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    [[ -z $forge ]] || kill -TERM "$forge" 2>/dev/null || true
    if [[ -n $scratch ]]; then
        cd /
        rm -rf -- "$scratch"
    fi
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# --- What is going to happen -------------------------------------------------

mapfile -t packages < <(missing_packages /usr/bin/git:git cc:gcc cc:libc6-dev python3:python3)
cat <<END
This builds tool-server and tool-client in $(target_dir), starts the server in
a scratch directory, and works with git through it: commit, push to a git server on
loopback with a token that only tool-server has, a hook that looks for that token, a
tool that is added while the server runs. At the end the server is stopped and
the scratch directory removed; what was built stays.
END
if ((${#packages[@]} == 0)); then
    echo "It installs nothing: git, python3 and a C linker are there."
else
    echo "It installs (apt-get): ${packages[*]}"
fi
if ! has_new_cargo; then
    echo "It needs Rust $(rust_wanted) or later, and looks for it with rustup and apt-get."
fi
echo

if ((${#packages[@]} > 0)); then
    may_install || die "these packages are missing: ${packages[*]}: install them, or run this as root"
    install_packages "${packages[@]}"
fi
need_cargo
cd "$root"
echo "\$ cargo build --release -p tool-server -p tool-client"
cargo build --release -p tool-server -p tool-client
bin=$(target_dir)/release

# --- A server ----------------------------------------------------------------

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tool-demo.XXXXXX")
if ((${#scratch} > 80)); then
    # A socket's path has at most 107 bytes.
    rmdir -- "$scratch"
    scratch=$(mktemp -d /tmp/tool-demo.XXXXXX)
fi
mkdir "$scratch"/{workspace,run,state,bin,home,secrets,hub}
cp -r "$root/tools.d" "$scratch/tools.d"
# However the checkout was made.
chmod -R u=rwX,go=rX "$scratch/tools.d"

# --- A host that wants a token -----------------------------------------------

# It stands for github.com: its address is what the definition's gate is told.
(umask 077 && head -c 15 /dev/urandom | base64 >"$scratch/secrets/github_token")
env -i PATH="$PATH" HOME="$scratch/home" git init --quiet --bare -b main "$scratch/hub/ada/project.git"
git -C "$scratch/hub/ada/project.git" config http.receivepack true
env -i PATH="$PATH" HOME="$scratch/home" "$root/scripts/demo/forge.py" "$scratch/hub" \
    "$scratch/secrets/github_token" >"$scratch/port" 2>"$scratch/forge.log" &
forge=$!
for ((tries = 0; tries < 100; tries++)); do
    [[ -s $scratch/port ]] && break
    sleep 0.1
done
[[ -s $scratch/port ]] || die "the git server of the demo did not start: $(cat "$scratch/forge.log")"
sed -i "s|^credential = .*|credential = \"file:$scratch/secrets/github_token\"\nupstream = \"http://127.0.0.1:$(cat "$scratch/port")\"|" \
    "$scratch/tools.d/git/tool.toml"

# Where the server and its verbs look. Nothing of the caller's own settings.
settings=(
    TOOL_SOCKET="$scratch/run/tool.sock"
    STATE_DIR="$scratch/state"
    TOOLS_DIR="$scratch/tools.d"
    WORKSPACE="$scratch/workspace"
    RESTRICTED_DIR="$scratch/restricted"
)
tool-server() {
    env -i PATH="$PATH" HOME="$scratch/home" "${settings[@]}" "$bin/tool-server" "$@"
}

env -i PATH="$PATH" HOME="$scratch/home" "${settings[@]}" \
    "$bin/tool-server" serve >"$scratch/server.log" 2>&1 &
server=$!
for ((tries = 0; ; tries++)); do
    tool-server health >/dev/null 2>&1 && break
    if ! kill -0 "$server" 2>/dev/null || ((tries > 100)); then
        cat "$scratch/server.log" >&2
        die "the server did not start; its log is above"
    fi
    sleep 0.1
done

# --- The agent's side: a directory of symlinks, and a socket -----------------

say() { printf '\n# %s\n' "$*"; }

# show STATUS PATTERN COMMAND: prints the command, then its output; the demo
# fails if the command ends otherwise or its output does not match.
show() {
    local wanted=$1 pattern=$2 command=$3 status=0 output
    printf '\n$ %s\n' "$command"
    # In this shell, so that cd and export last.
    eval "$command" >"$scratch/output" 2>&1 || status=$?
    cat "$scratch/output"
    ((status == 0)) || printf '[exit status %d]\n' "$status"
    output=$(tr -d '\0' <"$scratch/output")
    ((status == wanted)) || die "that should have ended with $wanted, and ended with $status"
    [[ $output =~ $pattern ]] || die "that should have said: $pattern"
}

say "The server runs, as process $server. This is all that the agent's side has:"
unset INSTANCE_ID TOOL_FORWARD_ENV
# A caller's own git settings would be offered by name; the demo brings its own.
unset "${!GIT_@}"
export TOOL_SOCKET="$scratch/run/tool.sock"
show 0 'made git' "tool-server link $scratch/bin"
show 0 '' "export PATH=$scratch/bin:\$PATH TOOL_SOCKET=$TOOL_SOCKET"
hash -r
show 0 '-> .*tool-client' "ls -l $scratch/bin/git"

say "The host wants a log-in. Without the broker git has none; through it, it works:
# the token is added on the way, and git never has it."
show 0 '' "cd $scratch/workspace"
show 0 '^git version' 'git --version'
show 128 '' "GIT_TERMINAL_PROMPT=0 /usr/bin/git clone http://127.0.0.1:$(cat "$scratch/port")/ada/project 2>&1"
show 0 'Cloning into' 'git clone https://github.com/ada/project'
show 0 '' 'cd project'

say "Edit and commit. The author comes from the caller's environment, because
# tools.d/git/tool.toml takes GIT_AUTHOR_* and GIT_COMMITTER_* from there."
show 0 '' 'export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org'
show 0 '' 'export GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org'
show 0 '' 'printf "# Project\n" >README.md'
show 0 '' 'git add README.md && git commit --quiet -m "First words"'
show 0 '' 'printf "More, by standard input.\n" | git hash-object -w --stdin >object && cat object && rm object'
show 0 '' 'printf "Second line.\n" >>README.md'
show 0 '[+]Second line' 'git diff'
show 0 '' $'git commit --quiet --all --message "Second words\n\nA message of several lines."'
show 0 '' 'git push --quiet origin HEAD:refs/heads/first'
show 0 'Second words' 'git log --oneline --stat'
show 0 'README.md' 'git archive HEAD | tar t'

say "A tool's exit status is the caller's."
show 128 'fatal' 'git rev-parse --verify no-such-branch'

say "The rules: what cannot be undone is refused, and says what to do instead."
show 126 'instead' 'git push --force origin HEAD:main'

say "Others build on main: a push to it waits for an operator, here in the same shell."
printf '\n$ git push origin HEAD:main &\n'
git push origin HEAD:main >"$scratch/push" 2>&1 &
push=$!
for ((tries = 0; tries < 200; tries++)); do
    tool-server approvals | grep -q push-protected && break
    sleep 0.05
done
show 0 'push-protected' 'tool-server approvals'
id=$(tool-server approvals | sed -n '1s/:.*//p')
show 0 '^approved' "tool-server approve $id"
show 0 'HEAD -> main' "wait $push && cat $scratch/push"

say "A hook of the repository runs, as git does, and finds nothing to steal: no token in
# its environment, in files or in other processes, no way out but the gate,
# which knows what may be pushed."
cat >.git/hooks/pre-push <<HOOK
#!/bin/sh
cat $scratch/secrets/github_token
cat /proc/$server/environ
env | grep -i -e token -e secret
git push --no-verify origin +HEAD~1:main
exit 0
HOOK
chmod +x .git/hooks/pre-push
show 0 '' 'cat .git/hooks/pre-push'
show 0 'Permission denied.*remote rejected' 'git push origin HEAD:refs/heads/second'
if grep -qF -- "$(cat "$scratch/secrets/github_token")" "$scratch/output"; then
    die "the hook saw the token"
fi
show 0 '' 'rm .git/hooks/pre-push'

say "A directory outside the workspace is refused; nothing is run."
show 125 'not beneath a workspace root' '(cd / && git status)'

say "A new tool: a folder in tools.d. The server does not restart."
show 0 '' "mkdir $scratch/tools.d/.upper"
show 0 '' "printf 'binary = \"/usr/bin/tr\"\ndefault = \"allow\"\n' >$scratch/tools.d/.upper/tool.toml"
show 0 '' "mv $scratch/tools.d/.upper $scratch/tools.d/upper"
show 0 'made upper' "tool-server link $scratch/bin"
show 0 '^HELLO$' 'echo hello | upper a-z A-Z'

say "Its folder goes, and so does the tool."
show 0 '' "rm -r $scratch/tools.d/upper"
# In force within 200 ms; on a busy machine a little later.
for ((tries = 0; tries < 100; tries++)); do
    tool-server tools | grep -q '^upper' || break
    sleep 0.1
done
show 127 'no such tool: upper' 'upper a-z A-Z'

say "What the server would do with a call, and what it has done."
show 0 '^ask push-protected' 'tool-server explain git push origin HEAD:main'
show 0 'finished' 'tool-server status'
show 0 'wire refused' 'tool-server audit --tool git -n 12'
show 0 '' 'tool-server audit --verify'

say "Done: every step did what it should. To go on, with a server of your own
# (docs/operations.md has the settings, docs/tools.md the definitions):
#
#   mkdir -p \$HOME/workspace
#   export TOOL_SOCKET=\$HOME/tool.sock TOOLS_DIR=$root/tools.d WORKSPACE=\$HOME/workspace
#   $bin/tool-server check
#   $bin/tool-server serve &
#   $bin/tool-server link \$HOME/tool-bin
#   PATH=\$HOME/tool-bin:\$PATH; cd \$HOME/workspace && git status
#
# and scripts/test.sh runs the tests."

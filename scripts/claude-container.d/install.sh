# shellcheck shell=sh
# A part of claude-container, read by it.
#
# setup, install, build, uninstall.
# Names of other parts:
# shellcheck disable=SC2034,SC2153,SC2154

setup_all() {
    find_server
    # Without a tool-server of this machine it is the image's that installs.
    if [ -z "$server_bin" ] && ! image_exists "$SERVER_IMAGE"; then verb_build "$@"; fi
    verb_install
}

verb_setup() {
    find_compose
    say "engine: $engine $version, $compose"
    setup_all "$@"
    if image_exists "$SERVER_IMAGE" && image_exists "$CLAUDE_IMAGE" && [ $# -eq 0 ]; then
        say "images: $SERVER_IMAGE and $CLAUDE_IMAGE are there (claude-container build makes them anew)"
    else
        verb_build "$@"
    fi
    say "ready. Keys and tokens: $CLAUDE_HOME/.env. Then, in a project: claude-container run"
}

verb_install() {
    find_server
    [ -n "$server_bin" ] || mkdir -p "$CLAUDE_HOME"
    tool_server host layout --home "$CLAUDE_HOME"
    CLAUDE_HOME=$(CDPATH='' cd -P "$CLAUDE_HOME" && pwd -P)
    tools_d=$CLAUDE_HOME/tools/tools.d
    tool_server host definitions --from "$root/tools.d" --to "$tools_d" --record "$CLAUDE_HOME/config/shipped"
    if [ ! -e "$CLAUDE_HOME/.env" ]; then
        (
            umask 077
            cat >"$CLAUDE_HOME/.env.new" <<'ENV'
# NAME=VALUE, one a line. Tools' tokens go to the tools' container alone, the agent's own
# keys (ANTHROPIC_…, CLAUDE_CODE_OAUTH_TOKEN) to the agent's, everything else to the tools'.
#GITHUB_TOKEN=
#NPM_TOKEN=
#ANTHROPIC_API_KEY=
ENV
            mv "$CLAUDE_HOME/.env.new" "$CLAUDE_HOME/.env"
        )
        say "made $CLAUDE_HOME/.env: keys and tokens go there"
    fi
    give_secrets ''
    [ -z "$told" ] || say "$told"
    install_identity
    # Late: with it the rest counts as installed (is_installed).
    install_client
    tool_server link "$CLAUDE_HOME/tools/bin" --tools-dir "$tools_d"
    install_command
    say "installed in $CLAUDE_HOME"
}

install_client() {
    new=$CLAUDE_HOME/tools/bin/.tool-client.new
    if [ -n "$server_bin" ] && [ -x "$(dirname "$server_bin")/tool-client" ]; then
        cp "$(dirname "$server_bin")/tool-client" "$new"
    else
        find_engine
        image_exists "$CLAUDE_IMAGE" || die "no tool-client beside tool-server, and no image $CLAUDE_IMAGE: run: claude-container build, then install"
        "$engine" run --rm --network none --entrypoint cat "$CLAUDE_IMAGE" /usr/local/bin/tool-client >"$new" ||
            die "tool-client could not be taken out of $CLAUDE_IMAGE: run: claude-container build, then install"
    fi
    chmod 0755 "$new"
    if cmp -s "$new" "$CLAUDE_HOME/tools/bin/tool-client"; then
        rm -f "$new"
    else
        mv "$new" "$CLAUDE_HOME/tools/bin/tool-client"
        say "installed tool-client"
    fi
}

# Who commits: the lowest of git's places, so that the agent may still say otherwise.
install_identity() {
    if ! command -v git >/dev/null; then
        say "note: no git here, so nobody's name for commits was taken over"
        return 0
    fi
    new=$CLAUDE_HOME/config/server/.gitconfig.new
    rm -f "$new"
    for key in user.name user.email; do
        if value=$(git config --global --get "$key"); then git config --file "$new" "$key" "$value"; fi
    done
    if [ ! -e "$new" ]; then
        say "note: git config --global has no user.name and user.email; set them and run claude-container install, or git asks at the first commit"
        return 0
    fi
    chmod 0644 "$new"
    mv "$new" "$CLAUDE_HOME/config/server/gitconfig"
}

# On the PATH under its own name.
install_command() {
    link=${HOME:-}/.local/bin/claude-container
    [ -n "${HOME:-}" ] || return 0
    if [ -L "$link" ]; then
        # An older release's, which may be gone.
        case $(readlink "$link") in
            "$here/claude-container") return 0 ;;
            */scripts/claude-container) rm -f "$link" ;;
        esac
    fi
    if [ -e "$link" ] || [ -L "$link" ]; then
        [ "$(here "$link")" = "$here" ] || say "note: $link is not this one and is left as it is: remove it and run claude-container install, or call $here/claude-container"
        return 0
    fi
    mkdir -p "$HOME/.local/bin"
    ln -s "$here/claude-container" "$link"
    say "made $link"
    case :$PATH: in
        *":$HOME/.local/bin:"*) ;;
        *) say "note: $HOME/.local/bin is not on your PATH: add it, or call $here/claude-container" ;;
    esac
}

# build [--compile] [OPTION…]: further options are the engine's.
verb_build() {
    find_engine
    find_server
    compile=
    if [ "${1:-}" = --compile ]; then
        compile=yes
        shift
    fi
    built=
    if [ -z "$compile" ] && [ "$(uname)" = Linux ] && [ -n "$server_bin" ] && [ -x "$(dirname "$server_bin")/tool-client" ]; then
        mkdir -p "$root/.prebuilt" || die "$root is not writable for you: copy it to a directory of yours, and run it from there"
        cp "$server_bin" "$(dirname "$server_bin")/tool-client" "$root/.prebuilt/"
        built=.prebuilt
    elif [ ! -f "$root/Cargo.toml" ]; then
        die "$root has neither the programs nor their source: unpack the release anew"
    fi
    # An upgrade brings sources alone.
    if [ -n "$built" ] && [ "$server_bin" = "$root/target/release/tool-server" ] &&
        [ -n "$(cd "$root" && find client files gate policy protocol server -name '*.rs' -newer "$server_bin" 2>/dev/null | head -n 1)" ]; then
        warn "note: the programs in $root/target/release are older than their sources: cargo build --release makes them anew, build --compile does so in the image"
    fi
    look_at_storage
    [ -z "$slow" ] || warn "note: $slow"
    packages=${EXTRA_PACKAGES:-}
    if [ -s "$packages_file" ]; then packages="$packages $(tr '\n' ' ' <"$packages_file")"; fi
    say "building $SERVER_IMAGE (1 of 2)${built:+, with the programs of $(dirname "$server_bin")}"
    build_image server "$SERVER_IMAGE" --build-arg "EXTRA_PACKAGES=$packages" "$@"
    say "building $CLAUDE_IMAGE (2 of 2)"
    build_image client "$CLAUDE_IMAGE" "$@"
    # Rootless podman copies an image once for the user's own numbers: now, not at the first run.
    if [ "$engine$rootless" = podmantrue ]; then
        say "making both ready for your user"
        for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
            "$engine" run --rm --network none --userns keep-id --entrypoint tool-client "$image" --version >/dev/null 2>&1 || :
        done
    fi
    say "built $SERVER_IMAGE and $CLAUDE_IMAGE; what runs already keeps its old ones until stop and start"
}

build_image() {
    kind=$1 image=$2
    shift 2
    for name in BASE BUILDER AGENT_NPM; do
        eval "value=\${$name-unset}"
        [ "$value" = unset ] || set -- --build-arg "$name=$value" "$@"
    done
    "$engine" build -f "$root/$kind/Containerfile" -t "$image" --build-arg "PREBUILT=$built" --build-arg "IMAGE=$image" "$@" "$root" || {
        hint=
        [ -z "$built" ] || hint='; if the programs do not run in it, claude-container build --compile compiles them there'
        die "$image was not built (the engine's words are above), and an older one is as it was: mend that, then claude-container build again$hint"
    }
}

verb_uninstall() {
    purge=''
    yes=''
    while [ $# -gt 0 ]; do
        case $1 in
            --purge) purge=yes ;;
            --yes) yes=yes ;;
            *) misused "uninstall has no option $1; see claude-container uninstall --help" ;;
        esac
        shift
    done
    # What an earlier uninstall kept can be purged yet.
    if [ ! -d "$CLAUDE_HOME/tools" ] && { [ -z "$purge" ] || [ ! -d "$CLAUDE_HOME/config" ]; }; then
        die "nothing is installed in $CLAUDE_HOME${purge:+, and nothing was kept there}"
    fi
    find_engine
    say "this removes:"
    say "  containers and networks of: $(instances | tr '\n' ' ')"
    say "  images $SERVER_IMAGE and $CLAUDE_IMAGE, and what their builds left without a name"
    say "  $CLAUDE_HOME/tools (definitions too), sockets, run"
    if [ -n "$purge" ]; then
        say "  $CLAUDE_HOME/state, config, .env: audit, approvals, logins, tokens"
    else
        say "and keeps $CLAUDE_HOME/state, config, .env (--purge removes them)"
    fi
    if [ -z "$yes" ]; then
        [ -t 0 ] || die "nobody is there to ask: give --yes"
        printf 'go on? [y/N] '
        read -r answer
        case $answer in y | Y | yes) ;; *) die "nothing was removed" ;; esac
    fi
    say "removing; images take a while"
    for INSTANCE_ID in $(instances); do stop_one >/dev/null; done
    for image in "$SERVER_IMAGE" "$CLAUDE_IMAGE"; do
        if image_exists "$image"; then "$engine" rmi "$image" >/dev/null || warn "$image is kept: something else uses it"; fi
        # Older ones, and what the build went through.
        for nameless in $("$engine" images --quiet --filter dangling=true --filter "label=tool-broker.image=$image"); do
            "$engine" rmi "$nameless" >/dev/null 2>&1 || :
        done
    done
    rm -rf "$CLAUDE_HOME/tools" "$CLAUDE_HOME/sockets" "$CLAUDE_HOME/run"
    rm -f "$CLAUDE_HOME/config/shipped"
    if [ -n "$purge" ]; then
        # First what is secret. What follows was the agent's to write, and it may have closed
        # directories to their owner, as Go's cache of modules is.
        rm -rf "$CLAUDE_HOME/.env" "$CLAUDE_HOME/config/secrets" "$CLAUDE_HOME/config/client.env"
        for kept in "$CLAUDE_HOME/state" "$CLAUDE_HOME/config"; do
            [ ! -d "$kept" ] || chmod -R u+rwX "$kept" 2>/dev/null || :
            rm -rf "$kept" || die "$kept could not be removed (the words are above), and keys and tokens are: remove it, as root if need be"
        done
        rmdir "$CLAUDE_HOME" 2>/dev/null || warn "$CLAUDE_HOME is kept: it holds what is not ours"
    fi
    link=${HOME:-}/.local/bin/claude-container
    if [ -L "$link" ] && [ "$(here "$link")" = "$here" ]; then rm -f "$link"; fi
    say "uninstalled"
}

#!/bin/sh
# What undermines the whole, looked for in the agent's container: run by
# `claude-container doctor` as the agent's user (exec -i … sh -s < doctor.sh). Needs a
# shell, grep, find and env. A finding is one line: what, why it matters, what to do.
# Exit 1 if something is wrong. Shows no value of anything.
set -u

bad=0
wrong() {
    printf 'wrong %s: %s; %s\n' "$1" "$2" "$3"
    bad=1
}
note() { printf 'note  %s: %s; %s\n' "$1" "$2" "$3"; }
home=${HOME:-/home/agent}
# For tests, which look at a directory in the place of a container's root.
top=${DOCTOR_ROOT:-}

# --- The tools' server answers, and the tools are its own -----------------------

if ! why=$(tool-client --health 2>&1); then
    wrong "the tools' server does not answer" "${why:-no reason given}" "run: claude-container stop, then start"
fi

# Whether a file is tool-client, by whatever links.
is_client() {
    one=$1 hops=0
    while [ -L "$one" ] && [ "$hops" -lt 40 ]; do
        hops=$((hops + 1))
        to=$(readlink "$one")
        case $to in
            /*) one=$to ;;
            *) one=${one%/*}/$to ;;
        esac
    done
    [ "${one##*/}" = tool-client ]
}

# Each tool that the server serves, by its link.
seen=
for link in "$top/run/sockets/bin"/* "$top/app/tools/bin"/*; do
    [ -L "$link" ] || continue
    name=${link##*/}
    case " $seen " in *" $name "*) continue ;; esac
    seen="$seen $name"
    behind=
    IFS=:
    # In the order of the PATH.
    for place in $PATH; do
        file=${place:-.}/$name
        if ! [ -f "$file" ] || ! [ -x "$file" ]; then continue; fi
        if is_client "$file"; then
            behind=yes
        elif [ -z "$behind" ]; then
            wrong "a real $name is first on the PATH ($file)" "the agent's calls of it pass no rule" "remove it from the agent's image, or put /run/sockets/bin first on the PATH"
            behind=yes
        else
            note "a real $name is in the container ($file)" "who calls it by that path passes no rule; it has no credential here" "leave it out of the agent's image"
        fi
    done
    unset IFS
    [ -n "$behind" ] || wrong "$name is not on the PATH" "the agent cannot call it" "put /run/sockets/bin on the PATH"
done
[ -n "$seen" ] || wrong "no tool is there" "the agent can call nothing" "run: claude-container tools list"

# --- Keys and tokens in the environment -----------------------------------------

for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=..*/\1/p'); do
    case $name in
        # The agent's own log-in.
        ANTHROPIC_* | CLAUDE_CODE_*) ;;
        # It opens the tools, as the socket does, and nothing else.
        TOOL_HTTP_TOKEN) ;;
        SSH_AUTH_SOCK)
            wrong "SSH_AUTH_SOCK is set" "whoever reaches the ssh agent logs in as you" "do not pass it to the agent's container"
            ;;
        DOCKER_HOST | CONTAINER_HOST)
            wrong "$name is set" "whoever may start containers has the host" "do not pass it to the agent's container"
            ;;
        *_TOKEN | *_SECRET | *_SECRET_* | *_PASSWORD | *_PASSWD | *_API_KEY | *_APIKEY | *_ACCESS_KEY | *_PRIVATE_KEY | *_CREDENTIALS | *_PAT | TOKEN | PASSWORD | PGPASSWORD)
            wrong "$name is in the environment" "the agent, and whatever it runs, can read it" "take it out of compose.yaml or the image; a tool's token belongs into CLAUDE_HOME/.env"
            ;;
        *_PROXY | *_proxy)
            # podman hands on those of whoever starts it.
            value=
            eval "value=\$$name"
            case $value in *:*@*)
                wrong "$name has a password in it" "the agent, and whatever it runs, can read it" "set http_proxy=false in [containers] of containers.conf, or use a proxy that needs none"
                ;;
            esac
            ;;
    esac
done

# --- Files that hold them ----------------------------------------------------------

# holds FILE WHAT [PATTERN]: it is there, and says so.
holds() {
    [ -s "$1" ] || return 0
    if [ $# -gt 2 ] && ! grep -Eq -- "$3" "$1" 2>/dev/null; then return 0; fi
    wrong "$1 holds $2" "the agent, and whatever it runs, can read it" "remove it; a tool's token belongs into CLAUDE_HOME/.env"
}
workspace=${DOCTOR_WORKSPACE:-$(pwd)}
for place in "$home" "$top/root" "$workspace"; do
    [ -d "$place" ] || continue
    if [ -d "$place/.ssh" ]; then
        for key in "$place/.ssh"/*; do
            [ -f "$key" ] || continue
            if grep -q 'PRIVATE KEY' "$key" 2>/dev/null; then
                wrong "$key is a private key" "whoever has it logs in as you" "remove it from the agent's container"
            fi
        done
        note "$place/.ssh is there" "what ssh is to use belongs to the tools' container" "remove it from the agent's container"
    fi
    holds "$place/.netrc" "passwords" 'password'
    holds "$place/_netrc" "passwords" 'password'
    holds "$place/.git-credentials" "git's passwords"
    holds "$place/.config/git/credentials" "git's passwords"
    holds "$place/.config/gh/hosts.yml" "a token of gh" 'oauth_token'
    # ${NAME} is a name, and no token.
    holds "$place/.npmrc" "a token of npm" '(_authToken|_auth|_password)[[:space:]]*=[[:space:]]*[^$[:space:]]'
    holds "$place/.yarnrc.yml" "a token of yarn" 'npmAuth(Token|Ident):[[:space:]]*[^$[:space:]]'
    holds "$place/.docker/config.json" "a log-in of docker" '"(auth|identitytoken)"[[:space:]]*:[[:space:]]*"[^"]'
    holds "$place/.config/containers/auth.json" "a log-in of podman" '"auth"[[:space:]]*:[[:space:]]*"[^"]'
    holds "$place/.aws/credentials" "keys of AWS" 'aws_(secret_access_key|session_token)'
    holds "$place/.config/gcloud/application_default_credentials.json" "keys of Google"
    holds "$place/.azure/accessTokens.json" "tokens of Azure"
    holds "$place/.kube/config" "a log-in of Kubernetes" '(token|client-key-data|password):'
    holds "$place/.pypirc" "a password of PyPI" 'password'
    holds "$place/.cargo/credentials.toml" "a token of cargo" 'token'
    holds "$place/.cargo/credentials" "a token of cargo" 'token'
    holds "$place/.gem/credentials" "a key of RubyGems"
    holds "$place/.config/hub" "a token of hub" 'oauth_token'
    holds "$place/.vault-token" "a token of Vault"
    holds "$place/.terraform.d/credentials.tfrc.json" "a token of Terraform"
    # The agent's own log-in at its model is the one secret that has to be here.
done
if [ -f "$workspace/.env" ]; then
    note "$workspace/.env is in the project" "the agent reads what stands there" "keep no real key in it"
fi

# The secrets of the tools are mounted into their container alone.
for file in "$top/run/secrets"/*; do
    [ -e "$file" ] || continue
    # Podman puts a directory of the host's system there, without a file.
    wrong "$file is in the agent's container" "the tools' credentials are for the tools' container alone" "mount config/secrets into tool-server only, as compose.yaml does"
done

# --- Sockets and mounts ---------------------------------------------------------------

own=${TOOL_SOCKET:-/run/sockets/tool.sock}
IFS='
'
# shellcheck disable=SC2044 # a name with a line end in it is none of these
for file in $(find "$top/run" "$top/var/lib" "$top/scratch" "$top/tmp" "$home" -type s 2>/dev/null); do
    case $file in
        "$own" | "$top$own") ;;
        */control.sock)
            wrong "the control socket is visible ($file)" "who reaches it approves his own calls" "mount the state directory into tool-server only, as compose.yaml does"
            ;;
        */docker.sock | */podman.sock | */containerd.sock | */crio.sock)
            wrong "an engine's socket is visible ($file)" "whoever may start containers has the host" "do not mount it into the agent's container"
            ;;
        "$top/run/sockets"/*)
            case ${file##*/} in
                tool-*.sock | tool.sock)
                    wrong "another instance's socket is visible ($file)" "who sees a socket can use it, with that project's tools" "mount sockets/INSTANCE_ID alone, as compose.yaml does"
                    ;;
            esac
            ;;
        */ssh-*/agent.* | */S.gpg-agent*)
            wrong "an agent's socket is visible ($file)" "it logs in or signs as you" "do not mount it into the agent's container"
            ;;
    esac
done
unset IFS
for place in "$top/run/sockets" "$top/app/tools" "$top/app/tools/bin" "$top/app/tools/tools.d"; do
    if [ -d "$place" ] && [ -w "$place" ]; then
        wrong "$place can be written to" "the agent could put its own in the place of a tool, a rule or the socket" "mount it read-only, as compose.yaml does"
    fi
done

[ "$bad" = 1 ] || printf 'ok    no credential, no real tool ahead, no socket of others\n'
exit "$bad"

#!/usr/bin/env bash
# The two containers, for real: makes a base image on the spot, builds the images of the
# project from it, and runs the cases of the files beside this one (or of those that are
# named) with podman and podman-compose. Says first what it installs. One line for each
# case, and at the end:
#
#   N passed, N failed, N skipped
#
#   tests/deploy/run.sh [--all] [--only CASE]... [FILE...]
#   tests/deploy/run.sh --base       makes the base image and no more
#
# --all: also what takes long, rootless podman, docker's engine.
# DEPLOY_BASE_TAR: a ready root file system of Debian 12 for the base image, as a tar.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/common.sh
source "$here/../../scripts/common.sh"
exec </dev/null

{
all=false
base_only=false
only=()
files=()
while (($# > 0)); do
    case $1 in
        --all) all=true ;;
        --base) base_only=true ;;
        --only)
            only+=("${2:?--only needs the name of a case}")
            shift
            ;;
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
            exit
            ;;
        -*) die "no such option: $1; see tests/deploy/run.sh --help" ;;
        *) files+=("$1") ;;
    esac
    shift
done
if ((${#files[@]} == 0)); then
    for file in "$here"/*.sh; do
        case ${file##*/} in
            run.sh | harness.sh) ;;
            *) files+=("$file") ;;
        esac
    done
fi

passed=0
failed=0
skipped=0
finish() {
    printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    ((failed == 0)) || exit 1
    exit 0
}
# What cannot be made is a failure, not a reason to leave the cases out.
give_up() {
    printf 'not ok %s: %s\n' "the containers of tests/deploy" "$*"
    failed=1
    finish
}

# --- What has to be there ----------------------------------------------------

wanted=(podman:podman runc:runc crun:crun /usr/lib/podman/netavark:netavark
    /usr/lib/podman/aardvark-dns:aardvark-dns newuidmap:uidmap catatonit:catatonit
    iptables:iptables debootstrap:debootstrap git:git python3:python3
    tar:tar)
if $all; then
    wanted+=(dockerd:docker.io docker:docker.io docker-compose:docker-compose
        slirp4netns:slirp4netns setpriv:util-linux useradd:passwd /usr/bin/python3:python3)
fi
mapfile -t packages < <(missing_packages "${wanted[@]}")
if ((${#packages[@]} > 0)); then
    echo "tests/deploy installs (apt-get): ${packages[*]}"
    may_install || give_up "these packages are missing, and this is not root with apt-get: ${packages[*]}"
    install_packages "${packages[@]}" || give_up "apt-get install ${packages[*]} failed"
fi
[[ $(id -u) == 0 ]] || give_up "run it as root: it starts podman as root, and as other users"
if ! command -v podman-compose >/dev/null && ! $base_only; then
    echo "tests/deploy installs (pip): podman-compose"
    python3 -m pip install --quiet --root-user-action=ignore podman-compose==1.6.0 ||
        python3 -m pip install --quiet --break-system-packages podman-compose==1.6.0 ||
        give_up "pip install podman-compose failed"
    hash -r
fi
if [[ ! -e /etc/containers/containers.conf ]]; then
    echo "tests/deploy writes /etc/containers/containers.conf: runc, without systemd"
    mkdir -p /etc/containers
    printf '%s\n' '[containers]' 'default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]' \
        '[engine]' 'runtime = "runc"' 'cgroup_manager = "cgroupfs"' 'events_logger = "file"' \
        >/etc/containers/containers.conf
fi

# --- Images ------------------------------------------------------------------

BASE_IMAGE=localhost/tool-broker-test-base:bookworm
deploy=$(target_dir)/deploy
mkdir -p "$deploy"

make_base() {
    local tar=${DEPLOY_BASE_TAR:-$deploy/base.tar} made
    podman image exists "$BASE_IMAGE" && return
    if [[ ! -e $tar ]]; then
        echo "makes a base image: debootstrap, a minute"
        made=$(mktemp -d "$deploy/base.XXXXXX")
        debootstrap --variant=minbase bookworm "$made" >"$deploy/debootstrap.log" 2>&1 ||
            { tail -n 5 "$deploy/debootstrap.log"; rm -rf -- "$made"; return 1; }
        rm -rf -- "$made"/var/cache/apt/archives/*.deb
        tar -C "$made" -c . >"$tar.new"
        rm -rf -- "$made"
        mv -- "$tar.new" "$tar"
    fi
    podman import "$tar" "$BASE_IMAGE" >/dev/null 2>"$deploy/import.log" || { cat "$deploy/import.log"; return 1; }
}

(
    # One at a time: scripts/test.sh begins early, in the background.
    exec 9>"$deploy/lock"
    flock 9
    make_base
) || give_up "no base image: see above"
if $base_only; then exit 0; fi

bin=$(target_dir)/release
[[ -x $bin/tool-server && -x $bin/tool-client ]] || give_up "$bin has no tool-server and tool-client: cargo build --release"

# build KIND ARGUMENT...: the project's own Containerfile. The context is a copy of what
# it takes, with the programs that are there: nobody else's .prebuilt.
tag=$(printf '%s' "$deploy" | cksum | cut -d ' ' -f 1)
SERVER_IMAGE=localhost/tool-broker-test-server:$tag
CLAUDE_IMAGE=localhost/tool-broker-test-client:$tag
build() {
    local kind=$1 image=$2 context=$deploy/context
    shift 2
    rm -rf -- "$context"
    mkdir -p "$context/.prebuilt" "$context/deploy"
    cp "$bin/tool-server" "$bin/tool-client" "$context/.prebuilt/"
    cp -r "$root/server" "$root/client" "$root/.dockerignore" "$context/"
    cp "$root/deploy/proxy.toml" "$context/deploy/"
    podman build --quiet --network=host -f "$context/$kind/Containerfile" --build-arg BASE="$BASE_IMAGE" \
        --build-arg PREBUILT=.prebuilt "$@" -t "$image" "$context" >"$deploy/$kind.log" 2>&1 ||
        { tail -n 20 "$deploy/$kind.log"; return 1; }
}
echo "builds the images: the server's with git and python3 only, the agent's without an agent"
build server "$SERVER_IMAGE" --build-arg TOOL_PACKAGES="git openssh-client" --build-arg EXTRA_PACKAGES=python3 ||
    give_up "server/Containerfile does not build: see above"
build client "$CLAUDE_IMAGE" --build-arg AGENT_NPM= || give_up "client/Containerfile does not build: see above"

# --- The cases ---------------------------------------------------------------

export root bin BASE_IMAGE SERVER_IMAGE CLAUDE_IMAGE deploy all
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tbd.XXXXXX")
chmod 0755 "$scratch"
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# In a shell of its own, so that `set -e` holds in it.
run_case() {
    local file=$1 name=$2 status=0 why began=$SECONDS
    # Short: a socket's path has at most 107 bytes.
    local work=$scratch/$((passed + failed + skipped))
    export work
    mkdir "$work"
    chmod 0755 "$work"
    # shellcheck disable=SC2016
    timeout --kill-after=30 600 bash -c '
        set -euo pipefail
        umask 022
        source "$1/harness.sh"
        source "$2"
        trap end_case EXIT
        "$3"' case "$here" "$file" "$name" 3>"$scratch/why" >"$scratch/log" 2>&1 || status=$?
    why=$(sed -n 's/^WHY //p' "$scratch/why" | head -n 1)
    case $status in
        0)
            printf 'ok %s (%d s)\n' "$name" $((SECONDS - began))
            ((passed += 1))
            ;;
        77)
            printf 'skipped %s: %s\n' "$name" "$why"
            ((skipped += 1))
            ;;
        *)
            printf 'not ok %s: %s\n' "$name" "${why:-ended with $status}"
            tail -n 60 "$scratch/log" | sed 's/^/    /'
            ((failed += 1))
            ;;
    esac
    rm -rf -- "$work"
}

for file in "${files[@]}"; do
    [[ -f $file ]] || give_up "no such file: $file"
    # shellcheck disable=SC2016
    mapfile -t names < <(
        bash -c 'set -euo pipefail; source "$1/harness.sh"; source "$2"; "$3" && always+=("${long[@]}")
            ((${#always[@]} == 0)) || printf "%s\n" "${always[@]}"' list "$here" "$file" "$all" || true
    )
    ((${#names[@]} > 0)) || $all || continue
    echo "# ${file##*/}"
    for name in "${names[@]}"; do
        if ((${#only[@]} > 0)) && ! printf '%s\n' "${only[@]}" | grep -Fxq -- "$name"; then continue; fi
        run_case "$file" "$name"
    done
done
finish
}

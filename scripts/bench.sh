#!/usr/bin/env bash
# What a call costs, beside a direct start and beside other ways to have a
# program run elsewhere: installs those, builds, measures all in turn in one run,
# and writes bench/RESULTS.md and bench/results.svg. What people wrote at the end
# of bench/RESULTS.md is kept. Nothing depends on how fast the machine is.
#
#   scripts/bench.sh          the full run: less than 25 minutes
#   scripts/bench.sh quick    few rounds: less than 3 minutes, wide intervals
#   scripts/bench.sh files    the tools for files, beside a Node server of the same tools
#                             and ripgrep: a section of its own in bench/RESULTS.md; also
#                             files quick
#
# A peer that cannot be installed is left out, by name and with the reason.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
exec </dev/null
close_inherited

# In braces: bash reads all of it before it begins.
{
# The version is named: figures are of something.
node_server=@modelcontextprotocol/server-filesystem@2026.8.31
files() {
    local words=() scratch packages
    case "${1-}" in
        '') ;;
        quick) words=(quick) ;;
        *) die "no such option: $1; see scripts/bench.sh --help" ;;
    esac
    (($# <= 1)) || die "too many arguments; see scripts/bench.sh --help"
    mapfile -t packages < <(missing_packages node:nodejs npm:npm rg:ripgrep)
    if ((${#packages[@]} > 0)); then
        may_install || die "nothing can be measured without these packages: ${packages[*]}: install them"
        echo "It installs (apt-get): ${packages[*]}"
        install_packages "${packages[@]}" >/dev/null
    fi
    need_cargo
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf -- '$scratch'" EXIT
    echo "It makes a tree of 100,000 files (600 MB) in $scratch, and removes it at the end."
    npm install --silent --no-audit --no-fund --prefix "$scratch/npm" "$node_server"
    cd "$root"
    cargo build --release -p tool-server -p tool-broker-bench
    "$(target_dir)/release/bench-files" "${words[@]}" --node "$scratch/npm/node_modules" \
        --at "$scratch/work" --write "$root/bench"
    echo "written: a section of bench/RESULTS.md"
}

words=(--write "$root/bench")
case ${1-} in
    '') ;;
    files)
        files "${@:2}"
        exit
        ;;
    quick) words=(quick "${words[@]}") ;;
    -h | --help)
        sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
        exit
        ;;
    *) die "no such option: $1; see scripts/bench.sh --help" ;;
esac
(($# <= 1)) || die "too many arguments; see scripts/bench.sh --help"

# --- What has to be there ----------------------------------------------------

# Daemons live where a user's PATH may not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
needed=(/usr/bin/git:git cc:gcc cc:libc6-dev)
peers=(s6-sudo:s6 sudo:sudo socat:socat sshd:openssh-server ssh:openssh-client
    /usr/bin/python3:python3 strace:strace)

# A package that starts a service when it is installed must not do so here: an
# sshd on every interface is not what a bench leaves behind.
policy=/usr/sbin/policy-rc.d
made_policy=false
allow_services() {
    if $made_policy; then
        rm -f -- "$policy"
        made_policy=false
    fi
}

# Which sshd wants at its start, and the bench makes for it.
separation=/run/sshd
had_separation=false
[[ ! -e $separation ]] || had_separation=true
trap 'allow_services; $had_separation || rmdir -- "$separation" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One by one: what cannot be had keeps nothing else away.
install_peers() {
    local package
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made_policy=true
    fi
    for package in "$@"; do
        if ! install_packages "$package" >/dev/null 2>&1; then
            echo "$package could not be installed: what needs it is left out, and RESULTS.md says so"
        elif [[ $package == openssh-server ]] && command -v systemctl >/dev/null; then
            systemctl disable --quiet ssh.service ssh.socket >/dev/null 2>&1 || true
        fi
    done
    allow_services
}

mapfile -t packages < <(missing_packages "${needed[@]}" "${peers[@]}")
echo "This builds the project in $(target_dir), starts servers in a scratch directory and"
echo "measures. At the end they are stopped; bench/RESULTS.md and bench/results.svg are new."
if ((${#packages[@]} == 0)); then
    echo "It installs nothing."
elif may_install; then
    echo "It installs (apt-get), and starts no service of theirs: ${packages[*]}"
    install_peers "${packages[@]}"
else
    echo "Missing, and not installed (that needs root and apt-get): ${packages[*]}"
fi
need_cargo
mapfile -t packages < <(missing_packages "${needed[@]}")
((${#packages[@]} == 0)) || die "nothing can be measured without these packages: ${packages[*]}: install them"

# --- Building, measuring -----------------------------------------------------

cd "$root"
echo "\$ cargo build --release"
cargo build --release
# In this session: with one of its own a server would be in another group of the
# scheduler.
"$(target_dir)/release/bench" "${words[@]}"
echo "written: bench/RESULTS.md, bench/results.svg"
exit 0
}

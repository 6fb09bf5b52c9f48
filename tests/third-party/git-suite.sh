#!/usr/bin/env bash
# Runs a part of git's own test suite, first with /usr/bin/git itself, then with
# a `git` that is a symlink to tool-client. To the suite they must be the same.
# The last line of standard output:
#
#   git suite: P of N test cases passed in M scripts (K scripts fully green)
#
#   git-suite.sh [SCRIPT...]    these scripts of the suite (t0005-signals), by
#                               default all of git-suite.list
#   git-suite.sh --quick        the scripts that the list marks as quick
#   git-suite.sh --direct ...   with /usr/bin/git alone: is the yardstick right?
#   git-suite.sh --prepare      fetch and build, run nothing
#   git-suite.sh --needs        print the packages that are missing
#
# N is what the list says for this version of git; where it says nothing, what
# /usr/bin/git itself passes. A case that is skipped or never reached has not
# passed. What did not pass is named on standard error.
#
# Status: 0 all passed; 1 not all; 2 used wrongly, or it broke; 77 this machine
# cannot make the comparison, the reason on standard error: the source of git or
# a package is not there, or git itself does not pass.
#
# Environment:
#   GIT_SUITE_CACHE   where source and build are kept (default: third-party in
#                     cargo's target directory)
#   GIT_SUITE_BIN     where tool-server and tool-client are (default: release in
#                     cargo's target directory)
#   GIT_SUITE_JOBS    scripts at a time (default 2)
#   GIT_SUITE_LIMIT   seconds that a script may take (default 120)
#   GIT_SUITE_KEEP    a directory for each script's output, direct/ and client/
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/common.sh
source "$here/../../scripts/common.sh"
exec </dev/null
# Definitions that others may change are refused; modes are compared by tests.
umask 022

list=$here/git-suite.list
cache=${GIT_SUITE_CACHE:-$(target_dir)/third-party}
bin=${GIT_SUITE_BIN:-$(target_dir)/release}
jobs=${GIT_SUITE_JOBS:-2}
limit=${GIT_SUITE_LIMIT:-120}
# /usr/local may hold another git.
plain_path=/usr/bin:/bin:/usr/sbin:/sbin

# cannot WHY: there can be no comparison here.
cannot() {
    printf 'git suite: not possible here: %s\n' "$*" >&2
    exit 77
}

# --- What is asked for -------------------------------------------------------

direct_only=false
prepare_only=false
quick=false
chosen=()

missing() {
    missing_packages apt-get:apt dpkg-source:dpkg-dev make:make cc:gcc perl:perl \
        python3:python3 xz:xz-utils patch:patch setsid:util-linux
    # Headers are no commands.
    [[ -e /usr/include/stdio.h ]] || echo libc6-dev
    [[ -e /usr/include/zlib.h ]] || echo zlib1g-dev
}

while (($# > 0)); do
    case $1 in
        --direct) direct_only=true ;;
        --prepare) prepare_only=true ;;
        --quick) quick=true ;;
        --needs) missing && exit ;;
        -h | --help)
            sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
            exit
            ;;
        -*) printf 'git-suite.sh: no such option: %s; see --help\n' "$1" >&2 && exit 2 ;;
        *) chosen+=("${1%.sh}") ;;
    esac
    shift
done

# --- The suite, of exactly the version that is installed ----------------------

version=$(dpkg-query -W -f '${source:Version}' git 2>/dev/null) || true
[[ -n $version && -x /usr/bin/git ]] || cannot "git is not installed as a Debian package"
mapfile -t packages < <(missing)
((${#packages[@]} == 0)) || cannot "these packages are missing: ${packages[*]}"

# apt with this machine's sources, source packages too, and lists of its own: so
# it neither needs root nor changes what apt knows otherwise.
own_apt() {
    timeout 300 "$@" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$cache/apt/sources" \
        -o Dir::State::lists="$cache/apt/lists" -o Dir::Cache="$cache/apt/cache" \
        -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=20 \
        -o APT::Sandbox::User="$(id -un)"
}

own_sources() {
    local file
    mkdir -p "$cache"/apt/{sources,lists/partial,cache/archives/partial}
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -e $file ]] || continue
        sed 's/^Types:.*/Types: deb deb-src/' "$file" >"$cache/apt/sources/${file##*/}"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -e $file ]] || continue
        sed -n 's/^deb \(.*\)/deb \1\ndeb-src \1/p' "$file" >"$cache/apt/sources/from-${file##*/}.list"
    done
}

fetch() {
    own_sources
    rm -rf "$cache/fetched"
    mkdir "$cache/fetched"
    cd "$cache/fetched"
    # One source of several may be out of reach: what counts is whether the
    # packages come. libio-pty-perl is for the suite's terminals, unpacked and
    # not installed. apt compares all with its signed lists.
    own_apt apt-get update || true
    own_apt apt-get source --download-only "git=$version" \
        && own_apt apt-get download libio-pty-perl \
        && dpkg-deb -x libio-pty-perl_*.deb perl \
        && dpkg-source --no-check -x ./*.dsc git
}

build() {
    local options=(NO_OPENSSL=1 NO_CURL=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL_CPAN_FALLBACKS=1
        prefix=/usr gitexecdir=/usr/lib/git-core PYTHON_PATH=/usr/bin/python3
        PERL_PATH=/usr/bin/perl SHELL_PATH=/bin/sh CFLAGS=-O0)
    local modules
    cd "$cache/fetched/git"
    # The suite needs its helpers, the templates and the Perl modules; git is
    # the one that is installed.
    mapfile -t modules < <(find perl -name '*.pm' -not -path 'perl/build/*' \
        -not -path 'perl/FromCPAN/*' -not -path 'perl/Git/LoadCPAN/*' -printf 'perl/build/lib/%P\n')
    PATH=$plain_path make -j"$(nproc)" "${options[@]}" \
        GIT-BUILD-OPTIONS t/helper/test-tool t/helper/test-fake-ssh "${modules[@]}" \
        && PATH=$plain_path make -C templates "${options[@]}"
}

mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P)
# Without the epoch: a colon separates paths.
suite=$cache/git-${version#*:}
(
    # One at a time: several runs may share the cache.
    flock 9
    [[ ! -e $suite/t ]] || exit 0
    echo "fetching and building git's test suite, $version, in $cache" >&2
    (fetch) >"$cache/fetch.log" 2>&1 || {
        tail -n 3 "$cache/fetch.log" >&2
        cannot "the source of git $version cannot be fetched; see $cache/fetch.log"
    }
    (build) >"$cache/build.log" 2>&1 || {
        tail -n 3 "$cache/build.log" >&2
        printf 'git suite: the suite cannot be built; see %s\n' "$cache/build.log" >&2
        exit 2
    }
    mv "$cache/fetched/perl" "$cache/fetched/git/pty"
    mv "$cache/fetched/git" "$suite"
) 9>"$cache/lock"
if $prepare_only; then
    exit
fi

# --- The scripts -------------------------------------------------------------

# How many cases the list expects of a script: nothing if it does not say so for
# this version and user (some cases are not for root).
expected() {
    [[ $(sed -n 's/^# version //p' "$list") == "$version" && $(id -u) == 0 ]] || return 0
    awk -v name="$1" '$1 == name { print $2 }' "$list"
}

if ((${#chosen[@]} == 0)); then
    mapfile -t chosen < <(awk -v quick="$quick" \
        '!/^#/ && NF && (quick == "false" || $3 == "quick") { print $1 }' "$list")
fi
for name in "${chosen[@]}"; do
    [[ -e $suite/t/$name.sh ]] || {
        printf 'git-suite.sh: git has no test script %s\n' "$name" >&2
        exit 2
    }
done

# Cases that differ on purpose: the suite's own way to leave one out.
skipped=$(sed -n 's/^# skip \([^ ]*\) .*/\1/p' "$list" | tr '\n' ' ')

scratch=$(mktemp -d "${TMPDIR:-/tmp}/git-suite.XXXXXX")
if ((${#scratch} > 60)); then
    # Sockets beneath it: a socket's path has at most 107 bytes.
    rmdir -- "$scratch"
    scratch=$(mktemp -d /tmp/git-suite.XXXXXX)
fi
server=
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
    cd /
    chmod -R u+rwX "$scratch" 2>/dev/null || true
    rm -rf -- "$scratch"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Not in a work tree: a git that misses its environment would find, and change,
# the repository around it.
! /usr/bin/git -C "$scratch" rev-parse --git-dir >/dev/null 2>&1 \
    || cannot "$scratch lies in a git repository: set TMPDIR elsewhere"
mkdir -p "$scratch"/{workspace,home,run,state,tools.d/git,direct,client}
results=${GIT_SUITE_KEEP:-$scratch/results}
mkdir -p "$results"/{direct,client}
results=$(cd "$results" && pwd)
ln -s /usr/bin/git "$scratch/direct/git"

# run_script DIRECTORY-OF-GIT RESULTS SCRIPT: leaves RESULTS/SCRIPT.tap, .err,
# .status. Nothing of the caller's environment.
run_script() {
    local git=$1 to=$2 name=$3 status=0 pty
    pty=$(printf '%s:' "$suite"/pty/usr/lib/*/perl5/*)
    cd "$suite/t"
    # `timeout` ends the whole process group of a script that hangs.
    env -i PATH="$plain_path" HOME="$scratch/home" TERM=dumb SHELL=/bin/sh \
        PERL5LIB="${pty%:}" GIT_TEST_INSTALLED="$git" GIT_TEST_CHAIN_LINT=0 \
        GIT_SKIP_TESTS="$skipped" \
        TOOL_SOCKET="$scratch/run/tool.sock" TOOL_FORWARD_ENV='*' \
        setsid --wait timeout --kill-after=5 "$limit" \
        /bin/sh "./$name.sh" --root="$scratch/workspace" \
        >"$to/$name.tap" 2>"$to/$name.err" || status=$?
    echo "$status" >"$to/$name.status"
}

# run_all WHAT: WHAT is direct or client.
run_all() {
    export -f run_script
    export suite plain_path scratch limit skipped
    printf '%s\0' "${chosen[@]}" \
        | xargs -0 -P "$jobs" -n 1 bash -c 'run_script "$@"' - "$scratch/$1" "$results/$1"
}

# cases WHAT SCRIPT: the cases that passed, one on a line.
cases() {
    sed -n '/# skip/Id; /# TODO/d; s/^ok \([0-9]*\)/\1/p' "$results/$1/$2.tap" | sort
}

# judge WHAT: fills `total`, `passed`, `green`; names what did not pass.
judge() {
    local what=$1 name want got status lost
    total=0
    passed=0
    green=0
    for name in "${chosen[@]}"; do
        want=$(expected "$name")
        [[ -n $want ]] || want=$(cases direct "$name" | wc -l)
        got=$(cases "$what" "$name" | wc -l)
        status=$(<"$results/$what/$name.status")
        ((got <= want)) || got=$want
        ((total += want, passed += got)) || true
        if ((got == want && status == 0)); then
            ((green += 1))
            continue
        fi
        printf '%s: %d of %d, status %d%s\n' "$name" "$got" "$want" "$status" \
            "$( ((status != 124 && status != 137)) || echo " (longer than $limit s)")" >&2
        lost=$(grep '^not ok' "$results/$what/$name.tap" | grep -v '# TODO' || true)
        [[ $what == direct ]] \
            || lost=$(comm -23 <(cases direct "$name") <(cases client "$name"))
        [[ -z $lost ]] || printf '    %s\n' "${lost//$'\n'/$'\n    '}" >&2
    done
    printf 'git suite%s: %d of %d test cases passed in %d scripts (%d scripts fully green)\n' \
        "$([[ $what == client ]] || echo ", git itself")" \
        "$passed" "$total" "${#chosen[@]}" "$green"
}

all_passed() {
    ((passed == total && green == ${#chosen[@]} && total > 0))
}

# --- git itself --------------------------------------------------------------

run_all direct
judge direct
if $direct_only; then
    all_passed || exit 1
    exit 0
fi
all_passed || cannot "git itself does not pass its tests"

# --- git through the client ---------------------------------------------------

[[ -x $bin/tool-server && -x $bin/tool-client ]] || {
    printf 'git-suite.sh: %s has no tool-server and tool-client: cargo build --release\n' "$bin" >&2
    exit 2
}
cp "$bin/tool-client" "$scratch/client/tool-client"
ln -s tool-client "$scratch/client/git"
cat >"$scratch/tools.d/git/tool.toml" <<'END'
# Everything, for git's own tests; confined, with the Unix sockets that the
# credential cache lives by.
binary = "/usr/bin/git"
default = "allow"
timeout = 3600
[env]
forward = ["*"]
[sandbox]
sockets = ["unix"]
END
settings=(
    TOOL_SOCKET="$scratch/run/tool.sock"
    STATE_DIR="$scratch/state"
    TOOLS_DIR="$scratch/tools.d"
    RESTRICTED_DIR="$scratch/restricted"
    WORKSPACE="$scratch/workspace:$suite"
)
as_server() {
    env -i PATH="$plain_path" HOME="$scratch/home" "${settings[@]}" "$bin/tool-server" "$@"
}
env -i PATH="$plain_path" HOME="$scratch/home" "${settings[@]}" \
    "$bin/tool-server" serve >"$results/server.log" 2>&1 &
server=$!
for ((tries = 0; ; tries++)); do
    as_server health >/dev/null 2>&1 && break
    if ! kill -0 "$server" 2>/dev/null || ((tries > 100)); then
        cat "$results/server.log" >&2
        printf 'git-suite.sh: the server did not start; its log is above\n' >&2
        exit 2
    fi
    sleep 0.1
done

run_all client
judge client
all_passed

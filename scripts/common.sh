# shellcheck shell=bash
# What demo.sh and test.sh share: words for people, and what has to be
# installed. To be sourced; expects `set -euo pipefail`.

# The root of the project: both scripts run there.
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Closes what this shell was started with beyond 2, but for the script itself
# (255): whatever is open reaches every tool that is called.
close_inherited() {
    local fd
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        ((fd <= 2 || fd == 255)) || eval "exec $fd>&-"
    done
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Whether version $1 is at least version $2.
at_least() {
    [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

# The oldest Rust that the workspace is built with.
rust_wanted() {
    sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml"
}

# The version of the cargo that the project would be built with, if any.
cargo_version() {
    (cd "$root" && cargo --version 2>/dev/null) | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

has_new_cargo() {
    command -v cargo >/dev/null && at_least "$(cargo_version)" "$(rust_wanted)"
}

# Whether packages can be installed here.
may_install() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null
}

# The Debian packages of those commands that are missing. Pairs COMMAND:PACKAGE; a
# command that definitions or tests name by its path is looked for there.
missing_packages() {
    local pair
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || printf '%s\n' "${pair#*:}"
    done | sort -u
}

apt_updated=false

# Installs packages; says nothing but errors.
install_packages() {
    if ! $apt_updated; then
        apt-get update -qq >/dev/null || printf 'apt-get update failed: going on with the lists that are there\n' >&2
        apt_updated=true
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# A cargo that is new enough, or the end. In this order: the one that is there,
# an existing rustup's, the distribution's.
need_cargo() {
    local wanted candidate
    wanted=$(rust_wanted)
    # A rustup that was installed a moment ago is not yet on every PATH.
    if ! command -v cargo >/dev/null && [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    has_new_cargo && return
    if command -v rustup >/dev/null; then
        printf 'rustup has no Rust %s or later: updating its stable toolchain\n' "$wanted"
        rustup toolchain install stable --profile default
        has_new_cargo && return
    elif may_install; then
        apt-get update -qq >/dev/null || true
        apt_updated=true
        candidate=$(apt-cache policy cargo | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
        if [[ -n $candidate ]] && at_least "$candidate" "$wanted"; then
            printf 'installing: cargo rustc\n'
            install_packages cargo rustc
            has_new_cargo && return
        fi
    fi
    die "Rust $wanted or later is needed: install it with rustup (https://rustup.rs), then run this again"
}

# Where cargo puts what it builds.
target_dir() {
    local dir=${CARGO_TARGET_DIR:-target}
    case $dir in
        /*) printf '%s\n' "$dir" ;;
        *) printf '%s\n' "$root/$dir" ;;
    esac
}

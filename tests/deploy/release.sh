#!/usr/bin/env bash
# shellcheck shell=bash disable=SC2154
# The tarball of scripts/release.sh: unpacked somewhere, it does the main job, without a
# container. Cases for run.sh; run by itself it runs them too, which needs no container:
#
#   tests/deploy/release.sh [DIR]      DIR: the built programs; target/release

# The tarball, made once of the same sources and programs; prints its path.
release_tarball() {
    local key made
    key=$(cd "$root" && { git rev-parse HEAD && git diff HEAD && sha256sum "$bin/tool-server" "$bin/tool-client"; } | sha256sum | cut -c1-16)
    made=${deploy:-$work}/release-$key
    mkdir -p "$made"
    (
        exec 9>"$made/lock"
        flock 9
        [[ -e $made/complete ]] || "$root/scripts/release.sh" --programs "$bin" --to "$made" >&2
        touch "$made/complete"
    )
    printf '%s\n' "$made"/tool-broker-*.tar.gz
}

# Unpacks it beneath $work; prints where.
unpacked() {
    local tarball
    tarball=$(release_tarball)
    (cd "$(dirname "$tarball")" && sha256sum --check --quiet "${tarball##*/}.sha256") >&2
    tar -xzf "$tarball" -C "$work"
    printf '%s\n' "$work"/tool-broker-*/
}

an_unpacked_tarball_does_the_main_job() {
    local there server
    there=$(unpacked)
    (cd "$there" && sha256sum --check --quiet SHA256SUMS)
    mkdir -p "$work/ws" "$work/agent/bin" "$work/run"
    # Nothing of the checkout's: another directory, another environment.
    cd "$work"
    environment=(env -i PATH=/usr/bin:/bin HOME="$work" TOOLS_DIR="${there}tools.d" WORKSPACE="$work/ws"
        STATE_DIR="$work/state" TOOL_SOCKET="$work/run/tool.sock")
    "${environment[@]}" "${there}bin/tool-server" check
    cp "${there}bin/tool-client" agent/bin/
    "${environment[@]}" "${there}bin/tool-server" link "$work/agent/bin"
    "${environment[@]}" "${there}bin/tool-server" serve 2>"$work/log" &
    server=$!
    # shellcheck disable=SC2064
    trap "kill $server 2>/dev/null || :; wait $server || :" RETURN
    for _ in $(seq 600); do
        "${environment[@]}" "$work/agent/bin/tool-client" --health >/dev/null 2>&1 && break
        sleep 0.1
    done
    cd "$work/ws"
    agent=(env -i PATH="$work/agent/bin:/bin" TOOL_SOCKET="$work/run/tool.sock" LANG=C)
    [[ $("${agent[@]}" tool-client git --version) == "git version "* ]]
    [[ $("${agent[@]}" git --version) == "git version "* ]]
    "${agent[@]}" git init --quiet .
    [[ -d .git ]]
    # Refused as the definitions of the tarball say.
    status=0
    "${agent[@]}" git push origin --delete main >"$work/refused" 2>&1 || status=$?
    cat "$work/refused"
    [[ $status == 126 ]]
    grep -q 'push-delete-protected' "$work/refused"
}

a_release_has_the_same_bytes_each_time() {
    local first again
    first=$(release_tarball)
    mkdir -p "$work/again" "$work/elsewhere"
    # Another umask, another directory for temporary files, another time of day.
    (umask 077 && TMPDIR=$work/elsewhere "$root/scripts/release.sh" --programs "$bin" --to "$work/again")
    again=$(printf '%s\n' "$work"/again/*.tar.gz)
    cmp "$first" "$again"
    # And nothing of this machine.
    tar --numeric-owner -tvzf "$first" | awk '$2 != "0/0" { print; bad = 1 } END { exit bad }'
}

a_tarball_has_pages_completions_units_and_licences() {
    local there verb
    there=$(unpacked)
    "${there}bin/tool-server" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p' | grep -vx help >"$work/verbs"
    [[ $(wc -l <"$work/verbs") -gt 10 ]]
    while read -r verb; do
        [[ -s ${there}share/man/man1/tool-server-$verb.1 ]] || { echo "no page of $verb" >&2; return 1; }
    done <"$work/verbs"
    if command -v man >/dev/null; then
        LC_ALL=C.UTF-8 man --warnings -l "${there}share/man/man1/tool-client.1" 2>"$work/warnings" >"$work/page"
        grep -q 'EXIT STATUS' "$work/page"
        [[ ! -s $work/warnings ]]
    fi
    # What the shell offers is what there is.
    # shellcheck disable=SC2016
    bash -c 'set -e; source "$1"; COMP_WORDS=(tool-server app); COMP_CWORD=1; COMPREPLY=()
        function=$(complete -p tool-server | sed "s/.*-F \([^ ]*\) .*/\1/")
        "$function" tool-server app tool-server; printf "%s\n" "${COMPREPLY[@]}"' \
        complete "${there}share/completions/tool-server.bash" | grep -qx approve
    [[ -s ${there}share/completions/_tool-server && -s ${there}share/completions/tool-server.fish ]]
    [[ -s ${there}deploy/systemd/tool-server.service && -s ${there}LICENSE-MIT ]]
    grep -q '^  rustls [0-9.]*: ' "${there}THIRD-PARTY"
    grep -q 'Permission is hereby granted' "${there}THIRD-PARTY"
    # Only what builds or documents is named nowhere.
    ! grep -q '^  clap_mangen ' "${there}THIRD-PARTY"
}

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then
    cases an_unpacked_tarball_does_the_main_job a_release_has_the_same_bytes_each_time \
        a_tarball_has_pages_completions_units_and_licences
    return
fi

# By itself.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/common.sh
source "$root/scripts/common.sh"
bin=${1:-$(target_dir)/release}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tool-release-test.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
export root bin deploy=$scratch/deploy
bad=0
for name in an_unpacked_tarball_does_the_main_job a_release_has_the_same_bytes_each_time \
    a_tarball_has_pages_completions_units_and_licences; do
    mkdir "$scratch/$name"
    # shellcheck disable=SC2016
    if work=$scratch/$name bash -c 'set -euo pipefail; cases() { :; }; source "$1"; "$2"' \
        case "${BASH_SOURCE[0]}" "$name" >"$scratch/log" 2>&1; then
        echo "ok $name"
    else
        echo "not ok $name"
        tail -n 30 "$scratch/log" | sed 's/^/    /'
        bad=1
    fi
done
exit "$bad"

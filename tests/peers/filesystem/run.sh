#!/usr/bin/env bash
# The same attacks on `tool-server mcp` and on @modelcontextprotocol/server-filesystem, side
# by side: a table, and status 1 where one of them did harm to ours. What the others do is
# told and no more.
#
#   tests/peers/filesystem/run.sh DIRECTORY-OF-TOOL-SERVER [ROUNDS [VERSION...]]
#
# ROUNDS: calls in each race; 20000. PEER_MODULES: where what it needs is kept; else it is
# installed and removed.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
# In memory the attackers of races are faster.
[[ -n ${TMPDIR:-} || ! -w /dev/shm ]] || export TMPDIR=/dev/shm
attacks=$(dirname "$(realpath "$0")")
# shellcheck source=../../mcp/lib.sh
source "$attacks/../../mcp/lib.sh"
rounds=${2:-20000}
shift "$(($# > 2 ? 2 : $#))"
versions=("$@")
# The last one with the faults that were published, and the one that bench/RESULTS.md has.
((${#versions[@]} > 0)) || versions=(2025.3.28 2026.8.31)

# shellcheck disable=SC2119 # what this script is given is not the server's
serve
"$attacks/attack.py" broker "$scratch/ws" --rounds "$rounds" --pid "$server" -- \
    "$programs/tool-server" mcp >"$scratch/ours"
columns=("tool-server=$scratch/ours")
for version in "${versions[@]}"; do
    modules=${PEER_MODULES:-$scratch/modules}/$version
    package=$modules/node_modules/@modelcontextprotocol/server-filesystem
    if [[ ! -e $package ]]; then
        mkdir -p "$modules"
        npm install --silent --no-audit --no-fund --prefix "$modules" \
            "@modelcontextprotocol/server-filesystem@$version"
    fi
    mkdir -p "$scratch/$version/ws"
    "$attacks/attack.py" peer "$scratch/$version/ws" --rounds "$rounds" --patience 5 -- \
        node "$package/dist/index.js" "$scratch/$version/ws" >"$scratch/$version.told"
    columns+=("server-filesystem $version=$scratch/$version.told")
done
[[ -z ${PEER_TOLD:-} ]] || cp "$scratch/ours" "$scratch"/*.told "$PEER_TOLD"
"$attacks/table.py" "${columns[@]}"
! grep -vE '"escaped": 0, "hung": 0, "grew": 0, "ended": 0, "damaged": 0,' "$scratch/ours"

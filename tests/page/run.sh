#!/usr/bin/env bash
# The status page in a real browser: run.sh SERVER [PICTURES]. Ends with 77 where there is no
# browser or its driver cannot be installed; PICTURES is a directory for screenshots.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
server=${1:?"run.sh SERVER [PICTURES]: name the program tool-server"}
pictures=${2:-}

cannot() {
    echo "page: not possible here: $*"
    exit 77
}

for chromium in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser; do
    [[ -n $chromium && -x $chromium ]] && break
done
[[ -x $chromium ]] || cannot "there is no chromium: apt-get install chromium, or set CHROMIUM"
command -v node >/dev/null || cannot "node is not installed"
command -v npm >/dev/null || cannot "npm is not installed"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$scratch/"
(cd "$scratch" && npm ci --silent --no-audit --no-fund --ignore-scripts) >"$scratch/npm" 2>&1 ||
    cannot "npm ci failed: $(tail -n 1 "$scratch/npm")"
[[ -z $pictures ]] || mkdir -p "$pictures"
node "$here/drive.mjs" "$server" "$chromium" "$scratch" "$pictures"

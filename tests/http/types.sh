#!/usr/bin/env bash
# Writes docs/openapi.json, as a server with no tools but its own gives it, and
# docs/tool-server.d.ts, the same as types for TypeScript. With --check it writes nothing,
# and fails where they would be others.
#
#   tests/http/types.sh [--check] DIRECTORY-OF-TOOL-SERVER
#
# OPENAPI_TYPESCRIPT: the program of that name; else npx fetches it.
set -euo pipefail

version=7.13.0
check=
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
project=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/mcp/lib.sh
source "$project/tests/mcp/lib.sh" "${1:?the directory of tool-server}"

# shellcheck disable=SC2119 # without further variables
serve --insecure-no-auth
# shellcheck disable=SC2154 # set by lib.sh
curl -sSf "http://$address/openapi.json" |
    python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin), indent=1, sort_keys=True, ensure_ascii=False))' \
        >"$scratch/openapi.json"
if [ -n "${OPENAPI_TYPESCRIPT:-}" ]; then
    "$OPENAPI_TYPESCRIPT" "$scratch/openapi.json" --default-non-nullable=false -o "$scratch/tool-server.d.ts" >/dev/null
else
    npx -y "openapi-typescript@$version" "$scratch/openapi.json" --default-non-nullable=false -o "$scratch/tool-server.d.ts" >/dev/null
fi
for name in openapi.json tool-server.d.ts; do
    if [ -z "$check" ]; then
        cp "$scratch/$name" "$project/docs/$name"
    elif ! cmp -s "$scratch/$name" "$project/docs/$name"; then
        diff -u "$project/docs/$name" "$scratch/$name" | head -40 >&2 || true
        echo "types.sh: docs/$name is not what the server gives: run tests/http/types.sh" >&2
        exit 1
    fi
done

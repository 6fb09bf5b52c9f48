#!/usr/bin/env bash
# The official conformance suite of MCP against the door for HTTP: its released version by
# the protocol's versions with sessions, its next one by 2026-07-28.
#
#   tests/mcp/conformance.sh DIRECTORY-OF-TOOL-SERVER
#
# MCP_NODE: a directory with node_modules that is kept; else one is made and removed. What
# the suite calls is in fixtures, as far as a tool can be it; what is expected to fail, and
# why: expected-failures.yml and expected-failures-2026-07-28.yml.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$(realpath "$0")")/lib.sh"

modules=${MCP_NODE:-$scratch/node}
if [[ ! -e $modules/node_modules/@modelcontextprotocol/conformance || ! -e $modules/node_modules/conformance-next ]]; then
    mkdir -p "$modules"
    # Its node: distributions have older ones.
    npm install --silent --no-audit --no-fund --prefix "$modules" "${conformance[@]}"
fi

for script in "$here"/fixtures/*; do
    name=${script##*/} rules='default = "allow"'
    # An error is a refusal: a program that fails has run.
    [[ $name != test_error_handling ]] || rules='default = "deny"'
    install -m 755 "$script" "$scratch/bin/$name"
    tool "$name" "binary = \"$scratch/bin/$name\""$'\n'"$rules"
done
serve --insecure-no-auth

# suite PACKAGE EXPECTED [OPTION...]
suite() {
    local package=$1 expected=$2 status=0
    shift 2
    (cd "$scratch" && "$modules/node_modules/.bin/node" "$modules/node_modules/$package/dist/index.js" server \
        --url "http://$address/mcp" --suite all --expected-failures "$here/$expected" "$@") \
        >"$scratch/said" 2>&1 || status=$?
    if ((status == 0)); then
        sed -n '/=== SUMMARY/,$p' "$scratch/said"
    else
        cat "$scratch/said"
    fi
    return "$status"
}
failed=0
# Its resources have names of its own (test://…): the same checks on files of the workspace.
by_our_names() {
    local dist=$modules/node_modules/@modelcontextprotocol/conformance/dist scenario status=0
    mkdir -p "$scratch/ws/template/123"
    echo "This is the content of the static text resource." >"$scratch/ws/static-text"
    "$scratch/bin/test_image_content" >"$scratch/ws/static-binary"
    echo '{"id":"123"}' >"$scratch/ws/template/123/data"
    sed "s#test://\(static-text\|static-binary\|template\)#file://$scratch/ws/\1#g" "$dist/index.js" >"$dist/renamed.js"
    for scenario in resources-read-text resources-read-binary resources-templates-read; do
        (cd "$scratch" && "$modules/node_modules/.bin/node" "$dist/renamed.js" server \
            --url "http://$address/mcp" --scenario "$scenario") >"$scratch/said" 2>&1 ||
            { status=1 && cat "$scratch/said"; }
    done
    rm "$dist/renamed.js"
    ((status != 0)) || echo "three scenarios of resources pass on files of the workspace"
    return "$status"
}
by_our_names || failed=1
suite @modelcontextprotocol/conformance expected-failures.yml || failed=1
suite conformance-next expected-failures-2026-07-28.yml --spec-version 2026-07-28 || failed=1
exit "$failed"

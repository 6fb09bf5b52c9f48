#!/usr/bin/env bash
# Asks every route of the HTTP door by its own OpenAPI document, with schemathesis: no 5xx
# that is not said, no answer but what the document says, no refused token that passes.
#
#   tests/http/schemathesis.sh DIRECTORY-OF-TOOL-SERVER [OPTION-OF-SCHEMATHESIS…]
#
# SCHEMATHESIS_VENV: a virtual environment that is kept; else one is made and removed.
# Left out: positive_data_acceptance. A schema cannot say which globs and regular expressions
# can be read, which texts a file has, that of two members one is given where a third is not,
# that a text holds no NUL, or that 637.0, which JSON Schema calls an integer, is written 637.
set -euo pipefail

version=4.32.5
# shellcheck source=tests/mcp/lib.sh
source "$(dirname "$0")/../mcp/lib.sh" "${1:?the directory of tool-server}"
shift

venv=${SCHEMATHESIS_VENV:-$scratch/venv}
if ! [ -x "$venv/bin/schemathesis" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" -q install "schemathesis==$version"
fi

tool echo 'binary = "/bin/echo"
description = "says what it is told"
default = "allow"'
# shellcheck disable=SC2154 # set by lib.sh
printf '{"name":"demo"}\n' >"$scratch/ws/package.json"
# As generated paths often are.
printf 'a\nb\n0\n' >"$scratch/ws/0"
serve RATE_LIMIT_MAX=100000000 LOGGING_ENABLED=false TOOL_TIMEOUTS_TOOL=5

# It leaves files where it runs, and is set up there.
cd "$scratch"
# A program that is given a millisecond does not end in it: 504 says so.
cat >schemathesis.toml <<'END'
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "504"]
END
status=0
# A stream has no end that it would wait for, and messages of MCP are MCP's to say: tests/mcp.
# shellcheck disable=SC2154 # set by lib.sh
"$venv/bin/schemathesis" run "http://$address/openapi.json" \
    --header "Authorization: Bearer $token" \
    --exclude-path /events --exclude-path /mcp \
    --checks all --exclude-checks positive_data_acceptance \
    --request-timeout 60 --max-examples "${SCHEMATHESIS_EXAMPLES:-50}" --seed 7 --no-color "$@" || status=$?
if ! kill -0 "$server" 2>/dev/null; then
    tail -20 "$scratch/log" >&2
    echo "schemathesis.sh: the server has ended" >&2
    status=1
fi
exit "$status"

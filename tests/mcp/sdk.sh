#!/usr/bin/env bash
# Drives every tool through official SDKs of MCP, at both doors.
#
#   tests/mcp/sdk.sh DIRECTORY-OF-TOOL-SERVER python|typescript
#
# MCP_VENV, MCP_NODE: where what it needs is kept; else it is installed and removed. The
# calls are in calls.json; npm's are made where there is a /usr/bin/npm, which tools see.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$(realpath "$0")")/lib.sh"

case ${2:-} in
    python)
        venv=${MCP_VENV:-$scratch/venv}
        if [[ ! -x $venv/bin/python ]]; then
            python3 -m venv "$venv"
            "$venv/bin/pip" -q install "$python_sdk"
        fi
        drive=("$venv/bin/python" "$here/python.py")
        ;;
    typescript)
        modules=${MCP_NODE:-$scratch/node}
        if [[ ! -e $modules/node_modules/@modelcontextprotocol/sdk ]]; then
            mkdir -p "$modules"
            npm install --silent --no-audit --no-fund --prefix "$modules" "$typescript_sdk"
        fi
        drive=(node "$here/typescript.mjs" "$modules")
        ;;
    *)
        echo "usage: ${0##*/} DIRECTORY-OF-TOOL-SERVER python|typescript" >&2
        exit 2
        ;;
esac
tool echo 'binary = "/bin/echo"
default = "allow"'
if [[ -x /usr/bin/npm ]]; then
    tool npm 'binary = "/usr/bin/npm"
default = "allow"'
fi
# shellcheck disable=SC2119 # it has an argument where there is to be no token
serve
echo "standard input and output: $("${drive[@]}" pipe "$programs/tool-server")"
rm -rf "$scratch"/ws/{py,ts}*
echo "HTTP: $("${drive[@]}" "http://$address/mcp" "$token")"

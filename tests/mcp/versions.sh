#!/usr/bin/env bash
# For the scripts here, and scripts/test.sh: which versions of others' clients are taken.
# To be read by `source`.
# shellcheck disable=SC2034 # of those who read this

# The suite as it is released, its next version, and the node that they need.
conformance=(@modelcontextprotocol/conformance@0.1.16
    conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3)
python_sdk=mcp==2.3.0
typescript_sdk=@modelcontextprotocol/sdk@1.32.2

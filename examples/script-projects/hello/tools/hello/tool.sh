#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

mcp_emit_text "Hello, $(mcp_args_get '.name // "World"')!"

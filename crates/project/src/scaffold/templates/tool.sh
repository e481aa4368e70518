#!/usr/bin/env bash
# What this prints is the result. See tool.meta.json for what clients are told about it.
set -euo pipefail
source "${MCP_SDK:?run me with: tidings run-tool @NAME@}/tool-sdk.sh"

name="$(mcp_args_get '.name // "World"')"

mcp_log_info "@NAME@" "greeting ${name}"
mcp_result_success "$(mcp_json_obj message "Hello, ${name}!")"

#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

# Ends with an error when the path is outside the roots, links and dots included.
path="$(mcp_require_path '.path')"
[ -f "${path}" ] || mcp_fail_invalid_args "there is no file ${path}"

mcp_log_info read-file "$(mcp_roots_count) roots"
cat "${path}"

#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

mcp_log_debug logger "seen by those who asked for debug"
mcp_log_info logger "the work begins"
mcp_log_warn logger "something looks odd"
mcp_log_error logger "something went wrong"
mcp_log notice logger '{"text": "data may be any JSON", "answer": 42}'
echo "a line for the operator, not for the client" >&2

mcp_emit_text "Logged."

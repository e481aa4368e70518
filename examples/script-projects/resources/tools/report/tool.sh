#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

# A file that goes along with the result. It is read when the tool has ended.
mcp_result_text_with_resource "$(mcp_json_obj message "See the report.")" \
	--path "${MCPBASH_PROJECT_ROOT}/resources/greeting.txt" --mime text/plain

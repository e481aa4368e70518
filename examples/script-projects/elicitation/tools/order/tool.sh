#!/usr/bin/env bash
set -uo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

field() { printf '%s' "$1" | "${MCPBASH_JSON_TOOL_BIN}" -r "$2"; }

answer="$(mcp_elicit_confirm "Shall I order a coffee?")"
if [ "$(field "${answer}" .action)" != accept ] || [ "$(field "${answer}" .content.confirmed)" != true ]; then
	mcp_result_success "$(mcp_json_obj status "nothing ordered" action "$(field "${answer}" .action)")"
	exit 0
fi
answer="$(mcp_elicit_titled_choice "Which size?" "s:Small" "l:Large (for long days)")"
if [ "$(field "${answer}" .action)" != accept ]; then
	mcp_error cancelled "no size was chosen" --hint "Call again and choose one."
	exit 0
fi
mcp_result_success "$(mcp_json_obj status ordered size "$(field "${answer}" .content.choice)")"

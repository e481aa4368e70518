#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

steps="$(mcp_args_int '.steps' --default 5 --min 1 --max 100)"
pause="$(mcp_args_get '.pause // 0.2')"

for ((step = 1; step <= steps; step++)); do
	if mcp_is_cancelled; then
		mcp_fail -32001 "stopped after ${step} steps"
	fi
	mcp_progress $((step * 100 / steps)) "step ${step} of ${steps}" 100
	sleep "${pause}"
done
mcp_emit_text "Counted to ${steps}."

#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?}/tool-sdk.sh"

text="$(mcp_args_require '.text' 'text is required: what shall be repeated?')"
times="$(mcp_args_int '.times' --default 2 --min 1 --max 10)"
loud="$(mcp_args_bool '.loud' --default false)"

if [ "${#text}" -gt 100 ]; then
	mcp_error validation_error "the text is too long" \
		--hint "Use at most 100 characters." --data "$(mcp_json_obj length "${#text}")"
	exit 0
fi
if [ "${loud}" = true ]; then
	text="$(printf '%s' "${text}" | tr '[:lower:]' '[:upper:]')"
fi

parts=()
for ((i = 0; i < times; i++)); do
	parts+=("${text}")
done
mcp_result_success "$(mcp_json_arr "${parts[@]}")"

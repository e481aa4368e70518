#!/usr/bin/env bash
# Prints suggestions for what was typed so far, as a JSON array of strings.
set -euo pipefail

typed="$(printf '%s' "${MCP_COMPLETION_ARGS_JSON:-null}" | "${MCPBASH_JSON_TOOL_BIN:-jq}" -r '(.query // .prefix // "")?')"

printf '%s\n' red orange yellow green blue |
	"${MCPBASH_JSON_TOOL_BIN:-jq}" -Rnc --arg typed "${typed}" '[inputs | select(startswith($typed))]'

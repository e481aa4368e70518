#!/usr/bin/env bash
set -euo pipefail

typed="$(printf '%s' "${MCP_COMPLETION_ARGS_JSON:-null}" | "${MCPBASH_JSON_TOOL_BIN:-jq}" -r '(.query // .prefix // "")?')"
limit="${MCP_COMPLETION_LIMIT:-5}"
offset="${MCP_COMPLETION_OFFSET:-0}"

printf '%s\n' Athens Berlin Bern Bergen Bologna Lisbon London Lyon Rome |
	"${MCPBASH_JSON_TOOL_BIN:-jq}" -Rnc --arg typed "${typed}" --argjson limit "${limit}" --argjson offset "${offset}" '
		[inputs | select(ascii_downcase | startswith($typed | ascii_downcase))] as $all
		| {
			suggestions: $all[$offset:$offset + $limit],
			hasMore: (($all | length) > $offset + $limit),
			next: ($offset + $limit)
		}'

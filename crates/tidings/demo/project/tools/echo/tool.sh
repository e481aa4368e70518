#!/bin/sh
# Says what it is told. What a tool prints is its result.
# Change the text below and save: connected clients can call the new one at once.
if [ -n "${MCP_TOOL_ARGS_FILE:-}" ]; then
	exec "$MCPBASH_JSON_TOOL_BIN" -j '.text // ""' "$MCP_TOOL_ARGS_FILE"
fi
printf '%s' "${MCP_TOOL_ARGS_JSON:-null}" | "$MCPBASH_JSON_TOOL_BIN" -j '.text // ""'

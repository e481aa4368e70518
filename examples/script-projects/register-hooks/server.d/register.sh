#!/usr/bin/env bash
# Registers one tool for every line of tools.list. It runs again and again: it must be quick and change nothing.
set -euo pipefail

mcp_tools_manual_begin
while read -r name description; do
	[ -n "${name}" ] || continue
	mcp_tools_register_manual "{\"name\":\"${name}\",\"description\":\"${description}\",\"path\":\"say/tool.sh\",\"inputSchema\":{\"type\":\"object\"}}"
done <"${MCPBASH_PROJECT_ROOT}/tools.list"
mcp_tools_manual_finalize

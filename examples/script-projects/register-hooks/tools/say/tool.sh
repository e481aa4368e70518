#!/bin/sh
# @describe Says what its name says.
# One script, many tools: it is told under which name it was called.
case "${MCP_TOOL_NAME:-}" in
say-hello) echo "Hello." ;;
say-goodbye) echo "Goodbye." ;;
*) echo "I am ${MCP_TOOL_NAME:-nobody}." ;;
esac

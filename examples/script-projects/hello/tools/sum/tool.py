#!/usr/bin/env python3
# mcp:{"name":"sum","description":"Adds numbers.","inputSchema":{"type":"object","properties":{"numbers":{"type":"array","items":{"type":"number"}}},"required":["numbers"]}}
import json
import os

numbers = json.loads(os.environ["MCP_TOOL_ARGS_JSON"])["numbers"]
print(json.dumps({"sum": sum(numbers)}))

"""A server on stdio with 1,500 tools, some of which are hard for clients: a name of 120 bytes, an `anyOf` at the top of an input schema, an
output schema that is no object. Its tool `change_lists` brings one tool more, and says so.

Only the Python standard library is used.
"""

import json
import sys

LONG = "n" * 116 + "_end"
PAGE = 500
EITHER = {
    "type": "object",
    "anyOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False},
        {"properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False},
    ],
}


def tool(name, **rest):
    return {"name": name, "description": f"Does {name[:20]}.", "inputSchema": {"type": "object", "properties": {}}, **rest}


tools = [
    tool("change_lists"),
    tool(LONG),
    tool("either", inputSchema=EITHER),
    tool("refers", inputSchema={"type": "object", "properties": {"at": {"$ref": "#/$defs/At"}}, "$defs": {"At": {"type": "string"}}}),
    tool("lists", outputSchema={"type": "array"}),
]
tools += [tool(f"tool_{number:04}") for number in range(1500 - len(tools))]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method, params):
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "many-tools", "version": "1.0.0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        first = int(params.get("cursor", 0))
        rest = {"nextCursor": str(first + PAGE)} if first + PAGE < len(tools) else {}
        return {"tools": tools[first:first + PAGE], **rest}
    if method == "tools/call":
        if params["name"] == "change_lists" and tools[-1]["name"] != "added_later":
            tools.append(tool("added_later"))
            send({"method": "notifications/tools/list_changed"})
        return {"content": [{"type": "text", "text": f"called {params['name']}"}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"id": message["id"], "result": result})

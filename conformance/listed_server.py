"""An MCP server on a pipe whose tools are a file of JSON, and that says so when the file changes. Needs nothing but Python.

A tool named `slow` tells of its progress until it is cancelled or told to stop after some steps; one named `ask` asks before it answers."""

import json
import sys
import threading
import time
from pathlib import Path

FILE = Path(sys.argv[1])
LOCK = threading.Lock()


def send(message: dict) -> None:
    with LOCK:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def watch() -> None:
    known = FILE.read_bytes()
    while True:
        time.sleep(0.01)
        now = FILE.read_bytes()
        if now != known and now:
            known = now
            send({"method": "notifications/tools/list_changed"})


CANCELLED: set = set()
#: The calls that wait for an answer, by the number of the question.
ASKED: dict = {}


def slow(request: dict) -> None:
    params = request["params"]
    token, steps = params.get("_meta", {}).get("progressToken"), params.get("arguments", {}).get("steps", 1000)
    for step in range(1, steps + 1):
        if request["id"] in CANCELLED:
            return
        if token is not None:
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": steps, "message": f"step {step}"}})
        time.sleep(0.05)
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": f"{steps} steps"}]}})


for line in sys.stdin:
    request = json.loads(line)
    if "method" not in request:
        if call := ASKED.pop(request["id"], None):
            content = [{"type": "text", "text": "answered " + json.dumps(request.get("result"))}]
            send({"id": call, "result": {"content": content}})
        continue
    if "id" not in request:
        if request["method"] == "notifications/initialized":
            threading.Thread(target=watch, daemon=True).start()
        if request["method"] == "notifications/cancelled":
            CANCELLED.add(request["params"]["requestId"])
        continue
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}}
            send({"id": request["id"], "result": {**result, "serverInfo": {"name": "listed", "version": "1"}}})
        case "tools/list":
            send({"id": request["id"], "result": {"tools": json.loads(FILE.read_text())}})
        case "tools/call" if request["params"]["name"] == "slow":
            threading.Thread(target=slow, args=(request,), daemon=True).start()
        case "tools/call" if request["params"]["name"] == "ask":
            number = f"question-{len(ASKED)}-{request['id']}"
            ASKED[number] = request["id"]
            schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
            send({"id": number, "method": "elicitation/create", "params": {"message": "Which colour?", "requestedSchema": schema}})
        case "tools/call":
            content = [{"type": "text", "text": json.dumps(request["params"].get("arguments"))}]
            send({"id": request["id"], "result": {"content": content}})
        case "ping":
            send({"id": request["id"], "result": {}})
        case _:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})

"""An MCP server on a pipe whose tools are a file of JSON, and that says so when the file changes. Needs nothing but Python."""

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


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        if request["method"] == "notifications/initialized":
            threading.Thread(target=watch, daemon=True).start()
        continue
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}}
            send({"id": request["id"], "result": {**result, "serverInfo": {"name": "listed", "version": "1"}}})
        case "tools/list":
            send({"id": request["id"], "result": {"tools": json.loads(FILE.read_text())}})
        case "tools/call":
            content = [{"type": "text", "text": json.dumps(request["params"].get("arguments"))}]
            send({"id": request["id"], "result": {"content": content}})
        case "ping":
            send({"id": request["id"], "result": {}})
        case _:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})

"""A server that takes its time: it answers whoever wants to follow a resource late, and the resource changes meanwhile.

On stdio, in the era that is named, and without an SDK: none lets its own answers be held back. It says that a resource
changed before it answers `resources/subscribe` and `resources/unsubscribe`, right after it acknowledges
`subscriptions/listen`, and when the tool `touch` is called.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from typing import Any

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
INFO = {"name": "slow", "version": "1.0.0"}
CAPABILITIES = {"resources": {"subscribe": True}, "tools": {}}
TOUCH = {
    "name": "touch",
    "description": "Changes a resource.",
    "inputSchema": {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
}


class Server:
    def __init__(self, modern: bool, delay: float) -> None:
        self.modern = modern
        self.delay = delay
        self.lock = threading.RLock()
        self.versions: dict[str, int] = {}
        # Legacy: what is subscribed. Modern: the URIs of each open listen.
        self.subscribed: set[str] = set()
        self.listens: dict[str, list[str]] = {}

    def send(self, message: dict[str, Any]) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def answer(self, request: Any, result: dict[str, Any]) -> None:
        self.send({"id": request, "result": {"resultType": "complete", **result} if self.modern else result})

    def later(self, work: Any) -> None:
        timer = threading.Timer(self.delay, work)
        timer.daemon = True
        timer.start()

    def change(self, uri: str) -> None:
        """Changes a resource and tells whoever follows it."""
        with self.lock:
            self.versions[uri] = self.versions.get(uri, 0) + 1
            if uri in self.subscribed:
                self.send({"method": "notifications/resources/updated", "params": {"uri": uri}})
            for listen, uris in self.listens.items():
                if uri in uris:
                    self.tell("resources/updated", json.loads(listen), {"uri": uri})

    def tell(self, what: str, listen: Any, params: dict[str, Any]) -> None:
        self.send({"method": f"notifications/{what}", "params": {**params, "_meta": {SUBSCRIPTION: listen}}})

    def subscribe(self, request: Any, uri: str) -> None:
        self.subscribed.add(uri)
        self.change(uri)
        self.later(lambda: self.answer(request, {}))

    def unsubscribe(self, request: Any, uri: str) -> None:
        self.change(uri)

        def leave() -> None:
            self.change(uri)
            self.subscribed.discard(uri)
            self.answer(request, {})

        self.later(leave)

    def listen(self, request: Any, wanted: dict[str, Any]) -> None:
        uris = wanted.get("resourceSubscriptions", [])
        with self.lock:
            fresh = [uri for uri in uris if not any(uri in others for others in self.listens.values())]

        def acknowledge() -> None:
            with self.lock:
                honoured = {"resourceSubscriptions": uris} if uris else {}
                self.tell("subscriptions/acknowledged", request, {"notifications": honoured})
                self.listens[json.dumps(request)] = uris
                for uri in fresh:
                    self.change(uri)

        self.later(acknowledge)

    def handle(self, message: dict[str, Any]) -> None:
        method, params, request = message.get("method"), message.get("params", {}), message.get("id")
        if method == "notifications/cancelled":
            with self.lock:
                self.listens.pop(json.dumps(params.get("requestId")), None)
        if request is None or method is None:
            return
        cached = {"ttlMs": 60000, "cacheScope": "public"} if self.modern else {}
        match method:
            case "initialize" if not self.modern:
                result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
                self.answer(request, result)
            case "server/discover" if self.modern:
                own = {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
                self.answer(request, {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **cached, **own})
            case "ping":
                self.answer(request, {})
            case "tools/list":
                self.answer(request, {"tools": [TOUCH], **cached})
            case "tools/call":
                self.change(params["arguments"]["uri"])
                self.answer(request, {"content": [{"type": "text", "text": "touched"}]})
            case "resources/list":
                self.answer(request, {"resources": [], **cached})
            case "resources/templates/list":
                template = {"uriTemplate": "note://{name}", "name": "note"}
                self.answer(request, {"resourceTemplates": [template], **cached})
            case "resources/read":
                uri = params["uri"]
                content = {"uri": uri, "mimeType": "text/plain", "text": str(self.versions.get(uri, 0))}
                self.answer(request, {"contents": [content], **cached})
            case "resources/subscribe" if not self.modern:
                self.subscribe(request, params["uri"])
            case "resources/unsubscribe" if not self.modern:
                self.unsubscribe(request, params["uri"])
            case "subscriptions/listen" if self.modern:
                self.listen(request, params.get("notifications", {}))
            case _:
                self.send({"id": request, "error": {"code": -32601, "message": f"unknown method {method}"}})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("era", choices=["legacy", "modern"])
    arguments.add_argument("--delay", type=float, required=True, help="seconds before an answer")
    options = arguments.parse_args()
    server = Server(options.era == "modern", options.delay)
    for line in sys.stdin:
        server.handle(json.loads(line))


if __name__ == "__main__":
    main()

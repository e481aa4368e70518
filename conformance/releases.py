"""A server of npm in two published versions, found in a registry, followed, and upgraded while it serves.

The registry is a stand-in of the official API on loopback, since that one can not be reached; the packages are npm's, and `npx` runs them.
Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gateway import CheckTally, CommandLine, serving

PACKAGE = "@modelcontextprotocol/server-everything"
ENTRY = "io.github.modelcontextprotocol/everything"
OLD, NEW = "2025.9.25", "2026.8.31"
COMMAND_SECONDS = 180.0
TOLD_SECONDS = 20.0


def item(version: str, updated: str) -> dict[str, object]:
    package = {
        "registryType": "npm",
        "identifier": PACKAGE,
        "version": version,
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "stdio"}],
    }
    server = {"name": ENTRY, "description": "Every feature of the protocol.", "version": version, "packages": [package]}
    official = {"status": "active", "publishedAt": updated, "updatedAt": updated, "isLatest": True}
    return {"server": server, "_meta": {"io.modelcontextprotocol.registry/official": official}}


class Registry(BaseHTTPRequestHandler):
    """One page with the one item there is."""

    published = item(OLD, "2026-01-01T00:00:00Z")

    def do_GET(self) -> None:
        body = json.dumps({"servers": [Registry.published], "metadata": {"count": 1}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Gateway(CommandLine):
    """What is asked of a gateway that runs."""

    def tools(self) -> set[str]:
        return {tool["name"] for tool in json.loads(self.command("tools", "--json"))["tools"]}

    def releases(self) -> list[dict[str, object]]:
        changes = json.loads(self.command("changes", "--json"))["changes"]
        return [change for change in changes if change["kind"] == "release"]


def added(gateway: Gateway) -> None:
    gateway.command("catalogue", "refresh", "stand-in")
    gateway.command("catalogue", "add", ENTRY, "--name", "everything")
    server = json.loads(gateway.command("servers", "everything", "--json"))
    assert server["state"] == "ready", server
    assert "everything__echo" in gateway.tools(), gateway.tools()


def told_once(gateway: Gateway) -> None:
    assert gateway.releases() == []
    Registry.published = item(NEW, "2026-02-01T00:00:00Z")
    gateway.command("catalogue", "refresh", "stand-in")
    deadline = time.monotonic() + TOLD_SECONDS
    while not gateway.releases() and time.monotonic() < deadline:
        time.sleep(0.1)
    gateway.command("catalogue", "refresh", "stand-in")
    (release,) = gateway.releases()
    assert release["changed"][0]["diff"] == [{"field": "version", "before": OLD, "after": NEW}], release


def upgraded(gateway: Gateway) -> None:
    before = gateway.tools()
    done = json.loads(gateway.command("upgrade", "everything", "--yes", "--json"))
    assert done["swapped"] and (done["upgrade"]["from"], done["upgrade"]["to"]) == (OLD, NEW), done
    lists = {part["kind"]: part for part in done["upgrade"]["difference"]["lists"]}
    after = gateway.tools()
    shown = {f"everything__{tool['name']}" for tool in lists["tools"]["added"]}
    gone = {f"everything__{tool['name']}" for tool in lists["tools"]["removed"]}
    assert shown == after - before and gone == before - after, (shown, gone, before, after)
    assert shown, "the two versions list the same tools"
    assert len(gateway.releases()) == 1


def fetched(version: str) -> None:
    """Lets npm install a version where `npx` finds it: a slow network is no slow server."""
    line = ["npm", "exec", "--yes", f"--package={PACKAGE}@{version}", "--", "node", "--version"]
    subprocess.run(line, check=True, capture_output=True, timeout=COMMAND_SECONDS)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", required=True)
    arguments.add_argument("--directory", type=Path, required=True)
    options = arguments.parse_args()
    registry = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    configuration = f'[[registry]]\nname = "stand-in"\nurl = "http://127.0.0.1:{registry.server_port}"\n'
    checks: list[tuple[str, Callable[[Gateway], None]]] = [
        ("a package of npm is added from a registry", added),
        ("its next release is told once", told_once),
        ("an upgrade shows what differs, and swaps", upgraded),
    ]
    tally = CheckTally()
    for version in (OLD, NEW):
        fetched(version)
    with serving(configuration, options.tidings, options.directory):
        gateway = Gateway(options.tidings, options.directory, COMMAND_SECONDS)
        for what, check in checks:
            with tally.check(what):
                check(gateway)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())

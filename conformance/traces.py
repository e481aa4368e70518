"""A trace through SDKs that others wrote: a client of the PyPI SDK tells its span, a server of that SDK goes on with the gateway's.

The SDK reads and writes `_meta` with the library of OpenTelemetry. The server says which span its call came in; that must be of the client's
trace, and one that the collector got from the gateway. In each era, over HTTP and on a pipe. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gateway import CheckTally, accepts, free_port, serving
from mcp import Client
from mcp.server import MCPServer
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

CHECK_SECONDS = 60.0
START_SECONDS = 60.0
SPAN = 0x00F067AA0BA902B7


def serve(transport: str, port: int) -> None:
    """A server whose tool says which span it is called in."""
    server = MCPServer("traced")

    @server.tool()
    def where() -> str:
        context = trace.get_current_span().get_span_context()
        return f"{context.trace_id:032x} {context.span_id:016x}"

    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


class Collector:
    """Keeps what it is posted. Ids stand in protobuf as they are, so a span is there if its bytes are."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_for(self, ids: bytes) -> None:
        deadline = time.monotonic() + 10
        while not any(ids in body for body in self.bodies):
            assert time.monotonic() < deadline, f"{ids.hex()} was not sent"
            time.sleep(0.05)


async def story(base: str, mode: str, number: int, collector: Collector) -> None:
    ours = SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E0000 + number, SPAN, is_remote=False, trace_flags=TraceFlags(1))
    async with Client(f"{base}/mcp", mode=mode) as client:
        with trace.use_span(NonRecordingSpan(ours)):
            result = await client.call_tool("where", {})
    said_trace, said_span = result.content[0].text.split()
    assert said_trace == f"{ours.trace_id:032x}", f"another trace: {said_trace}"
    assert said_span != f"{SPAN:016x}", "the client's span, and not the gateway's"
    # The second field of a span follows its first: the trace, then its own id.
    await asyncio.to_thread(collector.wait_for, bytes.fromhex(said_trace) + b"\x12\x08" + bytes.fromhex(said_span))


async def run(binary: str, directory: Path) -> int:
    tally, number = CheckTally(), 0
    for transport in ["stdio", "http"]:
        collector, port = Collector(), free_port()
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", transport, "--port", str(port)]
        table = f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        if transport == "http":
            nowhere = asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(*command, stdout=nowhere, stderr=nowhere)
            deadline = time.monotonic() + START_SECONDS
            while not accepts(port):
                assert time.monotonic() < deadline and process.returncode is None, "the server did not start"
                await asyncio.sleep(0.05)
            table = f'url = "http://127.0.0.1:{port}/mcp"\n'
        otlp = f'[telemetry]\notlp = "http://127.0.0.1:{collector.server.server_port}"\n'
        with serving(f"[servers.traced]\n{table}{otlp}", binary, directory / transport) as base:
            for mode in ["legacy", "auto"]:
                number += 1
                with tally.check(f"server over {transport}, {mode} client"):
                    await asyncio.wait_for(story(base, mode, number, collector), CHECK_SECONDS)
        if transport == "http":
            process.kill()
            await process.wait()
    return tally.end()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", help="the gateway's binary")
    arguments.add_argument("--directory", type=Path, help="where configurations and logs go")
    arguments.add_argument("--serve", choices=["http", "stdio"], help="be the server")
    arguments.add_argument("--port", type=int, default=0)
    given = arguments.parse_args()
    if given.serve:
        serve(given.serve, given.port)
        return 0
    directory = given.directory or Path(tempfile.mkdtemp(prefix="traces-"))
    return asyncio.run(run(given.tidings, directory))


if __name__ == "__main__":
    sys.exit(main())

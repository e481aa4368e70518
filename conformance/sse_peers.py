"""HTTP+SSE on both sides: a server of FastMCP that has nothing else, and the client of the PyPI SDK that has nothing else.

Each is put behind and before the gateway, alone and together: the server once named by `type = "sse"` and once found by its URL alone, used by
`mcp.client.sse` and by clients of Streamable HTTP in both eras; the old client also in front of a server on a pipe. Checked: lists, calls, progress,
questions, change notices, subscriptions, cancellation, and a server that is killed in the middle and comes back as another. Prints PASS
or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from gateway import _die_with_parent, accepts, free_port, serving
from mcp import Client
from mcp.client.sse import sse_client

CHECK_SECONDS = 60.0
START_SECONDS = 60.0
SHARED = "note://shared"


def serve(transport: str, port: int, generation: int, notes: Path) -> None:
    """A server of FastMCP until it is killed. What befalls its jobs it writes down."""
    server: Any = FastMCP("old")

    def note(text: str) -> None:
        with notes.open("a") as sink:
            sink.write(f"{text}\n")

    @server.tool()
    async def work(job: str, seconds: float, context: Context) -> str:
        """Does a named job, tells how far it is, and notes when it is cancelled."""
        note(f"begun {job}")
        try:
            for step in range(3):
                await context.report_progress(step + 1, 3, f"step {step + 1}")
                await asyncio.sleep(seconds / 3)
        except asyncio.CancelledError:
            note(f"cancelled {job}")
            raise
        return job

    @server.tool()
    async def ask(context: Context) -> str:
        """Asks the client where it is."""
        roots = await context.session.list_roots()
        return str(roots.roots[0].uri)

    @server.tool()
    async def consult(context: Context) -> str:
        """Asks the client's user, then its model."""
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
        form = await context.session.elicit_form("Which colour?", schema)
        question = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Why?"))
        said = await context.session.create_message([question], max_tokens=5)
        return f"{form.action} {(form.content or {}).get('colour')}: {said.content.text}"

    @server.tool()
    async def grow(name: str, context: Context) -> str:
        """Adds a tool and says so."""
        server.tool(name=name)(lambda: name)
        await context.session.send_tool_list_changed()
        return name

    @server.tool()
    async def touch(context: Context) -> str:
        """Says that the resource changed."""
        await context.session.send_resource_updated(SHARED)
        return SHARED

    @server.tool(name=f"of_{generation}")
    async def of_this_generation() -> str:
        """Is there in this generation only."""
        return str(generation)

    @server.resource(SHARED)
    def shared() -> str:
        return f"generation {generation} at {time.monotonic_ns()}"

    # FastMCP has no public place for what legacy clients subscribe to.
    async def agree(context: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    low = server._mcp_server
    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, agree)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, agree)
    if transport == "stdio":
        server.run(transport="stdio", show_banner=False)
    else:
        server.run(transport="sse", host="127.0.0.1", port=port, show_banner=False)


class OldServer:
    """The server of FastMCP in a process of its own, over HTTP+SSE."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.generation = directory, free_port(), 0
        self.notes = directory / "notes.txt"
        self.notes.touch()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, transport: str) -> list[str]:
        words = ["--serve", transport, "--port", self.port, "--generation", self.generation, "--notes", self.notes]
        return [sys.executable, __file__, *map(str, words)]

    def start(self) -> None:
        with (self.directory / "server.log").open("ab") as sink:
            self.process = subprocess.Popen(
                self.command("sse"), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, preexec_fn=_die_with_parent
            )
        deadline = time.monotonic() + START_SECONDS
        while not accepts(self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.generation += 1

    async def noted(self, text: str) -> None:
        while text not in self.notes.read_text().splitlines():
            await asyncio.sleep(0.02)


def gateway(binary: str, directory: Path, servers: str) -> contextlib.AbstractContextManager[str]:
    """Yields the URL of a gateway without a path."""
    return serving(f'[notifications]\nlist_quiet = "100ms"\nresource_quiet = "100ms"\n\n{servers}', binary, directory)


class Visitor:
    """A client and what it was told by itself."""

    def __init__(self, kind: str, base: str) -> None:
        self.kind, self.base, self.told = kind, base, list[str]()

    async def hear(self, message: Any) -> None:
        match message:
            case types.ToolListChangedNotification():
                self.told.append("tools")
            case types.ResourceUpdatedNotification():
                self.told.append(str(message.params.uri))

    async def where(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///here")])

    async def fill_in(self, context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def write(self, context: Any, params: Any) -> types.CreateMessageResult:
        words = types.TextContent(type="text", text="because")
        return types.CreateMessageResult(role="assistant", model="none", content=words)

    def open(self) -> Client:
        options: dict[str, Any] = {
            "message_handler": self.hear,
            "cache": None,
            "list_roots_callback": self.where,
            "elicitation_callback": self.fill_in,
            "sampling_callback": self.write,
        }
        if self.kind == "modern":
            return Client(f"{self.base}/mcp", mode="auto", **options)
        where = sse_client(f"{self.base}/sse") if self.kind == "sse" else f"{self.base}/mcp"
        return Client(where, mode="legacy", **options)

    async def heard(self, what: str, after: int = 0) -> None:
        while what not in self.told[after:]:
            await asyncio.sleep(0.02)


def text(result: Any) -> str:
    assert not result.is_error, result
    return result.content[0].text


async def lists_calls_and_progress(visitor: Visitor, server: OldServer) -> None:
    async with visitor.open() as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"work", "ask", "grow", "touch", f"of_{server.generation}"} <= names, names
        steps: list[float] = []

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        done = await client.call_tool("work", {"job": "a", "seconds": 0.3}, progress_callback=progressed)
        assert text(done) == "a"
        assert steps == [1, 2, 3], steps
        read = await client.read_resource(SHARED)
        assert read.contents[0].text.startswith("generation"), read


async def questions(visitor: Visitor, server: OldServer) -> None:
    async with visitor.open() as client:
        assert text(await client.call_tool("ask", {})) == "file:///here"
        assert text(await client.call_tool("consult", {})) == "accept blue: because"


async def changes_of_lists(visitor: Visitor, server: OldServer) -> None:
    name = f"new_{visitor.kind}_{time.monotonic_ns()}"
    async with visitor.open() as client:
        await client.list_tools()
        await client.call_tool("grow", {"name": name})
        await visitor.heard("tools")
        assert name in {tool.name for tool in (await client.list_tools()).tools}
        assert text(await client.call_tool(name, {})) == name


async def updates_of_resources(visitor: Visitor, server: OldServer) -> None:
    async with visitor.open() as client:
        await client.subscribe_resource(SHARED)
        await client.call_tool("touch", {})
        await visitor.heard(SHARED)
        await client.unsubscribe_resource(SHARED)


async def cancellation(visitor: Visitor, server: OldServer) -> None:
    job = f"{visitor.kind}-{time.monotonic_ns()}"
    async with visitor.open() as client:
        call = asyncio.create_task(client.call_tool("work", {"job": job, "seconds": 60}))
        await server.noted(f"begun {job}")
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await server.noted(f"cancelled {job}")
        assert text(await client.call_tool("work", {"job": "after", "seconds": 0})) == "after"


async def leaving(visitor: Visitor, server: OldServer) -> None:
    """Whoever closes the one stream that there is has cancelled what runs."""
    job = f"left-{time.monotonic_ns()}"
    async with visitor.open() as client:
        call = asyncio.create_task(client.call_tool("work", {"job": job, "seconds": 60}))
        await server.noted(f"begun {job}")
    call.cancel()
    await server.noted(f"cancelled {job}")


async def a_killed_server_comes_back(visitor: Visitor, server: OldServer) -> None:
    job = f"killed-{time.monotonic_ns()}"
    async with visitor.open() as client:
        await client.list_tools()
        if visitor.kind != "modern":
            await client.subscribe_resource(SHARED)
        call = asyncio.create_task(client.call_tool("work", {"job": job, "seconds": 60}))
        await server.noted(f"begun {job}")
        before = len(visitor.told)
        server.kill()
        failed = (await asyncio.gather(call, return_exceptions=True))[0]
        assert isinstance(failed, Exception) or failed.is_error, failed
        await asyncio.to_thread(server.start)
        if visitor.kind != "modern":
            await visitor.heard("tools", before)
            await visitor.heard(SHARED, before)
        while f"of_{server.generation}" not in {tool.name for tool in (await client.list_tools()).tools}:
            await asyncio.sleep(0.05)
        assert text(await client.call_tool(f"of_{server.generation}", {})) == str(server.generation)
        begun = [line for line in server.notes.read_text().splitlines() if line == f"begun {job}"]
        assert len(begun) == 1, "a call ran twice"


Check = Callable[[Visitor, OldServer], Awaitable[None]]
EVERYTHING: list[Check] = [
    lists_calls_and_progress,
    questions,
    changes_of_lists,
    updates_of_resources,
    cancellation,
    a_killed_server_comes_back,
]
PARTS: dict[str, list[Check]] = {
    "sse": [*EVERYTHING[:-1], leaving, EVERYTHING[-1]],
    "legacy": EVERYTHING,
    "modern": [lists_calls_and_progress, questions, a_killed_server_comes_back],
}


async def listed(visitor: Visitor) -> None:
    """Waits until the server's tools are there: one on a pipe is started by the gateway, which does not wait long for it."""
    until = time.monotonic() + START_SECONDS
    async with visitor.open() as client:
        while not (await client.list_tools()).tools:
            assert time.monotonic() < until, "the server did not start"
            await asyncio.sleep(0.1)


async def run(binary: str, directory: Path) -> tuple[int, int]:
    passed = failed = 0

    async def check(name: str, story: Awaitable[None]) -> None:
        nonlocal passed, failed
        try:
            await asyncio.wait_for(story, CHECK_SECONDS)
        except Exception:
            failed += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        else:
            passed += 1
            print(f"PASS {name}", flush=True)

    for way, keys in [("named", 'type = "sse"\n'), ("found", "")]:
        place = directory / way
        place.mkdir(parents=True)
        server = OldServer(place)
        server.start()
        table = f"[servers.old]\nurl = {json.dumps(f'http://127.0.0.1:{server.port}/sse')}\n{keys}"
        with gateway(binary, place, table) as base:
            for kind, checks in PARTS.items():
                for story in checks:
                    await check(f"server {way}, {kind} client: {story.__name__}", story(Visitor(kind, base), server))
        server.kill()
    place = directory / "pipe"
    place.mkdir(parents=True)
    piped = OldServer(place)
    command, *arguments = piped.command("stdio")
    # In the modern era, which it speaks on a pipe, FastMCP asks nothing and serves no subscriptions.
    words = f"command = {json.dumps(command)}\nargs = {json.dumps(arguments)}\nera = \"legacy\"\n"
    with gateway(binary, place, f"[servers.pipe]\n{words}") as base:
        await listed(Visitor("sse", base))
        for story in [*EVERYTHING[:-1], leaving]:
            await check(f"server on a pipe, sse client: {story.__name__}", story(Visitor("sse", base), piped))
    return passed, failed


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", help="the gateway's binary")
    arguments.add_argument("--directory", type=Path, help="where configurations and logs go")
    arguments.add_argument("--serve", choices=["sse", "stdio"], help="be the server")
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--generation", type=int, default=0)
    arguments.add_argument("--notes", type=Path)
    given = arguments.parse_args()
    if given.serve:
        serve(given.serve, given.port, given.generation, given.notes)
        return 0
    directory = given.directory or Path(tempfile.mkdtemp(prefix="sse-peers-"))
    passed, failed = asyncio.run(run(given.tidings, directory))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Tasks with Python on both sides of the gateway, each in its own words.

mcp 1.30.0 is the last SDK with tasks of 2025-11-25 (2.x has only the types), fastmcp-tasks 4.1.2 has the extension of 2026-07-28. They need
different versions of `mcp`, so each has an environment of its own (`venv-earlier` and `venv` of the peers), and this script runs itself in both:

    python conformance/python_tasks.py --gateway target/debug/tidings --directory /tmp/tasks \
        --first target/peers/venv-earlier/bin/python --second target/peers/venv/bin/python

A client that knows tasks of its kind, and one that knows none, use servers of both kinds: with and without a question in the middle, answered at once
though a task was asked for, cancelled. Each call is counted where it runs. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 60.0
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
OUTCOMES = {"work": "worked", "ask": "hello Ada"}


def note(notes: str, tool: str) -> None:
    with Path(notes).open("a") as sink:
        sink.write(f"{tool}\n")


def serve_first(port: int, notes: str) -> None:
    """A server of 2025-11-25 whose tools have to be tasks."""
    import mcp.types as types
    import uvicorn
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    server = Server("first")
    server.experimental.enable_tasks()

    @server.list_tools()
    async def list_tools():
        required = types.ToolExecution(taskSupport=types.TASK_REQUIRED)
        names = ["work", "ask", "endless"]
        return [types.Tool(name=name, inputSchema={"type": "object"}, execution=required) for name in names]

    @server.call_tool()
    async def call_tool(name, arguments):
        context = server.request_context.experimental
        context.validate_task_mode(types.TASK_REQUIRED)

        async def work(task):
            note(notes, name)
            said = "worked"
            if name == "ask":
                answer = await task.elicit(message="Name?", requestedSchema=NAME_FORM)
                said = f"hello {(answer.content or {}).get('name')}"
            if name == "endless":
                await asyncio.sleep(3600)
            return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

        return await context.run_task(work)

    manager = StreamableHTTPSessionManager(app=server)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/", app=manager.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def serve_second(port: int, notes: str) -> None:
    """A server of the extension."""
    from datetime import timedelta

    import mcp_types as types
    from fastmcp import FastMCP
    from fastmcp.utilities.tasks import TaskConfig
    from fastmcp_tasks import TasksExtension

    server = FastMCP("second")
    server.add_extension(TasksExtension(url="memory://"))
    often = timedelta(milliseconds=100)
    required = TaskConfig(mode="required", poll_interval=often)

    async def work() -> str:
        note(notes, "work")
        return "worked"

    async def ask(context):
        answer = (context.input_responses or {}).get("who")
        if answer:
            return f"hello {answer.content['name']}"
        note(notes, "ask")
        form = types.ElicitRequestFormParams(message="Name?", requested_schema=NAME_FORM)
        return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=form)})

    async def endless() -> str:
        note(notes, "endless")
        await asyncio.sleep(3600)
        return ""

    from fastmcp import Context

    # Given here: the annotation of a type that is imported in a function can not be read later.
    ask.__annotations__ = {"context": Context, "return": str}
    for tool in [work, ask, endless]:
        server.tool(task=required)(tool)
    server.tool(task=TaskConfig(mode="optional", poll_interval=often), name="may")(work)
    server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)


async def visit_first(url: str) -> dict[str, str]:
    """The client of 2025-11-25: tasks of its own kind, then ordinary calls."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import CallToolResult, ElicitResult

    async def elicit(*_):
        return ElicitResult(action="accept", content={"name": "Ada"})

    seen: dict[str, str] = {}
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write, elicitation_callback=elicit) as session:
        await session.initialize()
        tasks = session.experimental
        for server in ["first", "second"]:
            for tool in ["work", "ask"]:
                made = await tasks.call_tool_as_task(f"{server}__{tool}", {})
                async for told in tasks.poll_task(made.task.taskId):
                    if told.status == "input_required":
                        break
                outcome = await tasks.get_task_result(made.task.taskId, CallToolResult)
                status = (await tasks.get_task(made.task.taskId)).status
                seen[f"{server} {tool}, a task"] = f"{outcome.content[0].text} {status}"
                plain = await session.call_tool(f"{server}__{tool}", {})
                seen[f"{server} {tool}, followed"] = f"{plain.content[0].text} completed"
            made = await tasks.call_tool_as_task(f"{server}__endless", {})
            await tasks.cancel_task(made.task.taskId)
            seen[f"{server} endless, cancelled"] = (await tasks.get_task(made.task.taskId)).status
        made = await tasks.call_tool_as_task("second__may", {})
        outcome = await tasks.get_task_result(made.task.taskId, CallToolResult)
        seen["second may, a task"] = f"{outcome.content[0].text} completed"
        seen["the list has them all"] = f"{len((await tasks.list_tasks()).tasks)} tasks"
    return seen


async def visit_second(url: str) -> dict[str, str]:
    """The client of the extension, which follows tasks by itself, and one of its tasks by hand."""
    from fastmcp import Client
    from fastmcp_tasks import call_tool_task

    async def elicit(*_):
        return {"name": "Ada"}

    seen: dict[str, str] = {}
    async with Client(url, elicitation_handler=elicit) as client:
        for server in ["first", "second"]:
            for tool in ["work", "ask"]:
                outcome = await client.call_tool(f"{server}__{tool}", {})
                seen[f"{server} {tool}, a task"] = f"{outcome.content[0].text} completed"
            task = await call_tool_task(client, f"{server}__endless", {})
            await task.cancel()
            while (status := (await task.status()).status) == "working":
                await asyncio.sleep(0.05)
            seen[f"{server} endless, cancelled"] = status
    return seen


def wanted(tool: str) -> str:
    """What a client should have seen of it."""
    if "endless" in tool:
        return "cancelled"
    if "list" in tool:
        return "7 tasks"
    return f"{OUTCOMES['ask' if ' ask' in tool else 'work']} completed"


def run(arguments: argparse.Namespace) -> int:
    import gateway

    arguments.directory.mkdir(parents=True, exist_ok=True)
    interpreters = {"first": arguments.first, "second": arguments.second}
    started, servers, failed, passed = [], "", 0, 0
    try:
        for name, interpreter in interpreters.items():
            port, notes = gateway.free_port(), arguments.directory / f"{name}.notes"
            notes.write_text("")
            command = [interpreter, "-W", "ignore", __file__, "--serve", name, "--port", str(port), "--notes", str(notes)]
            with (arguments.directory / f"{name}.log").open("wb") as sink:
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink))
            until = time.monotonic() + SECONDS
            while not gateway.accepts(port):
                assert time.monotonic() < until and started[-1].poll() is None, f"{name} did not start"
                time.sleep(0.05)
            era = {"first": "legacy", "second": "modern"}[name]
            servers += f'[servers.{name}]\nurl = "http://127.0.0.1:{port}/mcp"\nera = "{era}"\n'
        with gateway.serving(servers, str(Path(arguments.gateway).resolve()), arguments.directory) as base:
            for name, interpreter in interpreters.items():
                command = [interpreter, "-W", "ignore", __file__, "--visit", name, "--url", f"{base}/mcp"]
                said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
                if said.returncode:
                    print(f"FAIL client {name}: {said.stderr.strip().splitlines()[-1]}", flush=True)
                    failed += 1
                    continue
                for tool, seen in json.loads(said.stdout.splitlines()[-1]).items():
                    is_so = seen == wanted(tool)
                    print(f"{'PASS' if is_so else 'FAIL'} client {name}: {tool}: {seen}", flush=True)
                    passed, failed = passed + is_so, failed + (not is_so)
        # Each client made one task and one ordinary call of a kind, or followed one; nothing may have run more often.
        for name, most in [("first", {"work": 3, "ask": 3, "endless": 2}), ("second", {"work": 4, "ask": 3, "endless": 2})]:
            ran = (arguments.directory / f"{name}.notes").read_text().split()
            is_so = all(ran.count(tool) <= times for tool, times in most.items())
            print(f"{'PASS' if is_so else 'FAIL'} no call of {name} ran twice: {sorted(ran)}", flush=True)
            passed, failed = passed + is_so, failed + (not is_so)
    finally:
        for process in started:
            process.kill()
            process.wait()
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", help="the binary under test")
    parser.add_argument("--first", help="a Python with mcp 1.30.0")
    parser.add_argument("--second", help="a Python with fastmcp-tasks")
    parser.add_argument("--directory", type=Path, help="where logs go")
    parser.add_argument("--serve", choices=["first", "second"])
    parser.add_argument("--visit", choices=["first", "second"])
    parser.add_argument("--port", type=int)
    parser.add_argument("--notes")
    parser.add_argument("--url")
    arguments = parser.parse_args()
    if arguments.serve:
        {"first": serve_first, "second": serve_second}[arguments.serve](arguments.port, arguments.notes)
        return 0
    if arguments.visit:
        seen = asyncio.run({"first": visit_first, "second": visit_second}[arguments.visit](arguments.url))
        print(json.dumps(seen))
        return 0
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())

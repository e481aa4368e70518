"""Servers that others wrote, killed while somebody waits for them: in the middle of a task, and while a call waits for its client's answer.

The reference server on npm is on a pipe, a server of the PyPI SDK is reached over HTTP and speaks the legacy era. Everybody who waits has to be
answered in time, no call may run twice, and the server that is started again has to work. Clients are the PyPI SDK's and, where the
moment of each message matters, requests as they stand on the wire. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from gateway import _die_with_parent, accepts, free_port, serving
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

CHECK_SECONDS = 90.0
START_SECONDS = 60.0
# How long somebody may wait for an answer after the server died.
ANSWER_SECONDS = 30.0
MODERN = "2026-07-28"
META = "io.modelcontextprotocol"
RESEARCH = "everything__simulate-research-query"


def serve(port: int, notes: Path, gate: Path) -> None:
    """A server of the PyPI SDK that asks before it works, until it is killed. What befalls its jobs it writes down."""
    server = MCPServer("asking")

    def note(text: str) -> None:
        with notes.open("a") as sink:
            sink.write(f"{text}\n")

    @server.tool()
    async def confirm(job: str, ctx: Context) -> str:
        """Asks whether the job is to be done, and does it when the gate is open."""
        note(f"begun {job}")
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        answer = await ctx.session.elicit_form(f"Do {job}?", schema, ctx.request_id)
        note(f"answered {job}")
        while not gate.exists():
            await asyncio.sleep(0.02)
        return f"{job}: {answer.action}"

    server.run(transport="streamable-http", port=port)


class PythonServer:
    """The server above, in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.port, self.notes, self.gate = free_port(), directory / "notes.txt", directory / "gate"
        self.notes.touch()
        self.log = directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["--serve", self.port, "--notes", self.notes, "--gate", self.gate]
        command = [sys.executable, __file__, *map(str, words)]
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, preexec_fn=_die_with_parent
            )
        until = time.monotonic() + START_SECONDS
        while not accepts(self.port):
            assert time.monotonic() < until and self.process.poll() is None, "the server did not start"
            time.sleep(0.05)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def noted(self, text: str) -> int:
        return self.notes.read_text().splitlines().count(text)


class NpmServer:
    """The reference server on a pipe: all that it is sent is written down before it reads it."""

    def __init__(self, directory: Path, node: str, everything: str) -> None:
        self.sent, self.group = directory / "sent.jsonl", directory / "group"
        self.sent.touch()
        script = 'echo $$ > "$0"; tee -a "$1" | "$2" "$3" stdio'
        words = ["-c", script, str(self.group), str(self.sent), node, everything]
        # `setsid`: what is killed together must be nobody else's group.
        self.toml = f"command = \"setsid\"\nargs = {json.dumps(['--wait', 'bash', *words])}\n"

    def kill(self) -> None:
        leader = int(self.group.read_text())
        assert os.getpgid(leader) == leader != os.getpgid(0)
        os.killpg(leader, signal.SIGKILL)

    def calls(self, marker: str) -> int:
        lines = [line for line in self.sent.read_text().splitlines() if '"tools/call"' in line]
        return sum(marker in line for line in lines)


class Wire:
    """Requests of the modern era as they stand on the wire."""

    def __init__(self, base: str) -> None:
        self.url = f"{base}/mcp"

    def _post(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        capabilities = {"elicitation": {"form": {}}, "extensions": {f"{META}/tasks": {}}}
        meta = {
            f"{META}/protocolVersion": MODERN,
            f"{META}/clientCapabilities": capabilities,
            f"{META}/clientInfo": {"name": "wire", "version": "1.0.0"},
        }
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "mcp-name": params.get("name") or params.get("taskId", ""),
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
        request = urllib.request.Request(self.url, body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=CHECK_SECONDS) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        if not text.startswith("{"):
            text = [line for line in text.splitlines() if line.startswith("data: ")][-1].removeprefix("data: ")
        return json.loads(text)

    async def post(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self._post, method, params)

    async def call(self, name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await self.post("tools/call", {"name": name, "arguments": arguments, **more})


def parked(answer: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The state of a call that waits, and answers to its questions."""
    result = answer.get("result", {})
    assert result.get("resultType") == "input_required", answer
    content = {"ok": True, "name": "Ada", "interpretation": "snake"}
    return result["requestState"], {key: {"action": "accept", "content": content} for key in result["inputRequests"]}


async def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


async def in_time(what: str, waiting: Awaitable[Any]) -> Any:
    begun = time.monotonic()
    answer = await asyncio.wait_for(waiting, ANSWER_SECONDS)
    print(f"     {what}: answered after {time.monotonic() - begun:.2f} s", flush=True)
    return answer


def is_failure(answer: dict[str, Any]) -> bool:
    return "error" in answer or answer.get("result", {}).get("isError") is True


async def outcome_of(call: Awaitable[Any]) -> str:
    """What became of a call of the SDK's client: its text, or its error."""
    try:
        result = await call
    except Exception as error:
        return f"failed: {error}"
    return f"failed: {result.content}" if result.is_error else result.content[0].text


async def again(what: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """Calls until the server that was started again answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        answer = await call()
        if not is_failure(answer):
            return answer
        assert time.monotonic() < deadline, f"{what}: {answer}"
        await asyncio.sleep(0.1)


class Story:
    def __init__(self, base: str, npm: NpmServer, python: PythonServer) -> None:
        self.base, self.wire, self.npm, self.python = base, Wire(base), npm, python

    async def follow(self, job: str, era: str, begun: asyncio.Event) -> str:
        """The call of a client that knows no tasks."""

        async def progress(*_: Any) -> None:
            begun.set()

        async with Client(f"{self.base}/mcp", mode=era) as client:
            call = client.call_tool(RESEARCH, {"topic": job}, progress_callback=progress)
            return await outcome_of(call)

    async def killed_in_a_task(self) -> None:
        """Nobody who waits for a task waits for ever, and the next task is made by the next process."""
        begun = [asyncio.Event(), asyncio.Event()]
        followers = [
            asyncio.create_task(self.follow("old-follower", "legacy", begun[0])),
            asyncio.create_task(self.follow("new-follower", MODERN, begun[1])),
        ]
        created = (await self.wire.call(RESEARCH, {"topic": "holder"}))["result"]
        assert created["resultType"] == "task", created
        await asyncio.gather(*(event.wait() for event in begun))
        self.npm.kill()
        for who, follower in zip(["a legacy client", "a modern client"], followers):
            said = await in_time(f"{who} that knows no tasks", follower)
            assert said.startswith("failed: "), said
        told = await in_time("who holds the task", self.wire.post("tasks/get", {"taskId": created["taskId"]}))
        assert "error" in told or told["result"]["status"] == "failed", told
        for job in ["old-follower", "new-follower", "holder"]:
            assert self.npm.calls(job) == 1, f"{job} was begun {self.npm.calls(job)} times"
        made = (await again("a task", lambda: self.wire.call(RESEARCH, {"topic": "afterwards"})))["result"]
        deadline = time.monotonic() + START_SECONDS
        while (await self.wire.post("tasks/get", {"taskId": made["taskId"]}))["result"]["status"] != "completed":
            assert time.monotonic() < deadline, "the next task is not over"
            await asyncio.sleep(0.1)

    async def killed_before_the_answer(self, tool: str, arguments: dict[str, Any], kill: Callable[[], None]) -> None:
        """A client that comes back with its answer is told what became of its call, each time it asks."""
        state, answers = parked(await again("a question", lambda: self.wire.call(tool, arguments)))
        kill()
        for _ in range(2):
            retry = self.wire.call(tool, arguments, requestState=state, inputResponses=answers)
            told = await in_time("who brings the answer", retry)
            assert is_failure(told), told

    async def npm_killed_before_the_answer(self) -> None:
        tool = "everything__trigger-elicitation-request"
        before = self.npm.calls("trigger-elicitation-request")
        await self.killed_before_the_answer(tool, {}, self.npm.kill)
        assert self.npm.calls("trigger-elicitation-request") == before + 1, "it was sent again"
        state, answers = parked(await again("a question", lambda: self.wire.call(tool, {})))
        told = await self.wire.call(tool, {}, requestState=state, inputResponses=answers)
        assert not is_failure(told) and told["result"]["resultType"] == "complete", told

    async def python_killed_before_the_answer(self) -> None:
        await self.killed_before_the_answer("asking__confirm", {"job": "first"}, self.python.kill)
        self.python.start()
        await self.confirm("second")
        assert (self.python.noted("begun first"), self.python.noted("answered first")) == (1, 0)

    async def python_killed_after_the_answer(self) -> None:
        """The retry waits for the outcome when the server dies: it is told, and so is who sends it again."""
        arguments = {"job": "third"}
        state, answers = parked(await self.wire.call("asking__confirm", arguments))
        retry = {"requestState": state, "inputResponses": answers}
        waiting = asyncio.create_task(self.wire.call("asking__confirm", arguments, **retry))
        await until("the answer arrives", lambda: self.python.noted("answered third") == 1)
        self.python.kill()
        told = await in_time("who waits for the outcome", waiting)
        assert is_failure(told), told
        repeated = await in_time("who asks again", self.wire.call("asking__confirm", arguments, **retry))
        assert is_failure(repeated), repeated
        self.python.start()
        await self.confirm("fourth")
        assert (self.python.noted("begun third"), self.python.noted("answered third")) == (1, 1)

    async def python_killed_under_a_legacy_client(self) -> None:
        """A legacy client is being asked when the server dies: its call fails, and its answer is nobody's."""
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def elicit(*_: Any) -> types.ElicitResult:
            asked.set()
            await may_answer.wait()
            return types.ElicitResult(action="accept", content={"ok": True})

        async with Client(f"{self.base}/mcp", mode="legacy", elicitation_callback=elicit) as client:
            call = asyncio.create_task(outcome_of(client.call_tool("asking__confirm", {"job": "fifth"})))
            await asyncio.wait_for(asked.wait(), CHECK_SECONDS)
            self.python.kill()
            said = await in_time("a legacy client that is asked", call)
            assert said.startswith("failed: "), said
            may_answer.set()
        self.python.start()
        await self.confirm("sixth")
        assert (self.python.noted("begun fifth"), self.python.noted("answered fifth")) == (1, 0)

    async def confirm(self, job: str) -> None:
        """A whole call, with its question."""
        self.python.gate.touch()
        tool, arguments = "asking__confirm", {"job": job}
        state, answers = parked(await again("a question", lambda: self.wire.call(tool, arguments)))
        told = await self.wire.call(tool, arguments, requestState=state, inputResponses=answers)
        self.python.gate.unlink()
        assert told["result"]["content"][0]["text"] == f"{job}: accept", told
        assert self.python.noted(f"begun {job}") == 1


async def check(what: str, story: Callable[[], Awaitable[None]]) -> bool:
    try:
        await asyncio.wait_for(story(), CHECK_SECONDS)
    except Exception:
        print(f"FAIL {what}\n{traceback.format_exc()}", flush=True)
        return False
    print(f"PASS {what}", flush=True)
    return True


async def run(base: str, npm: NpmServer, python: PythonServer) -> int:
    story = Story(base, npm, python)
    checks = {
        "the npm server is killed in the middle of tasks": story.killed_in_a_task,
        "the npm server is killed while a call waits for its client": story.npm_killed_before_the_answer,
        "the PyPI server is killed while a call waits for its client": story.python_killed_before_the_answer,
        "the PyPI server is killed after the answer": story.python_killed_after_the_answer,
        "the PyPI server is killed while a legacy client is asked": story.python_killed_under_a_legacy_client,
    }
    passed = [await check(what, checked) for what, checked in checks.items()]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed", flush=True)
    return 0 if all(passed) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidings", help="the binary under test")
    parser.add_argument("--node", help="the program that runs the npm server")
    parser.add_argument("--everything", help="the script of the npm server")
    parser.add_argument("--directory", type=Path, help="where logs go")
    parser.add_argument("--serve", type=int, metavar="PORT", help="be the server of the PyPI SDK instead")
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--gate", type=Path)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.notes, arguments.gate)
        return 0
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    npm, python = NpmServer(directory, arguments.node, arguments.everything), PythonServer(directory)
    python.start()
    url = json.dumps(f"http://127.0.0.1:{python.port}/mcp")
    servers = f'[servers.everything]\n{npm.toml}\n[servers.asking]\nurl = {url}\nera = "legacy"\n'
    try:
        with serving(servers, str(Path(arguments.tidings).resolve()), directory) as base:
            return asyncio.run(run(base, npm, python))
    finally:
        python.kill()


if __name__ == "__main__":
    sys.exit(main())

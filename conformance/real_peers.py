"""Everyday servers behind one gateway, used by the PyPI client in both eras.

With `--gateway URL` the three servers are reached through it, under their prefixed names. Without
it each is started on its own and used by its bare names: the same checks must hold, which shows
that they test the gateway and not wishes. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters

CHECK_SECONDS = 30.0
ERAS = {"legacy": "legacy", "modern": "auto"}


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0

    async def check(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        try:
            await asyncio.wait_for(body(), CHECK_SECONDS)
        except Exception:
            self.failed += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        else:
            self.passed += 1
            print(f"PASS {name}", flush=True)


@dataclass
class Asked:
    """What servers asked of the client, by the kind of request."""

    sampling: list[str] = field(default_factory=list)
    elicitation: list[str] = field(default_factory=list)

    async def sample(self, _context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.sampling.append(params.model_dump_json())
        content = types.TextContent(type="text", text="a sampled answer")
        return types.CreateMessageResult(role="assistant", content=content, model="scripted-model")

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.elicitation.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada Lovelace", "check": True})

    async def roots(self, _context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/tidings-root", name="tidings-root")])


def server_commands(peers: Path, memory_file: Path) -> dict[str, StdioServerParameters]:
    modules = peers / "node_modules"
    node = next(modules.glob("node-linux-*/bin/node"))
    script = modules / "@modelcontextprotocol"
    return {
        "everything": StdioServerParameters(
            command=str(node), args=[str(script / "server-everything/dist/index.js"), "stdio"]
        ),
        "memory": StdioServerParameters(
            command=str(node),
            args=[str(script / "server-memory/dist/index.js")],
            env={"MEMORY_FILE_PATH": str(memory_file)},
        ),
        "time": StdioServerParameters(command=sys.executable, args=["-m", "mcp_server_time"]),
    }


@dataclass
class Reach:
    """How to get to a server: through the gateway by prefixed names, or straight by bare ones."""

    gateway: str | None
    commands: dict[str, StdioServerParameters]

    def name(self, server: str, local: str) -> str:
        return f"{server}__{local}" if self.gateway else local

    @asynccontextmanager
    async def connect(self, server: str, era: str, asked: Asked, **more: Any) -> AsyncIterator[Client]:
        target = self.gateway or self.commands[server]
        async with Client(
            target,
            mode=ERAS[era],
            sampling_callback=asked.sample,
            elicitation_callback=asked.elicit,
            list_roots_callback=asked.roots,
            **more,
        ) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    assert not result.is_error, f"error result: {result}"
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def contains(text: str, *fragments: str) -> None:
    for fragment in fragments:
        assert fragment in text, f"expected {fragment!r} in {text!r}"


def strictly(tool: types.Tool) -> dict[str, Any]:
    """A tool's definition without its name, as plain data."""
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"name", "meta"})


async def all_tools(client: Client) -> dict[str, types.Tool]:
    tools: dict[str, types.Tool] = {}
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.update((tool.name, tool) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools


async def listed_tools_equal_the_servers_own(reach: Reach, era: str) -> None:
    straight = Reach(None, reach.commands)
    for server in reach.commands:
        async with straight.connect(server, "legacy", Asked()) as client:
            # The everything-server registers some tools only after `initialized`.
            await asyncio.sleep(0.5)
            own = await all_tools(client)
        async with reach.connect(server, era, Asked()) as client:
            await asyncio.sleep(0.5)
            seen = await all_tools(client)
        missing = [name for name in own if reach.name(server, name) not in seen]
        assert not missing, f"{server}: not listed: {missing}; listed: {sorted(seen)}"
        for name, tool in own.items():
            other = strictly(seen[reach.name(server, name)])
            # A modern answer to this client may omit what its revision removed; an older one may not.
            if era == "legacy":
                assert other == strictly(tool), f"{server}/{name} differs: {other} != {strictly(tool)}"
            else:
                assert other.get("inputSchema") == strictly(tool).get("inputSchema"), f"{server}/{name}: schema differs"


async def everything_answers(reach: Reach, era: str) -> None:
    async with reach.connect("everything", era, Asked()) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
            return await client.call_tool(reach.name("everything", tool), arguments)

        contains(text_of(await call("echo", {"message": "grüße, 世界"})), "grüße, 世界")
        contains(text_of(await call("get-sum", {"a": 40, "b": 2})), "42")
        structured = await call("get-structured-content", {"location": "Chicago"})
        assert structured.structured_content and "temperature" in structured.structured_content, structured
        image = await call("get-tiny-image", {})
        assert any(isinstance(block, types.ImageContent) for block in image.content), image
        invalid = await call("get-sum", {"a": "forty"})
        assert invalid.is_error, f"bad arguments were accepted: {invalid}"


async def resources_and_prompts_answer(reach: Reach, era: str) -> None:
    async with reach.connect("everything", era, Asked()) as client:
        linked = await client.call_tool(reach.name("everything", "get-resource-links"), {"count": 2})
        links = [block for block in linked.content if isinstance(block, types.ResourceLink)]
        assert len(links) == 2, linked
        read = await client.read_resource(str(links[0].uri))
        assert read.contents and str(read.contents[0].uri) == str(links[0].uri), read
        resources = (await client.list_resources()).resources
        assert resources, "no resources listed"
        assert (await client.read_resource(str(resources[0].uri))).contents
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        simple = reach.name("everything", "simple-prompt")
        assert simple in prompts, prompts
        assert (await client.get_prompt(simple)).messages


async def progress_arrives_in_order(reach: Reach, era: str) -> None:
    seen: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    async with reach.connect("everything", era, Asked()) as client:
        tool = reach.name("everything", "trigger-long-running-operation")
        done = await client.call_tool(tool, {"duration": 1, "steps": 4}, progress_callback=note)
        contains(text_of(done), "completed")
    assert seen == [1, 2, 3, 4], seen


async def sampling_reaches_the_client(reach: Reach, era: str) -> None:
    asked = Asked()
    async with reach.connect("everything", era, asked) as client:
        await asyncio.sleep(0.5)
        tool = reach.name("everything", "trigger-sampling-request")
        answer = text_of(await client.call_tool(tool, {"prompt": "tell me", "maxTokens": 7}))
    contains(answer, "a sampled answer", "scripted-model")
    assert len(asked.sampling) == 1, asked
    contains(asked.sampling[0], "tell me")


async def elicitation_reaches_the_client(reach: Reach, era: str) -> None:
    asked = Asked()
    async with reach.connect("everything", era, asked) as client:
        await asyncio.sleep(0.5)
        tool = reach.name("everything", "trigger-elicitation-request")
        answer = text_of(await client.call_tool(tool, {}))
    contains(answer, "Ada Lovelace")
    assert len(asked.elicitation) == 1, asked


async def memory_keeps_what_it_is_told(reach: Reach, era: str) -> None:
    entity = {"name": f"Gateway-{era}", "entityType": "program", "observations": ["forwards", "日本"]}
    async with reach.connect("memory", era, Asked()) as client:
        await client.call_tool(reach.name("memory", "create_entities"), {"entities": [entity]})
        graph = json.loads(text_of(await client.call_tool(reach.name("memory", "read_graph"), {})))
        kept = [item for item in graph["entities"] if item["name"] == entity["name"]]
        assert kept and kept[0]["observations"] == entity["observations"], graph
        await client.call_tool(reach.name("memory", "delete_entities"), {"entityNames": [entity["name"]]})
        after = text_of(await client.call_tool(reach.name("memory", "read_graph"), {}))
        assert entity["name"] not in after, after


async def time_tells_the_time(reach: Reach, era: str) -> None:
    async with reach.connect("time", era, Asked()) as client:
        tool = reach.name("time", "get_current_time")
        contains(text_of(await client.call_tool(tool, {"timezone": "Europe/Berlin"})), "Europe/Berlin", "datetime")


async def calls_in_flight_keep_their_answers(reach: Reach, era: str) -> None:
    async with reach.connect("everything", era, Asked()) as client:
        tool = reach.name("everything", "echo")
        answers = await asyncio.gather(*(client.call_tool(tool, {"message": f"<{n}>"}) for n in range(50)))
    for n, answer in enumerate(answers):
        contains(text_of(answer), f"<{n}>")


BOTH_ERAS = [
    listed_tools_equal_the_servers_own,
    everything_answers,
    resources_and_prompts_answer,
    progress_arrives_in_order,
    memory_keeps_what_it_is_told,
    time_tells_the_time,
    calls_in_flight_keep_their_answers,
]
# The everything-server asks by requests of the legacy era, which a modern client does not take.
LEGACY_ONLY = [sampling_reaches_the_client, elicitation_reaches_the_client]


async def run(reach: Reach) -> Tally:
    tally = Tally()
    for era in ERAS:
        checks = BOTH_ERAS + (LEGACY_ONLY if era == "legacy" else [])
        for body in checks:
            await tally.check(f"{era} {body.__name__}", lambda body=body, era=era: body(reach, era))
    return tally


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--peers", type=Path, required=True, help="folder with node_modules and venv")
    arguments.add_argument("--gateway", help="MCP URL of a gateway with servers everything, memory and time")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        commands = server_commands(options.peers.resolve(), Path(scratch) / "memory.jsonl")
        tally = asyncio.run(run(Reach(options.gateway, commands)))
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())

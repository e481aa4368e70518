"""The client under test in the suite's client scenarios: PyPI `mcp`, with Tidings in the middle.

The suite passes the URL of its mock server as the last argument, and in the environment
MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION and, for some, MCP_CONFORMANCE_CONTEXT.
Ours: TIDINGS_BIN is the gateway to put in between (absent: straight to the mock, which gives the
baseline), TIDINGS_RUN_DIR is where its configuration, data and log go.

The suite looks at what the mock received. What the client got back is checked here, so that a
gateway that forwards well and answers badly fails too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pydantic
from mcp import Client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import gateway

# Below the 45 s that the suite waits, so that a hang is reported from here, with a stack.
DEADLINE_SECONDS = 40.0

REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
ERA_MODE = "auto" if REVISION in MODERN_PROTOCOL_VERSIONS else "legacy"

Scenario = Callable[[str], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def keep(run: Scenario) -> Scenario:
        SCENARIOS[name] = run
        return run

    return keep


def text_of(result: types.CallToolResult) -> str:
    assert not result.is_error, f"the tool answered with an error: {result}"
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


def expect(result: types.CallToolResult, fragment: str) -> None:
    text = text_of(result)
    assert fragment in text, f"expected {fragment!r} in the answer, got {text!r}"


async def accept_defaults(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    schema = getattr(params, "requested_schema", None) or {}
    defaults = {name: p["default"] for name, p in schema.get("properties", {}).items() if "default" in p}
    return types.ElicitResult(action="accept", content=defaults)


async def accept_confirmed(_context: Any, _params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"confirmed": True})


async def sample_nothing(_context: Any, _params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text=""), model="none"
    )


async def no_roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


def smallest_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that satisfy a tool's `required` list and nothing more."""
    by_type = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": [], "null": None}
    properties = schema.get("properties", {})
    return {name: by_type.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", [])}


@scenario("initialize")
async def initialize(url: str) -> None:
    async with Client(url, mode=ERA_MODE) as client:
        await client.list_tools()


@scenario("tools_call")
async def tools_call(url: str) -> None:
    async with Client(url, mode=ERA_MODE) as client:
        await client.list_tools()
        expect(await client.call_tool("add_numbers", {"a": 5, "b": 3}), "8")


@scenario("elicitation-sep1034-client-defaults")
async def elicitation_defaults(url: str) -> None:
    async with Client(url, mode=ERA_MODE, elicitation_callback=accept_defaults) as client:
        await client.list_tools()
        text_of(await client.call_tool("test_client_elicitation_defaults", {}))


@scenario("sse-retry")
async def sse_retry(url: str) -> None:
    async with Client(url, mode=ERA_MODE) as client:
        await client.list_tools()
        expect(await client.call_tool("test_reconnection", {}), "Reconnection test completed")


@scenario("request-metadata")
async def request_metadata(url: str) -> None:
    async with Client(
        url,
        mode=ERA_MODE,
        sampling_callback=sample_nothing,
        list_roots_callback=no_roots,
        elicitation_callback=accept_defaults,
    ) as client:
        await client.list_tools()
        await client.call_tool("add_numbers", {"a": 5, "b": 3})


@scenario("sep-2322-client-request-state")
async def request_state(url: str) -> None:
    async with Client(url, mode=ERA_MODE, elicitation_callback=accept_confirmed) as client:
        await client.list_tools()
        for tool in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state"):
            text_of(await client.call_tool(tool, {}))
        try:
            expect(await client.call_tool("test_mrtr_no_result_type", {}), "no-result-type-test-ok")
        except pydantic.ValidationError as refusal:
            # This client refuses a modern result without `resultType`, with or without a gateway.
            # The suite only asks that the call is not retried.
            if "resultType" not in str(refusal):
                raise


@scenario("http-standard-headers")
async def standard_headers(url: str) -> None:
    async with Client(url, mode=ERA_MODE) as client:
        tool = (await client.list_tools()).tools[0]
        await client.call_tool(tool.name, smallest_arguments(tool.input_schema))
        await client.read_resource((await client.list_resources()).resources[0].uri)
        await client.get_prompt((await client.list_prompts()).prompts[0].name)


@scenario("http-custom-headers")
async def custom_headers(url: str) -> None:
    calls = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]
    async with Client(url, mode=ERA_MODE) as client:
        await client.list_tools()
        for call in calls:
            await client.call_tool(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
async def invalid_tool_headers(url: str) -> None:
    # The client drops tools with malformed annotations; whatever it kept is called.
    async with Client(url, mode=ERA_MODE) as client:
        for tool in (await client.list_tools()).tools:
            await client.call_tool(tool.name, smallest_arguments(tool.input_schema))


@scenario("json-schema-ref-no-deref")
async def ref_is_not_fetched(url: str) -> None:
    # This mock speaks only the legacy era, whatever revision the suite names.
    async with Client(url, mode="legacy") as client:
        assert (await client.list_tools()).tools, "the mock's tool is missing from the list"


@scenario("json-schema-2020-12-preservation")
async def schema_survives(url: str) -> None:
    async with Client(url, mode=ERA_MODE) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        schema = tools["json_schema_2020_12_tool"].input_schema
        await client.call_tool("json_schema_echo", {"schema": schema})


def run(perform: Scenario, url: str) -> None:
    asyncio.run(asyncio.wait_for(perform(url), DEADLINE_SECONDS))


def main() -> int:
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    perform = SCENARIOS.get(name)
    if perform is None or len(sys.argv) < 2:
        print(f"no driver for scenario {name!r}; known: {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    # An exception unwinds through the context managers; the default action would not.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    url = sys.argv[-1]
    binary = os.environ.get("TIDINGS_BIN")
    if not binary:
        run(perform, url)
        return 0
    parent = Path(os.environ.get("TIDINGS_RUN_DIR", tempfile.gettempdir()))
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-{REVISION}-", dir=parent))
    with gateway.in_front_of(url, binary, directory) as gateway_url:
        run(perform, gateway_url)
    return 0


if __name__ == "__main__":
    sys.exit(main())

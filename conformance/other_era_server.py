"""The everything-server of the PyPI SDK, written for one era: whatever it wants to know it asks in the words of that era.

As it comes, ten of its fixtures return `input_required`, which its SDK refuses in a legacy session, and four send a request to the client,
which its SDK refuses in the modern era. What these want to know is asked here in the way in which a server of the other era would ask.

    target/peers/venv/bin/python conformance/other_era_server.py --port 3001 --era legacy
"""

from __future__ import annotations

import argparse
import asyncio
import json

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

from mcp_everything_server import server as everything

OK_SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
COLOR_SCHEMA = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONTEXT_SCHEMA = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}


def in_place_of(function) -> None:
    """Takes the place of the tool that has its name."""
    everything.mcp.remove_tool(function.__name__)
    everything.mcp.tool()(function)


def said(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


async def elicited(ctx: Context, message: str, schema: dict) -> ElicitResult:
    return await ctx.session.elicit_form(message, schema, ctx.request_id)


async def listed_roots(ctx: Context) -> ListRootsResult:
    # `list_roots` of the session does not say which call it is for.
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(ListRootsRequest(), ListRootsResult, metadata=metadata)


async def sampled(ctx: Context, text: str, tokens: int):
    return await ctx.session.create_message(
        messages=[said(text)], max_tokens=tokens, related_request_id=ctx.request_id
    )


def ask_as_legacy() -> None:
    """What a modern server returns is asked for in the middle of the call."""

    async def test_input_required_result_elicitation(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        answer = await elicited(ctx, "What is your name?", everything.NAME_SCHEMA)
        return f"Hello, {(answer.content or {}).get('name', 'stranger')}!"

    async def test_input_required_result_sampling(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        answer = await sampled(ctx, "What is the capital of France?", 100)
        return f"Model said: {answer.content.text}"

    async def test_input_required_result_list_roots(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        return f"Client exposed {len((await listed_roots(ctx)).roots)} root(s)."

    async def test_input_required_result_request_state(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        answer = await elicited(ctx, "Please confirm", OK_SCHEMA)
        return f"state-ok: {answer.action}"

    async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        await asyncio.gather(
            elicited(ctx, "What is your name?", everything.NAME_SCHEMA),
            sampled(ctx, "Generate a greeting", 50),
            listed_roots(ctx),
        )
        return "All inputs received."

    async def test_input_required_result_multi_round(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        first = await elicited(ctx, "Step 1: What is your name?", everything.NAME_SCHEMA)
        second = await elicited(ctx, "Step 2: What is your favorite color?", COLOR_SCHEMA)
        return f"{(first.content or {}).get('name')} likes {(second.content or {}).get('color')}."

    async def test_input_required_result_tampered_state(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        answer = await elicited(ctx, "Please confirm", OK_SCHEMA)
        return f"state-ok: {answer.action}"

    async def test_input_required_result_capabilities(ctx: Context) -> str:
        """As the fixture of this name, in the words of this era"""
        asked = await asyncio.gather(
            sampled(ctx, "Say hello", 50),
            elicited(ctx, "What is your name?", everything.NAME_SCHEMA),
            return_exceptions=True,
        )
        return f"asked for {len(asked)}"

    for function in list(locals().values()):
        in_place_of(function)

    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage]:
        """As the fixture of this name, in the words of this era"""
        answer = await elicited(ctx, "What context should the prompt use?", CONTEXT_SCHEMA)
        text = f"Use the following context: {(answer.content or {}).get('context')}"
        return [UserMessage(role="user", content=TextContent(type="text", text=text))]

    everything.mcp.remove_prompt(test_input_required_result_prompt.__name__)
    everything.mcp.prompt()(test_input_required_result_prompt)


def form(message: str, schema: type[BaseModel]) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=message, requested_schema=schema.model_json_schema())
    return InputRequiredResult(input_requests={"form": ElicitRequest(params=params)})


def filled(ctx: Context) -> str | None:
    """What the client wrote into the form; `None` before it was asked."""
    answer = (ctx.input_responses or {}).get("form")
    return f"action={answer.action}, content={json.dumps(answer.content or {})}" if answer else None


def ask_as_modern() -> None:
    """What a legacy server asks for in the middle of a call is returned."""

    async def test_sampling(prompt: str, ctx: Context) -> str | InputRequiredResult:
        """As the fixture of this name, in the words of this era"""
        answer = (ctx.input_responses or {}).get("sample")
        if answer:
            return f"LLM response: {answer.content.text}"
        params = CreateMessageRequestParams(messages=[said(prompt)], max_tokens=100)
        return InputRequiredResult(input_requests={"sample": CreateMessageRequest(params=params)})

    async def test_elicitation(message: str, ctx: Context) -> str | InputRequiredResult:
        """As the fixture of this name, in the words of this era"""
        heard = filled(ctx)
        return f"User response: {heard}" if heard else form(message, everything.UserResponse)

    async def test_elicitation_sep1034_defaults(ctx: Context) -> str | InputRequiredResult:
        """As the fixture of this name, in the words of this era"""
        heard = filled(ctx)
        asked = form("Please provide user information", everything.SEP1034DefaultsSchema)
        return f"Elicitation result: {heard}" if heard else asked

    async def test_elicitation_sep1330_enums(ctx: Context) -> str | InputRequiredResult:
        """As the fixture of this name, in the words of this era"""
        heard = filled(ctx)
        asked = form("Please select values", everything.EnumSchemasTestSchema)
        return f"Elicitation completed: {heard}" if heard else asked

    for function in list(locals().values()):
        in_place_of(function)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--era", choices=["legacy", "modern"], required=True)
    arguments = parser.parse_args()
    {"legacy": ask_as_legacy, "modern": ask_as_modern}[arguments.era]()
    everything.mcp.run(
        transport="streamable-http", port=arguments.port, event_store=everything.event_store, retry_interval=100
    )


if __name__ == "__main__":
    main()

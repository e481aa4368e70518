"""Loaded once by the fork server of `server_restarts.py`: the SDKs, and what FastMCP loads at its first listing."""

import asyncio

import fastmcp
import mcp.server.mcpserver  # noqa: F401


async def first_listing() -> None:
    async with fastmcp.Client(fastmcp.FastMCP("first")) as client:
        await client.list_tools()


asyncio.run(first_listing())

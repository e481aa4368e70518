"""A server of the PyPI SDK, or of FastMCP, that is killed and started again as another generation of itself.

Every generation has the tools `work` and `of_<generation>`, a resource that is the same in all of them and one that is not, and writes
each job it begins to a file, so that none can run twice unseen.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any


def serve(sdk: str, port: int, generation: int, runs: Path, log: Path) -> None:
    """Serves until it is killed. What it prints goes to the log."""
    import mcp_types as types

    with log.open("ab") as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    if sdk == "python":
        from mcp.server.mcpserver import MCPServer as Server
    else:
        from fastmcp import FastMCP as Server
    server: Any = Server("restarting")

    @server.tool()
    async def work(job: str, seconds: float = 0.0) -> str:
        """Does a named job, which may take long."""
        with runs.open("a") as begun:
            begun.write(f"{job}\n")
        await asyncio.sleep(seconds)
        return job

    @server.tool(name=f"of_{generation}")
    async def of_this_generation() -> str:
        """Is there in this generation only."""
        return str(generation)

    @server.resource("note://same")
    def same() -> str:
        return "the same"

    @server.resource("note://generation")
    def of_the_generation() -> str:
        return str(generation)

    # Neither has a public place for what legacy clients subscribe to.
    low = server._lowlevel_server if sdk == "python" else server._mcp_server

    async def agree(context: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, agree)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, agree)
    if sdk == "python":
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False)

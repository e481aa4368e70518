"""A server of the PyPI SDK, or of FastMCP, that is killed and started again as another generation of itself.

Every generation has the tools `work` and `of_<generation>`, the same resource `note://same`, and writes each job it begins to a file,
so that none can run twice unseen.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sdk", choices=["python", "fastmcp"], required=True)
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--generation", type=int, required=True)
    arguments.add_argument("--runs", type=Path, required=True)
    chosen = arguments.parse_args()
    if chosen.sdk == "python":
        from mcp.server.mcpserver import MCPServer as Server
    else:
        from fastmcp import FastMCP as Server
    server = Server("restarting")

    @server.tool()
    async def work(job: str, seconds: float = 0.0) -> str:
        """Does a named job, which may take long."""
        with chosen.runs.open("a") as runs:
            runs.write(f"{job}\n")
        await asyncio.sleep(seconds)
        return job

    @server.tool(name=f"of_{chosen.generation}")
    async def of_this_generation() -> str:
        """Is there in this generation only."""
        return str(chosen.generation)

    @server.resource("note://same")
    def same() -> str:
        return "the same"

    if chosen.sdk == "python":
        server.run("streamable-http", host="127.0.0.1", port=chosen.port)
    else:
        server.run(transport="http", host="127.0.0.1", port=chosen.port, path="/mcp", show_banner=False)


if __name__ == "__main__":
    main()

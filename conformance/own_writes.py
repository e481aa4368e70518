"""Read your writes, with PyPI clients of both eras, over HTTP and stdio, before servers of the PyPI SDK that change.

A client has a tool added or removed and lists at once: the list shows it, though the gateway gathers changes for much longer
before it announces them. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import traceback

from mcp import Client, StdioServerParameters

CHECK_SECONDS = 60.0
SERVERS = ["oldpipe", "newpipe", "oldweb", "web"]
TIMES = 5


async def all_there(client: Client) -> None:
    """Waits for servers that take their time to start: that is another story."""
    async with asyncio.timeout(CHECK_SECONDS):
        while True:
            names = {tool.name for tool in (await client.list_tools()).tools}
            if all(f"{server}__add" in names for server in SERVERS):
                return
            await asyncio.sleep(0.1)


async def sees_what_it_did(client: Client, server: str, era: str, road: str) -> None:
    for number in range(TIMES):
        name = f"pypi_{era}_{road}_{number}"
        public = f"{server}__{name}"
        for verb, arguments in (("add", {"name": name, "text": "new"}), ("remove", {"name": name})):
            result = await client.call_tool(f"{server}__{verb}", arguments)
            assert not result.is_error, result
            listed = await client.list_tools()
            shown = public in {tool.name for tool in listed.tools}
            assert shown == (verb == "add"), f"{public} after {verb}"


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", required=True, help="the MCP URL of a gateway with the changing servers")
    parser.add_argument("--quiet", required=True, type=float, help="how long that gathers changes, in seconds")
    parser.add_argument("command", nargs="+", help="a gateway on stdio with the same servers")
    arguments = parser.parse_args()
    passed = failed = 0
    for road in ("http", "stdio"):
        for era in ("legacy", "modern"):
            command = StdioServerParameters(command=arguments.command[0], args=arguments.command[1:])
            target = arguments.gateway if road == "http" else command
            async with Client(target, mode="auto" if era == "modern" else "legacy", cache=None) as client:
                await all_there(client)
                for server in SERVERS:
                    what = f"pypi {era} client over {road}, server {server}"
                    begun = time.monotonic()
                    try:
                        async with asyncio.timeout(CHECK_SECONDS):
                            await sees_what_it_did(client, server, era, road)
                        took = time.monotonic() - begun
                        assert took < 2 * TIMES * arguments.quiet, f"it waited for the window: {took:.1f} s"
                        passed += 1
                        print(f"PASS {what}")
                    except Exception:
                        failed += 1
                        print(f"FAIL {what}\n{traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""Both races of a subscription, with PyPI clients of both eras, over HTTP and stdio, before slow servers of both eras.

A change before the server has answered is told, but not before; a change while the client leaves is not told after it has
left, though others who follow the same hear of it. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters

CHECK_SECONDS = 120.0
NOTICE_SECONDS = 20.0
# How long a subscription that nobody wants lingers at the server, and then takes to end there.
LINGER_SECONDS = 2.0
TRIES = 6


@dataclass
class Ear:
    """When which resource was said to have changed."""

    told: list[tuple[float, str]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.told.append((time.monotonic(), str(message.params.uri)))
            self.news.set()

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(NOTICE_SECONDS):
            while len(self.told) < count:
                self.news.clear()
                await self.news.wait()


@dataclass
class Setting:
    url: str
    command: StdioServerParameters
    delay: float
    quiet: float

    def client(self, era: str, road: str, ear: Ear) -> Client:
        target = self.url if road == "http" else self.command
        return Client(target, mode="auto" if era == "modern" else "legacy", message_handler=ear.hear, cache=None)


@asynccontextmanager
async def following(client: Client, era: str, uri: str) -> AsyncIterator[None]:
    if era == "modern":
        async with client.listen(resource_subscriptions=[uri]) as listen:
            assert listen.honored.resource_subscriptions == [uri], listen.honored
            yield
    else:
        await client.subscribe_resource(uri)
        yield
        await client.unsubscribe_resource(uri)


async def both_races(setting: Setting, era: str, road: str, server: str) -> None:
    ear = Ear()
    own = f"note://pypi-{era}-{road}"
    uri = f"{server}+{own}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(setting.client(era, road, ear))

        async def touch() -> None:
            await client.call_tool(f"{server}__touch", {"uri": own})

        # The server says that it changed at once, and agrees when its delay is over.
        asked = time.monotonic()
        async with following(client, era, uri):
            await ear.wait(1)
            at, what = ear.told[0]
            assert what == uri, ear.told
            assert at - asked >= setting.delay, f"told after {at - asked:.3f} s, before the server agreed"
            await asyncio.sleep(2 * setting.quiet)
            assert len(ear.told) == 1, f"one change, told {ear.told}"
        # Long enough for what the server says when it is left.
        await asyncio.sleep(LINGER_SECONDS + setting.delay + 2 * setting.quiet)
        assert len(ear.told) == 1, f"told after it left: {ear.told}"

        for _ in range(TRIES):
            others = Ear()
            # Whoever follows the same from the same gateway goes on to hear.
            async with setting.client("legacy", road, others) as witness:
                await witness.subscribe_resource(uri)
                async with following(client, era, uri):
                    await ear.wait(len(ear.told) + (road == "stdio"))
                    await asyncio.sleep(2 * setting.quiet)
                    before, also = len(ear.told), len(others.told)
                    touched = time.monotonic()
                    await touch()
                left = time.monotonic()
                if road == "http":
                    await others.wait(also + 1)
                await asyncio.sleep(2 * setting.quiet)
            # A machine that is too busy to leave in time shows nothing.
            if left - touched < setting.quiet:
                assert len(ear.told) == before, f"told after it left at {left}: {ear.told}"
                return
        raise AssertionError(f"took {left - touched:.3f} s to leave, {TRIES} times: too slow to show anything")


async def run(setting: Setting) -> tuple[int, int]:
    combinations = list(itertools.product(("legacy", "modern"), ("http", "stdio"), ("slowold", "slownew")))

    async def check(combination: tuple[str, str, str]) -> bool:
        era, road, server = combination
        name = f"PyPI client, {era}, {road}, {server}: both races"
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await both_races(setting, era, road, server)
        except Exception:
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
            return False
        print(f"PASS {name}", flush=True)
        return True

    passed = sum(await asyncio.gather(*map(check, combinations)))
    return passed, len(combinations) - passed


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gateway", required=True, help="MCP URL of a gateway with servers slowold and slownew")
    arguments.add_argument("--delay", type=float, required=True, help="of the servers, in seconds")
    arguments.add_argument("--quiet", type=float, required=True, help="of the gateway, in seconds")
    arguments.add_argument("program", help="of a command that serves the same on stdio, after --")
    arguments.add_argument("arguments", nargs="*", help="of that command")
    options = arguments.parse_args()
    command = StdioServerParameters(command=options.program, args=options.arguments)
    setting = Setting(options.gateway, command, options.delay, options.quiet)
    passed, failed = asyncio.run(run(setting))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

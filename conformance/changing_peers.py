"""Real servers that change while they are used, watched through the gateway by PyPI clients of both eras.

Every watcher lists again at once on each notification and keeps what it saw last. After a real change each must have been
told exactly once, and the list it then read must show the change. That nothing was said about something else is shown by a
real change that follows: its notice comes, and none before it. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client

CHECK_SECONDS = 60.0
NOTICE_SECONDS = 10.0
QUIET_SECONDS = 0.7
CHANGING = ["oldpipe", "newpipe", "oldweb", "web"]
TOPICS = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}


@dataclass
class Watcher:
    """A client that follows; `told` counts notices, `lists` holds the keys that it saw last."""

    era: str
    told: Counter[str] = field(default_factory=Counter)
    lists: dict[str, set[str]] = field(default_factory=dict)
    client: Client | None = None
    _listing: set[asyncio.Task[None]] = field(default_factory=set)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def hear(self, message: Any) -> None:
        topic = TOPICS.get(type(message))
        if topic is None:
            return
        self.told[topic] += 1
        # Not awaited here: the handler must return before an answer can be read.
        task = asyncio.create_task(self.look(topic))
        self._listing.add(task)
        task.add_done_callback(self._listing.discard)

    async def look(self, topic: str) -> None:
        assert self.client is not None
        keys: set[str] = set()
        cursor: str | None = None
        while True:
            if topic == "tools":
                page: Any = await self.client.list_tools(cursor=cursor)
                keys |= {tool.name for tool in page.tools}
            elif topic == "prompts":
                page = await self.client.list_prompts(cursor=cursor)
                keys |= {prompt.name for prompt in page.prompts}
            else:
                page = await self.client.list_resources(cursor=cursor)
                keys |= {str(resource.uri) for resource in page.resources}
            cursor = page.next_cursor
            if cursor is None:
                break
        async with self._news:
            self.lists[topic] = keys
            self._news.notify_all()

    async def wait(self, holds: Callable[[], bool], what: str) -> None:
        async def until() -> None:
            async with self._news:
                await self._news.wait_for(holds)

        try:
            await asyncio.wait_for(until(), NOTICE_SECONDS)
        except TimeoutError:
            lists = {topic: sorted(keys) for topic, keys in self.lists.items()}
            raise AssertionError(f"{self.era}: {what}; told {dict(self.told)}, saw {lists}") from None


@dataclass
class Crowd:
    """All watchers, and how often each should have been told."""

    watchers: list[Watcher]
    expected: dict[str, Counter[str]]

    async def told_once(self, topic: str, shown: Callable[[set[str]], bool], what: str) -> None:
        """Each watcher was told of this one change and of nothing else, and has read it."""
        for watcher in self.watchers:
            self.expected[watcher.era][topic] += 1
            await watcher.wait(lambda w=watcher: shown(w.lists.get(topic, set())), what)
            self.check(watcher, what)

    def check(self, watcher: Watcher, what: str) -> None:
        expected = self.expected[watcher.era]
        assert watcher.told == expected, f"{watcher.era}: {what}: told {dict(watcher.told)}, expected {dict(expected)}"

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        for_change = self.watchers[0].client
        assert for_change is not None
        result = await for_change.call_tool(tool, arguments)
        assert not result.is_error, f"{tool}: {result}"


@asynccontextmanager
async def watching(gateway: str, caller: str) -> AsyncIterator[Crowd]:
    """Watchers of both eras; the one of the era `caller` also makes the changes."""
    async with AsyncExitStack() as stack:
        legacy, modern = Watcher("legacy"), Watcher("modern")
        legacy.client = await stack.enter_async_context(
            Client(gateway, mode="legacy", message_handler=legacy.hear, cache=None)
        )
        modern.client = await stack.enter_async_context(
            Client(gateway, mode="auto", message_handler=modern.hear, cache=None)
        )
        await stack.enter_async_context(
            modern.client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)
        )
        # A new session is told of each list once.
        everything = Counter(dict.fromkeys(TOPICS.values(), 1))
        await legacy.wait(lambda: len(legacy.lists) == len(TOPICS), "the first notices")
        assert legacy.told == everything, legacy.told
        for topic in TOPICS.values():
            await modern.look(topic)
        watchers = [legacy, modern] if caller == "legacy" else [modern, legacy]
        crowd = Crowd(watchers, {"legacy": everything, "modern": Counter()})
        yield crowd
        # Long enough for one more discovery, to show that nothing more comes.
        await asyncio.sleep(QUIET_SECONDS)
        for watcher in watchers:
            crowd.check(watcher, "afterwards")


async def each_added_and_removed_tool_is_told_once(gateway: str, server: str, caller: str) -> None:
    async with watching(gateway, caller) as crowd:
        names = [f"extra_{caller}_{number}" for number in range(3)]
        for name in names:
            public = f"{server}__{name}"
            await crowd.call(f"{server}__add", {"name": name, "text": "one more"})
            await crowd.told_once("tools", lambda seen, public=public: public in seen, f"{public} was added")
        for name in names:
            public = f"{server}__{name}"
            await crowd.call(f"{server}__remove", {"name": name})
            await crowd.told_once("tools", lambda seen, public=public: public not in seen, f"{public} was removed")


async def a_false_alarm_is_not_told(gateway: str, server: str, caller: str) -> None:
    async with watching(gateway, caller) as crowd:
        await crowd.call(f"{server}__cry", {"times": 5})
        name = f"wolf-{caller}"
        await crowd.call(f"{server}__write", {"name": name})
        uri = f"{server}+note://{name}"
        await crowd.told_once("resources", lambda seen: uri in seen, f"{uri} was added")


async def everything_tells_of_new_files_once_and_not_of_the_same(gateway: str, _server: str, caller: str) -> None:
    async with watching(gateway, caller) as crowd:

        async def zip_file(name: str) -> str:
            await crowd.call("everything__gzip-file-as-resource", {"name": name, "data": "data:text/plain,tidings"})
            return f"everything+demo://resource/session/{name}"

        first = await zip_file(f"first-{caller}.gz")
        await crowd.told_once("resources", lambda seen: first in seen, f"{first} was added")
        # Removed and registered anew, announced twice, and the same as before.
        await zip_file(f"first-{caller}.gz")
        second = await zip_file(f"second-{caller}.gz")
        await crowd.told_once("resources", lambda seen: second in seen, f"{second} was added")


async def memory_changes_its_content_and_no_list(gateway: str, _server: str, caller: str) -> None:
    async with watching(gateway, caller) as crowd:
        entity = {"name": f"Watched-{caller}", "entityType": "program", "observations": ["changes"]}
        await crowd.call("memory__create_entities", {"entities": [entity]})
        await crowd.call("memory__read_graph", {})
        await crowd.call("memory__delete_entities", {"entityNames": [entity["name"]]})
        name = f"after-memory-{caller}"
        await crowd.call("oldpipe__write", {"name": name})
        uri = f"oldpipe+note://{name}"
        await crowd.told_once("resources", lambda seen: uri in seen, f"{uri} was added")


@dataclass
class Readers:
    """Clients of both eras that follow one resource, and one that does not."""

    uri: str
    clients: dict[str, Client]
    heard: dict[str, asyncio.Queue[str]]

    async def told_once(self, eras: list[str]) -> None:
        for era in eras:
            uri = await asyncio.wait_for(self.heard[era].get(), NOTICE_SECONDS)
            assert uri == self.uri, f"{era}: {uri}"
        # Longer than the quiet window, to show that nothing more comes.
        await asyncio.sleep(QUIET_SECONDS)
        left = {era: queue.qsize() for era, queue in self.heard.items()}
        assert not any(left.values()), left


@asynccontextmanager
async def following(gateway: str, uri: str) -> AsyncIterator[Readers]:
    heard: dict[str, asyncio.Queue[str]] = {era: asyncio.Queue() for era in ("legacy", "modern", "idle")}

    def client(era: str) -> Client:
        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                heard[era].put_nowait(str(message.params.uri))

        return Client(gateway, mode="auto" if era == "modern" else "legacy", message_handler=hear, cache=None)

    async with AsyncExitStack() as stack:
        clients = {era: await stack.enter_async_context(client(era)) for era in heard}
        await clients["legacy"].subscribe_resource(uri)
        listen = await stack.enter_async_context(clients["modern"].listen(resource_subscriptions=[uri]))
        assert listen.honored.resource_subscriptions == [uri], listen.honored
        yield Readers(uri, clients, heard)


async def memory_tells_all_who_follow_its_graph_once(gateway: str, _server: str, caller: str) -> None:
    async with following(gateway, "memory+memory://knowledge-graph") as readers:
        entity = {"name": f"Followed-{caller}", "entityType": "program", "observations": ["changes"]}
        await readers.clients[caller].call_tool("memory__create_entities", {"entities": [entity]})
        await readers.told_once(["legacy", "modern"])
        for era in ("legacy", "modern"):
            read = await readers.clients[era].read_resource(readers.uri)
            assert entity["name"] in str(read.contents[0]), f"{era} reads {read}"
        await readers.clients["legacy"].unsubscribe_resource(readers.uri)
        await readers.clients[caller].call_tool("memory__delete_entities", {"entityNames": [entity["name"]]})
        await readers.told_once(["modern"])


async def a_modern_server_tells_all_who_follow_a_note_once(gateway: str, server: str, caller: str) -> None:
    name = f"followed-{caller}"
    async with Client(gateway, mode="legacy", cache=None) as writer:
        await writer.call_tool(f"{server}__write", {"name": name})
    async with following(gateway, f"{server}+note://{name}") as readers:
        await readers.clients[caller].call_tool(f"{server}__touch", {"name": name})
        await readers.told_once(["legacy", "modern"])


Check = Callable[[str, str, str], Awaitable[None]]
CHECKS: list[tuple[Check, list[str]]] = [
    (each_added_and_removed_tool_is_told_once, CHANGING),
    (a_false_alarm_is_not_told, CHANGING),
    (everything_tells_of_new_files_once_and_not_of_the_same, ["everything"]),
    (memory_changes_its_content_and_no_list, ["memory"]),
    (memory_tells_all_who_follow_its_graph_once, ["memory"]),
    (a_modern_server_tells_all_who_follow_a_note_once, ["newpipe", "web"]),
]


async def all_are_there(gateway: str) -> None:
    """Waits for the first lists of all servers: a server that comes later is a change, too."""
    servers = {server for _, servers in CHECKS for server in servers}
    async with Client(gateway, mode="auto", cache=None) as client:
        while True:
            tools = (await client.list_tools()).tools
            if servers <= {tool.name.split("__")[0] for tool in tools}:
                return
            await asyncio.sleep(0.1)


async def run(gateway: str) -> tuple[int, int]:
    passed = failed = 0
    await asyncio.wait_for(all_are_there(gateway), CHECK_SECONDS)
    for check, servers in CHECKS:
        for server in servers:
            for caller in ("legacy", "modern"):
                name = f"{server} changed by a {caller} client: {check.__name__}"
                try:
                    await asyncio.wait_for(check(gateway, server, caller), CHECK_SECONDS)
                except Exception:
                    failed += 1
                    print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
                else:
                    passed += 1
                    print(f"PASS {name}", flush=True)
    return passed, failed


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gateway", required=True, help="MCP URL of a gateway in front of the servers named above")
    passed, failed = asyncio.run(run(arguments.parse_args().gateway))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

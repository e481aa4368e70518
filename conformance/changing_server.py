"""A server of the PyPI SDK that adds and removes tools and resources while it runs, and says so.

On stdio, or with `--port` over HTTP. It speaks both eras and announces in both.
"""

from __future__ import annotations

import argparse
import functools

from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import TextResource

server = MCPServer("changing")
# The SDK declares `listChanged` to legacy clients only when its options say so, and has no public place for them.
_low = server._lowlevel_server
_low.create_initialization_options = functools.partial(
    _low.create_initialization_options,
    NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True),
)


async def say_that_tools_changed(context: Context) -> None:
    await context.notify_tools_changed()
    # Sessions of the legacy era are told separately; in the modern one nobody hears this.
    await context.session.send_tool_list_changed()


@server.tool()
async def add(name: str, text: str, context: Context) -> str:
    """Adds a tool that answers with a text."""
    server.add_tool(lambda: text, name=name, description=text)
    await say_that_tools_changed(context)
    return f"added {name}"


@server.tool()
async def remove(name: str, context: Context) -> str:
    """Removes a tool."""
    server.remove_tool(name)
    await say_that_tools_changed(context)
    return f"removed {name}"


@server.tool()
async def describe(name: str, text: str, context: Context) -> str:
    """Describes a tool anew."""
    server.remove_tool(name)
    server.add_tool(lambda: text, name=name, description=text)
    await say_that_tools_changed(context)
    return f"described {name}"


@server.tool()
async def cry(times: int, context: Context) -> str:
    """Says that tools changed, though they did not."""
    for _ in range(times):
        await say_that_tools_changed(context)
    return f"cried {times} times"


@server.tool()
async def write(name: str, context: Context) -> str:
    """Adds a resource."""
    server.add_resource(TextResource(uri=f"note://{name}", name=name, text=name))
    await context.notify_resources_changed()
    await context.session.send_resource_list_changed()
    return f"wrote {name}"


@server.tool()
async def touch(name: str, context: Context) -> str:
    """Says to those who listen that a resource changed."""
    await context.notify_resource_updated(f"note://{name}")
    return f"touched {name}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, help="serve over HTTP at this port")
    port = arguments.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()

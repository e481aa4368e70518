"""A client of PyPI that comes to a gateway without a token: it finds the provider by what the gateway says, registers, logs in with a browser
of its own, lists and calls. Prints the tools that it saw.

Started by `provider.mjs`, which has the provider and the gateway: provider_client.py URL MODE, where MODE is `auto` or `legacy`.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

BACK = "http://127.0.0.1:1/callback"
SECONDS = 30


class Kept:
    """Where the SDK keeps what it was given."""

    tokens = client_info = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client_info

    async def set_client_info(self, client_info):
        self.client_info = client_info


class Browser:
    """Follows redirects as a browser does until it would come back to the client."""

    came_back = ""

    async def go(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            for _ in range(20):
                page = await http.get(url, follow_redirects=False)
                url = str(httpx2.URL(url).join(page.headers["location"]))
                if url.startswith(BACK):
                    self.came_back = url
                    return
        raise AssertionError("it leads in circles")

    async def back(self) -> AuthorizationCodeResult:
        fields = {name: values[0] for name, values in parse_qs(urlsplit(self.came_back).query).items()}
        return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))


async def main(url: str, mode: str) -> None:
    browser, kept = Browser(), Kept()
    metadata = OAuthClientMetadata(client_name="pypi", redirect_uris=[AnyUrl(BACK)], grant_types=["authorization_code"], token_endpoint_auth_method="none")
    login = OAuthClientProvider(url, metadata, kept, browser.go, browser.back)
    async with httpx2.AsyncClient(auth=login, timeout=SECONDS) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = (await client.list_tools()).tools
            result = await client.call_tool(tools[0].name, {})
    assert browser.came_back and kept.tokens, "it was not led to the provider"
    assert tools and result.content, "it saw nothing"
    print(" ".join(tool.name for tool in tools))


asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2]), SECONDS))

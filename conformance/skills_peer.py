"""FastMCP on either side of the gateway: a server with the skills of a folder, or a client that reads and verifies all that it is shown.

    python conformance/skills_peer.py serve FOLDER PORT
    python conformance/skills_peer.py read URL

The client prints the URIs of all skills as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys


def serve(folder: str, port: int) -> None:
    from fastmcp import FastMCP
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.skills.extension import SkillsExtension

    server = FastMCP("fast")
    provider = SkillsDirectoryProvider(roots=folder, experimental_skills=True)
    server.add_provider(provider)
    server.add_extension(SkillsExtension(providers=[provider]))
    server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)


async def read(url: str) -> list[str]:
    from fastmcp import Client
    from fastmcp.skills import SkillsClientExtension

    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        for skill in skills:
            got = await client.get_skill(skill.uri)
            assert got == skill, f"{got} is not {skill}"
            for file in skill.resources:
                content = (await client.read_resource(file.uri))[0]
                data = base64.b64decode(content.blob) if hasattr(content, "blob") else content.text.encode()
                digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
                assert (len(data), digest) == (file.size, file.digest), f"{file.uri} is another file"
    return [skill.uri for skill in skills]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        print(json.dumps(asyncio.run(read(sys.argv[2]))))

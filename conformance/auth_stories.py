"""The PyPI SDK's stories about authorization, each with its own server and client, and the gateway between: a server that wants a login of a
person, one that wants one of a machine, and a client that comes with a token. In both eras.

The stories are bound to one port, which may be taken: their address is another one here, and nothing else of them. Prints PASS or FAIL
for each, and the totals last.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gateway
from auth_scenarios import Login

START_SECONDS = 60.0
STORY_SECONDS = 60.0
# Runs the server of a story under another address.
AT_ANOTHER_ADDRESS = """
import runpy, sys
import stories._shared.auth as auth
port = sys.argv[2]
auth.BASE_URL = f"http://127.0.0.1:{port}"
auth.MCP_URL = f"{auth.BASE_URL}/mcp"
name, sys.argv = sys.argv[1], ["server", "--port", port]
runpy.run_module(f"stories.{name}.server", run_name="__main__")
"""
TOKEN = "demo-token"
STORIES = ["oauth", "oauth_client_credentials", "bearer_auth"]


def settings(story: str, url: str) -> str:
    """What the gateway is told of the server, and of who may come in."""
    lines = ["[servers.mock]", f'url = "{url}"']
    if story == "oauth_client_credentials":
        lines += ["[servers.mock.auth]", 'grant = "client_credentials"', 'client_id = "demo-m2m-client"', 'client_secret = "demo-m2m-secret"']
    if story == "bearer_auth":
        # The client's token opens the gateway and goes no further; the server gets the gateway's own, which is the same here.
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        lines += [f'headers = {{ Authorization = "Bearer {TOKEN}" }}', "[auth]", f'tokens = [{{ name = "story", sha256 = "{digest}" }}]']
    return "\n".join(lines) + "\n"


@contextmanager
def server(story: str, examples: Path, log: Path) -> Iterator[str]:
    port = gateway.free_port()
    command = [sys.executable, "-c", AT_ANOTHER_ADDRESS, story, str(port)]
    with log.open("wb") as sink:
        environment = {**os.environ, "OAUTH_DEMO_AUTO_CONSENT": "1"}
        process = subprocess.Popen(command, cwd=examples, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not gateway.accepts(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server of {story} did not start: {log}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def client(story: str, legacy: bool, url: str, examples: Path, log: Path) -> str | None:
    """Why the story's own client did not like what it saw."""
    command = [sys.executable, "-m", f"stories.{story}.client", "--http", url, *(["--legacy"] if legacy else [])]
    with log.open("wb") as sink:
        try:
            ran = subprocess.run(command, cwd=examples, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, timeout=STORY_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return "it takes too long"
    if ran.returncode == 0:
        return None
    return (log.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]


def run(story: str, legacy: bool, options: argparse.Namespace) -> str | None:
    own = options.directory / f"{story}{'-legacy' if legacy else ''}"
    own.mkdir(parents=True, exist_ok=True)
    examples = options.examples
    try:
        with (
            server(story, examples, own / "server.log") as url,
            gateway.serving(settings(story, url), options.tidings, own) as base,
        ):
            if story == "oauth" and not Login(options.tidings, own / "data")():
                return "the login failed"
            if story == "bearer_auth" and legacy:
                refused = gateway_status(f"{base}/mcp")
                if refused != 401:
                    return f"without a token the gateway answers {refused}"
            return client(story, legacy, f"{base}/mcp", examples, own / "client.log")
    except RuntimeError as error:
        return str(error)


def gateway_status(url: str) -> int:
    """What somebody without a token is answered."""
    request = urllib.request.Request(url, data=b"{}", headers={"content-type": "application/json", "accept": "application/json, text/event-stream"})
    try:
        return urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as refused:
        return refused.code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidings", required=True, help="the binary under test")
    parser.add_argument("--examples", required=True, type=Path, help="the folder that holds the stories")
    parser.add_argument("--directory", required=True, type=Path, help="where logs go")
    options = parser.parse_args()
    options.examples = options.examples.resolve()
    os.environ["PYTHONPATH"] = str(options.examples)
    failed = 0
    for story in STORIES:
        for legacy in (False, True):
            reason = run(story, legacy, options)
            title = f"{story} ({'legacy' if legacy else 'modern'})"
            print(f"PASS {title}" if reason is None else f"FAIL {title}: {reason}", flush=True)
            failed += reason is not None
    print(f"{2 * len(STORIES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

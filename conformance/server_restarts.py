"""The restart table: servers that others wrote, killed and started again behind the gateway.

Each is killed while idle, between calls and during a call, directly and behind a proxy that cuts idle streams. Checked each time: a call
works within two seconds of the server's return; an idle follower is told what changed and nothing else within five; `tidings
servers` never says ready after a call failed; no call runs twice. Prints PASS or FAIL for each check, and the totals last.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gateway import _die_with_parent, _wait_until_ready, accepts, free_port

CALL_WORKS = 2.0
FOLLOWER_KNOWS = 5.0
START_SECONDS = 60.0
IDLE_CUT_SECONDS = 1.0
QUIET_SECONDS = 1.0
HERE = Path(__file__).parent


class Server:
    """A program on a port of its own, which can be killed and started again."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        self.port = free_port()
        self.generation = 0
        self.runs = directory / "runs.txt"
        self.runs.touch()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def start(self) -> None:
        arguments, environment = self.command()
        with (self.directory / "server.log").open("ab") as sink:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **environment},
                preexec_fn=_die_with_parent,
            )
        deadline = time.monotonic() + START_SECONDS
        while not accepts(self.port):
            assert self.process.poll() is None and time.monotonic() < deadline, f"{self.name} does not start"
            time.sleep(0.005)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.generation += 1

    # What the checks need to know about it.
    changes = True

    def call(self, job: str, seconds: float) -> tuple[str, dict[str, Any]]:
        return "work", {"job": job, "seconds": seconds}

    def followed(self) -> str | None:
        return None


class PythonServer(Server):
    sdk = "python"

    def command(self) -> tuple[list[str], dict[str, str]]:
        script = [sys.executable, str(HERE / "restarting_server.py"), "--sdk", self.sdk, "--port", str(self.port)]
        return [*script, "--generation", str(self.generation), "--runs", str(self.runs)], {}


class FastMcpServer(PythonServer):
    sdk = "fastmcp"


class EverythingServer(Server):
    """The reference server of npm: it refuses an unknown session with status 400, and is the same after every start."""

    node = ""
    script = ""
    changes = False

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [self.node, self.script, "streamableHttp"], {"PORT": str(self.port)}

    def call(self, job: str, seconds: float) -> tuple[str, dict[str, Any]]:
        if seconds:
            return "trigger-long-running-operation", {"duration": seconds, "steps": 2}
        return "echo", {"message": job}

    def followed(self) -> str | None:
        return "demo://resource/static/document/architecture.md"


class CuttingProxy:
    """Passes bytes to a port, and closes whatever was silent for a while, as proxies in the world do."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inward, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(inward,), daemon=True).start()

    def _pass(self, inward: socket.socket) -> None:
        with inward:
            try:
                outward = socket.create_connection(("127.0.0.1", self.target), timeout=2)
            except OSError:
                return
            with outward:
                pair = {inward: outward, outward: inward}
                with contextlib.suppress(OSError):
                    while ready := select.select([inward, outward], [], [], IDLE_CUT_SECONDS)[0]:
                        for source in ready:
                            data = source.recv(65_536)
                            if not data:
                                return
                            pair[source].sendall(data)

    def close(self) -> None:
        self.listener.close()


class Client:
    """A legacy client of the gateway, in plain HTTP: nothing of an SDK repeats a request by itself."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.session: str | None = None
        self.next_id = 0
        self.heard: list[dict[str, Any]] = []
        info = {"name": "restarts", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.request("initialize", params)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"mcp-session-id": self.session, "mcp-protocol-version": "2025-11-25"}
        return headers

    def _post(self, message: dict[str, Any]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/mcp", json.dumps(message), self._headers())
        answer = connection.getresponse()
        self.session = self.session or answer.getheader("mcp-session-id")
        body = answer.read()
        connection.close()
        return body

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.next_id += 1
        body = self._post({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}).decode()
        if body.startswith("{"):
            return json.loads(body)
        answers = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
        return next(answer for answer in answers if answer.get("id") == self.next_id)

    def call(self, server: Server, job: str, seconds: float = 0.0) -> dict[str, Any]:
        name, arguments = server.call(job, seconds)
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def listen(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", "/mcp", headers={**self._headers(), "accept": "text/event-stream"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status

        def read() -> None:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                while line := answer.readline():
                    if line.startswith(b"data:") and line[5:].strip():
                        self.heard.append(json.loads(line[5:]))

        threading.Thread(target=read, daemon=True).start()

    def told(self) -> list[str]:
        """Kinds of lists and URIs of resources, in order."""
        about = []
        for message in self.heard:
            method = message.get("method", "")
            if method.endswith("/list_changed"):
                about.append(method.split("/")[1])
            elif method == "notifications/resources/updated":
                about.append(message["params"]["uri"])
        return about


def failed(answer: dict[str, Any]) -> bool:
    return "error" in answer


class Scene:
    """One server behind one gateway."""

    def __init__(self, server: Server, gateway_port: int, data: Path) -> None:
        self.server, self.port, self.data = server, gateway_port, data
        self.client = Client(gateway_port)
        self.jobs = 0

    def job(self) -> str:
        self.jobs += 1
        return f"job-{self.jobs}"

    def state(self) -> str:
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/servers", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            servers = json.load(answer)["servers"]
        return next(server["state"] for server in servers if server["name"] == "one")

    def call(self, seconds: float = 0.0) -> dict[str, Any]:
        answer = self.client.call(self.server, self.job(), seconds)
        if failed(answer):
            assert (state := self.state()) != "ready", f"ready after {answer}, {state}"
        return answer

    def wait_until_it_works(self) -> None:
        back = time.monotonic()
        while failed(answer := self.call()):
            assert time.monotonic() - back < CALL_WORKS, f"no call works after {CALL_WORKS} s: {answer}"
            time.sleep(0.02)
        assert (took := time.monotonic() - back) < CALL_WORKS, f"the call that works took {took:.1f} s"

    def wait_ready(self) -> None:
        deadline = time.monotonic() + FOLLOWER_KNOWS
        while self.state() != "ready":
            assert time.monotonic() < deadline, "not ready"
            time.sleep(0.02)

    def check_runs(self) -> None:
        runs = self.server.runs.read_text().split()
        twice = {job for job in runs if runs.count(job) > 1}
        assert not twice, f"ran twice: {twice}"


def between_calls(scene: Scene) -> None:
    for _ in range(3):
        assert not failed(scene.call())
        scene.server.kill()
        scene.server.start()
        scene.wait_until_it_works()


def calls_while_it_is_away(scene: Scene) -> None:
    scene.server.kill()
    for _ in range(5):
        assert failed(scene.call())
        time.sleep(0.3)
    scene.server.start()
    scene.wait_until_it_works()


def during_a_call(scene: Scene) -> None:
    answers: list[dict[str, Any]] = []
    running = threading.Thread(target=lambda: answers.append(Client(scene.port).call(scene.server, scene.job(), 30.0)))
    running.start()
    time.sleep(0.5)
    scene.server.kill()
    scene.server.start()
    scene.wait_until_it_works()
    running.join(10)
    assert answers and failed(answers[0]), f"the call that was cut off: {answers}"


def idle_with_a_follower(scene: Scene) -> None:
    follower = Client(scene.port)
    follower.listen()
    if uri := scene.server.followed():
        answer = follower.request("resources/subscribe", {"uri": uri})
        assert not failed(answer), answer
        follower.request("resources/read", {"uri": uri})
    time.sleep(QUIET_SECONDS)
    before = len(follower.told())
    connects = scene.server.generation
    scene.server.kill()
    time.sleep(1.5)
    scene.server.start()
    back = time.monotonic()
    expected = ["tools"] if scene.server.changes else []
    while scene.state() != "ready" or len(follower.told()) - before < len(expected):
        assert time.monotonic() - back < FOLLOWER_KNOWS, f"{scene.state()}, told {follower.told()[before:]}"
        time.sleep(0.02)
    # Nothing else comes later.
    time.sleep(QUIET_SECONDS)
    assert follower.told()[before:] == expected, f"told {follower.told()[before:]} and not {expected}"
    assert scene.server.generation == connects + 1
    assert not failed(scene.call())


SITUATIONS: list[Callable[[Scene], None]] = [
    between_calls,
    calls_while_it_is_away,
    during_a_call,
    idle_with_a_follower,
]


@contextlib.contextmanager
def scene_of(make: type[Server], era: str | None, proxied: bool, binary: str) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        server = make("one", directory)
        server.start()
        proxy = CuttingProxy(server.port) if proxied else None
        port = proxy.port if proxy else server.port
        config = directory / "tidings.toml"
        lines = ["[servers.one]", f'url = "http://127.0.0.1:{port}/mcp"']
        config.write_text("\n".join([*lines, f'era = "{era}"' if era else "", ""]))
        listen = free_port()
        log = directory / "tidings.log"
        data = directory / "data"
        command = [binary, "serve", "--config", str(config), "--listen", f"127.0.0.1:{listen}", "--data", str(data)]
        with log.open("wb") as sink:
            environment = {**os.environ, "NO_COLOR": "1"}
            gateway = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment, preexec_fn=_die_with_parent
            )
        try:
            _wait_until_ready(gateway, f"127.0.0.1:{listen}", log)
            yield Scene(server, listen, data)
        except BaseException:
            print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            gateway.kill()
            gateway.wait()
            if server.process is not None:
                server.process.kill()
                server.process.wait()
            if proxy:
                proxy.close()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", required=True)
    arguments.add_argument("--node", required=True)
    arguments.add_argument("--everything", required=True, help="the script of server-everything")
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--only", default="", help="part of the name of a check")
    chosen = arguments.parse_args()
    EverythingServer.node, EverythingServer.script = chosen.node, chosen.everything
    # FastMCP declares no announcements; in the modern era it has no stream and no session either, so that nothing but polling can
    # tell an idle gateway of its restart.
    unheard = {("fastmcp", idle_with_a_follower)}
    table: list[tuple[str, type[Server], str | None, bool]] = [
        ("everything", EverythingServer, None, False),
        ("everything behind a proxy", EverythingServer, None, True),
        ("python sdk, legacy", PythonServer, "legacy", False),
        ("python sdk", PythonServer, None, False),
        ("fastmcp, legacy", FastMcpServer, "legacy", False),
        ("fastmcp", FastMcpServer, None, False),
    ]
    passed = failures = 0
    for round_number in range(chosen.repeat):
        for name, make, era, proxied in table:
            for situation in SITUATIONS:
                what = f"{name}: restarted, {situation.__name__.replace('_', ' ')}"
                if chosen.only not in what or (name, situation) in unheard:
                    continue
                try:
                    with scene_of(make, era, proxied, chosen.tidings) as scene:
                        situation(scene)
                        scene.check_runs()
                    passed += 1
                    print(f"PASS {what}")
                except Exception:
                    failures += 1
                    print(f"FAIL {what} (round {round_number + 1})\n{traceback.format_exc()}")
    print(f"{passed} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

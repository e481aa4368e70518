"""The restart table: servers that others wrote, killed and started again behind the gateway.

Each is killed while idle, between calls and during a call, directly and behind a proxy that cuts idle streams, while somebody follows its
lists and resources. Checked each time: a call works within two seconds of the server's return; the follower is told what changed and nothing
else within five; `tidings servers` never says ready after a call failed; no call runs twice. Prints PASS or FAIL for each check, LEFT OUT
with the reason for what no gateway could do, and the totals last. A scripted server for each status is in
`crates/tidings/tests/recovery/restarts.rs`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import multiprocessing
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import restarting_server
from gateway import _die_with_parent, accepts, serving

CALL_WORKS = 2.0
FOLLOWER_KNOWS = 5.0
START_SECONDS = 60.0
IDLE_CUT_SECONDS = 1.0
QUIET_SECONDS = 1.0
# Below the ports from which connections are made: one of those could take the port of a server while it is away.
PORTS = itertools.count(10_240 + os.getpid() * 97 % 15_000)


def free_port() -> int:
    for port in PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the count has no end")


class Server:
    """A program on a port of its own, which can be killed and started again."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        self.port = free_port()
        self.generation = 0
        self.runs = directory / "runs.txt"
        self.runs.touch()
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def launch(self) -> subprocess.Popen[bytes] | ForkedProcess:
        arguments, environment = self.command()
        with (self.directory / "server.log").open("ab") as sink:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **environment},
                preexec_fn=_die_with_parent,
            )

    def start(self) -> None:
        self.process = self.launch()
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
    followed: tuple[str, ...] = ("note://same", "note://generation")
    tells_after_a_restart: tuple[str, ...] = ("note://generation", "tools")

    def call(self, job: str, seconds: float) -> tuple[str, dict[str, Any]]:
        return "work", {"job": job, "seconds": seconds}


class ForkedProcess:
    """A process of the fork server, with what is used of `Popen`."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        self.process = process
        process.start()

    def poll(self) -> int | None:
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.process.pid or 0, number)

    def kill(self) -> None:
        self.process.kill()

    def wait(self) -> None:
        self.process.join()


class PythonServer(Server):
    """Forked from a process that has loaded the SDKs: loading them takes seconds of a processor for each start."""

    sdk = "python"
    # The fork server finds modules nowhere else.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["restarting_server_preload"])

    def launch(self) -> ForkedProcess:
        arguments = (self.sdk, self.port, self.generation, self.runs, self.directory / "server.log")
        return ForkedProcess(self.forks.Process(target=restarting_server.serve, args=arguments, daemon=True))


class FastMcpServer(PythonServer):
    sdk = "fastmcp"


class ModernFastMcpServer(FastMcpServer):
    """In the modern era FastMCP serves no `subscriptions/listen`: nobody can follow its resources."""

    followed = ()
    tells_after_a_restart = ("tools",)


class RmcpServer(Server):
    program = ""

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [self.program, str(self.port), str(self.generation), str(self.runs)], {}


class EverythingServer(Server):
    """The reference server of npm: it refuses an unknown session with status 400, and is the same after every start."""

    node = ""
    script = ""
    followed = ("demo://resource/static/document/architecture.md",)
    tells_after_a_restart = ()

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [self.node, self.script, "streamableHttp"], {"PORT": str(self.port)}

    def call(self, job: str, seconds: float) -> tuple[str, dict[str, Any]]:
        if seconds:
            return "trigger-long-running-operation", {"duration": seconds, "steps": 2}
        return "echo", {"message": job}


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
    """One server behind one gateway, and somebody who follows it."""

    def __init__(self, server: Server, gateway_port: int, data: Path) -> None:
        self.server, self.port, self.data = server, gateway_port, data
        self.client = Client(gateway_port)
        self.jobs = 0
        self.follower: Client | None = None
        # The longest that it took after a return, in seconds.
        self.worked_after = 0.0
        self.told_after = 0.0

    def follow(self) -> None:
        follower = Client(self.port)
        follower.listen()
        for uri in self.server.followed:
            for method in ("resources/subscribe", "resources/read"):
                answer = follower.request(method, {"uri": uri})
                assert not failed(answer), answer
        # What is owed to a new session comes now.
        time.sleep(QUIET_SECONDS)
        follower.heard.clear()
        self.follower = follower

    def wait_until_told(self, restarts: int = 1) -> None:
        """Call it as soon as the server is back."""
        if self.follower is None:
            return
        back = time.monotonic()
        expected = sorted(self.server.tells_after_a_restart * restarts)
        while self.state() != "ready" or len(self.follower.told()) < len(expected):
            seconds = time.monotonic() - back
            assert seconds < FOLLOWER_KNOWS, f"{self.state()}, told {self.follower.told()} and not {expected}"
            time.sleep(0.02)
        self.told_after = max(self.told_after, time.monotonic() - back)

    def check_told(self, restarts: int = 1) -> None:
        """Exactly what changed, and nothing comes later."""
        if self.follower is None:
            return
        time.sleep(QUIET_SECONDS)
        told, expected = sorted(self.follower.told()), sorted(self.server.tells_after_a_restart * restarts)
        assert told == expected, f"told {told} and not {expected}"

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
        self.worked_after = max(self.worked_after, took)

    def check_runs(self) -> None:
        runs = self.server.runs.read_text().split()
        twice = {job for job in runs if runs.count(job) > 1}
        assert not twice, f"ran twice: {twice}"


def between_calls(scene: Scene) -> None:
    for round_number in range(3):
        assert not failed(scene.call())
        scene.server.kill()
        scene.server.start()
        scene.wait_until_it_works()
        scene.wait_until_told(round_number + 1)
    scene.check_told(3)


def calls_while_it_is_away(scene: Scene) -> None:
    scene.server.kill()
    for _ in range(5):
        assert failed(scene.call())
        time.sleep(0.3)
    scene.server.start()
    scene.wait_until_it_works()
    scene.wait_until_told()
    scene.check_told()


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
    scene.wait_until_told()
    scene.check_told()


def idle(scene: Scene) -> None:
    scene.server.kill()
    time.sleep(1.5)
    scene.server.start()
    scene.wait_until_told()
    scene.check_told()
    assert not failed(scene.call())


SITUATIONS: list[Callable[[Scene], None]] = [
    between_calls,
    calls_while_it_is_away,
    during_a_call,
    idle,
]


@dataclass
class Row:
    name: str
    make: type[Server]
    era: str | None = None
    proxied: bool = False
    # Situations in which the follower can not be told, or which make no sense at all, and why.
    not_told: dict[Callable[[Scene], None], str] = field(default_factory=dict)
    left_out: dict[Callable[[Scene], None], str] = field(default_factory=dict)


UNHEARD = "FastMCP has neither stream nor session in the modern era, so that only polling sees a restart which no call met"
TABLE = [
    Row("fastmcp, legacy", FastMcpServer, "legacy"),
    Row("everything", EverythingServer),
    Row("rmcp, legacy", RmcpServer, "legacy"),
    Row("python sdk, legacy", PythonServer, "legacy"),
    Row("everything behind a proxy", EverythingServer, proxied=True),
    Row("rmcp", RmcpServer),
    Row("fastmcp", ModernFastMcpServer, not_told={between_calls: UNHEARD}, left_out={idle: UNHEARD}),
    Row("rmcp, legacy, behind a proxy", RmcpServer, "legacy", proxied=True),
    Row("python sdk", PythonServer),
    Row("rmcp behind a proxy", RmcpServer, proxied=True),
    Row("python sdk behind a proxy", PythonServer, proxied=True),
]


@contextlib.contextmanager
def scene_of(row: Row, binary: str) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        server = row.make("one", directory)
        server.start()
        proxy = CuttingProxy(server.port) if row.proxied else None
        port = proxy.port if proxy else server.port
        lines = ["[servers.one]", f'url = "http://127.0.0.1:{port}/mcp"']
        configuration = "\n".join([*lines, f'era = "{row.era}"' if row.era else "", ""])
        listen = free_port()
        try:
            with serving(configuration, binary, directory, listen):
                yield Scene(server, listen, directory / "data")
        except BaseException:
            print((directory / "tidings.log").read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            if server.process is not None:
                server.process.kill()
                server.process.wait()
            if proxy:
                proxy.close()


def check(row: Row, situation: Callable[[Scene], None], binary: str) -> tuple[str | None, str]:
    """What is wrong, if anything is, and how long it took."""
    try:
        with scene_of(row, binary) as scene:
            if situation not in row.not_told:
                scene.follow()
            situation(scene)
            scene.check_runs()
            took = f"worked after {scene.worked_after:.2f} s, told after {scene.told_after:.2f} s"
    except Exception:
        return traceback.format_exc(), ""
    return None, took


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", required=True)
    arguments.add_argument("--node", required=True)
    arguments.add_argument("--everything", required=True, help="the script of server-everything")
    arguments.add_argument("--rmcp", required=True, help="the example `restarting_server` of the crate `tidings`")
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--jobs", type=int, default=1, help="how many checks run at once; most of their time they wait")
    arguments.add_argument("--only", default="", help="part of the name of a check")
    chosen = arguments.parse_args()
    EverythingServer.node, EverythingServer.script = chosen.node, chosen.everything
    RmcpServer.program = chosen.rmcp
    passed = failures = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        checks = []
        for round_number in range(1, chosen.repeat + 1):
            # Neighbours run at the same time: not the same situation of similar servers, which start slowly together.
            for situation, row in itertools.product(SITUATIONS, TABLE):
                what = f"{row.name}: restarted, {situation.__name__.replace('_', ' ')}"
                if chosen.only not in what:
                    continue
                reason = row.left_out.get(situation) or row.not_told.get(situation)
                if reason and round_number == 1:
                    print(f"LEFT OUT {what}{', with a follower' if situation in row.not_told else ''}: {reason}")
                if situation in row.left_out:
                    continue
                checks.append((what, round_number, pool.submit(check, row, situation, chosen.tidings)))
        for what, round_number, running in checks:
            wrong, took = running.result()
            if wrong:
                failures += 1
                print(f"FAIL {what} (round {round_number})\n{wrong}", flush=True)
            else:
                passed += 1
                print(f"PASS {what} ({took})", flush=True)
    print(f"{passed} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs `tidings serve` for the length of a `with` block, and its command line. Nothing here knows about MCP."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
PR_SET_PDEATHSIG = 1


class GatewayFailed(RuntimeError):
    """The gateway did not become ready; the message ends with its log."""


class CommandLine:
    """The command line of a gateway that runs in `directory`; each command has to succeed within `seconds`."""

    def __init__(self, binary: str, directory: Path, seconds: float) -> None:
        self._line, self._seconds = [binary, "--data", str(directory / "data")], seconds

    def command(self, *words: str) -> str:
        done = subprocess.run([*self._line, *words], capture_output=True, text=True, timeout=self._seconds)
        assert done.returncode == 0, f"tidings {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout


class CheckTally:
    """Counts checks, and prints PASS or FAIL for each of them and the totals last."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    @contextlib.contextmanager
    def check(self, what: str) -> Iterator[None]:
        """What happens in the `with` block is the check; it fails by an exception, after which the next one follows."""
        try:
            yield
        except Exception:
            self.failed += 1
            print(f"FAIL {what}\n{traceback.format_exc()}")
        else:
            self.passed += 1
            print(f"PASS {what}")

    def end(self) -> int:
        """Prints the totals; gives what the process exits with."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def _die_with_parent() -> None:
    # The suite kills a client that takes too long; the gateway must not outlive it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise GatewayFailed(f"tidings exited with {process.returncode}\n{log.read_text(errors='replace')}")
        try:
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)
    raise GatewayFailed(f"/readyz was not 200 within {READY_SECONDS:g} s\n{log.read_text(errors='replace')}")


@contextlib.contextmanager
def in_front_of(
    upstream_url: str, binary: str, directory: Path, era: str | None = None, keys: str = ""
) -> Iterator[str]:
    """Yields the MCP URL of a gateway with `upstream_url` as its only server, spoken to in `era` only if one is named.

    `keys` are more lines of the server's table."""
    only = f"era = {json.dumps(era)}\n" if era else ""
    with serving(f"[servers.mock]\nurl = {json.dumps(upstream_url)}\n{only}{keys}", binary, directory) as base:
        yield f"{base}/mcp"


@contextlib.contextmanager
def serving(configuration: str, binary: str, directory: Path, port: int | None = None) -> Iterator[str]:
    """Yields the URL, without a path, of a gateway with this configuration, on a port that is free unless one is named."""
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "tidings.toml"
    config.write_text(configuration)
    log = directory / "tidings.log"
    address = f"127.0.0.1:{port or free_port()}"
    command = [binary, "serve", "--config", str(config), "--listen", address, "--data", str(directory / "data")]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, "NO_COLOR": "1"},
            preexec_fn=_die_with_parent,
        )
    try:
        _wait_until_ready(process, address, log)
        yield f"http://{address}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

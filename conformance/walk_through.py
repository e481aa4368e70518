"""Follows the PostgreSQL part of docs/live-resources.md as a newcomer does, from nothing, with a database of its own.

Every block of the document is used as it stands: shell lines are run in order, a configuration is written down, SQL is given
to psql. What stands behind a `#` in a shell line must be printed by it; a line that ends with `&` goes on until the end. Only
the port of the gateway and the road to the inspector are this machine's. Prints PASS or FAIL for each step, and the totals.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

STEP_SECONDS = 60.0
PORT = "7337"
INSPECTOR = "npx -y @modelcontextprotocol/inspector"


class Failed(Exception):
    pass


def blocks(document: str, heading: str) -> list[tuple[str, str]]:
    """The language and the text of each block under a heading."""
    section = document.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@dataclass
class Running:
    """A command and what it has printed so far."""

    line: str
    process: subprocess.Popen[str]
    printed: str = ""

    def read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.printed += text


@dataclass
class Walk:
    folder: Path
    environment: dict[str, str]
    port: str
    inspector: str
    running: list[Running] = field(default_factory=list)
    passed: int = 0
    failed: int = 0

    def step(self, name: str, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except (Failed, subprocess.SubprocessError, OSError) as error:
            self.failed += 1
            print(f"FAIL {name}\n{error}", flush=True)
        else:
            self.passed += 1
            print(f"PASS {name}", flush=True)

    def start(self, command: str) -> Running:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running = Running(command, process)
        threading.Thread(target=running.read, daemon=True).start()
        self.running.append(running)
        return running

    def shell(self, line: str) -> None:
        command, _, expected = line.partition(" # ")
        command, expected = command.strip().replace(INSPECTOR, self.inspector).replace(PORT, self.port), expected.strip()
        expected = expected.replace(PORT, self.port)
        goes_on = command.endswith("&")
        running = self.start(command.removesuffix("&").strip())
        until = time.monotonic() + STEP_SECONDS
        while time.monotonic() < until:
            ended = running.process.poll() is not None
            time.sleep(0.05)
            if goes_on and ended:
                raise Failed(f"ended with {running.process.returncode}: {running.printed}")
            if expected in running.printed and (goes_on or ended):
                if not goes_on and running.process.returncode != 0:
                    raise Failed(f"ended with {running.process.returncode}: {running.printed}")
                return
            if ended:
                break
        raise Failed(f"expected {expected!r}, printed {running.printed!r}")

    def printed_by(self, command: str, text: str) -> None:
        running = next(running for running in self.running if running.line.startswith(command))
        until = time.monotonic() + STEP_SECONDS
        while text not in running.printed:
            if time.monotonic() > until:
                raise Failed(f"{command} printed {running.printed!r}, and not {text!r}")
            time.sleep(0.05)

    def sql(self, text: str) -> None:
        printed = next(running.printed for running in self.running if running.line.startswith("tidings doctor"))
        missing = [line for line in text.splitlines() if line.strip() not in printed]
        if missing:
            raise Failed(f"the doctor did not print {missing}")
        psql = ["psql", "-v", "ON_ERROR_STOP=1", "shop"]
        done = subprocess.run(
            psql, input=text, env=self.environment, text=True, capture_output=True, timeout=STEP_SECONDS, check=False
        )
        if done.returncode != 0:
            raise Failed(done.stderr)

    def configure(self, text: str) -> None:
        address = f'[gateway]\nlisten = "127.0.0.1:{self.port}"\n\n'
        (self.folder / "tidings.toml").write_text(address + text.replace("///shop", f"///shop?host={self.environment['PGHOST']}"))

    def difference(self, text: str) -> None:
        # But for the time, which is another.
        for line in text.splitlines()[1:]:
            self.printed_by("tidings watch", line)

    def end(self) -> None:
        for running in self.running:
            if running.process.poll() is None:
                os.killpg(running.process.pid, signal.SIGTERM)
        for running in self.running:
            running.process.wait(STEP_SECONDS)


class Database:
    """A cluster of its own on a socket, run by an ordinary user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755)
        as_other: dict[str, object] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            as_other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        self.programs = programs[-1] if programs else Path(shutil.which("initdb") or "/initdb").parent
        data = folder / "data"
        environment = {**os.environ, "LC_ALL": "C"}
        initdb = [self.programs / "initdb", "--auth=trust", f"--username={pwd.getpwuid(os.geteuid()).pw_name}", "-D", data]
        subprocess.run(
            [*initdb, "--encoding=UTF8", "--no-locale", "--no-sync"],
            check=True,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=STEP_SECONDS,
            **as_other,  # type: ignore[call-overload]
        )
        self.process = subprocess.Popen(
            [self.programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("w"),
            env=environment,
            cwd="/",
            **as_other,  # type: ignore[call-overload]
        )
        until = time.monotonic() + STEP_SECONDS
        while subprocess.run([self.programs / "pg_isready", "-q", "-h", folder], check=False).returncode != 0:
            if time.monotonic() > until:
                raise Failed("PostgreSQL does not start")
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(STEP_SECONDS)


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def follow(walk: Walk, document: str) -> None:
    for language, text in blocks(document, "PostgreSQL"):
        match language:
            case "sh":
                for line in text.splitlines():
                    walk.step(line.partition(" # ")[0].strip(), lambda line=line: walk.shell(line))
            case "toml":
                walk.step("tidings.toml", lambda text=text: walk.configure(text))
            case "sql":
                walk.step("the trigger that the doctor printed", lambda text=text: walk.sql(text))
            case _:
                walk.step("what `tidings watch` prints", lambda text=text: walk.difference(text))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--document", type=Path, required=True)
    arguments.add_argument("--tidings", type=Path, required=True, help="the program")
    arguments.add_argument("--node", type=Path, required=True, help="Node of at least 22")
    arguments.add_argument("--inspector", type=Path, required=True, help="the inspector's script")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        database = Database(Path(scratch) / "database")
        home = Path(scratch) / "home"
        home.mkdir()
        path = os.pathsep.join([str(options.tidings.parent), str(database.programs), os.environ["PATH"]])
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS_", "PG"))},
            "HOME": str(home),
            "PATH": path,
            "PGHOST": str(database.folder),
            "TIDINGS_DATA": str(home / "data"),
        }
        walk = Walk(home, environment, free_port(), f"{options.node} {options.inspector}")
        try:
            follow(walk, options.document.read_text())
        finally:
            walk.end()
            database.stop()
    print(f"{walk.passed} passed, {walk.failed} failed")
    return 1 if walk.failed else 0


if __name__ == "__main__":
    sys.exit(main())

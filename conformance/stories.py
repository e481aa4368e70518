"""The story clients of the PyPI SDK, each against its own server: directly, then with the gateway between.

A story is a client that checks what it sees; the SDK ships them with its sources. Each runs over HTTP in every era that it has.
One that passes directly must pass through the gateway. Prints a line for each, and the totals last.

With --other-era the gateway speaks to each server only in the era that its client does not speak, and a number of stories has to
pass: not all can, because some are about what only one era has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gateway

START_SECONDS = 60.0
# A story has a time-out of its own; this is for one that hangs without.
STORY_SECONDS = 120.0
AT_A_TIME = 2
# With a server of the other era: how many stories of modern and of legacy clients have to pass.
LEAST_MODERN, LEAST_LEGACY = 17, 15


@dataclass(frozen=True)
class Leg:
    """One story in one era."""

    name: str
    legacy: bool
    is_app: bool
    path: str

    def __str__(self) -> str:
        return f"{self.name} (legacy)" if self.legacy else self.name


@dataclass(frozen=True)
class Result:
    leg: Leg
    direct: bool
    through: bool | None
    log: Path


def legs(stories: Path) -> tuple[list[Leg], list[str]]:
    """What is run, and the names of what is not."""
    manifest = tomllib.loads((stories / "manifest.toml").read_text(encoding="utf-8"))
    found, left_out = [], []
    for name, own in manifest["story"].items():
        story = manifest["defaults"] | own
        # A fixed port means tokens for that very address: they are worth nothing to another resource server, which the gateway is.
        if story["fixed_port"] or not (stories / name / "server.py").is_file():
            left_out.append(name)
            continue
        eras = {"dual": [False, True], "legacy": [True]}.get(story["era"], [False])
        is_app = story["server_export"] == "app"
        found += [Leg(name, legacy, is_app, story["mcp_path"]) for legacy in eras]
    return found, left_out


@contextmanager
def server(leg: Leg, examples: Path, log: Path) -> Iterator[str]:
    """The story's own server; a fresh one for each client, because stories change what they find."""
    port = gateway.free_port()
    command = [sys.executable, "-m", f"stories.{leg.name}.server", *([] if leg.is_app else ["--http"]), "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, cwd=examples, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not gateway.accepts(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server of {leg.name} did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}{leg.path}"
    finally:
        process.kill()
        process.wait()


def passes(leg: Leg, url: str, examples: Path, log: Path) -> bool:
    command = [sys.executable, "-m", f"stories.{leg.name}.client", "--http", url, *(["--legacy"] if leg.legacy else [])]
    with log.open("wb") as sink:
        try:
            ran = subprocess.run(
                command, cwd=examples, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, timeout=STORY_SECONDS
            )
        except subprocess.TimeoutExpired:
            return False
    return ran.returncode == 0


def run(leg: Leg, examples: Path, binary: str, directory: Path, crossed: bool) -> Result:
    era = ("modern" if leg.legacy else "legacy") if crossed else None
    own = directory / f"{leg.name}{'-legacy' if leg.legacy else ''}"
    own.mkdir(parents=True, exist_ok=True)
    try:
        with server(leg, examples, own / "server-direct.log") as url:
            direct = passes(leg, url, examples, own / "direct.log")
    except RuntimeError:
        direct = False
    if not direct:
        return Result(leg, False, None, own / "direct.log")
    try:
        with server(leg, examples, own / "server.log") as url, gateway.in_front_of(url, binary, own, era) as ours:
            return Result(leg, True, passes(leg, ours, examples, own / "through.log"), own / "through.log")
    except RuntimeError as error:
        (own / "through.log").write_text(str(error))
        return Result(leg, True, False, own / "through.log")


def show(result: Result) -> None:
    if not result.direct:
        print(f"SKIP {result.leg}: it fails against its own server", flush=True)
    elif result.through:
        print(f"PASS {result.leg}", flush=True)
    else:
        last = result.log.read_text(errors="replace").strip().splitlines()[-1:] or ["no word"]
        print(f"FAIL {result.leg}: {last[0]} ({result.log})", flush=True)


def crossed(direct: list[Result]) -> int:
    """Whether enough stories pass with a server of the other era."""
    enough = True
    for legacy, least in [(False, LEAST_MODERN), (True, LEAST_LEGACY)]:
        of_era = [result for result in direct if result.leg.legacy == legacy]
        passed = sum(bool(result.through) for result in of_era)
        client, server = ("legacy", "modern") if legacy else ("modern", "legacy")
        print(f"{client} clients, {server} servers: {passed} of {len(of_era)} pass, {least} have to", flush=True)
        enough &= passed >= least
    return 0 if enough else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", required=True, help="the binary under test")
    parser.add_argument("--examples", required=True, type=Path, help="the folder that holds the stories")
    parser.add_argument("--directory", required=True, type=Path, help="where logs go")
    parser.add_argument("--story", help="only this one")
    parser.add_argument("--other-era", action="store_true", help="speak to each server in the era that its client does not speak")
    arguments = parser.parse_args()
    chosen, left_out = legs(arguments.examples / "stories")
    chosen = [leg for leg in chosen if arguments.story in (None, leg.name)]
    if not chosen:
        print(f"no story is called {arguments.story}")
        return 2
    os.environ["PYTHONPATH"] = str(arguments.examples.resolve())
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        given = (arguments.examples, arguments.gateway, arguments.directory, arguments.other_era)
        tasks = [pool.submit(run, leg, *given) for leg in chosen]
        results = []
        for task in tasks:
            results.append(task.result())
            show(results[-1])
    if arguments.story is None:
        print(f"not run here, because their tokens are for one fixed address (auth_stories.py) or they have no server: {', '.join(left_out)}")
    direct = [result for result in results if result.direct]
    passed = sum(bool(result.through) for result in direct)
    if arguments.other_era and arguments.story is None:
        return crossed(direct)
    print(f"{passed} passed, {len(direct) - passed} failed, {len(results) - len(direct)} fail directly too", flush=True)
    return 0 if passed == len(direct) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The official suite and the PyPI SDK's stories with servers that are spoken to only in the era that their client does not speak.

Not everything can cross: some scenarios are about what only one era has. So a number has to pass, and what does not is listed. The
suite's server is the everything-server of that SDK, as it comes and written for one era (`other_era_server.py`): docs/adr/0053 has why.

    target/peers/venv/bin/python conformance/other_era.py --gateway target/debug/tidings
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gateway

START_SECONDS = 60.0
SUITE_SECONDS = 720.0
# A folder is named `server-<scenario>-2026-11-15T09-29-37-903Z`.
TIME_SUFFIX = len("-2026-11-15T09-29-37-903Z")
# A legacy server hears once per connection what its client can do. Some scenarios declare other capabilities in each request.
KEYS = 'isolation = "session"\n'


@dataclass(frozen=True)
class Run:
    """The suite's revision, the era in which the gateway speaks to the server, and how many scenarios have to pass."""

    revision: str
    era: str
    # The server as it comes.
    is_unchanged: bool
    least: int

    def __str__(self) -> str:
        return f"{self.revision}, {self.era} server{' as it comes' if self.is_unchanged else ''}"


# Of the first run one scenario can not pass: it wants a question under a certain key, which a legacy server has no way to say. Of those with the
# server as it comes ten and four can not: the server refuses its own questions.
RUNS = [
    Run("2026-07-28", "legacy", False, 38),
    Run("2025-11-25", "modern", False, 33),
    Run("2026-07-28", "legacy", True, 30),
    Run("2025-11-25", "modern", True, 29),
]


def scenarios(results: Path) -> dict[str, str | None]:
    """What became of each scenario: nothing to complain of, or the first complaint."""
    found: dict[str, str | None] = {}
    for folder in sorted(results.iterdir()):
        if not folder.name.startswith("server-"):
            continue
        name = folder.name.removeprefix("server-")[:-TIME_SUFFIX]
        file = folder / "checks.json"
        checks = json.loads(file.read_text()) if file.exists() else [{"status": "FAILURE", "errorMessage": "it threw"}]
        failed = [check for check in checks if check.get("status") == "FAILURE"]
        found[name] = (failed[0].get("errorMessage") or failed[0].get("id") or "failed") if failed else None
    return found


def suite(peers: Path, binary: str, directory: Path, run: Run) -> bool:
    directory.mkdir(parents=True, exist_ok=True)
    port = gateway.free_port()
    home = next(peers.glob("mcp-*/examples/servers/everything-server"))
    written = [str(Path(__file__).with_name("other_era_server.py").resolve()), "--era", run.era]
    everything = [sys.executable, *(["-m", "mcp_everything_server"] if run.is_unchanged else written), "--port", str(port)]
    place = {**os.environ, "PYTHONPATH": str(home)}
    with (directory / "server.log").open("wb") as sink:
        server = subprocess.Popen(everything, cwd=home, env=place, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    results = directory / "results"
    try:
        deadline = time.monotonic() + START_SECONDS
        while not gateway.accepts(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the everything-server did not start")
            time.sleep(0.05)
        script = peers / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
        node = next(peers.glob("node_modules/node-*/bin/node"))
        with gateway.in_front_of(f"http://127.0.0.1:{port}/mcp", binary, directory, run.era, KEYS) as url:
            command = [str(node), str(script), "server", "--url", url, "--spec-version", run.revision]
            command += ["--timeout", "15000", "--suite", "all", "-o", str(results.resolve())]
            with (directory / "suite.log").open("wb") as sink:
                subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, timeout=SUITE_SECONDS)
    finally:
        server.kill()
        server.wait()
    found = scenarios(results)
    for name, complaint in found.items():
        if complaint:
            print(f"FAIL {name}: {complaint.splitlines()[0][:160]}", flush=True)
    passed = sum(complaint is None for complaint in found.values())
    print(f"suite {run}: {passed} of {len(found)} scenarios pass, {run.least} have to", flush=True)
    return passed >= run.least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", required=True, help="the binary under test")
    parser.add_argument("--peers", type=Path, default=Path("target/peers"), help="where the peers are installed")
    parser.add_argument("--directory", type=Path, default=Path("target/other-era"), help="where logs go")
    parser.add_argument("--only", choices=["suite", "stories"], help="one of the two parts")
    arguments = parser.parse_args()
    binary, peers = str(Path(arguments.gateway).resolve()), arguments.peers.resolve()
    directory = arguments.directory.resolve() / time.strftime("%Y%m%d-%H%M%S")
    enough = True
    if arguments.only != "stories":
        for number, run in enumerate(RUNS):
            enough &= suite(peers, binary, directory / f"{number}-{run.revision}", run)
    if arguments.only != "suite":
        examples = next(peers.glob("mcp-*/examples"))
        script = Path(__file__).with_name("stories.py")
        command = [sys.executable, str(script), "--other-era", "--gateway", binary]
        command += ["--examples", str(examples), "--directory", str(directory / "stories")]
        enough &= subprocess.run(command).returncode == 0
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())

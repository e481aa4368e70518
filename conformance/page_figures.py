"""How soon the page shows what it shows, with 10,000 changes, 1,000 servers and 5,000 clients, and what 100,000 events leave behind.

For a machine that does nothing else, and a gateway and a harness that were built with optimisations: `cargo xtask browser --measure`."""

import argparse
import json
import math
import socket
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

from browser import Browser
from page import LIVE, RECORDER, Gateway, eventually, painted, tool

CHANGES, SERVERS, CLIENTS, EVENTS = 10_000, 1_000, 5_000, 100_000
#: A page that begins before the first change: the stream brings all of them.
FROM_THE_BEGINNING = """new MutationObserver((_, observer) => { if (document.body) { document.body.dataset.last = '0'; observer.disconnect(); } })
  .observe(document, { childList: true, subtree: true });"""
SHIFTS = "window.moved = 0; new PerformanceObserver(list => list.getEntries().forEach(entry => { moved += entry.value; })).observe({ type: 'layout-shift', buffered: true }); 0"


def share(numbers: list[float], part: float) -> float:
    """So much of the numbers is not above this one."""
    return sorted(numbers)[math.ceil(len(numbers) * part) - 1]


class Upstream:
    """The harness's own server over HTTP, behind all the servers that do not change."""

    def __init__(self, bench: Path):
        command = [bench, "upstream", "--until-stdin-ends", "--era", "modern"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(20)


def listen(port: int, number: int) -> socket.socket:
    """One client that listens for changes of the tools."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen", "params": params})
    head = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json", "Accept: application/json, text/event-stream"]
    head += ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen", f"Content-Length: {len(body)}"]
    stream = socket.create_connection(("127.0.0.1", port), timeout=20)
    stream.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    received = b""
    while b"subscriptions/acknowledged" not in received:
        part = stream.recv(4096)
        assert part, received
        received += part
    return stream


class Figures:
    def __init__(self, options: argparse.Namespace):
        self.options, self.numbers = options, {}
        self.bench = Path(options.tidings).with_name("tidings-bench")
        assert self.bench.is_file(), f"there is no {self.bench}: cargo build --release -p tidings -p tidings-bench"
        self.browser = Browser(options.directory)
        self.tab = self.browser.tab()
        self.upstream, self.gateway, self.streams = Upstream(self.bench), None, []

    def start(self, name: str, changes: int, *fill: str, more: str = "") -> None:
        """A gateway whose log has so many changes."""
        directory = self.options.directory / name
        directory.mkdir()
        subprocess.run([self.bench, "fill", "--data", directory / "data", "--changes", str(changes), *fill], check=True)
        self.gateway = Gateway(self.options.tidings, directory, sys.executable, self.options.peers, more)
        link = self.gateway.link()
        self.base = link.split("/login")[0]
        self.tab.go(link)
        self.version = 0

    def stop(self) -> None:
        for stream in self.streams:
            stream.close()
        self.streams.clear()
        if self.gateway:
            self.gateway.kill()
            self.gateway = None

    def end(self) -> None:
        self.browser.end()
        self.stop()
        self.upstream.end()

    def change(self) -> int:
        self.version += 1
        last = self.gateway.api("/changes?limit=1")["last"]
        self.gateway.put([tool("search", f"Search the code, version {self.version}.")])
        eventually("a change is recorded", lambda: self.gateway.api("/changes?limit=1")["last"] > last)
        return last + 1

    def a_thousand_servers_are_there(self) -> None:
        one = '[servers.s{:04}]\nurl = "http://{}/mcp"\n'
        self.start("crowd", CHANGES, more="".join(one.format(number, self.upstream.address) for number in range(SERVERS)))
        eventually("all are ready", lambda: self.gateway.api("/status")["servers"]["ready"] > SERVERS, 120)

    # page 3
    def a_commit_reaches_the_pill_soon(self) -> None:
        late = self.commits_to_pill(40)
        self.numbers |= {"commit to pill, median ms": statistics.median(late), "commit to pill, p95 ms": share(late, 0.95)}
        assert share(late, 0.95) <= 150, late
        assert self.tab.ask(f"new Promise(done => {{ {SHIFTS.removesuffix(' 0')} setTimeout(() => done(moved), 50); }})") == 0

    def commits_to_pill(self, times: int) -> list[float]:
        """Milliseconds from each commit to the moment at which the page counts it."""
        self.tab.go(f"{self.base}/")
        self.tab.until(LIVE, "the stream is open")
        self.tab.ask("""window.seen = []; new MutationObserver(() => seen.push(Date.now()))
            .observe(document.getElementById('pill'), { childList: true, characterData: true, subtree: true }); 0""")
        late = []
        for count in range(1, times + 1):
            seq = self.change()
            self.tab.until(f"seen.length >= {count}", "the pill counts")
            late.append(self.tab.ask(f"seen[{count - 1}]") - self.gateway.api(f"/changes/{seq}")["commit"])
        return late

    # Each of the clients is told of the change before or beside the page: only told, as it says more about them.
    def thousands_of_clients_are_there(self) -> None:
        self.streams = [listen(self.gateway.port, number) for number in range(CLIENTS)]
        assert self.gateway.api("/status")["sessions"] >= CLIENTS
        late = self.commits_to_pill(20)
        self.numbers[f"commit to pill beside {CLIENTS} clients, p95 ms"] = share(late, 0.95)

    # page 1
    def the_feed_is_small_and_soon_painted(self) -> None:
        # The page of before may still open its stream.
        self.tab.go("about:blank")
        self.tab.events.clear()
        self.tab.go(f"{self.base}/")
        self.tab.until(LIVE, "the stream is open")
        asked = [address for address in self.tab.requests() if not address.startswith("data:")]
        assert len(asked) == 4 and all(address.startswith(self.base) for address in asked), asked
        sizes = self.tab.ask("performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).map(e => e.decodedBodySize)")
        assert self.tab.ask("document.querySelectorAll('#feed .row').length") == 50
        empty, feed = (statistics.median(paints) for paints in painted(self.tab, [f"{self.gateway.base}/healthz", f"{self.base}/"], 20))
        self.numbers |= {"bytes of the feed, style and script": sum(sizes), "first paint of the feed, median ms": feed, "of an empty page, median ms": empty}
        assert sum(sizes) <= 100 << 10, sizes
        assert feed < 100 and feed - empty <= 40, f"the feed is painted after {feed:.0f} ms, an empty page after {empty:.0f} ms"

    # page 2
    def a_filter_is_soon_shown(self) -> None:
        filters = ["/?severity=suspect", "/?server=s0001", "/?q=files+9", "/?q=nowhere", "/servers?q=s05", "/clients?state=current"]
        found = painted(self.tab, [f"{self.base}{path}" for path in filters], 20)
        slowest = max(range(len(filters)), key=lambda at: share(found[at], 0.95))
        self.numbers[f"a filter shown, p95 of the slowest ({filters[slowest]}), ms"] = share(found[slowest], 0.95)
        assert share(found[slowest], 0.95) <= 100, [(path, share(paints, 0.95)) for path, paints in zip(filters, found)]

    # page 3, page 5: the gateway sends ten messages a second, so this takes minutes. It is killed twice on the way.
    def a_hundred_thousand_events_leave_nothing_behind_and_none_is_missed(self) -> None:
        self.stop()
        self.start("events", EVENTS, "--bare")
        for source in [FROM_THE_BEGINNING, RECORDER]:
            self.tab.command("Page.addScriptToEvaluateOnNewDocument", source=source)
        self.tab.go(f"{self.base}/")
        self.tab.until("heard.length > 0", "the stream brings what there is")
        self.tab.ask(SHIFTS)
        before = self.weight()
        for part in [EVENTS // 3, EVENTS * 2 // 3, EVENTS]:
            self.until_heard(part)
            if part < EVENTS:
                self.gateway.kill()
                self.tab.until("document.getElementById('live').textContent.includes('lost')", "it says that it lost the gateway")
                self.gateway.start()
        last = self.gateway.api("/changes?limit=1")["last"]
        self.until_heard(last)
        assert self.tab.ask(f"heard.length === {last} && heard.every((seq, at) => seq === at + 1)"), "each number once, in order"
        # What the test itself keeps is not the page's.
        self.tab.ask("heard.length = 0; 0")
        after = self.weight()
        grown = (after["heap"] - before["heap"]) / (1 << 20)
        self.numbers |= {"events": last, "heap after them, more MiB": grown}
        assert after["elements"] == before["elements"] and after["nodes"] <= before["nodes"] + 8, (before, after)
        assert grown <= 5, (before, after)
        assert (moved := self.tab.ask("moved")) == 0, moved
        assert self.tab.ask("document.getElementById('pill').textContent") == f"{last} new changes"

    def until_heard(self, number: int) -> None:
        eventually(f"change {number} arrives", lambda: self.tab.ask("heard.at(-1) ?? 0") >= number, 600)

    def weight(self) -> dict:
        self.tab.command("HeapProfiler.collectGarbage")
        heap = self.tab.command("Runtime.getHeapUsage")["usedSize"]
        return {"heap": heap, "nodes": self.tab.command("Memory.getDOMCounters")["nodes"], "elements": self.tab.ask("document.querySelectorAll('*').length")}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", required=True, help="with tidings-bench beside it")
    arguments.add_argument("--directory", type=Path, required=True)
    arguments.add_argument("--peers", type=Path, required=True, help="a folder with node_modules")
    options = arguments.parse_args()
    began, figures, passed, failed = time.monotonic(), Figures(options), 0, 0
    try:
        for name in [name for name in vars(Figures) if name.count("_") >= 3 and not name.startswith("_")]:
            try:
                getattr(figures, name)()
            except Exception:
                failed += 1
                print(f"FAIL {name}\n{traceback.format_exc()}")
            else:
                passed += 1
                print(f"PASS {name} (after {time.monotonic() - began:.1f} s)")
        for what, number in figures.numbers.items():
            print(f"  {what}: {number:.1f}")
    finally:
        figures.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

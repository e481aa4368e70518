"""The page in a real browser: read, by keyboard, without scripts, with hostile text, live, and what it says of clients."""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

from browser import Browser, Tab
from first_command import FirstCommand

HERE = Path(__file__).parent
SCREENS = ["/", "/changes/1", "/clients", "/follows", "/servers", "/servers/listed", "/add", "/tools", "/tools/listed/search", "/approvals", "/calls", "/connect"]
#: After so many calls since it was told, a client that did not list again is deaf.
DEAF_CALLS = 3
HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>", "</textarea><iframe src=//evil.test>", "<!--", "]]>", "{{7*7}}", "${7*7}",
    "javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "<base href=//evil.test/>", "<meta http-equiv=refresh content=0>",
    "<link rel=stylesheet href=//evil.test/x.css>", "<style>*{display:none}</style>", "<form action=//evil.test>", "<a href=//evil.test>x</a>",
    "\u202eevil\u202c", "a\u200bb\u200cc\u200dd", "\U000e0041\U000e0042", "\u001b[31mred\u001b[0m", "\ufeffx", "\u2066x\u2069",
    "&lt;script&gt;", "&#60;script&#62;", "\\u003cscript\\u003e", "%3Cscript%3E", "<scr<script>ipt>", "<ScRiPt>alert(1)</sCrIpT>",
    "<object data=//evil.test>", "<embed src=//evil.test>", "<math><mi xlink:href=javascript:alert(1)>", "<template><script>",
    "<details open ontoggle=alert(1)>", "<dialog open>", "<input autofocus onfocus=alert(1)>", "<marquee onstart=alert(1)>",
    "<video src=//evil.test/x>", "<audio src=//evil.test/x onerror=alert(1)>", "<body onload=alert(1)>", "<html manifest=//evil.test>",
    "`${alert(1)}`", "';alert(1)//", "\";alert(1)//", "*/alert(1)/*", "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<xmp><script>alert(1)</script></xmp>", "<plaintext>", "x" * 5000, "verylongwordwithoutanyspace" * 100, "\u0301" * 200,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u05d0\u05d1\u05d2 abc \u05d3", "<bdo dir=rtl>x</bdo>", "\u0000", "\r\nSet-Cookie: a=b", "../../etc/passwd",
    "http://evil.test/?q=<script>", "id=\"feed\"", "class='row' data-href='//evil.test'", "data-go=f", "data-copy=x", "<ol id=feed>",
]


#: Every number of a change that a stream of the page brings is kept, in the order in which it came.
RECORDER = """window.heard = [];
window.EventSource = class extends window.EventSource {
  set onmessage(act) { super.onmessage = event => { const news = JSON.parse(event.data); if (Array.isArray(news)) heard.push(...news.map(one => one.seq)); act(event); }; }
}"""

#: The stream of the page is open.
LIVE = "document.getElementById('live')?.textContent.includes('live')"


def tool(name: str, description: str, **more) -> dict:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}, **more}


class Gateway:
    """`tidings serve` with one server whose tools are a file."""

    def __init__(self, tidings: str, directory: Path, python: str, peers: Path, more: str = ""):
        self.tidings, self.directory, self.data = tidings, directory, directory / "data"
        # Where packages of npm are installed: `npx` takes them from there, and asks nobody.
        self.peers = peers
        self.tools, self.notes = directory / "tools.json", directory / "notes.txt"
        self.notes.write_text("one")
        self.put([tool("search", "Search the code.")])
        program = json.dumps([str(HERE / "listed_server.py"), str(self.tools)])
        self.configuration = directory / "tidings.toml"
        self.configuration.write_text(f"[audit]\nenabled = true\n[servers.listed]\ncommand = {json.dumps(python)}\nargs = {program}\n[watch.notes]\nfile = {json.dumps(str(self.notes))}\n{more}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        log = open(self.directory / "tidings.log", "ab")
        command = [self.tidings, "serve", "--config", self.configuration, "--data", self.data, "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.peers)
        deadline = time.monotonic() + 30
        while True:
            try:
                if urllib.request.urlopen(f"{self.base}/readyz", timeout=5).status == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline and self.process.poll() is None, f"the gateway did not start: see {log.name}"
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def put(self, tools: list[dict]) -> None:
        """Changes the tools at one moment."""
        part = self.tools.with_suffix(".part")
        part.write_text(json.dumps(tools))
        os.replace(part, self.tools)

    def restart(self, server: str) -> int:
        """Gives the status of the answer: a server that can not be started is an error of it."""
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(f"{self.base}/api/v1/servers/{server}/restart", b"", method="POST", headers={"Authorization": f"Bearer {token}"})
        try:
            return urllib.request.urlopen(request, timeout=60).status
        except urllib.error.HTTPError as refused:
            return refused.code

    def api(self, path: str):
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(f"{self.base}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
        return json.load(urllib.request.urlopen(request, timeout=20))

    def remove(self, server: str) -> None:
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(f"{self.base}/api/v1/servers/{server}", method="DELETE", headers={"Authorization": f"Bearer {token}"})
        urllib.request.urlopen(request, timeout=20)

    def link(self, *options: str) -> str:
        command = [self.tidings, "--data", self.data, "open", "--print", *options]
        return re.search(r"http://\S+", subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]


class Client:
    """A legacy client over HTTP that counts what it is told and lists only when it is asked to."""

    def __init__(self, gateway: Gateway, name: str):
        self.gateway, self.told, self.session = gateway, 0, None
        result = self.post("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}, 1)
        assert result, "initialize"
        self.post("notifications/initialized", {}, None)
        self.opened = threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()
        assert self.opened.wait(20)

    def headers(self) -> dict:
        session = {"Mcp-Session-Id": self.session} if self.session else {}
        return {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18", **session}

    def post(self, method: str, params: dict, number):
        body = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}
        request = urllib.request.Request(f"{self.gateway.base}/mcp", json.dumps(body).encode(), self.headers())
        answer = urllib.request.urlopen(request, timeout=20)
        self.session = answer.headers.get("Mcp-Session-Id") or self.session
        return answer.read()

    def listen(self) -> None:
        headers = {**self.headers(), "Accept": "text/event-stream"}
        stream = urllib.request.urlopen(urllib.request.Request(f"{self.gateway.base}/mcp", headers=headers), timeout=600)
        self.opened.set()
        for line in stream:
            self.told += b"notifications/tools/list_changed" in line

    def list(self) -> None:
        self.post("tools/list", {}, 2)

    def call(self, name: str) -> None:
        """As often as it takes a client that does not list to be deaf."""
        for number in range(DEAF_CALLS):
            self.post("tools/call", {"name": name, "arguments": {}}, 40 + number)

    def leave(self) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.gateway.base}/mcp", headers=self.headers(), method="DELETE"), timeout=20)


def painted(tab: Tab, addresses: list[str], times: int) -> list[list[float]]:
    """How many milliseconds after its beginning each address is first painted, in turns."""
    found: list[list[float]] = [[] for _ in addresses]
    for _ in range(times):
        for address, paints in zip(addresses, found):
            tab.go(address)
            paints.append(tab.until("performance.getEntriesByName('first-paint')[0]?.startTime", "a paint"))
    return found


def eventually(what: str, ask, seconds: float = 20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := ask():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} never happened")


class Story:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.gateway = Gateway(options.tidings, options.directory, sys.executable, options.peers)
        self.browser = Browser(options.directory)
        self.axe = options.axe.read_text() if options.axe else None
        self.tab = self.browser.tab()
        link = self.gateway.link()
        self.base = link.split("/login")[0]
        self.tab.go(link)
        self.numbers: dict[str, float] = {}
        self.version = 0
        self.first: FirstCommand | None = None

    def change(self, description: str | None = None) -> int:
        """Makes one change and gives its number when it is recorded."""
        self.version += 1
        last = self.gateway.api("/changes?limit=1")["last"]
        self.gateway.put([tool("search", description or f"Search the code, version {self.version}.")])
        eventually("a change is recorded", lambda: self.gateway.api("/changes?limit=1")["last"] > last)
        return last + 1

    # Issue 16: nothing but the README's first command and the printed link. What the page says is done, then a tool of the demo is edited.
    def whoever_has_only_the_first_command_sees_what_changed_and_who_was_told(self) -> None:
        self.first = first = FirstCommand(self.options.tidings, self.options.directory / "home")
        tab = self.first_tab = self.browser.tab()
        tab.go(first.link())
        tab.until(LIVE, "the stream is open")
        listing, idle = Client(first, "lists-again"), Client(first, "lists-never-again")
        listing.list()
        idle.list()
        tab.ask("window.marker = 'the same page'")
        first.run(tab.ask("document.querySelector('.empty pre code').textContent"))
        shown = "[...document.querySelectorAll('#feed .row')].map(row => { row.querySelectorAll('details').forEach(one => { one.open = true; }); return row.innerText; })"
        tool = next(first.home.rglob("mine.sh"))
        for count, added, words in [(1, "", "+ mine"), (2, "# @describe The time, in my own words.\n", "my own words")]:
            if added:
                was = tool.read_text()
                assert "# @describe" in was, was
                tool.write_text(re.sub(r"# @describe.*\n", added, was))
            tab.until("!document.getElementById('pill').hidden", "the pill counts")
            tab.key(".")
            tab.until(f"document.querySelectorAll('#feed .row').length === {count}", "the change is shown")
            tab.until("document.querySelector('[data-told]')?.textContent.includes('told 2 of 2')", "who was told")
            assert words in tab.ask(shown)[0], tab.ask(shown)
        self.first_idle = idle
        listing.list()
        assert tab.ask("window.marker") == "the same page"
        tab.ask("window.before = true; document.querySelector('#feed .row a.seq').click()")
        tab.until("!window.before && location.pathname === '/changes/2' && document.readyState === 'complete'", "the change as a whole")
        # Who, and when.
        named = tab.ask("[...document.querySelectorAll('main li, main tr')].map(row => row.innerText).filter(text => text.includes('lists-'))")
        assert len(named) == 2 and all("ago" in text for text in named), (named, tab.text())
        tab.go(f"{tab.ask('location.origin')}/clients")
        tab.until(LIVE, "the stream is open")
        assert not (complaints := tab.complaints()), complaints
        self.tab.show()

    # An empty feed teaches; then what changes, who was told, and the difference appear without the page being loaded again.
    def what_changes_is_counted_and_shown_without_loading_the_page(self) -> None:
        assert "Nothing changed yet" in self.tab.text(), self.tab.text()
        self.tab.until("document.getElementById('live').textContent.includes('live')", "the stream is open")
        client = Client(self.gateway, "attentive")
        client.list()
        self.deaf = Client(self.gateway, "deaf-client")
        self.deaf.list()
        self.attentive = client
        self.tab.ask("window.marker = 'the same page'")
        self.change("Search the code and the history.")
        eventually("both are told", lambda: client.told >= 2 and self.deaf.told >= 2)
        client.list()
        self.tab.until("!document.getElementById('pill').hidden", "the pill counts")
        self.tab.key(".")
        self.tab.until("document.querySelectorAll('#feed .row').length === 1", "the change is shown")
        self.tab.until("document.querySelector('[data-told]')?.textContent.includes('told 2 of 2')", "who was told")
        shown = self.tab.ask("[...document.querySelectorAll('#feed details')].map(d => { d.open = true; return d.innerText }).join(' ')")
        assert "history" in shown, shown
        assert self.tab.ask("window.marker") == "the same page"
        assert not self.tab.complaints()

    def numbers_of_deliveries_change_in_their_place(self) -> None:
        self.tab.go(f"{self.base}/changes/1")
        text = self.tab.text()
        assert "told 2 of 2" in text and "attentive" in text and "deaf-client" in text, text
        # A change that nobody was told of yet, looked at while it is told.
        self.tab.go(f"{self.base}/clients")
        self.tab.until("document.querySelector('[data-client]') !== null", "clients")
        own = self.gateway.api("/clients")["clients"]
        state = {client["name"]: client["state"] for client in own}
        assert state["attentive"] == "heard" and state["deaf-client"] == "waiting", state
        self.tab.ask("window.marker = 'the same page'")
        number = next(client["id"] for client in own if client["name"] == "attentive")
        self.change()
        self.tab.until(f"document.querySelector('[data-client=\"{number}\"]').textContent.includes('waiting')", "it was told")
        self.attentive.list()
        self.tab.until(f"document.querySelector('[data-client=\"{number}\"]').textContent.includes('heard')", "it listed")
        assert self.tab.ask("window.marker") == "the same page"

    def the_ledger_agrees_with_what_clients_received(self) -> None:
        before = {client["name"]: client["notices"] for client in self.gateway.api("/clients")["clients"]}
        heard = {"attentive": self.attentive.told, "deaf-client": self.deaf.told}
        for _ in range(5):
            seq = self.change()
            eventually("told", lambda: self.gateway.api(f"/changes/{seq}/deliveries")["told"] == 2)
        after = {client["name"]: client["notices"] for client in self.gateway.api("/clients")["clients"]}
        now = {"attentive": self.attentive.told, "deaf-client": self.deaf.told}
        for name in heard:
            eventually(f"{name} heard all", lambda: (self.attentive if name == "attentive" else self.deaf).told - heard[name] == 5)
            assert after[name] - before[name] == 5, (name, before, after, now)

    def a_page_is_small_and_asks_nobody_else(self) -> None:
        self.tab.events.clear()
        self.tab.go(f"{self.base}/")
        self.tab.until("document.getElementById('live').textContent.includes('live')", "the stream is open")
        asked = [address for address in self.tab.requests() if not address.startswith("data:")]
        assert len(asked) == 4 and all(address.startswith(self.base) for address in asked), asked
        sizes = self.tab.ask("performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).map(e => e.decodedBodySize)")
        self.numbers["bytes of the feed, style and script"] = sum(sizes)
        assert sum(sizes) <= 100 << 10, sizes
        assert not self.tab.complaints()

    def measure_paint(self) -> None:
        """Only told among the checks: how long it takes there says more about the machine than about the page (`page_figures.py` judges)."""
        empty, feed = painted(self.tab, [f"{self.gateway.base}/healthz", f"{self.base}/"], 20)
        self.numbers["first paint of the feed, median ms"] = statistics.median(feed)
        self.numbers["first paint of an empty page, median ms"] = statistics.median(empty)

    def a_commit_reaches_the_pill_and_nothing_comes_or_goes(self) -> None:
        self.tab.go(f"{self.base}/")
        self.tab.until("document.getElementById('live').textContent.includes('live')", "the stream is open")
        self.tab.ask("""window.seen = []; new MutationObserver(() => seen.push([document.getElementById('pill').textContent, Date.now()]))
            .observe(document.getElementById('pill'), { childList: true, characterData: true, subtree: true }); 0""")
        nodes = "document.querySelectorAll('*').length"
        before, late = self.tab.ask(nodes), []
        for count in range(1, 11):
            seq = self.change()
            self.tab.until(f"seen.length >= {count}", "the pill counts")
            at = self.tab.ask(f"seen[{count - 1}][1]")
            late.append(at - self.gateway.api(f"/changes/{seq}")["commit"])
        self.numbers["commit to pill, median ms"] = statistics.median(late)
        self.numbers["commit to pill, largest ms"] = max(late)
        assert self.tab.ask(nodes) == before, "nothing comes or goes by itself"
        shift = "new Promise(done => { let sum = 0; new PerformanceObserver(l => l.getEntries().forEach(e => { if (!e.hadRecentInput) sum += e.value; })).observe({ type: 'layout-shift', buffered: true }); setTimeout(() => done(sum), 50); })"
        assert (moved := self.tab.ask(shift)) == 0, f"what is read moved: {moved}"

    def shifts(self) -> None:
        """From now on it is counted how far what is read moves; `moved` tells."""
        self.tab.ask("window.moved = 0; new PerformanceObserver(list => list.getEntries().forEach(entry => { moved += entry.value; })).observe({ type: 'layout-shift' }); 0")

    def moved(self) -> float:
        return self.tab.ask("new Promise(done => setTimeout(() => done(moved), 50))")

    # Who follows what: what is followed is counted, and of one resource there is a map. A change pulses along its edges, or only counts.
    def the_map_of_a_resource_pulses_when_it_changes(self) -> None:
        self.tab.go(f"{self.base}/follows")
        assert "Nobody follows a resource" in self.tab.text(), self.tab.text()
        self.tab.until(LIVE, "the stream is open")
        self.attentive.post("resources/subscribe", {"uri": "watch://notes"}, 41)
        self.tab.until("!document.getElementById('pill').hidden", "something is followed now")
        self.tab.key(".")
        self.tab.until("document.querySelectorAll('#follows .row').length === 1", "what is followed is shown")
        self.tab.ask("window.before = true; [...document.querySelectorAll('#follows a')].find(a => a.textContent === 'map').click()")
        self.tab.until(f"!window.before && location.search.includes('uri=') && document.readyState === 'complete' && {LIVE}", "the map")
        shown = self.tab.ask("document.querySelector('.map').innerText")
        assert "attentive" in shown and "watch://notes" in shown and "no change yet" in shown, shown
        self.tab.ask("window.marker = 'the same page'")
        for count, motion, words in [(1, "no-preference", "1 change"), (2, "reduce", "2 changes")]:
            self.tab.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": motion}])
            self.tab.ask("document.querySelectorAll('.pulse').forEach(edge => edge.classList.remove('pulse'))")
            self.shifts()
            self.gateway.notes.write_text(f"change {count}")
            self.tab.until(f"document.querySelector('.map [data-changes]').textContent === '{words}'", f"{words} are counted")
            pulsing = "[...document.querySelectorAll('.map [data-edge]')].map(edge => edge.classList.contains('pulse'))"
            assert self.tab.ask(pulsing) == [True, True], (motion, self.tab.ask(pulsing))
            animated = self.tab.ask("getComputedStyle(document.querySelector('.map .pulse')).animationName")
            assert animated == ("pulse" if motion == "no-preference" else "none"), (motion, animated)
            assert "ago" in self.tab.ask("document.querySelector('.map [data-when]').innerText")
            assert self.moved() == 0, f"what is read moved: {self.moved()}"
        assert self.tab.ask("window.marker") == "the same page"
        own = next(one for one in self.gateway.api("/subscriptions")["subscriptions"] if one["uri"] == "watch://notes")
        assert own["announced"] == 2 and own["announced_at"], own
        self.tab.go(f"{self.base}/follows?uri=watch://none")
        assert "Nobody follows what was asked for" in self.tab.text(), self.tab.text()
        self.tab.look(1200, "light")
        assert not (complaints := self.tab.complaints()), complaints

    # A server's state is the one of now, without the page being loaded again.
    def states_of_servers_and_their_number_change_in_their_place(self) -> None:
        self.tab.go(f"{self.base}/servers")
        self.tab.until(LIVE, "the stream is open")
        self.tab.ask("window.marker = 'the same page'")
        self.shifts()
        place = "document.querySelector('[data-server-state=listed]').textContent"
        tools = self.gateway.tools
        hidden = tools.with_suffix(".hidden")
        assert self.tab.ask(place) == "● ready"
        # The server reads its tools when it starts: without the file it ends, again and again.
        tools.rename(hidden)
        try:
            assert self.gateway.restart("listed") == 502
            self.tab.until(f"{place}.includes('failing')", "it fails")
            self.tab.until("document.getElementById('failing').textContent.trim() === '▲1'", "it is counted")
        finally:
            hidden.rename(tools)
        assert self.gateway.restart("listed") == 200
        self.tab.until(f"{place} === '● ready' && document.getElementById('failing').textContent === ''", "it is ready")
        assert self.moved() == 0, f"what is read moved: {self.moved()}"
        assert self.tab.ask("window.marker") == "the same page"

    # The stream is one that the test writes to: so many events take the gateway, which sends ten messages a second, hours.
    def a_hundred_thousand_events_leave_nothing_behind(self) -> None:
        stub = """window.EventSource = class { constructor() { window.stream = this; setTimeout(() => this.onopen?.()); } close() {} }"""
        script = self.tab.command("Page.addScriptToEvaluateOnNewDocument", source=stub)["identifier"]
        try:
            for path, expected in [("/", "document.getElementById('pill').textContent === '100000 new changes'"), ("/clients", "document.title.startsWith('(100000)')")]:
                self.tab.go(f"{self.base}{path}")
                self.tab.until("window.stream?.onmessage && document.getElementById('live').textContent.includes('live')", "the stream is open")
                self.tab.ask("""window.send = (from, to) => { const last = Number(document.body.dataset.last); const known = document.querySelector('[data-client]')?.dataset.client ?? 0;
                for (let at = from; at < to; at += 50) {
                    const change = each => ({ seq: last + 1 + each, server: 'listed', kind: 'tools', severity: 'wording', names: ['search', `tool ${each}`] });
                    stream.onmessage({ data: JSON.stringify(Array.from({ length: 50 }, (_, each) => change(at + each))) });
                    const words = at % 100 ? ['wait', '◐ waiting', `told ${at} s ago of tools, and did not list yet`] : ['suspect', '◆ deaf', 'told 61 s ago of tools, and did not list since'];
                    stream.onmessage({ data: JSON.stringify({ told: { [`${at}-tools`]: `told ${at}` }, clients: { [known]: words } }) });
                } }; send(0, 100); window.moved = 0;
                new PerformanceObserver(list => list.getEntries().forEach(entry => { moved += entry.value; })).observe({ type: 'layout-shift' }); 0""")
                before = self.weight()
                for at in range(100, 100_000, 11_100):
                    self.tab.ask(f"send({at}, {at + 11_100}); new Promise(done => requestAnimationFrame(done))")
                assert self.tab.ask(expected), self.tab.text()[:500]
                after = self.weight()
                assert after["elements"] == before["elements"] and after["nodes"] <= before["nodes"] + 8, (path, before, after)
                grown = (after["heap"] - before["heap"]) / (1 << 20)
                self.numbers[f"heap after 100,000 events on {path}, more MiB"] = grown
                assert grown <= 5, (path, before, after)
                assert self.tab.ask("new Promise(done => setTimeout(() => done(moved), 50))") == 0, path
        finally:
            self.tab.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script)

    def weight(self) -> dict:
        """What the page holds, once what is not needed is gone."""
        self.tab.command("HeapProfiler.collectGarbage")
        heap = self.tab.command("Runtime.getHeapUsage")["usedSize"]
        return {"heap": heap, "nodes": self.tab.command("Memory.getDOMCounters")["nodes"], "elements": self.tab.ask("document.querySelectorAll('*').length")}

    # What a tool said is known for every time, and seen as each client sees it.
    def a_tool_is_shown_as_it_was_and_as_a_client_sees_it(self) -> None:
        self.change("Search the code, as it was.")
        time.sleep(0.01)
        was = time.time()
        self.change("Search the code, as it is.")
        self.tab.go(f"{self.base}/tools/listed/search")
        text = self.tab.text()
        assert "as it is" in text and "changed" in text and "first seen" in text, text
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(was)) + f".{int(was % 1 * 1000):03}Z"
        self.tab.go(f"{self.base}/tools/listed/search?at={moment}")
        shown = self.tab.ask("document.querySelector('main > p:nth-of-type(3)').innerText + document.querySelector('main').innerText.split('What it said')[0]")
        assert "as it was" in shown and "Try it" not in shown, shown
        self.tab.go(f"{self.base}/tools?at={moment}")
        assert "as it was" in self.tab.text() and "as it is" not in self.tab.text(), self.tab.text()
        own = self.gateway.api("/clients")["clients"][0]["id"]
        self.tab.go(f"{self.base}/tools?as={own}")
        assert f"client {own} sees them" in self.tab.text() and "search" in self.tab.text(), self.tab.text()
        states = self.gateway.api("/definitions/tools/listed/search/history")["states"]
        assert len(states) >= 3 and all(state["digest"] for state in states), states
        kept = self.gateway.api(f"/definitions/{states[1]['digest']}")
        assert kept["description"] == "Search the code, as it was.", kept

    def press(self, label: str) -> None:
        """A button by what it says; the page that follows is waited for."""
        self.tab.ask("window.before = true")
        self.tab.ask(f"[...document.querySelectorAll('main button')].find(b => b.textContent === {json.dumps(label)}).click()")
        self.tab.until("!window.before && document.readyState === 'complete'", f"the page after {label}")

    # Tried with progress, cancelled, asked and answered; what does not say that it only reads is asked for twice.
    def a_tool_is_tried_with_progress_questions_and_cancel(self) -> None:
        count = {"type": "object", "properties": {"steps": {"type": "integer"}}, "required": ["steps"]}
        reads = {"readOnlyHint": True}
        last = self.gateway.api("/changes?limit=1")["last"]
        self.gateway.put([tool("search", "Search."), {**tool("slow", "Takes long.", annotations=reads), "inputSchema": count}, tool("ask", "Asks.", annotations=reads)])
        eventually("recorded", lambda: self.gateway.api("/changes?limit=1")["last"] > last)
        # Before a call is cancelled: a server on a pipe that has one still running does not say for which it asks.
        self.tab.go(f"{self.base}/tools/listed/ask")
        self.press("Call")
        self.tab.until("document.querySelector('main').innerText.includes('Which colour?')", "the question is shown")
        self.tab.ask("document.querySelector('fieldset input').value = '<b>blue</b>'")
        self.press("Answer")
        self.tab.until("document.querySelector('main').innerText.includes('answered') && document.querySelector('main').innerText.includes('<b>blue</b>')", "it is answered")
        for steps, cancelled in [(8, False), (4000, True)]:
            self.tab.go(f"{self.base}/tools/listed/slow")
            self.tab.ask(f"document.querySelector('[name=\"arg.steps\"]').value = '{steps}'")
            self.press("Call")
            assert self.tab.ask("location.pathname").startswith("/tries/")
            if cancelled:
                self.tab.until("document.querySelector('main').innerText.includes('step ')", "progress is shown")
                self.press("Cancel")
                self.tab.until("document.querySelector('main').innerText.includes('○ cancelled')", "it is cancelled")
            else:
                self.tab.until("document.querySelector('main').innerText.includes('8 steps')", "it is answered without loading the page")
        assert not (complaints := self.tab.complaints()), complaints
        # Nothing says that this one only reads.
        self.tab.go(f"{self.base}/tools/listed/search")
        self.press("Call")
        assert "may change or destroy" in self.tab.text() and self.tab.ask("location.pathname").endswith("/try"), self.tab.text()
        self.press("Call it")
        self.tab.until("document.querySelector('main').innerText.includes('● answered')", "it is called")
        self.tab.go(f"{self.base}/calls?client=tidings-page")
        assert self.tab.text().count("tidings-page") >= 3, self.tab.text()
        # The same by the API, as a stream of events.
        token = (self.gateway.data / "admin.token").read_text().strip()
        body, headers = json.dumps({"name": "slow", "arguments": {"steps": 3}}).encode(), {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        stream = urllib.request.urlopen(urllib.request.Request(f"{self.gateway.base}/api/v1/calls", body, headers), timeout=20)
        events = [json.loads(line[5:]) for line in stream if line.startswith(b"data:")]
        assert events[-1]["state"] == "done" and events[-1]["result"]["content"][0]["text"] == "3 steps", events
        assert any(event["progress"] for event in events), events

    # The client listed before the tool said what it says: its call is marked, with both.
    def a_call_from_an_outdated_list_is_marked(self) -> None:
        self.change("Search, as the client knows it.")
        self.attentive.list()
        eventually("listed", lambda: any(c["name"] == "attentive" and c["state"] == "heard" for c in self.gateway.api("/clients")["clients"]))
        self.attentive.post("tools/call", {"name": "search", "arguments": {}}, 31)
        self.change("Search, as it is in force.")
        self.attentive.post("tools/call", {"name": "search", "arguments": {}}, 32)
        eventually("both are recorded", lambda: len(self.gateway.api("/calls?client=attentive")["calls"]) >= 2)
        self.tab.go(f"{self.base}/calls?client=attentive")
        rows = self.tab.ask("[...document.querySelectorAll('tbody tr')].map(row => { row.querySelectorAll('details').forEach(d => { d.open = true; }); return row.innerText; })")
        assert "outdated list" in rows[0] and "in force" in rows[0] and "knows" in rows[0], rows
        assert "outdated list" not in rows[1], rows

    def a_server_is_added_from_the_catalogue_and_by_hand(self) -> None:
        self.tab.go(f"{self.base}/servers")
        self.tab.ask("[...document.querySelectorAll('a')].find(a => a.textContent === 'Add a server').click()")
        self.tab.until("location.pathname === '/add' && document.readyState === 'complete'", "the catalogue")
        assert self.tab.ask("document.querySelectorAll('.row').length") >= 1
        self.tab.go(f"{self.base}/add?q=filesystem")
        assert self.tab.ask("document.querySelectorAll('.row').length") >= 1, self.tab.text()
        program = f"{sys.executable} {HERE / 'listed_server.py'} {self.gateway.tools}"
        self.tab.ask(f"document.querySelector('[name=run]').value = {json.dumps(program)}; document.querySelector('form:has([name=run]) [name=name]').value = 'byhand'")
        self.tab.ask("window.before = true; document.querySelector('form:has([name=run]) button').click()")
        self.tab.until("!window.before && location.pathname === '/servers/byhand' && document.readyState === 'complete'", "it is added")
        assert "● ready" in self.tab.text(), self.tab.text()
        self.tab.go(f"{self.base}/add")
        self.tab.ask("document.querySelector('[name=run]').value = '/no/such/program'; document.querySelector('form:has([name=run]) [name=name]').value = 'absent'")
        self.tab.ask("window.before = true; document.querySelector('form:has([name=run]) button').click()")
        self.tab.until("!window.before && document.readyState === 'complete'", "it is refused")
        assert "/no/such/program" in self.tab.text() and self.tab.ask("document.querySelector('[role=alert]') !== null"), self.tab.text()
        self.gateway.remove("byhand")

    # An entry of the catalogue with its form, and the package of npm that it means.
    def an_entry_of_the_catalogue_is_added_and_runs(self) -> None:
        graph = self.gateway.directory / "graph.json"
        self.tab.go(f"{self.base}/add?q=memory")
        form = "document.querySelector('form:has([name=entry][value=\"modelcontextprotocol/memory\"])')"
        self.tab.ask(f"{form}.closest('details').open = true; {form}.querySelector('[name=\"env.MEMORY_FILE_PATH\"]').value = {json.dumps(str(graph))}")
        self.tab.ask(f"window.before = true; {form}.querySelector('button').click()")
        self.tab.until("!window.before && location.pathname.startsWith('/servers/') && document.readyState === 'complete'", "it is added")
        name = self.tab.ask("location.pathname").rsplit("/", 1)[1]
        assert "● ready" in self.tab.text() and "create_entities" in self.tab.text(), self.tab.text()
        # It was given what the form says.
        self.tab.go(f"{self.base}/tools/{name}/create_entities")
        entities = json.dumps([{"name": "page", "entityType": "screen", "observations": ["it was added here"]}])
        self.tab.ask(f"document.querySelector('[name=\"arg.entities\"]').value = {json.dumps(entities)}")
        self.press("Call")
        if "may change or destroy" in self.tab.text():
            self.press("Call it")
        self.tab.until("document.querySelector('main').innerText.includes('● answered')", "it is called")
        assert "it was added here" in graph.read_text()
        self.gateway.remove(name)

    # The button leads to a real provider and back, and the server's tools are there.
    def a_person_logs_in_to_a_server_from_the_page(self) -> None:
        command = [self.options.node, HERE / "login_provider.mjs", "--peers", self.options.peers]
        provider = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            server = json.loads(provider.stdout.readline())["server"]
            self.add_by_hand("crm", server)
            assert "▲ needs login" in self.tab.text(), self.tab.text()
            self.press("Log in")
            self.tab.ask("window.before = true; [...document.querySelectorAll('main a')].find(a => a.textContent === 'Log in to crm').click()")
            self.tab.until("!window.before && document.body?.innerText.includes('Logged in to crm')", "the provider agrees")
            self.tab.go(f"{self.base}/servers/crm")
            self.tab.until("document.querySelector('[data-server-state=crm]').textContent === '● ready'", "it connects by itself")
            self.tab.go(f"{self.base}/tools/crm/whoami")
            self.press("Call")
            self.press("Call it")
            self.tab.until("document.querySelector('main').innerText.includes('ada')", "it knows who is asking")
            self.gateway.remove("crm")
        finally:
            provider.kill()
            provider.wait()

    def add_by_hand(self, name: str, run: str) -> None:
        self.tab.go(f"{self.base}/add")
        form = "document.querySelector('form:has([name=run])')"
        self.tab.ask(f"{form}.querySelector('[name=run]').value = {json.dumps(run)}; {form}.querySelector('[name=name]').value = '{name}'")
        self.tab.ask(f"window.before = true; {form}.querySelector('button').click()")
        self.tab.until(f"!window.before && location.pathname === '/servers/{name}' && document.readyState === 'complete'", f"{name} is added")

    def hostile_text_is_text(self) -> None:
        tools = [tool(f"t{at}", text, title=text, annotations={"title": text}) for at, text in enumerate(HOSTILE)]
        last = self.gateway.api("/changes?limit=1")["last"]
        self.gateway.put([tool("search", "Search."), *tools])
        eventually("recorded", lambda: self.gateway.api("/changes?limit=1")["last"] > last)
        changed = [tool(f"t{at}", f"{text} now {text}", title=f"new {text}") for at, text in enumerate(HOSTILE)]
        last += 1
        self.gateway.put([tool("search", "Search."), *changed])
        eventually("recorded", lambda: self.gateway.api("/changes?limit=1")["last"] > last)
        self.hostile = last + 1
        stranger = Client(self.gateway, f"{HOSTILE[0]}{HOSTILE[18]}{HOSTILE[19]}")
        own = next(client["id"] for client in self.gateway.api("/clients")["clients"] if client["name"].startswith(HOSTILE[0]))
        for path in [f"/clients/{own}", "/clients", "/connect", "/", f"/changes/{self.hostile}", f"/changes/{last}", "/servers/listed", "/tools", "/tools/listed/t0", "/tools/listed/t49", "/?q=%3Cscript%3E&server=%22%3E%3Cimg%20src=x%3E"]:
            self.tab.events.clear()
            self.tab.go(f"{self.base}{path}")
            foreign = "[...document.querySelectorAll('script, img, iframe, object, embed, svg, math, video, audio, base, style, template, marquee, frame')].map(e => e.outerHTML)"
            found = self.tab.ask(foreign)
            assert len(found) == 1 and re.fullmatch(r'<script type="module" src="/page\.js\?v=[0-9a-f]{16}"></script>', found[0]), (path, found)
            acting = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => a.name.startsWith('on') || a.value.trim().toLowerCase().startsWith('javascript:')).filter(a => a.name !== 'value').length"
            assert self.tab.ask(acting) == 0, path
            links = "[...document.querySelectorAll('[href], [src], [action]')].map(e => e.href || e.src || e.action).filter(a => !a.startsWith(location.origin) && !a.startsWith('data:,'))"
            assert self.tab.ask(links) == [], path
            unseen = "(document.getElementById('main').innerText.match(/[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\ufeff\\u001b]/g) ?? []).length"
            assert self.tab.ask(unseen) == 0, path
            # The browser's own picture of a calendar is data.
            asked = [address for address in self.tab.requests() if not address.startswith((self.base, "data:"))]
            assert not asked, asked
            assert self.tab.ask(unseen.replace("document.getElementById('main').innerText", "document.title")) == 0, path
            assert not (complaints := self.tab.complaints()), complaints
        stranger.leave()

    def every_screen_fits_and_is_accessible(self) -> None:
        wrong = []
        for path in [*SCREENS, f"/changes/{self.hostile}", f"/clients/{self.gateway.api('/clients')['clients'][0]['id']}"]:
            for theme in ["light", "dark"]:
                for width in [1200, 360]:
                    self.tab.look(width, theme)
                    self.tab.go(f"{self.base}{path}")
                    wide = self.tab.ask("document.documentElement.scrollWidth")
                    assert wide <= width, f"{path} overflows {width} px: {wide}"
                    assert not (complaints := self.tab.complaints()), (path, complaints)
                    if self.axe:
                        wrong += [f"{path} {theme} {width}: {json.dumps(one, ensure_ascii=False)}" for one in self.violations()]
        assert not wrong, "\n".join(wrong)
        self.tab.look(1200, "light")

    def violations(self) -> list:
        self.tab.command("Runtime.evaluate", expression=self.axe)
        run = "axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))]))"
        return self.tab.ask(run)

    def everything_is_reached_by_keyboard(self) -> None:
        self.tab.go(f"{self.base}/")
        self.tab.until("document.getElementById('live').textContent.includes('live')", "the script runs")
        self.tab.key("Tab", 9)
        assert self.tab.ask("document.activeElement.className") == "skip", "the first stop leads to the content"
        for key, path in [("c", "/clients"), ("o", "/follows"), ("s", "/servers"), ("t", "/tools"), ("a", "/approvals"), ("l", "/calls"), ("n", "/connect"), ("f", "/")]:
            self.tab.key("g")
            self.tab.key(key)
            self.tab.until(f"location.pathname === '{path}' && document.readyState === 'complete' && document.getElementById('live').textContent.includes('live')", f"g {key}")
        self.tab.key("/")
        assert self.tab.ask("document.activeElement.id") == "search"
        self.tab.command("Input.insertText", text="history")
        self.tab.key("Enter", 13)
        self.tab.until("location.search.includes('q=history') && document.readyState === 'complete' && document.getElementById('live').textContent.includes('live')", "a search")
        assert self.tab.ask("document.querySelectorAll('#feed .row').length") >= 1
        self.tab.key("j")
        assert self.tab.ask("document.activeElement.classList.contains('row')")
        self.tab.key("o")
        assert self.tab.ask("[...document.activeElement.querySelectorAll('details')].every(d => d.open)")
        self.tab.key("Enter", 13)
        self.tab.until("location.pathname.startsWith('/changes/') && document.readyState === 'complete' && document.getElementById('live').textContent.includes('live')", "a row opens")
        self.tab.key("?")
        assert self.tab.ask("document.getElementById('keys').open")
        # Buttons are stops like any other.
        self.tab.go(f"{self.base}/servers")
        for _ in range(60):
            self.tab.key("Tab", 9)
            if self.tab.ask("document.activeElement.textContent") == "Restart":
                break
        assert self.tab.ask("document.activeElement.textContent") == "Restart"

    def stop_at(self, what: str) -> None:
        """Goes from stop to stop until one fits."""
        for _ in range(200):
            self.tab.key("Tab", 9)
            if self.tab.ask(f"(stop => {what})(document.activeElement)"):
                return
        raise AssertionError(f"no stop fits {what}")

    def trial_tools(self) -> None:
        """A tool that takes a number of steps and one that asks; both only read."""
        steps = {"type": "object", "properties": {"steps": {"type": "integer"}}, "required": ["steps"]}
        reads = {"readOnlyHint": True}
        tools = [tool("search", "Search."), {**tool("slow", "Takes long.", annotations=reads), "inputSchema": steps}, tool("ask", "Asks.", annotations=reads)]
        self.gateway.put(tools)
        # A call that was cancelled may still run in the old process, which would not say for which of the two it asks.
        assert self.gateway.restart("listed") == 200
        eventually("they are there", lambda: {"slow", "ask"} <= {one["name"] for one in self.gateway.api("/tools")["tools"]})

    # Trying, answering and adding without a mouse.
    def a_tool_is_tried_and_a_server_added_by_keyboard_alone(self) -> None:
        self.trial_tools()
        self.tab.go(f"{self.base}/tools/listed/slow")
        self.stop_at("stop.name === 'arg.steps'")
        self.tab.command("Input.insertText", text="3")
        self.tab.key("Enter", 13)
        self.tab.until("location.pathname.startsWith('/tries/') && document.querySelector('main')?.innerText.includes('3 steps')", "it is answered")
        self.tab.go(f"{self.base}/tools/listed/ask")
        self.stop_at("stop.textContent === 'Call'")
        self.tab.key("Enter", 13)
        self.tab.until("document.querySelector('main')?.innerText.includes('Which colour?')", "the question is shown")
        self.stop_at("stop.closest('fieldset') !== null")
        self.tab.command("Input.insertText", text="green")
        self.tab.key("Enter", 13)
        self.tab.until("document.querySelector('main')?.innerText.includes('answered') && document.querySelector('main').innerText.includes('green')", "it is answered")
        self.tab.go(f"{self.base}/add")
        self.stop_at("stop.name === 'name' && stop.form.querySelector('[name=run]') !== null")
        self.tab.command("Input.insertText", text="bykeys")
        self.tab.key("Tab", 9)
        self.tab.command("Input.insertText", text=f"{sys.executable} {HERE / 'listed_server.py'} {self.gateway.tools}")
        self.tab.key("Enter", 13)
        self.tab.until("location.pathname === '/servers/bykeys' && document.readyState === 'complete'", "it is added")
        assert "● ready" in self.tab.text(), self.tab.text()
        self.gateway.remove("bykeys")

    # The same as plain forms; a call that runs is loaded again by the page itself.
    def a_tool_is_tried_and_a_server_added_without_scripts(self) -> None:
        self.trial_tools()
        self.tab.command("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.tab.go(f"{self.base}/tools/listed/slow")
            self.tab.ask("document.querySelector('[name=\"arg.steps\"]').value = '30'")
            self.press("Call")
            assert "running" in self.tab.text() and self.tab.ask("location.pathname").startswith("/tries/"), self.tab.text()
            self.tab.until("document.querySelector('main')?.innerText.includes('30 steps')", "it is answered")
            self.tab.go(f"{self.base}/tools/listed/ask")
            self.press("Call")
            self.tab.until("document.querySelector('main')?.innerText.includes('Which colour?')", "the question is shown")
            self.tab.ask("document.querySelector('fieldset input').value = 'red'")
            self.press("Answer")
            self.tab.until("document.querySelector('main')?.innerText.includes('answered') && document.querySelector('main').innerText.includes('red')", "it is answered")
            self.add_by_hand("byform", f"{sys.executable} {HERE / 'listed_server.py'} {self.gateway.tools}")
            assert "● ready" in self.tab.text(), self.tab.text()
            self.gateway.remove("byform")
        finally:
            self.tab.command("Emulation.setScriptExecutionDisabled", value=False)

    def it_reads_and_acts_without_scripts(self) -> None:
        self.tab.command("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.tab.go(f"{self.base}/?q=history")
            assert self.tab.ask("document.querySelectorAll('#feed .row').length") >= 1
            for path in SCREENS:
                self.tab.go(f"{self.base}{path}")
                assert self.tab.ask("document.querySelector('h1').textContent.length") > 0, path
                assert self.tab.ask("document.getElementById('live').textContent") == "", "nothing is live, and nothing says so"
            self.tab.go(f"{self.base}/servers")
            self.tab.ask("[...document.querySelectorAll('button')].find(b => b.textContent === 'Disable').form.submit()")
            self.tab.until("document.readyState === 'complete' && document.querySelector('h1').textContent.includes('Disable listed?')", "it asks")
            self.tab.ask("[...document.querySelectorAll('main button')].find(b => b.textContent === 'Disable').form.submit()")
            self.tab.until("document.readyState === 'complete' && document.querySelector('tbody').innerText.includes('disabled')", "it is disabled")
            self.tab.ask("[...document.querySelectorAll('button')].find(b => b.textContent === 'Enable').form.submit()")
            self.tab.until("document.readyState === 'complete' && !document.querySelector('tbody').innerText.includes('disabled')", "it is enabled")
        finally:
            self.tab.command("Emulation.setScriptExecutionDisabled", value=False)

    def seven_tabs_leave_room_for_an_eighth(self) -> None:
        tabs = []
        for _ in range(8):
            tab = self.browser.tab()
            tab.go(f"{self.base}/servers")
            assert "Servers" in tab.text()
            tabs.append(tab)
        # A browser has six connections to a host: those that nobody looks at have let go of theirs.
        hidden = [tab.ask("document.hidden") for tab in tabs]
        assert hidden.count(False) <= 6, hidden
        for tab in tabs:
            self.tab.command("Target.closeTarget", targetId=tab.target)
        self.tab.show()

    def a_link_to_look_changes_nothing(self) -> None:
        # The same browser has one cookie, so this is the last that is done with the other one.
        tab = self.browser.tab()
        tab.go(self.gateway.link("--read-only"))
        tab.go(f"{self.base}/servers")
        assert tab.ask("document.querySelectorAll('form[method=post] button').length") == 0
        posted = tab.ask("fetch('/servers/listed/disable', { method: 'POST', body: new URLSearchParams({ token: 'x' }) }).then(a => a.status)")
        assert posted == 403, posted
        self.tab.command("Target.closeTarget", targetId=tab.target)
        self.tab.show()
        self.tab.go(self.gateway.link())

    def whoever_was_told_and_only_calls_is_deaf(self) -> None:
        self.tab.go(f"{self.base}/clients")
        own = next(client for client in self.gateway.api("/clients")["clients"] if client["name"] == "deaf-client")
        place = f"document.querySelector('[data-client=\"{own['id']}\"]')?.textContent"
        assert "waiting" in (self.tab.ask(place) or ""), self.tab.text()
        self.deaf.call("search")
        self.tab.until(f"{place}.includes('deaf')", "it called and did not list")
        assert "did not list since" in self.tab.text()
        command = [self.gateway.tidings, "--data", self.gateway.data, "clients"]
        assert "◆ deaf" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.deaf.list()
        self.tab.until(f"{place}.includes('heard')", "it lists again")

    def the_first_client_that_did_not_list_again_is_shown_as_deaf(self) -> None:
        tab, deadline = self.first_tab, time.monotonic() + 20
        self.first_idle.call("mine")
        tab.show()
        row = "[...document.querySelectorAll('#clients tr')].find(row => row.innerText.includes('lists-never-again'))?.innerText ?? ''"
        while "◆ deaf" not in tab.ask(row):
            assert time.monotonic() < deadline, tab.text()
            time.sleep(0.2)
        assert "did not list since" in tab.ask(row), tab.ask(row)
        assert tab.ask(row.replace("lists-never-again", "lists-again")).startswith("● heard"), tab.text()
        self.first.end()
        self.tab.command("Target.closeTarget", targetId=tab.target)
        self.tab.show()

    # The numbers that the streams of one page brought are those of the log, each once, over two ends of the gateway.
    def a_gateway_that_is_killed_and_back_is_followed_without_a_gap(self) -> None:
        script = self.tab.command("Page.addScriptToEvaluateOnNewDocument", source=RECORDER)["identifier"]
        try:
            self.tab.go(f"{self.base}/")
            self.tab.until(LIVE, "the stream is open")
            self.tab.ask("window.marker = 'the same page'")
            first = self.gateway.api("/changes?limit=1")["last"] + 1
            self.change()
            for times in [1, 2]:
                states = self.gateway.api("/definitions/tools/listed/search/history")["states"]
                self.gateway.kill()
                self.tab.until("document.getElementById('live').textContent.includes('lost')", "it says that it lost the gateway")
                self.gateway.start()
                # Perhaps before the page is back.
                self.change()
                last = self.change()
                self.tab.until(f"{LIVE} && heard.at(-1) === {last}", "it is back")
                words = f"{1 + 2 * times} new changes"
                self.tab.until(f"document.getElementById('pill').textContent === '{words}'", "exactly so many are new")
                kept = self.gateway.api("/definitions/tools/listed/search/history")["states"]
                assert kept[2:] == states, "what was said is kept"
            heard = self.tab.ask("heard")
            assert heard == list(range(first, last + 1)), (first, last, heard)
            assert self.tab.ask("window.marker") == "the same page"
        finally:
            self.tab.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tidings", required=True)
    arguments.add_argument("--axe", type=Path, help="axe.min.js")
    arguments.add_argument("--directory", type=Path, required=True)
    arguments.add_argument("--peers", type=Path, required=True, help="a folder with node_modules")
    arguments.add_argument("--node", required=True, help="the program")
    options = arguments.parse_args()
    began, story, passed, failed = time.monotonic(), Story(options), 0, 0
    try:
        checks = [name for name in vars(Story) if name.count("_") >= 3 and not name.startswith("_")]
        for name in checks:
            try:
                getattr(story, name)()
            except Exception:
                failed += 1
                print(f"FAIL {name}\n{traceback.format_exc()}")
                story.tab.command("Emulation.setScriptExecutionDisabled", value=False)
                story.tab.show()
            else:
                passed += 1
                print(f"PASS {name} (after {time.monotonic() - began:.1f} s)")
        story.measure_paint()
        for what, number in story.numbers.items():
            print(f"  {what}: {number:.1f}")
    finally:
        story.browser.end()
        story.gateway.kill()
        if story.first:
            story.first.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

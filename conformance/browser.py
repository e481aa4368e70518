"""A Chromium without a window, driven by its debugging protocol with nothing but the standard library."""

import base64
import itertools
import json
import os
import socket
import struct
import subprocess
import time
import urllib.request
from pathlib import Path

PATIENCE = 20.0


class Socket:
    """The client side of one web socket."""

    def __init__(self, port: int, path: str):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.stream.sendall(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.reader = self.stream.makefile("rb")
        while self.reader.readline().strip():
            pass

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        if len(data) < 126:
            size = bytes([128 | len(data)])
        elif len(data) < 65536:
            size = b"\xfe" + struct.pack(">H", len(data))
        else:
            size = b"\xff" + struct.pack(">Q", len(data))
        repeated = (mask * (len(data) // 4 + 1))[: len(data)]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")
        self.stream.sendall(b"\x81" + size + mask + masked)

    def receive(self) -> str:
        whole = b""
        while True:
            first, size = self.reader.read(2)
            size &= 127
            if size == 126:
                (size,) = struct.unpack(">H", self.reader.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.reader.read(8))
            whole += self.reader.read(size)
            if first & 128:
                return whole.decode()


class Tab:
    """One tab: commands, and what happened in it since it was last asked."""

    def __init__(self, port: int, target: str):
        self.socket = Socket(port, f"/devtools/page/{target}")
        self.numbers = itertools.count(1)
        self.events: list[dict] = []
        self.target = target
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"]:
            self.command(f"{domain}.enable")

    def command(self, method: str, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def ask(self, expression: str):
        """The value of an expression in the page, awaited."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str, what: str):
        """Waits until an expression holds in the page."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if value := self.ask(expression):
                    return value
            except RuntimeError:
                # The page is being replaced by another one.
                pass
            time.sleep(0.02)
        raise AssertionError(f"{what}: {expression} never held; the page says: {self.text()[:800]}")

    def go(self, address: str) -> None:
        """Opens an address, and waits until it is loaded."""
        self.command("Runtime.evaluate", expression="window.before = true")
        self.command("Page.navigate", url=address)
        self.until("!window.before && document.readyState === 'complete'", address)

    def show(self) -> None:
        """Brings the tab to the front: nobody looks at the others."""
        self.command("Page.bringToFront")

    def key(self, key: str, code: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else ({"text": "\r"} if key == "Enter" else {})
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def text(self) -> str:
        try:
            return self.ask("document.body.innerText") or ""
        except RuntimeError:
            return ""

    def look(self, width: int, theme: str) -> None:
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def picture(self, file: Path) -> None:
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        file.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """What the browser complained of since it was last asked: policies, exceptions, errors, dialogs."""
        self.ask("1")
        kinds = {"Log.entryAdded", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"}
        found = [json.dumps(event)[:400] for event in self.events if event["method"] in kinds]
        self.events.clear()
        return found

    def requests(self) -> list[str]:
        """The addresses that were asked for since events were last cleared."""
        self.ask("1")
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


class Browser:
    def __init__(self, directory: Path):
        program = next(name for name in ["chromium", "/usr/bin/chromium", "google-chrome"] if found(name))
        profile = directory / "profile"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
        options += ["--remote-allow-origins=*", "--hide-scrollbars", "--disable-dev-shm-usage", "--disable-extensions"]
        options += ["--disable-background-networking", "--no-proxy-server", f"--user-data-dir={profile}"]
        log = open(directory / "chromium.log", "wb")
        self.process = subprocess.Popen([program, *options, "about:blank"], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        file = profile / "DevToolsActivePort"
        while not (file.exists() and file.read_text().strip()):
            assert time.monotonic() < deadline and self.process.poll() is None, f"Chromium did not start: see {log.name}"
            time.sleep(0.05)
        self.port = int(file.read_text().split()[0])

    def tab(self) -> Tab:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        return Tab(self.port, json.load(urllib.request.urlopen(request, timeout=PATIENCE))["id"])

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


def found(program: str) -> bool:
    return any((Path(folder) / program).is_file() for folder in os.environ["PATH"].split(":")) or Path(program).is_file()

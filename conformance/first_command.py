"""`tidings serve` as somebody runs it who has read the README's first command: no configuration, a home that is empty, the printed link."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path


class FirstCommand:
    def __init__(self, tidings: str, home: Path):
        home.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base, self.home, self.log = f"http://127.0.0.1:{port}", home, home / "printed.txt"
        known = {name: os.environ[name] for name in ["PATH", "LANG"] if name in os.environ}
        # The port alone is not the README's: another gateway may have that one.
        command = [tidings, "serve", "--listen", f"127.0.0.1:{port}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, env={**known, "HOME": str(home)})

    def link(self) -> str:
        """What it printed for a browser."""
        deadline = time.monotonic() + 30
        while not (found := re.search(r"http://\S+/login\?k=\w+", self.log.read_text())):
            assert time.monotonic() < deadline and self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        return found[0]

    def run(self, command: str) -> None:
        subprocess.run(command, shell=True, check=True, cwd=self.home)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

"""What every package holds: the program, its man pages and its completions."""

import gzip
import pathlib
import re
import shutil

from parts.ground import MACHINE, ROOT, run

LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
SHELLS = {
    "bash": "share/bash-completion/completions/tidings",
    "fish": "share/fish/vendor_completions.d/tidings.fish",
    "zsh": "share/zsh/site-functions/_tidings",
}


class Payload:
    def __init__(self, binary, work):
        self.program = work / "tidings"
        # Beside a program that was trained.
        counts = pathlib.Path(binary).with_name("tidings.profdata")
        self.counts = counts if counts.exists() else None
        shutil.copy(binary, self.program)
        if shutil.which("strip"):
            run(["strip", self.program])
        self.version = run([self.program, "--version"]).split()[1]
        self.pages = work / "man"
        run([self.program, "man", self.pages])
        content = self.program.read_bytes()
        self.files = {"bin/tidings": (content, 0o755)}
        for page in sorted(self.pages.iterdir()):
            self.files[f"share/man/man1/{page.name}.gz"] = (gzip.compress(page.read_bytes(), 9, mtime=0), 0o644)
        for shell, place in SHELLS.items():
            self.files[place] = (run([self.program, "completions", shell]).encode(), 0o644)
        self.licences = {name: (ROOT / name).read_bytes() for name in LICENCES}
        # A static program names no loader, and runs with every C library and with none.
        self.is_static = b"/ld-linux" not in content
        self.target = f"{MACHINE}-unknown-linux-{'musl' if self.is_static else 'gnu'}"
        found = (tuple(map(int, version)) for version in re.findall(rb"GLIBC_(\d+)\.(\d+)", content))
        # The newest version of glibc that the program asks for.
        self.glibc = None if self.is_static else max(found, default=(2, 17))

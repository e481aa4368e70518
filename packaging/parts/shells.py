"""Completions run in their shells, and man pages read by `man`."""

import os
import pathlib
import shutil
import tempfile

from parts.ground import run
from parts.payload import SHELLS

# What bash does when somebody has typed `tidings serv` and presses the key.
COMPLETE = 'source "$1"; COMP_WORDS=(tidings serv); COMP_CWORD=1; "$(complete -p tidings | sed "s/.*-F \\([^ ]*\\) .*/\\1/")" tidings serv tidings; echo "${COMPREPLY[@]}"'


def make(trial, payload):
    with tempfile.TemporaryDirectory() as work:
        for shell, place in SHELLS.items():
            if not shutil.which(shell):
                trial.left_out(f"completions of {shell}", f"{shell} is not there")
                continue
            file = pathlib.Path(work) / f"tidings.{shell}"
            file.write_bytes(payload.files[place][0])
            said = run([shell, "-n", file], accepted=range(256))
            trial.check(f"{shell} reads its completions", said == "", said)
            if shell == "bash":
                said = run(["bash", "--norc", "-c", COMPLETE, "bash", file])
                trial.check("bash completes a command", said.split() == ["serve", "servers"], said)
    if not shutil.which("man"):
        return trial.left_out("man pages", "man is not there")
    environment = dict(os.environ, MANWIDTH="80", MANROFFOPT="-ww", LC_ALL="C.UTF-8")
    wrong = []
    pages = sorted(payload.pages.iterdir())
    for page in pages:
        said = run(["man", "--warnings", "--local-file", page], env=environment, accepted=range(256))
        name = page.stem.replace("-", " ")
        if "NAME" not in said or "SYNOPSIS" not in said or "warning" in said.lower().split("\n")[0] or "<standard input>" in said:
            wrong.append(f"{name}: {said[:400]}")
    trial.check(f"man shows {len(pages)} pages without a warning", not wrong and len(pages) > 20, "\n".join(wrong))

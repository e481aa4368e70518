"""The archive, and the installer for people without a package manager."""

import gzip
import os
import pathlib
import shutil
import subprocess
import tempfile

from parts.ground import PACKAGING, ROOT, run, tar
from parts.signature import TrialKey, write_sums


def make(trial, payload):
    folder = f"tidings-{payload.version}-{payload.target}"
    files = dict(payload.files)
    for name, content in payload.licences.items():
        files[f"share/doc/tidings/{name}"] = (content, 0o644)
    files["share/doc/tidings/README.md"] = ((ROOT / "README.md").read_bytes(), 0o644)
    path = trial.written(f"{folder}.tar.gz", lambda: tar(files, folder, trial.level))
    shutil.copy(PACKAGING / "install.sh", trial.out / "install.sh")
    with tempfile.TemporaryDirectory() as work:
        offer = pathlib.Path(work) / "offer"
        offer.mkdir()
        shutil.copy(path, offer)
        write_sums(offer)
        install(trial, payload, offer, path.name)


def install(trial, payload, offer, name):
    with tempfile.TemporaryDirectory() as home:
        settings = dict(os.environ, HOME=home, TIDINGS_FROM=str(offer))
        said = run(["sh", PACKAGING / "install.sh"], env=settings)
        program = pathlib.Path(home) / ".local/bin/tidings"
        trial.check("the installer installs the archive", payload.version in said and program.exists(), said)
        trial.tried("archive", program, payload.version)
        page = pathlib.Path(home) / ".local/share/man/man1/tidings.1.gz"
        trial.check("the archive has man pages", b".TH tidings" in gzip.decompress(page.read_bytes()), page)

        key = TrialKey(pathlib.Path(home))
        signed = dict(settings, TIDINGS_KEY=key.public)
        trial.check("the installer refuses sums without the signature that is asked for", *refused(signed, "SHA256SUMS.sig"))
        key.sign(offer)
        said = run(["sh", PACKAGING / "install.sh"], env=signed)
        trial.check("the installer takes sums with the right signature", "Installed" in said, said)
        other = dict(settings, TIDINGS_KEY=TrialKey(pathlib.Path(home) / "other").public)
        trial.check("the installer refuses the signature of somebody else", *refused(other, "not signed"))
        archive = offer / name
        archive.write_bytes(archive.read_bytes()[:-20] + bytes(20))
        trial.check("the installer refuses a damaged archive", *refused(settings, "damaged"))


def refused(settings, words):
    done = subprocess.run(["sh", PACKAGING / "install.sh"], env=settings, capture_output=True, text=True)
    return done.returncode == 1 and words in done.stderr, done.stdout + done.stderr

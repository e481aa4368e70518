"""What every part stands on: checks that are counted, commands with a deadline, archives that are the same whenever they are made."""

import gzip
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

PACKAGING = pathlib.Path(__file__).resolve().parent.parent
ROOT = PACKAGING.parent
ABOUT = "One MCP endpoint in front of all your MCP servers"
# Every file of a package has this time, so that two builds of one program are equal.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
MACHINE = os.uname().machine
# Only these reach a program that is tried: nothing of whoever builds the packages helps it.
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(command, seconds=300, accepted=(0,), **others):
    """What a command prints; an error with all of it where it ends otherwise than it should."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=seconds, **others)
    if done.returncode not in accepted:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}")
    return done.stdout


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tar(files, prefix, level):
    """A compressed archive that is the same whenever it is made."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=level, mtime=EPOCH, filename="") as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(f"{prefix}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), mode, EPOCH
                archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


class Trial:
    """One run: where packages go, how thorough it is, and what was found so far."""

    def __init__(self, out, quick, cache):
        self.out, self.quick, self.cache = out, quick, cache
        self.level = 1 if quick else 9
        self.passed = self.failed = 0

    def check(self, name, good, detail=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(f"  ok      {name}" if good else f"  FAILED  {name}\n{detail}", flush=True)

    def left_out(self, name, why):
        """A check that can not be made here. Not counted; said."""
        print(f"  left out  {name}: {why}", flush=True)

    def written(self, name, make):
        """Makes a file twice and keeps it."""
        content = make()
        self.check(f"{name} is the same when it is made again", make() == content)
        path = self.out / name
        path.write_bytes(content)
        return path

    def tried(self, kind, program, version):
        """The installed program tells its version and serves the demo, with nothing but what a fresh account has."""
        with tempfile.TemporaryDirectory() as home:
            environment = {"HOME": home, "PATH": f"{os.environ['PATH']}:{PLAIN_PATH}"}
            said = run(["sh", PACKAGING / "try.sh", program, version], env=environment, cwd=home, accepted=range(256))
        self.told(kind, said)

    def told(self, kind, said):
        """Counts what `try.sh` found."""
        lines = [line for line in said.splitlines() if line.startswith(("ok: ", "failed: "))]
        for line in lines:
            result, name = line.split(": ", 1)
            self.check(f"{kind}: {name}", result == "ok", said)
        self.check(f"{kind}: was tried to the end", said.rstrip().endswith("tried"), said)

    def environment(self, name, *packages):
        """A virtual environment with packages of PyPI that the checks need, made once."""
        folder = self.cache / name
        stamp = folder / "installed"
        if not (stamp.exists() and stamp.read_text() == " ".join(packages)):
            shutil.rmtree(folder, ignore_errors=True)
            run(["python3", "-m", "venv", folder])
            run([folder / "bin/pip", "--quiet", "--disable-pip-version-check", "install", *packages], seconds=600)
            stamp.write_text(" ".join(packages))
        return folder / "bin"

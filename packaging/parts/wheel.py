"""The wheel for pip and uv: the program as a script."""

import base64
import hashlib
import io
import pathlib
import sys
import tempfile
import time
import zipfile

from parts.ground import ABOUT, EPOCH, MACHINE, ROOT, run

# Before it a zip file knows no time.
OLDEST = 315532800


def platforms(payload):
    if payload.is_static:
        # No C library is asked for, so the oldest that each family knows will do.
        return f"manylinux_2_17_{MACHINE}.manylinux2014_{MACHINE}.musllinux_1_1_{MACHINE}"
    return f"manylinux_{payload.glibc[0]}_{payload.glibc[1]}_{MACHINE}"


def make(trial, payload):
    tag = f"py3-none-{platforms(payload)}"
    info = f"tidings-{payload.version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.4\nName: tidings\nVersion: {payload.version}\nSummary: {ABOUT}\n"
        f"License-Expression: Apache-2.0 OR MIT\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        + (ROOT / "README.md").read_text()
    )
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms(payload).split("."))
    files = {
        f"tidings-{payload.version}.data/scripts/tidings": payload.files["bin/tidings"],
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: tidings\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
    }
    files.update({f"{info}/licenses/{name}": (content, 0o644) for name, content in payload.licences.items()})
    urlsafe = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = "".join(f"{name},sha256={urlsafe(content)},{len(content)}\n" for name, (content, _) in files.items())
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    path = trial.written(f"tidings-{payload.version}-{tag}.whl", lambda: zipped(files, trial.level))
    with tempfile.TemporaryDirectory() as folder:
        python = pathlib.Path(folder) / "bin/python"
        run([sys.executable, "-m", "venv", folder])
        run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", path])
        trial.tried("wheel", python.with_name("tidings"), payload.version)


def zipped(files, level):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as packed:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, time.gmtime(max(EPOCH, OLDEST))[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            packed.writestr(entry, content, compresslevel=level)
    return out.getvalue()

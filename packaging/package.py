"""Builds what people install, and tries each kind: `parts/` has one file for each.

Needs the Python standard library and, for their kinds, `dpkg-deb`, `npm`, `podman`, `ssh-keygen`, `systemd-analyze`; what is not there is left out, and
said. Prints one line per check, then the totals.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

# Nothing is left among the sources.
sys.dont_write_bytecode = True

from parts import archive, counts, crates, debian, fresh_root, image, manifests, npm, sbom, shells, signature, units, wheel
from parts.ground import Trial
from parts.payload import Payload

# In this order: the later ones use what the earlier ones made.
PARTS = [archive, npm, wheel, debian, image, units, shells, sbom, counts, crates, manifests, fresh_root, signature]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, help="the program that is packed")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="where packages go; what was there is removed")
    parser.add_argument("--cache", required=True, type=pathlib.Path, help="where things are kept that the checks need each time")
    parser.add_argument("--quick", action="store_true", help="larger packages in less time, without fresh machines and without the network")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="only this part, and what was made before stays; may be repeated")
    arguments = parser.parse_args()
    # What whoever builds has set is in no package: with 077 nobody could read the image.
    os.umask(0o022)
    out = arguments.out.resolve()
    if out.exists() and not arguments.only:
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    trial = Trial(out, arguments.quick, arguments.cache.resolve())
    with tempfile.TemporaryDirectory() as work:
        payload = Payload(arguments.binary, pathlib.Path(work))
        for part in PARTS:
            name = part.__name__.rsplit(".", 1)[1]
            if arguments.only and name not in arguments.only:
                continue
            began = time.monotonic()
            try:
                part.make(trial, payload)
            except Exception as error:  # One kind that can not be made must not hide the others.
                trial.check(f"{name} is made", False, f"{type(error).__name__}: {error}")
            print(f"  {name}: {time.monotonic() - began:.1f} s", flush=True)
    print(f"{trial.passed} passed, {trial.failed} failed")
    return trial.failed > 0


if __name__ == "__main__":
    sys.exit(main())

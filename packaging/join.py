"""Makes one release of the packages of several machines: every file once, the formula with all sums, SHA256SUMS, its signature, and the notes.

    join.py --signing-key FILE --out FOLDER PACKAGES…
"""

import argparse
import pathlib
import re
import shutil
import sys

sys.dont_write_bytecode = True

from parts.ground import ROOT, run, sha256
from parts.signature import sign, verify, write_sums


def notes(version):
    """The changelog's section of this version."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    found = next((section for section in sections if section.split("\n", 1)[0].split()[:1] == [version]), None)
    return found.split("\n", 1)[1].strip() + "\n" if found else sys.exit(f"CHANGELOG.md has no section {version}")


def formula(folders, out):
    """That of the first machine, with the sums that only the others know."""
    texts = [(folder / "tidings.rb").read_text().split("\n") for folder in folders]
    lines = []
    for same in zip(*texts):
        known = [line for line in same if "0" * 64 not in line]
        lines.append((known or same)[0])
    text = "\n".join(lines)
    # A platform without an archive is not promised.
    text = re.sub(r" +on_\w+ do\n +url .*\n +sha256 \"0{64}\"\n +end\n", "", text)
    (out / "tidings.rb").write_text(re.sub(r" +on_\w+ do\n +end\n", "", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signing-key", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("packages", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True)
    machine = lambda folder: re.search(r"-(x86_64|aarch64)-", next(folder.glob("*.tar.gz")).name).group(1)
    for folder in arguments.packages:
        for file in sorted(folder.iterdir()):
            if file.name.startswith("SHA256SUMS") or file.name == "tidings.rb":
                continue
            # Images and bills of materials are of one machine, and not all names say of which.
            name = re.sub(r"(-image\.tar|\.cdx\.json)$", rf"-{machine(folder)}\1", file.name)
            if (out / name).exists() and sha256(out / name) != sha256(file):
                sys.exit(f"{name} differs between {folder} and another")
            shutil.copy(file, out / name)
    formula(arguments.packages, out)
    version = re.search(r"tidings-([0-9][^-]*)\.tgz", " ".join(path.name for path in out.iterdir())).group(1)
    write_sums(out)
    sign(arguments.signing_key, out)
    if not verify(run(["ssh-keygen", "-y", "-f", arguments.signing_key]).strip(), out):
        sys.exit("the signature can not be verified")
    (out / "NOTES.md").write_text(notes(version))


main()

"""SHA256SUMS, and its signature. OpenSSH signs and verifies: it is on every machine that has `ssh`.

`TIDINGS_SIGNING_KEY` names the file of the key that releases are signed with. Without one a key is made, used and thrown away, so that signing and
verifying are tried all the same.
"""

import os
import pathlib
import subprocess
import tempfile

from parts.ground import run, sha256

# Whom the signature is by, in the words of `ssh-keygen`, and what for: a signature for something else does not count.
SIGNER = "tidings-release"
NAMESPACE = "file"


def write_sums(folder):
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("SHA256SUMS"))
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in names))


class TrialKey:
    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.file = folder / "signing-key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.file])
        self.public = self.file.with_suffix(".pub").read_text().strip()

    def sign(self, folder):
        sign(self.file, folder)


def sign(key, folder):
    (folder / "SHA256SUMS.sig").unlink(missing_ok=True)
    run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, folder / "SHA256SUMS"])


def verify(public, folder):
    """Whether the signature of the sums is by this key; as `docs/installing.md` has people do it."""
    with tempfile.TemporaryDirectory() as work:
        signers = pathlib.Path(work) / "signers"
        signers.write_text(f"{SIGNER} {public}\n")
        command = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", SIGNER, "-n", NAMESPACE, "-s", folder / "SHA256SUMS.sig"]
        with (folder / "SHA256SUMS").open("rb") as sums:
            return subprocess.run([str(word) for word in command], stdin=sums, capture_output=True).returncode == 0


def make(trial, _payload):
    """The last part: the sums of everything that was made before it."""
    write_sums(trial.out)
    listed = run(["sha256sum", "--check", "SHA256SUMS"], cwd=trial.out)
    trial.check("every sum is right", listed.count(": OK") == len(list(trial.out.iterdir())) - 1, listed)
    with tempfile.TemporaryDirectory() as work:
        given = os.environ.get("TIDINGS_SIGNING_KEY")
        key = pathlib.Path(given) if given else TrialKey(pathlib.Path(work)).file
        public = run(["ssh-keygen", "-y", "-f", key]).strip()
        sign(key, trial.out)
        trial.check("the signature of the sums is verified", verify(public, trial.out))
        sums = trial.out / "SHA256SUMS"
        right = sums.read_text()
        sums.write_text(right.replace("a", "b", 1))
        trial.check("other sums are refused", not verify(public, trial.out))
        sums.write_text(right)
        other = TrialKey(pathlib.Path(work) / "other").public
        trial.check("the key of somebody else is refused", not verify(other, trial.out))
    if not given:
        # Nobody has that key any more: a signature by it says nothing.
        (trial.out / "SHA256SUMS.sig").unlink()

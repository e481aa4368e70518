"""The files of supervisors: units of systemd, the plist of launchd."""

import pathlib
import plistlib
import re
import shutil
import tempfile

from parts.ground import PACKAGING, run

# The exposure that `systemd-analyze security` may find, in tenths; 0 is the best, an ordinary service has 96.
MOST_EXPOSED = 20


def make(trial, payload):
    plist = plistlib.loads((PACKAGING / "launchd/dev.tidings.serve.plist").read_bytes())
    trial.check("the plist starts the gateway", plist["ProgramArguments"][1:] == ["serve"] and plist["RunAtLoad"], plist)
    if not shutil.which("systemd-analyze"):
        return trial.left_out("units of systemd", "systemd-analyze is not there")
    with tempfile.TemporaryDirectory() as work:
        for unit, whose in [("tidings.service", "--system"), ("tidings-user.service", "--user")]:
            # The program is looked for, and is not installed here.
            text = (PACKAGING / "systemd" / unit).read_text()
            at = pathlib.Path(work) / unit
            at.write_text(text.replace("/usr/bin/tidings", str(payload.program)).replace("Documentation=man:tidings(1)\n", ""))
            environment = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": work, "HOME": work, "SYSTEMD_LOG_LEVEL": "warning"}
            said = run(["systemd-analyze", whose, "verify", "--man=no", at], env=environment, accepted=range(256))
            trial.check(f"systemd has nothing against {unit}", unit not in said, said)
        command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", pathlib.Path(work) / "tidings.service"]
        said = run(command, accepted=range(256), env=dict(environment, TERM="dumb", SYSTEMD_COLORS="0"))
        level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
        found = float(level.group(1)) if level else 10.0
        trial.check(f"the system's unit is exposed {found}, and at most {MOST_EXPOSED / 10}", found * 10 <= MOST_EXPOSED, said)

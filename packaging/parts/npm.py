"""The npm packages: a launcher, and one package with the program for each platform, of which npm chooses."""

import json
import pathlib
import tempfile

from parts.ground import ABOUT, MACHINE, PACKAGING, ROOT, run, tar

PLATFORMS = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]


def make(trial, payload):
    machine = {"x86_64": "x64", "aarch64": "arm64"}[MACHINE]
    version = payload.version
    licences = {name: (content, 0o644) for name, content in payload.licences.items()}
    shared = {"version": version, "license": "Apache-2.0 OR MIT", "description": ABOUT}
    launcher = {
        "name": "tidings", **shared, "bin": {"tidings": "tidings.js"}, "engines": {"node": ">=18"},
        "optionalDependencies": {f"@tidings/{platform}": version for platform in PLATFORMS},
    }
    program = {"name": f"@tidings/linux-{machine}", **shared, "os": ["linux"], "cpu": [machine]}
    if not payload.is_static:
        program["libc"] = ["glibc"]
    as_file = lambda manifest: (json.dumps(manifest, indent=2).encode(), 0o644)
    main = trial.written(f"tidings-{version}.tgz", lambda: tar({
        "package.json": as_file(launcher), "tidings.js": ((PACKAGING / "npm/tidings.js").read_bytes(), 0o755),
        "README.md": ((ROOT / "README.md").read_bytes(), 0o644), **licences,
    }, "package", trial.level))
    binary = trial.written(f"tidings-linux-{machine}-{version}.tgz", lambda: tar({
        "package.json": as_file(program), "bin/tidings": payload.files["bin/tidings"], **licences,
    }, "package", trial.level))
    with tempfile.TemporaryDirectory() as folder:
        # The other platforms' packages are nowhere yet, and optional.
        (pathlib.Path(folder) / "package.json").write_text('{"private": true}')
        run(["npm", "install", "--offline", "--no-audit", "--no-fund", binary, main], cwd=folder)
        trial.tried("npm", pathlib.Path(folder) / "node_modules/.bin/tidings", version)

"""What `cargo install tidings` needs: every crate of the program can be published, at one version, and the archive is where binstall looks for it."""

import json

from parts.ground import ROOT, run


def make(trial, payload):
    metadata = json.loads(run(["cargo", "metadata", "--format-version", "1", "--locked", "--no-deps"], cwd=ROOT).split("\n")[-2])
    packages = {package["name"]: package for package in metadata["packages"]}
    needed, waiting = set(), ["tidings"]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(dep["name"] for dep in packages[name]["dependencies"] if dep["kind"] != "dev" and dep["name"] in packages)
    kept = sorted(name for name in needed if packages[name]["publish"] == [])
    trial.check(f"all {len(needed)} crates of the program may be published", not kept, kept)
    versions = {name: packages[name]["version"] for name in needed}
    trial.check("they have one version", set(versions.values()) == {payload.version}, versions)
    # A dependency without its version can not be published; one with another is another program.
    loose = sorted(
        f"{name}: {dep['name']} {dep['req']}" for name in needed for dep in packages[name]["dependencies"]
        if dep["name"] in packages and dep["kind"] != "dev" and dep["req"] != f"={payload.version}"
    )
    trial.check("they ask for each other by that version", not loose, loose)
    binstall = packages["tidings"]["metadata"]["binstall"]
    values = {"name": "tidings", "version": payload.version, "target": payload.target, "archive-suffix": ".tar.gz", "bin": "tidings", "repo": "R"}
    filled = lambda text: text.replace("{ ", "{").replace(" }", "}").format(**values)
    archive = filled(binstall["pkg-url"]).rsplit("/", 1)[1]
    listed = run(["tar", "-tzf", trial.out / archive]).split()
    trial.check("binstall finds the program in the archive", filled(binstall["bin-dir"]) in listed, f"{archive}: {listed}")
    news = (ROOT / "CHANGELOG.md").read_text()
    trial.check("the changelog has something to tell", "\n## Unreleased\n\n- " in news or f"\n## {payload.version}" in news)
    if trial.quick:
        return trial.left_out("cargo publish --dry-run", "only without --quick")
    # Packs every crate and asks the index; compiling them from their archives is left to the release.
    said = run(["cargo", "publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"], cwd=ROOT, seconds=900, accepted=range(256))
    packed = said.count("Packaged ")
    trial.check(f"cargo would publish {packed} crates", packed >= len(needed) and "error" not in said, said)

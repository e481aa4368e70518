"""The bill of materials (CycloneDX 1.6): every crate that the program is made of, with licence, source and hash. Made of what Cargo says."""

import json
import time
import tomllib
import uuid

from parts.ground import EPOCH, ROOT, run, sha256

VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(f"{wrong}" if wrong else 0)
"""
VALIDATOR = "cyclonedx-python-lib[json-validation]==11.12.0"


def make(trial, payload):
    metadata = json.loads(run(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", payload.target], cwd=ROOT).split("\n")[-2])
    bill = bill_of(metadata, payload)
    path = trial.written(f"tidings-{payload.version}.cdx.json", lambda: (json.dumps(bill, indent=1) + "\n").encode())
    names = {component["name"] for component in bill["components"]}
    # Crates of other platforms and of tests are no part of the program.
    trial.check(f"the bill of materials has the {len(names)} crates of the program, and no other", {"ring", "tokio", "tidings-hub"} <= names and not names & {"proptest", "windows-sys", "tidings-testkit"}, sorted(names))
    unlicensed = [component["name"] for component in bill["components"] if not component.get("licenses")]
    trial.check("every crate has a licence", not unlicensed, unlicensed)
    if trial.quick:
        return trial.left_out("the schema of CycloneDX", "only without --quick")
    tools = trial.environment("cyclonedx", VALIDATOR)
    said = run([tools / "python", "-c", VALIDATE, path], accepted=range(256))
    trial.check("the bill of materials is what CycloneDX says it has to be", said == "", said)


def bill_of(metadata, payload):
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    hashes = {(each["name"], each["version"]): each.get("checksum") for each in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    root = next(id for id in metadata["workspace_members"] if packages[id]["name"] == "tidings")
    # What is linked, and what runs while it is built; not what only tests use.
    needs = lambda id: sorted(dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"]))
    found, waiting = set(), [root]
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting.extend(needs(id))
    reference = lambda id: f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"

    def component(id):
        package = packages[id]
        about = {"type": "library", "bom-ref": reference(id), "name": package["name"], "version": package["version"], "purl": reference(id)}
        if package["license"]:
            # Old manifests separate alternatives with a slash.
            about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = hashes.get((package["name"], package["version"]))
        if checksum:
            about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if package["repository"]:
            about["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return about

    digest = sha256(payload.program)
    program = component(root) | {"type": "application", "hashes": [{"alg": "SHA-256", "content": digest}]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        # The same program has the same bill.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)), "component": program},
        "components": [component(id) for id in sorted(found - {root}, key=reference)],
        "dependencies": [{"ref": reference(id), "dependsOn": sorted({reference(need) for need in needs(id)})} for id in sorted(found, key=reference)],
    }

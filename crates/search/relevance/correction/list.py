"""Installs the servers of servers.json, or of another such file, and writes the tools that they list.

Usage: list.py DIRECTORY [SERVERS] > tools.jsonl

Nothing of a package is run when it is installed: no install script of npm, and of PyPI wheels only. A server is started without
network, and by root as nobody; where that can not be had, it is not started. The environment variables that its package names
have made-up values. One that can not be installed or does not start is named and left out.
"""

import json
import os
import pathlib
import re
import select
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
STARTING = 60
# Variables that change how a server speaks, and not whom it speaks for.
LEFT_ALONE = re.compile(
    r"PORT$|TRANSPORT|MODE|DEBUG|LOG|NODE|HTTP_|OTEL|HOME|PATH|DIR$|FILE|TIMEOUT|LIMIT|MAX|ENABLE|DISABLE|READ|PROXY|TOOLS"
    r"|OAUTH|CI$|REGION|PYTHON"
)
# What a server is started by, so that it reaches nothing.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
APART = ["unshare", "-n", *NOBODY] if os.geteuid() == 0 else ["unshare", "-rn"]
MADE_UP = [
    (r"URL|ENDPOINT|URI|INSTANCE|SITE$|SERVER", "http://127.0.0.1:9"),
    (r"HOST", "127.0.0.1"),
    (r"EMAIL|USER", "a@example.com"),
    (r"KEY|TOKEN|SECRET|PASS|_ID$|DOMAIN|WORKSPACE|ORG|PROJECT|ACCOUNT|TEAM|DATABASE|_DB|SHOP|STORE|TENANT|CLIENT|APP", "dummy"),
]


def install(server, home):
    home.mkdir(parents=True, exist_ok=True)
    if "npm" in server:
        (home / "package.json").write_text(json.dumps({"private": True, "dependencies": {server["npm"]: server["version"]}}))
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"], cwd=home, check=True,
                       stdout=subprocess.DEVNULL)
        package = home / "node_modules" / server["npm"]
        commands = json.loads((package / "package.json").read_text())["bin"]
        if not isinstance(commands, str):
            commands = commands.get(server["npm"].split("/")[-1]) or next(iter(commands.values()))
        return ["node", str(package / commands)], package
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    name = server["pypi"]
    pip = [home / "bin/python", "-m", "pip", "--quiet", "install", "--only-binary", ":all:", f"{name}=={server['version']}"]
    subprocess.run(pip, check=True)
    # A package may be called otherwise than it is imported; then all that was installed is looked through.
    installed = next(home.glob("lib/python3*/site-packages"))
    own = [path for path in installed.glob(re.sub("[-.]", "_", name) + "*") if path.suffix != ".dist-info"]
    return [str(home / "bin" / server.get("command", name))], own[0] if own else installed


def environment(package, scratch):
    found = set()
    for path in [package, *package.rglob("*")]:
        if path.is_file() and path.suffix in (".js", ".mjs", ".cjs", ".md", ".py") and "node_modules" not in path.parts[len(package.parts):]:
            text = path.read_text(errors="ignore")
            found |= set(re.findall(r"""env(?:iron)?(?:\.get\(|\.|\[)["']?([A-Z][A-Z0-9_]{2,50})""", text))
            found |= set(re.findall(r'"([A-Z][A-Z0-9_]{3,50}_(?:KEY|TOKEN|URL|SECRET|ID|PASSWORD|HOST|USER|EMAIL))"\s*:', text))
    values = {"PATH": os.environ["PATH"], "HOME": str(scratch)}
    for name in found:
        if not LEFT_ALONE.search(name):
            values.update({name: value for pattern, value in reversed(MADE_UP) if re.search(pattern, name)})
    return values


def ask(process, message, deadline, pending):
    if message:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    while time.monotonic() < deadline:
        if b"\n" not in pending[0]:
            if select.select([process.stdout], [], [], 1)[0]:
                read = os.read(process.stdout.fileno(), 1 << 16)
                if not read:
                    break
                pending[0] += read
            continue
        line, pending[0] = pending[0].split(b"\n", 1)
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict) and answer.get("id") == message["id"] and "method" not in answer:
            return answer["result"]
    raise OSError("no answer")


def tools(command, values, scratch):
    process = subprocess.Popen(APART + command, cwd=scratch, env=values, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        deadline, pending, listed, cursor, number = time.monotonic() + STARTING, [b""], [], None, 1
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "list", "version": "1"}}
        ask(process, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, deadline, pending)
        process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        while number == 1 or cursor:
            page = {"cursor": cursor} if cursor else {}
            result = ask(process, {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": page}, deadline, pending)
            listed, cursor, number = listed + result["tools"], result.get("nextCursor"), number + 1
        return listed
    finally:
        process.kill()
        process.wait()


if subprocess.run(APART + ["true"]).returncode != 0:
    sys.exit(f"`{' '.join(APART)}` does not work here, and programs of others are not started with the network in reach")
list_of_servers = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "servers.json"
for server in json.loads(list_of_servers.read_text()):
    home = pathlib.Path(sys.argv[1]).resolve() / server["name"]
    scratch = home / "scratch"
    try:
        command, package = install(server, home)
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o777)
        arguments = [argument.replace("{dir}", str(scratch)) for argument in server.get("args", [])]
        for tool in tools(command + arguments, {**environment(package, scratch), **server.get("env", {})}, scratch):
            print(json.dumps({"server": server["name"], "tool": tool}))
    except (OSError, subprocess.CalledProcessError, LookupError, StopIteration) as error:
        print(f"{server['name']} is left out: {error}", file=sys.stderr)

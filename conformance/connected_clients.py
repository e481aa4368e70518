"""`tidings connect` with clients of others: each reads the entry, finds the gateway, and has its file back afterwards.

Only the Python standard library is used. Every client gets a home of its own. Prints one line per check, then the totals.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--tidings", required=True)
parser.add_argument("--clients", required=True, help="the folder with node_modules")
parser.add_argument("--node", required=True)
parser.add_argument("--directory", required=True)
arguments = parser.parse_args()

DIRECTORY = pathlib.Path(arguments.directory).resolve()
MODULES = pathlib.Path(arguments.clients).resolve() / "node_modules"
MACHINE = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"  ok      {name}")
    else:
        failed += 1
        print(f"  FAILED  {name}\n{detail}")


def run(command, home, seconds=120):
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TIDINGS_DATA": str(DIRECTORY / "data"),
        "TERM": "dumb",
        "NO_COLOR": "1",
        # Nothing but the gateway is to be talked to.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        # A folder that nobody trusted has no servers in Gemini CLI.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    work = home / "work"
    done = subprocess.run(
        [str(word) for word in command], cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=seconds,
    )
    return done.returncode, done.stdout + done.stderr


def script(name):
    return [arguments.node, MODULES / ".bin" / name]


CLAUDE = [MODULES / "@anthropic-ai" / f"claude-code-linux-{MACHINE}" / "claude"]
OPENCODE = [MODULES / f"opencode-linux-{MACHINE}" / "bin" / "opencode"]
# Client, its file, what stands in it, the command that shows its servers, and what that says of one that answers.
CLIENTS = [
    ("claude-code", ".claude.json", '{\n  "numStartups": 1\n}', CLAUDE + ["mcp", "get", "tidings"], "Connected"),
    ("codex", ".codex/config.toml", '# mine\nmodel = "x" # as it is\n', script("codex") + ["mcp", "get", "tidings"], "enabled: true"),
    ("gemini", ".gemini/settings.json", '{\n  // mine\n  "ui": {"theme": "x"}\n}\n', script("gemini") + ["mcp", "list"], "Connected"),
    ("opencode", ".config/opencode/opencode.jsonc", '{\n\t// mine\n\t"$schema": "https://opencode.ai/config.json",\n}\n',
     OPENCODE + ["mcp", "list"], "connected"),
]


def client(name, file, before, shows, word, url):
    home = DIRECTORY / name
    (home / "work").mkdir(parents=True)
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before)
    connect = [arguments.tidings, "connect", name]

    code, said = run(connect + ["--dry-run"], home)
    check(f"{name}: a dry run writes nothing", code == 0 and url in said and path.read_text() == before, said)
    code, said = run(connect + ["--yes"], home)
    check(f"{name}: connect writes the entry", code == 0 and url in path.read_text(), said)
    code, said = run(connect + ["--undo"], home)
    check(f"{name}: undo brings every byte back", code == 0 and path.read_text() == before, said + path.read_text())

    run(connect + ["--yes"], home)
    code, said = run(shows, home)
    check(f"{name}: its own command accepts the entry", code == 0 and url in said and word in said, said)
    code, said = run(connect + ["--yes"], home)
    check(f"{name}: a second connect changes nothing", code == 0 and "already" in said, said)
    code, said = run(connect + ["--undo"], home)
    check(f"{name}: undo after the client wrote its file", code == 0 and "tidings" not in path.read_text(), said + path.read_text())
    code, said = run(shows, home)
    check(f"{name}: the client no longer has it", url not in said, said)

    code, said = run(connect + ["--stdio", "--yes"], home)
    code, said = run(shows, home)
    check(f"{name}: it starts the program, too", code == 0 and "stdio" in said and word in said, said)
    run(connect + ["--undo"], home)


def main():
    configuration = DIRECTORY / "tidings.toml"
    configuration.write_text('[watch.notes]\nfile = "./tidings.toml"\n')
    data = DIRECTORY / "data"
    serve = [arguments.tidings, "serve", "--listen", "127.0.0.1:0", "--config", configuration, "--data", data]
    with open(DIRECTORY / "tidings.log", "w") as log:
        gateway = subprocess.Popen([str(word) for word in serve], stdout=log, stderr=log)
        try:
            state = data / "gateway.json"
            until = time.monotonic() + 30
            while not state.exists() and time.monotonic() < until:
                time.sleep(0.05)
            url = json.loads(state.read_text())["url"] + "/mcp"
            for row in CLIENTS:
                client(*row, url)
        finally:
            gateway.terminate()
            gateway.wait(30)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())

"""What the models of real clients are shown: the tools of the gateway in the form of each client's profile, none left out, and a change in the next
request, or the client is deaf.

Claude Code, Codex, Gemini CLI and OpenCode, as they are on npm, with a stand-in for their models on loopback and a server of 1,500 tools behind the
gateway. Only the Python standard library is used. Prints one line per check, then the totals.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from stand_in_model import StandIn

parser = argparse.ArgumentParser()
parser.add_argument("--tidings", required=True)
parser.add_argument("--clients", required=True, help="the folder with node_modules")
parser.add_argument("--node", required=True)
parser.add_argument("--directory", required=True)
parser.add_argument("--only", help="one of the clients")
arguments = parser.parse_args()
arguments.tidings = str(pathlib.Path(arguments.tidings).resolve())

DIRECTORY = pathlib.Path(arguments.directory).resolve()
MODULES = pathlib.Path(arguments.clients).resolve() / "node_modules"
MACHINE = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
SERVER = pathlib.Path(__file__).resolve().parent / "many_tools_server.py"
# Four times this is less than the script may take.
SECONDS = 140
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"  ok      {name}", flush=True)
    else:
        failed += 1
        print(f"  FAILED  {name}\n{detail}", flush=True)


def run(command, home, more=None, seconds=SECONDS):
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TIDINGS_DATA": str(home / "data"),
        "TERM": "dumb",
        "NO_COLOR": "1",
        **(more or {}),
    }
    with open(home / "output", "w") as output:
        done = subprocess.Popen(
            [str(word) for word in command], cwd=home / "work", env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = done.wait(seconds)
        except subprocess.TimeoutExpired:
            done.kill()
            done.wait()
            code = f"none after {seconds} s"
    return code, (home / "output").read_text(errors="replace")[-3000:]


def script(name):
    return [arguments.node, MODULES / ".bin" / name]


def claude(home, model):
    program = [MODULES / "@anthropic-ai" / f"claude-code-linux-{MACHINE}" / "claude"]
    more = {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "stand-in",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # It would search for tools by itself, and show its model none of them.
        "ENABLE_TOOL_SEARCH": "false",
    }
    return program + ["-p", "go", "--allowedTools", "mcp__tidings"], more


def codex(home, model):
    config = home / ".codex/config.toml"
    provider = f'\n[model_providers.stand-in]\nname = "stand-in"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
    config.write_text('model = "stand-in"\nmodel_provider = "stand-in"\n' + config.read_text() + provider)
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"]
    return script("codex") + words, {}


def gemini(home, model):
    more = {"GEMINI_API_KEY": "stand-in", "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return script("gemini") + ["--yolo", "-m", "gemini-2.5-pro", "-p", "go"], more


def opencode(home, model):
    config = home / ".config/opencode/opencode.jsonc"
    written = json.loads(config.read_text())
    written["provider"] = {"stand-in": {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "stand-in"},
        "models": {"one": {"name": "one", "tool_call": True, "limit": {"context": 10000000, "output": 1000}}},
    }}
    config.write_text(json.dumps(written))
    program = [MODULES / f"opencode-linux-{MACHINE}" / "bin" / "opencode"]
    more = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return program + ["run", "--model", "stand-in/one", "go"], more


# The word of `tidings connect`, the client's file and what stands in it, how it is run, what it puts before a name, whether it hears, and how many
# bytes a name may have before it makes it short by itself.
CLIENTS = [
    ("codex", ".codex/config.toml", "", codex, "mcp__tidings", False, 120),
    ("opencode", ".config/opencode/opencode.jsonc", "{}\n", opencode, "tidings_", True, None),
    ("gemini", ".gemini/settings.json", '{"security": {"auth": {"selectedType": "gemini-api-key"}}}\n', gemini, "mcp_tidings_", True, None),
    ("claude-code", ".claude.json", '{"hasCompletedOnboarding": true}\n', claude, "mcp__tidings__", True, None),
]


def serve(home):
    configuration = home / "tidings.toml"
    configuration.write_text(f'[servers.many]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n')
    command = [arguments.tidings, "serve", "--listen", "127.0.0.1:0", "--config", configuration, "--data", home / "data"]
    with open(home / "tidings.log", "w") as log:
        gateway = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
    until = time.monotonic() + 60
    while not (home / "data/gateway.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return gateway


def view(home, name):
    """The tools as the gateway says that this client is shown them: the schema of each, by name."""
    environment = {**os.environ, "TIDINGS_DATA": str(home / "data")}
    command = [arguments.tidings, "tools", "--as", name, "--json"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return {tool["name"]: tool["inputSchema"] for tool in json.loads(said.stdout)["tools"]}


def standing(home):
    """How the gateway says that its clients stand to what changed."""
    environment = {**os.environ, "TIDINGS_DATA": str(home / "data")}
    said = subprocess.run([arguments.tidings, "clients", "--json"], env=environment, capture_output=True, text=True, timeout=60)
    return [one["state"] for one in json.loads(said.stdout)["clients"]]


def is_change(name):
    return name.endswith("change_lists")


def is_long(name):
    """The tool whose name has 120 bytes, however it is shown."""
    return "n" * 20 in name


# Twice more than is needed to change something and to use the long name: a client that calls on as if nothing had changed is deaf.
CALLS = [is_change, is_long, is_change, is_change]


def properties(schema):
    return sorted((schema or {}).get("properties") or {})


def client(name, file, before, prepare, prefix, hears, longest):
    home = DIRECTORY / name
    (home / "work").mkdir(parents=True)
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before)
    states = []
    gateway, model = serve(home), StandIn(CALLS, lambda: states.extend(standing(home)))
    try:
        expected = view(home, name)
        check(f"{name}: the view has every tool", len(expected) == 1500, str(len(expected)))
        run([arguments.tidings, "connect", name, "--yes"], home)
        command, more = prepare(home, model)
        code, said = run(command, home, more)
        rounds = [[tool for tool in shown if tool.startswith(prefix)] for shown in model.rounds]
        bare = [tool[len(prefix):] for tool in rounds[0]] if rounds else []
        # Some spell what they take for no name otherwise.
        plain = [re.sub(r"[^A-Za-z0-9_]", "_", tool) for tool in expected]
        if longest:
            # What it makes short by itself is compared by how it begins.
            brief = lambda tool: tool[:64] if len(prefix + tool) >= longest else tool
            plain, bare = [brief(tool) for tool in plain], [brief(tool) for tool in bare]
        missing, foreign = sorted(set(plain) - set(bare))[:5], sorted(set(bare) - set(plain))[:5]
        detail = f"exit {code}, {len(rounds)} requests, {len(bare)} tools, missing {missing}, foreign {foreign}\n{said}"
        check(f"{name}: its model is shown the view", bare and set(bare) == set(plain), detail)
        for tool in ("either", "refers"):
            shown = properties(model.rounds[0].get(prefix + tool)) if rounds else None
            # A client may add some of its own.
            known = shown is not None and set(properties(expected[tool])) <= set(shown)
            check(f"{name}: its model is shown the arguments of {tool}", known, f"{shown}, and not {properties(expected[tool])}")
        check(f"{name}: a call goes through and back", any("called change_lists" in result for result in model.results), detail)
        long = any("called " + "n" * 116 + "_end" in result for result in model.results)
        check(f"{name}: the tool with a name of 120 bytes is called by the name that its model is shown", long, detail)
        if hears:
            heard = len(rounds) > 1 and prefix + "added_later" in rounds[-1]
            check(f"{name}: a change is in the next request", heard, detail)
            check(f"{name}: the gateway does not take it for deaf", states and "deaf" not in states, f"{states}\n{detail}")
        else:
            deaf = len(rounds) > 1 and prefix + "added_later" not in rounds[-1]
            check(f"{name}: a change is in none of its requests, as is known of it", deaf, detail)
            check(f"{name}: the gateway shows it as deaf", states == ["deaf"], f"{states}\n{detail}")
    finally:
        model.close()
        gateway.terminate()
        gateway.wait(30)


def main():
    for row in CLIENTS:
        if arguments.only in (None, row[0]):
            client(*row)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())

"""What a call costs in instructions, with and without tokens and rules (identity, row 11; ADR 82): one program with different configurations
under callgrind, one worker thread, the audit log off, and the modern echo server of the benchmarks behind it.

    cargo build --release -p tidings -p tidings-bench
    python conformance/call_instructions.py --tidings target/release/tidings --bench target/release/tidings-bench --directory /tmp/counts

Needs valgrind, and for signed tokens the Python of target/peers/venv. Each configuration has 101 calls to warm up, and then five times 500 on one connection
that are counted; the least counts, because what the program does by the clock beside them only adds. Prints a line for each configuration with
how far the two least are apart, and whether the limits hold. A limit is about the check: it is held against a gateway that checks nothing and whose client sends the same header, since
reading a header is no part of it. On a machine at rest: what takes longer has more of that in it.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gateway
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

WARM, CALLS, ROUNDS = 101, 500, 5
READY_SECONDS = 180.0
TOKEN = "a-token-of-the-configuration-38-bytes!"
RULES = "".join(f'[[policy.rule]]\nwho = ["group:g{n}"]\ndeny = ["other/get_{n}*"]\n' for n in range(20))
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "counts", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Provider:
    """An issuer with one key, and tokens of it."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        owner = self

        class Documents(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                point = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(owner.key.public_key()))
                found = {"/keys": {"keys": [{**point, "kid": "1"}]}, "/.well-known/openid-configuration": {"issuer": owner.issuer, "jwks_uri": f"{owner.issuer}/keys"}}
                body = found.get(self.path)
                self.send_response(200 if body else 404)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode() if body else b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Documents)
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, audience: str) -> str:
        # About as long as those of a company.
        claims = {"iss": self.issuer, "aud": audience, "sub": "ada", "exp": int(time.time()) + 36_000, "scope": "mcp", "groups": [f"department-of-{n:02}" for n in range(24)]}
        return jwt.encode(claims, self.key, algorithm="ES256", headers={"kid": "1", "typ": "at+jwt"})


def call(connection: socket.socket, token: str | None) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}, "_meta": META}})
    head = [
        "POST /mcp HTTP/1.1",
        "host: 127.0.0.1",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: echo",
        f"content-length: {len(body)}",
        *([f"authorization: Bearer {token}"] if token else []),
    ]
    # In one piece: a request that comes in two is read once or twice, as it happens.
    connection.sendall("\r\n".join([*head, "", body]).encode())
    answer = http.client.HTTPResponse(connection, method="POST")
    answer.begin()
    said = answer.read()
    assert answer.status == 200 and b'"result"' in said, f"{answer.status}: {said[:300]!r}"


def control(*arguments: str) -> None:
    subprocess.run(["callgrind_control", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def counted(configuration: str, token, options: argparse.Namespace, own: Path) -> tuple[float, float]:
    """The instructions of one call, and how far the two least counts are apart, in percent."""
    own.mkdir(parents=True)
    (own / "tidings.toml").write_text(configuration)
    port = gateway.free_port()
    dumps = own / "callgrind"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={dumps}", str(options.tidings), "serve", "--config", str(own / "tidings.toml")]
    command += ["--data", str(own / "data"), "--listen", f"127.0.0.1:{port}"]
    environment = {**os.environ, "TOKIO_WORKER_THREADS": "1", "HOME": str(own), "XDG_CONFIG_HOME": str(own)}
    with (own / "log").open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment)
    try:
        end = time.monotonic() + READY_SECONDS
        while not ready(port):
            assert process.poll() is None and time.monotonic() < end, f"it does not start: {own / 'log'}"
            time.sleep(0.5)
        shown = token(f"http://127.0.0.1:{port}/mcp") if callable(token) else token
        connection = socket.create_connection(("127.0.0.1", port), timeout=120)
        for _ in range(WARM):
            call(connection, shown)
        for _ in range(ROUNDS):
            control("-z", str(process.pid))
            for _ in range(CALLS):
                call(connection, shown)
            control("-d", str(process.pid))
    finally:
        process.terminate()
        process.wait(60)
    least, next_least = sorted(total(own / f"callgrind.{number + 1}") for number in range(ROUNDS))[:2]
    return least / CALLS, 100 * (next_least / least - 1)


def ready(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False


def total(dump: Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", dump.read_text(errors="replace"), re.MULTILINE)
    assert found, f"{dump} holds no total"
    return int(found.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidings", required=True, type=Path, help="the program, a release build")
    parser.add_argument("--bench", required=True, type=Path, help="the benchmarks' program, for its echo server")
    parser.add_argument("--directory", required=True, type=Path, help="a folder for what is made, emptied first")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    echo_port = gateway.free_port()
    echo = subprocess.Popen([str(options.bench), "upstream", "--listen", f"127.0.0.1:{echo_port}", "--era", "modern"], stdout=subprocess.DEVNULL)
    try:
        while not gateway.accepts(echo_port):
            time.sleep(0.05)
        provider = Provider()
        plain = f'[audit]\nenabled = false\n[servers.echo]\nurl = "http://127.0.0.1:{echo_port}/mcp"\n'
        static = f'[auth]\ntokens = [{{ name = "a", sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}" }}]\n'
        signed = f'[auth]\njwt = {{ issuer = "{provider.issuer}", scopes = ["mcp"] }}\n'
        # What each has, which of them it is held against, and how much more than that it may be.
        cases = [
            ("no [auth]", plain, None, 0, None),
            ("no [auth], a client that sends a short token", plain, TOKEN, 0, None),
            ("token of the configuration", plain + static, TOKEN, 1, 0.5),
            ("the same, and 20 rules", plain + static + RULES, TOKEN, 1, 2.0),
            ("no [auth], a client that sends a signed token", plain, provider.token, 0, None),
            ("signed token", plain + signed, provider.token, 4, 2.0),
            ("the same, and 20 rules", plain + signed + RULES, provider.token, 4, 2.0),
        ]
        counts, failed = [], 0
        for number, (title, configuration, token, against, limit) in enumerate(cases):
            instructions, apart = counted(configuration, token, options, options.directory / str(number))
            counts.append(instructions)
            whole, check = (100 * (instructions / counts[other] - 1) for other in (0, against))
            holds = limit is None or check <= limit
            failed += not holds
            target = "" if limit is None else f"; the check {check:+.2f} %, at most +{limit} %: {'yes' if holds else 'no'}"
            print(f"{title}: {instructions:,.0f} instructions a call ({whole:+.2f} %{target}; two counts {apart:.2f} % apart)", flush=True)
    finally:
        echo.kill()
        echo.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

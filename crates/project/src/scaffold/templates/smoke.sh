#!/usr/bin/env bash
# A first test: the tool runs and greets. It is not listed as a tool.
set -euo pipefail
cd "$(dirname "$0")/../.."

tidings run-tool @NAME@ --project . --args '{"name": "Ada"}' | grep -q 'Hello, Ada!'
echo "@NAME@: ok"

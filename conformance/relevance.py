"""Asks the questions of crates/search/relevance/live of a running gateway, and counts how many are answered.

Usage: relevance.py LABEL URL DATA QUESTIONS SERVERS [--misses]
"""

import json
import pathlib
import sys
import time
import urllib.parse
import urllib.request

label, url, data, questions, servers = sys.argv[1:6]
base = url.rsplit("/", 1)[0] + "/api/v1/"
token = pathlib.Path(data, "admin.token").read_text().strip()


def get(path):
    request = urllib.request.Request(base + path, headers={"Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def half(text):
    """The 64-bit FNV-1a hash of the text decides; see the README beside the questions."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return "test" if value >> 32 & 1 else "tune"


deadline = time.monotonic() + 300
while (ready := get("status")["servers"]["ready"]) < int(servers):
    if time.monotonic() > deadline:
        failing = [s["name"] for s in get("servers")["servers"] if s["state"] != "ready"]
        sys.exit(f"only {ready} of {servers} servers are ready; not {', '.join(failing)}")
    time.sleep(0.5)

names = {tool["name"] for tool in get("tools")["tools"]}
# The first search makes the index; a transformer then reads the tools beside.
get("tools?limit=1&q=anything")
while (searched := get("search")).get("model") and searched["by_meaning"] < len(names):
    if time.monotonic() > deadline:
        sys.exit("the model has not read all tools in time")
    time.sleep(0.5)

asked = [json.loads(line) for line in open(questions, encoding="utf-8")]
for question in asked:
    unknown = set(question["tools"]) - names
    if unknown:
        sys.exit(f"no such tool: {unknown}")
halves = {"tune": [], "test": []}
for question in asked:
    found = [t["name"] for t in get("tools?limit=50&q=" + urllib.parse.quote(question["question"]))["tools"]]
    rank = next((at for at, name in enumerate(found) if name in question["tools"]), None)
    halves[half(question["question"])].append(rank)
    if "--misses" in sys.argv and half(question["question"]) == "tune" and (rank is None or rank >= 5):
        print(f"  {question['question']!r} wants {question['tools'][0]}, got {found[:3]}")
print(f"{label}: {len(names)} tools of {servers} servers")
for name, ranks in halves.items():
    share = lambda most: sum(rank is not None and rank < most for rank in ranks) / len(ranks)
    mrr = sum(1 / (rank + 1) for rank in ranks if rank is not None) / len(ranks)
    print(f"  {name}: {len(ranks)} questions, recall@1 {share(1):.3f}, recall@5 {share(5):.3f}, recall@10 {share(10):.3f}, MRR {mrr:.3f}")

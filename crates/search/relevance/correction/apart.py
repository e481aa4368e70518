"""Whether what is trained on stands apart from the benchmark of ../live.

Usage: apart.py TEXTS BENCHMARK-TEXTS

The texts of the questions of the benchmark are compared and never printed, so that its test half stays unread.
"""

import collections
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
# Two questions are near one another if they share this much of their words.
NEAR = 0.6
# A server with so many names of tools in common with one of the benchmark is taken for another edition of it.
SAME_NAMES = 3


def lines(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def words(question):
    return frozenset(re.findall(r"\w+", question.lower().replace("'", "")))


def is_of_test_half(question):
    """The 64-bit FNV-1a hash of the text decides; see ../live/README.md."""
    value = 0xCBF29CE484222325
    for byte in question.encode():
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return value >> 32 & 1 == 1


LIVE = [words(line["question"]) for line in lines(HERE.parent / "live/questions.jsonl")]


def is_near(question):
    """Whether a question of the benchmark, of either half, is the same or near."""
    ours = words(question)
    return any(2 * len(ours & theirs) >= NEAR * (len(ours) + len(theirs)) for theirs in LIVE)


def names(tools):
    """Of each server the names of its tools, each as it is and without what stands before most names of that server."""
    by_server = collections.defaultdict(set)
    for tool in tools:
        name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", tool["name"])
        by_server[tool["server"]].add(re.sub(r"[-.]", "_", name).lower())
    forms = {}
    for server, own in by_server.items():
        first = collections.Counter(name.split("_")[0] for name in own if "_" in name)
        before = {word for word, count in first.items() if 1 < count and len(own) < 2 * count} | {re.split("[-_.]", server)[0]}
        forms[server] = [{name} | ({name.split("_", 1)[1]} if "_" in name and name.split("_")[0] in before else set()) for name in own]
    return forms


def too_like(tools, benchmark):
    """Pairs of a server that is trained on and one of the benchmark that have too many names in common."""
    pairs, ours, theirs = [], names(tools), names(benchmark)
    for other, others in theirs.items():
        known = set().union(*others)
        pairs += [(own, other) for own, forms in ours.items() if sum(not known.isdisjoint(form) for form in forms) >= SAME_NAMES]
    return pairs


def check(tools, benchmark, questions):
    assert not (pairs := too_like(tools, benchmark)), f"tools of the same names: {pairs}"
    assert not (near := [question for question in questions if is_near(question)]), f"near a question of the benchmark: {near}"


if __name__ == "__main__":
    check(lines(sys.argv[1]), lines(sys.argv[2]), [line["question"] for line in lines(HERE / "questions.jsonl")])
    print("nothing of the benchmark is trained on")

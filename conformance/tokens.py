"""Compares the tokens that our reader of tokenizer files gives with those of the PyPI package `tokenizers`.

Usage: tokens.py EXAMPLE MODEL RELEVANCE
"""

import json
import pathlib
import subprocess
import sys

from tokenizers import Tokenizer

example, model, relevance = sys.argv[1:]
texts = [json.loads(line)["question"] for line in open(pathlib.Path(relevance, "live/questions.jsonl"), encoding="utf-8")]
texts += [json.loads(line)["query"] for line in open(pathlib.Path(relevance, "queries.jsonl"), encoding="utf-8")]
texts += [json.loads(line)["tool"].get("description", "") for line in open(pathlib.Path(relevance, "tools.jsonl"), encoding="utf-8")]
texts += ["検索する", "naïve Übung\tmit\nTab", "a  b   c", "emoji 🦀 and \u200b zero", "", " ", "ça va? — oui…", "Привет, мир", "x" * 300]
tokenizer = Tokenizer.from_file(str(next(pathlib.Path(model).glob("*tokenizer*.json"))))
lines = "".join(json.dumps(text) + "\n" for text in texts)
ours = subprocess.run([example, model], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
assert len(ours) == len(texts)
for text, line in zip(texts, ours):
    theirs = tokenizer.encode(text, add_special_tokens=False).ids
    if json.loads(line) != theirs:
        sys.exit(f"{text!r}: {line} is not {theirs}")
print(f"tokens: {len(texts)} texts are cut as the package `tokenizers` cuts them")

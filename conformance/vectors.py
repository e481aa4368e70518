"""Compares the vectors of the corrected transformer with those that its training script gives in 32-bit numbers.

Usage: vectors.py EXAMPLE MODEL REFERENCE
"""

import json
import subprocess
import sys

example, model, reference = sys.argv[1:]
expected = [json.loads(line) for line in open(reference, encoding="utf-8")]
lines = "".join(json.dumps(one["text"]) + "\n" for one in expected)
ours = subprocess.run([example, model], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
assert len(ours) == len(expected)
for one, line in zip(expected, ours):
    near = sum(a * b for a, b in zip(json.loads(line), one["vector"]))
    # 8-bit integers give 0.99 and more; without the correction it is below 0.9.
    if near < 0.98:
        sys.exit(f"{one['text']!r}: the vector is {near:.3f} near the one that was trained")
print(f"vectors: {len(expected)} texts have those of the training")

"""Trains the correction of all-MiniLM-L6-v2 that `crates/search/data` holds.

Usage: train.py MODEL TEXTS BENCHMARK-TEXTS [--hold-out] [--rate 0.0015] [--epochs 3] [--out minilm-correction.safetensors] [--reference FILE]

MODEL is the directory of the model, TEXTS and BENCHMARK-TEXTS what `cargo run -p tidings-search --example texts` makes of the listed
tools. After each epoch the tune half of the benchmark is asked, by meaning alone, and the state that answers most is kept. With
`--hold-out` a sixth of the servers is not trained on, and the share of their questions is printed that is answered.
"""

import argparse
import json
import pathlib
import random
import struct

import blake3
import jax
import jax.numpy as jnp
import numpy as np
import optax

import apart
from encoder import LAYERS, MATRICES, Encoder, read_safetensors

HERE = pathlib.Path(__file__).parent
# The first layers read words; what they mean together comes after, and half the time is saved.
FIRST_LAYER = 2
RANK = 8
BATCH = 64
# Questions of one server stay together, because its other tools are the wrong answers that are hardest to tell from the right one.
TOGETHER = 8
TEMPERATURE = 0.05
# The share of what a tool must tell of its question, beside what a question must tell of its tool.
BACK = 0.3
QUESTION_TOKENS, TEXT_TOKENS = 16, 28
# Products of one kind: what one of them answers, another may answer as well, so that it is no wrong answer.
KINDS = [
    "asana shortcut taskmanager todoist trello",
    "awslabs.dynamodb mssql mysql pinecone-database",
    "bitbucket circleci gitea",
    "browserbase hyperbrowser",
    "adb ios-simulator mobile",
    "gmail own-gmail resend",
    "amap-maps mapbox",
    "datadog datadog2 grafana own-grafana rollbar sonarqube",
    "own-time time time2",
    "obsidian zotero",
    "google-drive own-gdrive",
    "cloudflare digitalocean terraform webflow",
    "brightdata duckduckgo linkup searxng",
]
KIND = {server: at for at, kind in enumerate(KINDS) for server in kind.split()}
# Texts whose vectors are written beside, so that those of the gateway can be compared.
REFERENCE = ["how late is it", "strike out lines 5 to 8", "sheets delete rows: Takes whole rows out of a sheet."]

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("texts")
parser.add_argument("benchmark")
parser.add_argument("--hold-out", action="store_true")
parser.add_argument("--rate", type=float, default=1.5e-3)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--out", default="minilm-correction.safetensors")
parser.add_argument("--reference", default="reference.jsonl")
given = parser.parse_args()
random.seed(0)
chance = np.random.default_rng(0)

encoder = Encoder(given.model)
tools, benchmark = apart.lines(given.texts), apart.lines(given.benchmark)
place = {(tool["server"], tool["name"]): at for at, tool in enumerate(tools)}
questions = apart.lines(HERE / "questions.jsonl")
# Of our own tools and queries beside this directory, those of servers that the benchmark does not have.
own = {tool["server"] for tool in tools if tool["server"].startswith("own-")}
unknown = set(KIND) - own - {server["name"] for server in json.loads((HERE / "servers.json").read_text())}
assert not unknown, f"no such servers: {unknown}"
for query in apart.lines(HERE.parent / "queries.jsonl"):
    server, name = query["relevant"][0].split("__", 1)
    if f"own-{server}" in own and not apart.is_near(query["query"]):
        questions.append({"question": query["query"], "server": f"own-{server}", "tool": name})
questions = [question for question in questions if (question["server"], question["tool"]) in place]
apart.check(tools, benchmark, [question["question"] for question in questions])
answers = [place[question["server"], question["tool"]] for question in questions]
of_server = {}
for at, tool in enumerate(tools):
    of_server.setdefault(tool["server"], []).append(at)
servers = sorted({question["server"] for question in questions})
held = set(random.Random(7).sample(servers, len(servers) // 6)) if given.hold_out else set()
trained = [at for at, question in enumerate(questions) if question["server"] not in held]
kept = [at for at, question in enumerate(questions) if question["server"] in held]
print(f"{len(tools)} tools, {len(trained)} questions to train on, {len(kept)} of {len(held)} servers held out")


def is_rival(question, tool):
    """Whether another product of the same kind has the tool."""
    asked, other = questions[question]["server"], tools[tool]["server"]
    return asked != other and KIND.get(asked) is not None and KIND.get(asked) == KIND.get(other)


begin = jax.jit(lambda tokens, mask: encoder.begin(tokens, mask, FIRST_LAYER))


def begun(texts, most):
    tokens, mask = encoder.tokens(texts, most)
    states = [np.asarray(begin(tokens[at : at + 64], mask[at : at + 64]), np.float16) for at in range(0, len(tokens), 64)]
    return np.concatenate(states), mask


asked, asked_mask = begun([question["question"] for question in questions], QUESTION_TOKENS)
told, told_mask = begun([tool["text"] for tool in tools], TEXT_TOKENS)

factors = {}
for layer in range(FIRST_LAYER, LAYERS):
    for matrix in MATRICES:
        name = f"encoder.layer.{layer}.{matrix}"
        outputs, inputs = encoder.weights[name + ".weight"].shape
        inward = chance.normal(0, 1 / np.sqrt(inputs), (RANK, inputs)).astype(np.float32)
        factors[name] = (jnp.asarray(inward), jnp.zeros((outputs, RANK), jnp.float32))


def loss(factors, asked, asked_mask, told, told_mask, left_out):
    question = encoder.finish(asked.astype(jnp.float32), asked_mask, factors, FIRST_LAYER)
    tool = encoder.finish(told.astype(jnp.float32), told_mask, factors, FIRST_LAYER)
    near = jnp.where(left_out, -1e9, question @ tool.T / TEMPERATURE)
    count = near.shape[0]
    right = jnp.arange(count)
    forth = -jax.nn.log_softmax(near, 1)[right, right].mean()
    return forth + BACK * -jax.nn.log_softmax(near[:, :count].T, 1)[right, right].mean()


steps = len(trained) // BATCH
rate = optax.warmup_cosine_decay_schedule(0, given.rate, max(3, steps // 2), steps * given.epochs + 1, given.rate * 0.05)
optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01))
state = optimiser.init(factors)


@jax.jit
def step(factors, state, *batch):
    lost, slope = jax.value_and_grad(loss)(factors, *batch)
    update, state = optimiser.update(slope, state, factors)
    return optax.apply_updates(factors, update), state, lost


def batches():
    by_server = {}
    for at in trained:
        by_server.setdefault(questions[at]["server"], []).append(at)
    chunks = []
    for own in by_server.values():
        random.shuffle(own)
        chunks += [own[at : at + TOGETHER] for at in range(0, len(own), TOGETHER)]
    random.shuffle(chunks)
    order = sum(chunks, [])
    for start in range(0, len(order) - BATCH + 1, BATCH):
        yield order[start : start + BATCH]


def batch(chosen):
    """The right tool of each question, and a few more tools of the same servers."""
    right = [answers[at] for at in chosen]
    columns, more = list(right), [at for question in chosen for at in of_server[questions[question]["server"]]]
    random.shuffle(more)
    more += random.sample(range(len(tools)), BATCH)
    for tool in more:
        if len(columns) == BATCH + BATCH // 4:
            break
        if tool not in columns:
            columns.append(tool)
    left_out = np.zeros((BATCH, len(columns)), bool)
    for row, question in enumerate(chosen):
        for column, tool in enumerate(columns):
            same = tools[tool]["text"] == tools[right[row]]["text"]
            left_out[row, column] = column != row and (same or is_rival(question, tool))
    return asked[chosen], asked_mask[chosen], told[columns], told_mask[columns], left_out


tune = [line for line in apart.lines(HERE.parent / "live/questions.jsonl") if not apart.is_of_test_half(line["question"])]
benchmark_place = {f"{tool['server']}__{tool['name']}": at for at, tool in enumerate(benchmark)}


def ask_tune_half():
    """How many questions of the tune half have a right tool among the first five, and as the first."""
    vectors = encoder.embed([line["question"] for line in tune] + [tool["text"] for tool in benchmark], factors, 32)
    near = vectors[: len(tune)] @ vectors[len(tune) :].T
    ranks = [(row > max(row[benchmark_place[name]] for name in line["tools"])).sum() for row, line in zip(near, tune)]
    five, first = (sum(rank < most for rank in ranks) for most in (5, 1))
    print(f"  tune half, by meaning alone: recall@1 {first / len(tune):.3f}, recall@5 {five / len(tune):.3f}", flush=True)
    return five, first


def ask_held_out():
    if not kept:
        return
    vectors = encoder.embed([tool["text"] for tool in tools], factors)
    near = encoder.embed([questions[at]["question"] for at in kept], factors) @ vectors.T
    answered = 0
    for row, question in enumerate(kept):
        rank = sum(near[row, tool] > near[row, answers[question]] and not is_rival(question, tool) for tool in range(len(tools)))
        answered += rank < 5
    print(f"  held out: {answered / len(kept):.3f} answered among the first five, by meaning alone")


def write(path):
    data, digest, fits, header = b"", blake3.blake3(), blake3.blake3(), {}
    for name in sorted(factors):
        inward, outward = (np.asarray(factor, np.float32) for factor in factors[name])
        # Both of like size, so that 16 bits lose little.
        turn = np.sqrt(max(np.abs(outward).max(), 1e-9) / np.abs(inward).max())
        parts = {".outward": (outward / turn).astype("<f2"), ".inward": (inward * turn).astype("<f2")}
        digest.update(name.encode())
        for end, part in parts.items():
            digest.update(part.astype("<f4").tobytes())
            header[name + end] = {"dtype": "F16", "shape": list(part.shape), "data_offsets": [len(data), len(data) + part.nbytes]}
            data += part.tobytes()
        fits.update(name.encode())
        fits.update(np.asarray(encoder.weights[name + ".weight"], "<f4").tobytes())
    header["__metadata__"] = {"for": "all-MiniLM-L6-v2", "fits": fits.hexdigest(), "digest": digest.hexdigest()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_reference(path):
    """What the file gives, with its 16-bit numbers."""
    written = read_safetensors(given.out)
    added = {name: tuple(jnp.asarray(written[name + end], jnp.float32) for end in (".inward", ".outward")) for name in factors}
    with open(path, "w", encoding="utf-8") as file:
        for text, vector in zip(REFERENCE, encoder.embed(REFERENCE, added)):
            file.write(json.dumps({"text": text, "vector": [round(float(number), 4) for number in vector]}) + "\n")


best = (0, 0)
ask_held_out()
for epoch in range(given.epochs):
    lost = []
    for chosen in batches():
        factors, state, value = step(factors, state, *batch(chosen))
        lost.append(float(value))
    print(f"epoch {epoch + 1}: loss {np.mean(lost):.3f}", flush=True)
    # Of two states that are as good, the one that learned longer.
    if (answered := ask_tune_half()) >= best:
        best = answered
        write(given.out)
        write_reference(given.reference)
        print("  kept", flush=True)
ask_held_out()

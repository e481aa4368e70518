"""all-MiniLM-L6-v2 in JAX, with what is trained added to its matrices."""

import json
import pathlib
import struct

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

LAYERS, WIDTH, HEADS = 6, 384, 12
MATRICES = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense"]
# The mark at the end of a text.
SEPARATOR = 102


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    kinds = {"F16": np.float16, "F32": np.float32, "I64": np.int64}
    tensors = {}
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = tensor["data_offsets"]
            tensors[name] = np.frombuffer(data[8 + length + start : 8 + length + end], kinds[tensor["dtype"]]).reshape(tensor["shape"])
    return tensors


class Encoder:
    def __init__(self, directory):
        self.tokenizer = Tokenizer.from_file(str(pathlib.Path(directory, "tokenizer.json")))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.weights = {name: jnp.asarray(value) for name, value in read_safetensors(pathlib.Path(directory, "model.safetensors")).items()}
        self._embed = jax.jit(lambda tokens, mask, added: self.finish(self.begin(tokens, mask, 0), mask, added, 0))

    def tokens(self, texts, most):
        """Tokens and which of them are there, each row `most` wide."""
        tokens, mask = np.zeros((len(texts), most), np.int32), np.zeros((len(texts), most), np.float32)
        for row, encoded in enumerate(self.tokenizer.encode_batch(list(texts))):
            ids = encoded.ids if len(encoded.ids) <= most else encoded.ids[: most - 1] + [SEPARATOR]
            tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
        return tokens, mask

    def norm(self, state, name):
        mean = state.mean(-1, keepdims=True)
        variance = ((state - mean) ** 2).mean(-1, keepdims=True)
        return (state - mean) / jnp.sqrt(variance + 1e-12) * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def layer(self, at, state, mask, added):
        name = f"encoder.layer.{at}."

        def step(state, part):
            out = state @ self.weights[name + part + ".weight"].T + self.weights[name + part + ".bias"]
            if name + part in added:
                inward, outward = added[name + part]
                out = out + (state @ inward.T) @ outward.T
            return out

        count, length, _ = state.shape
        heads = lambda numbers: numbers.reshape(count, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
        query, key, value = (heads(step(state, part)) for part in MATRICES[:3])
        fits = query @ key.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS) + (1 - mask)[:, None, None, :] * -1e9
        taken = (jax.nn.softmax(fits, -1) @ value).transpose(0, 2, 1, 3).reshape(count, length, WIDTH)
        state = self.norm(state + step(taken, MATRICES[3]), name + "attention.output.LayerNorm")
        wide = jax.nn.gelu(step(state, MATRICES[4]), approximate=False)
        return self.norm(state + step(wide, MATRICES[5]), name + "output.LayerNorm")

    def begin(self, tokens, mask, layers):
        """The state after the first layers, which are not trained."""
        name = "embeddings."
        state = self.weights[name + "word_embeddings.weight"][tokens]
        state += self.weights[name + "position_embeddings.weight"][: tokens.shape[1]] + self.weights[name + "token_type_embeddings.weight"][0]
        state = self.norm(state, name + "LayerNorm")
        for at in range(layers):
            state = self.layer(at, state, mask, {})
        return state

    def finish(self, state, mask, added, first):
        """Vectors of length one, from the state before layer `first`."""
        for at in range(first, LAYERS):
            state = self.layer(at, state, mask, added)
        vectors = (state * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)

    def embed(self, texts, added, most=64, batch=64):
        vectors = []
        for start in range(0, len(texts), batch):
            part = list(texts[start : start + batch])
            tokens, mask = self.tokens(part + [""] * (batch - len(part)), most)
            vectors.append(np.asarray(self._embed(tokens, mask, added))[: len(part)])
        return np.concatenate(vectors)

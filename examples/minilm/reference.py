#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MiniLM sentence embeddings in NumPy: the second opinion that examples/minilm is tested against.

Own safetensors reader, own tokenizer (Python's unicodedata where the C++ side uses utf8proc), own
encoder in float64, one sentence at a time, so that nothing about packing can be shared with what it
checks. Nothing here is fast: erf is called once an element.
"""

import argparse
import json
import math
import pathlib
import struct
import unicodedata

import numpy as np

DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}

# What BERT's training data treated as one word a character.
IDEOGRAPHS = [
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
]


def read_safetensors(path):
    """Every tensor of the file as a NumPy array by name."""
    data = pathlib.Path(path).read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = (8 + header_bytes + offset for offset in entry["data_offsets"])
        flat = np.frombuffer(data[first:last], dtype=DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def is_ideograph(char):
    return any(first <= ord(char) <= last for first, last in IDEOGRAPHS)


def is_punctuation(char):
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


def split_words(text):
    kept = []
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            kept.append(" ")
        elif char != "\ufffd" and category not in ("Cc", "Cf", "Cs", "Co"):
            kept.append(f" {char} " if is_ideograph(char) else char)
    decomposed = unicodedata.normalize("NFD", "".join(kept))
    bare = [char for char in decomposed if unicodedata.category(char) != "Mn"]
    lowered = "".join(char.lower() for char in bare)
    spaced = "".join(f" {char} " if is_punctuation(char) else char for char in lowered)
    return spaced.split()


class Tokenizer:
    def __init__(self, model_dir):
        lines = (model_dir / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self.ids = {piece: index for index, piece in enumerate(lines)}
        bert = json.loads((model_dir / "sentence_bert_config.json").read_text())
        self.max_tokens = bert["max_seq_length"]

    def pieces(self, word):
        if len(word) > 100:
            return ["[UNK]"]
        found, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            candidates = (prefix + word[start:end] for end in range(len(word), start, -1))
            piece = next((p for p in candidates if p in self.ids), None)
            if piece is None:
                return ["[UNK]"]
            found.append(piece)
            start += len(piece) - len(prefix)
        return found

    def encode(self, sentence):
        pieces = [piece for word in split_words(sentence) for piece in self.pieces(word)]
        pieces = ["[CLS]", *pieces[: self.max_tokens - 2], "[SEP]"]
        return [self.ids[piece] for piece in pieces]


class Encoder:
    def __init__(self, model_dir):
        self.config = json.loads((model_dir / "config.json").read_text())
        tensors = read_safetensors(model_dir / "model.safetensors")
        self.tensors = {
            name: value.astype(np.float64)
            for name, value in tensors.items()
            if value.dtype == "<f4"
        }

    def dense(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def layer_norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.config["layer_norm_eps"])
        return scaled * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def attention(self, name, x):
        heads = self.config["num_attention_heads"]
        tokens, hidden = x.shape

        def by_head(part):
            rows = self.dense(f"{name}.self.{part}", x)
            return rows.reshape(tokens, heads, hidden // heads).transpose(1, 0, 2)

        scores = by_head("query") @ by_head("key").transpose(0, 2, 1)
        scores /= math.sqrt(hidden // heads)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ by_head("value")).transpose(1, 0, 2).reshape(tokens, hidden)

    def encode(self, ids):
        embeddings = "embeddings"
        x = self.tensors[f"{embeddings}.word_embeddings.weight"][ids]
        x = x + self.tensors[f"{embeddings}.position_embeddings.weight"][: len(ids)]
        x = x + self.tensors[f"{embeddings}.token_type_embeddings.weight"][0]
        x = self.layer_norm(f"{embeddings}.LayerNorm", x)
        erf = np.vectorize(math.erf)
        for index in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{index}"
            mixed = self.attention(f"{layer}.attention", x)
            mixed = self.dense(f"{layer}.attention.output.dense", mixed)
            x = self.layer_norm(f"{layer}.attention.output.LayerNorm", x + mixed)
            wide = self.dense(f"{layer}.intermediate.dense", x)
            wide = 0.5 * wide * (1.0 + erf(wide / math.sqrt(2.0)))
            x = self.layer_norm(
                f"{layer}.output.LayerNorm", x + self.dense(f"{layer}.output.dense", wide)
            )
        pooled = x.mean(axis=0)
        return pooled / np.linalg.norm(pooled)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder of the model")
    parser.add_argument("sentence", nargs="+")
    arguments = parser.parse_args()
    tokenizer, encoder = Tokenizer(arguments.model), Encoder(arguments.model)
    embeddings = np.stack([encoder.encode(tokenizer.encode(s)) for s in arguments.sentence])
    for row in embeddings @ embeddings.T:
        print(" ".join(f"{value:7.4f}" for value in row))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the minilm program computes with examples/minilm/reference.py.

Token ids must be equal and each sentence's embedding must point the same way: cosine >= 0.9999 to
NumPy's, on every backend, packed together and one by one; and >= 0.99999 between those two. Exits
1 on a miss and 77 (skipped) without the model or NumPy.
"""

import argparse
import itertools
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
MIN_COSINE_TO_NUMPY = 0.9999
MIN_COSINE_OF_BATCHINGS = 0.99999

SENTENCES = [
    "",
    "hello",
    "A man is eating a piece of bread.",
    "Caf\u00e9 D\u00c9J\u00c0 vu: na\u00efve \u00c5ngstr\u00f6m, e\u0301tude, \u0130stanbul, Stra\u00dfe.",
    "\u5317\u4eac\u5927\u5b66\u306f\u6771\u4eac\u306e\u96a3\u3002",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
    "party \U0001f973\U0001f984 time \U0001f937\u200d\u2640\ufe0f",
    "$5.00 + 3% = \u00a39? (don't) [CLS] \u00abquoted\u00bb \u2014 dash\u2026",
    "tab\tline\u2028no\u00a0break zero\u200bwidth soft\u00adhyphen",
    "a" * 100 + " " + "b" * 101,
    "the quick brown fox jumps over the lazy dog " * 16,  # more than 128 tokens
    "unbelievably long-winded sentences overflow " * 60,  # cut at 256 tokens
]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run(arguments, options):
    """The program's dump, as arrays by name."""
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "dump.safetensors"
        command = [arguments.binary, "--model", arguments.model, *options, "--dump", dump]
        subprocess.run([*command, "--", *SENTENCES], check=True, stdout=subprocess.DEVNULL)
        return reference.read_safetensors(dump)


def compare(arguments):
    """One line a miss."""
    tokenizer = reference.Tokenizer(arguments.model)
    encoder = reference.Encoder(arguments.model)
    ids = [tokenizer.encode(sentence) for sentence in SENTENCES]
    wanted = np.stack([encoder.encode(sentence) for sentence in ids])
    for backend in ("reference", "cpu"):
        found = {}
        for batching, flags in (("packed", []), ("one-by-one", ["--one-by-one"])):
            dump = run(arguments, ["--backend", backend, *flags])
            bounds = dump["indptr"]
            got_ids = [list(dump["ids"][a:b]) for a, b in itertools.pairwise(bounds)]
            for index, (got, want) in enumerate(zip(got_ids, ids, strict=True)):
                if got != want:
                    yield f"sentence {index}: ids must be {want}, got {got}"
            found[batching] = dump["embeddings"].astype(np.float64)
            yield from misses(f"{backend} {batching}", found[batching], wanted, MIN_COSINE_TO_NUMPY)
        both = found["packed"], found["one-by-one"]
        yield from misses(f"{backend} both batchings", *both, MIN_COSINE_OF_BATCHINGS)


def misses(what, a, b, minimum):
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.sum(a * b, axis=1) / norms
    print(f"{what}: lowest cosine {cosines.min():.9f} over {len(cosines)} sentences")
    for index, cosine in enumerate(cosines):
        if not cosine >= minimum:  # NaN misses too
            yield f"{what}, sentence {index}: cosine must be >= {minimum}, got {cosine}"


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--binary", type=pathlib.Path, required=True, help="the minilm program")
parser.add_argument("--model", type=pathlib.Path, required=True, help="folder of the model")
options = parser.parse_args()
if not (options.model / "model.safetensors").exists():
    skip(f"no model.safetensors in {options.model}")
try:
    import numpy as np
except ImportError:
    skip("NumPy is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "minilm"))
import reference

failures = list(compare(options))
print("\n".join(failures))
sys.exit(1 if failures else 0)

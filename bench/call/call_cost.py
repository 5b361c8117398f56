# SPDX-License-Identifier: Apache-2.0
"""What Python adds to a call: the calls of call_cost.cpp through the package, beside that program.

    python bench/call/call_cost.py PROGRAM [cpu|cuda] [numpy|torch]

PROGRAM is the built call_cost. Arrays are numpy's on the CPU and torch's on a GPU by default;
outputs are given, except where the call is named "new outputs": that is against the C++ call with
given ones. Prints microseconds of a call on the host, the median of several rounds: C++, Python,
the difference, and the difference over the number of arrays.
"""

import statistics
import subprocess
import sys
import time

import tilegate

_ROUNDS = 5
_BATCHES = 60
_CALLS_PER_BATCH = 50


class _Numpy:
    def __init__(self):
        import numpy

        self.zeros = lambda shape, dtype: numpy.zeros(shape, getattr(numpy, dtype))
        self.index = lambda value: numpy.array([value], numpy.int32)
        self.wait = lambda: None


class _Torch:
    def __init__(self, device):
        import torch

        self.zeros = lambda shape, dtype: torch.zeros(
            shape, dtype=getattr(torch, dtype), device=device)
        self.index = lambda value: torch.tensor([value], dtype=torch.int32, device=device)
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None


def _calls(arrays):
    """Name -> (function, positional arrays, arrays by name): what call_cost.cpp calls."""
    def half(*shape):
        return arrays.zeros(shape, "float16")

    def single(*shape):
        return arrays.zeros(shape, "float32")

    cache, dense = (1, 16, 2, 64), (1, 16, 4, 64)
    head, token = (2,), (1, 1, 2, 64)
    parts = (half(1, 2, 4, 64), single(1, 2, 4))
    return {
        "decode": (
            tilegate.batch_decode_paged, (half(1, 4, 64), half(*cache), half(*cache)),
            dict(block_tables=arrays.zeros((1, 1), "int32"), kv_lens=arrays.index(16),
                 out=half(1, 4, 64))),
        "dense": (
            tilegate.batch_prefill_ragged, (half(*dense), half(*dense), half(*dense)),
            dict(out=half(*dense))),
        "merge": (tilegate.merge_states, parts, dict(out=half(1, 4, 64), lse=single(1, 4))),
        "merge, new outputs": (tilegate.merge_states, parts, {}),
        "delta-decode": (
            tilegate.gated_delta_rule_decode_pretranspose,
            (half(*token), half(*token), half(*token), single(1, 2, 64, 64), arrays.index(0),
             single(*head), half(1, 1, 2), single(*head), half(1, 1, 2)),
            dict(out=half(*token))),
    }


def _least_us(function, wait):
    least = float("inf")
    for _ in range(_BATCHES):
        start = time.perf_counter()
        for _ in range(_CALLS_PER_BATCH):
            function()
        least = min(least, (time.perf_counter() - start) / _CALLS_PER_BATCH)
        wait()
    return least * 1e6


def _measure(arrays):
    """(call, form) -> microseconds, arrays."""
    tilegate.set_num_threads(1)
    found = {}
    for name, (function, positional, named) in _calls(arrays).items():
        count = len(positional) + len(named)
        plan = tilegate.plan(function, *positional, **named)
        scratch = arrays.zeros((plan.workspace_bytes + 256,), "uint8")
        address = scratch.ctypes.data if hasattr(scratch, "ctypes") else scratch.data_ptr()
        scratch = scratch[-address % 256:]

        def one_shot(function=function, positional=positional, named=named):
            function(*positional, **named)

        def planned(plan=plan, positional=positional, named=named, scratch=scratch):
            plan.run(*positional, workspace=scratch, **named)

        found[name, "one-shot"] = _least_us(one_shot, arrays.wait), count
        found[name, "plan"] = _least_us(planned, arrays.wait), count
    return found


def _measure_native(program, device):
    """(call, form) -> microseconds of the C++ program."""
    answer = subprocess.run([program, device], check=True, capture_output=True, text=True)
    rows = map(str.split, answer.stdout.splitlines())
    return {(name, form): float(us) for name, form, us in rows}


def main(argv):
    """Prints the table; returns the exit status."""
    device = argv[1] if len(argv) > 1 else "cpu"
    framework = argv[2] if len(argv) > 2 else {"cpu": "numpy", "cuda": "torch"}.get(device)
    known = (device, framework) in (("cpu", "numpy"), ("cpu", "torch"), ("cuda", "torch"))
    if not 1 <= len(argv) <= 3 or not known:
        print(__doc__, file=sys.stderr)
        return 2
    arrays = _Numpy() if framework == "numpy" else _Torch(device)
    rounds = [(_measure_native(argv[0], device), _measure(arrays)) for _ in range(_ROUNDS)]
    print(f"{'call':20}{'form':10}{'C++ us':>9}{'Python us':>11}{'adds us':>9}{'an array':>10}")
    for (name, form), (_, count) in rounds[0][1].items():
        native = [cpp[name.partition(",")[0], form] for cpp, _ in rounds]
        python = [own[name, form][0] for _, own in rounds]
        adds = statistics.median(x - y for x, y in zip(python, native, strict=True))
        print(f"{name:20}{form:10}{statistics.median(native):9.2f}"
              f"{statistics.median(python):11.2f}{adds:9.2f}{adds / count:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

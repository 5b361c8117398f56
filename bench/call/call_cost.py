# SPDX-License-Identifier: Apache-2.0
"""What Python adds to a call: the calls of call_cost.cpp through the package, beside that program.

    python bench/call/call_cost.py PROGRAM [cpu|cuda]

PROGRAM is the built call_cost. Arrays are numpy's on the CPU and torch's on a GPU, outputs are
given. Prints microseconds of a call on the host: C++, Python, and the difference.
"""

import subprocess
import sys
import time

import tilegate

_BATCHES = 300
_CALLS_PER_BATCH = 50


class _Numpy:
    def __init__(self):
        import numpy

        self.zeros = lambda shape, dtype: numpy.zeros(shape, getattr(numpy, dtype))
        self.index = lambda value: numpy.array([value], numpy.int32)
        self.wait = lambda: None


class _Torch:
    def __init__(self):
        import torch

        self.zeros = lambda shape, dtype: torch.zeros(
            shape, dtype=getattr(torch, dtype), device="cuda")
        self.index = lambda value: torch.tensor([value], dtype=torch.int32, device="cuda")
        self.wait = torch.cuda.synchronize


def _calls(arrays):
    """Name -> (function, positional arrays, arrays by name): what call_cost.cpp calls."""
    def half(*shape):
        return arrays.zeros(shape, "float16")

    def single(*shape):
        return arrays.zeros(shape, "float32")

    cache, dense = (1, 16, 2, 64), (1, 16, 4, 64)
    head, token = (2,), (1, 1, 2, 64)
    return {
        "decode": (
            tilegate.batch_decode_paged, (half(1, 4, 64), half(*cache), half(*cache)),
            dict(block_tables=arrays.zeros((1, 1), "int32"), kv_lens=arrays.index(16),
                 out=half(1, 4, 64))),
        "dense": (
            tilegate.batch_prefill_ragged, (half(*dense), half(*dense), half(*dense)),
            dict(out=half(*dense))),
        "merge": (tilegate.merge_states, (half(1, 2, 4, 64), single(1, 2, 4)), {}),
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
    """(call, form) -> microseconds."""
    tilegate.set_num_threads(1)
    found = {}
    for name, (function, positional, named) in _calls(arrays).items():
        plan = tilegate.plan(function, *positional, **named)
        scratch = arrays.zeros((plan.workspace_bytes + 256,), "uint8")
        address = scratch.ctypes.data if hasattr(scratch, "ctypes") else scratch.data_ptr()
        scratch = scratch[-address % 256:]

        def one_shot(function=function, positional=positional, named=named):
            function(*positional, **named)

        def planned(plan=plan, positional=positional, named=named, scratch=scratch):
            plan.run(*positional, workspace=scratch, **named)

        found[name, "one-shot"] = _least_us(one_shot, arrays.wait)
        found[name, "plan"] = _least_us(planned, arrays.wait)
    return found


def main(argv):
    """Prints the table; returns the exit status."""
    if len(argv) not in (1, 2) or (len(argv) == 2 and argv[1] not in ("cpu", "cuda")):
        print(__doc__, file=sys.stderr)
        return 2
    device = argv[1] if len(argv) == 2 else "cpu"
    arrays = _Torch() if device == "cuda" else _Numpy()
    answer = subprocess.run([argv[0], device], check=True, capture_output=True, text=True)
    native = {(name, form): float(us)
              for name, form, us in map(str.split, answer.stdout.splitlines())}
    print(f"{'call':14}{'form':10}{'C++ us':>9}{'Python us':>11}{'adds us':>9}")
    for (name, form), us in _measure(arrays).items():
        base = native[name, form]
        print(f"{name:14}{form:10}{base:9.2f}{us:11.2f}{us - base:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

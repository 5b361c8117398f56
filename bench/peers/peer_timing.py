# SPDX-License-Identifier: Apache-2.0
"""Times a function in the scopes of bench/measure/timing.h, with PyTorch's events and graphs."""

import time

import torch

CALLS_PER_GRAPH = 10
FLUSH_BYTES = 256 << 20


def sample_scopes(call, request):
    """One entry a scope: its timing, its l2 and milliseconds a call for every repeat."""
    counts = request["warmups"], request["repeats"]
    on_gpu = request["device"] == "cuda"
    flush = None
    for scope in request["scopes"]:
        if scope["l2"] == "cold" and flush is None:
            flush = torch.ones(FLUSH_BYTES // 4, dtype=torch.int32, device=request["device"])
        sample = _sample_gpu if on_gpu else _sample_cpu
        yield {**scope, "samples_ms": sample(call, scope, counts, flush)}


def _sample_gpu(call, scope, counts, flush):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):  # libraries compile and load kernels here
            call()
        torch.cuda.synchronize()
        cold = scope["l2"] == "cold"
        if scope["timing"] != "graph":
            return _events(call, counts, flush if cold else None)
        calls = 1 if cold else CALLS_PER_GRAPH
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
        samples = _events(graph.replay, counts, flush if cold else None)
        return [sample / calls for sample in samples]


def _events(call, counts, flush):
    warmups, repeats = counts
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    samples = []
    for i in range(warmups + repeats):
        if flush is not None:
            flush.max()  # reads it all
        start.record()
        call()
        end.record()
        end.synchronize()
        if i >= warmups:
            samples.append(start.elapsed_time(end))
    return samples


def _sample_cpu(call, scope, counts, flush):
    warmups, repeats = counts
    samples = []
    for i in range(warmups + repeats):
        if scope["l2"] == "cold":
            flush.max()  # reads it all
        start = time.perf_counter()
        call()
        if i >= warmups:
            samples.append(1e3 * (time.perf_counter() - start))
    return samples

# SPDX-License-Identifier: Apache-2.0
"""Times a function in the scopes of bench/measure/timing.h, with PyTorch's events and graphs."""

import time

import torch

CALLS_PER_GRAPH = 10
FEWEST_SAMPLES = 3
FLUSH_BYTES = 256 << 20


def sample_scopes(call, request):
    """One entry a scope: its timing, its l2 and milliseconds a call for every repeat."""
    counts = Counts(request["warmups"], request["repeats"], request["seconds"])
    on_gpu = request["device"] == "cuda"
    flush = None
    for scope in request["scopes"]:
        if scope["l2"] == "cold" and flush is None:
            flush = torch.ones(FLUSH_BYTES // 4, dtype=torch.int32, device=request["device"])
        sample = _sample_gpu if on_gpu else _sample_cpu
        yield {**scope, "samples_ms": sample(call, scope, counts, flush)}


class Counts:
    """Says how many warm-ups and samples to take, as Timer::sample."""

    def __init__(self, warmups, repeats, seconds):
        self.warmups, self.repeats, self.seconds = warmups, repeats, seconds

    def steps(self):
        """False for every warm-up, then True for every sample."""
        start = time.perf_counter()

        def over(share):
            return 0 < share * self.seconds < time.perf_counter() - start

        for i in range(self.warmups):
            if i > 0 and over(1 / 3):
                break
            yield False
        for i in range(self.repeats):
            if i >= FEWEST_SAMPLES and over(1):
                break
            yield True


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
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    samples = []
    for timed in counts.steps():
        if flush is not None:
            flush.max()  # reads it all
        start.record()
        call()
        end.record()
        end.synchronize()
        if timed:
            samples.append(start.elapsed_time(end))
    return samples


def _sample_cpu(call, scope, counts, flush):
    samples = []
    for timed in counts.steps():
        if scope["l2"] == "cold":
            flush.max()  # reads it all
        start = time.perf_counter()
        call()
        if timed:
            samples.append(1e3 * (time.perf_counter() - start))
    return samples

# SPDX-License-Identifier: Apache-2.0
"""Calls follow torch's current stream; plans are captured once and replayed with new lengths."""

import pytest
import tilegate

torch = pytest.importorskip("torch")
from decode_case import DecodeCase, assert_near, set_values  # noqa: E402

# Some 200 ms: a call on another stream would be long done. What is loaded on first use waits for
# the GPU, so a test makes its calls once before it delays a stream.
DELAY_CYCLES = 400_000_000


def test_a_call_waits_for_its_stream_and_no_other():
    case = DecodeCase()
    set_values(case.lens, [40, 50, 60])
    late = torch.randn_like(case.q)
    case.q.copy_(case.q.clone())
    torch.cuda._sleep(1)
    stale = case()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(DELAY_CYCLES)
        case.q.copy_(late)
        got = case()
    other = case()  # of the default stream, before the copy
    torch.cuda.default_stream().synchronize()
    assert not side.query(), "the producer must still be at work"
    assert torch.equal(other, stale)
    side.synchronize()
    assert_near(got, case.answer()[0], 3e-2)
    assert not torch.equal(got, stale)


def test_every_operation_follows_the_stream():
    x = torch.zeros(4, 2, 2, 64, dtype=torch.float16, device="cuda")
    scores = torch.zeros(4, 2, 2, device="cuda")
    pool = torch.zeros(1, 2, 64, 64, device="cuda")
    slot = torch.zeros(1, dtype=torch.int32, device="cuda")
    record = torch.zeros(1, 1, 2, 64, device="cuda")
    decay = torch.zeros(1, 1, 2, device="cuda")
    accepted = slot + 1

    def work(cycles):
        torch.cuda._sleep(cycles)
        x.fill_(2.0)
        record.fill_(1.0)
        o, _ = tilegate.merge_states(x, scores)
        tilegate.commit(pool, slot, record, record, decay, accepted)
        return o

    work(1)
    for tensor in (x, record, pool):
        tensor.zero_()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        o = work(DELAY_CYCLES)
    torch.cuda.default_stream().synchronize()
    assert not side.query(), "the producer must still be at work"
    side.synchronize()
    assert (o == 2.0).all()
    assert (pool == 1.0).all()


@pytest.mark.parametrize("workspace", ["given", "its own"])
def test_a_captured_plan_replays_with_new_lengths_and_pages(workspace):
    case = DecodeCase()
    set_values(case.lens, [2, 2, 2])
    arguments = case.arguments()
    plan = tilegate.plan(tilegate.batch_decode_paged, return_lse=True, backend="cuda", **arguments)
    assert plan.backend == "cuda" and plan.kernel in plan.explain()
    more = {}
    if workspace == "given":
        more["workspace"] = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    out = torch.empty_like(case.q)
    lse = torch.empty(case.batch, case.heads, device="cuda")
    plan.run(**arguments, out=out, lse=lse, **more)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan.run(**arguments, out=out, lse=lse, **more)
    for lens in ([1, 1, 1], [192, 17, 16], [192, 192, 192]):
        set_values(case.lens, lens)
        case.tables.copy_(case.tables.roll(1, 0))
        case.q.normal_()
        graph.replay()
        want, want_lse = case.answer()
        assert_near(out, want, 3e-2)
        assert_near(lse, want_lse, 1e-2)
        assert torch.equal(out, case(backend="cuda")), "the bits of a call are those of its replay"


def test_a_captured_call_allocates_in_the_graph():
    case = DecodeCase()
    set_values(case.lens, [2, 2, 2])
    case()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = case()
    set_values(case.lens, [100, 20, 3])
    graph.replay()
    assert_near(out, case.answer()[0], 3e-2)


def test_a_captured_delta_step_advances_once_a_replay():
    heads, dim = 4, 128
    q, k, v = (torch.randn(1, 1, heads, dim, device="cuda").bfloat16() for _ in range(3))
    a, b = (torch.randn(1, 1, heads, device="cuda").bfloat16() for _ in range(2))
    a_log, dt_bias = torch.zeros(heads, device="cuda"), torch.zeros(heads, device="cuda")
    pool, want = (torch.zeros(2, heads, dim, dim, device="cuda") for _ in range(2))
    slot = torch.zeros(1, dtype=torch.int32, device="cuda")

    def step(states):
        return tilegate.gated_delta_rule_decode_pretranspose(
            q, k, v, states, slot, a_log, a, dt_bias, b)

    step(torch.zeros_like(pool))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(pool)
    assert (pool == 0).all(), "capturing must not advance a state"
    for replay in range(3):
        slot.fill_(replay % 2)
        graph.replay()
        step(want)
        assert torch.equal(pool, want)

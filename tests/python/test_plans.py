# SPDX-License-Identifier: Apache-2.0
"""Plans from Python: what they say, what they run, and what they refuse."""

import numpy as np
import pytest
import tilegate


def _case():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(np.float32)
               for shape in ((2, 4, 64), (3, 16, 2, 64), (3, 16, 2, 64)))
    return dict(q=q, k_cache=k, v_cache=v, block_tables=np.array([[2, 0], [1, 0]], np.int32),
                kv_lens=np.array([20, 7], np.int32))


def _workspace(plan):
    room = np.empty(plan.workspace_bytes + 256, np.uint8)
    start = -room.ctypes.data % 256
    return room[start:start + plan.workspace_bytes]


def test_a_plan_runs_as_the_call_with_new_lengths():
    case = _case()
    plan = tilegate.plan(tilegate.batch_decode_paged, return_lse=True, scale=0.5, **case)
    assert plan.backend == "cpu" and plan.kernel.startswith("cpu.")
    assert plan.explain() == tilegate.explain(
        tilegate.batch_decode_paged, return_lse=True, scale=0.5, **case)
    for lens in ([20, 7], [1, 16]):
        case["kv_lens"][:] = lens
        want = tilegate.batch_decode_paged(return_lse=True, scale=0.5, **case)
        for workspace in (None, _workspace(plan)):
            got = plan.run(workspace=workspace, **case)
            assert all((x == y).all() for x, y in zip(got, want, strict=True))


def test_a_plan_writes_where_it_is_told():
    rng = np.random.default_rng(1)
    parts = rng.standard_normal((3, 2, 2, 8)).astype(np.float32)
    scores = rng.standard_normal((3, 2, 2)).astype(np.float32)
    plan = tilegate.plan(tilegate.merge_states, parts, scores)
    o, lse = plan.run(parts, scores)
    want, want_lse = tilegate.merge_states(parts, scores)
    assert (o == want).all() and (lse == want_lse).all()


def test_planning_advances_no_state():
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, 1, 2, 16)).astype(np.float32) for _ in range(3))
    gate, head = np.zeros((1, 1, 2), np.float32), np.zeros(2, np.float32)
    pool = np.ones((1, 2, 16, 16), np.float32)
    arguments = (q, k, v, pool, np.zeros(1, np.int32), head, gate, head, gate)
    plan = tilegate.plan(tilegate.gated_delta_rule_decode_pretranspose, *arguments)
    assert (pool == 1).all()
    plan.run(*arguments)
    assert (pool != 1).any()


def test_only_one_operation_is_planned():
    parts, scores = np.zeros((3, 2, 2, 8), np.float32), np.zeros((3, 2, 2), np.float32)
    with pytest.raises(ValueError, match="function must be one operation .* makes 0 calls"):
        tilegate.plan(tilegate.version)
    with pytest.raises(ValueError, match="makes 2 calls"):
        tilegate.explain(lambda: [tilegate.merge_states(parts, scores) for _ in range(2)])


def test_plans_refuse_other_calls_options_and_workspaces():
    case = _case()
    plan = tilegate.plan(tilegate.batch_decode_paged, **case)
    with pytest.raises(TypeError, match="backend, scale must be given to plan"):
        plan.run(**case, scale=1.0, backend="cpu")
    with pytest.raises(ValueError, match="k_cache must be .* as planned"):
        more_pages = np.zeros((4, 16, 2, 64), np.float32)
        plan.run(**case | dict(k_cache=more_pages, v_cache=more_pages))
    if plan.workspace_bytes > 0:
        with pytest.raises(MemoryError, match="workspace must be at least"):
            plan.run(**case, workspace=_workspace(plan)[:-1])
    with pytest.raises(ValueError, match="workspace must be one contiguous row"):
        plan.run(**case, workspace=np.zeros((2, 4096), np.uint8))


def test_outputs_that_are_no_whole_elements_apart_are_refused():
    q, k, v = (np.zeros((1, 4, 2, 64), np.float32) for _ in range(3))
    record = np.zeros((1, 4, 2, 64), np.dtype([("x", np.float32), ("flag", np.uint8)]))
    with pytest.raises(ValueError, match="^out must have strides of whole elements"):
        tilegate.batch_prefill_ragged(q, k, v, out=record["x"])

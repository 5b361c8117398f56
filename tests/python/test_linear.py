# SPDX-License-Identifier: Apache-2.0
"""Delta-rule calls from Python against the float64 recurrence, in every framework."""

import ml_dtypes
import numpy as np
import oracle
import pytest
import tilegate
from test_attention import _serve


def _inputs(rng, tokens, heads_k, heads_v, dim, dtype):
    q, k = (rng.standard_normal((tokens, heads_k, dim)).astype(dtype) for _ in range(2))
    v = rng.standard_normal((tokens, heads_v, dim)).astype(dtype)
    alpha = rng.uniform(0.8, 1.0, (tokens, heads_v)).astype(np.float32)
    beta = rng.uniform(0.0, 1.0, (tokens, heads_v)).astype(np.float32)
    return q, k, v, alpha, beta


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_gdn_matches_the_recurrence(framework, dtype):
    _, put, get = framework
    rng = np.random.default_rng(1)
    q, k, v, alpha, beta = _inputs(rng, 150, 2, 4, 64, dtype)
    cu = np.array([0, 70, 70, 150], np.int32)
    initial = rng.standard_normal((3, 4, 64, 64)).astype(np.float32)
    o, final = _serve(
        tilegate.chunk_gated_delta_rule, *map(put, (q, k, v, alpha, beta)), cu_seqlens=put(cu),
        initial_state=put(initial), use_qk_l2norm_in_kernel=True, output_final_state=True)
    tolerance = 1e-4 if dtype is np.float32 else 5e-2
    for i in range(3):
        part = slice(cu[i], cu[i + 1])
        want, state = oracle.delta_rule(
            q[part], k[part], v[part], alpha[part], beta[part], initial[i], l2norm=True)
        np.testing.assert_allclose(get(o)[part].astype(np.float64), want, atol=tolerance)
        np.testing.assert_allclose(get(final)[i], state, atol=tolerance)
    assert (get(final)[1] == initial[1]).all()


def test_kda_with_equal_channels_is_gdn(framework):
    _, put, get = framework
    rng = np.random.default_rng(2)
    q, k, v, alpha, beta = _inputs(rng, 40, 2, 2, 64, np.float16)
    log_gate = np.repeat(np.log(alpha)[..., None], 64, -1)
    shared = {"use_qk_l2norm_in_kernel": True, "output_final_state": True}
    o, s = _serve(tilegate.recurrent_kda, *map(put, (q, k, v, log_gate, beta)), **shared)
    want, state = oracle.delta_rule(
        q, k, v, alpha, beta, np.zeros((2, 64, 64)), l2norm=True)
    np.testing.assert_allclose(get(o).astype(np.float64), want, atol=1e-2)
    np.testing.assert_allclose(get(s)[0], state, atol=1e-2)


def _decode_inputs(rng, batch, heads):
    q, k, v = (rng.standard_normal((batch, 1, heads, 64)).astype(np.float16) for _ in range(3))
    a, b = (rng.standard_normal((batch, 1, heads)).astype(np.float16) for _ in range(2))
    return q, k, v, a, b, np.zeros(heads, np.float32), np.full(heads, -1.0, np.float32)


def test_decode_layouts_agree_on_an_asymmetric_state(framework):
    name, put, get = framework
    if name == "jax":
        pytest.skip("jax arrays cannot be written in place")
    rng = np.random.default_rng(3)
    q, k, v, a, b, a_log, dt_bias = _decode_inputs(rng, 2, 4)
    v_major = rng.standard_normal((2, 4, 64, 64)).astype(np.float32)
    pool = put(v_major.copy())
    o_v = _serve(
        tilegate.gated_delta_rule_decode_pretranspose, *map(put, (q, k, v)), pool,
        put(np.array([0, 1], np.int32)), put(a_log), put(a), put(dt_bias), put(b))
    o_k, k_major = _serve(
        tilegate.gated_delta_rule_decode, *map(put, (q, k, v)),
        put(np.ascontiguousarray(v_major.swapaxes(-1, -2))), put(a_log), put(a), put(dt_bias),
        put(b))
    np.testing.assert_allclose(get(o_k), get(o_v), atol=1e-3)
    np.testing.assert_allclose(get(k_major).swapaxes(-1, -2), get(pool), atol=1e-6)
    for i in range(2):
        softplus = np.log1p(np.exp(a[i].astype(np.float64) - 1.0))
        gates = np.exp(-softplus), 1 / (1 + np.exp(-b[i].astype(np.float64)))
        want, state = oracle.delta_rule(q[i], k[i], v[i], *gates, v_major[i], l2norm=True)
        np.testing.assert_allclose(get(o_v)[i].astype(np.float64), want, atol=2e-2)
        np.testing.assert_allclose(get(pool)[i], state, atol=2e-3)


def test_a_k_major_state_is_given_back_anew(framework):
    _, put, get = framework
    rng = np.random.default_rng(8)
    q, k, v, a, b, a_log, dt_bias = _decode_inputs(rng, 2, 2)
    before = rng.standard_normal((2, 2, 64, 64)).astype(np.float32)
    state = put(before.copy())
    o, after = _serve(
        tilegate.gated_delta_rule_decode, *map(put, (q, k, v)), state, put(a_log), put(a),
        put(dt_bias), put(b))
    assert (get(state) == before).all()
    want_o, want = tilegate.gated_delta_rule_decode(q, k, v, before, a_log, a, dt_bias, b)
    np.testing.assert_allclose(get(after), want, atol=1e-5)
    np.testing.assert_allclose(get(o).astype(np.float64), want_o.astype(np.float64), atol=1e-2)


def test_negative_slot_is_skipped(framework):
    name, put, get = framework
    if name == "jax":
        pytest.skip("jax arrays cannot be written in place")
    rng = np.random.default_rng(4)
    q, k, v, a, b, a_log, dt_bias = _decode_inputs(rng, 2, 2)
    before = rng.standard_normal((3, 2, 64, 64)).astype(np.float32)
    pool = put(before.copy())
    o = _serve(
        tilegate.gated_delta_rule_decode_pretranspose, *map(put, (q, k, v)), pool,
        put(np.array([-1, 2], np.int32)), put(a_log), put(a), put(dt_bias), put(b))
    assert (get(o)[0] == 0).all() and (get(o)[1] != 0).any()
    assert (get(pool)[:2] == before[:2]).all() and (get(pool)[2] != before[2]).any()


def test_verify_then_commit_is_the_full_step(framework):
    name, put, get = framework
    if name == "jax":
        pytest.skip("jax arrays cannot be written in place")
    rng = np.random.default_rng(5)
    tokens, heads = 4, 2
    q, k, v = (
        rng.standard_normal((1, tokens, heads, 64)).astype(np.float16) for _ in range(3))
    a, b = (rng.standard_normal((1, tokens, heads)).astype(np.float16) for _ in range(2))
    a_log, dt_bias = np.zeros(heads, np.float32), np.zeros(heads, np.float32)
    start = rng.standard_normal((1, heads, 64, 64)).astype(np.float32)
    index = put(np.array([0], np.int32))
    records = {
        "record_k": put(np.zeros((1, tokens, heads, 64), np.float32)),
        "record_d": put(np.zeros((1, tokens, heads, 64), np.float32)),
        "record_decay": put(np.zeros((1, tokens, heads), np.float32)),
    }
    pool, stepped = put(start.copy()), put(start.copy())
    decode = tilegate.gated_delta_rule_decode_pretranspose
    gates = (put(a_log), put(a), put(dt_bias), put(b))
    _serve(decode, *map(put, (q, k, v)), pool, index, *gates, disable_state_update=True, **records)
    assert (get(pool) == start).all()
    _serve(tilegate.commit, pool, index, *records.values(), put(np.array([3], np.int32)))
    first = [x[:, :3].copy() for x in (q, k, v, a, b)]
    decode(*map(put, first[:3]), stepped, index, put(a_log), put(first[3]), put(dt_bias),
           put(first[4]))
    np.testing.assert_allclose(get(pool), get(stepped), atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_decode_and_commit_forget_an_infinite_state(backend):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 1, 2, 16)).astype(np.float32) for _ in range(3))
    pool = np.full((2, 2, 16, 16), np.inf, np.float32)
    slot = np.array([1], np.int32)
    gate = np.full((1, 1, 2), 30.0, np.float32)  # alpha = exp(-exp(10) * 30) is 0
    o = tilegate.gated_delta_rule_decode_pretranspose(
        q, k, v, pool, slot, np.full(2, 10.0, np.float32), gate, np.zeros(2, np.float32), gate,
        backend=backend)
    assert np.isfinite(o).all()
    assert np.isfinite(pool[1]).all()
    assert np.isinf(pool[0]).all()
    tilegate.commit(pool, slot - 1, k, v, np.full((1, 1, 2), -np.inf, np.float32),
                    np.ones(1, np.int32), backend=backend)
    want = np.einsum("hv,hk->hvk", v[0, 0], k[0, 0])
    np.testing.assert_allclose(pool[0], want, rtol=1e-6)

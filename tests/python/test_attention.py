# SPDX-License-Identifier: Apache-2.0
"""Attention calls from Python against the float64 oracle, in every framework."""

import ml_dtypes
import numpy as np
import oracle
import pytest
import tilegate

# |x - float64| of outputs of order 1: rounding of the stored inputs and output dominates.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _serve(function, *args, **kwargs):
    """A device that has no kernel for the dtype rejects by name; anything else must work."""
    try:
        return function(*args, **kwargs)
    except NotImplementedError as reason:
        pytest.skip(str(reason))


def _qkv(rng, rows, keys, heads, heads_kv, dim, dtype):
    shapes = ((rows, heads, dim), (keys, heads_kv, dim), (keys, heads_kv, dim))
    return [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_ragged_matches_definition(framework, dtype, causal):
    name, put, get = framework
    rng = np.random.default_rng(1)
    q, k, v = _qkv(rng, 12, 20, 4, 2, 64, dtype)
    qo, kv = np.array([0, 5, 5, 12], np.int32), np.array([0, 9, 11, 20], np.int64)
    o, lse = _serve(
        tilegate.batch_prefill_ragged, *map(put, (q, k, v, qo, kv)), causal=causal,
        return_lse=True)
    for i in range(3):
        rows, keys = slice(qo[i], qo[i + 1]), slice(kv[i], kv[i + 1])
        want, want_lse = oracle.attention(q[rows], k[keys], v[keys], causal=causal)
        np.testing.assert_allclose(
            get(o)[rows].astype(np.float64), want, atol=TOLERANCE[dtype], rtol=0)
        np.testing.assert_allclose(get(lse)[rows], want_lse, atol=1e-2, rtol=0)


def test_rows_past_the_end_are_zero_and_minus_infinity(framework):
    _, put, get = framework
    rng = np.random.default_rng(2)
    q, k, v = _qkv(rng, 7, 5, 2, 2, 64, "float16")
    qo, kv = np.array([0, 4], np.int32), np.array([0, 5], np.int32)
    o, lse = _serve(
        tilegate.batch_prefill_ragged, *map(put, (q, k, v, qo, kv)), return_lse=True)
    assert (get(o)[4:] == 0).all()
    assert np.isneginf(get(lse)[4:]).all()
    assert np.isfinite(get(lse)[:4]).all()


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_append_then_decode_is_contiguous_attention(framework, layout):
    name, put, get = framework
    if name == "jax":
        pytest.skip("jax arrays cannot be written in place")
    rng = np.random.default_rng(3)
    keys, page = 37, 16
    q, k, v = _qkv(rng, 1, keys, 8, 2, 128, "bfloat16")
    shape = (5, page, 2, 128) if layout == "NHD" else (5, 2, page, 128)
    k_cache = put(np.full(shape, np.nan).astype(ml_dtypes.bfloat16))
    v_cache = put(np.full(shape, np.nan).astype(ml_dtypes.bfloat16))
    table = {
        "block_tables": put(np.array([[4, 0, 2]], np.int32)),
        "kv_lens": put(np.array([keys], np.int32)),
        "kv_layout": layout,
    }
    positions = put(np.arange(keys, dtype=np.int32))
    _serve(tilegate.append_paged_kv, put(k), put(v), positions, k_cache, v_cache, **table)
    o = _serve(tilegate.batch_decode_paged, put(q), k_cache, v_cache, **table)
    want, _ = oracle.attention(q, k, v, causal=True)
    np.testing.assert_allclose(get(o).astype(np.float64), want, atol=3e-2, rtol=0)


def test_merge_of_halves_is_the_whole(framework):
    _, put, get = framework
    rng = np.random.default_rng(4)
    q, k, v = _qkv(rng, 6, 32, 4, 4, 64, "float32")
    (o0, s0), (o1, s1) = (oracle.attention(q, k[p], v[p]) for p in (slice(16), slice(16, 32)))
    parts = np.stack([o0, o1], 1).astype(np.float32)
    scores = np.stack([s0, s1], 1).astype(np.float32)
    o, lse = _serve(tilegate.merge_states, put(parts), put(scores))
    want, want_lse = oracle.attention(q, k, v)
    np.testing.assert_allclose(get(o), want, atol=1e-5)
    np.testing.assert_allclose(get(lse), want_lse, atol=1e-5)


def test_out_is_written_in_place_and_returned(framework):
    name, put, get = framework
    if name == "jax":
        pytest.skip("jax arrays cannot be written in place")
    rng = np.random.default_rng(5)
    q, k, v = _qkv(rng, 4, 4, 2, 2, 64, "float16")
    out = put(np.full((1, 4, 2, 64), 7, np.float16))
    got = _serve(tilegate.batch_prefill_ragged, *(put(x[None]) for x in (q, k, v)), out=out)
    assert got is out
    np.testing.assert_allclose(
        get(out)[0].astype(np.float64), oracle.attention(q, k, v)[0], atol=4e-3)

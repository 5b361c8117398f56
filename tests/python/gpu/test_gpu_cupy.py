# SPDX-License-Identifier: Apache-2.0
"""cupy arrays: results, the current stream, and outputs where the inputs are."""

import numpy as np
import oracle
import pytest
import tilegate

cupy = pytest.importorskip("cupy")


def test_decode_and_append():
    rng = np.random.default_rng(3)
    keys, page = 37, 16
    q, k, v = (rng.standard_normal(shape).astype(np.float16)
               for shape in ((1, 8, 128), (keys, 2, 128), (keys, 2, 128)))
    k_cache, v_cache = (cupy.full((5, page, 2, 128), np.nan, np.float16) for _ in range(2))
    table = dict(block_tables=cupy.asarray([[4, 0, 2]], np.int32),
                 kv_lens=cupy.asarray([keys], np.int32))
    tilegate.append_paged_kv(cupy.asarray(k), cupy.asarray(v), cupy.arange(keys, dtype=np.int32),
                             k_cache, v_cache, **table)
    o, lse = tilegate.batch_decode_paged(cupy.asarray(q), k_cache, v_cache, return_lse=True,
                                         backend="cuda", **table)
    assert isinstance(o, cupy.ndarray) and o.device == k_cache.device
    want, want_lse = oracle.attention(q, k, v)
    np.testing.assert_allclose(cupy.asnumpy(o).astype(np.float64), want, atol=4e-3)
    np.testing.assert_allclose(cupy.asnumpy(lse), want_lse, atol=1e-2)


def test_the_current_stream_is_followed():
    big = cupy.zeros((1 << 28,), np.float32)
    parts = cupy.zeros((4, 2, 2, 64), np.float16)
    scores = cupy.zeros((4, 2, 2), np.float32)
    cupy.cuda.Device().synchronize()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        for _ in range(100):  # some 50 ms of work ahead of the producer
            big += 1
        parts.fill(2.0)
        o, _ = tilegate.merge_states(parts, scores)
    assert not side.done, "the producer must still be at work"
    side.synchronize()
    assert (cupy.asnumpy(o) == 2.0).all()


def test_a_numpy_array_among_cupy_arrays_is_named():
    parts = cupy.zeros((4, 2, 2, 64), np.float16)
    with pytest.raises(ValueError, match="s must be on cuda:0 like v, got cpu"):
        tilegate.merge_states(parts, np.zeros((4, 2, 2), np.float32))

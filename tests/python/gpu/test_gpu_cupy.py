# SPDX-License-Identifier: Apache-2.0
"""cupy arrays: results, the current stream, and outputs where the inputs are."""

import numpy as np
import oracle
import pytest
import tilegate

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")


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


# Waits until the host says so, or for some seconds where it never does.
_WAIT = r"""
extern "C" __global__ void wait(const volatile int* released, long long most_cycles) {
  const long long start = clock64();
  while (*released == 0 && clock64() - start < most_cycles) {}
}
"""
_MOST_CYCLES = 6_000_000_000


def test_the_current_stream_is_followed():
    parts = cupy.zeros((4, 2, 2, 64), np.float16)
    scores = cupy.zeros((4, 2, 2), np.float32)
    released = cupyx.zeros_pinned((1,), np.int32)
    wait = cupy.RawKernel(_WAIT, "wait")

    def work(cycles):
        wait((1,), (1,), (np.uint64(released.ctypes.data), np.int64(cycles)))
        parts.fill(2.0)
        return tilegate.merge_states(parts, scores)[0]

    work(0)  # whatever is compiled or loaded on first use would wait for the GPU
    parts.fill(0.0)
    cupy.cuda.Device().synchronize()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        o = work(_MOST_CYCLES)
    assert not side.done, "the producer must still be at work"
    released[0] = 1
    side.synchronize()
    assert (cupy.asnumpy(o) == 2.0).all()


def test_a_numpy_array_among_cupy_arrays_is_named():
    parts = cupy.zeros((4, 2, 2, 64), np.float16)
    with pytest.raises(ValueError, match="s must be on cuda:0 like v, got cpu"):
        tilegate.merge_states(parts, np.zeros((4, 2, 2), np.float32))

# SPDX-License-Identifier: Apache-2.0
"""jax arrays on the GPU: a result is there when the call returns."""

import os

import numpy as np
import pytest
import tilegate

torch = pytest.importorskip("torch")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory too
jax = pytest.importorskip("jax")

DELAY_CYCLES = 400_000_000  # some 200 ms: jax's own streams would have read long before


def test_a_result_is_there_when_the_call_returns():
    parts, scores = jax.numpy.full((4, 2, 2, 64), 2.0, "float16"), jax.numpy.zeros((4, 2, 2))
    if next(iter(parts.devices())).platform != "gpu":
        pytest.skip("jax finds no GPU")
    tilegate.merge_states(parts, scores)  # what is loaded on first use waits by itself
    torch.cuda._sleep(DELAY_CYCLES)  # on the stream of the call
    o, lse = tilegate.merge_states(parts, scores)
    assert (np.asarray(o) == 2.0).all()
    assert (np.asarray(lse) == 1.0).all()  # log2(2^0 + 2^0)

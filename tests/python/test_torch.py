# SPDX-License-Identifier: Apache-2.0
"""torch tensors go to the compiled library as they are: what it must refuse, and what mixes."""

import numpy as np
import pytest
import tilegate

torch = pytest.importorskip("torch")


def _parts(dtype=torch.float32):
    make = torch.Generator().manual_seed(0)
    return (torch.randn(3, 2, 2, 8, generator=make).to(dtype),
            torch.randn(3, 2, 2, generator=make))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.to(torch.uint16), "v must be one of .*, got uint16"),
        (lambda x: x.to(torch.float64), "v must be one of .*, got float64"),
        (lambda x: x.to("meta"), "arrays must be on a CPU or a CUDA GPU, got meta"),
        (lambda x: x[0], "v must have rank 4, got"),
        (lambda x: x[..., ::2], "v must have innermost stride 1, got 2"),
        (lambda x: None, "v must be a torch, numpy, cupy or jax array, got NoneType"),
    ],
)
def test_what_the_library_does_not_take_is_named(change, words):
    parts, scores = _parts()
    out, lse = tilegate.merge_states(parts, scores)
    with pytest.raises(ValueError, match=words):
        tilegate.merge_states(change(parts), scores, out=out, lse=lse)


def test_tensors_that_require_gradients_are_inputs():
    parts, scores = _parts()
    want = tilegate.merge_states(parts, scores)
    for wrap in (lambda x: x.clone().requires_grad_(), torch.nn.Parameter):
        got = tilegate.merge_states(wrap(parts), scores)
        assert all(torch.equal(x, y) and not x.requires_grad
                   for x, y in zip(got, want, strict=True))


def test_numpy_arrays_among_tensors():
    parts, scores = _parts(torch.bfloat16)
    want, want_lse = tilegate.merge_states(parts, scores)
    read_only = scores.numpy().copy()
    read_only.flags.writeable = False
    lse = np.zeros((3, 2), np.float32)
    out, got_lse = tilegate.merge_states(parts, read_only, lse=lse)
    assert torch.equal(out, want) and got_lse is lse
    assert (lse == want_lse.numpy()).all()


def test_given_outputs_are_returned():
    parts, scores = _parts(torch.float16)
    want, want_lse = tilegate.merge_states(parts, scores)
    out, lse = torch.empty(3, 2, 8, dtype=torch.float16), torch.empty(3, 2)
    got = tilegate.merge_states(parts, scores, out=out, lse=lse)
    assert got[0] is out and got[1] is lse
    assert torch.equal(out, want) and torch.equal(lse, want_lse)

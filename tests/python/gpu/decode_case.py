# SPDX-License-Identifier: Apache-2.0
"""A paged decode call on the GPU with torch tensors, and its answer in float64 numpy."""

import dataclasses

import numpy as np
import oracle
import tilegate
import torch

PAGE = 16


@dataclasses.dataclass
class DecodeCase:
    """batch requests of up to max_pages pages; every request owns its pages, shuffled."""

    batch: int = 3
    heads: int = 8
    heads_kv: int = 2
    head_dim: int = 128
    max_pages: int = 12
    dtype: torch.dtype = torch.bfloat16
    index_dtype: torch.dtype = torch.int32
    layout: str = "NHD"
    seed: int = 0

    def __post_init__(self):
        make = torch.Generator("cuda").manual_seed(self.seed)
        pages = self.batch * self.max_pages

        def normal(*shape):
            return torch.randn(shape, generator=make, device="cuda").to(self.dtype)

        self.q = normal(self.batch, self.heads, self.head_dim)
        cache = (pages, PAGE, self.heads_kv, self.head_dim)
        self.k, self.v = normal(*cache), normal(*cache)
        order = torch.randperm(pages, generator=make, device="cuda")
        self.tables = order.reshape(self.batch, self.max_pages).to(self.index_dtype)
        self.lens = torch.zeros(self.batch, dtype=self.index_dtype, device="cuda")

    def caches(self):
        """k_cache, v_cache in the layout of the case, without a copy."""
        if self.layout == "NHD":
            return self.k, self.v
        return self.k.transpose(1, 2).contiguous(), self.v.transpose(1, 2).contiguous()

    def arguments(self):
        """Arrays by name, for batch_decode_paged or its plan."""
        k_cache, v_cache = self.caches()
        return dict(q=self.q, k_cache=k_cache, v_cache=v_cache, block_tables=self.tables,
                    kv_lens=self.lens)

    def __call__(self, **more):
        return tilegate.batch_decode_paged(**self.arguments(), kv_layout=self.layout, **more)

    def answer(self):
        """o [batch, heads, head_dim] and base-2 lse [batch, heads], float64."""
        to_numpy = lambda x: x.double().cpu().numpy()  # noqa: E731
        q, k, v = map(to_numpy, (self.q, self.k, self.v))
        tables, lens = self.tables.cpu().numpy(), self.lens.cpu().numpy()
        found = []
        for i, length in enumerate(lens):
            own = tables[i, :-(-length // PAGE)]
            keys, values = (x[own].reshape(-1, *x.shape[2:])[:length] for x in (k, v))
            found.append(oracle.attention(q[i:i + 1], keys, values))
        return (np.concatenate([o for o, _ in found]), np.concatenate([lse for _, lse in found]))


def set_values(tensor, values):
    """New values of a tensor of indices, in place, in stream order."""
    tensor.copy_(torch.tensor(values, dtype=tensor.dtype))


def assert_near(got, want, atol):
    """A torch tensor against a float64 array."""
    assert got.is_cuda
    np.testing.assert_allclose(got.double().cpu().numpy(), want, atol=atol, rtol=0)

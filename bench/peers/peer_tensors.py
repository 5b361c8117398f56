# SPDX-License-Identifier: Apache-2.0
"""Random tensors of a shape, distributed as ours (bench/rows/tensors.h), for peers on PyTorch."""

import torch
import torch.nn.functional as functional

KDA_LOWER_BOUND = -5.0


def dtype_of(shape, key="dtype"):
    return getattr(torch, shape[key])


def normal(request, *dims, dtype=None):
    return torch.randn(*dims, device=request["device"], dtype=dtype or dtype_of(request["shape"]))


def dense_qkv(request):
    """q [B, Sq, Hq, D], k and v [B, Sk, Hkv, D]."""
    s = request["shape"]
    q = normal(request, s["batch_size"], s["query_length"], s["num_heads"], s["head_size"])
    dims = s["batch_size"], s["kv_length"], s["num_kv_heads"], s["head_size"]
    return q, normal(request, *dims), normal(request, *dims)


def offsets(request, lengths):
    """int32 [N + 1]."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    return ends.to(torch.int32).to(request["device"])


def shuffled_pages(request):
    """int32 [B, pages a request]."""
    s = request["shape"]
    each = -(-s["kv_length"] // s["page_size"])
    order = torch.randperm(s["batch_size"] * each, dtype=torch.int32)
    return order.reshape(s["batch_size"], each).to(request["device"])


def delta_qkv(request, rows=1):
    """q [T, Hq, D], k [T * rows, Hq, D] of unit rows, v [T * rows, Hv, D]."""
    s = request["shape"]
    tokens, dim = sum(s["lengths"]), s["head_size"]
    q = functional.normalize(normal(request, tokens, s["num_heads"], dim), dim=-1)
    k = functional.normalize(normal(request, tokens * rows, s["num_heads"], dim), dim=-1)
    return q, k, normal(request, tokens * rows, s["num_kv_heads"], dim)


def state_heads(shape):
    return max(shape["num_heads"], shape["num_kv_heads"])


def raw_gates(shape):
    """Whether the kernel activates the gates, as LinearShape::raw_gates()."""
    if shape["rule"] == "kda":
        return shape["gates"] == "random"
    return shape["rule"] == "gdn" and shape["op"] == "linear-decode"


def log_gates(request, *dims):
    """fp32 natural log decay for the gates of the shape, other than raw ones."""
    gates = request["shape"]["gates"]
    if gates == "none":
        return torch.zeros(*dims, device=request["device"])
    if gates == "steep":
        return -5.0 * torch.rand(*dims, device=request["device"])
    return functional.logsigmoid(normal(request, *dims, dtype=torch.float32) + 3.0)


def uniform(request, *dims):
    return torch.rand(*dims, device=request["device"])


def kda_rate(request, heads):
    """A_log = log U(1, 2.7)."""
    return torch.log1p(1.7 * uniform(request, heads))

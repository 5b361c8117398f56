# SPDX-License-Identifier: Apache-2.0
"""Attention and the delta rule by definition, in float64 numpy, for the Python tests."""

import numpy as np


def attention(q, k, v, *, scale=None, causal=False, sink=None):
    """One request: q [Tq, Hq, D], k, v [Tk, Hkv, D]. Returns o and base-2 lse."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = np.einsum("qhd,khd->hqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows = np.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
        s = np.where(np.arange(k.shape[0])[None] <= rows, s, -np.inf)
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(sink[:, None, None], s.shape[:2] + (1,))], -1)
        v = np.concatenate([v, np.zeros_like(v[:1])], 0)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = p.sum(-1, keepdims=True)
    o = np.einsum("hqk,khd->qhd", np.divide(p, total, where=total > 0, out=np.zeros_like(p)), v)
    with np.errstate(divide="ignore"):
        lse = np.log2(total[..., 0]) + np.where(np.isfinite(top), top, 0.0)[..., 0] / np.log(2)
    return o, lse.T


def delta_rule(q, k, v, alpha, beta, state, *, scale=None, l2norm=False):
    """One sequence, scalar or per-channel linear decay; state [HO, V, K]. Returns o and state."""
    q, k, v, alpha, beta, state = (
        np.array(x, np.float64) for x in (q, k, v, alpha, beta, state)
    )
    if l2norm:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    heads = state.shape[0]
    q, k, v = (np.repeat(x, heads // x.shape[1], 1) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = []
    for t in range(q.shape[0]):
        state *= alpha[t].reshape(heads, 1, -1)
        d = beta[t][:, None] * (v[t] - np.einsum("hvk,hk->hv", state, k[t]))
        state += d[:, :, None] * k[t][:, None, :]
        rows.append(scale * np.einsum("hvk,hk->hv", state, q[t]))
    return np.array(rows).reshape(len(rows), heads, v.shape[-1]), state

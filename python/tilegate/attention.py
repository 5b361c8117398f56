# SPDX-License-Identifier: Apache-2.0
"""Softmax attention. Formula, masks and numerics: docs/attention.md.

Arrays may be torch, numpy, cupy or jax; all of a call live on one device. Only the innermost
dimension must be contiguous. Errors: ValueError (malformed call), NotImplementedError (no backend
serves it; the text lists why), MemoryError, RuntimeError (CUDA or cuDNN).
"""

from __future__ import annotations

from . import _arrays, _calls

_NEG_INF = float("-inf")


def _outputs(given: dict, rows, heads: int, head_dim: int, out, lse, return_lse: bool) -> None:
    q = given["q"]
    _arrays.require_writable("out", out)
    _arrays.require_writable("lse", lse)
    return_lse = _calls.flag("return_lse", return_lse)
    dtype = _arrays.dtype_name(q)
    given["o"] = out if out is not None else _arrays.full_like(q, (*rows, heads, head_dim), dtype,
                                                               0.0)
    if not return_lse and lse is None:
        return
    total = 1
    for size in rows:
        total *= size
    given["lse"] = lse if lse is not None else _arrays.full_like(q, (total, heads), "float32",
                                                                 _NEG_INF)


def _returned(given: dict, return_lse: bool):
    return (given["o"], given["lse"]) if return_lse else given["o"]


def batch_prefill_ragged(
    q, k, v, qo_indptr=None, kv_indptr=None, *, sinks=None, custom_mask=None,
    packed_custom_mask=None, scale=None, causal=False, window_left=-1, window_right=-1,
    logits_soft_cap=0.0, return_lse=False, lse_base="log2", max_qo_len=0, max_kv_len=0,
    fixed_split_size=None, disable_split_kv=False, batch_invariant=False, backend="auto",
    out=None, lse=None,
):
    """Attention over packed requests, or over a dense batch without offsets.

    q [Tq, Hq, Dqk], k [Tk, Hkv, Dqk], v [Tk, Hkv, Dv], qo_indptr and kv_indptr [B + 1] int32 or
    int64; or q [B, Sq, Hq, Dqk], k, v [B, Sk, ..] without offsets. sinks [Hq] float32 in natural
    units; custom_mask flat bool, ANDed with causal and windows.
    Returns o [Tq, Hq, Dv] (zero past the last offset), with return_lse also lse [tokens, Hq]
    float32 (-inf past the last offset), base 2 or "ln".
    """
    given = dict(q=q, k=k, v=v, qo_indptr=qo_indptr, kv_indptr=kv_indptr, sinks=sinks,
                 custom_mask=custom_mask, packed_custom_mask=packed_custom_mask)
    _arrays.require_rank("q", q, (3, 4))
    _arrays.require_rank("v", v, (3, 4))
    _outputs(given, q.shape[:-2], q.shape[-2], v.shape[-1], out, lse, return_lse)
    options = _calls.attention_options(dict(
        scale=scale, causal=causal, window_left=window_left, window_right=window_right,
        logits_soft_cap=logits_soft_cap, lse_base=lse_base, max_qo_len=max_qo_len,
        max_kv_len=max_kv_len, fixed_split_size=fixed_split_size,
        disable_split_kv=disable_split_kv, batch_invariant=batch_invariant, backend=backend))
    _calls.call("ragged", q, _calls.tensors(_calls.RAGGED, given) + options)
    return _returned(given, return_lse)


def _value_dim(v_cache, kv_cache) -> int:
    cache = kv_cache if kv_cache is not None else v_cache
    _arrays.require_rank("kv_cache" if kv_cache is not None else "v_cache", cache,
          (5,) if kv_cache is not None else (4,))
    return cache.shape[-1]


def batch_prefill_paged(
    q, k_cache=None, v_cache=None, *, qo_indptr, kv_cache=None, kv_indptr=None, kv_indices=None,
    kv_last_page_len=None, block_tables=None, kv_lens=None, sinks=None, custom_mask=None,
    packed_custom_mask=None, scale=None, causal=False, window_left=-1, window_right=-1,
    logits_soft_cap=0.0, kv_layout="NHD", return_lse=False, lse_base="log2", max_qo_len=0,
    max_kv_len=0, fixed_split_size=None, disable_split_kv=False, batch_invariant=False,
    backend="auto", out=None, lse=None,
):
    """Attention of packed query rows over a paged KV cache.

    k_cache, v_cache [pages, page_size, Hkv, D] (NHD) or [pages, Hkv, page_size, D] (HND), or one
    interleaved kv_cache with a 2 after pages. Page table: kv_indptr [B + 1] + kv_indices +
    kv_last_page_len [B], or block_tables [B, max_pages] + kv_lens [B]. Otherwise as
    batch_prefill_ragged.
    """
    given = dict(q=q, k_cache=k_cache, v_cache=v_cache, kv_cache=kv_cache, qo_indptr=qo_indptr,
                 sinks=sinks, custom_mask=custom_mask, packed_custom_mask=packed_custom_mask,
                 kv_indptr=kv_indptr, kv_indices=kv_indices, kv_last_page_len=kv_last_page_len,
                 block_tables=block_tables, kv_lens=kv_lens)
    _arrays.require_rank("q", q, (3,))
    _outputs(given, q.shape[:1], q.shape[1], _value_dim(v_cache, kv_cache), out, lse, return_lse)
    options = _calls.attention_options(dict(
        scale=scale, causal=causal, window_left=window_left, window_right=window_right,
        logits_soft_cap=logits_soft_cap, lse_base=lse_base, kv_layout=kv_layout,
        max_qo_len=max_qo_len, max_kv_len=max_kv_len, fixed_split_size=fixed_split_size,
        disable_split_kv=disable_split_kv, batch_invariant=batch_invariant, backend=backend))
    _calls.call("paged", q, _calls.tensors(_calls.PAGED, given) + options)
    return _returned(given, return_lse)


def batch_decode_paged(
    q, k_cache=None, v_cache=None, *, kv_cache=None, kv_indptr=None, kv_indices=None,
    kv_last_page_len=None, block_tables=None, kv_lens=None, q_len_per_req=1, sinks=None,
    custom_mask=None, packed_custom_mask=None, scale=None, window_left=-1, window_right=-1,
    logits_soft_cap=0.0, kv_layout="NHD", return_lse=False, lse_base="log2", max_kv_len=0,
    fixed_split_size=None, disable_split_kv=False, batch_invariant=False, backend="auto",
    out=None, lse=None,
):
    """Decode: q [B * q_len_per_req, Hq, D], 1..16 rows a request, bottom-right causal.

    Caches, page table and results as in batch_prefill_paged.
    """
    given = dict(q=q, k_cache=k_cache, v_cache=v_cache, kv_cache=kv_cache, sinks=sinks,
                 custom_mask=custom_mask, packed_custom_mask=packed_custom_mask,
                 kv_indptr=kv_indptr, kv_indices=kv_indices, kv_last_page_len=kv_last_page_len,
                 block_tables=block_tables, kv_lens=kv_lens)
    _arrays.require_rank("q", q, (3,))
    _outputs(given, q.shape[:1], q.shape[1], _value_dim(v_cache, kv_cache), out, lse, return_lse)
    options = _calls.attention_options(dict(
        scale=scale, window_left=window_left, window_right=window_right,
        logits_soft_cap=logits_soft_cap, lse_base=lse_base, kv_layout=kv_layout,
        q_len_per_req=q_len_per_req, max_kv_len=max_kv_len, fixed_split_size=fixed_split_size,
        disable_split_kv=disable_split_kv, batch_invariant=batch_invariant, backend=backend))
    _calls.call("decode", q, _calls.tensors(_calls.DECODE, given) + options)
    return _returned(given, return_lse)


def append_paged_kv(
    k, v, positions, k_cache=None, v_cache=None, *, batch_indices=None, kv_cache=None,
    kv_indptr=None, kv_indices=None, kv_last_page_len=None, block_tables=None, kv_lens=None,
    kv_layout="NHD", backend="auto",
) -> None:
    """Writes k [T, Hkv, D] and v [T, Hkv, D] into the pages of their requests, in place.

    Token t goes to positions[t] (< 0: skipped) of request batch_indices[t]; batch_indices may be
    left out for one request. The page table already covers the new tokens.
    """
    given = dict(k=k, v=v, positions=positions, k_cache=k_cache, v_cache=v_cache,
                 kv_cache=kv_cache, batch_indices=batch_indices, kv_indptr=kv_indptr,
                 kv_indices=kv_indices, kv_last_page_len=kv_last_page_len,
                 block_tables=block_tables, kv_lens=kv_lens)
    _arrays.require_rank("k", k, (3,))
    for name in ("k_cache", "v_cache", "kv_cache"):
        _arrays.require_writable(name, given[name])
    _calls.call("append", k, _calls.tensors(_calls.APPEND, given)
                + [_calls.kv_layout(kv_layout), _calls.backend(backend)])


def merge_states(v, s, *, backend="auto"):
    """Merges attention states: v [N, P, H, D], s [N, P, H] float32 base 2.

    Returns o [N, H, D] and lse [N, H]. v of a part with s = -inf is not read.
    """
    _arrays.require_rank("v", v, (4,))
    rows, _, heads, dim = v.shape
    given = dict(v=v, s=s, o=_arrays.full_like(v, (rows, heads, dim), _arrays.dtype_name(v), 0.0),
                 lse=_arrays.full_like(v, (rows, heads), "float32", _NEG_INF))
    _calls.call("merge", v, _calls.tensors(_calls.MERGE, given) + [_calls.backend(backend)])
    return given["o"], given["lse"]

# SPDX-License-Identifier: Apache-2.0
"""Softmax attention. Formula, masks and numerics: docs/attention.md.

Arrays may be torch, numpy, cupy or jax; all of a call live on one device. Only the innermost
dimension must be contiguous. Errors: ValueError (malformed call), NotImplementedError (no backend
serves it; the text lists why), MemoryError, RuntimeError (CUDA or cuDNN).
"""

from __future__ import annotations

import math

from . import _arrays, _calls

# What new outputs hold before the call: rows past the last offset keep it. Without offsets every
# row is written.
_PADDED = (0.0, float("-inf"))
_WHOLE = (None, None)


# Ranks of q and of the array that holds v.
_RANKS = {"v": ((3, 4), (3, 4)), "v_cache": ((3,), (4,)), "kv_cache": ((3,), (5,))}


def _outputs(q, values, given, return_lse: bool, fill):
    """o and lse of the call: those given, or new ones where they are wanted. values: name and array
    of v or its cache."""
    out, lse = given
    if out is None:
        name, array = values
        for_q, for_array = _RANKS[name]
        _arrays.require_rank("q", q, for_q)
        _arrays.require_rank(name, array, for_array)
        shape = [*q.shape]
        shape[-1] = array.shape[-1]
        out = _arrays.full_like(q, shape, None, fill[0])
    else:
        _arrays.require_writable("out", out)
    if lse is not None:
        _arrays.require_writable("lse", lse)
    elif return_lse is not False and _calls.flag("return_lse", return_lse):
        _arrays.require_rank("q", q, (3, 4))
        lse = _arrays.full_like(q, (math.prod(q.shape[:-2]), q.shape[-2]), "float32", fill[1])
    return out, lse


def batch_prefill_ragged(
    q, k, v, qo_indptr=None, kv_indptr=None, *, sinks=None, custom_mask=None,
    packed_custom_mask=None, scale=None, causal=False, window_left=-1, window_right=-1,
    logits_soft_cap=_calls.NO_SOFT_CAP, return_lse=False, lse_base="log2", max_qo_len=0,
    max_kv_len=0, fixed_split_size=None, disable_split_kv=False, batch_invariant=False,
    backend="auto", out=None, lse=None,
):
    """Attention over packed requests, or over a dense batch without offsets.

    q [Tq, Hq, Dqk], k [Tk, Hkv, Dqk], v [Tk, Hkv, Dv], qo_indptr and kv_indptr [B + 1] int32 or
    int64; or q [B, Sq, Hq, Dqk], k, v [B, Sk, ..] without offsets. sinks [Hq] float32 in natural
    units; custom_mask flat bool, ANDed with causal and windows.
    Returns o [Tq, Hq, Dv] (zero past the last offset), with return_lse also lse [tokens, Hq]
    float32 (-inf past the last offset), base 2 or "ln".
    """
    out, lse = _outputs(q, ("v", v), (out, lse), return_lse,
                        _WHOLE if qo_indptr is None else _PADDED)
    options = _calls.ATTENTION_OPTIONS.changed((
        scale, causal, window_left, window_right, logits_soft_cap, lse_base, "NHD", 1, max_qo_len,
        max_kv_len, fixed_split_size, disable_split_kv, batch_invariant, backend))
    arrays = (q, k, v, qo_indptr, kv_indptr, sinks, custom_mask, packed_custom_mask, out, lse)
    _calls.call(_calls.RAGGED, arrays, options)
    return (out, lse) if return_lse else out


def batch_prefill_paged(
    q, k_cache=None, v_cache=None, *, qo_indptr, kv_cache=None, kv_indptr=None, kv_indices=None,
    kv_last_page_len=None, block_tables=None, kv_lens=None, sinks=None, custom_mask=None,
    packed_custom_mask=None, scale=None, causal=False, window_left=-1, window_right=-1,
    logits_soft_cap=_calls.NO_SOFT_CAP, kv_layout="NHD", return_lse=False, lse_base="log2",
    max_qo_len=0, max_kv_len=0, fixed_split_size=None, disable_split_kv=False,
    batch_invariant=False, backend="auto", out=None, lse=None,
):
    """Attention of packed query rows over a paged KV cache.

    k_cache, v_cache [pages, page_size, Hkv, D] (NHD) or [pages, Hkv, page_size, D] (HND), or one
    interleaved kv_cache with a 2 after pages. Page table: kv_indptr [B + 1] + kv_indices +
    kv_last_page_len [B], or block_tables [B, max_pages] + kv_lens [B]. Otherwise as
    batch_prefill_ragged.
    """
    values = ("v_cache", v_cache) if kv_cache is None else ("kv_cache", kv_cache)
    out, lse = _outputs(q, values, (out, lse), return_lse, _PADDED)
    options = _calls.ATTENTION_OPTIONS.changed((
        scale, causal, window_left, window_right, logits_soft_cap, lse_base, kv_layout, 1,
        max_qo_len, max_kv_len, fixed_split_size, disable_split_kv, batch_invariant, backend))
    arrays = (q, k_cache, v_cache, kv_cache, qo_indptr, sinks, custom_mask, packed_custom_mask,
              out, lse, kv_indptr, kv_indices, kv_last_page_len, block_tables, kv_lens)
    _calls.call(_calls.PAGED, arrays, options)
    return (out, lse) if return_lse else out


def batch_decode_paged(
    q, k_cache=None, v_cache=None, *, kv_cache=None, kv_indptr=None, kv_indices=None,
    kv_last_page_len=None, block_tables=None, kv_lens=None, q_len_per_req=1, sinks=None,
    custom_mask=None, packed_custom_mask=None, scale=None, window_left=-1, window_right=-1,
    logits_soft_cap=_calls.NO_SOFT_CAP, kv_layout="NHD", return_lse=False, lse_base="log2",
    max_kv_len=0, fixed_split_size=None, disable_split_kv=False, batch_invariant=False,
    backend="auto", out=None, lse=None,
):
    """Decode: q [B * q_len_per_req, Hq, D], 1..16 rows a request, bottom-right causal.

    Caches, page table and results as in batch_prefill_paged.
    """
    values = ("v_cache", v_cache) if kv_cache is None else ("kv_cache", kv_cache)
    out, lse = _outputs(q, values, (out, lse), return_lse, _WHOLE)
    options = _calls.ATTENTION_OPTIONS.changed((
        scale, False, window_left, window_right, logits_soft_cap, lse_base, kv_layout,
        q_len_per_req, 0, max_kv_len, fixed_split_size, disable_split_kv, batch_invariant,
        backend))
    arrays = (q, k_cache, v_cache, kv_cache, sinks, custom_mask, packed_custom_mask, out, lse,
              kv_indptr, kv_indices, kv_last_page_len, block_tables, kv_lens)
    _calls.call(_calls.DECODE, arrays, options)
    return (out, lse) if return_lse else out


def append_paged_kv(
    k, v, positions, k_cache=None, v_cache=None, *, batch_indices=None, kv_cache=None,
    kv_indptr=None, kv_indices=None, kv_last_page_len=None, block_tables=None, kv_lens=None,
    kv_layout="NHD", backend="auto",
) -> None:
    """Writes k [T, Hkv, D] and v [T, Hkv, D] into the pages of their requests, in place.

    Token t goes to positions[t] (< 0: skipped) of request batch_indices[t]; batch_indices may be
    left out for one request. The page table already covers the new tokens.
    """
    _arrays.require_all_writable(("k_cache", "v_cache", "kv_cache"), (k_cache, v_cache, kv_cache))
    arrays = (k, v, batch_indices, positions, k_cache, v_cache, kv_cache, kv_indptr, kv_indices,
              kv_last_page_len, block_tables, kv_lens)
    options = _calls.APPEND_OPTIONS.changed((kv_layout, backend))
    _calls.call(_calls.APPEND, arrays, options)


def merge_states(v, s, *, backend="auto", out=None, lse=None):
    """Merges attention states: v [N, P, H, D], s [N, P, H] float32 base 2.

    Returns o [N, H, D] and lse [N, H]. v of a part with s = -inf is not read.
    """
    _arrays.require_all_writable(("out", "lse"), (out, lse))
    if out is None or lse is None:
        _arrays.require_rank("v", v, (4,))
        rows, _, heads, dim = v.shape
        if out is None:
            out = _arrays.full_like(v, (rows, heads, dim), None, None)
        if lse is None:
            lse = _arrays.full_like(v, (rows, heads), "float32", None)
    options = _calls.MERGE_OPTIONS.changed((backend,))
    _calls.call(_calls.MERGE, (v, s, out, lse), options)
    return out, lse

# SPDX-License-Identifier: Apache-2.0
"""The delta-rule family: GDN, GDN-2, GDP, KDA. Formula, layouts and numerics: docs/linear.md.

Packed layout: q [T, Hq, K], k [T * n, Hk, K], v [T * n, Hv, V] with cu_seqlens [N + 1]; a leading
dimension of 1 is accepted; without cu_seqlens [B, T, ..] is B sequences of T tokens. States are
[.., HO, V, K], K contiguous, HO = max(Hq, Hv). Errors as in tilegate.attention.
"""

from __future__ import annotations

from . import _arrays, _calls

_GDN, _GDN2, _GDP, _KDA, _DECODE = range(5)
_STATE_DTYPES = ("float32", "float16", "bfloat16")
_NO_PREFILL_ARRAYS = (None,) * 10  # what is left of DELTA after the arrays of a decode step
_DECODE_OPTIONS = _calls.DELTA_OPTIONS.part(
    scale=None, use_qk_l2norm=True, disable_state_update=False, backend="auto")
_WRITTEN_BY_DECODE = ("state_pool", "out", "record_k", "record_d", "record_decay")
_WRITTEN = ("state_pool", "output_state_pool", "output_state", "state_checkpoints", "out",
            "record_k", "record_d", "record_decay")


def _sequences(given: dict) -> int:
    cu_seqlens = given.get("cu_seqlens")
    if cu_seqlens is not None:
        _arrays.require_rank("cu_seqlens", cu_seqlens, (1,))
        return max(cu_seqlens.shape[0] - 1, 0)
    q = given["q"]
    return q.shape[0] if q.ndim == 4 else 1


def _state_shape(given: dict, rows: int):
    q, v = given["q"], given["v"]
    return rows, max(q.shape[-2], v.shape[-2]), v.shape[-1], q.shape[-1]


def _state_dtype(given: dict, state_dtype) -> str:
    if state_dtype is not None:
        return state_dtype
    initial = given.get("initial_state")
    return _arrays.dtype_name(initial) if initial is not None else "float32"


def _check_state_dtype(given: dict, state_dtype) -> str | None:
    """Its name; an array that receives the state must agree."""
    if state_dtype is None:
        return None
    name = state_dtype if isinstance(state_dtype, str) else _arrays.name_of_dtype(state_dtype)
    name = name.removeprefix("torch.")
    if name not in _STATE_DTYPES:
        raise ValueError(f"state_dtype must be one of {', '.join(_STATE_DTYPES)}, got {name}")
    for array in ("output_state", "output_state_pool", "state_pool"):
        if given.get(array) is None:
            continue
        if _arrays.dtype_name(given[array]) != name:
            raise ValueError(f"state_dtype must be that of {array}, "
                             f"{_arrays.dtype_name(given[array])}, got {name}")
        break
    return name


def _new_output(q, v, fill):
    _arrays.require_rank("q", q, (3, 4))
    _arrays.require_rank("v", v, (3, 4))
    if v.ndim != q.ndim:
        raise ValueError(f"q and v must both have rank 3 or 4, got {q.ndim} and {v.ndim}")
    shape = (*q.shape[:-2], max(q.shape[-2], v.shape[-2]), v.shape[-1])
    return _arrays.full_like(q, shape, None, fill)


def _allocate(given: dict, options: dict, state_dtype) -> None:
    q, v = given["q"], given["v"]
    _arrays.require_all_writable(_WRITTEN, tuple(map(given.get, _WRITTEN)))
    if given.get("out") is None:
        # Rows past the last offset keep what a new array holds.
        fill = None if given.get("cu_seqlens") is None else 0.0
        given["out"] = _new_output(q, v, fill)
    state_dtype = _check_state_dtype(given, state_dtype)
    wants_state = options.get("output_final_state") and given.get("state_pool") is None
    if wants_state and given.get("output_state") is None:
        given["output_state"] = _arrays.full_like(
            q, _state_shape(given, _sequences(given)), _state_dtype(given, state_dtype), 0.0)


def _run(rule: int, given: dict, options: dict, state_dtype=None):
    # Before an option decides what is allocated.
    changed = _calls.DELTA_OPTIONS.changed_by_name(options)
    _allocate(given, options, state_dtype)
    _calls.call(_calls.DELTA, tuple(map(given.get, _calls.DELTA.arrays)), [rule, *changed])
    if options.get("output_final_state"):
        pool = given.get("output_state_pool")
        pool = pool if pool is not None else given.get("state_pool")
        return given["out"], pool if pool is not None else given["output_state"]
    return given["out"]


_SHARED_DOC = """
    initial_state [N, HO, V, K] or state_pool [P, HO, V, K] with state_indices [N] (read and written
    in place; < 0 skips; output_state_indices and output_state_pool for other rows). With
    has_initial_state [N], 0 starts from zero. Checkpoints: every checkpoint_every_n_tokens (a
    multiple of 16) into state_checkpoints rows checkpoint_cu_starts[i] + j. Speculation:
    state_slots [N, T], num_accepted_tokens [N], disable_state_update with record_k, record_d,
    record_decay for commit(). use_cp "auto", True or False. state_dtype: of the returned state.
    Returns o [T, HO, V], with output_final_state also the final states (or the pool).
    """


def _documented(function):
    function.__doc__ += _SHARED_DOC
    return function


@_documented
def chunk_gated_delta_rule(q, k, v, g=None, beta=None, *, cu_seqlens=None, out=None,
                           state_dtype=None, use_qk_l2norm_in_kernel=False, **more):
    """GDN: g = alpha [T, HO] in [0, 1] (gate_domain="log": natural log), beta [T, HO]."""
    return _named(_GDN, dict(q=q, k=k, v=v, g=g, beta=beta, cu_seqlens=cu_seqlens, out=out),
                  use_qk_l2norm_in_kernel, state_dtype, more)


@_documented
def chunk_gated_delta_rule2(q, k, v, g=None, beta=None, w=None, *, cu_seqlens=None, out=None,
                            state_dtype=None, use_qk_l2norm_in_kernel=False, **more):
    """GDN-2: g = ln alpha [T, HO, K], erase gate beta [T, HO, K], write gate w [T, HO, V]."""
    return _named(_GDN2, dict(q=q, k=k, v=v, g=g, beta=beta, w=w, cu_seqlens=cu_seqlens, out=out),
                  use_qk_l2norm_in_kernel, state_dtype, more)


@_documented
def chunk_gated_delta_product(q, k, v, g=None, beta=None, *, num_householder=1, cu_seqlens=None,
                              out=None, state_dtype=None, use_qk_l2norm_in_kernel=False, **more):
    """GDP: g = alpha [T, HO] once a token; k, v, beta have T * num_householder rows."""
    more["num_householder"] = num_householder
    return _named(_GDP, dict(q=q, k=k, v=v, g=g, beta=beta, cu_seqlens=cu_seqlens, out=out),
                  use_qk_l2norm_in_kernel, state_dtype, more)


@_documented
def recurrent_kda(q, k, v, g=None, beta=None, *, A_log=None, dt_bias=None, cu_seqlens=None,
                  out=None, state_dtype=None, use_qk_l2norm_in_kernel=False, **more):
    """KDA, prefill and decode: g = ln alpha [T, HO, K], or raw with use_gate_in_kernel, A_log,
    dt_bias and lower_bound; beta [T, HO], a logit with beta_is_logit."""
    return _named(_KDA, dict(q=q, k=k, v=v, g=g, beta=beta, A_log=A_log, dt_bias=dt_bias,
                             cu_seqlens=cu_seqlens, out=out),
                  use_qk_l2norm_in_kernel, state_dtype, more)


_OPTIONS = set(_calls.DELTA_OPTIONS.names) - {"use_qk_l2norm"}


def _named(rule: int, given: dict, l2norm, state_dtype, more: dict):
    options = {"use_qk_l2norm": _calls.flag("use_qk_l2norm_in_kernel", l2norm)}
    for name, value in more.items():
        if name in _OPTIONS:
            options[name] = value
        elif name in _calls.DELTA.arrays and name not in given:
            given[name] = value
        else:
            raise TypeError(f"unexpected argument {name!r}")
    return _run(rule, given, options, state_dtype)


def gated_delta_rule_decode_pretranspose(
    q, k, v, state_pool, state_indices, A_log, a, dt_bias, b, *, scale=None, out=None,
    use_qk_l2norm=True, output_state_indices=None, state_slots=None, num_accepted_tokens=None,
    disable_state_update=False, record_k=None, record_d=None, record_decay=None,
    has_initial_state=None, backend="auto",
):
    """GDN decode over V-major states: q, k, v [B, T, H, D], a, b [B, T, HO], A_log, dt_bias [HO].

    alpha = exp(-exp(A_log) softplus(a + dt_bias)), beta = sigmoid(b). state_pool [P, HO, V, K] is
    updated in place at state_indices [B] (< 0: zero output, nothing written).
    Returns o [B, T, HO, V].
    """
    _arrays.require_all_writable(_WRITTEN_BY_DECODE,
                                 (state_pool, out, record_k, record_d, record_decay))
    if out is None:
        out = _new_output(q, v, None)
    options = _DECODE_OPTIONS.changed((scale, use_qk_l2norm, disable_state_update, backend))
    arrays = (q, k, v, a, b, A_log, dt_bias, state_pool, state_indices, output_state_indices,
              has_initial_state, state_slots, num_accepted_tokens, record_k, record_d,
              record_decay, out, *_NO_PREFILL_ARRAYS)
    _calls.call(_calls.DELTA, arrays, [_DECODE, *options])
    return out


def _v_major(state):
    """The state with K last and contiguous: a copy, or the same memory where that is so already."""
    swapped = state.swapaxes(-1, -2)
    return swapped.contiguous() if hasattr(swapped, "contiguous") else swapped.copy()


def gated_delta_rule_decode(q, k, v, state, A_log, a, dt_bias, b, *, scale=None, out=None,
                            use_qk_l2norm=True, backend="auto"):
    """GDN decode over K-major states: state [B, HV, K, V] float32, T = 1.

    Returns o [B, 1, HO, V] and the new state, K-major; the given state is not changed.
    """
    _arrays.require_rank("q", q, (4,))
    _arrays.require_rank("v", v, (4,))
    _arrays.require_rank("state", state, (4,))
    if q.shape[1] != 1:
        raise ValueError(f"q must be [B, 1, H, K], got {tuple(q.shape)}")
    wanted = (q.shape[0], max(q.shape[2], v.shape[2]), q.shape[3], v.shape[3])
    if tuple(state.shape) != wanted or _arrays.dtype_name(state) != "float32":
        raise ValueError(f"state must be float32 {wanted} [B, HV, K, V], "
                         f"got {_arrays.dtype_name(state)} {tuple(state.shape)}")
    _arrays.require_same_device("state", state, "q", q)
    given = dict(q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias,
                 initial_state=_v_major(state), out=out)
    o, new_state = _run(_DECODE, given, dict(
        scale=scale, use_qk_l2norm=use_qk_l2norm, output_final_state=True, backend=backend))
    return o, new_state.swapaxes(-1, -2)


def commit(state_pool, state_indices, record_k, record_d, record_decay, accepted, *,
           num_householder=1, backend="auto") -> None:
    """Advances state_pool rows by the first accepted[i] tokens of a replay record, in place."""
    _arrays.require_rank("state_pool", state_pool, (4,))
    _arrays.require_writable("state_pool", state_pool)
    options = _calls.COMMIT_OPTIONS.changed((num_householder, backend))
    arrays = (state_pool, state_indices, record_k, record_d, record_decay, accepted)
    _calls.call(_calls.COMMIT, arrays, options)

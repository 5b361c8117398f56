# SPDX-License-Identifier: Apache-2.0
"""Positional argument lists of the compiled entries, in the order of python/src/module.cpp."""

from __future__ import annotations

import operator
import threading

import numpy as np

from . import _arrays, _library

_BASES = ("log2", "ln")
_LAYOUTS = ("NHD", "HND")
_GATE_DOMAINS = {None: 0, "linear": 1, "log": 2}
_USE_CP = {"auto": 0, True: 1, False: 2}

RAGGED = (
    "q", "k", "v", "qo_indptr", "kv_indptr", "sinks", "custom_mask", "packed_custom_mask", "o",
    "lse",
)
TABLE = ("kv_indptr", "kv_indices", "kv_last_page_len", "block_tables", "kv_lens")
PAGED = (
    "q", "k_cache", "v_cache", "kv_cache", "qo_indptr", "sinks", "custom_mask",
    "packed_custom_mask", "o", "lse",
) + TABLE
DECODE = (
    "q", "k_cache", "v_cache", "kv_cache", "sinks", "custom_mask", "packed_custom_mask", "o", "lse",
) + TABLE
APPEND = ("k", "v", "batch_indices", "positions", "k_cache", "v_cache", "kv_cache") + TABLE
MERGE = ("v", "s", "o", "lse")
DELTA = (
    "q", "k", "v", "g", "beta", "w", "a", "b", "A_log", "dt_bias", "cu_seqlens", "initial_state",
    "output_state", "state_pool", "output_state_pool", "state_indices", "output_state_indices",
    "has_initial_state", "state_checkpoints", "checkpoint_cu_starts", "checkpoint_state_indices",
    "state_slots", "num_accepted_tokens", "record_k", "record_d", "record_decay", "o",
)
COMMIT = ("state_pool", "state_indices", "record_k", "record_d", "record_decay", "accepted")


def _choice(name: str, value, allowed):
    if isinstance(value, (str, bool, int, type(None))) and value in allowed:
        return value
    listed = ", ".join(repr(entry) for entry in allowed)
    raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def _integer(name: str, value) -> int:
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} must fit 64 bits, got {value}")
    return value


def _optional_integer(name: str, value) -> int:
    return 0 if value is None else _integer(name, value)


def _real(name: str, value) -> float | None:
    if value is None:
        return None
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a number or None, got {value!r}")
    if getattr(value, "ndim", 0) != 0:
        raise TypeError(f"{name} must be a number or None, got an array of {tuple(value.shape)}")
    return float(value)


def flag(name: str, value) -> bool:
    """True or False. Raises TypeError for anything else."""
    if isinstance(value, (bool, int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def _text(name: str, value) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} must be a string, got {value!r}")


def attention_options(o: dict) -> list:
    """Options of the attention calls. Raises ValueError for an unknown layout or base."""
    return [
        _real("scale", o.get("scale")), flag("causal", o.get("causal", False)),
        _integer("window_left", o.get("window_left", -1)),
        _integer("window_right", o.get("window_right", -1)),
        _real("logits_soft_cap", o.get("logits_soft_cap")) or 0.0,
        _choice("lse_base", o.get("lse_base", "log2"), _BASES),
        kv_layout(o.get("kv_layout", "NHD")),
        _integer("q_len_per_req", o.get("q_len_per_req", 1)),
        _integer("max_qo_len", o.get("max_qo_len", 0)),
        _integer("max_kv_len", o.get("max_kv_len", 0)),
        _optional_integer("fixed_split_size", o.get("fixed_split_size")),
        flag("disable_split_kv", o.get("disable_split_kv", False)),
        flag("batch_invariant", o.get("batch_invariant", False)),
        backend(o.get("backend", "auto")),
    ]


def kv_layout(value) -> str:
    """The layout. Raises ValueError for an unknown one."""
    return _choice("kv_layout", value, _LAYOUTS)


def backend(value) -> str:
    """The backend's name. Raises TypeError for what is no string."""
    return _text("backend", value)


def householder(value) -> int:
    """num_householder. Raises TypeError for what is no integer."""
    return _integer("num_householder", value)


def delta_options(o: dict) -> list:
    """Options of the delta-rule calls. Raises ValueError for an unknown choice."""
    position = _choice("checkpoint_position", o.get("checkpoint_position", "after"),
                       ("after", "before"))
    l2norm = o.get("use_qk_l2norm")
    return [
        _real("scale", o.get("scale")),
        None if l2norm is None else flag("use_qk_l2norm", l2norm),
        _GATE_DOMAINS[_choice("gate_domain", o.get("gate_domain"), _GATE_DOMAINS)],
        flag("use_gate_in_kernel", o.get("use_gate_in_kernel", False)),
        _real("lower_bound", o.get("lower_bound")),
        flag("beta_is_logit", o.get("beta_is_logit", False)),
        flag("output_final_state", o.get("output_final_state", False)),
        householder(o.get("num_householder", 1)),
        _integer("checkpoint_every_n_tokens", o.get("checkpoint_every_n_tokens", 0)), position,
        flag("disable_state_update", o.get("disable_state_update", False)),
        _USE_CP[_choice("use_cp", o.get("use_cp", "auto"), _USE_CP)],
        _optional_integer("max_seqlen", o.get("max_seqlen")),
        flag("batch_invariant", o.get("batch_invariant", False)),
        backend(o.get("backend", "auto")),
    ]


def tensors(names, given: dict) -> list:
    """Arrays in order; an absent one is None."""
    return [_arrays.to_ffi(given.get(name), name) for name in names]


_local = threading.local()


def call(op: str, lead, arguments: list) -> None:
    """Runs one operation where `lead`, the leading array, lives."""
    context = _library.context_of(_arrays.device_of(lead))
    if getattr(_local, "explanations", None) is not None:
        _local.explanations.append(str(_library.explain(context, op, *arguments)))
        return
    _arrays.call_on_stream(lead, _library.call, context, op, *arguments)


def explain(function, *args, **kwargs) -> str:
    """What the planner would choose for function(*args, **kwargs), and why; nothing runs.

    Names the chosen kernel and the runner-up, why every other kernel rejects the call, the
    schedule, and whether bits depend on the shape. Raises as the call itself would.
    """
    _local.explanations = []
    try:
        function(*args, **kwargs)
        return "\n".join(_local.explanations)
    finally:
        _local.explanations = None

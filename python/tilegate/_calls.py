# SPDX-License-Identifier: Apache-2.0
"""Positional argument lists of the compiled entries, in the order of python/src/calls.cpp."""

from __future__ import annotations

import operator
from itertools import compress
from typing import NamedTuple

import numpy as np

from . import _arrays, _library

NO_SOFT_CAP = 0.0
_BACKENDS = ("auto", "reference", "cpu", "cuda", "cudnn")
_TABLE = ("kv_indptr", "kv_indices", "kv_last_page_len", "block_tables", "kv_lens")


class Operation(NamedTuple):
    """Its number in the compiled library, and the names of its arrays in Python.

    By the first of them a call goes to a device and stream.
    """

    number: int
    arrays: tuple[str, ...]


RAGGED = Operation(0, (
    "q", "k", "v", "qo_indptr", "kv_indptr", "sinks", "custom_mask", "packed_custom_mask", "out",
    "lse",
))
PAGED = Operation(1, (
    "q", "k_cache", "v_cache", "kv_cache", "qo_indptr", "sinks", "custom_mask",
    "packed_custom_mask", "out", "lse", *_TABLE,
))
DECODE = Operation(2, (
    "q", "k_cache", "v_cache", "kv_cache", "sinks", "custom_mask", "packed_custom_mask", "out",
    "lse", *_TABLE,
))
APPEND = Operation(3, (
    "k", "v", "batch_indices", "positions", "k_cache", "v_cache", "kv_cache", *_TABLE,
))
MERGE = Operation(4, ("v", "s", "out", "lse"))
# Those of a decode step come first: linear.py writes them down in this order.
DELTA = Operation(5, (
    "q", "k", "v", "a", "b", "A_log", "dt_bias", "state_pool", "state_indices",
    "output_state_indices", "has_initial_state", "state_slots", "num_accepted_tokens", "record_k",
    "record_d", "record_decay", "out",
    "g", "beta", "w", "cu_seqlens", "initial_state", "output_state", "output_state_pool",
    "state_checkpoints", "checkpoint_cu_starts", "checkpoint_state_indices",
))
COMMIT = Operation(6, (
    "state_pool", "state_indices", "record_k", "record_d", "record_decay", "accepted",
))


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


def _real(name: str, value) -> float:
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a number or None, got {value!r}")
    if getattr(value, "ndim", 0) != 0:
        raise TypeError(f"{name} must be a number or None, got an array of {tuple(value.shape)}")
    return float(value)


def _soft_cap(name: str, value) -> float:
    return 0.0 if value is None else _real(name, value)


def flag(name: str, value) -> bool:
    """True or False. Raises TypeError for anything else."""
    if value is True or value is False:
        return value
    if isinstance(value, (int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def _text(name: str, value) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} must be a string, got {value!r}")


class _Option(NamedTuple):
    """An option: its default, and what makes the compiled library's value of another one."""

    name: str
    default: object
    check: object


def _number_of(choices: dict):
    """The check of an option with few values: gives the number of the one that was chosen."""
    return lambda name, value: choices[_choice(name, value, choices)]


def _backend(name: str, value) -> int:
    return _BACKENDS.index(_choice(name, _text(name, value), _BACKENDS))


class Options:
    """The options of an operation, numbered as in python/src/calls.cpp."""

    def __init__(self, *options: _Option, numbers=None):
        self._options = options
        self._places = range(len(options))
        self._numbers = self._places if numbers is None else numbers
        self.names = tuple(option.name for option in options)
        self._defaults = tuple(option.default for option in options)

    def part(self, **defaults) -> Options:
        """A few of them, where an absent one means what is given here."""
        numbers = [self.names.index(name) for name in defaults]
        return Options(*(self._options[number]._replace(default=defaults[self.names[number]])
                         for number in numbers), numbers=numbers)

    def changed(self, values: tuple) -> list:
        """Number and checked value of each of `values`, given in order, that is not the default.

        Raises TypeError or ValueError that names the option.
        """
        try:
            if values == self._defaults:
                return []
        except ValueError:  # an array, which does not say what it equals
            pass
        changed = []
        for i in compress(self._places, map(operator.is_not, values, self._defaults)):
            option = self._options[i]
            changed += self._numbers[i], option.check(option.name, values[i])
        return changed

    def changed_by_name(self, given: dict) -> list:
        """As changed(), of values by name; an absent one is the default."""
        return self.changed(tuple(map(given.get, self.names, self._defaults)))


_BACKEND = _Option("backend", "auto", _backend)
_KV_LAYOUT = _Option("kv_layout", "NHD", _number_of({"NHD": 0, "HND": 1}))
_HOUSEHOLDER = _Option("num_householder", 1, _integer)

ATTENTION_OPTIONS = Options(
    _Option("scale", None, _real),
    _Option("causal", False, flag),
    _Option("window_left", -1, _integer),
    _Option("window_right", -1, _integer),
    _Option("logits_soft_cap", NO_SOFT_CAP, _soft_cap),
    _Option("lse_base", "log2", _number_of({"log2": 0, "ln": 1})),
    _KV_LAYOUT,
    _Option("q_len_per_req", 1, _integer),
    _Option("max_qo_len", 0, _integer),
    _Option("max_kv_len", 0, _integer),
    _Option("fixed_split_size", None, _integer),
    _Option("disable_split_kv", False, flag),
    _Option("batch_invariant", False, flag),
    _BACKEND,
)
APPEND_OPTIONS = Options(_KV_LAYOUT, _BACKEND)
MERGE_OPTIONS = Options(_BACKEND)
COMMIT_OPTIONS = Options(_HOUSEHOLDER, _BACKEND)
DELTA_OPTIONS = Options(
    _Option("scale", None, _real),
    _Option("use_qk_l2norm", None, flag),
    _Option("gate_domain", None, _number_of({None: 0, "linear": 1, "log": 2})),
    _Option("use_gate_in_kernel", False, flag),
    _Option("lower_bound", None, _real),
    _Option("beta_is_logit", False, flag),
    _Option("output_final_state", False, flag),
    _HOUSEHOLDER,
    _Option("checkpoint_every_n_tokens", 0, _integer),
    _Option("checkpoint_position", "after", _number_of({"after": 0, "before": 1})),
    _Option("disable_state_update", False, flag),
    _Option("use_cp", "auto", _number_of({"auto": 0, True: 1, False: 2})),
    _Option("max_seqlen", None, _integer),
    _Option("batch_invariant", False, flag),
    _BACKEND,
)


def call(operation: Operation, arrays, options: list) -> None:
    """Runs one operation where the first of its arrays lives.

    arrays: in the order of the operation, None where absent. options: of Options.changed().
    """
    thread = _library.thread
    if _arrays.are_plain(arrays):
        try:
            thread.entry(thread.contexts, False, operation.number, *arrays, *options)
            return
        except (ValueError, TypeError, BufferError):
            pass  # refused before anything ran: what follows says it by name, or converts
        except RuntimeError:
            _arrays.to_ffi(arrays, operation.arrays)
            raise
    converted = _arrays.to_ffi(arrays, operation.arrays)
    with _arrays.stream_of(arrays[0], operation.arrays[0]):
        try:
            thread.entry(thread.contexts, True, operation.number, *converted, *options)
        except BufferError:  # an array is not exported as it is: nothing ran
            converted = map(_arrays.exportable, converted, operation.arrays)
            thread.entry(thread.contexts, True, operation.number, *converted, *options)

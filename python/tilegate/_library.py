# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled library and keeps the contexts of each thread."""

from __future__ import annotations

import operator
import os
import pathlib
import threading

import tvm_ffi

_NAME = "libtilegate_ffi.so"


def _load() -> None:
    """TILEGATE_LIBRARY names the file in a build tree; an installed package has it beside it."""
    path = os.environ.get("TILEGATE_LIBRARY") or str(pathlib.Path(__file__).parent / _NAME)
    if not pathlib.Path(path).exists():
        raise ImportError(f"tilegate's compiled library must be at {path}, got no file")
    tvm_ffi.load_module(path)


_load()
tvm_ffi.error.register_error("NotImplementedError", NotImplementedError)
tvm_ffi.error.register_error("OSError", OSError)

plan = tvm_ffi.get_global_func("tilegate.plan")
run = tvm_ffi.get_global_func("tilegate.run")
call = tvm_ffi.get_global_func("tilegate.call")
plan_explain = tvm_ffi.get_global_func("tilegate.plan_explain")
plan_backend = tvm_ffi.get_global_func("tilegate.plan_backend")
plan_kernel = tvm_ffi.get_global_func("tilegate.plan_kernel")
plan_workspace_bytes = tvm_ffi.get_global_func("tilegate.plan_workspace_bytes")
wait_for_gpu = tvm_ffi.get_global_func("tilegate.wait_for_gpu")
_contexts = tvm_ffi.get_global_func("tilegate.contexts")
_threads = tvm_ffi.get_global_func("tilegate.threads")
_set_threads = tvm_ffi.get_global_func("tilegate.set_threads")
_backends = tvm_ffi.get_global_func("tilegate.backends")
_version = tvm_ffi.get_global_func("tilegate.version")


class Thread(threading.local):
    """What the calls of the current Python thread use."""

    def __init__(self):
        self.contexts = _contexts()  # of every device that was used
        self.entry = call  # what calls are handed to: call, or what takes its arguments


thread = Thread()


def set_num_threads(num_threads: int) -> None:
    """CPU threads of this Python thread's calls, at most what the machine has; 0 means all.

    Raises TypeError for what is no integer, ValueError for one outside of 0..2**31 - 1.
    """
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise TypeError(f"num_threads must be an integer, got {num_threads!r}") from None
    if not 0 <= count < 2**31:
        raise ValueError(f"num_threads must be 0..{2**31 - 1}, got {count}")
    _set_threads(thread.contexts, count)


def get_num_threads() -> int:
    """CPU threads of this Python thread's calls."""
    return _threads(thread.contexts)


def backends() -> dict[str, tuple[bool, str]]:
    """Every backend: (available, version or why it is off)."""
    return {str(name): (str(usable) == "yes", str(text)) for name, usable, text in _backends()}


def version() -> str:
    """The library's version."""
    return str(_version())

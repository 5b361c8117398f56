# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled library and keeps one context a device and thread."""

from __future__ import annotations

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
_context = tvm_ffi.get_global_func("tilegate.context")
_threads = tvm_ffi.get_global_func("tilegate.threads")
_backends = tvm_ffi.get_global_func("tilegate.backends")
_version = tvm_ffi.get_global_func("tilegate.version")

_DLPACK_TYPES = {"cpu": 1, "cuda": 2}


class _Local(threading.local):
    def __init__(self):
        self.contexts = {}


_local = _Local()


def set_num_threads(num_threads: int) -> None:
    """CPU threads of this Python thread's calls, at most what the machine has; 0 means all.

    Raises ValueError when num_threads is negative.
    """
    _local.contexts["cpu", 0] = _context(_DLPACK_TYPES["cpu"], 0, num_threads)


def get_num_threads() -> int:
    """CPU threads of this Python thread's calls."""
    return _threads(context_of("cpu", 0))


def context_of(kind: str, index: int):
    """The calling thread's context of device `index` of kind "cpu" or "cuda"."""
    context = _local.contexts.get((kind, index))
    if context is None:
        context = _local.contexts[kind, index] = _context(_DLPACK_TYPES[kind], index, 0)
    return context


def backends() -> dict[str, tuple[bool, str]]:
    """Every backend: (available, version or why it is off)."""
    return {str(name): (str(usable) == "yes", str(text)) for name, usable, text in _backends()}


def version() -> str:
    """The library's version."""
    return str(_version())

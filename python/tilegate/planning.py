# SPDX-License-Identifier: Apache-2.0
"""Plans: what the planner chose for a call, to look at and to run again."""

from __future__ import annotations

from functools import partial

from . import _arrays, _calls, _library

_OPTIONS = {
    *_calls.ATTENTION_OPTIONS.names, *_calls.DELTA_OPTIONS.names,
    "return_lse", "state_dtype", "use_qk_l2norm_in_kernel",
}


class Plan:
    """The chosen kernel of one call of `function`, for any arrays of the planned layout.

    It holds no array: lengths, page tables and slots are read when it runs, and it may be captured
    in a CUDA graph and replayed with other ones.
    """

    def __init__(self, function, options: dict, planned):
        self._function = function
        self._options = options
        self._planned = planned
        self._run = partial(_library.run, planned, None)

    @property
    def kernel(self) -> str:
        """The kernel's name, "cuda.decode"."""
        return str(_library.plan_kernel(self._planned))

    @property
    def backend(self) -> str:
        """The backend's name, "cuda"."""
        return str(_library.plan_backend(self._planned))

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch memory that run() needs."""
        return _library.plan_workspace_bytes(self._planned)

    def explain(self) -> str:
        """The choice and why: see tilegate.explain."""
        return str(_library.plan_explain(self._planned))

    def run(self, *args, workspace=None, **arrays):
        """The call itself: returns what the function returns. Options are those that were planned.

        workspace: a one-dimensional array of at least workspace_bytes bytes on the same device,
        aligned to 256; without one the call has its own. Raises ValueError for arrays of another
        shape, stride or dtype, MemoryError for a small workspace.
        """
        if not _OPTIONS.isdisjoint(arrays):
            raise TypeError(f"{', '.join(sorted(_OPTIONS & arrays.keys()))} must be given to "
                            "plan(), not to run()")
        run = self._run
        if workspace is not None:
            workspace = _arrays.plain(workspace, "workspace")
            run = partial(_library.run, self._planned, workspace)
        if self._options:
            arrays.update(self._options)
        thread = _library.thread
        thread.entry = run
        try:
            return self._function(*args, **arrays)
        finally:
            thread.entry = _library.call


def plan(function, *args, **kwargs) -> Plan:
    """Plans function(*args, **kwargs), one of this package's operations; nothing runs.

    Raises as the call itself would, and ValueError where `function` is no single operation.
    """
    made = []

    def make(*call):
        made.append(_library.plan(*call))

    _library.thread.entry = make
    try:
        function(*args, **kwargs)
    finally:
        _library.thread.entry = _library.call
    if len(made) != 1:
        raise ValueError(f"function must be one operation of tilegate, got {function!r}, which "
                         f"makes {len(made)} calls")
    options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
    return Plan(function, options, *made)


def explain(function, *args, **kwargs) -> str:
    """What the planner would choose for function(*args, **kwargs), and why; nothing runs.

    Names the chosen kernel and the runner-up, why every other kernel rejects the call, the
    schedule, and whether bits depend on the shape. Raises as the call itself would.
    """
    return plan(function, *args, **kwargs).explain()

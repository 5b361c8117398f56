# SPDX-License-Identifier: Apache-2.0
"""What tilegate needs of an array framework: where an array lives, and new arrays like it.

torch, numpy (with ml_dtypes.bfloat16), cupy and jax are told apart by the module of the array's
type, so none of them is imported unless the caller already did.
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import tvm_ffi

_FRAMEWORKS = ("torch", "numpy", "cupy", "jax")


def framework_of(array) -> str:
    """"torch", "numpy", "cupy" or "jax". Raises ValueError for anything else."""
    root = type(array).__module__.partition(".")[0]
    if root in ("jaxlib", "jax"):
        return "jax"
    if root in _FRAMEWORKS:
        return root
    raise ValueError(
        f"arrays must be torch, numpy, cupy or jax arrays, got {type(array).__name__}"
    )


def device_of(array) -> tuple[str, int]:
    """("cpu" | "cuda", index)."""
    framework = framework_of(array)
    if framework == "torch":
        return array.device.type, array.device.index or 0
    if framework == "cupy":
        return "cuda", array.device.id
    if framework == "jax":
        device = next(iter(array.devices()))
        return ("cuda", device.local_hardware_id) if device.platform == "gpu" else ("cpu", 0)
    return "cpu", 0


def dtype_name(array) -> str:
    """"float32", "bfloat16", ..."""
    return str(array.dtype).removeprefix("torch.")


def full_like(array, shape, dtype: str, value: float):
    """A new array of array's framework and device. A jax array is written before it is seen."""
    framework = framework_of(array)
    if framework == "torch":
        torch = sys.modules["torch"]
        return torch.full(tuple(shape), value, dtype=getattr(torch, dtype), device=array.device)
    if framework == "jax":
        jax = sys.modules["jax"]
        made = jax.numpy.full(tuple(shape), value, dtype=_numpy_dtype(dtype), device=array.device)
        return made.block_until_ready()
    module = sys.modules[framework]
    return module.full(tuple(shape), value, dtype=_numpy_dtype(dtype))


def _numpy_dtype(dtype: str):
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def to_ffi(array):
    """What the compiled library takes for this array; None stays None."""
    if array is None:
        return None
    framework = framework_of(array)
    if framework in ("numpy", "cupy"):
        if array.dtype.name == "bfloat16":  # DLPack of numpy knows no bfloat16
            array = array.view(np.uint16)
        elif array.dtype.name == "uint16":
            raise ValueError("arrays must not be uint16, got a uint16 array")
        return _from_numpy(array) if framework == "numpy" else array
    if framework == "jax":
        return tvm_ffi.from_dlpack(array.block_until_ready())
    if array.dtype is getattr(sys.modules["torch"], "uint16", None):
        raise ValueError("arrays must not be uint16, got a uint16 tensor")
    return array.detach() if array.requires_grad else array


def _from_numpy(array):
    if array.flags.writeable:
        return tvm_ffi.from_dlpack(array)
    # numpy does not export read-only arrays. Inputs are only read; outputs are checked elsewhere.
    view = np.lib.stride_tricks.as_strided(array)
    return tvm_ffi.from_dlpack(view if view.flags.writeable else array.copy())


def require_writable(name: str, array) -> None:
    """Raises ValueError for a read-only output."""
    if array is not None and framework_of(array) == "numpy" and not array.flags.writeable:
        raise ValueError(f"{name} must be writable, got a read-only array")
    if array is not None and framework_of(array) == "jax":
        raise ValueError(f"{name} must be absent with jax, whose arrays cannot be written in place")


@contextlib.contextmanager
def stream_of(array):
    """The framework's current stream for the calls inside; torch's is taken by tvm-ffi itself."""
    if framework_of(array) == "cupy":
        stream = sys.modules["cupy"].cuda.get_current_stream().ptr
        with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", array.device.id), stream):
            yield
        return
    yield

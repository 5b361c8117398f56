# SPDX-License-Identifier: Apache-2.0
"""What tilegate needs of an array framework: where an array lives, and new arrays like it.

torch, numpy (with ml_dtypes.bfloat16), cupy and jax are told apart by the module of the array's
type, so none of them is imported unless the caller already did.
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import tvm_ffi

_FRAMEWORKS = ("torch", "numpy", "cupy", "jax")
_MAX_RANK = 6
_DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
_framework_of_type: dict[type, str] = {}


def framework_of(array, name: str = "arrays") -> str:
    """"torch", "numpy", "cupy" or "jax". Raises ValueError, for argument `name`, otherwise."""
    kind = type(array)
    known = _framework_of_type.get(kind)
    if known is not None:
        return known
    root = kind.__module__.partition(".")[0]
    root = "jax" if root == "jaxlib" else root
    if root not in _FRAMEWORKS:
        raise ValueError(f"{name} must be a torch, numpy, cupy or jax array, got {kind.__name__}")
    _framework_of_type[kind] = root
    return root


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


_name_of_dtype: dict = {}


def dtype_name(array) -> str:
    """"float32", "bfloat16", ..."""
    return name_of_dtype(array.dtype)


def name_of_dtype(dtype) -> str:
    """The name of a dtype of any framework; foreign byte order stays in it (">f4")."""
    known = _name_of_dtype.get(dtype)
    if known is None:
        text = dtype.__name__ if isinstance(dtype, type) else str(dtype)
        known = _name_of_dtype[dtype] = text.removeprefix("torch.")
    return known


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
    if value == 0.0:
        return module.zeros(tuple(shape), _numpy_dtype(dtype))
    return module.full(tuple(shape), value, dtype=_numpy_dtype(dtype))


@functools.cache
def _numpy_dtype(dtype: str):
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def require_rank(name: str, array, allowed) -> None:
    """Raises ValueError unless `array` is an array of one of the ranks `allowed`."""
    if array is None:
        raise ValueError(f"{name} must have rank {' or '.join(map(str, allowed))}, got none")
    framework_of(array, name)
    if array.ndim not in allowed:
        raise ValueError(f"{name} must have rank {' or '.join(map(str, allowed))}, "
                         f"got {tuple(array.shape)}")


def _require_storable(name: str, array) -> None:
    if not 1 <= array.ndim <= _MAX_RANK:
        raise ValueError(f"{name} must have rank 1..{_MAX_RANK}, got {tuple(array.shape)}")
    if dtype_name(array) not in _DTYPES:
        raise ValueError(f"{name} must be one of {', '.join(_DTYPES)}, got {dtype_name(array)}")


def to_ffi(array, name: str):
    """What the compiled library takes for argument `name`; None stays None."""
    if array is None:
        return None
    framework = framework_of(array, name)
    _require_storable(name, array)
    if framework in ("numpy", "cupy"):
        if dtype_name(array) == "bfloat16":  # DLPack of numpy has none: as a 16-bit view
            array = array.view(np.uint16)
        return _from_numpy(array) if framework == "numpy" else array
    if framework == "jax":
        return tvm_ffi.from_dlpack(array.block_until_ready())
    return array.detach() if array.requires_grad else array


def _from_numpy(array):
    try:
        return tvm_ffi.from_dlpack(array)
    except BufferError:  # numpy exports no read-only arrays; outputs were checked before
        return tvm_ffi.from_dlpack(array.copy())


def require_writable(name: str, array) -> None:
    """Raises ValueError for a read-only output."""
    if array is None:
        return
    framework = framework_of(array, name)
    if framework == "numpy" and not array.flags.writeable:
        raise ValueError(f"{name} must be writable, got a read-only array")
    if framework == "jax":
        raise ValueError(f"{name} must be absent with jax, whose arrays cannot be written in place")


def call_on_stream(array, function, *arguments):
    """Calls on the framework's current stream; torch's is found by tvm-ffi itself."""
    if framework_of(array) != "cupy":
        return function(*arguments)
    stream = sys.modules["cupy"].cuda.get_current_stream().ptr
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", array.device.id), stream):
        return function(*arguments)
